"""Tokens: ids, bytes, texts and labels."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lensons.errors import InputError
from lensons.models import LoadedModel
from lensons.tokens import Piece, describe, tokenize, visible
from tests.conftest import SENTENCE


@pytest.fixture(scope="module")
def gpt2(gpt2_tokenizer):
    """Just enough of GPT-2 to tokenize: its own tokenizer and sizes, no weights."""
    return LoadedModel(None, "gpt2", None, False, gpt2_tokenizer, 12, 12, 12, 64, 768, 1024, 50257)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("I \U0001f4a9 it", [40, 12520, 240, 102, 340]),
        ("地", [28839, 108]),
        ("\U0001f600", [47249, 222]),
        ("e\u0301", [68, 136, 223]),
        ("a\n\nb", [64, 198, 198, 65]),
        ("   x", [220, 220, 2124]),
        ("\r\n", [201, 198]),
        ("a\u200bb", [64, 9525, 65]),
        ("x\u00a0y", [87, 1849, 88]),
        ("can can", [5171, 460]),
        (" can can", [460, 460]),
        ("hello, this is Tom .", [31373, 11, 428, 318, 4186, 764]),
    ],
)
def test_gpt2_ids_and_bytes(gpt2, text, ids):
    """HO-05, HO-06, HO-07, HO-15: GPT-2's ids; as many labels as tokens; the joined bytes are the text."""
    tokens = tokenize(gpt2, text, prepend_bos=False)
    assert list(tokens.ids) == ids
    assert len(tokens.labels) == len(tokens.texts) == len(tokens.bytes) == len(ids)
    assert b"".join(tokens.bytes).decode() == text == tokens.text


def test_parts_of_a_character_show_their_bytes(gpt2):
    """HO-06: a token that is part of a character shows its bytes and which part it is."""
    tokens = tokenize(gpt2, "I \U0001f4a9 it", prepend_bos=False)
    assert tokens.labels[1:4] == ("␣\\xf0\\x9f", "\\x92", "\\xa9")
    assert tokens.texts[1:4] == (" \\xf0\\x9f", "\\x92", "\\xa9")
    assert tokens.pieces == (
        None,
        Piece(1, 3, "\U0001f4a9"),
        Piece(2, 3, "\U0001f4a9"),
        Piece(3, 3, "\U0001f4a9"),
        None,
    )


def test_what_cannot_be_seen_is_named(gpt2):
    """HO-07: spaces, newlines, zero-width and no-break spaces have visible, distinct labels without line breaks."""
    sources = ("a\n\nb", "   x", "\r\n", "a\u200bb", "x\u00a0y", "\t", "can can")
    prompts = [tokenize(gpt2, source, prepend_bos=False) for source in sources]
    seen = {label: text for t in prompts for label, text in zip(t.labels, t.texts, strict=True)}
    for label in ("\\n", "\\r", "\\t", "␣", "⟨U+200B⟩", "⟨U+00A0⟩", "can", "␣can"):
        assert label in seen
    assert all(label.isprintable() and label.strip() == label for label in seen)
    assert not any(mark in label for label in seen for mark in "ĠĊ")
    assert seen["\\n"] == "\n"


@given(st.text(max_size=40), st.text(max_size=40))
def test_labels_are_one_to_one(a, b):
    """Two different texts never get the same label, and a label never holds anything invisible."""
    assert (visible(a) == visible(b)) == (a == b)
    assert visible(a).isprintable()
    assert " " not in visible(a)


@given(st.text(min_size=1, max_size=60))
def test_any_text_comes_back(small_gpt2, text):
    """Whatever the text, the joined bytes of its tokens are that text, and labels and texts are as many."""
    tokens = tokenize(small_gpt2, text[:25])
    assert b"".join(tokens.bytes).decode() == text[:25]
    assert len(tokens.ids) == len(tokens.labels) == len(tokens.texts) == len(tokens.pieces) == len(tokens.special)


def test_bos_is_there_once(small_gpt2):
    """HO-16: text gets BOS, ids are as given; asked for, one is added, and never a second."""
    bos = small_gpt2.bos_id
    text = tokenize(small_gpt2, "the")
    assert (text.ids[0], text.has_bos, text.labels[0]) == (bos, True, "⟨BOS⟩")
    bare = tokenize(small_gpt2, "the", prepend_bos=False)
    assert bare.ids == text.ids[1:]
    assert not bare.has_bos
    given_ids = tokenize(small_gpt2, list(bare.ids))
    assert given_ids == bare
    for ids in (bare.ids, text.ids):
        assert tokenize(small_gpt2, ids, prepend_bos=True) == text
    assert tokenize(small_gpt2, text.ids).has_bos
    assert tokenize(small_gpt2, "<|endoftext|>the").ids == text.ids


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        np.array,
        torch.tensor,
        lambda ids: [ids],
        lambda ids: torch.tensor([ids]),
        lambda ids: [np.int64(i) for i in ids],
    ],
)
def test_ids_in_any_form(small_gpt2, form):
    """A list, a tuple, an array, [pos] and [1, pos] are the same prompt."""
    ids = list(tokenize(small_gpt2, SENTENCE).ids)
    assert tokenize(small_gpt2, form(ids)).ids == tuple(ids)


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ("", "empty"),
        ([], "empty"),
        ([[]], "empty"),
        (torch.zeros(2, 3, dtype=torch.long), "batch of 2"),
        (torch.zeros(3), "float32"),
        (torch.ones(3, dtype=torch.bool), "bool"),
        (torch.zeros(1, 1, 3, dtype=torch.long), r"\[1, 1, 3\]"),
        ([1.0, 2.0], "whole numbers"),
        ([True], "whole numbers"),
        ([[1, 2], [3, 4]], "whole numbers"),
        ([10**9], "no token 1000000000"),
        ([-1], "no token -1"),
        (None, "neither text nor ids"),
        (7, "neither text nor ids"),
        (b"the", "neither text nor ids"),
        ("half \ud83d", "surrogate"),
    ],
)
def test_bad_prompts_are_one_clear_error(small_gpt2, prompt, says):
    """What cannot be a prompt is a ValueError that says what was given."""
    with pytest.raises(InputError, match=says) as caught:
        tokenize(small_gpt2, prompt)
    assert isinstance(caught.value, ValueError)


def test_the_limit_counts_bos(small_gpt2):
    """HO-17: exactly the limit is allowed; one more names the count, the limit, and that BOS counts."""
    one = (5,)
    assert len(tokenize(small_gpt2, one * 63, prepend_bos=True)) == 64
    with pytest.raises(InputError, match=r"65 tokens, the BOS token counted.*at most 64.*BOS"):
        tokenize(small_gpt2, one * 64, prepend_bos=True)


def test_a_tokenizer_without_bos_says_so(small_gpt2):
    """BOS asked of a tokenizer that has none is an error that names the way on."""

    tokenizer = copy.deepcopy(small_gpt2.tokenizer)
    tokenizer.bos_token = None
    without = dataclasses.replace(small_gpt2, tokenizer=tokenizer)
    with pytest.raises(InputError, match="prepend_bos=False"):
        tokenize(without, "the")
    assert tokenize(without, "the", prepend_bos=False).has_bos is False


def test_a_token_of_500_characters_is_kept_whole(small_gpt2):
    """Nothing is cut: labels and texts hold all of a long token."""
    tokens = describe(small_gpt2, tokenize(small_gpt2, "x" * 30, prepend_bos=False).ids)
    assert "".join(tokens.labels) == "x" * 30
