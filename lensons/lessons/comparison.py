"""Two sentences side by side: which rows of attention differ, and by how much."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from lensons.tracing import Trace

SAME = 1e-5
"""Rows that differ by less are the same: two passes of one model may differ in the last digit of a float32."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two traces of one model, aligned from the front.

    Row q has q + 1 cells in either sentence, so rows can be compared one by one for as long as both sentences last,
    also where one of them is longer.

    Attributes:
        a: the first sentence's trace.
        b: the second sentence's trace.
    """

    a: Trace
    b: Trace

    @cached_property
    def difference(self) -> Float[Tensor, " row"]:
        """Per row, the largest difference of any weight, over all layers and heads."""
        n = min(len(self.a), len(self.b))
        return (self.a.pattern[:, :, :n, :n] - self.b.pattern[:, :, :n, :n]).abs().amax((0, 1, 3))

    @cached_property
    def first_changed(self) -> int | None:
        """The first position at which the tokens differ; None where one sentence begins with the other."""
        pairs = zip(self.a.tokens.ids, self.b.tokens.ids, strict=False)
        return next((at for at, (a, b) in enumerate(pairs) if a != b), None)

    @cached_property
    def changed_tokens(self) -> tuple[int, ...]:
        """All positions, of those both sentences have, at which the tokens differ."""
        pairs = zip(self.a.tokens.ids, self.b.tokens.ids, strict=False)
        return tuple(at for at, (a, b) in enumerate(pairs) if a != b)

    @cached_property
    def changed_rows(self) -> tuple[int, ...]:
        """The rows that differ."""
        return tuple(torch.nonzero(self.difference > SAME).flatten().tolist())

    @property
    def same_length(self) -> bool:
        """True where both sentences have the same number of tokens."""
        return len(self.a) == len(self.b)

    @property
    def largest_before(self) -> float:
        """The largest difference in any row before the first changed token."""
        before = self.difference[: self.first_changed]
        return float(before.max()) if before.numel() else 0.0
