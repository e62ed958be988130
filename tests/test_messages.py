"""Every message that a user can meet has an entry on the page of errors."""

import ast
import re

import pytest

from lensons import errors
from tests.conftest import ROOT

OURS = {name for name in vars(errors) if re.fullmatch(r"\w*Error|\w*Warning", name)}
PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")


def literal(node):
    """The text of a message, "…" for what is filled in; None where it is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (literal(node.left) or "…") + (literal(node.right) or "…")
    return None


def messages():
    """Each (file, line, message) that is raised, or made to be raised, as one of our errors."""
    for path in sorted((ROOT / "lensons").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(getattr(node, "func", None), "id", "") if isinstance(node, ast.Call) else ""
            if name in OURS and node.args:
                text = literal(node.args[0])
                if text:
                    yield pytest.param(text, id=f"{path.stem}:{node.lineno}")


def words(text):
    """A message's words, without what is filled in."""
    return re.findall(r"[A-Za-z]{2,}", re.sub(r"…", " ", text))


ENTRIES = [words(entry) for entry in re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE)]


@pytest.mark.parametrize("text", list(messages()))
def test_every_message_has_an_entry(text):
    """The entry's words stand in the message, in that order, and begin where it begins: at most three words in."""
    said = words(text)

    def covers(entry):
        at = 0
        for word in entry:
            if word not in said[at:]:
                return False
            at += said[at:].index(word) + 1
        return len(entry) >= 2 and said.index(entry[0]) <= 3

    assert any(covers(entry) for entry in ENTRIES), f"no entry in docs/reference/errors.md for: {text}"
