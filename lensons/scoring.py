"""Scoring every head of a model: one forward pass a batch, each layer's pattern reduced as soon as it is there."""

import csv
import io
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lensons.axes import LayerHead
from lensons.errors import InputError, MissingPackageError
from lensons.heads import HeadName
from lensons.models import Hook, LoadedModel, Stage, as_model
from lensons.options import whole_number
from lensons.prompts import Batch, Prompts, given_prompts, repeated_blocks
from lensons.scores import KINDS
from lensons.scores.patterns import must_be_pattern, tolerance_of
from lensons.scores.targets import Positions, find_targets

Pool = Literal["prompts", "queries"]
RESAMPLES = 1_000
_FORMAT = "lensons head scores 1"


@dataclass(frozen=True, eq=False, repr=False)
class HeadScores:
    """The scores of every head of a model.

    Attributes:
        values: per kind, [layer, head]: the score; 1 is a perfect head of its kind. NaN where undefined.
        low, high: per kind, [layer, head]: 95 % percentile bootstrap over prompts; NaN with one prompt.
        chance: per kind, what a head scores that looks everywhere alike, on the same prompts.
        n_prompts: per kind, how many prompts it is defined on.
        n_queries: per kind, how many queries count.
        rank_stability: per kind, the share of 1,000 resamples of the prompts with the same top five heads.
        protocol: how the prompts were made.
        provenance: model, revision, versions, weights.
    """

    values: dict[str, LayerHead]
    low: dict[str, LayerHead]
    high: dict[str, LayerHead]
    chance: dict[str, float]
    n_prompts: dict[str, int]
    n_queries: dict[str, int]
    rank_stability: dict[str, float]
    protocol: dict[str, Any]
    provenance: dict[str, Any]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of score in this table."""
        return tuple(self.values)

    @property
    def lift(self) -> dict[str, LayerHead]:
        """The lift, (score - chance) / (1 - chance), is 0 at chance, 1 for a perfect head; NaN where chance is 1."""
        return {
            kind: (value - self.chance[kind]) / (1 - self.chance[kind])
            if self.chance[kind] < 1
            else torch.full_like(value, torch.nan)
            for kind, value in self.values.items()
        }

    def top(self, kind: str, n: int = 5) -> list[tuple[HeadName, float]]:
        """The ``n`` heads that score highest, best first; undefined ones come last.

        Example:
            >>> import lensons
            >>> table = lensons.score_heads("toy", n_prompts=2, block_len=8)
            >>> len(table.top("induction", 3))
            3
        """
        value = self._of(kind)
        n_heads = value.shape[1]
        order = sorted(range(value.numel()), key=lambda i: (_rank(value.flatten()[i].item()), i))
        return [(HeadName(*divmod(i, n_heads)), value.flatten()[i].item()) for i in order[: whole_number("n", n, 1)]]

    def compare(self, other: "HeadScores", kind: str) -> list[tuple[HeadName, float, float, float]]:
        """Which heads moved: (head, other - this, low, high), largest move first.

        The interval takes the two measurements as independent: half-widths add as squares. A head whose interval
        does not hold 0 moved by more than the prompts' own scatter.

        Raises:
            InputError: the tables are of models of another size, or lack this kind.
        """
        before, after = self._of(kind), as_table(other)._of(kind)
        if before.shape != after.shape:
            raise InputError(
                f"The tables have {list(before.shape)} and {list(after.shape)} [layer, head]. They must be of models "
                "of the same size. Compare tables of one model."
            )
        moved = after - before
        down = ((after - other.low[kind]) ** 2 + (self.high[kind] - before) ** 2).sqrt()
        up = ((other.high[kind] - after) ** 2 + (before - self.low[kind]) ** 2).sqrt()
        low, high = moved - down, moved + up
        rows = [
            (HeadName(layer, head), float(moved[layer, head]), float(low[layer, head]), float(high[layer, head]))
            for layer in range(moved.shape[0])
            for head in range(moved.shape[1])
        ]
        return sorted(rows, key=lambda row: _rank(abs(row[1])))

    def rows(self) -> list[dict[str, Any]]:
        """One plain row for each head and kind."""
        return [
            {
                "layer": layer,
                "head": head,
                "kind": kind,
                "score": float(self.values[kind][layer, head]),
                "low": float(self.low[kind][layer, head]),
                "high": float(self.high[kind][layer, head]),
                "chance": self.chance[kind],
                "lift": float(lift[layer, head]),
                "n_prompts": self.n_prompts[kind],
                "n_queries": self.n_queries[kind],
            }
            for kind, lift in self.lift.items()
            for layer in range(lift.shape[0])
            for head in range(lift.shape[1])
        ]

    def to_dataframe(self) -> Any:
        """One row for each head and kind, as a pandas DataFrame.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingPackageError(
                "to_dataframe needs pandas, which is not installed. Use rows() or to_csv(), or `pip install pandas`."
            ) from error
        return pandas.DataFrame(self.rows())

    def to_csv(self) -> str:
        """One line for each head and kind; empty where undefined."""
        out = io.StringIO()
        rows = self.rows()
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: "" if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()})
        return out.getvalue()

    def to_json(self) -> str:
        """Everything, with its provenance; null where undefined."""
        about = {
            "format": _FORMAT,
            "provenance": self.provenance,
            "protocol": self.protocol,
            "scores": {
                kind: {
                    "values": _plain(self.values[kind]),
                    "low": _plain(self.low[kind]),
                    "high": _plain(self.high[kind]),
                    "chance": _plain(self.chance[kind]),
                    "n_prompts": self.n_prompts[kind],
                    "n_queries": self.n_queries[kind],
                    "rank_stability": _plain(self.rank_stability[kind]),
                }
                for kind in self.values
            },
        }
        return json.dumps(about, ensure_ascii=False, allow_nan=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "HeadScores":
        """Read what :meth:`to_json` wrote.

        Raises:
            InputError: the text is not a table of head scores.
        """
        try:
            about = json.loads(text)
            if about["format"] != _FORMAT:
                raise ValueError(f"its format is {about['format']!r}, not {_FORMAT!r}")
            kinds = about["scores"]
            if not kinds or not set(kinds) <= set(KINDS):
                raise ValueError(f"its kinds are {sorted(kinds)}")

            def tensors(name: str) -> dict[str, LayerHead]:
                return {kind: _tensor(entry[name]) for kind, entry in kinds.items()}

            def numbers(name: str) -> dict[str, float]:
                return {kind: _number(entry[name]) for kind, entry in kinds.items()}

            def counts(name: str) -> dict[str, int]:
                return {kind: _count(entry[name]) for kind, entry in kinds.items()}

            if not isinstance(about["protocol"], dict) or not isinstance(about["provenance"], dict):
                raise ValueError("its protocol or provenance is of another kind")
            table = cls(
                tensors("values"),
                tensors("low"),
                tensors("high"),
                numbers("chance"),
                counts("n_prompts"),
                counts("n_queries"),
                numbers("rank_stability"),
                about["protocol"],
                about["provenance"],
            )
            if len({t.shape for part in (table.values, table.low, table.high) for t in part.values()}) != 1:
                raise ValueError("its tables differ in size")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise InputError(
                f"This is not a table of head scores ({type(error).__name__}: {error}). Allowed is what to_json wrote."
            ) from error
        return table

    def figure(self, kind: str = "induction") -> Any:
        """All heads on one grid, coloured by one kind of score."""
        from lensons.figures import head_scores_figure

        self._of(kind)
        return head_scores_figure(self, kind)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        kind = "induction" if "induction" in self.values else self.kinds[0]
        return self.figure(kind)._repr_mimebundle_(include, exclude)

    def __repr__(self) -> str:
        n_layers, n_heads = next(iter(self.values.values())).shape
        best = []
        for kind in self.values:
            head, score = self.top(kind, 1)[0]
            best.append(f"{kind} {head} {score:.2f} (chance {self.chance[kind]:.2f})")
        return (
            f"HeadScores({self.provenance.get('model')}, {n_layers} x {n_heads} heads, "
            f"{self.protocol.get('n_prompts')} prompts of {self.protocol.get('prompts')}; best: {'; '.join(best)})"
        )

    def _of(self, kind: str) -> LayerHead:
        if not isinstance(kind, str) or kind not in self.values:
            raise InputError(f"{kind!r} is not in this table. It has {', '.join(self.values)}. Choose one of those.")
        return self.values[kind]


def as_table(given: object) -> HeadScores:
    """A table that a caller has."""
    if not isinstance(given, HeadScores):
        raise InputError(f"{given!r:.100} is not a table of head scores. Allowed is what score_heads gave. Give that.")
    return given


def _rank(score: float) -> float:
    """A key for sorting: highest first, undefined last."""
    return math.inf if math.isnan(score) else -score


def _plain(value: Tensor | float) -> Any:
    if isinstance(value, Tensor):
        return [_plain(part) for part in value] if value.ndim else _plain(value.item())
    return None if math.isnan(value) else value


def _number(given: float | None) -> float:
    """A number that to_json can have written; null is an undefined one."""
    if given is None:
        return math.nan
    if type(given) not in (int, float) or not abs(given) <= torch.finfo(torch.float32).max:
        raise ValueError(f"{given!r:.40} is not a number of a table")
    return float(given)


def _count(given: int) -> int:
    if type(given) is not int or given < 0:
        raise ValueError(f"{given!r:.40} is not a count")
    return given


def _tensor(rows: list[list[float | None]]) -> LayerHead:
    tensor = torch.tensor([[_number(x) for x in row] for row in rows], dtype=torch.float32)
    if tensor.ndim != 2 or not tensor.numel():
        raise ValueError("a table is not [layer, head]")
    return tensor


def score_heads(
    model: Any,
    prompts: Any = None,
    n_prompts: int | None = None,
    block_len: int | None = None,
    seed: int = 0,
    *,
    attention_mask: Any = None,
    batch_size: int = 8,
    kinds: Sequence[str] = KINDS,
    pool: Pool = "prompts",
    progress: bool | None = None,
) -> HeadScores:
    """Score every head of a model.

    By default on random blocks that come twice, ``[BOS] + block + block``: nothing in such a prompt can be known but
    by looking back. Or on your own texts or ids. A score depends on the prompts it was measured on.

    Args:
        model: what :func:`lensons.load_model` gave, a TransformerLens model of your own, or a name.
        prompts: a text, a list of texts, a list of lists of ids, or a [batch, pos] tensor; None for random blocks.
            Text gets BOS where the tokenizer has one; ids are taken as they are, and BOS is known by its id.
        n_prompts: how many random prompts; 32 by default.
        block_len: tokens in a block; by default 50, or (context - 1) // 2 where that is less.
        seed: of the random prompts and of the intervals. The same seed gives the same table.
        attention_mask: [batch, pos], with a tensor of prompts; 1 is real, 0 a pad, on either side.
        batch_size: prompts in one forward pass.
        kinds: which scores; all by default.
        pool: ``"prompts"``: the mean of the prompts' scores, undefined ones left out. ``"queries"``: all queries
            of all prompts count alike.
        progress: show a bar on standard error; by default on a terminal, for more than four batches.

    Returns:
        A :class:`HeadScores`. Nothing about the model is changed.

    Raises:
        InputError: a prompt or an option cannot be used.
        AttentionMissingError: the model does not hand out its attention weights.
        ModelError: the model also looks at later tokens.

    Example:
        >>> import lensons
        >>> table = lensons.score_heads("toy", n_prompts=4, block_len=10)
        >>> table.values["previous_token"].shape
        torch.Size([4, 4])

    Source: definitions and their sources are in :mod:`lensons.scores`.
    """
    if isinstance(kinds, str) or not isinstance(kinds, Sequence):
        raise InputError(
            f"kinds={kinds!r} was given. Allowed is a list of {', '.join(KINDS)}. Put one kind in a list as well."
        )
    for name, value, allowed in (("pool", pool, get_args(Pool)), *(("kinds", kind, KINDS) for kind in kinds)):
        if value not in allowed:
            raise InputError(f"{name}={value!r} was given. Allowed are {', '.join(allowed)}. Choose one of those.")
    kinds = list(dict.fromkeys(kinds))
    if not kinds:
        raise InputError(f"kinds is empty. Allowed are {', '.join(KINDS)}. Choose at least one.")
    size = whole_number("batch_size", batch_size, 1)
    seed = whole_number("seed", seed, 0, 2**63 - 1)
    if prompts is not None:
        clashing = [name for name, value in (("n_prompts", n_prompts), ("block_len", block_len)) if value is not None]
        if clashing:
            raise InputError(
                f"{' and '.join(clashing)} cannot be given together with prompts: they make random prompts. "
                "Leave out the one or the other."
            )
    elif attention_mask is not None:
        raise InputError("attention_mask was given without prompts. It goes with a tensor of ids. Give both.")
    model = as_model(model)
    model.must_look_back()
    chosen = (
        repeated_blocks(model, n_prompts, block_len, seed)
        if prompts is None
        else given_prompts(model, prompts, attention_mask)
    )
    measured = [_measure(model, batch, kinds) for batch in _with_progress(chosen.batches(size), progress)]
    return _table(model, chosen, kinds, pool, seed, measured)


@dataclass(frozen=True)
class _Measured:
    """One batch: per kind, sums over the queries that count, how many they are, and the sum of their chances."""

    sums: Float[Tensor, "batch kind layer head"]
    counts: Float[Tensor, "batch kind"]
    chances: Float[Tensor, "batch kind"]


def _measure(model: LoadedModel, batch: Batch, kinds: Sequence[str]) -> _Measured:
    special = batch.special(model.special_ids)
    found = {kind: _targets(kind, batch, special) for kind in kinds}
    counts = torch.stack([targets.any(-1).sum(-1) for targets in found.values()], dim=1)
    seen = batch.attention_mask.cumsum(-1).clamp(min=1)
    chances = torch.stack([(targets.sum(-1) / seen).sum(-1) for targets in found.values()], dim=1)
    reduce = _Reducer(found, batch.ids.shape[1], model.device)
    sums: dict[int, Tensor] = {}

    def keep(layer: int) -> Hook:
        def hook(pattern: Tensor) -> None:
            sums[layer] = reduce(pattern, layer)

        return hook

    last: tuple[Stage, int] = ("pattern", model.n_layers - 1)
    model.run(batch.ids, {("pattern", layer): keep(layer) for layer in range(model.n_layers)}, stop_after=last)
    stacked = torch.stack([sums[layer] for layer in range(model.n_layers)], dim=2)
    return _Measured(stacked.cpu(), counts.double(), chances.double())


def _targets(kind: str, batch: Batch, special: Tensor) -> Tensor:
    at = Positions(kind, batch.ids, None, special, batch.attention_mask)
    return find_targets(kind, at)


class _Reducer:
    """A pattern [batch, head, query, key] to its sums over target cells, [batch, kind, head].

    All kinds but entropy are one matrix product for the whole batch: the pattern's cells times the target cells. Two
    more columns, all cells and those of later tokens, show whether it is a pattern at all.
    """

    def __init__(self, found: dict[str, Tensor], n: int, device: torch.device) -> None:
        self.kinds, self.n = list(found), n
        every = torch.ones(n, n, dtype=torch.float32)
        batch = next(iter(found.values())).shape[0]
        cells = [found[kind].flatten(1).float() for kind in self.kinds if kind != "entropy"]
        cells += [part.flatten().expand(batch, -1) for part in (every, every.triu(1))]
        self.cells = torch.stack(cells, dim=-1).to(device)  # [batch, cell, kind]
        # Of each query that counts, how many keys it can see.
        self.n_keys = found["entropy"].sum(-1)[:, None].to(device) if "entropy" in found else torch.zeros(0)

    def __call__(self, pattern: Float[Tensor, "batch head query key"], layer: int) -> Float[Tensor, "batch kind head"]:
        tolerance = tolerance_of(pattern.dtype)
        pattern = pattern.float()
        *sums, total, ahead = (pattern.flatten(2) @ self.cells).double().unbind(-1)
        must_be_pattern(total / self.n, ahead / self.n, tolerance, layer)
        parts = iter(sums)
        columns = [self._entropy(pattern) if kind == "entropy" else next(parts) for kind in self.kinds]
        return torch.stack(columns, dim=1)

    def _entropy(self, pattern: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head"]:
        nats = torch.special.entr(pattern).sum(-1)
        return torch.where(self.n_keys > 0, nats / self.n_keys.clamp(min=2).log(), 0).sum(-1).double()


def _with_progress(batches: list[Batch], progress: bool | None) -> Iterable[Batch]:
    if progress is None:
        progress = len(batches) > 4 and sys.stderr.isatty()
    if not progress:
        return batches
    from tqdm import tqdm

    bar: Iterable[Batch] = tqdm(batches, desc="scoring heads", unit="batch", file=sys.stderr)
    return bar


def _table(
    model: LoadedModel, prompts: Prompts, kinds: Sequence[str], pool: Pool, seed: int, measured: list[_Measured]
) -> HeadScores:
    sums = torch.cat([m.sums for m in measured])
    counts = torch.cat([m.counts for m in measured])
    chances = torch.cat([m.chances for m in measured])
    pooled = _mean_of_prompts if pool == "prompts" else _mean_of_queries
    n = len(sums)
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randint(n, (RESAMPLES, n), generator=generator)
    weights = _times_drawn(draws) if n > 1 else None

    values, low, high, chance, stable = {}, {}, {}, {}, {}
    for index, kind in enumerate(kinds):
        total, count = sums[:, index], counts[:, index]
        everyone = torch.ones(1, n, dtype=torch.float64)
        values[kind] = pooled(total, count, everyone)[0].float()
        chance[kind] = float(pooled(chances[:, index, None, None], count, everyone)[0, 0, 0])
        undefined = torch.full_like(values[kind], torch.nan)
        if weights is None or not bool(count.any()):
            low[kind], high[kind], stable[kind] = undefined, undefined, math.nan
            continue
        resampled = pooled(total, count, weights)
        resampled = resampled[~resampled.isnan().flatten(1).any(1)]  # a resample without a single defined prompt
        bounds = torch.tensor([0.025, 0.975], dtype=torch.float64)
        low[kind], high[kind] = (part.float() for part in resampled.quantile(bounds, dim=0))
        stable[kind] = _same_top(values[kind], resampled)
    return HeadScores(
        values,
        low,
        high,
        chance,
        {kind: int((counts[:, i] > 0).sum()) for i, kind in enumerate(kinds)},
        {kind: int(counts[:, i].sum()) for i, kind in enumerate(kinds)},
        stable,
        {**prompts.protocol, "seed": seed, "pool": pool},
        model.provenance(),
    )


Pooling = Callable[
    [Float[Tensor, "prompt layer head"], Float[Tensor, " prompt"], Float[Tensor, "resample prompt"]],
    Float[Tensor, "resample layer head"],
]


def _mean_of_prompts(
    total: Float[Tensor, "prompt layer head"],
    count: Float[Tensor, " prompt"],
    weights: Float[Tensor, "resample prompt"],
) -> Float[Tensor, "resample layer head"]:
    """The mean of the prompts' own scores; a prompt in which nothing counts is left out. 0 / 0 is NaN: undefined."""
    defined = (count > 0).double()
    own = total / count.clamp(min=1)[:, None, None] * defined[:, None, None]
    return (weights @ own.flatten(1)).unflatten(1, own.shape[1:]) / (weights @ defined)[:, None, None]


def _mean_of_queries(
    total: Float[Tensor, "prompt layer head"],
    count: Float[Tensor, " prompt"],
    weights: Float[Tensor, "resample prompt"],
) -> Float[Tensor, "resample layer head"]:
    """All queries of all prompts alike."""
    return (weights @ total.flatten(1)).unflatten(1, total.shape[1:]) / (weights @ count)[:, None, None]


def _times_drawn(draws: Int[Tensor, "resample prompt"]) -> Float[Tensor, "resample prompt"]:
    """How often each prompt was drawn. Counted in place: a one-hot form takes memory with the square of the prompts."""
    once = torch.ones(1, 1, dtype=torch.float64).expand_as(draws)
    return torch.zeros(draws.shape, dtype=torch.float64).scatter_add_(1, draws, once)


def _same_top(value: LayerHead, resampled: Float[Tensor, "resample layer head"]) -> float:
    """In what share of the resamples the best five heads are the same five, in any order."""
    n = min(5, value.numel())
    top = set(value.flatten().topk(n).indices.tolist())
    others = resampled.flatten(1).topk(n).indices.tolist()
    return sum(set(other) == top for other in others) / max(len(others), 1)
