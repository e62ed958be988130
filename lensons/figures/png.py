"""A figure as a PNG: photographed in Chromium, where there is one. Nothing is fetched."""

import shutil
from concurrent.futures import ThreadPoolExecutor

from lensons.errors import MissingPackageError

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
_WAYS_ON = "`pip install playwright` and `playwright install chromium`, or save as .svg or .html."


def photographed(page: str) -> bytes:
    """The first figure of a page, light, at twice the size of a screen's pixels.

    Raises:
        MissingPackageError: there is no Playwright, or no Chromium that it can start.
    """
    # Playwright's plain interface refuses to work where an event loop runs, as in a notebook: so it has its own thread.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_photograph, page).result()


def _photograph(page: str) -> bytes:
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError as error:
        raise MissingPackageError(f"A PNG needs Playwright, which is not installed. {_WAYS_ON}") from error
    installed = next(filter(None, map(shutil.which, _BROWSERS)), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=installed, args=["--no-sandbox", "--disable-gpu"])
        except Error as error:
            said = str(error).strip().splitlines()[0]
            raise MissingPackageError(
                f"A PNG needs Chromium, and Playwright could not start it ({said}). {_WAYS_ON}"
            ) from error
        with browser:
            context = browser.new_context(
                viewport={"width": 1000, "height": 800}, device_scale_factor=2, color_scheme="light", offline=True
            )
            shown = context.new_page()
            shown.set_content(page)
            shown.evaluate("lensonsFigures.ready")
            shown.wait_for_timeout(200)  # CircuitsVis paints a moment later
            return shown.locator("figure").first.screenshot()
