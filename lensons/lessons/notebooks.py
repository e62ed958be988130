"""The lessons' notebooks: text files in ``lessons/``, which become ``.ipynb`` files where somebody wants them."""

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from lensons.errors import FileError
from lensons.files import written_whole

# A cell may begin with options of the site's, such as ":tags: [hide-input]"; they are no code.
_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(?::[^\n]*\n)*(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def lessons_folder() -> Path:
    """Where the lessons' text notebooks are: inside the installed package, or beside it in a working copy."""
    installed = Path(str(files("lensons"))) / "_lessons"
    beside = Path(str(files("lensons"))).parent / "lessons"
    for folder in (installed, beside):
        if (folder / "attention" / "attention.md").is_file():
            return folder
    raise FileError(f"The lessons' notebooks are missing from {str(installed)!r}. Install lensons again.")


def to_notebook(text: str) -> dict[str, Any]:
    """A MyST text notebook as an ``.ipynb`` document."""
    body = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    cells: list[dict[str, Any]] = []
    at = 0
    for match in _CELL.finditer(body):
        cells += _markdown(body[at : match.start()], len(cells))
        code = match["code"].strip("\n").splitlines(keepends=True)
        cells.append(
            {"cell_type": "code", "execution_count": None, "id": f"cell-{len(cells)}", "metadata": {}, "outputs": [],
             "source": code}
        )  # fmt: skip
        at = match.end()
    cells += _markdown(body[at:], len(cells))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _markdown(text: str, number: int) -> list[dict[str, Any]]:
    lines = text.strip("\n").splitlines(keepends=True)
    return [{"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": lines}] if lines else []


def copy_notebooks(folder: str | Path, names: Sequence[str] = ("attention",)) -> list[Path]:
    """Write lessons' notebooks into a folder, ready to open.

    Raises:
        FileError: the folder cannot be written to.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"The folder {str(target)!r} cannot be made ({error.strerror}). Choose another place."
        ) from error
    written = []
    for name in names:
        text = (lessons_folder() / name / f"{name}.md").read_text(encoding="utf-8")
        document = json.dumps(to_notebook(text), ensure_ascii=False, indent=1)
        written.append(written_whole(target / f"{name}.ipynb", document + "\n"))
    return written
