"""The code in the README and the docs runs, and the examples in the docstrings do."""

import doctest
import importlib
import pkgutil
import re

import pytest

import lensons
from tests.conftest import ROOT

MODULES = [m.name for m in pkgutil.walk_packages(lensons.__path__, "lensons.") if not m.name.endswith("__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    """Every example in a docstring gives what it says."""
    if name == "lensons.sphinxext":
        pytest.importorskip("sphinx")  # it comes with the docs only, and their session reads this module
    module = importlib.import_module(name)
    extra = {"lensons": lensons, "torch": importlib.import_module("torch")}
    found = doctest.testmod(module, extraglobs=extra, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
DOCUMENTS = [
    str(path.relative_to(ROOT))
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if not {"_build", "_extra", "lessons"} & set(path.parts) and BLOCK.search(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_code_blocks_run(document, tmp_path, monkeypatch):
    """The Python blocks of a document run, one after the other, as a reader would type them in an empty folder."""
    if document == "docs/howto/sphinx.md":
        pytest.importorskip("sphinx")  # as above
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in BLOCK.findall((ROOT / document).read_text(encoding="utf-8")):
        exec(compile(block, document, "exec"), names)


def test_the_readme_and_the_first_page_have_code():
    """Both show how lensons is used."""
    assert {"README.md", "docs/index.md"} <= set(DOCUMENTS)


def test_the_readmes_commands_are_the_ones_ci_runs():
    """CI takes its command from the README, so the README's must be there, in one line."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- tests -->\n```bash\n(.*?)\n```", readme, re.DOTALL)
    assert block
    assert "\n" not in block[1]
    assert block[1].endswith("nox")
