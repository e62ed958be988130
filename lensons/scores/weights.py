"""Scores from the weights alone, no text needed (Elhage et al. 2021).

Best on processed weights (layer norm folded in, centred), as ``load_model(..., processed=True)`` gives them.
"""

from typing import Literal, get_args

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from lensons.errors import InputError
from lensons.options import whole_number

Composition = Literal["q", "k", "v"]


def copying(
    w_v: Float[Tensor, "*lead d_model d_head"], w_o: Float[Tensor, "*lead d_head d_model"]
) -> Float[Tensor, "*lead"]:
    """How much a head's output matrix W_V W_O copies: sum of the real parts of its eigenvalues / sum of their sizes.

    Args:
        w_v: value weights, [..., d_model, d_head].
        w_o: output weights, [..., d_head, d_model].

    Returns:
        A number from -1 to 1. At 1 every direction is passed on as it is (copying), at -1 every one is turned round.
        About 0 for random weights. NaN where the weights are all 0.

    Raises:
        InputError: the shapes do not go together.

    Example:
        >>> eye = torch.eye(4)
        >>> float(copying(eye, eye)), float(copying(eye, -eye))
        (1.0, -1.0)

    Source: Elhage et al. 2021, "Copying behavior" (summarizing OV matrices by their eigenvalues).
    """
    w_v, w_o = _read("w_v", w_v), _read("w_o", w_o)
    if w_v.shape[:-2] != w_o.shape[:-2] or w_v.shape[-1] != w_o.shape[-2] or w_v.shape[-2] != w_o.shape[-1]:
        raise InputError(
            f"w_v is shaped {list(w_v.shape)} and w_o {list(w_o.shape)}. Allowed are [..., d_model, d_head] and "
            "[..., d_head, d_model]. Give both for the same heads."
        )
    # W_V W_O (d_model x d_model) and W_O W_V (d_head x d_head) have the same eigenvalues other than 0.
    values = torch.linalg.eigvals(w_o.double() @ w_v.double())
    return (values.real.sum(-1) / values.abs().sum(-1)).to(torch.float32)


def composition(
    kind: Composition,
    w_q: Float[Tensor, "layer head d_model d_head"],
    w_k: Float[Tensor, "layer head d_model d_head"],
    w_v: Float[Tensor, "layer head d_model d_head"],
    w_o: Float[Tensor, "layer head d_head d_model"],
) -> Float[Tensor, "layer head layer head"]:
    """How strongly each head's output feeds each later head's queries, keys or values.

    K-composition of an earlier head 1 with a later head 2: size(W_OV1 W_QK2^T) / (size(W_OV1) size(W_QK2)), where
    size is the Frobenius norm, W_OV = W_V W_O and W_QK = W_Q W_K^T (vectors are rows). For Q the product is
    W_OV1 W_QK2; for V it is W_OV1 W_OV2.

    Args:
        kind: ``"q"``, ``"k"`` or ``"v"``: what of the later head is fed.
        w_q, w_k, w_v: [layer, head, d_model, d_head]; keys and values repeated for every head that shares them.
        w_o: [layer, head, d_head, d_model].

    Returns:
        [layer, head, layer, head], float32: from the first two to the last two. 0: the later head reads nothing of
        what the earlier one writes; 1: as strongly as can be. Random weights do not give 0: see
        :func:`composition_baseline`. NaN where the second layer is not above the first.

    Raises:
        InputError: an unknown kind, or shapes that do not go together.

    Example:
        >>> w = torch.randn(2, 3, 8, 2)
        >>> composition("k", w, w, w, w.mT).shape
        torch.Size([2, 3, 2, 3])

    Source: Elhage et al. 2021, "Two-layer attention-only transformers" (Q-, K- and V-composition).
    """
    if kind not in get_args(Composition):
        raise InputError(f"{kind!r} is not a kind of composition. Allowed are q, k and v. Choose one of those.")
    w_q, w_k, w_v, w_o = (_read(n, w) for n, w in (("w_q", w_q), ("w_k", w_k), ("w_v", w_v), ("w_o", w_o)))
    if not w_q.shape == w_k.shape == w_v.shape == w_o.mT.shape or w_q.ndim != 4:
        raise InputError(
            f"The weights are shaped {list(w_q.shape)}, {list(w_k.shape)}, {list(w_v.shape)}, {list(w_o.shape)}. "
            "Allowed are [layer, head, d_model, d_head] three times and [layer, head, d_head, d_model]. "
            "Repeat shared keys and values for each head."
        )
    w_q, w_k, w_v, w_o = (w.float() for w in (w_q, w_k, w_v, w_o))
    # Each matrix is a product left @ right through d_head numbers, so |left1 right1 left2 right2| needs d_head x d_head
    # products only: with Gram matrices G = left^T left and H = right right^T, |left M right|^2 = <G M H, M>.
    reads = {"q": (w_q, w_k.mT), "k": (w_k, w_q.mT), "v": (w_v, w_o)}[kind]
    gram_1 = w_v.mT @ w_v
    gram_2 = reads[1] @ reads[1].mT
    middle = einsum(w_o, reads[0], "l1 h1 a d_model, l2 h2 d_model b -> l1 h1 l2 h2 a b")
    inner = einsum(gram_1, middle, "l1 h1 a c, l1 h1 l2 h2 c b -> l1 h1 l2 h2 a b")
    inner = einsum(inner, gram_2, "l1 h1 l2 h2 a c, l2 h2 c b -> l1 h1 l2 h2 a b")
    together = (inner * middle).sum((-1, -2)).clamp(min=0).sqrt()
    norm_1 = _product_norm(w_v, w_o)
    norm_2 = _product_norm(*reads)
    result = together / (norm_1[:, :, None, None] * norm_2)
    n = len(w_q)
    above = torch.ones(n, n, dtype=torch.bool, device=result.device).triu(1)
    return result.masked_fill(~above[:, None, :, None], torch.nan)


def _product_norm(
    left: Float[Tensor, "layer head d_model d_head"], right: Float[Tensor, "layer head d_head d_model"]
) -> Float[Tensor, "layer head"]:
    """|left right|, Frobenius, without making the d_model x d_model product."""
    return ((left.mT @ left) * (right @ right.mT)).sum((-1, -2)).clamp(min=0).sqrt()


def composition_baseline(d_model: int, d_head: int, n: int = 32, seed: int = 0) -> tuple[float, float]:
    """What :func:`composition` gives for heads of independent random weights: mean and standard deviation.

    Args:
        d_model, d_head: the model's sizes.
        n: how many random pairs of heads.
        seed: the same seed gives the same numbers.

    Example:
        >>> mean, spread = composition_baseline(64, 8)
        >>> 0 < spread < mean < 1
        True
    """
    d_model, d_head, n = (
        whole_number(what, x, low) for what, x, low in (("d_model", d_model, 1), ("d_head", d_head, 1), ("n", n, 2))
    )
    generator = torch.Generator().manual_seed(whole_number("seed", seed, 0, 2**63 - 1))
    w = torch.randn(4, 2, n, d_model, d_head, generator=generator, dtype=torch.float32)
    values = composition("k", w[0], w[1], w[2], w[3].mT)[0, :, 1].diagonal()
    return float(values.mean()), float(values.std())


def _read(name: str, given: object) -> Tensor:
    if not isinstance(given, Tensor) or given.ndim < 2:
        shape = f" shaped {list(given.shape)}" if isinstance(given, Tensor) else ""
        raise InputError(
            f"{name} is a {type(given).__name__}{shape}. Allowed is a tensor of weights, a matrix for each head. Give "
            "those of a model, such as block.attn.W_Q."
        )
    if not bool(given.isfinite().all()):
        raise InputError(
            f"{name} holds NaN or infinity. Allowed are finite weights. Look where the model got them from."
        )
    return given.detach()
