"""Scores of a model's heads from its weights alone; no text is read."""

import os
from dataclasses import dataclass
from typing import Any, get_args

from jaxtyping import Float
from torch import Tensor

from lensons.axes import LayerHead
from lensons.errors import InputError
from lensons.models import LoadedModel, as_model, load_model
from lensons.options import yes_or_no
from lensons.scores import composition, composition_baseline, copying
from lensons.scores.weights import Composition


@dataclass(frozen=True, eq=False, repr=False)
class WeightScores:
    """Scores from weights.

    Attributes:
        copying: [layer, head], from -1 to 1: how much a head passes on what it reads as it is.
        composition: for ``"q"``, ``"k"`` and ``"v"``: [layer, head, layer, head], from an earlier head to a later one;
            NaN where the second layer is not above the first.
        baseline: mean and standard deviation of the composition of heads of the same size with random weights.
        provenance: model, revision, versions, weights.
    """

    copying: LayerHead
    composition: dict[str, Float[Tensor, "layer head layer head"]]
    baseline: tuple[float, float]
    provenance: dict[str, Any]

    def __repr__(self) -> str:
        n_layers, n_heads = self.copying.shape
        mean, spread = self.baseline
        return (
            f"WeightScores({self.provenance['model']}, {self.provenance['weights']} weights, {n_layers} x {n_heads} "
            f"heads; composition of random heads {mean:.3f} ± {spread:.3f})"
        )


def weight_scores(model: Any = "gpt2", *, processed: bool = True) -> WeightScores:
    """Copying scores, and Q-, K- and V-composition between all pairs of heads, from a model's weights.

    Args:
        model: a name or folder, which is then loaded with processed weights; or a model that is loaded already.
        processed: whether layer norm is folded in and weights are centred. These scores are meant for such weights;
            with False they are made of the weights as they are.

    Returns:
        A :class:`WeightScores`, with the baseline of random heads.

    Raises:
        InputError: a loaded model has the other kind of weights than ``processed`` says.

    Example:
        >>> weight_scores("toy").copying.shape
        torch.Size([4, 4])

    Source: Elhage et al. 2021; definitions in :func:`lensons.scores.copying` and :func:`lensons.scores.composition`.
    """
    processed = yes_or_no("processed", processed)
    loaded = load_model(model, processed=processed) if isinstance(model, str | os.PathLike) else as_model(model)
    if loaded.processed != processed:
        has, wants = ("processed" if p else "unprocessed" for p in (loaded.processed, processed))
        raise InputError(
            f"This model has {has} weights, and {wants} ones were asked for. Pass processed={loaded.processed} to take "
            "it as it is, or load it anew with load_model(..., processed=True)."
        )
    return _of(loaded)


def _of(model: LoadedModel) -> WeightScores:
    w_q, w_k, w_v = (model.attention_weights(which).float().cpu() for which in ("W_Q", "W_K", "W_V"))
    w_o = model.output_weights()[0].float().cpu()
    return WeightScores(
        copying(w_v, w_o),
        {kind: composition(kind, w_q, w_k, w_v, w_o) for kind in get_args(Composition)},
        composition_baseline(model.d_model, model.d_head),
        model.provenance(),
    )
