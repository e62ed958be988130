"""The real GPT-2 small against what is published of it; and a stand-in of its shape, so that the code always runs."""

from pathlib import Path
from typing import Any

import pytest
import torch

import lensons
from lensons.errors import ModelError
from lensons.models import _from_hugging_face
from tests.conftest import SENTENCE


def measured(model: Any, folder: Path, n_prompts: int) -> dict[str, Any]:
    """What is compared with the literature."""
    table = lensons.score_heads(model, n_prompts=n_prompts)
    lesson = lensons.AttentionLesson(model)
    return {
        "previous token, 4.11": float(table.values["previous_token"][4, 11]),
        "five strongest induction heads": {head.dotted for head, _ in table.top("induction", 5)},
        "check": lensons.trace(model, SENTENCE).check().largest,
        "lesson": lesson.save(folder / "attention.html").stat().st_size,
    }


@pytest.mark.slow
def test_a_stand_in_of_gpt2s_shape(small_tokenizer, tmp_path):
    """12 layers x 12 heads of random weights: the same code runs, the check passes, the page stays under 3 MB."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(small_tokenizer), n_embd=96, n_positions=128, bos_token_id=0, eos_token_id=0,
        attn_implementation="eager", initializer_range=0.2,
    )  # fmt: skip
    hf = GPT2LMHeadModel(config).eval()
    model = _from_hugging_face(hf, small_tokenizer, "stand-in", None, False, torch.device("cpu"))
    found = measured(model, tmp_path, 2)
    assert found["check"] <= 1e-5
    assert len(found["five strongest induction heads"]) == 5
    assert 0 < found["previous token, 4.11"] < 0.5
    assert found["lesson"] < 3_000_000


@pytest.mark.gpt2
def test_gpt2_small_is_as_published(tmp_path):
    """Head 4.11 scores .95 or more on previous tokens; the five induction heads are those of the literature."""
    try:
        model = lensons.load_model("gpt2")
    except ModelError as error:
        pytest.skip(f"GPT-2's weights cannot be had here: {error}"[:200])
    found = measured(model, tmp_path, 32)
    assert found["previous token, 4.11"] >= 0.95
    assert found["five strongest induction heads"] == {"5.1", "5.5", "6.9", "7.2", "7.10"}
    assert found["check"] <= 1e-5
    assert found["lesson"] < 3_000_000
