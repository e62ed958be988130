"""The one place that knows CircuitsVis: its bundle from the installed package, and how one of its views is asked for.

Its Python ``render`` is not used: it needs a network, or repeats 1.3 MB for each figure. Here the bundle stands once
on a page, compressed, and each view is a small JSON block that a few lines of our own script mount.
"""

import base64
import gzip
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from markupsafe import escape

from lensons.errors import InputError, MissingPackageError

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


def view(component: str, props: dict[str, Any]) -> dict[str, Any]:
    """A CircuitsVis component as a figure's ``live`` view: it is mounted where a page carries the bundle.

    Args:
        component: one of its components that lensons knows.
        props: what that component takes, as plain data. Its ``tokens`` can hold any text; none of it becomes HTML.
    """
    if component not in _COMPONENTS:
        raise InputError(
            f"{component!r} is not a component of CircuitsVis that lensons mounts. "
            f"Allowed are {', '.join(_COMPONENTS)}."
        )
    return {"component": component, "props": {name: _no_markup(name, value) for name, value in props.items()}}


def _no_markup(name: str, value: Any) -> Any:
    """CircuitsVis writes tokens into the page as HTML. A word joiner, which shows nothing, keeps them text."""
    if name != "tokens" or not isinstance(value, list | tuple):
        return value
    return [str(token).replace("<", "<\u2060").replace("&", "&\u2060") for token in value]


class Carrier:
    """Brings CircuitsVis to a notebook: shown once, every figure of the notebook is drawn by it from then on."""

    def _repr_html_(self) -> str:
        notices = (files("lensons.figures") / "NOTICES.md").read_text(encoding="utf-8")
        return (
            f"<p>CircuitsVis {bundle_version()} is here, and draws the figures of this notebook.</p>"
            f"<script type='text/plain' class='lensons-circuitsvis'>{packed_bundle()}</script>"
            "<script>if (self.lensonsFigures) lensonsFigures.again()</script>"
            f"<details><summary>Its licence</summary><pre>{escape(notices)}</pre></details>"
        )

    def __repr__(self) -> str:
        return f"CircuitsVis {bundle_version()}, for a notebook's figures"


def bring_circuitsvis() -> Carrier:
    """In a notebook, let CircuitsVis draw the patterns: 0.5 MB once, in this cell's output, and no network.

    Without it lensons draws them itself, and each output is small.

    Raises:
        MissingPackageError: CircuitsVis is not installed, or its bundle is not the one we know.

    Example:
        >>> import lensons.figures
        >>> lensons.figures.bring_circuitsvis()
        CircuitsVis 1.43.3, for a notebook's figures
    """
    packed_bundle()
    return Carrier()
