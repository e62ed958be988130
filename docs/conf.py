"""The site: made without a network, and read without one."""

import importlib.metadata
import os
import shutil
from pathlib import Path

project = "lensons"
author = "The lensons developers"
copyright = "2026, the lensons developers"
try:
    release = importlib.metadata.version("lensons")
except importlib.metadata.PackageNotFoundError:
    release = "0.1.0"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "lensons"
html_static_path = ["_static"]

myst_enable_extensions = ["colon_fence", "deflist"]
# Executed anew at each build: a cache would not see that lensons itself has changed.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
# Progress and other packages' notes are for the terminal.
nb_output_stderr = "remove"
# No widgets, so no page asks a CDN for their scripts.
nb_ipywidgets_js = {}

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_use_ivar = True
# Types of other packages, and jaxtyping's shape strings, have no page here to link to.
nitpick_ignore_regex = [(r"py:.*", r"(?!lensons).*"), (r"py:class", r"lensons\.(?!errors|lessons).*")]

# --- the lessons, taken from lessons/ and made anew at each build ---------------------------------------------------

HERE = Path(__file__).parent
MODEL = os.environ.get("LENSONS_DOCS_MODEL", "toy")


def take_lessons_in(app):
    """Copy each lesson's notebook text to a page, with the model the site is made on; write its one-file page."""
    import lensons

    folder, extra = HERE / "lessons", HERE / "_extra"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for source in sorted((HERE.parent / "lessons").glob("*/*.md")):
        text = source.read_text(encoding="utf-8").replace('load_model("toy")', f'load_model("{MODEL}")')
        (folder / source.name).write_text(text, encoding="utf-8")
    lensons.AttentionLesson(MODEL).save(extra / "attention.html")
    lensons.lessons.copy_notebooks(extra, ["attention"])


def setup(app):
    """Sphinx calls this."""
    app.connect("builder-inited", take_lessons_in, priority=100)


html_extra_path = ["_extra"]
(HERE / "_extra").mkdir(exist_ok=True)
