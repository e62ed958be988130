"""What the loss does when heads are taken out. A score says where a head looks; this says whether it matters."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lensons.errors import InputError, ModelError
from lensons.heads import HeadName, parse_head
from lensons.models import Hook, LoadedModel, Stage, as_model
from lensons.options import as_index, whole_number
from lensons.prompts import Batch, given_prompts, repeated_blocks
from lensons.scoring import HeadScores, as_table, score_heads
from lensons.tracing import HeadTrace, trace

Mode = Literal["zero", "mean"]
RANDOM_DRAWS = 20


@dataclass(frozen=True)
class Loss:
    """Mean loss in nats for each predicted token: of all, and of the first and second copy of a block.

    A copy's first token is left out of both: nothing says which token begins a block, or that one ends. ``first``
    and ``second`` are None without ``block_len``.
    """

    all: float
    first: float | None = None
    second: float | None = None

    def minus(self, other: "Loss") -> "Loss":
        """The difference, part by part."""
        return Loss(self.all - other.all, _minus(self.first, other.first), _minus(self.second, other.second))


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


@dataclass(frozen=True)
class Ablation:
    """What taking heads out did to the loss.

    Attributes:
        heads: the heads that were taken out, together.
        mode: ``"zero"``: their output z is 0. ``"mean"``: it is their own mean over this batch.
        before: the loss of the whole model.
        after: the loss without them.
        change: after - before, in nats; positive where the model got worse.
        random: the same change for as many heads drawn at random from the others, one entry a draw.
        n_prompts: how many prompts it was measured on.
    """

    heads: tuple[HeadName, ...]
    mode: Mode
    before: Loss
    after: Loss
    change: Loss
    random: tuple[Loss, ...]
    n_prompts: int

    @property
    def random_mean(self) -> Loss:
        """The mean change over the random draws."""
        return _mean_loss(self.random)

    def __str__(self) -> str:
        names = ", ".join(map(str, self.heads))
        text = f"without {names} ({self.mode}): loss {self.before.all:.3f} -> {self.after.all:.3f}"
        if self.change.second is not None:
            text += f"; second copy {self.change.second:+.3f}, first {self.change.first:+.3f}"
        return f"{text} (random heads: {self.random_mean.all:+.3f})"


def _mean_loss(losses: Sequence[Loss]) -> Loss:
    def mean(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known else None

    return Loss(mean(loss.all for loss in losses) or 0.0, mean(x.first for x in losses), mean(x.second for x in losses))


def ablate_heads(model: Any, heads: Any, token_ids: Any, mode: Mode = "zero", block_len: int | None = None) -> Ablation:
    """Take heads out together, and measure the loss again.

    Args:
        model: what :func:`lensons.load_model` gave, a TransformerLens model of your own, or a name.
        heads: heads to take out, such as ``["5.1", "5.5"]``, or one of them.
        token_ids: a text, texts, lists of ids, or a [batch, pos] tensor.
        mode: ``"zero"`` sets the heads' output z to 0; ``"mean"`` to its mean over this batch, head by head.
        block_len: where the prompts end with a block of this many tokens twice: also give the loss of each copy.

    Returns:
        An :class:`Ablation`, with the change for as many random heads (20 draws, seed 0, from the other heads; from
        all where there are not enough others). Nothing about the model is changed.

    Raises:
        InputError: no heads, an unknown mode, or prompts that are too short for ``block_len``.
        HeadIndexError: the model has no such head.

    Example:
        >>> import lensons
        >>> lensons.ablate_heads("toy", ["1.0"], "The animal was too tired.").mode
        'zero'
    """
    model = as_model(model)
    names = _names(model, heads)
    return Ablations(model, given_prompts(model, token_ids).ids, mode, block_len).together(names)


def ablate_each(
    model: Any, heads: Sequence[Any], token_ids: Any, mode: Mode = "zero", block_len: int | None = None
) -> dict[HeadName, Ablation]:
    """:func:`ablate_heads` for each head by itself; the random heads, drawn from all, are measured once."""
    model = as_model(model)
    names = _names(model, heads)
    return Ablations(model, given_prompts(model, token_ids).ids, mode, block_len).each(names)


def token_losses(
    model: LoadedModel, ids: Int[Tensor, "batch pos"], hooks: dict[tuple[Stage, int], Hook] | None = None
) -> Float[Tensor, "batch pred"]:
    """The loss of each predicted token, in nats: 0 is no surprise, ln(d_vocab) is what guessing blindly costs.

    Args:
        model: what :func:`lensons.load_model` gave.
        ids: token ids, [batch, pos], without padding.
        hooks: changes to make on the way, for each stage and layer; None: the model as it is.

    Returns:
        [batch, pos - 1]: entry p is for the token at position p + 1. Nothing predicts the first one.

    Example:
        >>> model = lensons.load_model("toy")
        >>> token_losses(model, torch.tensor([lensons.trace(model, "It was tired.").tokens.ids])).shape
        torch.Size([1, 5])
    """
    logits = model.run(ids, hooks)
    target = ids[:, 1:].to(logits.device)
    # One prompt after the other: the log-probabilities of a batch would be as large again as its logits.
    losses = [
        torch.nn.functional.cross_entropy(row[:-1].float(), wanted, reduction="none")
        for row, wanted in zip(logits, target, strict=True)
    ]
    return torch.stack(losses).cpu()


class Ablations:
    """A model with its prompts: everything that taking out one head or another has in common, measured once."""

    def __init__(self, model: LoadedModel, prompts: Sequence[Sequence[int]], mode: Mode, block_len: int | None) -> None:
        if mode not in get_args(Mode):
            raise InputError(f"mode={mode!r} was given. Allowed are zero and mean. Choose one of those.")
        shortest = min(map(len, prompts))
        if shortest < 2:
            raise InputError("A prompt has one token only. The loss needs at least two. Give longer prompts.")
        if block_len is not None:
            block_len = whole_number("block_len", block_len, 2, shortest // 2)
            if len({len(prompt) for prompt in prompts}) > 1:
                raise InputError("block_len was given, but the prompts differ in length. Give prompts of one length.")
        self.model, self.mode, self.block_len = model, mode, block_len
        self.batches = [Batch.of(prompts[start : start + 8]) for start in range(0, len(prompts), 8)]
        self.n_prompts = len(prompts)
        self.means = self._mean_outputs() if mode == "mean" else None
        self._known: dict[frozenset[HeadName], Loss] = {}
        self.before = self.loss(())

    def _mean_outputs(self) -> Float[Tensor, "layer head d_head"]:
        """Each head's mean z over all real tokens."""
        total = torch.zeros(self.model.n_layers, self.model.n_heads, self.model.d_head, dtype=torch.float64)
        count = 0
        last: tuple[Stage, int] = ("z", self.model.n_layers - 1)
        for batch in self.batches:
            real = batch.attention_mask.double()
            count += int(real.sum())

            def add(layer: int, real: Tensor = real) -> Hook:
                def hook(z: Tensor) -> None:
                    total[layer] += (z.cpu().double() * real[..., None, None]).sum((0, 1))

                return hook

            hooks: dict[tuple[Stage, int], Hook] = {("z", n): add(n) for n in range(self.model.n_layers)}
            self.model.run(batch.ids, hooks, stop_after=last)
        return total / count

    def loss(self, heads: Sequence[HeadName]) -> Loss:
        """The mean loss with these heads taken out; measured once for each set of heads."""
        chosen = frozenset(heads)
        if chosen not in self._known:
            self._known[chosen] = self._measure(chosen)
        return self._known[chosen]

    def _measure(self, heads: frozenset[HeadName]) -> Loss:
        hooks: dict[tuple[Stage, int], Hook] = {}
        for layer in {head.layer for head in heads}:
            hooks["z", layer] = self._replace(layer, [head.head for head in heads if head.layer == layer])
        every, copies = [], []
        for batch in self.batches:
            losses = token_losses(self.model, batch.ids, hooks)
            every.append(losses[batch.attention_mask[:, 1:] != 0])
            if self.block_len is not None:
                copies.append(losses)
        if not bool(torch.cat(every).isfinite().all()):
            raise ModelError(
                f"A loss of {self.model.name} is not a finite number. A loss needs finite weights, in a number type "
                "that is large enough for them. Look there."
            )
        if self.block_len is None:
            return Loss(float(torch.cat(every).mean()))
        by_position, n = torch.cat(copies).mean(0), self.block_len
        # The last n predictions are of the second copy; each copy's own first token is left out.
        second, first = by_position[-n + 1 :], by_position[-2 * n + 1 : -n]
        return Loss(float(torch.cat(every).mean()), float(first.mean()), float(second.mean()))

    def _replace(self, layer: int, heads: list[int]) -> Hook:
        def hook(z: Tensor) -> Tensor:
            z = z.clone()
            z[..., heads, :] = 0 if self.means is None else self.means[layer, heads].to(z)
            return z

        return hook

    def together(self, heads: tuple[HeadName, ...]) -> Ablation:
        """These heads taken out at once, beside as many random others."""
        return self._ablate(heads, self._random_changes(len(heads), heads))

    def each(self, heads: Sequence[HeadName]) -> dict[HeadName, Ablation]:
        """Each of these heads taken out by itself, beside random heads of the whole model."""
        random = self._random_changes(1, ())
        return {head: self._ablate((head,), random) for head in heads}

    def _random_changes(self, n: int, excluded: Sequence[HeadName]) -> tuple[Loss, ...]:
        """The change of loss for n random heads, 20 times."""
        every = [HeadName(layer, h) for layer in range(self.model.n_layers) for h in range(self.model.n_heads)]
        others = [head for head in every if head not in excluded]
        pool = others if len(others) >= n else every
        generator = torch.Generator().manual_seed(0)
        changes = []
        for _ in range(RANDOM_DRAWS):
            chosen = torch.randperm(len(pool), generator=generator)[:n].tolist()
            changes.append(self.loss([pool[i] for i in chosen]).minus(self.before))
        return tuple(changes)

    def _ablate(self, heads: tuple[HeadName, ...], random: tuple[Loss, ...]) -> Ablation:
        after = self.loss(heads)
        return Ablation(heads, self.mode, self.before, after, after.minus(self.before), random, self.n_prompts)


def _names(model: LoadedModel, heads: Any) -> tuple[HeadName, ...]:
    one = (
        isinstance(heads, str | HeadName)
        or not isinstance(heads, Iterable)
        or getattr(heads, "ndim", 1) == 0
        or (isinstance(heads, tuple) and len(heads) == 2 and all(as_index(part) is not None for part in heads))
    )
    given = [heads] if one else list(heads)
    if not given:
        raise InputError('No heads were given. At least one is needed. Name them like "5.1".')
    return tuple(dict.fromkeys(parse_head(head, model.n_layers, model.n_heads) for head in given))


@dataclass(frozen=True)
class HeadCard:
    """All there is to say about one head.

    Attributes:
        name: the head.
        scores: per kind: score, low, high, chance.
        on_text: the head's trace on the reader's text.
        on_block: the head's trace on a random block that comes twice.
        ablation: what taking it out did to the loss, on random blocks.
    """

    name: HeadName
    scores: dict[str, dict[str, float]]
    on_text: HeadTrace
    on_block: HeadTrace
    ablation: Ablation

    def __str__(self) -> str:
        lines = [f"{self.name}"]
        for kind, s in self.scores.items():
            value = f"{s['score']:.3f} ({s['low']:.3f} to {s['high']:.3f}), chance {s['chance']:.3f}"
            lines.append(f"  {kind.replace('_', ' '):16} {value}")
        return "\n".join([*lines, f"  {self.ablation}"])


def head_card(model: Any, head: Any, text: Any, *, table: HeadScores | None = None, n_prompts: int = 8) -> HeadCard:
    """Scores with intervals, patterns on a text and on a random block, and what taking the head out does.

    Args:
        model: what :func:`lensons.load_model` gave, a TransformerLens model of your own, or a name.
        head: which head, such as ``"5.1"``.
        text: the text, or ids, to show the head on.
        table: scores that you have already; otherwise they are measured on random blocks.
        n_prompts: how many random prompts the ablation is measured on.

    Example:
        >>> import lensons
        >>> card = lensons.head_card("toy", "1.0", "The animal was too tired.", n_prompts=2)
        >>> card.name
        HeadName(layer=1, head=0)
    """
    model = as_model(model)
    name = parse_head(head, model.n_layers, model.n_heads)
    table = score_heads(model, n_prompts=n_prompts) if table is None else as_table(table)
    shape = next(iter(table.values.values())).shape
    if tuple(shape) != (model.n_layers, model.n_heads) or table.provenance.get("model") != model.name:
        raise InputError(
            f"The table is of {table.provenance.get('model')}, {list(shape)} [layer, head]. The model is {model.name}, "
            f"[{model.n_layers}, {model.n_heads}]. Give the table of this model, or none."
        )
    blocks = repeated_blocks(model, n_prompts)
    ablation = ablate_heads(model, [name], [list(ids) for ids in blocks.ids], block_len=blocks.protocol["block_len"])
    short = repeated_blocks(model, 1, min(10, blocks.protocol["block_len"]), seed=1).ids[0]
    kept = {"score": table.values, "low": table.low, "high": table.high}
    scores = {
        kind: {**{what: float(part[kind][name]) for what, part in kept.items()}, "chance": table.chance[kind]}
        for kind in table.kinds
    }
    return HeadCard(name, scores, trace(model, text).head(name), trace(model, list(short)).head(name), ablation)
