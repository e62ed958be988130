"""What does "it" mean? Looking, on generated sentences, for a head whose attention follows the meaning.

Each pair of sentences differs in one word, which stands *before* "it" and decides which of two nouns is meant:
"The dog didn't cross the road, tired as it was." and "... wide as it was.". Half of the pairs choose the head, the
other half measure it, so that the best of many heads does not look better than it is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lensons.heads import HeadName
from lensons.lessons.repeated import silence
from lensons.models import Hook, LoadedModel, Stage
from lensons.pairs import FOLLOW_UP, ItPair, it_pairs
from lensons.prompts import Batch
from lensons.tokens import Tokens, tokenize

N_PAIRS = 30
"""Pairs to choose a head on, and as many others to measure it on."""

ENOUGH = 0.05
"""A head that moves less of its attention than this is not called one that follows the meaning."""

_FLIPS = 1_000
_BATCH = 20


def read(model: LoadedModel, text: object) -> Tokens:
    """A text's tokens, with BOS where the tokenizer has one; ids are taken as they are."""
    return tokenize(model, text, isinstance(text, str) and model.bos_id is not None)


def word_positions(tokens: Tokens, word: str) -> tuple[int, ...]:
    """The tokens that hold the first whole-word occurrence of ``word``; empty where there is none.

    A word may be one token or several; the space before it belongs to no word.
    """
    text = b"".join(tokens.bytes).decode("utf-8", "surrogateescape")
    found = re.search(rf"(?<!\w){re.escape(word.strip())}(?!\w)", text) if word.strip() else None
    if found is None:
        return ()
    start, end = (len(text[:at].encode("utf-8", "surrogateescape")) for at in found.span())
    positions, at = [], 0
    for position, raw in enumerate(tokens.bytes):
        if raw and at < end and at + len(raw) > start:
            positions.append(position)
        at += len(raw)
    return tuple(positions)


def it_position(tokens: Tokens) -> int | None:
    """Where "it" is, or None: its last token, where a tokenizer has cut it up."""
    positions = word_positions(tokens, "it")
    return positions[-1] if positions else None


@dataclass(frozen=True, eq=False)
class ItSearch:
    """What the search found.

    The score of a head is how much of the attention out of "it" moves to the noun that is meant, when the clue
    changes: the mean of (weight on noun A with clue A - with clue B) and (weight on noun B with clue B - with
    clue A). 1: all of it moves. 0: the clue changes nothing. Below 0: it moves to the wrong noun.

    Attributes:
        choosing: each head's mean on the pairs that choose, [layer, head].
        measuring: each head's mean on the other pairs, [layer, head].
        chance: what the best of all heads reaches on the choosing pairs in 95 of 100 cases, when the two sentences
            of each pair change places at random.
        head: the head with the largest mean on the choosing pairs.
        low: 95 % percentile bootstrap over the measuring pairs of that head's mean; ``high`` likewise.
        found: True where that head is above chance, and moves enough to be worth showing, on both halves.
        n_pairs: pairs in each half.
        right: on how many of the measuring pairs the head moves to the right noun.
        answers: how often the model itself says the right noun after " The", of all measuring sentences.
        answers_without: the same with each head's output set to 0 (in a small model each, else the found one only).
        n_answers: how many sentences that is.
    """

    choosing: Float[Tensor, "layer head"]
    measuring: Float[Tensor, "layer head"]
    chance: float
    head: HeadName
    low: float
    high: float
    found: bool
    n_pairs: int
    right: int
    answers: float
    answers_without: dict[HeadName, float]
    n_answers: int

    @property
    def rank(self) -> int:
        """The head's rank by its mean on the other pairs; 1 is the best."""
        return 1 + int((self.measuring > self.measuring[self.head]).sum())

    @property
    def mean(self) -> float:
        """The head's mean on the other pairs."""
        return float(self.measuring[self.head])

    @property
    def most_needed(self) -> tuple[HeadName, float] | None:
        """The head without which fewest answers are right, and how many are; None where not every head was tried."""
        if len(self.answers_without) < self.choosing.numel():
            return None
        head = min(self.answers_without, key=lambda name: (self.answers_without[name], name))
        return head, self.answers_without[head]


def search_it_head(model: LoadedModel, seed: int = 0, n_pairs: int = N_PAIRS, small: int = 32) -> ItSearch:
    """Look through all heads for one whose attention out of "it" follows the meaning.

    Args:
        model: the model to look through. It must be able to read a sentence of about 15 tokens.
        seed: of the sentences and of the chance level.
        n_pairs: pairs to choose on; as many others to measure on.
        small: in a model of at most this many heads, each head is also taken out by itself.
    """
    pairs = it_pairs(2 * n_pairs, seed=seed, clue="front")
    moved = _moved(model, pairs)
    choosing, measuring = moved[:n_pairs], moved[n_pairs:]
    mean = choosing.mean(0)
    head = HeadName(*divmod(int(mean.argmax()), model.n_heads))
    chance = _best_by_chance(choosing, seed)
    other = measuring.mean(0)
    low, high = _interval(measuring[:, head.layer, head.head], seed)
    found = float(mean[head]) > chance and low > 0 and min(float(mean[head]), float(other[head])) >= ENOUGH
    every = [HeadName(layer, h) for layer in range(model.n_layers) for h in range(model.n_heads)]
    tried = every if len(every) <= small else [head] if found else []
    whole = _right_answers(model, pairs[n_pairs:], None)
    return ItSearch(
        choosing=mean,
        measuring=other,
        chance=chance,
        head=head,
        low=low,
        high=high,
        found=found,
        n_pairs=n_pairs,
        right=int((measuring[:, head.layer, head.head] > 0).sum()),
        answers=float(whole.float().mean()) if len(whole) else float("nan"),
        answers_without={
            name: float(_right_answers(model, pairs[n_pairs:], name).float().mean()) for name in tried if len(whole)
        },
        n_answers=len(whole),
    )


def _best_by_chance(moved: Float[Tensor, "pair layer head"], seed: int) -> float:
    """95th percentile of the best head's mean, when each pair's two sentences change places at random."""
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (_FLIPS, len(moved)), generator=generator).float() * 2 - 1
    best = (signs @ moved.flatten(1) / len(moved)).amax(1)
    return float(best.quantile(0.95))


def _interval(values: Float[Tensor, " pair"], seed: int) -> tuple[float, float]:
    """95 % percentile bootstrap of a mean over pairs."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randint(len(values), (_FLIPS, len(values)), generator=generator)
    low, high = values[draws].mean(1).quantile(torch.tensor([0.025, 0.975], dtype=values.dtype)).tolist()
    return low, high


def _moved(model: LoadedModel, pairs: Sequence[ItPair]) -> Float[Tensor, "pair layer head"]:
    """Per pair and head, how much attention moves to the noun that is meant."""
    tokens = [read(model, text) for pair in pairs for text in (pair.text_a, pair.text_b)]
    rows = attention_out_of_it(model, tokens)
    moved = []
    for index, pair in enumerate(pairs):
        a, b = 2 * index, 2 * index + 1
        noun_a = [rows[i][..., list(word_positions(tokens[i], pair.noun_a))].sum(-1) for i in (a, b)]
        noun_b = [rows[i][..., list(word_positions(tokens[i], pair.noun_b))].sum(-1) for i in (a, b)]
        moved.append(((noun_a[0] - noun_a[1]) + (noun_b[1] - noun_b[0])) / 2)
    return torch.stack(moved)


def attention_out_of_it(model: LoadedModel, sentences: Sequence[Tokens]) -> list[Float[Tensor, "layer head key"]]:
    """The row of "it" in every layer and head, for many sentences, in batches. Every sentence must have an "it"."""
    at = [it_position(tokens) for tokens in sentences]
    rows: list[Tensor] = []
    for start in range(0, len(sentences), _BATCH):
        chunk = sentences[start : start + _BATCH]
        where = torch.tensor(at[start : start + _BATCH])
        layers: dict[int, Tensor] = {}

        def keep(layer: int, where: Tensor = where, layers: dict[int, Tensor] = layers) -> Hook:
            def hook(pattern: Tensor) -> None:
                batch = torch.arange(len(where), device=pattern.device)
                layers[layer] = pattern[batch, :, where.to(pattern.device)].detach().float().cpu()

            return hook

        hooks: dict[tuple[Stage, int], Hook] = {("pattern", layer): keep(layer) for layer in range(model.n_layers)}
        model.run(Batch.of([t.ids for t in chunk]).ids, hooks, stop_after=("pattern", model.n_layers - 1))
        together = torch.stack([layers[layer] for layer in range(model.n_layers)], dim=1)
        rows += [row[..., : len(tokens)] for row, tokens in zip(together, chunk, strict=True)]
    return rows


def _right_answers(model: LoadedModel, pairs: Sequence[ItPair], without: HeadName | None) -> Bool[Tensor, " sentence"]:
    """After the sentence and " The", is the noun that is meant likelier than the other one?"""
    prompts, wanted, others = [], [], []
    for pair in pairs:
        first = {noun: tokenize(model, f" {noun}", prepend_bos=False).ids[0] for noun in (pair.noun_a, pair.noun_b)}
        if first[pair.noun_a] == first[pair.noun_b]:  # a tokenizer that begins both alike can't tell them apart
            continue
        for text, noun, other in (
            (pair.text_a, pair.noun_a, pair.noun_b),
            (pair.text_b, pair.noun_b, pair.noun_a),
        ):
            prompts.append(read(model, text + FOLLOW_UP).ids)
            wanted.append(first[noun])
            others.append(first[other])
    hooks: dict[tuple[Stage, int], Hook] = {}
    if without is not None:
        hooks["z", without.layer] = silence(without.head)
    right = []
    for start in range(0, len(prompts), _BATCH):
        chunk = prompts[start : start + _BATCH]
        logits = model.run(Batch.of(chunk).ids, hooks)
        for offset, prompt in enumerate(chunk):
            last = logits[offset, len(prompt) - 1]
            right.append(bool(last[wanted[start + offset]] > last[others[start + offset]]))
    return torch.tensor(right, dtype=torch.bool)
