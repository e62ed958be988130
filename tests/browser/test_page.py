"""The saved lesson in a real browser, opened from disk, with no network."""

import pytest

import lensons
from lensons.figures import pattern_figure

pytestmark = pytest.mark.browser
STEPS = ("it", "grid", "queries-and-keys", "scores-to-shares", "mixing-values", "many-heads")


@pytest.fixture(scope="module")
def lesson(toy):
    return lensons.AttentionLesson(toy)


@pytest.fixture(scope="module")
def saved(lesson, tmp_path_factory):
    return lesson.save(tmp_path_factory.mktemp("page") / "attention.html")


def test_six_steps_and_the_grid_is_drawn(opened, saved):
    """No request, no console error; six steps; CircuitsVis has drawn at least one canvas with ink on it."""
    page = opened(saved)
    page.wait_for_selector("[data-live=circuitsvis] canvas", timeout=30_000)
    assert [page.locator(f"#{step}").count() for step in STEPS] == [1] * 6
    page.wait_for_function(
        """() => [...document.querySelectorAll('[data-live] canvas')].some(c => {
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            const seen = new Set(); for (let i = 0; i < d.length; i += 400) seen.add(d[i] + ',' + d[i+2]);
            return seen.size > 2; })""",
        timeout=30_000,
    )


def test_no_id_twice_and_one_bundle(opened, saved):
    """HO-10: no id comes twice, and CircuitsVis is in the file once."""
    page = opened(saved)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    outside_pictures = [i for i in ids if not i.startswith("hatch")]
    assert len(outside_pictures) == len(set(outside_pictures))
    assert page.locator("#lensons-circuitsvis").count() == 1
    assert saved.stat().st_size < 1_500_000


def test_useful_without_scripts(opened, saved):
    """HO-11: with scripts off, every step shows its text, tables with numbers, and the picture of the grid."""
    page = opened(saved, scripts=False)
    for step in STEPS:
        assert page.locator(f"#{step}").is_visible()
    assert page.locator("#grid svg rect.cell").count() > 50
    assert page.locator("#scores-to-shares tbody tr").count() > 10
    assert page.locator("#grid .live").is_hidden()


@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_and_text_can_be_read(opened, saved, width, scheme):
    """HO-12: at 360 and 1440 px, in light and dark: no sideways scrolling, and text contrast of 4.5 or more."""
    page = opened(saved, viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    contrast = page.evaluate(
        """() => {
        const rgb = (css) => { const c = document.createElement('canvas').getContext('2d'); c.fillStyle = css;
            c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data].slice(0, 3); };
        const light = (css) => { const [r, g, b] = rgb(css).map(v => { v /= 255;
            return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126*r + .7152*g + .0722*b; };
        const paper = light(getComputedStyle(document.documentElement).backgroundColor);
        return ['h1', 'p.lead', 'section p', 'td', 'th', 'figcaption span', 'aside', 'summary', 'footer p'].map(s => {
            const ink = light(getComputedStyle(document.querySelector('main ' + s)).color);
            return [s, (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05)]; });
        }"""
    )
    assert all(ratio >= 4.5 for _, ratio in contrast), contrast


def test_predict_commit_reveal_by_keyboard(opened, saved, lesson):
    """By keyboard alone: before the reader commits the answer is not in the page; then verdict, reason, score are."""
    question = lesson.questions["it"]
    page = opened(saved)
    card = page.locator("#it form.question")
    assert question.reason not in page.locator("#it").inner_text()
    assert (
        page.evaluate("reason => document.querySelector('#it').textContent.includes(reason)", question.reason) is False
    )
    card.locator("input").first.focus()
    for _ in range(question.answer):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    assert card.locator(".verdict").inner_text() == "Yes."
    assert question.reason in card.inner_text()
    other = page.locator("#scores-to-shares form.question")
    other.locator("button").click()
    assert other.locator(".verdict").inner_text() == "Choose one first."
    other.locator("input").first.check()
    other.locator("button").click()
    assert other.locator(".verdict").inner_text().startswith("Not this one")
    assert page.locator(".score").inner_text() == f"You answered 2 of {len(lesson.questions)} questions, 1 right."


def test_answers_are_folded_away_without_scripts(opened, saved):
    """With scripts off an answer is folded away, and opens where its reader asks for it."""
    page = opened(saved, scripts=False)
    answer = page.locator("#it .question details")
    assert answer.locator("p").is_hidden()
    answer.locator("summary").click()
    assert answer.locator("p").is_visible()


def test_numbers_on_the_page_are_the_traces(opened, saved, lesson):
    """The shares and scores in the page, at full precision, are those of the trace."""
    page = opened(saved)
    step = lesson.scores_to_shares()
    head = lesson.trace.head(step.data["head"])
    q = step.data["query"]
    cells = page.evaluate(
        "[...document.querySelectorAll('#scores-to-shares tbody tr')]"
        ".map(r => [...r.querySelectorAll('td')].map(c => c.title))"
    )
    for key, row in enumerate(cells[: q + 1]):
        assert float(row[1]) == pytest.approx(float(head.scores[q, key]), abs=1e-6)
        assert float(row[3]) == pytest.approx(float(head.pattern[q, key]), abs=1e-7)
    assert cells[q + 1][1] == ""


def test_the_playground(opened, saved, lesson):
    """Untouched it shows the model's shares; a moved score says it is not the model any more; reset goes back."""
    page = opened(saved)
    play = page.locator("#scores-to-shares .playground")
    shares = lesson.scores_to_shares().data["shares"]

    def shown():
        cells = play.locator("tbody tr:not([hidden]) td.bar").evaluate_all("cells => cells.map(c => Number(c.title))")
        return [float(cell) for cell in cells]

    assert shown() == pytest.approx(shares, abs=1e-6)
    assert "model's own" in play.locator(".state").inner_text()
    first = play.locator("tbody input").first
    first.focus()
    page.keyboard.press("End")
    assert "not the model any more" in play.locator(".state").inner_text()
    assert shown()[0] > shares[0]
    assert sum(shown()) == pytest.approx(1)
    play.locator(".unmask").check()
    assert len(shown()) == len(lesson.trace)
    play.locator(".reset").click()
    assert shown() == pytest.approx(shares, abs=1e-6)


HOSTILE = [
    "a<b<c",
    "</script><b>x</b>",
    '"><img src=x onerror=alert(1)>',
    "<!-- ",
    "\u2028\u2029",
    "\u202eabc",
    "&amp;",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(opened, tmp_path, text):
    """HO-08: text from anywhere shows as text: the page has exactly the elements of its template."""
    labels = [text, "x"]
    figure = pattern_figure(labels, [[1.0, 0.0], [0.5, 0.5]], heads=["L0H0"], title=text, caption=text)
    page = opened(figure.save(tmp_path / "hostile.html"))
    page.wait_for_selector("[data-live=circuitsvis] canvas", timeout=30_000)
    assert page.locator("img").count() == 0
    assert page.locator("figcaption b b, figcaption img, td b").count() == 0
    assert page.evaluate("document.querySelector('figcaption b').textContent") == text
    assert page.locator("footer").is_visible()


def test_two_views_and_more_on_one_page(opened, tmp_path, toy):
    """HO-10: twelve views, and one of them twice, on a page: all are drawn, and the library is there once."""
    from lensons.figures import document

    trace = lensons.trace(toy, "The animal was too tired.")
    views = [
        pattern_figure(trace.tokens, trace.pattern[n // 4, n % 4], heads=[f"L{n // 4}H{n % 4}"]) for n in range(12)
    ]
    path = tmp_path / "many.html"
    path.write_text(document("Many", [view.html() for view in views], live=True), encoding="utf-8")
    assert path.stat().st_size < 1_500_000
    page = opened(path)
    page.wait_for_function("() => document.querySelectorAll('[data-live] canvas').length >= 12", timeout=60_000)
