"""The notebooks in the real programs: JupyterLab, Notebook 7, nbconvert. Only the loopback server may be asked."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import pytest

from lensons.lessons import copy_notebooks

pytestmark = pytest.mark.jupyter
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("jupyterlab")

TWELVE = """
import lensons
from lensons.figures import pattern_figure
trace = lensons.trace("toy", "The animal didn't cross the street because it was too tired.")
def figure(n):
    return pattern_figure(trace.tokens, trace.pattern[n % 4], heads=[(n % 4, h) for h in range(4)], row=n)
"""


@contextmanager
def serving(program, folder, home):
    """A Jupyter server of our own, without a browser; gives its address and token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(8)
    command = [
        sys.executable, "-m", program, "--no-browser", "--allow-root", f"--ServerApp.port={port}",
        "--ServerApp.ip=127.0.0.1", f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}",
        "--expose-app-in-browser",
    ]  # fmt: skip
    places = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    env = os.environ | places | {"IPYTHONDIR": str(home / "ipython")}
    address = f"http://127.0.0.1:{port}"
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            for _ in range(240):
                try:
                    urllib.request.urlopen(f"{address}/api?token={token}", timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.25)
            else:
                pytest.fail(f"{program} did not start: {(home / 'log').read_text()[-2000:]}")
            yield address, token
        finally:
            os.killpg(server.pid, signal.SIGKILL)  # with its kernels; nobody waits for what it would tidy up
            server.wait()


@pytest.fixture
def reading(chromium):
    """Open an address of the loopback server. Whatever else is asked for is refused, and fails the test afterwards; so
    does an error of ours. (Notebook's own scripts, under /static/, raise one while it starts.)"""
    contexts, trouble = [], []

    def open_page(address, **options):
        context = chromium.new_context(viewport={"width": 1200, "height": 1000}, **options)
        contexts.append(context)

        def only_loopback(route):
            url = route.request.url
            if url.startswith(("http://127.0.0.1:", "data:", "blob:")):
                return route.continue_()
            trouble.append(url)
            return route.abort()

        context.route("**/*", only_loopback)
        page = context.new_page()
        page.on("pageerror", lambda e: trouble.append(str(e)) if "/static/" not in (e.stack or "") else None)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []


def command(page, name, arguments=None):
    page.wait_for_function("window.jupyterapp && window.jupyterapp.restored")
    page.evaluate("([name, given]) => window.jupyterapp.commands.execute(name, given || {})", [name, arguments])


def run_all(page, boards):
    """Run every cell, and wait for the last picture."""
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    page.wait_for_function(
        "!window.jupyterapp.shell.currentWidget.sessionContext || "
        "window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'",
        timeout=60_000,
    )
    command(page, "notebook:run-all-cells")
    page.wait_for_function(
        f"document.querySelectorAll('.board [class=cells] canvas').length >= {boards}", timeout=120_000
    )
    page.wait_for_function(
        "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'", timeout=120_000
    )


def walked(page):
    """The first board answers to the arrow keys, down or up."""
    grid = page.locator("[role=application].grid").first
    said = page.locator("figure", has=grid).first.locator(".said")
    grid.scroll_into_view_if_needed()
    grid.focus()
    before = said.inner_text()
    page.keyboard.press("ArrowDown")
    after = said.inner_text()
    return " looks at " in before and " looks at " in after and before != after


@pytest.fixture
def notebook(tmp_path):
    folder, home = tmp_path / "work", tmp_path / "home"
    home.mkdir()
    copy_notebooks(folder, ["attention"])
    return folder / "attention.ipynb", home


def test_jupyterlab(reading, notebook):
    """Run: every step is there, and its board answers. The theme's switch turns it. Saved, and reopened untrusted, the
    tables and images still stand, and no script ran."""
    path, home = notebook
    with serving("jupyterlab", path.parent, home) as (address, token):
        page = reading(f"{address}/lab/tree/{path.name}?token={token}")
        run_all(page, 1)
        page.wait_for_function("document.querySelectorAll('section.step').length >= 6", timeout=120_000)
        assert walked(page)
        paper = "getComputedStyle(document.querySelector('.board svg')).getPropertyValue('--l0')"
        assert float(page.evaluate(paper)) > 0.9
        command(page, "apputils:change-theme", {"theme": "JupyterLab Dark"})
        page.wait_for_function(f"Number({paper}) < .3")
        command(page, "docmanager:save")
        page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")
        saved = nbformat.read(path, as_version=4)
        shown = sum("text/html" in output.get("data", {}) for cell in saved.cells for output in cell.get("outputs", []))
        assert shown >= 6
        saved.cells.append(nbformat.v4.new_markdown_cell("Changed by somebody else: no longer trusted."))
        nbformat.write(saved, path.with_name("untrusted.ipynb"))
        other = reading(f"{address}/lab/workspaces/other/tree/untrusted.ipynb?token={token}")
        other.wait_for_selector(".jp-OutputArea img", timeout=60_000)
        assert other.locator(".jp-OutputArea table").count() >= 5
        assert other.evaluate("[...document.querySelectorAll('.jp-OutputArea img')].every(i => i.naturalWidth > 100)")
        assert other.evaluate("[...document.querySelectorAll('.jp-OutputArea img')].every(i => i.alt.length > 20)")
        assert other.locator(".board, section.step svg").count() == 0


def test_notebook_7(reading, notebook):
    """The same notebook in Notebook 7: it runs, and the board answers."""
    path, home = notebook
    with serving("notebook", path.parent, home) as (address, token):
        page = reading(f"{address}/notebooks/{path.name}?token={token}")
        run_all(page, 1)
        assert walked(page)


def test_nbconvert_and_size(reading, opened, tmp_path):
    """Twelve figures run to 1.5 MB on disk at most, as plain text/html without widgets; as HTML, read from disk with no
    network, all twelve are drawn and answer."""
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(TWELVE), *(nbformat.v4.new_code_cell(f"figure({n})") for n in range(12))]
    book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = tmp_path / "twelve.ipynb"
    nbformat.write(book, path)
    convert = [sys.executable, "-m", "nbconvert", "--log-level=ERROR"]
    subprocess.run([*convert, "--to", "notebook", "--execute", "--inplace", str(path)], check=True, timeout=300)
    assert path.stat().st_size < 1_500_000
    executed = json.loads(path.read_text(encoding="utf-8"))
    kinds = {kind for cell in executed["cells"] for output in cell["outputs"] for kind in output.get("data", {})}
    assert kinds == {"text/plain", "text/html"}
    assert "widgets" not in executed["metadata"]
    # nbconvert's own page asks for its mathematics and modules from elsewhere: here it is told not to.
    alone = ["--HTMLExporter.mathjax_url=", "--HTMLExporter.require_js_url=", "--HTMLExporter.jquery_url="]
    subprocess.run([*convert, "--to", "html", *alone, str(path)], check=True, timeout=120)
    html = path.with_suffix(".html")
    text = html.read_text(encoding="utf-8")
    for tag in ('<script src=""></script>', '<script type="text/javascript" async src=""></script>'):
        text = text.replace(tag, "")
    html.write_text(text, encoding="utf-8")
    page = opened(html)
    page.wait_for_function("document.querySelectorAll('.board canvas').length === 12")
    assert walked(page)
