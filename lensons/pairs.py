"""Pairs of sentences in which one changed word changes what "it" means.

"The dog didn't cross the road because it was too tired." is about the dog; with "wide" as the last word it
is about the road. The lesson uses such pairs to look for a head that follows the meaning, with any model;
the toy model has read sentences of the same making. Nothing here needs a model: plain Python, and the same
seed always gives the same pairs.
"""

import random
import zlib
from dataclasses import dataclass
from itertools import product
from typing import Literal

from lensons.errors import InputError
from lensons.options import whole_number

FOLLOW_UP = " The"
"""What a next sentence begins with. After it, the right noun should be likelier than the other one."""

ANIMALS = (
    "animal", "dog", "cat", "horse", "cow", "pig", "fox", "bear", "duck", "goat", "rabbit", "lion", "sheep", "wolf",
)  # fmt: skip
PLACES = (
    "street", "road", "river", "bridge", "field", "lake", "hill", "garden", "yard", "park", "forest", "path",
)  # fmt: skip
FEELINGS = ("tired", "hungry", "scared", "sick", "weak", "lazy", "old", "sleepy")
SHAPES = ("wide", "long", "steep", "dark", "wet", "muddy", "busy", "narrow")
VERBS = ("cross", "enter", "leave")
NEGATIONS = ("didn't", "couldn't", "wouldn't")

Clue = Literal["end", "front"]
Split = Literal["held-out", "training"]
LESSON_NOUNS = ("animal", "street")


@dataclass(frozen=True)
class ItPair:
    """Two sentences that differ in one word, and what "it" means in each.

    ``text_a`` contains ``word_a`` and is about ``noun_a``; ``text_b`` contains ``word_b`` and is about
    ``noun_b``. Both nouns stand in both sentences, ``noun_a`` first. All are given without spaces around.
    """

    text_a: str
    text_b: str
    noun_a: str
    noun_b: str
    word_a: str
    word_b: str


def it_pairs(n: int, seed: int = 0, clue: Clue = "end", split: Split = "held-out") -> list[ItPair]:
    """Make pairs of sentences in which one word decides what "it" means.

    Args:
        n: how many pairs, 1 or more; no pair comes twice.
        seed: the same seed gives the same pairs.
        clue: where the word that decides stands. ``"end"``: "The dog didn't cross the road because it was
            too tired." ``"front"``: "The dog didn't cross the road, tired as it was."
        split: ``"held-out"`` for nouns that the toy model never read together in such a sentence,
            ``"training"`` for the others.

    Returns:
        ``n`` different pairs. The lesson's own nouns, "animal" and "street", are never among them.

    Raises:
        InputError: an unknown clue or split, or more pairs than there are.

    >>> it_pairs(1, clue="front")[0].noun_a in ANIMALS
    True
    """
    if clue not in ("end", "front"):
        raise InputError(f'clue={clue!r} was given. Allowed are "end" and "front". Choose one of them.')
    nouns = [pair for pair in noun_pairs(split) if pair != LESSON_NOUNS]
    possible = list(product(nouns, VERBS, NEGATIONS, FEELINGS, SHAPES))
    n, seed = whole_number("n", n, 1, len(possible)), whole_number("seed", seed, 0)
    pairs = []
    for (noun_a, noun_b), verb, negation, word_a, word_b in random.Random(seed).sample(possible, n):
        text_a, text_b = (it_sentence(noun_a, noun_b, verb, negation, word, clue) for word in (word_a, word_b))
        pairs.append(ItPair(text_a, text_b, noun_a, noun_b, word_a, word_b))
    return pairs


def it_sentence(noun_a: str, noun_b: str, verb: str, negation: str, word: str, clue: Clue) -> str:
    """Return one such sentence, with its full stop."""
    start = f"The {noun_a} {negation} {verb} the {noun_b}"
    return f"{start} because it was too {word}." if clue == "end" else f"{start}, {word} as it was."


def noun_pairs(split: Split) -> list[tuple[str, str]]:
    """Return the (animal, place) pairs of one split; the two splits share none."""
    if split not in ("held-out", "training"):
        raise InputError(f'split={split!r} was given. Allowed are "held-out" and "training". Choose one of them.')
    return [pair for pair in product(ANIMALS, PLACES) if is_held_out(" ".join(pair)) == (split == "held-out")]


def is_held_out(text: str) -> bool:
    """Say whether a text belongs to the fifth that is never trained on; the text alone decides."""
    return zlib.crc32(text.encode()) % 5 == 3
