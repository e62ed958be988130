"""What scoring all heads costs: ``python benchmarks/scoring.py``. Ratios inside one run, on a random GPT-2 small.

* four kinds for all 144 heads, 32 prompts x 101 tokens in batches of 8, against Hugging Face's own GPT2LMHeadModel
  (eager, inference mode) on the same ids;
* lensons' three kinds against TransformerLens' ``detect_head`` called for its three kinds, on texts whose tokens
  survive re-tokenization;
* extra peak memory while scoring, in patterns of one layer;
* all 144 x 144 compositions.
"""

import argparse
import json
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import lensons
from lensons import scores
from lensons.models import _from_hugging_face
from lensons.prompts import Batch, repeated_blocks

BOS = "<|endoftext|>"
FOUR = ("previous_token", "duplicate_token", "induction", "first_token")
DETECTOR = {
    "previous_token": "previous_token_head",
    "duplicate_token": "duplicate_token_head",
    "induction": "induction_head",
}


def tokenizer(size: int) -> Any:
    """A tokenizer in which every id is a word of its own, so that a text's tokens survive re-tokenization."""
    vocab = {BOS: 0} | {f"Ġw{i}": i for i in range(1, size)}
    inner = Tokenizer(models.WordLevel(vocab, unk_token=BOS))
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            pre_tokenizers.Split("Ġ", "merged_with_next"),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=BOS, eos_token=BOS, unk_token=BOS)
    folder = tempfile.mkdtemp()
    made.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def seconds(work: Callable[[], Any], repeats: int) -> list[float]:
    """How long the work takes, several times, after one run that warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int) -> dict[str, Any]:
    """Ours / theirs, taken in turns so that whatever else the machine does falls on both."""
    ours(), theirs()
    pairs = []
    for _ in range(repeats):
        pairs.append((seconds_once(ours), seconds_once(theirs)))
    each = [a / b for a, b in pairs]
    return {
        "ratio": round(statistics.median(each), 3),
        "spread": [round(min(each), 3), round(max(each), 3)],
        "seconds": [round(statistics.median(x), 3) for x in zip(*pairs, strict=True)],
    }


def seconds_once(work: Callable[[], Any]) -> float:
    """How long the work takes, once."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_extra(work: Callable[[], Any]) -> int:
    """Bytes of resident memory above the start, at most, while the work runs."""
    page = resource.getpagesize()

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * page

    work()
    start, most, running = resident(), 0, True

    def watch() -> None:
        nonlocal most
        while running:
            most = max(most, resident())
            time.sleep(0.002)

    thread = threading.Thread(target=watch)
    thread.start()
    work()
    running = False
    thread.join()
    return most - start


def main() -> None:
    """Measure, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a small setting, to see that it runs")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.manual_seed(0)
    size = 300 if options.small else 50257
    shape = {"n_layer": 2, "n_embd": 64, "n_head": 4} if options.small else {}
    config = GPT2Config(vocab_size=size, bos_token_id=0, eos_token_id=0, attn_implementation="eager", **shape)
    words = tokenizer(size)
    hf = GPT2LMHeadModel(config).eval()
    model = _from_hugging_face(
        GPT2LMHeadModel(config).eval(), words, "random GPT-2 small", None, False, torch.device("cpu")
    )
    prompts = repeated_blocks(model, 4 if options.small else 32, 10 if options.small else 50)
    batches = prompts.batches(8)

    def bare() -> None:
        with torch.inference_mode():
            for batch in batches:
                hf(batch.ids)

    ids = Batch.of(prompts.ids).ids
    report: dict[str, Any] = {"engine": model.engine, "torch": torch.__version__, "threads": torch.get_num_threads()}
    report["four kinds / Hugging Face's full forward pass"] = ratio(
        lambda: lensons.score_heads(model, ids, kinds=FOUR), bare, options.repeats
    )
    few = list(prompts.ids)[: 2 if options.small else 4]
    texts = [words.decode(list(p)[1:]) for p in few]
    from transformer_lens.head_detector import detect_head

    def detector() -> None:
        for text in texts:
            for name in DETECTOR.values():
                detect_head(model.raw, text, name, error_measure="mul")

    report["three kinds / detect_head"] = ratio(
        lambda: lensons.score_heads(model, [list(p) for p in few], kinds=list(DETECTOR)), detector, options.repeats
    )
    batch = batches[0]
    length = batch.ids.shape[1]
    one_pattern = len(batch.ids) * model.n_heads * length**2 * 4

    def stopped_pass() -> None:
        model.run(batch.ids, {}, stop_after=("pattern", model.n_layers - 1))

    scoring = peak_extra(lambda: lensons.score_heads(model, batch.ids, kinds=FOUR))
    report["extra peak memory, in patterns of one layer, above the same pass without scoring"] = round(
        max(0, scoring - peak_extra(stopped_pass)) / one_pattern, 2
    )
    weights = [model.attention_weights(name) for name in ("W_Q", "W_K", "W_V")]
    w_o = model.output_weights()[0]
    report["all compositions q, k and v, seconds"] = round(
        statistics.median(seconds(lambda: [scores.composition(k, *weights, w_o) for k in ("q", "k", "v")], 1)), 2
    )
    json.dump(report, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
