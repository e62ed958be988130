"""The toy model that ships: really trained, and what its card says, measured anew by Hugging Face's own code."""

import json
import shutil
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lensons
from lensons.errors import FileError, InputError, ModelError
from lensons.pairs import it_pairs
from lensons.toy import toy_folder, training_record
from tests.conftest import OTHER, ROOT, SENTENCE
from training import measure
from training.text import LESSON_SENTENCES, Storyteller, sample


@pytest.fixture(scope="module")
def loaded():
    return measure.load(toy_folder())


@pytest.fixture(scope="module")
def tokenizer(loaded):
    return loaded[1]


@pytest.fixture(scope="module")
def blocks(loaded):
    return measure.block_scores(*loaded)


@pytest.mark.parametrize(("kind", "least"), [("previous_token", 0.90), ("induction", 0.90), ("duplicate_token", 0.50)])
def test_heads_on_repeated_blocks(blocks, kind, least):
    """The best head of each kind reaches what was asked for, by Hugging Face's attentions and index arithmetic."""
    assert float(blocks["scores"][kind].max()) >= least


def test_our_scorers_agree(blocks, toy):
    """lensons' own scorer gives the same numbers on the same kind of prompts."""
    table = lensons.score_heads(toy, n_prompts=32, seed=0)
    for kind, values in blocks["scores"].items():
        if kind != "induction":  # a block's last token is followed, in its first copy, by the second copy's first
            torch.testing.assert_close(table.values[kind], values, atol=0.02, rtol=0)
        assert int(table.values[kind].argmax()) == int(values.argmax())


def test_the_second_copy_is_easy(blocks):
    """The loss on the second copy is at most a tenth of the first's."""
    assert blocks["second"] <= blocks["first"] / 10


def test_text_beats_a_bigram_model_and_has_a_sink(loaded):
    """On held-out stories the loss is clearly below a bigram model's; the best first-token head is at .50 or more."""
    text = measure.text_numbers(*loaded)
    assert text["loss"] < 0.75 * text["bigram"]
    assert float(text["first_token"].max()) >= 0.50


@pytest.mark.parametrize("clue", ["end", "front"])
def test_it_is_understood(loaded, clue):
    """In nine of ten held-out sentences the right noun is likelier, with the clue at the end and in front."""
    assert measure.right_nouns(*loaded, it_pairs(40, seed=1, clue=clue)) >= 0.9


def test_the_head_the_lesson_finds_matters_for_it(loaded, toy):
    """Silencing the head that the lesson names as most needed in step 1 lowers that by 10 points or more."""
    model, tokenizer = loaded
    pairs = it_pairs(60, seed=1, clue="front")
    head, _ = lensons.AttentionLesson(toy).it().data["search"].most_needed
    whole = measure.right_nouns(model, tokenizer, pairs)
    assert measure.right_nouns(model, tokenizer, pairs, tuple(head)) <= whole - 0.10


def test_the_shape_is_gpt2s(loaded, toy):
    """64 numbers a head, learned positions, tied embedding, 128 tokens of context, float16 on disk, at most 8 MB."""
    config = loaded[0].config
    assert (config.model_type, config.n_embd // config.n_head, config.tie_word_embeddings) == ("gpt2", 64, True)
    assert config.n_positions >= 128
    from safetensors import safe_open

    with safe_open(str(toy_folder() / "model.safetensors"), "pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float16}  # noqa: SIM118
    assert sum(path.stat().st_size for path in toy_folder().iterdir() if path.is_file()) <= 8_000_000
    assert toy.is_toy


@pytest.mark.parametrize("sentence", LESSON_SENTENCES)
def test_the_lessons_words_are_whole(tokenizer, sentence):
    """Every word of the lesson's sentences is one token with its space, split as GPT-2 splits them."""
    import re

    pieces = [tokenizer.decode([i]) for i in tokenizer(sentence)["input_ids"]]
    assert pieces == re.findall(r"'t| ?[A-Za-z]+|[.,]", sentence)


def test_thirteen_tokens_that_differ_in_one(tokenizer):
    """As with GPT-2's tokenizer: 13 tokens each, and only index 11 differs."""
    a, b = (tokenizer(text)["input_ids"] for text in (SENTENCE, OTHER))
    assert len(a) == len(b) == 13
    assert [i for i in range(13) if a[i] != b[i]] == [11]


@given(st.text(max_size=50))
def test_any_text_can_be_tokenized(tokenizer, text):
    """Whatever the text, decoding its ids gives it back."""
    assert tokenizer.decode(tokenizer(text)["input_ids"], clean_up_tokenization_spaces=False) == text


def test_it_loads_quickly(toy):
    """Beyond TransformerLens' import, which `toy` has paid for, loading takes under a second (best of three)."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        lensons.load_model("toy")
        times.append(time.perf_counter() - start)
    assert min(times) < 1.0


def test_loaded_numbers_are_hugging_faces(loaded, toy):
    """The patterns lensons shows are those of Hugging Face's own code (1e-5)."""
    trace = lensons.trace(toy, SENTENCE)
    with torch.no_grad():
        theirs = loaded[0](torch.tensor([trace.tokens.ids]), output_attentions=True).attentions
    torch.testing.assert_close(trace.pattern, torch.cat(theirs), atol=1e-5, rtol=0)


def test_the_record_of_its_training():
    """At 40 moments or more: losses and the scores of every head; the patterns of two sentences at 12 of them."""
    record = training_record()
    moments = len(record.steps)
    assert moments >= 40
    assert bool((record.steps.diff() > 0).all())
    for name in ("tokens_seen", "loss_text", "loss_first", "loss_second"):
        assert getattr(record, name).shape == (moments,)
    assert {kind: tuple(s.shape) for kind, s in record.scores.items()} == dict.fromkeys(
        ("previous_token", "duplicate_token", "induction", "first_token"), (moments, 4, 4)
    )
    assert record.patterns.shape[:4] == (12, 2, 4, 4)
    assert set(record.pattern_steps.tolist()) <= set(record.steps.tolist())
    assert len(record.sentences) == len(record.labels) == 2
    n = len(record.labels[0])
    torch.testing.assert_close(record.patterns[-1, 0, :, :, :n, :n].sum(-1), torch.ones(4, 4, n), atol=0.05, rtol=0)
    # What the phase change is: before it no head looks back and the second copy is as hard as the first.
    assert float(record.scores["induction"][0].max()) < 0.1 < 0.9 < float(record.scores["induction"][-1].max())
    assert float(record.loss_second[0]) > 0.9 * float(record.loss_first[0])
    assert lensons.toy_training().seed == record.seed


def test_the_record_ends_with_the_model_that_ships(blocks):
    """The last moment's scores are those of the weights that ship, up to their rounding and other prompts."""
    record = training_record()
    for kind in ("previous_token", "duplicate_token"):
        torch.testing.assert_close(record.scores[kind][-1], blocks["scores"][kind], atol=0.03, rtol=0)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "training.safetensors"])
@pytest.mark.parametrize("how", ["missing", "broken"])
def test_a_missing_or_broken_file_is_named(tmp_path, monkeypatch, name, how):
    """A file that is missing or cut off: an error that names it, or the folder it is in."""
    folder = tmp_path / "toy"
    shutil.copytree(toy_folder(), folder, ignore=shutil.ignore_patterns("__pycache__"))
    if how == "missing":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes((folder / name).read_bytes()[:50])
    monkeypatch.setattr("lensons.toy.files", lambda _package: folder)
    call = training_record if name == "training.safetensors" else lambda: lensons.load_model("toy")
    with pytest.raises((FileError, ModelError), match=rf"{name}|{folder.name}"):
        call()


def test_stories_are_seeded_and_held_out():
    """The same seed tells the same stories; the two splits share no sentence."""
    assert sample(20) == sample(20)
    told = {}
    for split in ("training", "held-out"):
        teller = Storyteller(5, split).stories()
        stories = [next(teller) for _ in range(400)]
        told[split] = {sentence for story in stories for sentence in story.split(". ")}
        assert len(set(stories)) > 380
    assert not {s for s in told["training"] & told["held-out"] if len(s.split()) > 4}


@pytest.mark.loose
def test_pairs_of_it():
    """Pairs differ in one word, are seeded, never come twice, and never use the lesson's own two nouns."""
    for clue in ("end", "front"):
        pairs = it_pairs(50, seed=3, clue=clue)
        assert pairs == it_pairs(50, seed=3, clue=clue)
        assert len({(p.text_a, p.text_b) for p in pairs}) == 50
        for pair in pairs:
            a, b = (text.replace(".", "").replace(",", "").split() for text in (pair.text_a, pair.text_b))
            assert [(x, y) for x, y in zip(a, b, strict=True) if x != y] == [(pair.word_a, pair.word_b)]
            assert (a.index(pair.word_a) < a.index("it")) == (clue == "front")
            assert (pair.noun_a, pair.noun_b) != ("animal", "street")
    for bad in ({"clue": "middle"}, {"split": "test"}, {"n": 0}, {"n": 10**9}):
        with pytest.raises(InputError):
            it_pairs(**{"n": 1, **bad})


def test_the_card_says_what_is_measured(loaded):
    """The numbers in the model card are those that `python -m training.measure` prints for the weights that ship."""
    card = (ROOT / "docs" / "about" / "toy-model.md").read_text(encoding="utf-8")
    stated = json.loads(card.split("```json\n")[1].split("```")[0])
    measured = json.loads(json.dumps(measure.measure()))
    assert stated == pytest.approx(measured, abs=0.02) if not isinstance(stated, dict) else _close(stated, measured)


def _close(stated, measured):
    if isinstance(stated, dict):
        return stated.keys() == measured.keys() and all(_close(stated[k], measured[k]) for k in stated)
    return stated == measured if isinstance(stated, str) else stated == pytest.approx(measured, abs=0.02)
