"""Beyond GPT-2: a real language model with grouped keys and values and rotary positions."""

import pytest
import torch

import lensons
from tests.conftest import SENTENCE

pytestmark = pytest.mark.smollm2


def test_the_trace_check_passes(smollm2):
    """30 layers x 9 heads, 3 keys and values a layer: every stage agrees with the model's hooks to 1e-5."""
    trace = lensons.trace(smollm2, SENTENCE)
    assert trace.pattern.shape[:2] == (30, 9)
    assert trace.n_kv_heads == 3
    assert trace.check().largest <= 1e-5
    assert b"".join(trace.tokens.bytes).decode() == SENTENCE


def test_patterns_are_hugging_faces(smollm2, smollm2_folder):
    """The patterns are those of Hugging Face's own eager attention, to 1e-5."""
    from transformers import AutoModelForCausalLM

    hf = AutoModelForCausalLM.from_pretrained(smollm2_folder, attn_implementation="eager", dtype=torch.float32).eval()
    trace = lensons.trace(smollm2, SENTENCE)
    with torch.no_grad():
        theirs = hf(torch.tensor([trace.tokens.ids]), output_attentions=True).attentions
    torch.testing.assert_close(trace.pattern, torch.stack(theirs)[:, 0], atol=1e-5, rtol=0)


def test_scores_are_those_of_hugging_faces_attentions(smollm2, smollm2_folder):
    """score_heads equals a mean of the pure functions on Hugging Face's own eager attentions, for every head (1e-5)."""
    from transformers import AutoModelForCausalLM

    from lensons import scores
    from lensons.prompts import repeated_blocks

    hf = AutoModelForCausalLM.from_pretrained(smollm2_folder, attn_implementation="eager", dtype=torch.float32).eval()
    table = lensons.score_heads(smollm2, n_prompts=2, block_len=20)
    ids = torch.tensor(repeated_blocks(smollm2, 2, 20).ids)
    with torch.no_grad():
        attentions = hf(ids, output_attentions=True).attentions
    for kind in scores.KINDS:
        theirs = scores.score(kind, attentions, ids, bos=True).mean(1)
        torch.testing.assert_close(table.values[kind], theirs, atol=1e-5, rtol=0)
    assert float(table.values["induction"].max()) > 0.5
