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


@pytest.mark.parametrize("document", ["README.md", "docs/index.md"])
def test_code_blocks_run(document):
    """The Python blocks of a document run, one after the other, as a reader would type them."""
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, document, "exec"), names)


def test_the_readmes_commands_are_the_ones_ci_runs():
    """CI takes its command from the README, so the README's must be there, in one line."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- tests -->\n```bash\n(.*?)\n```", readme, re.DOTALL)
    assert block
    assert "\n" not in block[1]
    assert block[1].endswith("nox")
