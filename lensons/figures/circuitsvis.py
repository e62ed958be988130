"""The one place that knows CircuitsVis: its bundle from the installed package, and how one of its views is asked for.

Its Python ``render`` is not used: it needs a network, or repeats 1.3 MB for each figure. Here the bundle stands once
on a page, compressed, and each view is a small JSON block that a few lines of our own script mount.
"""

import base64
import gzip
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from lensons.errors import MissingPackageError

# What the bundle must contain for our script to be able to use it.
_COMPONENTS = ("AttentionHeads", "AttentionPattern", "ColoredTokens")
MOST_TOKENS = 64
"""Above this many tokens CircuitsVis takes seconds to draw, so our own picture stays."""


def bundle_version() -> str:
    """The installed version of CircuitsVis.

    Raises:
        MissingPackageError: it is not installed.
    """
    try:
        return version("circuitsvis")
    except PackageNotFoundError as error:
        raise MissingPackageError(
            "CircuitsVis is not installed, and a lesson page carries its drawing code. `pip install circuitsvis`."
        ) from error


def bundle() -> str:
    """CircuitsVis' JavaScript, without the address of its source map.

    Raises:
        MissingPackageError: the package is not installed, or its bundle is not where, or what, we know.
    """
    found = bundle_version()
    spec = find_spec("circuitsvis")
    path = Path(str(spec.origin)).parent / "dist" / "cdn" / "iife.js" if spec and spec.origin else None
    code = path.read_text(encoding="utf-8") if path and path.is_file() else ""
    if not code or any(name not in code for name in _COMPONENTS):
        raise MissingPackageError(
            f"CircuitsVis {found} has changed its JavaScript bundle, so its views cannot be put on a page. "
            "lensons knows version 1.43.3. `pip install circuitsvis==1.43.3`."
        )
    return "\n".join(line for line in code.splitlines() if not line.startswith("//# sourceMappingURL="))


@lru_cache(maxsize=1)
def packed_bundle() -> str:
    """The same gzipped, in base64: 0.5 MB instead of 1.3."""
    # mtime=0: the same bundle gives the same bytes.
    return base64.b64encode(gzip.compress(bundle().encode(), 9, mtime=0)).decode()


def heads_view(labels: list[str], pattern: np.ndarray, names: list[str], causal: bool) -> dict[str, Any]:
    """The view of some heads, [head, query, key]: small pictures to choose from, and the chosen one large."""
    return {
        "component": "AttentionHeads",
        "props": {
            "attention": [[[_short(x) for x in row] for row in head] for head in pattern.tolist()],
            "tokens": labels,
            "attentionHeadNames": names,
            "maskUpperTri": causal,
        },
    }


def _short(weight: float) -> float:
    """Four decimals are more than a picture can show, and a fifth of the size."""
    return round(weight, 4)
