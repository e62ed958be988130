"""The scores of attention heads: pure functions from a pattern to a number between 0 and 1."""

from typing import Literal, get_args

import torch
from einops import einsum
from jaxtyping import Bool, Float, Float32
from torch import Tensor

from lensons.errors import InputError
from lensons.scores.patterns import as_float, check_rows, read_pattern
from lensons.scores.targets import Kind, Positions, find_detector_targets, find_targets

Measure = Literal["query_mean", "mass_share"]


def previous_token(
    pattern: object,
    token_ids: object = None,
    *,
    bos: bool | Tensor = False,
    attention_mask: object = None,
    measure: Measure = "query_mean",
) -> Float32[Tensor, "*lead"]:
    """How much a head looks at the token just before.

    score = mean over q >= 1 of A[q, q-1]; with BOS at position 0, over q >= 2.

    Args:
        pattern: attention weights after the softmax, [..., query, key], of any float type on any device; or a list
            or tuple of layers, such as Hugging Face's ``output_attentions``, which is stacked in front.
        token_ids: [pos], or [batch, pos] where the pattern's first axis (the second, for a list of layers) is the
            batch. Used as given; nothing is added.
        bos: True: the first real position is BOS. A bool tensor shaped like ``token_ids`` marks any special
            positions; they are never a token that repeats, and never the token before. An id is never guessed to
            be BOS.
        attention_mask: [batch, pos] or [pos]; 1 is real, 0 a pad, on either side. Pads are never a query, a key or
            a first token.
        measure: ``"query_mean"``, or ``"mass_share"``: weight on the target cells of TransformerLens'
            ``detect_head`` divided by all weight. Its ceiling is below 1 and falls with what a prompt has few of;
            it is there so that the two can be reconciled.

    Returns:
        float32, with the pattern's leading axes: ``[batch, head, q, k] -> [batch, head]``. 1: every query that
        counts puts all its weight there. 0: none does. What a head that looks everywhere alike would score is
        :func:`chance`. NaN: no query counts; :func:`why_undefined` says why.

    Raises:
        InputError: not a square pattern, NaN or infinity in it, or shapes that do not go together.
        AttentionMissingError: the model handed out no weights (None, or an empty tuple).

    Warns:
        LensonsWarning: rows do not sum to one, weight lies on later tokens, or numbers are not from 0 to 1.

    Example:
        >>> import torch
        >>> previous_token(torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 1, 0]]))
        tensor(1.)

    Source: Wang et al. 2022, section 3.
    """
    return score("previous_token", pattern, token_ids, bos=bos, attention_mask=attention_mask, measure=measure)


def duplicate_token(
    pattern: object,
    token_ids: object,
    *,
    bos: bool | Tensor = False,
    attention_mask: object = None,
    measure: Measure = "query_mean",
) -> Float32[Tensor, "*lead"]:
    """How much a head looks at earlier copies of the same token.

    score = mean, over the queries whose token came before, of the summed weight on all its earlier copies. Arguments,
    errors and the meaning of 0, 1 and NaN are those of :func:`previous_token`. Ids decide what is the same token.

    Example:
        >>> import torch
        >>> duplicate_token(torch.tensor([[1.0, 0, 0], [0, 1, 0], [1, 0, 0]]), [7, 8, 7])
        tensor(1.)

    Source: Wang et al. 2022, section 3.
    """
    return score("duplicate_token", pattern, token_ids, bos=bos, attention_mask=attention_mask, measure=measure)


def induction(
    pattern: object,
    token_ids: object,
    *,
    bos: bool | Tensor = False,
    attention_mask: object = None,
    measure: Measure = "query_mean",
) -> Float32[Tensor, "*lead"]:
    """How much a head looks at what came after the last copies of the same token: [A][B] ... [A] -> [B].

    score = mean, over the queries q that have one, of the summed weight on every k with 1 <= k < q and
    id[k-1] == id[q]. Arguments, errors and the meaning of 0, 1 and NaN are those of :func:`previous_token`.

    Example:
        >>> import torch
        >>> induction(torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 1, 0]]), [7, 8, 7])
        tensor(1.)

    Source: Olsson et al. 2022, "prefix matching"; Elhage et al. 2021, "Induction heads".
    """
    return score("induction", pattern, token_ids, bos=bos, attention_mask=attention_mask, measure=measure)


def first_token(
    pattern: object,
    token_ids: object = None,
    *,
    bos: bool | Tensor = False,
    attention_mask: object = None,
    measure: Measure = "query_mean",
) -> Float32[Tensor, "*lead"]:
    """How much a head looks at the first token (an attention sink, when it is much).

    score = mean over q >= 1 of A[q, 0]. The first row is always 1 and does not count. Arguments, errors and the
    meaning of 0, 1 and NaN are those of :func:`previous_token`.

    Example:
        >>> import torch
        >>> first_token(torch.tensor([[1.0, 0], [0.25, 0.75]]))
        tensor(0.2500)

    Source: Xiao et al. 2023, section 3.1.
    """
    return score("first_token", pattern, token_ids, bos=bos, attention_mask=attention_mask, measure=measure)


def current_token(
    pattern: object,
    token_ids: object = None,
    *,
    bos: bool | Tensor = False,
    attention_mask: object = None,
    measure: Measure = "query_mean",
) -> Float32[Tensor, "*lead"]:
    """How much a head looks at the token it is on.

    score = mean over q >= 1 of A[q, q]. The first row is always 1 and does not count. Arguments, errors and the
    meaning of 0, 1 and NaN are those of :func:`previous_token`.

    Example:
        >>> import torch
        >>> current_token(torch.eye(3))
        tensor(1.)
    """
    return score("current_token", pattern, token_ids, bos=bos, attention_mask=attention_mask, measure=measure)


def entropy(
    pattern: object,
    token_ids: object = None,
    *,
    bos: bool | Tensor = False,
    attention_mask: object = None,
) -> Float32[Tensor, "*lead"]:
    """How widely a head spreads its weight.

    score = mean over q >= 1 of -sum_k A[q,k] ln A[q,k] / ln(number of keys q can see). 0: all on one token. 1: on
    all alike, which is also its chance level. Arguments and errors are those of :func:`previous_token`.

    Example:
        >>> import torch
        >>> entropy(torch.tensor([[1.0, 0], [0.5, 0.5]]))
        tensor(1.)
    """
    return score("entropy", pattern, token_ids, bos=bos, attention_mask=attention_mask)


def score(
    kind: Kind,
    pattern: object,
    token_ids: object = None,
    *,
    bos: bool | Tensor = False,
    attention_mask: object = None,
    measure: Measure = "query_mean",
) -> Float32[Tensor, "*lead"]:
    """Any kind of score, by its name. See :func:`previous_token` for the arguments.

    Example:
        >>> import torch
        >>> score("current_token", torch.eye(3))
        tensor(1.)
    """
    if measure not in get_args(Measure):
        raise InputError(f"measure={measure!r} was given. Allowed are {' and '.join(get_args(Measure))}.")
    weights, batch_axis = read_pattern(pattern)
    n = weights.shape[-1]
    at = Positions(kind, token_ids, n, bos, attention_mask)
    flat = _batch_first(weights, at, batch_axis)  # [batch, rest, query, key]
    values = as_float(flat)
    real = at.real.to(values.device)
    if not bool(real.all()):  # what stands in a pad's row means nothing, and may be anything
        values = torch.where(real[:, None, :, None], values, 0)
    check_rows(values, real[:, None, :].expand(values.shape[:-1]), weights.dtype)
    found = (find_targets if measure == "query_mean" else find_detector_targets)(kind, at).to(values.device)
    if measure == "mass_share":
        result = _on_targets(values, found) / values.sum((-1, -2))
        result = torch.where(found.any(-1).any(-1)[:, None], result, torch.nan)
    elif kind == "entropy":
        result = _mean_entropy(values, found)
    else:
        result = _on_targets(values, found) / found.any(-1).sum(-1)[:, None]  # 0 / 0 is NaN: undefined
    return _original_axes(result, weights, at, batch_axis).to(torch.float32)


def _on_targets(
    pattern: Float[Tensor, "batch rest query key"], found: Bool[Tensor, "batch query key"]
) -> Float[Tensor, "batch rest"]:
    """The weight that lies on target cells, summed."""
    return einsum(pattern, found.to(pattern.dtype), "batch rest query key, batch query key -> batch rest")


def _mean_entropy(
    pattern: Float[Tensor, "batch rest query key"], seen: Bool[Tensor, "batch query key"]
) -> Float[Tensor, "batch rest"]:
    nats = torch.special.entr(pattern.clamp(min=0)).sum(-1)
    counted = seen.any(-1)
    share = nats / seen.sum(-1).clamp(min=2).log()[:, None]
    return torch.where(counted[:, None], share, 0).sum(-1) / counted.sum(-1)[:, None]


def _batch_first(
    weights: Float[Tensor, "*lead query key"], at: Positions, batch_axis: int
) -> Float[Tensor, "batch rest query key"]:
    n, batch = weights.shape[-1], at.real.shape[0]
    if not at.batched or (batch == 1 and _leading(weights, batch_axis) != 1):
        return weights.reshape(1, -1, n, n)
    if _leading(weights, batch_axis) != batch:
        axis = "second" if batch_axis else "first"
        raise InputError(
            f"token_ids hold {batch} prompts, but the pattern's {axis} axis is {_leading(weights, batch_axis)} long "
            f"(it is shaped {list(weights.shape)}). They must be equal. Give ids shaped [pos] where every pattern is "
            "for the same prompt."
        )
    return weights.movedim(batch_axis, 0).reshape(batch, -1, n, n)


def _leading(weights: Float[Tensor, "*lead query key"], axis: int) -> int | None:
    return weights.shape[axis] if axis < weights.ndim - 2 else None


def _original_axes(
    result: Float[Tensor, "batch rest"], weights: Float[Tensor, "*lead query key"], at: Positions, batch_axis: int
) -> Float[Tensor, "*lead"]:
    lead = weights.shape[:-2]
    if result.shape[0] == 1 and (not at.batched or _leading(weights, batch_axis) != 1):
        return result.reshape(lead)
    others = lead[:batch_axis] + lead[batch_axis + 1 :]
    return result.reshape(result.shape[0], *others).movedim(0, batch_axis)
