"""Can it be read? Contrast at every strength, in grey, at twice the size, in print, and when tokens are hostile."""

import itertools

import numpy as np
import pytest

import lensons
from lensons.figures import document, pattern_figure, token_values_figure
from tests.test_figures import HOSTILE

pytestmark = pytest.mark.browser

# Relative luminance as WCAG 2.1 defines it, of a colour as the browser paints it.
LUMINANCE = """(css) => { const c = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    c.fillStyle = css; c.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...c.getImageData(0, 0, 1, 1).data].map(v => { v /= 255;
        return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b; }"""


def written(tmp_path, *parts, **options):
    path = tmp_path / "x.html"
    path.write_text(document("x", parts, **options), encoding="utf-8")
    return path


def strip(n=101):
    """A text whose tokens have all strengths from 0 to 1."""
    values = np.linspace(0, 1, n)
    return token_values_figure([f"{v:.2f}" for v in values], values, what="share", title="t", caption="c")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_strength_can_be_read_and_told_apart(opened, tmp_path, scheme):
    """From 0 to 1: what stands on a cell has a contrast of 4.5 or more, and lightness goes one way, also in grey."""
    page = opened(written(tmp_path, strip().html()), color_scheme=scheme)
    seen = page.evaluate(
        """(luminance) => { const light = eval(luminance);
        return [...document.querySelectorAll('svg.tokens g')].map(g =>
            [...g.querySelectorAll('rect, text')].map(e => light(getComputedStyle(e).fill))); }""",
        LUMINANCE,
    )
    assert len(seen) == 101
    contrast = [(max(pair) + 0.05) / (min(pair) + 0.05) for pair in seen]
    assert min(contrast) >= 4.5, contrast.index(min(contrast))
    cells = [cell for cell, _ in seen]
    pairs = list(itertools.pairwise(cells if scheme == "dark" else cells[::-1]))
    assert all(a < b for a, b in pairs)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_print_is_ink_on_paper(opened, tmp_path, toy, scheme):
    """Printed from a dark screen too: the paper is light, strong cells are dark, what only a screen can do is gone."""
    trace = lensons.trace(toy, "The animal was too tired.")
    figure = pattern_figure(trace.tokens, trace.pattern[0, 0], heads=["L0H0"])
    page = opened(written(tmp_path, figure.html(), strip(11).html()), color_scheme=scheme)
    page.wait_for_selector("[data-painted]")
    page.emulate_media(media="print", color_scheme=scheme)
    paper, weak, strong, text = page.evaluate(
        """(luminance) => { const light = eval(luminance), chips = [...document.querySelectorAll('svg.tokens rect')];
        const fill = (e) => light(getComputedStyle(e).fill), td = document.querySelector('figcaption b');
        return [light(getComputedStyle(document.documentElement).backgroundColor), fill(chips[0]), fill(chips[10]),
            light(getComputedStyle(td).color)]; }""",
        LUMINANCE,
    )
    assert paper > 0.9
    assert weak > 0.8
    assert strong < 0.1
    assert (paper + 0.05) / (text + 0.05) >= 4.5
    assert page.locator(".board svg").is_visible()
    assert page.locator("summary, input[type=checkbox]").first.is_hidden()


@pytest.mark.parametrize("width", [360, 640], ids=["phone", "200 percent"])
@pytest.mark.parametrize("lesson", [lensons.AttentionLesson, lensons.InductionLesson])
def test_small_screens(opened, tmp_path, toy, lesson, width):
    """On a phone, and at 200 % (1280 px are then 640 of the page's own), nothing scrolls sideways, and no label of a
    picture, with every answer and fold opened, is smaller than 7.5 px."""
    page = opened(lesson(toy).save(tmp_path / "x.html"), viewport={"width": width, "height": 640})
    page.wait_for_selector("[data-painted]")
    smallest = page.evaluate(
        """() => { for (const e of document.querySelectorAll('[hidden]')) e.hidden = false;
        for (const e of document.querySelectorAll('details')) e.open = true;
        return Math.min(...[...document.querySelectorAll('svg text')]
            .filter(e => e.getBoundingClientRect().width > 0)
            .map(e => { const { a, b } = e.getScreenCTM(); // some are turned
                return parseFloat(getComputedStyle(e).fontSize) * Math.hypot(a, b); })); }"""
    )
    assert smallest >= 7.5
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_drawn_stronger_faint_cells_are_seen(opened, tmp_path):
    """A box makes faint shares visible: a cell of .01 then differs from 0 clearly, marks tell where .01 and .1 lie."""
    weights = np.tril(np.full((5, 5), 0.01))
    weights[:, 0] += 1 - weights.sum(1)
    page = opened(written(tmp_path, pattern_figure(list("abcde"), weights, heads=["L0H0"]).html()))
    page.wait_for_selector("[data-painted] canvas")
    box = page.get_by_role("checkbox")
    colour = """() => { const canvas = document.querySelector('.board canvas');
        const at = [Math.floor(canvas.width * .5), Math.floor(canvas.height * .9)];
        return [...canvas.getContext('2d').getImageData(...at, 1, 1).data].slice(0, 3); }"""
    before = sum(page.evaluate(colour))
    assert not page.locator(".ramp b").first.is_visible()
    box.check()
    after = sum(page.evaluate(colour))
    assert before - after > 60
    assert page.locator(".ramp b").all_inner_texts() == [".01", ".1"]
    assert page.locator(".ramp b").first.is_visible()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_tokens_are_text_in_colored_tokens(opened, tmp_path, text):
    """CircuitsVis' ColoredTokens, mounted with the text as a token, makes no element of it."""
    figure = token_values_figure([text, "x"], [1.0, 2.0], what="loss", title="t", caption="c")
    page = opened(written(tmp_path, figure.html(), live=True))
    page.wait_for_selector("[data-live]", state="attached", timeout=30_000)
    assert page.locator("figure :is(img, script:not([type]), .live b, [onload], [onerror])").count() == 0
    assert page.evaluate("document.title") == "x"
