"""Prompts for measuring heads: random blocks that come twice, or what the caller has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from lensons.errors import InputError
from lensons.models import LoadedModel
from lensons.options import whole_number
from lensons.scores.patterns import plain
from lensons.scores.targets import real_positions
from lensons.tokens import tokenize

N_PROMPTS = 32
BLOCK_LEN = 50


@dataclass(frozen=True)
class Prompts:
    """Prompts as ids, and how they were made.

    Attributes:
        ids: one tuple of ids a prompt; they may differ in length.
        protocol: plain data that says how to make them again.
    """

    ids: tuple[tuple[int, ...], ...]
    protocol: dict[str, Any]

    def batches(self, size: int) -> "list[Batch]":
        """The prompts in batches of at most ``size``."""
        return [Batch.of(self.ids[start : start + size]) for start in range(0, len(self.ids), size)]


@dataclass(frozen=True)
class Batch:
    """Prompts side by side; pads are on the right, where no real token ever looks."""

    ids: Int[Tensor, "batch pos"]
    attention_mask: Int[Tensor, "batch pos"]

    @classmethod
    def of(cls, prompts: Sequence[Sequence[int]]) -> "Batch":
        """Put prompts side by side."""
        longest = max(map(len, prompts))
        ids = torch.tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts])
        mask = torch.tensor([[1] * len(prompt) + [0] * (longest - len(prompt)) for prompt in prompts])
        return cls(ids, mask)

    def special(self, special_ids: frozenset[int]) -> Tensor:
        """Where a token stands for no text, [batch, pos]."""
        return torch.isin(self.ids, torch.tensor(sorted(special_ids), dtype=self.ids.dtype))


def repeated_blocks(
    model: LoadedModel, n_prompts: int | None = None, block_len: int | None = None, seed: int = 0
) -> Prompts:
    """``[BOS] + block + block``: ordinary tokens, drawn without replacement inside a block, so none comes twice in it.

    Args:
        model: gives the vocabulary, the BOS token (left out where it has none) and the longest prompt.
        n_prompts: how many prompts; 32 by default.
        block_len: tokens in a block; by default 50, or (context - 1) // 2 where that is less.
        seed: the same seed gives the same prompts.
    """
    n_prompts = whole_number("n_prompts", N_PROMPTS if n_prompts is None else n_prompts, 1)
    bos = [] if model.bos_id is None else [model.bos_id]
    ordinary = _ordinary_ids(model)
    longest = min((model.n_ctx - len(bos)) // 2, len(ordinary))
    if longest < 2:
        raise InputError(f"{model.name} reads {model.n_ctx} tokens at once, too few for a block that comes twice.")
    if block_len is None:
        block_len = min(BLOCK_LEN, (model.n_ctx - 1) // 2, longest)
    block_len = whole_number("block_len", block_len, 2, longest)
    generator = torch.Generator().manual_seed(whole_number("seed", seed, 0, 2**63 - 1))
    ids = []
    for _ in range(n_prompts):
        chosen = ordinary[torch.randperm(len(ordinary), generator=generator)[:block_len]].tolist()
        ids.append((*bos, *chosen, *chosen))
    protocol = {
        "prompts": "repeated random blocks",
        "n_prompts": n_prompts,
        "block_len": block_len,
        "seed": seed,
        "bos": bool(bos),
        "ordinary_tokens": len(ordinary),
    }
    return Prompts(tuple(ids), protocol)


def _ordinary_ids(model: LoadedModel) -> Int[Tensor, " token"]:
    """Every id that stands for text."""
    known = model.d_vocab if model.tokenizer is None else min(model.d_vocab, len(model.tokenizer))
    return torch.tensor([token_id for token_id in range(known) if token_id not in model.special_ids])


def given_prompts(model: LoadedModel, prompts: Any, attention_mask: Any = None) -> Prompts:
    """The caller's prompts: a text, texts, lists of ids, or a [batch, pos] tensor with an attention mask.

    Text gets BOS where the tokenizer has one; ids are taken as they are.
    """
    if isinstance(prompts, str):
        prompts = [prompts]
    if isinstance(prompts, Tensor) or hasattr(prompts, "__array__"):
        prompts = _tensor("prompts", prompts)
        if prompts.ndim == 1:
            prompts = prompts[None]
        if prompts.ndim != 2:
            raise InputError(f"prompts is shaped {list(prompts.shape)}. Allowed is [batch, pos]. Reshape it.")
        rows = list(_unpadded(prompts, attention_mask))
    elif attention_mask is not None:
        raise InputError(
            "attention_mask was given, but prompts is not a tensor. A mask goes with ids shaped [batch, pos]. "
            "Leave it out: texts and lists have no pads."
        )
    elif isinstance(prompts, list | tuple) and prompts and all(map(_is_id, prompts)):
        rows = [list(prompts)]
    elif isinstance(prompts, list | tuple):
        rows = list(prompts)
    else:
        raise InputError(
            f"prompts is a {type(prompts).__name__}. Allowed are a text, a list of texts, a list of lists of ids, or "
            "a tensor shaped [batch, pos]."
        )
    if not rows:
        raise InputError("prompts is empty. At least one prompt is needed. Leave it out to use random blocks.")
    kinds = {isinstance(row, str) for row in rows}
    if len(kinds) > 1:
        raise InputError("prompts mixes texts and ids. Allowed are all texts, or all ids. Split them in two calls.")
    bos = model.bos_id is not None
    ids = tuple(tokenize(model, row, prepend_bos=bos if isinstance(row, str) else False).ids for row in rows)
    form = "texts" if kinds == {True} else "ids"
    return Prompts(ids, {"prompts": form, "n_prompts": len(ids), "bos": bos if form == "texts" else None})


def _tensor(name: str, given: Any) -> Tensor:
    try:
        tensor = torch.as_tensor(plain(given))
        tensor.tolist()  # it has to come back: "meta" holds no numbers
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name} cannot be read as whole numbers ({error}). Allowed is a tensor [batch, pos]. Give ids of a "
            "tokenizer, and its attention mask."
        ) from error
    return tensor


def _is_id(token: Any) -> bool:
    """One whole number, not a prompt: a tensor or an array of several has ``__index__`` too."""
    return hasattr(token, "__index__") and not getattr(token, "ndim", 0)


def _unpadded(ids: Int[Tensor, "batch pos"], attention_mask: Any) -> list[list[int]]:
    if attention_mask is None:
        return [row.tolist() for row in ids]
    mask = _tensor("attention_mask", attention_mask)
    if mask.shape != ids.shape:
        raise InputError(
            f"attention_mask is shaped {list(mask.shape)}, but prompts {list(ids.shape)}. They must be equal."
        )
    # Where the pads stand does not matter to the model: it is causal, so pads are moved to the right.
    return [row[real].tolist() for row, real in zip(ids, real_positions(mask), strict=True)]
