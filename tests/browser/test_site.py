"""The built site, read in a browser that has no network."""

import re

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.site
SITE = ROOT / "docs" / "_build" / "html"


@pytest.fixture(scope="module")
def pages():
    found = sorted(SITE.rglob("*.html"))
    if not found:
        pytest.skip("the site is not built; `nox -s docs` builds it")
    return found


def test_no_page_fetches_anything(opened, pages):
    """Every page opens without a request to anywhere and without an error."""
    assert len(pages) >= 8
    for path in pages:
        page = opened(path)
        assert page.title()


def test_the_lesson_was_executed(opened, pages):
    """The lesson's page shows six steps with their tables and pictures, and names its model."""
    page = opened(SITE / "lessons" / "attention.html")
    for step in ("it", "grid", "queries-and-keys", "scores-to-shares", "mixing-values", "many-heads"):
        assert page.locator(f"section.step[data-step={step}]").count() >= 1
    assert page.locator("section.step table").count() >= 10
    drawn = "[...document.querySelectorAll('section.step img')].every(i => i.complete && i.naturalWidth > 0)"
    assert page.evaluate(drawn)
    assert "not GPT-2" in page.locator("article").inner_text()


def test_pages_are_light_and_links_lead_somewhere(pages):
    """No page asks for a script from elsewhere; inside links lead to files that are there."""
    for path in pages:
        html = path.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"https?://", html), path
        for link in re.findall(r'<a [^>]*href="([^"#:]+\.html)', html):
            assert (path.parent / link).exists(), (path.name, link)


@pytest.mark.parametrize("width", [360, 1440])
def test_nothing_sticks_out(opened, pages, width):
    """At 360 and 1440 px the lesson's page does not scroll sideways."""
    page = opened(SITE / "lessons" / "attention.html", viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
