"""Trace: everything attention computed for one prompt, in every layer and head, checked against the model.

One forward pass. Each tensor is what the model's own hook saw; nothing is recomputed. :meth:`Trace.check` then
recomputes each stage from the one before it, and compares.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import torch
from einops import einsum, repeat
from jaxtyping import Float
from torch import Tensor

from lensons.axes import HeadPattern, HeadVectors, HeadWritten
from lensons.errors import CheckError, FileError, HeadIndexError, InputError
from lensons.files import as_path, written_whole
from lensons.heads import HeadName, parse_head
from lensons.models import LoadedModel, Stage, as_model
from lensons.options import as_index
from lensons.tokens import Piece, Tokens, tokenize

_FORMAT = "lensons trace 1"
# One float32 step is 1.2e-7 of the number; a sum of some hundred products may be off by a few dozen steps.
_TOLERANCE = {"float64": 1e-5, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


@dataclass(frozen=True)
class Check(Mapping[str, float]):
    """How far each stage is from the model's own hook. A mapping from stage to its largest relative error.

    Stages: ``scores`` (q.k / scale, masked), ``pattern`` (softmax), ``z`` (weights x values), ``attn_out`` (the sum
    over heads of z W_O, plus b_O), ``mask`` (weight on tokens that cannot be seen; must be 0).

    Attributes:
        relative: per stage, error / max(1, largest absolute value in that layer), largest over layers.
        absolute: per stage, the largest error as it is.
        layer: per stage, the layer in which the relative error is largest.
        tolerance: what the relative error must not pass.
        unchecked: stages that could not be checked for this kind of model, each with the reason.
    """

    relative: dict[str, float]
    absolute: dict[str, float]
    layer: dict[str, int]
    tolerance: float
    unchecked: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, stage: str) -> float:
        return self.relative[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self.relative)

    def __len__(self) -> int:
        return len(self.relative)

    @property
    def largest(self) -> float:
        """The largest relative error of all stages."""
        return max(self.relative.values())

    def __str__(self) -> str:
        lines = [f"{s}: off by {self.relative[s]:.1e} (absolute {self.absolute[s]:.1e})" for s in self.relative]
        lines += [f"{s}: not checked, {why}" for s, why in self.unchecked.items()]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class HeadTrace:
    """One head of a :class:`Trace`: the same names, without the layer and head axes."""

    name: HeadName
    tokens: Tokens
    q: Float[Tensor, "pos d_head"]
    k: Float[Tensor, "pos d_head"]
    v: Float[Tensor, "pos d_head"]
    z: Float[Tensor, "pos d_head"]
    scores: Float[Tensor, "query key"]
    pattern: Float[Tensor, "query key"]
    written: Float[Tensor, "pos d_model"]
    written_by_key: Float[Tensor, "pos d_model"]
    scale: float


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """What attention computed for one prompt; float32, on the CPU.

    Attributes:
        tokens: what the model read.
        q: queries, [layer, head, pos, d_head]: what enters the dot product (after rotation on rotary models).
        k: keys, the same shape; on models with grouped keys each is repeated for every head that shares it.
        v: values, the same shape, repeated likewise.
        z: each head's weighted sum of values, the same shape.
        scores: q.k / scale, [layer, head, query, key]; -inf where a token cannot be seen.
        pattern: the attention weights, [layer, head, query, key]; each row sums to 1, masked cells are 0.
        attn_out: what each layer of heads adds to the residual stream, [layer, pos, d_model].
        w_o: output weights, [layer, head, d_head, d_model].
        b_o: output bias, [layer, d_model].
        scale: per layer, the number q.k was divided by (sqrt(d_head) in GPT-2).
        n_kv_heads: how many different keys and values a layer has.
        provenance: model, revision, versions, weights; plain data.
        unusual: why q.k / scale -> softmax is not this model's rule, or None.

    Example:
        >>> import lensons
        >>> t = lensons.trace(lensons.load_model("toy"), "The animal was too tired.")
        >>> t.check().largest < 1e-5
        True
    """

    tokens: Tokens
    q: HeadVectors
    k: HeadVectors
    v: HeadVectors
    z: HeadVectors
    scores: HeadPattern
    pattern: HeadPattern
    attn_out: Float[Tensor, "layer pos d_model"]
    w_o: Float[Tensor, "layer head d_head d_model"]
    b_o: Float[Tensor, "layer d_model"]
    scale: tuple[float, ...]
    n_kv_heads: int
    provenance: dict[str, Any]
    unusual: str | None = None

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return self.pattern.shape[0]

    @property
    def n_heads(self) -> int:
        """Number of heads in each layer."""
        return self.pattern.shape[1]

    @property
    def d_head(self) -> int:
        """How many numbers a query has."""
        return self.q.shape[-1]

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return (
            f"Trace({self.tokens.text!r:.60}: {len(self)} tokens, {self.n_layers} layers x {self.n_heads} heads, "
            f"{self.provenance['model']})"
        )

    @cached_property
    def written(self) -> HeadWritten:
        """What each head adds to the residual stream, z W_O, [layer, head, pos, d_model]. Computed when asked for."""
        return einsum(self.z, self.w_o, "layer head pos d_head, layer head d_head d_model -> layer head pos d_model")

    @cached_property
    def written_length(self) -> Float[Tensor, "layer head pos"]:
        """How much each token would have to say if it got all of a head's attention, the length of v W_O."""
        # |v W_O| from d_head x d_head products, so that [layer, head, pos, d_model] is never in memory.
        gram = einsum(self.w_o, self.w_o, "layer head a d_model, layer head b d_model -> layer head a b")
        squares = einsum(self.v, gram, self.v, "layer head pos a, layer head a b, layer head pos b -> layer head pos")
        return squares.clamp(min=0).sqrt()

    def head(self, name: object) -> HeadTrace:
        """The same for one head, named ``"L5H1"``, ``"5.1"`` or ``(5, 1)``."""
        head = parse_head(name, self.n_layers, self.n_heads)
        layer, index = head
        w_o = self.w_o[layer, index]
        return HeadTrace(
            head,
            self.tokens,
            self.q[layer, index],
            self.k[layer, index],
            self.v[layer, index],
            self.z[layer, index],
            self.scores[layer, index],
            self.pattern[layer, index],
            self.z[layer, index] @ w_o,
            self.v[layer, index] @ w_o,
            self.scale[layer],
        )

    def position(self, given: int) -> int:
        """A position of this prompt; negative ones count from the end.

        Raises:
            HeadIndexError: there is no such position; the message gives your own number.
        """
        at = as_index(given)
        if at is None:
            raise InputError(f"{given!r} is not a position. Positions are whole numbers from 0. Give one of those.")
        if not -len(self) <= at < len(self):
            raise HeadIndexError(
                f"There is no position {at}. This prompt has positions 0-{len(self) - 1}. Choose one of those."
            )
        return at % len(self)

    @torch.autocast("cpu", enabled=False)
    def errors(self) -> Check:
        """The same as :meth:`check`, without raising."""
        n = len(self)
        visible = torch.ones(n, n, dtype=torch.bool).tril()
        scale = torch.tensor(self.scale).view(-1, 1, 1, 1)
        dot = einsum(self.q, self.k, "layer head query d_head, layer head key d_head -> layer head query key")
        recomputed = {
            # Compared where there is a score at all: the masked cells are the next line's.
            "scores": ((dot / scale)[..., visible], self.scores[..., visible]),
            "mask": (self.pattern[..., ~visible], torch.zeros_like(self.pattern[..., ~visible])),
            "pattern": (self.scores.masked_fill(~visible, -torch.inf).softmax(-1), self.pattern),
            "z": (
                einsum(
                    self.pattern,
                    self.v,
                    "layer head query key, layer head key d_head -> layer head query d_head",
                ),
                self.z,
            ),
            "attn_out": (self._sum_over_heads(), self.attn_out),
        }
        unchecked = {}
        if self.unusual is not None:
            for stage in ("scores", "mask", "pattern"):
                unchecked[stage] = self.unusual
                del recomputed[stage]
        relative, absolute, where = {}, {}, {}
        for stage, (ours, models) in recomputed.items():
            ours, models = ours.flatten(1), models.flatten(1)
            if not models.shape[1]:  # one token: there is nothing that cannot be seen
                error = size = torch.zeros(self.n_layers)
            else:
                # Something that is not a number, or a mask where there should be a score, is as wrong as can be.
                error = (ours - models).abs().where((ours - models).isfinite(), torch.inf).amax(1)
                size = models.abs().where(models.isfinite(), 0).amax(1)
            off = error / size.clamp(min=1)
            worst = int(off.argmax())
            relative[stage], absolute[stage], where[stage] = float(off[worst]), float(error.max()), worst
        tolerance = _TOLERANCE.get(str(self.provenance.get("dtype")), 1e-5)
        return Check(relative, absolute, where, tolerance, unchecked)

    def check(self) -> Check:
        """Recompute every stage of all heads, and compare with what the model's own hooks saw.

        q.k / scale -> mask -> softmax -> z, and the sum over heads of z W_O + b_O against the layer's output.
        The error is divided by max(1, largest absolute value in that layer), and must not pass 1e-5 in float32.

        Returns:
            A :class:`Check`, which holds each stage's largest error, relative and absolute.

        Raises:
            CheckError: a stage is off by more than the tolerance; the message names stage and layer.
        """
        found = self.errors()
        for stage, off in found.items():
            if not off <= found.tolerance:
                raise CheckError(
                    f"Stage {stage!r} differs from the model's own hook by {off:.2e} in layer {found.layer[stage]} "
                    f"(absolute {found.absolute[stage]:.2e}). At most {found.tolerance:.0e} is allowed. "
                    "Was a hook or a weight of this model changed, or is its attention of another kind?"
                )
        return found

    def _sum_over_heads(self) -> Float[Tensor, "layer pos d_model"]:
        together = einsum(self.z, self.w_o, "layer head pos d_head, layer head d_head d_model -> layer pos d_model")
        return together + self.b_o[:, None]

    def save(self, path: str | Path) -> Path:
        """Write the trace to one safetensors file, with its provenance. Nothing in it can run.

        Raises:
            FileError: the file cannot be written; a file that was there before is then still as it was.
        """
        from safetensors.torch import save

        tensors = {name: getattr(self, name).contiguous() for name in _TENSORS}
        about = {
            "format": _FORMAT,
            "tokens": {
                "ids": self.tokens.ids,
                "bytes": [raw.hex() for raw in self.tokens.bytes],
                "texts": self.tokens.texts,
                "labels": self.tokens.labels,
                "pieces": self.tokens.pieces,
                "special": self.tokens.special,
                "has_bos": self.tokens.has_bos,
            },
            "scale": self.scale,
            "n_kv_heads": self.n_kv_heads,
            "unusual": self.unusual,
            "provenance": self.provenance,
        }
        return written_whole(path, save(tensors, metadata={"lensons": json.dumps(about, allow_nan=False)}))

    @classmethod
    def load(cls, path: str | Path) -> "Trace":
        """Read a trace that :meth:`save` wrote.

        Raises:
            FileError: there is no such file, or it is not a whole trace.
        """
        from safetensors import SafetensorError, safe_open

        place = str(as_path(path))
        try:
            with safe_open(place, framework="pt") as file:
                about = json.loads((file.metadata() or {})["lensons"])
                if about["format"] != _FORMAT:
                    raise ValueError(f"its format is {about['format']!r}, not {_FORMAT!r}")
                tensors = {name: file.get_tensor(name) for name in _TENSORS}
            kept = about["tokens"]
            _same_kinds(about)
            tokens = Tokens(
                tuple(kept["ids"]),
                tuple(bytes.fromhex(raw) for raw in kept["bytes"]),
                tuple(kept["texts"]),
                tuple(kept["labels"]),
                tuple(None if piece is None else Piece(*piece) for piece in kept["pieces"]),
                tuple(kept["special"]),
                kept["has_bos"],
            )
            loaded = cls(
                tokens=tokens,
                scale=tuple(map(float, about["scale"])),
                n_kv_heads=about["n_kv_heads"],
                provenance=about["provenance"],
                unusual=about["unusual"],
                **tensors,
            )
            _same_sizes(loaded)
        except FileNotFoundError as error:
            raise FileError(f"There is no file {str(path)!r}. Give a file that Trace.save wrote.") from error
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise FileError(
                f"{str(path)!r} is not a whole trace ({type(error).__name__}: {error}). "
                "Allowed are files that Trace.save wrote. Trace the text again and save it."
            ) from error
        return loaded


_TENSORS = ("q", "k", "v", "z", "scores", "pattern", "attn_out", "w_o", "b_o")


def _same_kinds(about: dict[str, Any]) -> None:
    """A file may be valid JSON and still not be about a trace: every part has to be of its kind."""
    kept = about["tokens"]
    lists = {name: kept[name] for name in _EACH_TOKEN} | {"scale": about["scale"]}
    for name, entries in lists.items():
        kind = (int, float) if name == "scale" else _EACH_TOKEN[name]
        if not isinstance(entries, list) or not all(type(entry) in kind for entry in entries):
            raise ValueError(f"{name} holds something of another kind")
        if name != "scale" and len(entries) != len(kept["ids"]):
            raise ValueError(f"{len(entries)} {name}, but {len(kept['ids'])} ids")
    for piece in kept["pieces"]:
        if piece is not None and [type(part) for part in piece] != [int, int, str]:
            raise ValueError(f"{piece!r:.60} is not a part of a character")
    provenance, unusual = about["provenance"], about["unusual"]
    if type(kept["has_bos"]) is not bool or type(about["n_kv_heads"]) is not int:
        raise ValueError("has_bos or n_kv_heads is of another kind")
    if not isinstance(provenance, dict) or not isinstance(provenance["model"], str):
        raise ValueError("its provenance names no model")
    if unusual is not None and not isinstance(unusual, str):
        raise ValueError("unusual is not a text")


_EACH_TOKEN: dict[str, tuple[type, ...]] = {
    "ids": (int,),
    "bytes": (str,),
    "texts": (str,),
    "labels": (str,),
    "pieces": (list, type(None)),
    "special": (bool,),
}


def _same_sizes(trace: Trace) -> None:
    """Every tensor has to fit the tokens, and hold the numbers that a trace holds."""
    n_layers, n_heads, n, d_head = trace.q.shape
    if trace.attn_out.ndim != 3 or not trace.q.numel():
        raise ValueError("its tensors are empty, or have other axes")
    d_model = trace.attn_out.shape[-1]
    vectors: tuple[int, ...] = (n_layers, n_heads, n, d_head)
    cells: tuple[int, ...] = (n_layers, n_heads, n, n)
    expected: dict[str, tuple[int, ...]] = dict.fromkeys(("q", "k", "v", "z"), vectors)
    expected |= dict.fromkeys(("scores", "pattern"), cells)
    expected |= {
        "attn_out": (n_layers, n, d_model),
        "w_o": (n_layers, n_heads, d_head, d_model),
        "b_o": (n_layers, d_model),
    }
    for name, shape in expected.items():
        found = tuple(getattr(trace, name).shape)
        if found != shape:
            raise ValueError(f"{name} is shaped {found}, not {shape}")
        if getattr(trace, name).dtype != torch.float32:
            raise ValueError(f"{name} is {getattr(trace, name).dtype}, not torch.float32")
    if len(trace.tokens) != n or len(trace.scale) != n_layers:
        raise ValueError(f"{len(trace.tokens)} tokens and {len(trace.scale)} scales, but {n} positions")
    if trace.n_kv_heads < 1 or n_heads % trace.n_kv_heads:
        raise ValueError(f"{n_heads} heads cannot share {trace.n_kv_heads} keys and values")


def trace(model: Any, text_or_ids: Any, prepend_bos: bool | None = None) -> Trace:
    """Run the model once on one prompt, and keep what attention computed in every head.

    Args:
        model: what :func:`lensons.load_model` gave, a TransformerLens model of your own, or a name.
        text_or_ids: a text; or ids as a list, or a tensor shaped [pos] or [1, pos].
        prepend_bos: whether a BOS token goes in front. None: yes for a text, no for ids. It is never doubled.

    Returns:
        A :class:`Trace`. Nothing about the model is changed.

    Raises:
        InputError: the prompt is empty, too long, or not one of the forms above.
        AttentionMissingError: the model does not hand out its attention weights.

    Example:
        >>> import lensons
        >>> lensons.trace(lensons.load_model("toy"), "It was too wide.").pattern.shape[:2]
        torch.Size([4, 4])
    """
    model = as_model(model)
    return trace_tokens(model, tokenize(model, text_or_ids, prepend_bos))


def trace_tokens(model: LoadedModel, tokens: Tokens) -> Trace:
    """:func:`trace` for a prompt that is tokenized already."""
    kept: dict[Stage, list[Tensor]] = {stage: [] for stage in get_args(Stage)}

    def keep(stage: Stage) -> Any:
        def hook(value: Tensor) -> None:
            # A copy: the model may go on to write into this memory.
            kept[stage].append(value[0].detach().to("cpu", torch.float32, copy=True))

        return hook

    wanted = {(stage, layer): keep(stage) for stage in get_args(Stage) for layer in range(model.n_layers)}
    model.run(torch.tensor([tokens.ids]), wanted, stop_after=("attn_out", model.n_layers - 1))

    stacked = {stage: torch.stack(values) for stage, values in kept.items()}
    vectors = {stage: _head_first(stacked[stage], model.n_heads) for stage in ("q", "k", "v", "z")}
    n = len(tokens)
    visible = torch.ones(n, n, dtype=torch.bool).tril()
    unusual = model.unusual_attention()
    scores = stacked["scores"]
    if unusual is None:  # one engine marks what cannot be seen with -inf, another with -3.4e38
        scores = scores.masked_fill(~visible, -torch.inf)
    w_o, b_o = model.output_weights()
    return Trace(
        tokens=tokens,
        **vectors,
        scores=scores,
        pattern=stacked["pattern"],
        attn_out=stacked["attn_out"],
        w_o=w_o.to("cpu", torch.float32),
        b_o=b_o.to("cpu", torch.float32),
        scale=tuple(model.attention_scale(layer) for layer in range(model.n_layers)),
        n_kv_heads=model.n_kv_heads,
        provenance=model.provenance(),
        unusual=unusual,
    )


def _head_first(vectors: Float[Tensor, "layer pos kv_head d_head"], n_heads: int) -> HeadVectors:
    """[layer, pos, head, d_head] to [layer, head, pos, d_head]; shared keys and values once for each head."""
    return repeat(
        vectors,
        "layer pos kv_head d_head -> layer (kv_head shared) pos d_head",
        shared=n_heads // vectors.shape[2],
    ).contiguous()
