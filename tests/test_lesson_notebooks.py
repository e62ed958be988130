"""The lessons as notebooks."""

import json

import pytest

import lensons
from lensons.errors import FileError, InputError
from lensons.lessons import copy_notebooks, notebook_files
from lensons.lessons.notebooks import as_notebook


def test_notebooks_are_copied(tmp_path):
    """Each lesson's notebook arrives as valid nbformat 4, with its code in cells; bad names and places are errors."""
    paths = copy_notebooks(tmp_path / "new")
    assert [path.stem for path in paths] == list(notebook_files())
    for path in paths:
        document = json.loads(path.read_text(encoding="utf-8"))
        assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
        code = ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]
        assert "import lensons" in code[0]
        assert all(cell and "```" not in cell and ":tags:" not in cell for cell in code)
        assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
    with pytest.raises(InputError, match="no lesson 'gravity'"):
        copy_notebooks(tmp_path, ["gravity"])
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError):
        copy_notebooks(tmp_path / "file")


def test_headings_begin_cells():
    """A heading begins a text cell; a cell's options are no code."""
    text = "---\na: b\n---\n\n# A\n\nwords\n\n## B\n\n```{code-cell} python\n:tags: [x]\n\n1 + 1\n```\n\nend\n"
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in as_notebook(text)["cells"]]
    assert cells == [("markdown", "# A\n\nwords"), ("markdown", "## B"), ("code", "1 + 1"), ("markdown", "end")]


@pytest.mark.parametrize("name", ["attention", "induction"])
def test_the_notebooks_code_runs(tmp_path, monkeypatch, name):
    """Every code cell of a lesson's notebook runs, top to bottom."""
    monkeypatch.chdir(tmp_path)
    (path,) = copy_notebooks(tmp_path, [name])
    names: dict = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "cell", "exec"), names)
    assert isinstance(names["lesson"], lensons.lessons.Lesson)
