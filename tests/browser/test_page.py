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
    assert page.locator("script.lensons-circuitsvis").count() == 1
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened, axe, saved, toy, tmp_path, scheme):
    """On the pages of both lessons axe finds nothing serious, in light and dark, and on a phone."""
    induction = lensons.InductionLesson(toy).save(tmp_path / "induction.html")
    for path in (saved, induction):
        page = opened(path, viewport={"width": 360, "height": 800}, color_scheme=scheme)
        page.wait_for_selector("[data-painted]")
        assert axe(page) == [], path


def test_predict_commit_reveal_by_keyboard(opened, saved, lesson):
    """By keyboard alone: before the reader commits the answer is nowhere in the page; then reason and tally are."""
    question = lesson.questions["it"]
    page = opened(saved)
    card = page.locator("#it form.question")
    holds = "reason => document.querySelector('#it').textContent.includes(reason)"
    assert page.evaluate(holds, question.reason) is False
    assert page.locator("#it figure[data-kind=difference]").first.is_hidden()
    assert card.locator("button[type=submit]").is_disabled()
    card.locator("input").first.focus()
    page.keyboard.press("Space")
    for _ in range(question.answer):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert card.locator(".result").inner_text() == f"Yes. {question.reason}"
    assert page.locator("#it figure[data-kind=difference]").first.is_visible()
    other, asked = page.locator("#scores-to-shares form.question"), lesson.questions["scores-to-shares"]
    wrong = 0 if asked.answer else 1
    other.locator("input").nth(wrong).check()
    other.locator("button[type=submit]").click()
    said = other.locator(".result").inner_text()
    assert asked.reasons[wrong] in said
    assert asked.reason in said
    assert page.locator(".tally").inner_text() == f"You predicted 1 of 2 right. {len(lesson.questions) - 2} to go."


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
    head, q = lesson.trace.head(step.data["head"]), step.data["query"]
    cells = _cells(page, "scores-to-shares", "shares")
    for key, row in enumerate(cells[: q + 1]):
        assert float(row[1]) == pytest.approx(float(head.scores[q, key]), abs=1e-6)
        assert float(row[3]) == pytest.approx(float(head.pattern[q, key]), abs=1e-7)
    assert cells[q + 1][1] == ""


def _cells(page, step, kind):
    return page.evaluate(
        "([step, kind]) => [...document.querySelectorAll(`#${step} figure[data-kind=${kind}] tbody tr`)]"
        ".map(r => [...r.querySelectorAll('td')].map(c => c.title))",
        [step, kind],
    )


@pytest.mark.parametrize(("name", "query", "key"), [("0.1", 12, 4), ("3.2", 1, 1), ("2.0", 7, 0)])
def test_a_reader_chooses_head_and_tokens_without_a_kernel(opened, saved, lesson, name, query, key):
    """Whatever head, query and key a reader chooses, every table of steps 3 to 5 shows what Python would show."""
    page = opened(saved)
    page.wait_for_selector("#queries-and-keys form.choose")
    head = lesson.trace.head(name)
    for which, value in (
        (0, str(head.name.layer * lesson.trace.n_heads + head.name.head)),
        (1, str(query)),
        (2, str(key)),
    ):
        page.locator("#queries-and-keys form.choose select").nth(which).select_option(value)
    expected = [
        *lesson.queries_and_keys(head=name, query=query, key=key).figures,
        *lesson.scores_to_shares(head=name, query=query, key=key).figures,
        *lesson.mixing_values(head=name, query=query).figures,
    ]
    # Queries, keys and values are float16 in the page; a sum of 64 products of them is off by a little more.
    close = {"vectors": 2e-3, "products": 2e-2, "dots": 1e-4, "shares": 1e-4, "values": 1e-4, "mixing": 2e-3}
    for figure in expected:
        if figure.kind not in close:
            continue
        step = next(s.name for s in lesson.steps if any(f.kind == figure.kind for f in s.figures))
        shown = _cells(page, step, figure.kind)
        scale = max([abs(x) for row in figure.table.rows for x in row if isinstance(x, float)] or [1.0])
        if figure.kind == "products":  # two products of nearly one size may change places
            figures = {row[0]: row[3] for row in figure.table.rows}
            assert float(shown[-1][-1]) == pytest.approx(figures["sum"], abs=close["products"] * scale)
            continue
        for row, numbers in zip(shown, figure.table.rows, strict=True):
            for cell, number in zip(row, numbers[1 : len(row) + 1], strict=True):
                if isinstance(number, float) and cell:
                    assert float(cell) == pytest.approx(number, abs=close[figure.kind] * max(1, scale)), figure.kind
    title = page.locator("#scores-to-shares figure[data-kind=shares] figcaption b").inner_text()
    assert title == next(f.title for f in expected if f.kind == "shares")
    page.locator("#queries-and-keys form.choose button").click()
    own = lesson.scores_to_shares()
    assert page.locator("#scores-to-shares figure[data-kind=shares] figcaption b").inner_text() == own.figures[0].title


def test_the_grid_is_walked_by_arrow_keys(opened, saved, lesson):
    """Arrow keys move over the grid; the cell's value is in a status line, which is read out."""
    page = opened(saved)
    page.wait_for_selector("#grid form.choose")
    page.locator("#grid figure[data-kind=pattern] .grid").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    said = page.locator("#grid .choose .said").inner_text()
    query = lesson.evidence.query - 1
    key = min(lesson.evidence.key(lesson.evidence.head, lesson.evidence.query), query) - 1
    labels = lesson.trace.tokens.labels
    assert said.startswith(f"{labels[query]} looks at {labels[key]}: ")
    assert said.endswith("of its 1.")


def test_the_card_of_a_head(opened, saved, lesson):
    """A head in the grid opens its card: scores with chance and interval, two pictures, and what taking it out did."""
    page = opened(saved)
    grid = page.locator("#many-heads .heads")
    grid.wait_for()
    best, score = lesson.evidence.table.top("induction", 1)[0]
    button = grid.get_by_label(f"{best}: induction")
    button.click()
    card = page.locator("#many-heads .card")
    assert str(best) in card.locator("h3").inner_text()
    assert card.locator("tbody tr").count() == 4
    from lensons.figures import three_digits

    assert three_digits(score) in card.locator("tbody").inner_text()
    assert card.locator("canvas").count() == 2
    assert "Taken out, the loss on the second copy changes by" in card.inner_text()
    button.press("ArrowUp")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(
        f"L{best.layer - 1}H{best.head}"
    )


def test_terms_explain_themselves_on_focus(opened, saved):
    """A term's meaning shows on focus, and Escape closes it."""
    page = opened(saved)
    term = page.locator("#queries-and-keys .term").first
    assert term.locator(".meaning").is_hidden()
    term.focus()
    assert term.locator(".meaning").is_visible()
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == term.locator(
        ".meaning"
    ).get_attribute("id")
    page.keyboard.press("Escape")
    assert term.locator(".meaning").is_hidden()


def test_the_playground(opened, saved, lesson):
    """Untouched it shows the model's shares; a moved score says it is not the model any more; reset goes back."""
    page = opened(saved)
    play = page.locator("#scores-to-shares .playground")
    play.locator("tbody tr").first.wait_for(state="attached")
    assert play.is_hidden()  # it would give the answer away
    page.locator("#scores-to-shares form.question button.skip").click()
    assert play.is_visible()
    shares = lesson.scores_to_shares().data["shares"]

    def shown():
        cells = play.locator("tbody tr:not([hidden]) td.bar").evaluate_all("cells => cells.map(c => Number(c.title))")
        return [float(cell) for cell in cells]

    assert shown() == pytest.approx(shares, abs=1e-6)
    assert "model's own" in play.locator(".marked").inner_text()
    first = play.locator("tbody input").first
    first.focus()
    page.keyboard.press("End")
    assert "Not the model any more" in play.locator(".marked").inner_text()
    assert shown()[0] > shares[0]
    assert sum(shown()) == pytest.approx(1)
    play.get_by_role("checkbox").check()
    assert len(shown()) == len(lesson.trace)
    play.get_by_role("button").click()
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


@pytest.mark.parametrize("scripts", [True, False])
def test_a_word_without_end_stays_on_the_page(opened, tmp_path, scripts):
    """500 characters without a break, as a token, title and caption, with all that is folded away opened: a phone does
    not scroll sideways, and the footer is smaller than the text."""
    word = "x" * 500
    figure = pattern_figure([word, "b"], [[1.0, 0.0], [0.5, 0.5]], heads=["L0H0"], title=word, caption=word)
    page = opened(figure.save(tmp_path / "long.html"), scripts=scripts, viewport={"width": 360, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("parseFloat(getComputedStyle(document.querySelector('footer p')).fontSize)") < 17


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
