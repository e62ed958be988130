"""lensons.sphinxext on a little site of its own: figures as HTML, and as words everywhere else."""

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.site

CONF = """
project = "little"
extensions = ["lensons.sphinxext"]
html_theme = "basic"
{more}
"""
FIGURES = '''
from lensons.figures import line_figure, pattern_figure

def pattern():
    """A pattern of three tokens."""
    pattern = [[1, 0, 0], [.25, .75, 0], [.5, .125, .375]]
    return pattern_figure(["a", "<b>", "c"], pattern, heads=["L0H0"], title="Looks")

def line():
    """A line."""
    return line_figure("Falls", "c", "It falls.", ("x", [0.0, 1.0]), {{"loss": [2.0, 1.0]}}, "nats")

def nothing():
    """Not a figure."""
'''
PAGE = """
Little
======

.. lensons-figure:: figures.py:pattern
   :alt: A looks at "a" & b.
   :name: first-one

.. lensons-figure:: figures.py:pattern
   :alt: The same again.

.. lensons-figure:: figures.py:line
   :alt: The loss falls.

See :ref:`first-one`.
"""


def build(folder, page=PAGE, builder="html", more=""):
    """Build a site of one page; warnings are errors. The finished process."""
    source = folder / "source"
    source.mkdir(exist_ok=True)
    (source / "conf.py").write_text(CONF.format(more=more), encoding="utf-8")
    (source / "figures.py").write_text(FIGURES.format(), encoding="utf-8")
    (source / "index.rst").write_text(page, encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", builder, str(source), str(folder / builder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_html(tmp_path):
    """Three figures, numbered, one of them shown twice: every id once, the assets named once, the link leads there."""
    done = build(tmp_path)
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"Figure (\d)</small><b>(\w+)", html) == [("1", "Looks"), ("2", "Looks"), ("3", "Falls")]
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    for name in ("figures.css", "figures.js", "circuitsvis.js"):
        assert html.count(f"_static/lensons/{name}") == 1
        assert (tmp_path / "html" / "_static" / "lensons" / name).stat().st_size > 1_000
    assert 'href="#first-one"' in html
    assert "first-one" in ids
    assert 'aria-label="A looks at &#34;a&#34; &amp; b."' in html
    assert "<b>c" not in html
    assert not re.findall(r'(?:src|href)="https?://', html.split("</head>")[0])


def test_the_same_page_has_the_same_bytes(tmp_path):
    """Built twice from nothing, the page is the same."""
    first, second = tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        folder.mkdir()
        assert build(folder).returncode == 0
    assert (first / "html" / "index.html").read_bytes() == (second / "html" / "index.html").read_bytes()


@pytest.mark.parametrize(("builder", "file"), [("text", "index.txt"), ("latex", "little.tex"), ("man", "little.1")])
def test_words_where_there_is_no_html(tmp_path, builder, file):
    """Title, what the figure shows, and its numbers stand in text, LaTeX and manual pages."""
    done = build(tmp_path, builder=builder)
    assert done.returncode == 0, done.stderr
    said = (tmp_path / builder / file).read_text(encoding="utf-8")
    plain = re.sub(r"\\(?:sphinx\w+|&)?|[{}]", "", said)
    for words in ("Looks", "The loss falls.", ".125", ".375", "Falls"):
        assert words in plain.replace("\\&", ""), words
    assert "<figure" not in said


@pytest.mark.parametrize(
    ("page", "says"),
    [
        (".. lensons-figure:: figures.py:pattern\n", "without :alt:"),
        (".. lensons-figure:: figures.py:nothing\n   :alt: x\n", "gave a NoneType"),
        (".. lensons-figure:: figures.py:missing\n   :alt: x\n", "has no function 'missing'"),
        (".. lensons-figure:: other.py:pattern\n   :alt: x\n", "no file 'other.py'"),
        (".. lensons-figure:: no.such.module:pattern\n   :alt: x\n", "no module 'no.such.module'"),
        (".. lensons-figure:: figures.py\n   :alt: x\n", "names no function"),
    ],
)
def test_what_is_wrong_stops_the_build(tmp_path, page, says):
    """A figure that can't be made ends the build, with its place and the reason; if you say so it is a warning only."""
    done = build(tmp_path, page="Title\n=====\n\n" + page)
    assert done.returncode != 0
    assert says in done.stderr
    assert "index.rst:4" in done.stderr
    loose = build(
        tmp_path, page="Title\n=====\n\n" + page, more='lensons_strict = False\nsuppress_warnings = ["lensons"]'
    )
    assert loose.returncode == 0, loose.stderr
    assert "A figure is missing here" in (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
