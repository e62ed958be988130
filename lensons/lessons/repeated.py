"""The repeated-tokens experiment: a made-up sequence twice. What is the loss of each token, and which heads did it?"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from lensons.ablation import Ablation, Ablations, token_losses
from lensons.heads import HeadName
from lensons.models import Hook, LoadedModel
from lensons.prompts import Prompts, repeated_blocks
from lensons.scoring import HeadScores

N_PROMPTS = 8
TOP = 5


@dataclass(frozen=True, eq=False)
class Repeated:
    """What happened on prompts in which a random block comes twice.

    Attributes:
        loss: the mean loss of each predicted token, in nats: entry p is for the token at position p + 1.
        block_len: tokens in a block.
        n_prompts: how many prompts.
        has_bos: whether a BOS token stands in front.
        induction_heads: the strongest induction heads, best first.
        without: what taking all of them out did.
        each: what taking out one head did, for the strongest heads of each kind and those asked for.
    """

    loss: Float[Tensor, " pred"]
    block_len: int
    n_prompts: int
    has_bos: bool
    induction_heads: tuple[HeadName, ...]
    without: Ablation
    each: dict[HeadName, Ablation]

    @property
    def first_copy(self) -> float:
        """Mean loss on the first copy, its first token left out."""
        return float(self.without.before.first or 0.0)

    @property
    def second_copy(self) -> float:
        """Mean loss on the second copy, its first token left out."""
        return float(self.without.before.second or 0.0)


def repeat_blocks(
    model: LoadedModel, scores: HeadScores, kinds: tuple[str, ...], also: tuple[HeadName, ...] = (), top: int = TOP
) -> Repeated:
    """Run the experiment: the loss, then that without the strongest heads of each kind and these too, one by one."""
    prompts = repeated_blocks(model, N_PROMPTS)
    block_len = int(prompts.protocol["block_len"])
    ids = [list(prompt) for prompt in prompts.ids]
    induction = tuple(head for head, _ in scores.top("induction", min(top, model.n_layers * model.n_heads // 4 or 1)))
    heads = tuple(dict.fromkeys([*also, *(head for kind in kinds for head, _ in scores.top(kind, top))]))
    ablations = Ablations(model, ids, "zero", block_len)
    return Repeated(
        loss=_loss(model, prompts),
        block_len=block_len,
        n_prompts=len(ids),
        has_bos=bool(prompts.protocol["bos"]),
        induction_heads=induction,
        without=ablations.together(induction),
        each=ablations.each(heads),
    )


def _loss(model: LoadedModel, prompts: Prompts) -> Float[Tensor, " pred"]:
    return torch.cat([token_losses(model, batch.ids) for batch in prompts.batches(N_PROMPTS)]).mean(0)


def silence(head: int) -> Hook:
    """A hook that sets one head's output z to 0, in a copy."""

    def hook(z: Tensor) -> Tensor:
        z = z.clone()
        z[..., head, :] = 0
        return z

    return hook
