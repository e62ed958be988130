"""The lesson on induction heads: found, looked at, and taken out."""

import pytest
import torch

import lensons
from lensons.errors import InputError
from lensons.lessons.circuit import Circuit
from lensons.scores import composition, induction

STEPS = ["second-copy", "two-heads", "composition", "take-out"]


@pytest.fixture(scope="module")
def lesson(toy):
    return lensons.InductionLesson(toy)


def test_four_steps(lesson, tmp_path):
    """Four steps, each with a figure, a question with a reason for every choice, and what it does not show."""
    assert [step.name for step in lesson.steps] == STEPS
    page = lesson.save(tmp_path / "induction.html").read_text(encoding="utf-8")
    for step in lesson.steps:
        assert f'id="{step.name}"' in page
        assert step.figures
        assert len(step.question.choices) == len(step.question.reasons) >= 2
        assert len(set(step.question.choices)) == len(step.question.choices)
        assert step.not_shown
    assert list(lesson.questions) == STEPS
    assert lesson.worksheet(tmp_path / "worksheet.html").is_file()


def test_the_toys_circuit_is_the_textbook_one(lesson):
    """In the toy a previous-token head below feeds an induction head above, which is lost without it."""
    e = lesson.evidence
    assert e.lower.layer < e.upper.layer
    assert float(e.scores.values["induction"][e.upper]) > 0.9
    assert float(e.scores.values["previous_token"][e.lower]) > 0.8
    assert e.lower_rank == 1
    scores = e.upper_score_without
    assert scores[None] > 0.9
    assert scores[e.lower] < 0.2
    assert e.repeated.second_copy < 0.1 * e.repeated.first_copy


def test_scores_without_a_head_by_another_way(lesson, toy):
    """The upper head's score without the lower one equals that of a copy whose weights W_O are zeroed there."""
    from lensons.models import copy_of
    from lensons.prompts import repeated_blocks

    e = lesson.evidence
    copy = copy_of(toy)
    with torch.no_grad():
        copy.raw.blocks[e.lower.layer].attn.W_O[e.lower.head] = 0
    ids = torch.tensor(repeated_blocks(toy, 8).ids)
    patterns = torch.stack([lensons.trace(copy, row.tolist()).pattern[e.upper.layer, e.upper.head] for row in ids])
    expected = induction(patterns, ids, bos=ids == toy.bos_id).mean()
    assert e.upper_score_without[e.lower] == pytest.approx(float(expected), abs=1e-5)


def test_composition_is_that_of_all_pairs(small_gpt2, small_llama):
    """K-composition with the one upper head equals that head's part of the table of all pairs."""
    for model in (small_gpt2, small_llama):
        circuit = Circuit(model)
        weights = [model.attention_weights(name) for name in ("W_Q", "W_K", "W_V")]
        every = composition("k", *weights, model.output_weights()[0])[:, :, circuit.upper.layer, circuit.upper.head]
        torch.testing.assert_close(circuit.k_composition, every, equal_nan=True)
        assert circuit.lower_rank == 1 + int((every.nan_to_num(-1) > every[circuit.lower]).sum())


def test_answers_are_computed(lesson):
    """Each right answer follows from the numbers of its step."""
    key, e = lesson.questions, lesson.evidence
    losses = lesson.second_copy().data["loss"][-e.repeated.block_len :]
    easy = next(i for i, loss in enumerate(losses) if loss < e.repeated.first_copy / 2)
    assert key["second-copy"].answer == min(easy, 2)
    query = lesson.two_heads().data["query"]
    best = int(e.shown.head(e.upper).pattern[query].argmax())
    assert f"at position {best}:" in key["two-heads"].choices[key["two-heads"].answer]
    top = int(e.k_composition.nan_to_num(-1).argmax())
    assert f"L{top // 4}H{top % 4}:" in key["composition"].choices[key["composition"].answer]
    changes = lesson.take_out().data["changes"]
    harder = max(changes, key=lambda head: changes[head].second)
    assert str(harder) in key["take-out"].choices[key["take-out"].answer]


def test_models_without_such_heads(small_gpt2, small_llama, tmp_path):
    """Random weights: the lesson runs, and says that the scores are low and that the second copy is not easier."""
    for model in (small_gpt2, small_llama):
        lesson = lensons.InductionLesson(model)
        lesson.save(tmp_path / "x.html")
        assert "they are low" in str(lesson.two_heads().html())
        step = lesson.second_copy()
        assert step.question.choices[step.question.answer] == "None of them."
        assert "does not look back" in str(step.html())


def test_one_layer_is_too_few(tmp_path, gpt2_folder):
    """A model with one layer can't have the circuit: one clear error."""
    from transformers import GPT2Config, GPT2LMHeadModel

    for file in gpt2_folder.glob("tokenizer*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    GPT2LMHeadModel(GPT2Config(vocab_size=420, n_positions=40, n_embd=16, n_layer=1, n_head=2)).save_pretrained(
        tmp_path
    )
    with pytest.raises(InputError, match="one layer"):
        lensons.InductionLesson(tmp_path)


@pytest.mark.smollm2
def test_smollm2(smollm2, few_prompts, tmp_path):
    """A real model of another kind: every step is there."""
    page = lensons.InductionLesson(smollm2).save(tmp_path / "x.html").read_text(encoding="utf-8")
    assert all(f'id="{step}"' in page for step in STEPS)
