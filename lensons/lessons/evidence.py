"""Everything the attention lesson shows, gathered once. The steps only read it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lensons.ablation import Ablation, ablate_each, token_losses
from lensons.axes import LayerHead
from lensons.errors import InputError
from lensons.heads import HeadName
from lensons.models import Hook, LoadedModel, Stage
from lensons.pairs import ItPair, it_pairs
from lensons.prompts import Batch, repeated_blocks
from lensons.scoring import HeadScores, score_heads
from lensons.tokens import Tokens, tokenize
from lensons.tracing import Check, Trace, trace_tokens

TEXT = "The animal didn't cross the street because it was too tired."
OTHER = "The animal didn't cross the street because it was too wide."
FRONT = (
    "The animal didn't cross the street, tired as it was.",
    "The animal didn't cross the street, wide as it was.",
)
REFERENTS = ("animal", "street")
N_PAIRS = 30
# A move that is certain and still too small to see teaches nothing.
SMALLEST_MOVE = 0.01
ABLATION_PROMPTS = 8
KINDS = ("previous_token", "duplicate_token", "induction", "first_token")


@dataclass(frozen=True)
class Pair:
    """Two texts side by side.

    Attributes:
        a, b: their traces.
        first_changed: the first position at which the tokens differ; the length of the shorter where none does.
        row_difference: [pos], for each row that both have, the largest difference over all layers and heads.
    """

    a: Trace
    b: Trace
    first_changed: int
    row_difference: Float[Tensor, " pos"]

    @classmethod
    def of(cls, a: Trace, b: Trace) -> "Pair":
        """Align two traces by their common beginning, and compare row by row."""
        n = min(len(a), len(b))
        same = [x == y for x, y in zip(a.tokens.ids, b.tokens.ids, strict=False)]
        gaps = (a.pattern[:, :, :n, :n] - b.pattern[:, :, :n, :n]).abs().amax((0, 1, 3))
        return cls(a, b, same.index(False) if False in same else n, gaps)


@dataclass(frozen=True)
class Follower:
    """The head whose row of "it" moves most to the right noun when the clue in front changes.

    A head's move on one pair: the weight that goes from the wrong noun to the right one, averaged over both texts.
    The head is chosen on some pairs, and everything said of it is measured on others.

    Attributes:
        head: the head that was chosen.
        moved: its mean move on the other pairs, with low and high (95 %, bootstrap).
        by_luck: what the best of all heads would reach, in 95 of 100 cases, if clue and noun had nothing to do with
            each other (signs of the pairs flipped at random).
        rank: its rank among all heads on the other pairs, from 1.
        n_heads: how many heads there are.
        n_pairs: pairs chosen on, and as many measured on.
    """

    head: HeadName
    moved: float
    low: float
    high: float
    by_luck: float
    rank: int
    n_heads: int
    n_pairs: int

    @property
    def found(self) -> bool:
        """Whether the head does better than luck."""
        return self.moved > max(self.by_luck, SMALLEST_MOVE) and self.low > 0


@dataclass(frozen=True)
class Evidence:
    """All that the attention lesson shows.

    Attributes:
        text: the trace of the reader's text; ``own`` says whether it is the lesson's.
        pair: two texts that differ in a late word; ``front``: the clue stands before "it".
        follower: the head that follows the clue, or None where the model cannot read such pairs.
        table: scores of every head on random blocks.
        ablations: per head that is among the top five of a kind: what taking it out does.
        block_losses: [pos], loss by position on ``[BOS] + block + block``, averaged; ``block_labels``, its tokens.
        check: how far the trace is from the model's own hooks.
    """

    model: LoadedModel
    text: Trace
    own: bool
    pair: Pair
    front: Pair
    referents: tuple[str, str]
    follower: Follower | None
    table: HeadScores
    ablations: dict[HeadName, Ablation]
    block_losses: tuple[float, ...]
    block_len: int
    check: Check


def gather(model: LoadedModel, text: str | None, other: str | None, referents: tuple[str, str] | None) -> Evidence:
    """Run the model on everything the lesson needs.

    Raises:
        InputError: a text cannot be read, or the referents are not two words.
    """
    own_text = TEXT if text is None else text
    if referents is not None and (len(referents) != 2 or not all(isinstance(word, str) and word for word in referents)):
        raise InputError(f"referents={referents!r} was given. Allowed are two words, such as {REFERENTS!r}.")
    bos = model.bos_id is not None

    def traced(words: str) -> Trace:
        made = trace_tokens(model, tokenize(model, words, prepend_bos=bos))
        made.check()  # nothing is shown that does not agree with the model
        return made

    trace = traced(own_text)
    if text is None or other is not None:
        pair = Pair.of(trace, traced(OTHER if other is None else other))
    else:  # a text of the reader's own, with nothing to compare it with: the lesson's pair shows step 1
        pair = Pair.of(traced(TEXT), traced(OTHER))
    table = score_heads(model, kinds=KINDS)
    best = {head for kind in KINDS for head, score in table.top(kind, 5) if score == score}
    blocks = repeated_blocks(model, ABLATION_PROMPTS)
    block_len = int(blocks.protocol["block_len"])
    batch = Batch.of(blocks.ids)
    return Evidence(
        model=model,
        text=trace,
        own=text is None,
        pair=pair,
        front=Pair.of(traced(FRONT[0]), traced(FRONT[1])),
        referents=referents or REFERENTS,
        follower=_find_follower(model),
        table=table,
        ablations=ablate_each(model, sorted(best), batch.ids, block_len=block_len),
        block_losses=tuple(token_losses(model, batch.ids).mean(0).tolist()),
        block_len=block_len,
        check=trace.check(),
    )


def word_position(tokens: Tokens, word: str, before: int | None = None) -> int | None:
    """The token in which a word ends, at its first place in the text; None where it does not stand there."""
    text = tokens.text
    match = re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)
    if match is None:
        return None
    end = len(text[: match.end()].encode())
    at = 0
    for position, raw in enumerate(tokens.bytes):
        at += len(raw)
        if at >= end:
            return position if before is None or position < before else None
    return None


def _find_follower(model: LoadedModel) -> Follower | None:
    """Choose a head on some pairs, measure it on others."""
    bos = model.bos_id is not None
    moves = []
    for pair in it_pairs(2 * N_PAIRS, seed=0, clue="front"):
        tokens = [tokenize(model, words, prepend_bos=bos) for words in (pair.text_a, pair.text_b)]
        places = [_places(t, pair) for t in tokens]
        if any(None in p for p in places):
            return None
        moves.append((tokens, places))
    per_pair = _moves(model, moves)
    chosen_on, measured_on = per_pair[:N_PAIRS], per_pair[N_PAIRS:]
    best = int(chosen_on.mean(0).argmax())
    head = HeadName(*divmod(best, model.n_heads))
    generator = torch.Generator().manual_seed(0)
    mean = measured_on.mean(0).flatten()
    draws = torch.randint(N_PAIRS, (1_000, N_PAIRS), generator=generator)
    resampled = measured_on.flatten(1)[:, best][draws].mean(1)
    signs = torch.randint(0, 2, (1_000, N_PAIRS), generator=generator).double() * 2 - 1
    luck = (signs @ measured_on.flatten(1) / N_PAIRS).amax(1).quantile(0.95)
    low, high = resampled.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Follower(
        head, float(mean[best]), low, high, float(luck), 1 + int((mean > mean[best]).sum()), mean.numel(), N_PAIRS
    )


def _places(tokens: Tokens, pair: ItPair) -> tuple[int | None, int | None, int | None]:
    """Where "it" and the two nouns stand."""
    it = word_position(tokens, "it")
    return it, word_position(tokens, pair.noun_a, it), word_position(tokens, pair.noun_b, it)


def _moves(model: LoadedModel, pairs: Sequence[Any]) -> Float[Tensor, "pair layer head"]:
    """For each pair, how much weight each head moves from the wrong noun to the right one."""
    prompts = [tokens.ids for both, _ in pairs for tokens in both]
    places = [place for _, both in pairs for place in both]
    leaning = []  # for each text: weight of "it" on noun_a minus that on noun_b
    for start in range(0, len(prompts), 16):
        batch = Batch.of(prompts[start : start + 16])
        it, noun_a, noun_b = torch.tensor(places[start : start + 16]).T
        row = torch.arange(len(it))
        kept: dict[int, LayerHead] = {}

        def keep(layer: int, at: Any = (row, it, noun_a, noun_b), kept: dict[int, Tensor] = kept) -> Hook:
            def hook(pattern: Tensor) -> None:
                rows, its, a, b = at
                cells = pattern.cpu().double()
                kept[layer] = cells[rows, :, its, a] - cells[rows, :, its, b]

            return hook

        last: tuple[Stage, int] = ("pattern", model.n_layers - 1)
        model.run(batch.ids, {("pattern", n): keep(n) for n in range(model.n_layers)}, stop_after=last)
        leaning.append(torch.stack([kept[n] for n in range(model.n_layers)], dim=1))
    text_a, text_b = torch.cat(leaning)[0::2], torch.cat(leaning)[1::2]
    return (text_a - text_b) / 2
