"""Figures and lessons on anybody's Sphinx site: live where scripts run, static where not, words where there is no HTML.

Write ``extensions = ["lensons.sphinxext"]`` in ``conf.py``. Then

* ``lensons-figure`` puts a figure on a page. Its argument names a Python function that makes one:
  ``module:function``, or ``file.py:function`` beside the page. ``:alt:`` is required.
* a notebook that MyST-NB executes shows every figure and every step of a lesson live.

The style sheet and the scripts are files of the site, named once on each page that needs them; nothing is fetched from
elsewhere. LaTeX, text and manual pages get the figure's title, caption, text form and table.

Like ``conf.py`` itself, the directive runs the author's own code.
"""

import hashlib
import importlib
import importlib.util
import os
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from markupsafe import Markup, escape
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from lensons._version import __version__
from lensons.errors import LensonsError
from lensons.figures import Figure, script, style_sheet
from lensons.figures.circuitsvis import bundle
from lensons.figures.markup import asset

MOST_ROWS = 40
"""Rows of a figure's table that are printed where there is no HTML."""

_LOG = logging.getLogger(__name__)
_FOLDER = "lensons"
_NO_HTML = ("latex", "text", "man", "texinfo")


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.add_config_value("lensons_strict", True, "env", [bool])
    app.add_config_value("lensons_bibliography", "", "env", [str])
    app.add_config_value("lensons_code", "", "env", [str])
    app.add_directive("lensons-figure", FigureDirective)
    app.connect("config-inited", _configure)
    app.connect("builder-inited", _begin)
    app.connect("html-page-context", _finish_page)
    app.connect("build-finished", _end)
    return {"version": __version__, "parallel_read_safe": True, "parallel_write_safe": True}


def code_hash() -> str:
    """What decides the outputs: lensons' own files, and the versions of the packages that compute.

    A cache of executed notebooks that is kept under this name is never older than the code.
    """
    digest = hashlib.sha256()
    home = Path(__file__).parent
    for path in sorted(home.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(home)).encode() + b"\0" + path.read_bytes())
    for package in ("transformer-lens", "torch", "transformers", "circuitsvis"):
        try:
            digest.update(f"{package} {version(package)}\0".encode())
        except PackageNotFoundError:
            digest.update(f"{package} is missing\0".encode())
    return digest.hexdigest()[:16]


class FigureDirective(SphinxDirective):
    """``lensons-figure``: a figure that a Python function makes.

    Options: ``alt`` (required): what it shows, for a reader who cannot see it. ``caption``: instead of the figure's
    own. ``name``: a target for ``:ref:``.
    """

    required_arguments = 1
    option_spec: ClassVar[dict[str, Callable[[str], Any]]] = {  # type: ignore[misc]
        "alt": directives.unchanged_required,
        "caption": directives.unchanged_required,
        "name": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """The figure for HTML, and its words for everything else."""
        try:
            figure = self._figure()
        except (LensonsError, ExtensionError) as error:
            said = f"{self.get_location()}: {error}"
            if self.config.lensons_strict:
                raise ExtensionError(said) from error
            _LOG.warning("%s", said, type="lensons", subtype="figure", location=self.get_location())
            return [nodes.paragraph("", f"(A figure is missing here: {self.options.get('alt', 'no alt text')})")]
        place = nodes.make_id(self.options["name"]) if "name" in self.options else ""
        shown = Markup("<div class='lensons'{}>{}</div>").format(
            Markup(' id="{}"').format(place) if place else "", figure.html()
        )
        html, words = addnodes.only(expr="html"), addnodes.only(expr="not html")
        html += nodes.raw("", str(shown), format="html")
        words += text_form(figure)
        if place:
            words[0]["ids"] = [place]
            label = nodes.fully_normalize_name(self.options["name"])
            domain = self.env.domains.standard_domain
            domain.labels[label] = self.env.docname, place, figure.title
            domain.anonlabels[label] = self.env.docname, place
        return [html, words]

    def _figure(self) -> Figure:
        alt = self.options.get("alt", "").strip()
        if not alt:
            raise ExtensionError(
                "lensons-figure was written without :alt:. Say in a sentence what the figure shows, for readers who "
                "cannot see it."
            )
        made = self._function()()
        if not isinstance(made, Figure):
            raise ExtensionError(
                f"{self.arguments[0]} gave a {type(made).__name__}. lensons-figure shows a lensons Figure. "
                "Return one, such as table.figure('induction') or one of step.figures."
            )
        picture = made.picture
        if picture is not None:
            label = f'aria-label="{escape(alt)}"'
            picture = Markup(re.sub(r'aria-label="[^"]*"', lambda _: label, str(picture), count=1))
        return replace(made, alt=alt, caption=self.options.get("caption", made.caption), picture=picture)

    def _function(self) -> Callable[[], Any]:
        where, _, name = self.arguments[0].rpartition(":")
        if not where or not name.isidentifier():
            raise ExtensionError(
                f"lensons-figure {self.arguments[0]!r} names no function. Allowed are module:function, and "
                "file.py:function with a file beside the page."
            )
        module = self._file(where) if where.endswith(".py") else self._module(where)
        found = getattr(module, name, None)
        if not callable(found):
            raise ExtensionError(f"{where} has no function {name!r}. Define it there, or name another.")
        return found

    def _file(self, given: str) -> Any:
        _, path = self.env.relfn2path(given)
        self.env.note_dependency(path)
        spec = importlib.util.spec_from_file_location(f"lensons_figures_{nodes.make_id(given)}", path)
        if spec is None or spec.loader is None or not Path(path).is_file():
            raise ExtensionError(f"There is no file {given!r}. It is looked for beside the page. Correct its name.")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def _module(self, name: str) -> Any:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise ExtensionError(
                f"There is no module {name!r} ({error}). Put its folder on sys.path in conf.py, or name a file."
            ) from error
        if getattr(module, "__file__", None):
            self.env.note_dependency(module.__file__)
        return module


def text_form(figure: Figure) -> list[nodes.Node]:
    """A figure where there is no HTML: title, caption, what it shows, and its numbers as a table."""
    title = nodes.paragraph("", "", nodes.strong("", figure.title))
    out: list[nodes.Node] = [title, nodes.paragraph("", f"{figure.alt} {figure.caption}")]
    cells = figure.table.cells()
    group = nodes.tgroup(cols=len(figure.table.columns))
    head, rows = list(figure.table.columns), [[cell["text"] for cell in row] for row in cells[:MOST_ROWS]]
    widths = [max(map(len, column)) + 2 for column in zip(head, *rows, strict=True)]  # what text and LaTeX go by
    group += [nodes.colspec(colwidth=width) for width in widths]
    group += nodes.thead("", _row(head))
    group += nodes.tbody("", *map(_row, rows))
    out.append(nodes.table("", group))
    if len(cells) > MOST_ROWS:
        out.append(nodes.paragraph("", f"({len(cells) - MOST_ROWS:,} more rows are on the web page.)"))
    return out


def _row(texts: list[str]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", text)) for text in texts))


# --- the build ------------------------------------------------------------------------------------------------------


def _configure(app: Sphinx, config: Any) -> None:
    """A changed lensons makes every page anew; MyST-NB learns what to show where there is no HTML."""
    config.lensons_code = code_hash()
    if "nb_mime_priority_overrides" in config:
        own = [(builder, "text/plain", 100) for builder in _NO_HTML]
        config.nb_mime_priority_overrides = [*config.nb_mime_priority_overrides, *own]


def _begin(app: Sphinx) -> None:
    os.environ["LENSONS_OUTPUT"] = "page"  # the kernels of notebooks inherit it
    if app.builder.format != "html":
        return
    folder = Path(app.outdir, "_static", _FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _assets().items():
        (folder / name).write_text(text, encoding="utf-8")


def _end(app: Sphinx, error: Exception | None) -> None:
    os.environ.pop("LENSONS_OUTPUT", None)


def _assets() -> dict[str, str]:
    notices = (Path(__file__).parent / "figures" / "NOTICES.md").read_text(encoding="utf-8")
    return {
        "figures.css": str(style_sheet()) + asset("lesson.css") + asset("site.css"),
        "circuitsvis.js": bundle(),
        "figures.js": str(script()),
        "lesson.js": asset("lesson.js"),
        "NOTICES.txt": notices,
    }


# --- a page ---------------------------------------------------------------------------------------------------------

_FIGURE = re.compile(r'<figure class="lensons-figure".*?</figure>', re.DOTALL)
_STEP = re.compile(
    r'(?P<section><section id="(?P<id>[\w-]+)"[^>]* class="step".*?</section>)'
    r'(?P<blocks>(?:\s*<script type="application/json" id="[\w-]+">[^<]*</script>)*)',
    re.DOTALL,
)
_BLOCK = re.compile(r'<script type="application/json" id="(?P<id>[\w-]+)">(?P<data>[^<]*)</script>')
_ID = re.compile(r'\bid="([^"]+)"')
_CITED = re.compile(r'<a class="cite" href="#source-(?P<key>\w+)">(?P<label>[^<]*)</a>')


def _finish_page(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Assets for a page that needs them; its figures numbered, its ids met once, its citations linked."""
    body = context.get("body", "")
    if "<div class='lensons'" not in body:
        return
    where = app.config.lensons_bibliography
    context["body"] = finished(body, context["pathto"](where) if where else "")
    app.add_css_file(f"{_FOLDER}/figures.css")
    if 'class="lensons-live"' in body or 'class="lensons-board"' in body:
        app.add_js_file(f"{_FOLDER}/circuitsvis.js", loading_method="defer")
    app.add_js_file(f"{_FOLDER}/figures.js", loading_method="defer")
    if 'class="step"' in body:
        app.add_js_file(f"{_FOLDER}/lesson.js", loading_method="defer")


def finished(body: str, bibliography: str = "") -> str:
    """A page's HTML with figures numbered, every id met once, and sources linked to the bibliography's page."""
    ids: set[str] = set()
    body = _FIGURE.sub(lambda match: _with_own_ids(match[0], ids), body)
    body = _once(body)
    numbers = count(1)
    body = re.sub(
        "<figcaption><b>",
        lambda _: f'<figcaption><small class="figure-number">Figure {next(numbers)}</small><b>',
        body,
    )

    def cited(match: re.Match[str]) -> str:
        if not bibliography:
            return f'<span class="cite">{match["label"]}</span>'
        return f'<a class="cite" href="{bibliography}#source-{match["key"]}">{match["label"]}</a>'

    return _CITED.sub(cited, body)


def _with_own_ids(html: str, ids: set[str]) -> str:
    """Rename ids that the page has already: the same figure can be shown twice."""
    for found in dict.fromkeys(_ID.findall(html)):
        name = next(name for n in count(1) if (name := found if n == 1 else f"{found}-{n}") not in ids)
        ids.add(name)
        if name != found:
            html = html.replace(f'id="{found}"', f'id="{name}"').replace(f"url(#{found})", f"url(#{name})")
    return html


def _once(body: str) -> str:
    """One lesson on a page is live; a step that comes again, or is of another text, shows its numbers and stays."""
    steps: set[str] = set()
    blocks: dict[str, str] = {}
    headings = set(re.findall(r'<section id="([^"]+)"', _STEP.sub("", body)))

    def step(match: re.Match[str]) -> str:
        own = {block["id"]: block["data"] for block in _BLOCK.finditer(match["blocks"])}
        again = match["id"] in steps or any(blocks.get(name, data) != data for name, data in own.items())
        html = match["section"]
        if again:
            mark = f"-{len(steps) + len(blocks) + 1}"
            html = re.sub(r'(\b(?:id|aria-describedby)=")([^"]+)"', rf'\1\2{mark}"', html)
            html = re.sub(r"url\(#([^)]+)\)", rf"url(#\1{mark})", html).replace('class="step"', 'class="step-again"', 1)
            steps.add(match["id"] + mark)
            return html
        steps.add(match["id"])
        if match["id"] in headings:  # the page's own heading leads to the same place under the same name
            html = html.replace(f'<section id="{match["id"]}"', "<section", 1)
        fresh = {name: data for name, data in own.items() if name not in blocks}
        blocks.update(fresh)
        return html + "".join(
            f'<script type="application/json" id="{name}">{data}</script>' for name, data in fresh.items()
        )

    return _STEP.sub(step, body)
