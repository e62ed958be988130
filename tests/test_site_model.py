"""The site on another model than the one that ships, with a repository: built once, from a copy of its sources."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.site


@pytest.fixture(scope="module")
def site(gpt2_folder, tmp_path_factory):
    """The built pages' folder."""
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    made = shutil.ignore_patterns("_build", "_extra", "lessons", "__pycache__")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=made)
    shutil.copy(ROOT / "CHANGELOG.md", folder)
    env = os.environ | {"LENSONS_DOCS_MODEL": str(gpt2_folder), "LENSONS_DOCS_REPOSITORY": "someone/something",
                        "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}  # fmt: skip
    command = [sys.executable, "-m", "sphinx", "-n", "-W", "-q", "-b", "html", "docs", "html"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "html"


@pytest.mark.parametrize("name", ["attention", "induction"])
def test_a_lesson_names_the_model_it_was_made_on(site, name):
    """The page and the file to download say which model it was, and do not say that it was the toy or GPT-2."""
    for path in (site / "lessons" / f"{name}.html", site / "downloads" / f"{name}.html"):
        html = path.read_text(encoding="utf-8")
        words = re.sub(r"<(script|style|pre)\b.*?</\1>|<[^>]+>", " ", html.partition("<article")[2] or html, flags=re.S)
        assert "small-gpt2" in words, path
        for wrong in ("toy model", "Every number GPT-2", "This one is GPT-2"):
            assert wrong not in words.partition("Copyright")[0].replace("The toy model\u2019s card", ""), (path, wrong)


@pytest.mark.parametrize("name", ["attention", "induction"])
def test_a_lesson_opens_in_colab(site, name):
    """The page's link leads to a notebook whose first cell installs lensons from that repository."""
    html = (site / "lessons" / f"{name}.html").read_text(encoding="utf-8")
    link = re.search(r'href="https://colab.research.google.com/github/someone/something/blob/gh-pages/([^"]+)"', html)
    assert link is not None
    cells = json.loads((site / link[1]).read_text(encoding="utf-8"))["cells"]
    assert cells[0]["source"] == ["%pip install -q git+https://github.com/someone/something"]
    assert len(cells) > 5


def test_the_introduction_speaks_to_readers(site):
    """The page has nothing to run, so its introduction does not speak of running cells."""
    text = (site / "lessons" / "attention.html").read_text(encoding="utf-8")
    assert "run the cells" not in text
