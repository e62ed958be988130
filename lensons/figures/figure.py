"""A figure: data, a caption and a text form first; HTML only at the very end. A figure never computes attention."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lensons.errors import InputError, MissingPackageError
from lensons.figures import circuitsvis, svg
from lensons.figures.markup import asset, content_id, for_a_page, json_block, render, three_digits
from lensons.files import as_path, written_whole

_HINT = "Run this cell, or trust this notebook, to walk over the cells and read their numbers."
_SCRIPT = ("numbers.js", "board.js", "figure.js", "host.js")


@dataclass(frozen=True)
class Table:
    """The numbers behind a figure.

    Attributes:
        columns: their headings.
        rows: one tuple a row; numbers in full precision, None where there is nothing to say.
        bars: columns whose numbers, from 0 to 1, also show as bars.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    bars: frozenset[str] = frozenset()

    def cells(self) -> list[list[dict[str, Any]]]:
        """Every cell as a reader sees it: its text, all its digits, whether it is a number, how long its bar is."""
        out = []
        for row in self.rows:
            cells = []
            for column, value in zip(self.columns, row, strict=True):
                number = isinstance(value, float)
                bar = max(0.0, min(1.0, value)) if number and column in self.bars and value == value else None
                text = "" if value is None else three_digits(value) if number else str(value)
                full = repr(value) if number else ""
                cells.append({"text": text, "full": full, "number": isinstance(value, int | float), "bar": bar})
            out.append(cells)
        return out


@dataclass(frozen=True)
class Scale:
    """What a picture's colours stand for: its legend.

    Attributes:
        low, high: what stands at the ends, paper and ink.
        masked: whether some cells cannot be seen, and are hatched.
        shares: whether they are shares from 0 to 1, which can be drawn stronger: then .01 and .1 are marked.
        stronger: whether they are drawn stronger at first.
    """

    low: str
    high: str
    masked: bool = False
    shares: bool = False
    stronger: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Figure:
    """Something to look at, and everything that is needed without looking.

    Attributes:
        kind: what sort of figure it is.
        title: what to see.
        caption: how to read it.
        alt: the same in one sentence, for who cannot see it.
        data: the numbers, as plain data or arrays.
        table: the numbers as a table.
        picture: an SVG, or None where the table is the picture.
        legend: what its colours stand for, or None where they need no saying.
        board: the patterns behind the picture, for the page's script: it can then be walked over. None if it is not
            a pattern.
        live: a CircuitsVis view that is added where the page carries CircuitsVis, or None.
    """

    kind: str
    title: str
    caption: str
    alt: str
    data: Mapping[str, Any]
    table: Table
    picture: Markup | None = None
    legend: Scale | None = None
    board: Mapping[str, Any] | None = None
    live: Mapping[str, Any] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """An id that the content decides."""
        return content_id(self.kind, self.title, self.caption, self.alt, self.table.columns, self.table.rows)

    @property
    def wants_circuitsvis(self) -> bool:
        """True where a page should carry CircuitsVis, which draws this figure, or a part of it."""
        few = self.board is not None and len(self.board["labels"]) <= circuitsvis.MOST_TOKENS
        return few or self.live is not None

    def html(self) -> Markup:
        """The figure for a page that has the style sheet and the script: SVG, legend, text form; live by the script."""
        return self._filled(static=False, image="")

    def notebook_html(self) -> Markup:
        """The figure for a notebook: brings its own style and script, and survives where both are removed."""
        return in_a_frame(self.for_a_frame())

    def for_a_frame(self) -> Markup:
        """The figure for an output that has its own style and script: an image where no script runs."""
        return self._filled(static=True, image="" if self.picture is None else svg.data_address(self.picture))

    def _filled(self, *, static: bool, image: str) -> Markup:
        return render(
            "figure.html.j2",
            figure=self,
            figure_id="" if static else self.id,  # a notebook may show a figure twice
            board=None if self.board is None else json_block(self.board),
            live=None if self.live is None else json_block(self.live),
            static=static,
            image=image,
            hint=_HINT,
        )

    def to_dataframe(self) -> Any:
        """The numbers behind the figure, as a pandas DataFrame.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingPackageError(
                "to_dataframe needs pandas, which is not installed. Use .table.rows, or `pip install pandas`."
            ) from error
        return pandas.DataFrame(list(self.table.rows), columns=list(self.table.columns))

    def save(self, path: str | Path) -> Path:
        """Write the figure to ``x.html`` (one file, no network), ``x.svg``, ``x.png`` or ``x.csv``.

        Raises:
            InputError: another ending, or an SVG was asked of a figure that is a table.
            MissingPackageError: a PNG was asked for, and there is no Playwright with Chromium.
            FileError: the file cannot be written.
        """
        ending = as_path(path).suffix.lower()
        if ending in {".html", ".png"}:
            from lensons.figures.page import document
            from lensons.figures.png import photographed

            page = document(self.title, [self.html()], live=self.wants_circuitsvis)
            return written_whole(path, page if ending == ".html" else photographed(page))
        if ending == ".csv":
            out = io.StringIO()
            rows = csv.writer(out, lineterminator="\n")
            rows.writerows([self.table.columns, *self.table.rows])
            return written_whole(path, out.getvalue())
        if ending != ".svg":
            raise InputError(f"{str(path)!r} ends in {ending!r}. Allowed are .html, .svg, .png and .csv. Choose one.")
        if self.picture is None:
            raise InputError(f"The figure {self.title!r} is a table, not a picture. Save it as .html, .png or .csv.")
        return written_whole(path, svg.standalone(self.picture))

    def _repr_html_(self) -> str:
        if for_a_page():
            return f"<div class='lensons'>{self.html()}</div>"
        return str(self.notebook_html())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def __repr__(self) -> str:
        return f"Figure({self.title!r}: {self.alt})"


def style_sheet() -> Markup:
    """The style sheet of all figures, for a page that is put together by hand.

    Example:
        >>> ".lensons figure" in style_sheet()
        True
    """
    return Markup(asset("picture.css") + asset("figure.css"))


@lru_cache(maxsize=1)
def script() -> Markup:
    """The script of all figures. It may stand on a page more than once: the first one does the work.

    Example:
        >>> len(script()) < 40_000
        True
    """
    whole = "".join(asset(name) for name in _SCRIPT)
    # Not "lensons": a page's element with that id would be found under it.
    first = "const there = self.lensonsFigures;\nif (there) return void there.scan();\n"
    first += "const lensons = (self.lensonsFigures = {});\n"
    return Markup(f"(() => {{\n{first}{whole}}})();")


def in_a_frame(*parts: Markup, style: str = "") -> Markup:
    """HTML for an output that may stand in a frame of its own, as a notebook's do: with style and script, once.

    Args:
        parts: safe HTML, such as :meth:`Figure.for_a_frame`.
        style: further CSS of yours.

    Example:
        >>> from markupsafe import Markup
        >>> in_a_frame(Markup("<p>Hello</p>")).count("<style>")
        1
    """
    return Markup("<style>{}</style><div class='lensons'>{}</div><script>{}</script>").format(
        style_sheet() + Markup(style), Markup().join(parts), script()
    )


def rows_of(columns: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
    """Columns to rows; numpy's numbers as plain ones."""
    return tuple(
        tuple(value.item() if hasattr(value, "item") else value for value in row) for row in zip(*columns, strict=True)
    )
