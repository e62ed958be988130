"""What figures are given, read: labels, numbers, names; and what cannot be drawn is refused here."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lensons.errors import InputError
from lensons.heads import HeadName
from lensons.tokens import Tokens, visible

# Of all heads together: 144 heads on 455 tokens, about 15 MB of a page. 12 heads on 1,024 tokens are 6.3 million.
MOST_NUMBERS = 15_000_000


def labels_of(tokens: Tokens | Sequence[str]) -> list[str]:
    """What stands beside rows and columns; of a caller's own labels, what cannot be seen is made visible."""
    if isinstance(tokens, Tokens):
        return list(tokens.labels)
    if not isinstance(tokens, Iterable):
        raise InputError(
            f"tokens={tokens!r:.100} was given. Allowed are what trace(...).tokens is, or a list of labels. Give one "
            "label for each token."
        )
    return [_seen(str(label)) for label in tokens]


def even(columns: Mapping[str, Sequence[Any]]) -> None:
    """Columns of one table, or lines over one axis: all equally long."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        found = ", ".join(f"{name}: {n}" for name, n in lengths.items()) or "none"
        raise InputError(f"The columns differ in length, or there are none ({found}). Give columns of one length.")


def _seen(label: str) -> str:
    """`" animal"` as "␣animal": spaces at an edge would be lost on a page; those between words stay."""
    text = "".join(c if c.isprintable() else visible(c) for c in label)
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    return visible(" ") * before + inner + visible(" ") * (len(text) - before - len(inner))


def array_of(numbers: Any) -> np.ndarray:
    """A torch tensor on any device and of any type, or whatever numpy reads; never the caller's own memory."""
    if isinstance(numbers, list | tuple):
        numbers = [array_of(part) if hasattr(part, "detach") else part for part in numbers]
    if hasattr(numbers, "detach"):
        numbers = numbers.detach().cpu().float().numpy()
    try:
        return np.array(numbers, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InputError(
            f"A {type(numbers).__name__} cannot be read as numbers ({error}). Give a tensor or an array; of what "
            "Hugging Face's model returns, its attentions."
        ) from error


def must_be_drawable(weights: np.ndarray, causal: bool = True) -> None:
    """Nothing is drawn that is no weight, that a picture would leave out, or that no page can hold."""
    heads, n = weights.shape[0], weights.shape[-1]
    numbers = heads * n * (n + 1) // 2
    if numbers > MOST_NUMBERS:
        raise InputError(
            f"{heads:,} heads on {n:,} tokens are {numbers:,} numbers. A page holds at most {MOST_NUMBERS:,}. "
            f"Choose at most {MOST_NUMBERS // (n * (n + 1) // 2)} heads, or a shorter text."
        )
    if not np.isfinite(weights).all():
        raise InputError(
            "The pattern holds NaN or infinity. Attention weights are numbers from 0 to 1: of scores before the "
            "softmax, masked ones are -inf. Give the pattern."
        )
    if weights.size and not -0.02 <= weights.min() <= weights.max() <= 1.02:  # half types round
        raise InputError(
            f"The pattern holds numbers from {weights.min():.4g} to {weights.max():.4g}. Attention weights are numbers "
            "from 0 to 1. Give the pattern."
        )
    ahead = weights[:, np.triu(np.ones((n, n), dtype=bool), 1)] if causal else np.zeros(1)
    if ahead.size and np.abs(ahead).max() > 1e-3:
        raise InputError(
            f"The pattern looks ahead: up to {np.abs(ahead).max():.4g} of a row lies on later tokens, and a causal "
            "picture would leave that out. Give causal=False to pattern_figure for a model that reads both ways."
        )


def names_of(heads: Any) -> list[str]:
    """Heads' names as they are written on a figure; one name is a list of one."""
    if isinstance(heads, str) or not isinstance(heads, Iterable):
        heads = [heads]
    return [_name_of(head) for head in heads]


def _name_of(head: Any) -> str:
    if head is None or isinstance(head, bool | float):
        raise InputError(
            f"{head!r} does not name a head: the numbers 5.1 and 5.10 are the same. Write (5, 1) or 'L5H1'."
        )
    return str(HeadName(*head)) if isinstance(head, tuple) else str(head)
