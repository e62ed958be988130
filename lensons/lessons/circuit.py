"""Two heads that work together: what the induction lesson knows, gathered once."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from lensons.ablation import Ablation, token_losses
from lensons.errors import InputError
from lensons.heads import HeadName
from lensons.lessons.evidence import readable_block
from lensons.lessons.repeated import N_PROMPTS, Repeated, repeat_blocks, silence
from lensons.models import Hook, LoadedModel, Stage
from lensons.prompts import repeated_blocks
from lensons.scores import composition, composition_baseline, induction
from lensons.scoring import HeadScores, score_heads
from lensons.tracing import Trace


@dataclass(frozen=True, eq=False)
class Circuit:
    """The evidence of the induction lesson. Each part is measured when it is first asked for, and only once.

    Attributes:
        model: the model that everything is measured on. It needs two layers at least.
    """

    model: LoadedModel

    def __post_init__(self) -> None:
        if self.model.n_layers < 2:
            raise InputError(
                f"{self.model.name} has one layer. An induction head builds on a head in a layer below it, so two "
                "are needed. Choose a deeper model."
            )

    @cached_property
    def scores(self) -> HeadScores:
        """All heads on repeated random blocks."""
        return score_heads(self.model, kinds=("previous_token", "induction", "duplicate_token", "first_token"))

    @cached_property
    def repeated(self) -> Repeated:
        """The loss, and the loss without the strongest induction heads."""
        return repeat_blocks(self.model, self.scores, ("induction", "previous_token"), also=(self.upper, self.lower))

    @cached_property
    def upper(self) -> HeadName:
        """The strongest induction head that has a layer below it."""
        every = self.scores.top("induction", self.model.n_layers * self.model.n_heads)
        return next(head for head, _ in every if head.layer > 0)

    @cached_property
    def lower(self) -> HeadName:
        """The strongest previous-token head in a layer below :attr:`upper`."""
        every = self.scores.top("previous_token", self.model.n_layers * self.model.n_heads)
        return next(head for head, _ in every if head.layer < self.upper.layer)

    @cached_property
    def shown(self) -> Trace:
        """A short random block that comes twice, traced and checked."""
        return readable_block(self.model)

    @cached_property
    def shown_losses(self) -> Float[Tensor, " pos"]:
        """The loss of each token of :attr:`shown`, in nats; NaN for the first, which nothing predicts."""
        losses = token_losses(self.model, torch.tensor([self.shown.tokens.ids]))[0]
        return torch.cat([torch.tensor([torch.nan]), losses])

    @cached_property
    def k_composition(self) -> Float[Tensor, "layer head"]:
        """From the weights: how strongly each head below feeds the keys of :attr:`upper`; NaN where it can't."""
        w_q, w_k, w_v = (self.model.attention_weights(name).cpu() for name in ("W_Q", "W_K", "W_V"))
        w_o, _ = self.model.output_weights()
        layer, head = self.upper
        # Only the one head that reads is of interest; all pairs of a large model would not fit in memory.
        below = [weights[:layer] for weights in (w_q, w_k, w_v, w_o.cpu())]
        above = [weights[layer, head].expand_as(weights[0])[None] for weights in (w_q, w_k, w_v, w_o.cpu())]
        together = [torch.cat([b, a]) for b, a in zip(below, above, strict=True)]
        found = composition("k", *together)[:layer, :, layer, 0]
        full = torch.full((self.model.n_layers, self.model.n_heads), torch.nan)
        full[:layer] = found
        return full

    @cached_property
    def baseline(self) -> tuple[float, float]:
        """K-composition of random weights of this size: mean and standard deviation."""
        return composition_baseline(self.model.d_model, self.model.d_head)

    @property
    def lower_rank(self) -> int:
        """The rank of :attr:`lower` among the heads below, by K-composition; 1 is the strongest."""
        return 1 + int((self.k_composition.nan_to_num(-1) > self.k_composition[self.lower]).sum())

    @property
    def without(self) -> dict[HeadName, Ablation]:
        """What the loss does without the one head, and without the other."""
        return {head: self.repeated.each[head] for head in (self.upper, self.lower)}

    @cached_property
    def upper_score_without(self) -> dict[HeadName | None, float]:
        """The induction score of :attr:`upper`, whole (None), and with each head of the lower layer taken out."""
        heads = [HeadName(self.lower.layer, head) for head in range(self.model.n_heads)]
        return {head: self._upper_score(head) for head in (None, *heads)}

    def _upper_score(self, without: HeadName | None) -> float:
        batch = repeated_blocks(self.model, N_PROMPTS).batches(N_PROMPTS)[0]
        kept: list[Tensor] = []

        def keep(pattern: Tensor) -> None:
            kept.append(pattern[:, self.upper.head].detach().float().cpu())

        hooks: dict[tuple[Stage, int], Hook] = {("pattern", self.upper.layer): keep}
        if without is not None:
            hooks["z", without.layer] = silence(without.head)
        self.model.run(batch.ids, hooks, stop_after=("pattern", self.upper.layer))
        return float(induction(kept[0], batch.ids, bos=batch.special(self.model.special_ids)).mean())
