"""How long until a reader sees the picture: each tool's own page in Chromium, the network blocked, same patterns."""

import math
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import files
from benchmarks.measure import Setting, spread
from benchmarks.neighbours import TOOLS, Tool, make

SIZES = ((12, 15), (12, 50), (12, 200))
"""Heads, tokens."""
SLOW = 20.0
"""A page that took longer than this many seconds is opened twice only."""
CALM = 0.5
"""The picture is full when nothing changed and no frame was late for this many seconds."""
LIMIT = 240.0
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--no-first-run"]  # fmt: skip

# Runs before the page's own scripts. A frame can only be drawn when no script holds the page, so the first frame in
# which the picture's element stands is the first that a reader can see; `last` is the end of the last disturbance.
_WATCH = """(selector) => {
  const seen = window.__seen = {first: null, last: performance.now()};
  let frame = performance.now();
  new MutationObserver(() => { seen.last = performance.now(); })
    .observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
  const look = () => {
    const now = performance.now();
    if (now - frame > 150) seen.last = now;
    frame = now;
    if (seen.first === null && document.querySelector(selector)) {
      seen.first = -1;
      requestAnimationFrame(() => { seen.first = performance.now(); });
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""

_CALM = "(calm) => { const s = window.__seen; return s && s.first > 0 && performance.now() - s.last > calm; }"


def measure(setting: Setting) -> dict[str, Any]:
    """Per size and tool: seconds to the first picture and to the full one, and both as ratios to lensons' own."""
    found: dict[str, Any] = {}
    with _chromium() as browser:
        if browser is None:
            return {"not measured": "Chromium or Playwright is not installed"}
        found["browser"] = f"Chromium {browser.version}"
        found["shows with scripts off"] = {
            tool.name: _without_scripts(browser, tool) for tool in TOOLS if tool.there and not tool.fetches
        } | {tool.name: False for tool in TOOLS if tool.there and tool.fetches}
        with files.served() if _needs_files() else _nowhere() as where:
            for heads, n in setting.choose(SIZES, ((2, 5),)):
                found[f"{heads} x {n:,}"] = _one_size(browser, heads, n, where, setting.choose(4, 1))
    return found


def _needs_files() -> bool:
    return any(tool.there and tool.fetches for tool in TOOLS)


@contextmanager
def _nowhere() -> Iterator[str]:
    yield ""


@contextmanager
def _chromium() -> Iterator[Any]:
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        yield None
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


def _one_size(browser: Any, heads: int, n: int, where: str, turns: int) -> dict[str, Any]:
    tools = [tool for tool in TOOLS if tool.there]
    times: dict[str, list[dict[str, float]]] = {tool.name: [] for tool in tools}
    with tempfile.TemporaryDirectory() as folder:
        pages = {}
        for tool in tools:
            pages[tool.name] = Path(folder, f"{tool.package}{len(pages)}.html")
            pages[tool.name].write_text(files.localised(make(tool, 1, heads, n), where), encoding="utf-8")
        for turn in range(turns):
            for tool in tools:
                done = times[tool.name]
                if turn < 2 or done[0]["full"] < SLOW:
                    done.append(_open(browser, tool, pages[tool.name]))
    ours = times["lensons"]
    return {
        name: {
            "first": spread([t["first"] for t in done], "seconds"),
            "full": spread([t["full"] for t in done], "seconds"),
            "turns": len(done),
            "lensons / this, first": spread([a["first"] / b["first"] for a, b in zip(ours, done, strict=False)]),
            "lensons / this, full": spread([a["full"] / b["full"] for a, b in zip(ours, done, strict=False)]),
        }
        for name, done in times.items()
    }


def _open(browser: Any, tool: Tool, path: Path) -> dict[str, float]:
    """Open a page once; times count from the start of the navigation."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.set_default_timeout(LIMIT * 1000)
        page.route("**/*", lambda route: route.continue_() if _here(route.request.url) else route.abort())
        page.add_init_script(f"({_WATCH})({tool.picture!r})")
        start = time.perf_counter()
        page.goto(path.as_uri(), wait_until="commit")
        while not page.evaluate(_CALM, CALM * 1000):
            assert time.perf_counter() - start < LIMIT, f"{tool.name} drew nothing in {LIMIT:.0f} seconds"
            time.sleep(0.05)
        first, last = page.evaluate("[window.__seen.first, window.__seen.last]")
        # What was asked of a canvas may still wait to be painted; a picture of the page is there only after it was.
        asked = time.perf_counter()
        page.screenshot()
        painted = time.perf_counter() - asked
    finally:
        context.close()
    return {"first": first / 1000, "full": max(first, last) / 1000 + painted}


def _here(url: str) -> bool:
    return url.startswith(("file:", "data:", "blob:", "about:", "http://127.0.0.1:"))


def _without_scripts(browser: Any, tool: Tool) -> bool:
    """Whether anything of the picture stands in the page when scripts are off."""
    context = browser.new_context(java_script_enabled=False, offline=True)
    try:
        page = context.new_page()
        page.set_content(make(tool, 1, 2, 5))
        boxes = [element.bounding_box() for element in page.query_selector_all(tool.picture)[:20]]
        return any(box and math.prod((box["width"], box["height"])) > 1 for box in boxes)
    finally:
        context.close()
