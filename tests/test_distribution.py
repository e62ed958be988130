"""The built wheel and source archive, installed in a fresh environment and used from another folder."""

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.package


@pytest.fixture(scope="module")
def built() -> Path:
    folder = os.environ.get("LENSONS_DIST")
    if not folder:
        pytest.skip("LENSONS_DIST names no folder with a built wheel; `nox -s package` makes one")
    return Path(folder)


@pytest.fixture(scope="module")
def names(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        return wheel.namelist()


def test_the_wheel_carries_what_is_needed(names):
    """The toy model, the lessons, the notices, the licence and the type marker are in the wheel."""
    for wanted in (
        "lensons/py.typed",
        "lensons/toy/model.safetensors",
        "lensons/toy/config.json",
        "lensons/toy/tokenizer.json",
        "lensons/_lessons/attention/attention.md",
    ):
        assert wanted in names
    assert any("licenses/LICENSE" in name for name in names)
    assert any("NOTICES" in name for name in names)


def test_the_wheel_has_one_top_level_package(names):
    """Nothing but `lensons` is installed: never a package named `lessons`, `tests` or `docs`."""
    assert {name.split("/")[0].split("-")[0] for name in names} == {"lensons"}


def test_the_source_archive_is_whole(built):
    """The source archive has the lessons, the tests, the docs and the training scripts."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        inside = {name.split("/", 1)[-1].split("/")[0] for name in archive.getnames()}
    assert {"lensons", "lessons", "tests", "docs", "training", "noxfile.py", "LICENSE", "README.md"} <= inside


def test_the_installed_wheel_does_the_main_job(built, tmp_path):
    """In a fresh environment, from another folder, the command line writes the lesson with the toy model."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", next(built.glob("*.whl"))], check=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    clean = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME"}} | {"HF_HUB_OFFLINE": "1"}
    run = subprocess.run(
        [python, "-m", "lensons", "lesson", "attention", "--model", "toy", "-o", "attention.html"],
        cwd=elsewhere,
        env=clean,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "attention.html" in run.stdout
    page = (elsewhere / "attention.html").read_text(encoding="utf-8")
    for step in ("it", "grid", "queries-and-keys", "scores-to-shares", "mixing-values", "many-heads"):
        assert f'id="{step}"' in page
    copied = subprocess.run(
        [python, "-m", "lensons", "lesson", "attention", "--notebook", "."],
        cwd=elsewhere,
        env=clean,
        capture_output=True,
        text=True,
    )
    assert copied.returncode == 0, copied.stderr
    assert json.loads(next(elsewhere.glob("*.ipynb")).read_text(encoding="utf-8"))["nbformat"] == 4


def test_scores_alone(built, tmp_path):
    """In an environment with torch, einops and jaxtyping and nothing else of ours, lensons.scores works."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    python = tmp_path / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    install = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, "torch", "einops", "jaxtyping"], check=True)
    subprocess.run([*install, "--no-deps", next(built.glob("*.whl"))], check=True)
    code = (
        "import sys, torch; from lensons import scores; "
        "print(float(scores.previous_token(torch.eye(4)[[0, 0, 1, 2]]))); "
        "print(sorted({'transformer_lens', 'transformers', 'circuitsvis', 'jinja2'} & set(sys.modules)))"
    )
    run = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split("\n")[:2] == ["1.0", "[]"]
