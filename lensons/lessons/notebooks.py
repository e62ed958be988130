"""The lessons as notebooks: kept as text, written as ``.ipynb`` where a person wants to run them."""

import json
import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from lensons.errors import FileError, InputError
from lensons.files import as_path, written_whole

# A cell may begin with options of the site's, such as ":tags: [hide-input]"; they are no code.
_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(?::[^\n]*\n)*(?P<code>.*?)^```[ \t]*$\n?", re.MULTILINE | re.DOTALL)
_HEADER = re.compile(r"\A---\n.*?^---\n", re.MULTILINE | re.DOTALL)


def notebook_files() -> dict[str, Path]:
    """Each lesson's notebook as a text file (MyST), by the lesson's name.

    Raises:
        FileError: this copy of lensons came without them.

    Example:
        >>> sorted(notebook_files())
        ['attention', 'induction']
    """
    # In a wheel they travel inside the package; in a checkout they live beside it.
    inside = Path(str(files("lensons"))) / "_lessons"
    folder = inside if inside.is_dir() else inside.parent.parent / "lessons"
    found = {path.stem: path for path in sorted(folder.glob("*/*.md")) if path.stem == path.parent.name}
    if not found:
        raise FileError(f"The lessons' notebooks are not in {str(folder)!r}. They ship with lensons. Install it again.")
    return found


def copy_notebooks(folder: str | Path, names: Sequence[str] | None = None) -> list[Path]:
    """Write lessons as Jupyter notebooks into a folder, which is made where it is not there.

    Args:
        folder: where to.
        names: which lessons, such as ``["attention"]``; None for all.

    Returns:
        The files written.

    Raises:
        InputError: there is no lesson of that name.
        FileError: a file cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [path.name for path in copy_notebooks(folder, ["attention"])]
        ['attention.ipynb']
    """
    known = notebook_files()
    chosen = list(known) if names is None else list(names)
    for name in chosen:
        if name not in known:
            raise InputError(f"There is no lesson {name!r}. Allowed are {', '.join(known)}. Choose one of those.")
    target = as_path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"The folder {str(target)!r} cannot be made ({error.strerror or error}). Choose another place."
        ) from error
    written = []
    for name in chosen:
        notebook = as_notebook(known[name].read_text(encoding="utf-8"))
        written.append(
            written_whole(target / f"{name}.ipynb", json.dumps(notebook, ensure_ascii=False, indent=1) + "\n")
        )
    return written


def as_notebook(text: str) -> dict[str, Any]:
    """A MyST text notebook as a Jupyter notebook (format 4.5), without outputs."""
    cells: list[dict[str, Any]] = [
        {"id": f"cell-{number}", "cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}
        | ({"execution_count": None, "outputs": []} if kind == "code" else {})
        for number, (kind, source) in enumerate(_cells(_HEADER.sub("", text, count=1)), start=1)
    ]
    return {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cells(body: str) -> Iterator[tuple[str, str]]:
    """Text and code in turn; a heading begins a new text cell, so that a lesson can be folded step by step."""
    at = 0
    for match in [*_CELL.finditer(body), None]:
        between = body[at : None if match is None else match.start()]
        for part in re.split(r"(?m)^(?=#{1,2} )", between):
            if part.strip():
                yield "markdown", part.strip()
        if match is not None:
            yield "code", match["code"].strip("\n")
            at = match.end()
