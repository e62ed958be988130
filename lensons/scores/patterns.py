"""Reading a pattern: what a caller may hand in, what is refused, and what is warned about."""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lensons.errors import AttentionMissingError, InputError, LensonsWarning

# How far a row's sum may be from one: rounding of the type itself, over long rows.
_ROW_TOLERANCE = {torch.float16: 5e-3, torch.bfloat16: 2e-2}
_EAGER = 'Load the model with attn_implementation="eager", and ask for output_attentions=True.'


def read_pattern(given: object) -> tuple[Float[Tensor, "*lead query key"], int]:
    """The pattern as float32 (float64 stays), and which axis the batch is. Never the caller's own memory to write to.

    A list or tuple of layers is stacked in front, so the batch is then axis 1.
    """
    if given is None:
        raise AttentionMissingError(f"There are no attention weights: None was given. A pattern is needed. {_EAGER}")
    if isinstance(given, list | tuple) and (not given or not isinstance(given[0], int | float | list | tuple)):
        if not given or any(layer is None for layer in given):
            what = "an empty tuple" if not given else "None for a layer"
            raise AttentionMissingError(
                f"There are no attention weights: {what} was given. The model ran with a fused kernel such as sdpa, "
                f"which hands none out. {_EAGER}"
            )
        layers = [_tensor(layer) for layer in given]
        if len({layer.shape for layer in layers}) > 1:
            shapes = sorted({str(list(layer.shape)) for layer in layers})
            raise InputError(
                f"The layers' patterns differ in shape ({', '.join(shapes)}). All must be alike. "
                "Give the layers of one forward pass."
            )
        return torch.stack([layer.to(layers[0].device) for layer in layers]), 1
    return _tensor(given), 0


def _tensor(given: object) -> Float[Tensor, "*lead query key"]:
    if isinstance(given, Tensor):
        tensor = given.detach()
    elif hasattr(given, "__array__") or isinstance(given, list | tuple):
        try:
            tensor = torch.as_tensor(plain(given))
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"The pattern cannot be read as numbers ({error}). Give a tensor [..., query, key]."
            ) from error
    else:
        raise InputError(f"A {type(given).__name__} is not a pattern. Give a tensor shaped [..., query, key].")
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if not tensor.is_floating_point():
        raise InputError(
            f"The pattern is {tensor.dtype}. Attention weights are floating-point numbers from 0 to 1. "
            "Give the pattern after the softmax."
        )
    if tensor.ndim < 2 or tensor.shape[-1] != tensor.shape[-2] or not tensor.shape[-1]:
        raise InputError(
            f"The pattern is shaped {list(tensor.shape)}. Its last two axes, query and key, must be equally long. "
            "In generation with a cache each step gives one row only: run the whole text in one forward pass."
        )
    return tensor


def plain(given: Any) -> Any:
    """An array as torch can take it: numpy's may run backwards, or hold another machine's byte order."""
    if not hasattr(given, "__array__"):
        return given
    array = given.__array__()
    return array.astype(array.dtype.newbyteorder("="), order="C")


def as_float(pattern: Float[Tensor, "*lead query key"]) -> Float[Tensor, "*lead query key"]:
    """Half types as float32, so that sums are exact enough; float64 stays as it is."""
    return pattern if pattern.dtype == torch.float64 else pattern.to(torch.float32)


def tolerance_of(dtype: torch.dtype) -> float:
    """How far a row's sum may be from one."""
    return _ROW_TOLERANCE.get(dtype, 1e-3)


def must_be_pattern(
    mean_sum: Float[Tensor, "*lead"], mean_ahead: Float[Tensor, "*lead"], tolerance: float, layer: int
) -> None:
    """The same from sums alone: refuse what is not a number, warn of what is no pattern that reads left to right."""
    if not bool(mean_sum.isfinite().all()):
        raise InputError(
            f"The pattern of layer {layer} holds NaN or infinity. Attention weights are numbers from 0 to 1. Look for "
            "NaN in the weights, or for a number type that is too small for them."
        )
    troubles = []
    if bool(((mean_sum - 1).abs() > tolerance).any()):
        troubles.append(f"its rows sum to {float(mean_sum.min()):.4g}-{float(mean_sum.max()):.4g} on average, not to 1")
    if bool((mean_ahead.abs() > tolerance).any()):
        troubles.append(f"up to {float(mean_ahead.abs().max()):.4g} of a row's weight is on later tokens")
    if troubles:
        warnings.warn(
            f"The pattern of layer {layer} is unusual: {'; '.join(troubles)}. Does a hook change it, or is "
            "NaN in the weights?",
            LensonsWarning,
            stacklevel=2,
        )


def check_rows(
    pattern: Float[Tensor, "*lead query key"], real: Bool[Tensor, "*lead query"], dtype: torch.dtype
) -> None:
    """Refuse what is not a number; warn, once, of what cannot be a pattern of a model that reads left to right."""
    if not bool(pattern.isfinite().all()):
        raise InputError(
            "The pattern holds NaN or infinity. Attention weights are numbers from 0 to 1. "
            "A row in which every key is masked becomes NaN: mark pads with attention_mask."
        )
    n = pattern.shape[-1]
    tolerance = tolerance_of(dtype)
    sums = pattern.sum(-1)
    off = (sums - 1).abs().masked_fill(~real, 0)
    troubles: Sequence[str] = []
    if bool((off > tolerance).any()):
        low = float(sums.masked_fill(~real, torch.inf).min())
        high = float(sums.masked_fill(~real, -torch.inf).max())
        troubles = [
            f"rows sum to {low:.4g}-{high:.4g} instead of 1 (is the model in training mode, with dropout, "
            "or was the pattern edited?)"
        ]
    low, high = (float(pattern.min()), float(pattern.max())) if pattern.numel() else (0.0, 1.0)
    if not -tolerance <= low <= high <= 1 + tolerance:
        troubles = [*troubles, f"its numbers reach from {low:.4g} to {high:.4g}, not from 0 to 1"]
    ahead = pattern[..., torch.ones(n, n, dtype=torch.bool, device=pattern.device).triu(1)]
    if bool((ahead.abs() > tolerance / n).any()):
        troubles = [
            *troubles,
            f"{float(ahead.sum()):.4g} of {float(sums.sum()):.4g} of the weight is on later tokens "
            "(these scores are for models that read left to right)",
        ]
    if troubles:
        warnings.warn(f"This pattern is unusual: {'; '.join(troubles)}.", LensonsWarning, stacklevel=4)
