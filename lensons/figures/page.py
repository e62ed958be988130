"""One self-contained HTML file: style once, CircuitsVis once, nothing fetched."""

import re
from collections.abc import Sequence

from markupsafe import Markup

from lensons._version import __version__
from lensons.figures.circuitsvis import packed_bundle
from lensons.figures.figure import script, style_sheet
from lensons.figures.markup import asset, render

_FIGURE = re.compile(r'(?P<before><figure class="lensons-figure"|<pattern) id="(?P<id>[\w-]+)"')


def document(
    title: str, parts: Sequence[Markup], *, live: bool = False, footer: str = "", scripts: Sequence[Markup] = ()
) -> str:
    """A whole page.

    Args:
        title: of the page; escaped.
        parts: HTML that is safe already, in order.
        live: whether a figure on it is drawn by CircuitsVis; see :attr:`Figure.wants_circuitsvis`.
        footer: a line at the end, such as where the numbers come from.
        scripts: the page's own, which run after the figures'.

    Example:
        >>> from lensons.figures import line_figure
        >>> figure = line_figure("Loss", "c", "It falls.", ("step", [0, 1]), {"loss": [2.0, 1.0]}, "nats")
        >>> document("Two pictures", [figure.html()], live=figure.wants_circuitsvis).count("<figure")
        1
    """
    page = render(
        "page.html.j2",
        title=title,
        parts=_ids_once(parts),
        version=__version__,
        style=style_sheet() + Markup(asset("page.css")),
        footer=footer or f"Made with lensons {__version__}.",
        bundle=packed_bundle() if live else "",
        notices=_notices(),
        script=script(),
        scripts=scripts,
    )
    return str(page)


def _ids_once(parts: Sequence[Markup]) -> list[Markup]:
    """A figure that a page shows twice has its ids once: an address leads to the first."""
    met: set[str] = set()

    def first(match: re.Match[str]) -> str:
        again = match["id"] in met
        met.add(match["id"])
        return match["before"] + ("" if again else f' id="{match["id"]}"')

    # Only our own elements are read: in a token's text "<" is escaped. Of two hatchings alike the first serves both.
    return [Markup(_FIGURE.sub(first, part)) for part in parts]


def _notices() -> str:
    from importlib.resources import files

    return (files("lensons.figures") / "NOTICES.md").read_text(encoding="utf-8")
