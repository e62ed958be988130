"""From a text to a trace, and to a whole lesson in HTML, beside the model's own forward passes."""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import lensons
from benchmarks.measure import Setting, compare
from benchmarks.subject import Subject, random_gpt2
from lensons.toy import toy_folder

TEXT = "The animal didn't cross the street because it was too tired."


def measure(setting: Setting) -> dict[str, Any]:
    """A trace and the attention lesson, on the toy and on a model of GPT-2 small's size (random weights)."""
    toy = Subject(
        AutoModelForCausalLM.from_pretrained(toy_folder(), attn_implementation="eager", dtype=torch.float32).eval(),
        lensons.load_model("toy"),
    )
    found = {"trace / forward pass of the text": {"toy": _trace(toy, setting.seconds / 5)}}
    found["lesson, text to HTML"] = {}
    if not setting.small:
        found["lesson, text to HTML"]["toy"] = _lesson(toy)
        large = random_gpt2(tokenizer=AutoTokenizer.from_pretrained(toy_folder()))
        found["trace / forward pass of the text"]["GPT-2 small"] = _trace(large, setting.seconds / 5)
        found["lesson, text to HTML"]["GPT-2 small"] = _lesson(large)
    return found


def _trace(subject: Subject, seconds: float) -> dict[str, Any]:
    trace = lensons.trace(subject.model, TEXT)
    ids = torch.tensor([trace.tokens.ids])
    works = {
        "trace": lambda: lensons.trace(subject.model, TEXT),
        "trace, checked": lambda: lensons.trace(subject.model, TEXT).check(),
        "forward pass": lambda: subject.forward(ids),
    }
    return compare("trace", works, seconds) | {"tokens": ids.shape[1]}


def _lesson(subject: Subject) -> dict[str, Any]:
    """Once only: it takes minutes on a large model. A fresh lesson, so that nothing is known before."""
    ids = torch.tensor([lensons.trace(subject.model, TEXT).tokens.ids])
    passes = []
    for _ in range(5):
        start = time.perf_counter()
        subject.forward(ids.repeat(8, 1))
        passes.append(time.perf_counter() - start)
    with tempfile.TemporaryDirectory() as folder:
        start, processor = time.perf_counter(), time.process_time()
        path = lensons.AttentionLesson(subject.model, TEXT).save(Path(folder, "lesson.html"))
        return {
            "seconds": round(time.perf_counter() - start, 2),
            "processor_seconds": round(time.process_time() - processor, 2),
            "forward_pass_seconds": round(sorted(passes)[2], 4),
            "forward_pass": f"8 x {ids.shape[1]} tokens",
            "page_megabytes": round(path.stat().st_size / 1e6, 3),
        }
