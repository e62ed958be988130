"""The site: made without a network, and read without one.

``LENSONS_DOCS_MODEL`` chooses the model that the lessons run on ("toy"), ``LENSONS_DOCS_REPOSITORY`` ("owner/name")
adds links to Colab.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import lessons_in

import lensons
from lensons.lessons import references_file

project = "lensons"
author = "The lensons developers"
copyright = "2026, the lensons developers"
release = version = lensons.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinxcontrib.bibtex",
    "sphinx_copybutton",
    "sphinx_design",
    "lensons.sphinxext",
    "accessible",
    "compatibility",
    "lessons_in",
    "mathml",
    "terms",
]
exclude_patterns = ["_build", "_ext", "_extra", "compatibility"]
html_theme = "furo"
html_title = "lensons"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path: list[str] = []
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # it fetches the pages that were found

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
# Kept under the name of lensons' own code and of the model: a change in either executes everything anew.
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent / "_build" / "executed" / lessons_in.KEY)
nb_execution_raise_on_error = True
nb_execution_timeout = 600
# Progress and other packages' notes are for the terminal.
nb_output_stderr = "remove"
# Lines printed one after the other are one output.
nb_merge_streams = True
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
# No widgets, so no page asks a CDN for their scripts.
nb_ipywidgets_js = {}

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"  # a narrow column: grid(), not AttentionLesson.grid()
napoleon_google_docstring = True
napoleon_use_ivar = True
napoleon_use_rtype = False  # shape and range stand before what they are the shape of
# Types of other packages, and jaxtyping's shape strings, have no page here to link to.
nitpick_ignore_regex = [(r"py:.*", r"(?!lensons).*"), (r"py:class", r"lensons\.(?!errors|lessons).*")]

bibtex_bibfiles = [str(references_file()), "further.bib"]
bibtex_default_style = "plain"
bibtex_reference_style = "author_year"
bibtex_cite_id = "source-{key}"
lensons_bibliography = "bibliography"
