"""Patterns as text for a page: every number exactly, or 8 bits each on a logarithmic scale.

Only cells that can be seen are kept, row by row; then they are deflated, and written in base64. A page's script
reads both forms (``assets/numbers.js``).

On the logarithmic scale 0 stands for less than the smallest share, and code c > 0 for ``RATIO ** (c - 255)``: a share
is off by 3 % at most, however small it is. A linear scale would show half of GPT-2's shares as 0.
"""

import base64
import zlib
from typing import Any

import numpy as np

RATIO = 1.06
"""From one code to the next: half a step is 3 %."""

SMALLEST = RATIO**-254
"""Shares below this, and a little, are code 0: about 4e-7."""

MOST_EXACT = 40_000
"""Cells that a page carries exactly; of more, all but the first pattern go on the logarithmic scale, and of very long
prompts that one, too."""

_LONG = 100_000
_SMALLEST_IN_LONG = 1e-4


def seen(pattern: np.ndarray, causal: bool = True) -> np.ndarray:
    """The cells that can be seen, one row after the other: [..., query, key] to [..., cell]."""
    n = pattern.shape[-1]
    mask = np.tril(np.ones((n, n), dtype=bool)) if causal else np.ones((n, n), dtype=bool)
    return pattern[..., mask]


def pack_exactly(pattern: np.ndarray, causal: bool = True) -> dict[str, Any]:
    """Patterns as float32, [..., query, key]."""
    return {"scale": "exact", "data": _deflated(seen(pattern, causal).astype("<f4"))}


def pack_logarithmically(pattern: np.ndarray, causal: bool = True) -> dict[str, Any]:
    """Patterns with 8 bits a cell, [..., query, key].

    Of very long prompts, shares under 1e-4 are left out: a thousand of them would not make a tenth.
    """
    cells = seen(pattern, causal).astype(np.float64)
    under = _SMALLEST_IN_LONG if cells.shape[-1] > _LONG else SMALLEST
    with np.errstate(divide="ignore"):
        codes = np.round(255 + np.log(cells) / np.log(RATIO))
    codes = np.where(cells < under, 0, np.clip(codes, 1, 255)).astype(np.uint8)
    return {"scale": "log", "ratio": RATIO, "under": under, "data": _deflated(codes)}


def unpack(packed: dict[str, Any]) -> np.ndarray:
    """What a page's script reads out of either form, as float64 [cell]; for tests, and for who wants it back."""
    raw = zlib.decompress(base64.b64decode(packed["data"]))
    if packed["scale"] == "exact":
        return np.frombuffer(raw, "<f4").astype(np.float64)
    codes = np.frombuffer(raw, np.uint8).astype(np.float64)
    return np.where(codes == 0, 0.0, packed["ratio"] ** (codes - 255))


def pack(pattern: np.ndarray, causal: bool = True) -> dict[str, Any]:
    """Several heads, [head, query, key]: exactly where they are few, else the first exactly and all of them about."""
    if seen(pattern, causal).size <= MOST_EXACT:
        return pack_exactly(pattern, causal)
    packed = pack_logarithmically(pattern, causal)
    if seen(pattern[0], causal).size <= _LONG:
        packed["exactly"] = {"0": pack_exactly(pattern[0], causal)["data"]}
    return packed


def _deflated(values: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(values).tobytes(), 9)).decode()
