"""A real Chromium without a network: every request that leaves the page is recorded, and fails the test."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--no-first-run"]  # fmt: skip


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser; skips on a machine without one, and fails where LENSONS_REQUIRE_BROWSER is set."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        reason = "Chromium or Playwright is not installed"
        if os.environ.get("LENSONS_REQUIRE_BROWSER"):
            pytest.fail(f"{reason}, and LENSONS_REQUIRE_BROWSER is set")
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Open a file; afterwards nothing may have been requested beside it, and no error may stand in the console."""
    contexts, trouble = [], []

    def open_file(path: Path, *, scripts: bool = True, **options: Any) -> Any:
        context = chromium.new_context(java_script_enabled=scripts, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda r: trouble.append(f"request {r.url[:90]}") if _leaves(r.url) else None)
        page.on("console", lambda m: trouble.append(f"console {m.text}") if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: trouble.append(f"error {e}"))
        page.goto(path.resolve().as_uri())
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert trouble == []


@pytest.fixture(scope="session")
def axe() -> Callable[[Any], list[str]]:
    """What axe-core finds on an open page that is serious or critical, one line each."""
    package = pytest.importorskip("axe_playwright_python")
    code = (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")

    def found(page: Any) -> list[str]:
        page.evaluate(code)
        violations = page.evaluate("axe.run({resultTypes: ['violations'], preload: false})")["violations"]
        return [
            f"{rule['id']}: {node['html'][:160]} | {node['failureSummary'][:200]}"
            for rule in violations
            if rule["impact"] in ("serious", "critical")
            for node in rule["nodes"]
        ]

    return found


def _leaves(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:", "about:"))
