"""The lessons' pages, taken from ``lessons/`` at each build: the text notebook, executed; its downloads beside it."""

import json
import os
import re
import shutil
from pathlib import Path

import lensons
from lensons.lessons import copy_notebooks, notebook_files
from lensons.sphinxext import code_hash

MODEL = os.environ.get("LENSONS_DOCS_MODEL", "toy")
# "owner/name" on GitHub; the built site is expected in its branch gh-pages, where Colab finds the notebooks.
REPOSITORY = os.environ.get("LENSONS_DOCS_REPOSITORY", "")
KEY = f"{code_hash()}-{re.sub(r'[^A-Za-z0-9]+', '-', MODEL)}"
DOCS = Path(__file__).parent.parent
EXTRA = DOCS / "_extra" / KEY
SITE = EXTRA / "site"  # what the site takes as it is
CLASSES = {"attention": "AttentionLesson", "induction": "InductionLesson"}


def lessons():
    """The names of the lessons that have both a notebook and a class, in the order of reading."""
    return [name for name in CLASSES if name in notebook_files() and hasattr(lensons, CLASSES[name])]


def take_in(app):
    """Write each lesson's page, and make its downloads if lensons has changed since they were made."""
    downloads = SITE / "downloads"
    for old in (DOCS / "_extra").iterdir():
        if old != EXTRA and old.is_dir():
            shutil.rmtree(old)
    pages = DOCS / "lessons"
    pages.mkdir(exist_ok=True)
    for name in lessons():
        intro = EXTRA / f"{name}.intro.html"
        if not (downloads / f"{name}.html").is_file() or not intro.is_file():
            downloads.mkdir(parents=True, exist_ok=True)
            lesson = getattr(lensons, CLASSES[name])(MODEL)
            lesson.save(downloads / f"{name}.html")
            copy_notebooks(downloads, [name])
            intro.write_text("".join(lesson.introduction), encoding="utf-8")
        if REPOSITORY:
            write_for_colab(downloads, name)
        page = as_page(name, notebook_files()[name].read_text(encoding="utf-8"), intro.read_text(encoding="utf-8"))
        path = pages / f"{name}.md"
        if not path.is_file() or path.read_text(encoding="utf-8") != page:  # untouched, Sphinx keeps what it has
            path.write_text(page, encoding="utf-8")


def as_page(name, text, intro):
    """A lesson's notebook as a page: on this site's model, with the lesson's introduction and the downloads.

    What the notebook says before its first cell is for people who run cells; the page is for people who read.
    """
    text = text.replace('load_model("toy")', f'load_model("{MODEL}")')
    links = [
        f'<a href="../downloads/{name}.html">The lesson as one file</a>',
        f'<a href="../downloads/{name}.ipynb" download>As a notebook</a>',
    ]
    if REPOSITORY:
        colab = f"https://colab.research.google.com/github/{REPOSITORY}/blob/gh-pages/downloads/colab/{name}.ipynb"
        links.append(f'<a href="{colab}">Open in Colab</a>')
    top = f"<div class='lensons'>{intro}<p class=\"downloads\">{' · '.join(links)}</p></div>"
    before_cells = re.compile(r"^(# [^\n]*\n).*?(?=^```\{code-cell\})", re.DOTALL | re.MULTILINE)
    if not before_cells.search(text):
        raise ValueError(f"The notebook of the lesson {name!r} has no title, or no cell after it. It needs both.")
    return before_cells.sub(lambda found: f"{found[1]}\n```{{raw}} html\n{top}\n```\n\n", text, count=1)


def write_for_colab(downloads, name):
    """The notebook with a first cell that installs lensons from the repository."""
    notebook = json.loads((downloads / f"{name}.ipynb").read_text(encoding="utf-8"))
    install = f"%pip install -q git+https://github.com/{REPOSITORY}"
    cell = {"id": "install", "cell_type": "code", "metadata": {}, "source": [install], "outputs": [],
            "execution_count": None}  # fmt: skip
    notebook["cells"].insert(0, cell)
    (downloads / "colab").mkdir(exist_ok=True)
    (downloads / "colab" / f"{name}.ipynb").write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n")


def setup(app):
    """Sphinx calls this."""
    SITE.mkdir(parents=True, exist_ok=True)
    app.connect("builder-inited", take_in, priority=100)
    app.config.html_extra_path.append(str(SITE))
    return {"parallel_read_safe": True}
