"""The reference has every public name, with what it takes and gives, and an example that runs."""

import doctest
import importlib
import inspect
import re

import pytest

from tests.conftest import ROOT

MODULES = ("lensons", "lensons.scores", "lensons.figures", "lensons.lessons")
PAGES = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "reference").glob("*.md")))


def public():
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            found = getattr(importlib.import_module(module), name)
            if inspect.isclass(found) or inspect.isroutine(inspect.unwrap(found)):
                yield pytest.param(f"{module}.{name}", found, id=f"{module}.{name}")


PUBLIC = list(public())


def names(path, found):
    """How a page may call it: by this name, the short one, or that of the module it is defined in."""
    return {path, f"lensons.{found.__name__}", f"{found.__module__}.{found.__qualname__}"}


@pytest.mark.parametrize(("path", "found"), PUBLIC)
def test_every_public_name_has_an_entry(path, found):
    """Every public function and class has an autodoc entry on a page of the reference, or is on the page of errors."""
    documented = set(re.findall(r"auto(?:function|class|exception|method)::\s*([\w.]+)", PAGES))
    everything = set(re.findall(r"automodule::\s*([\w.]+)", PAGES))
    assert names(path, found) & documented or {name.rpartition(".")[0] for name in names(path, found)} & everything


@pytest.mark.parametrize(("path", "found"), PUBLIC)
def test_every_public_name_explains_itself(path, found):
    """Every public name has a docstring; a function's has its arguments, what it gives, and an example."""
    said = inspect.getdoc(found)
    assert said
    assert said.splitlines()[0].endswith((".", ":"))
    if inspect.isfunction(found):
        elsewhere = re.search(r"rguments.{0,20} (?:for|of) :func:|those of :func:|See :func:", said)
        for name in [] if elsewhere else inspect.signature(found).parameters:
            assert re.search(rf"(?<!\w){name}(?!\w)", said), f"{path} does not say what {name} is"
        assert doctest.DocTestParser().get_examples(said), f"{path} has no example"


@pytest.mark.parametrize(("path", "found"), [case for case in PUBLIC if inspect.isclass(case.values[1])])
def test_no_propertys_words_are_taken_for_its_type(path, found):
    """Sphinx reads "words: more words" in a property's docstring as a type and what it is, so none begins like that."""
    for name, member in inspect.getmembers(found, lambda member: isinstance(member, property)):
        first = (inspect.getdoc(member) or "").partition("\n")[0]
        assert ": " not in first, f"{path}.{name}: {first}"
