"""The built site, read in a browser that has no network."""

import gzip
import re
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.site
SITE = ROOT / "docs" / "_build" / "html"
STEPS = ("it", "grid", "queries-and-keys", "scores-to-shares", "mixing-values", "many-heads")


@pytest.fixture(scope="module")
def pages():
    """The site's pages; what it offers for download is not among them."""
    found = [path for path in sorted(SITE.rglob("*.html")) if "downloads" not in path.parts]
    if not found:
        pytest.skip("the site is not built; `nox -s docs` builds it")
    return found


DATA = re.compile(r'<script type="application/json"[^>]*>.*?</script>|<svg class="lensons-picture.*?</svg>', re.DOTALL)


class Links(HTMLParser):
    """Where a page's links lead, its anchors, and its pictures without words."""

    def __init__(self, text):
        super().__init__()
        self.links, self.ids, self.mute = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if given.get("id") else []
        self.links += [given["href"]] if tag == "a" and given.get("href") else []
        if tag == "img" and not (given.get("alt") or "").strip():
            self.mute.append(given)


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_every_page_without_a_network(opened, axe, pages, width, scheme):
    """Every page, light and dark, on a phone and wide: no request, no error in the console, no sideways scrolling, and
    axe finds nothing serious."""
    assert len(pages) >= 25
    for path in pages:
        page = opened(path, viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.wait_for_timeout(100)
        assert page.title()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert axe(page) == [], path
        page.context.close()


def test_the_themes_switch_turns_the_figures(opened, pages):
    """The site's own switch from light to dark turns the paper of the figures, without reloading."""
    page = opened(SITE / "index.html", color_scheme="light")
    page.wait_for_selector("[data-painted]")
    colour = "getComputedStyle(document.querySelector('.board svg')).getPropertyValue('--l0')"
    light = float(page.evaluate(colour))
    page.evaluate("document.body.dataset.theme = 'dark'")
    assert light > 0.9
    assert float(page.evaluate(colour)) < 0.3


def test_the_lesson_was_executed_and_answers(opened, pages):
    """The lesson's page shows six steps with their numbers, says which model made them, and lets its reader choose."""
    page = opened(SITE / "lessons" / "attention.html")
    for step in STEPS:
        assert page.locator(f"section.step[data-step={step}]").count() == 1
    assert page.locator("section.step table").count() >= 10
    assert "not GPT-2" in page.locator("article").inner_text()
    page.wait_for_selector("section.step[data-step=grid] form.choose")
    page.locator("section.step[data-step=grid] [role=application]").focus()
    page.keyboard.press("ArrowUp")
    said = page.locator("section.step[data-step=grid] .choose .said").inner_text()
    assert "looks at" in said
    assert page.locator("section.step[data-step=scores-to-shares] .choose .said").inner_text() == said


def test_the_lesson_without_scripts(opened, pages):
    """With scripts off and on paper the lesson still shows its pictures and its numbers."""
    page = opened(SITE / "lessons" / "attention.html", scripts=False)
    assert page.locator("section.step[data-step=grid] svg rect.cell").count() > 50
    assert page.locator("section.step[data-step=scores-to-shares] tbody tr").count() > 10
    page.emulate_media(media="print")
    assert page.locator("section.step[data-step=grid] svg").first.is_visible()
    assert page.locator(".sidebar-drawer").is_hidden()


def test_every_figure_has_a_number_a_caption_and_words(pages):
    """On every page figures are numbered from 1, have a caption, and their pictures a text."""
    seen = 0
    for path in pages:
        html = path.read_text(encoding="utf-8")
        numbers = re.findall(r'<small class="figure-number">Figure (\d+)</small><b>([^<]+)', html)
        assert [int(number) for number, _ in numbers] == list(range(1, len(numbers) + 1)), path
        assert html.count('<figure class="lensons-figure"') == len(numbers), path
        assert all(words.strip() for words in re.findall(r'<svg[^>]*role="img"[^>]*aria-label="([^"]*)"', html))
        assert Links(html).mute == [], path
        seen += len(numbers)
    assert seen >= 20


def test_links_lead_somewhere(pages):
    """Inside links lead to a file and a place in it that are there; no script, style or image is from elsewhere."""
    found = {path: Links(path.read_text(encoding="utf-8")) for path in pages}
    outside = set()
    for path, parsed in found.items():
        html = path.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"(?:https?:)?//", html), path
        for link in parsed.links:
            if re.match(r"[a-z]+:", link):
                outside.add(link)
                continue
            file, anchor = urldefrag(unquote(link))
            target = (path.parent / file).resolve() if file else path
            assert target.exists(), (path.name, link)
            if anchor and target in found:
                assert anchor in found[target].ids, (path.name, link)
    assert all(link.startswith(("https://", "mailto:")) for link in outside)


def test_no_id_comes_twice(pages):
    """Every id on a page is met once."""
    for path in pages:
        ids = Links(path.read_text(encoding="utf-8")).ids
        assert len(ids) == len(set(ids)), (path.name, sorted({i for i in ids if ids.count(i) > 1}))


def test_the_site_is_light(pages):
    """A page's HTML is at most 300 kB before its figures' data; what pages share is at most 450 kB gzipped."""
    for path in pages:
        html = path.read_text(encoding="utf-8")
        data = re.compile(
            r'<script type="application/json"[^>]*>.*?</script>|<svg class="lensons-picture.*?</svg>', re.S
        )
        assert len(data.sub("", html).encode()) <= 300_000, path
    shared = [path for path in (SITE / "_static").rglob("*") if path.suffix in {".js", ".css"}]
    named = {
        path
        for path in shared
        if any(path.name in page.read_text(encoding="utf-8") for page in (SITE / "index.html", pages[-1]))
    } | set((SITE / "_static" / "lensons").glob("*.js"))
    assert sum(len(gzip.compress(path.read_bytes(), 9, mtime=0)) for path in named) <= 450_000


def test_search_finds_pages_and_holds_no_script(opened, pages):
    """The search page finds the lesson by a word of it; the index has no words of scripts or of packed data."""
    index = (SITE / "searchindex.js").read_text(encoding="utf-8")
    assert not re.findall(r"addeventlistener|decompressionstream|queryselector|[a-z0-9+/]{60,}", index.lower())
    assert len(index) < 200_000
    page = opened(SITE / "search.html")
    page.goto((SITE / "search.html").as_uri() + "?q=induction")
    page.wait_for_selector("#search-results li a")
    assert any("induction" in text.lower() for text in page.locator("#search-results li a").all_inner_texts())
