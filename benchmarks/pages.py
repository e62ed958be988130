"""What a page weighs: the same patterns, each tool's own page, as it is and gzipped, and what of it is fixed."""

import gzip
import time
from typing import Any

from benchmarks import files
from benchmarks.measure import Setting
from benchmarks.neighbours import TOOLS, Tool, make

SIZES = ((1, 12, 15), (12, 12, 15), (12, 12, 50), (12, 12, 100), (1, 12, 1024))
"""Layers, heads, tokens."""
SMALL = ((1, 2, 4), (2, 2, 4))
MOST_CELLS_GZIPPED = 3_000_000


def measure(setting: Setting) -> dict[str, Any]:
    """Per size and tool: megabytes of the page, of what it fetches besides, of both gzipped, and the tool's fixed part.

    ``fixed`` is the tool's page for one head and two tokens, with what it fetches: its scripts and styles, nearly all.
    """
    fetched = files.fetch() if any(tool.there and tool.fetches for tool in TOOLS) else {}
    found: dict[str, Any] = {"not installed": [tool.name for tool in TOOLS if not tool.there]}
    fixed = {tool.name: _weigh(tool, 1, 1, 2, fetched) for tool in TOOLS if tool.there}
    found["1 x 2 (the fixed part)"] = fixed
    for n_layers, n_heads, n in setting.choose(SIZES, SMALL):
        found[f"{n_layers * n_heads} x {n:,}"] = {
            tool.name: _weigh(tool, n_layers, n_heads, n, fetched, fixed[tool.name]) for tool in TOOLS if tool.there
        }
    return found


def _weigh(
    tool: Tool, n_layers: int, n_heads: int, n: int, fetched: dict[str, bytes], fixed: dict[str, Any] | None = None
) -> dict[str, Any]:
    start = time.perf_counter()
    page = make(tool, n_layers, n_heads, n).encode()
    seconds = time.perf_counter() - start
    besides = list(fetched.values()) if tool.fetches else []
    known = not tool.fetches or bool(besides)
    whole = len(page) + sum(map(len, besides)) if known else None
    packed = None
    if known and n_layers * n_heads * n * n <= MOST_CELLS_GZIPPED:
        packed = sum(len(gzip.compress(part, 6)) for part in (page, *besides))
    found = {
        "megabytes": _mega(whole),
        "gzipped": _mega(packed),
        "page alone": _mega(len(page)),
        "seconds to make": round(seconds, 3),
        "keeps": tool.keeps,
    }
    if fixed is not None and whole is not None:
        found["without the fixed part"] = round(max(0.0, whole / 1e6 - fixed["megabytes"]), 4)
    return found


def _mega(size: int | None) -> float | None:
    return None if size is None else round(size / 1e6, 4)
