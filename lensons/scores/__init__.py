"""Head scores: pure functions on attention patterns and on weights. They know no model, no lesson and no HTML.

Torch, einops and jaxtyping are all they need. A perfect head scores 1 whatever the length of the text, with BOS or
without; :func:`chance` says what looking everywhere alike would score; NaN means that no query counts, and
:func:`why_undefined` says why.
"""

from lensons.scores.heads import (
    current_token,
    duplicate_token,
    entropy,
    first_token,
    induction,
    previous_token,
    score,
)
from lensons.scores.targets import KINDS, Kind, chance, queries, targets, why_undefined
from lensons.scores.weights import composition, composition_baseline, copying

__all__ = [
    "KINDS",
    "Kind",
    "chance",
    "composition",
    "composition_baseline",
    "copying",
    "current_token",
    "duplicate_token",
    "entropy",
    "first_token",
    "induction",
    "previous_token",
    "queries",
    "score",
    "targets",
    "why_undefined",
]
