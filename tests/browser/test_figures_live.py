"""Figures in a real browser without a network: walked over, zoomed, painted in the page's colours."""

import base64

import numpy as np
import pytest

from lensons.figures import all_patterns_figure, document, pattern_figure

pytestmark = pytest.mark.browser
LABELS = ["⟨BOS⟩", "␣a", "␣bb", "␣a", "␣ccc"]


def softmax(scores):
    scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.fixture(scope="module")
def pattern():
    return softmax(np.random.default_rng(0).normal(size=(3, 5, 5)) * 2)


@pytest.fixture(scope="module")
def figure(pattern):
    return pattern_figure(LABELS, pattern, heads=["L0H0", "L0H1", "L0H2"], row=3)


def written(tmp_path, *parts, **options):
    path = tmp_path / "x.html"
    path.write_text(document("x", parts, **options), encoding="utf-8")
    return path


PIXELS = """(canvas) => { const copy = document.createElement('canvas');
    copy.width = canvas.width; copy.height = canvas.height;
    const context = copy.getContext('2d', {willReadFrequently: true}); context.drawImage(canvas, 0, 0);
    return context.getImageData(0, 0, copy.width, copy.height).data; }"""


def colours(page):
    """The colour in the middle of every cell of the first board, row by row."""
    return page.evaluate(
        """(pixels) => { const board = document.querySelector('.board .cells'), canvas = board.querySelector('canvas');
        const n = document.querySelector('figure').lensons.count, data = eval(pixels)(canvas);
        const box = board.getBoundingClientRect(), own = canvas.getBoundingClientRect();
        const middle = (i, side, size) => box[side] + (i + .5) * box[size] / n - own[side];
        const at = (i, side, size) => Math.floor(middle(i, side, size) / own[size] * canvas[size]);
        const pixel = (q, k) => 4 * (at(q, 'top', 'height') * canvas.width + at(k, 'left', 'width'));
        const steps = [...Array(n).keys()];
        return steps.map((q) => steps.map((k) => [...data.slice(pixel(q, k), pixel(q, k) + 4)])); }""",
        PIXELS,
    )


@pytest.mark.parametrize("live", [True, False], ids=["circuitsvis", "lensons"])
def test_every_cell_has_the_colour_of_its_share(opened, tmp_path, figure, pattern, live):
    """Whoever paints, the middle of cell (q, k) is the darker the larger its share; what cannot be seen is clear."""
    page = opened(written(tmp_path, figure.html(), live=live))
    page.wait_for_selector(f"[data-painted={'circuitsvis' if live else 'lensons'}] canvas")
    page.wait_for_timeout(300)
    seen = colours(page)
    cells = [(pattern[0, q, k], sum(seen[q][k][:3])) for q in range(5) for k in range(q + 1)]
    assert all(seen[q][k][3] == 255 for q in range(5) for k in range(q + 1))
    assert all(seen[q][k][3] == 0 for q in range(5) for k in range(q + 1, 5))
    for (share, light), (larger, darker) in zip(sorted(cells), sorted(cells)[1:], strict=False):
        assert darker <= light + 1, (share, larger)


def test_arrow_keys_say_every_cell(opened, tmp_path, figure, pattern):
    """An arrow moves from the row's strongest cell by one cell, and says it; one above the diagonal is out of sight."""
    page = opened(written(tmp_path, figure.html()))
    grid = page.get_by_role("application")
    key = int(pattern[0, 3, 1:4].argmax()) + 1
    said = page.get_by_role("status")
    assert said.inner_text().startswith(f"{LABELS[3]} looks at {LABELS[key]}: ")
    grid.focus()
    page.keyboard.press("ArrowDown")
    assert said.inner_text().startswith(f"{LABELS[4]} looks at {LABELS[key]}: ")
    for _ in range(4):
        page.keyboard.press("ArrowUp")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    assert said.inner_text() == f"{LABELS[0]} cannot see {LABELS[4]}: it comes later."


def test_a_head_is_chosen_and_the_table_follows(opened, tmp_path, figure, pattern):
    """Another head: the table behind the picture has that head's numbers, exactly."""
    page = opened(written(tmp_path, figure.html()))
    page.get_by_role("combobox").select_option("2")
    titles = page.locator("tbody td.bar").evaluate_all("cells => cells.map(c => Number(c.title))")
    expected = [float(np.float32(pattern[2, q, k])) for q in range(5) for k in range(q + 1)]
    assert titles == expected
    assert "L0H2" in page.get_by_role("application").get_attribute("aria-label")


def test_pointer_and_touch_do_as_the_keys(opened, tmp_path, figure):
    """A click and a tap choose the cell they are on."""
    page = opened(written(tmp_path, figure.html()), has_touch=True)
    board = page.locator(".board svg")
    board.scroll_into_view_if_needed()
    box = page.locator(".board .cells").bounding_box()
    cell = box["width"] / 5
    page.mouse.click(box["x"] + 1.5 * cell, box["y"] + 4.5 * cell)
    assert page.get_by_role("status").inner_text().startswith(f"{LABELS[4]} looks at {LABELS[1]}: ")
    page.touchscreen.tap(box["x"] + 2.5 * cell, box["y"] + 2.5 * cell)
    assert page.get_by_role("status").inner_text().startswith(f"{LABELS[2]} looks at {LABELS[2]}: ")


def test_the_host_pages_switch_turns_the_colours(opened, tmp_path, figure):
    """When the page turns dark by its own switch, cells are painted anew: the lightest become the darkest."""
    page = opened(written(tmp_path, figure.html()), color_scheme="light")
    page.wait_for_selector("[data-painted] canvas")
    light = sum(colours(page)[4][4][:3])
    page.evaluate("document.body.dataset.theme = 'dark'")
    page.wait_for_timeout(200)
    assert (light > 380) != (sum(colours(page)[4][4][:3]) > 380)


@pytest.mark.parametrize(
    ("classes", "dark"),
    [
        ("vscode-dark", True),
        ("vscode-high-contrast", True),
        ("vscode-light", False),
        ("vscode-high-contrast vscode-high-contrast-light", False),
    ],
)
def test_vs_codes_themes_are_followed(opened, tmp_path, figure, classes, dark):
    """Each of VS Code's four kinds of theme decides, against the system's own preference."""
    page = opened(written(tmp_path, figure.html()), color_scheme="light" if dark else "dark")
    page.wait_for_selector("[data-painted] canvas")
    page.evaluate("(classes) => { document.body.className = classes; }", classes)
    page.wait_for_timeout(200)
    strongest = float(np.mean(colours(page)[0][0][:3]))
    assert (strongest > 128) == dark  # the first token has only itself to look at


def test_an_output_in_a_frame_of_its_own(opened, tmp_path, figure):
    """As Colab shows it, in a sandboxed frame with nothing but its own HTML, a figure can be walked over."""
    inner = str(figure.notebook_html()).replace("&", "&amp;").replace('"', "&quot;")
    path = tmp_path / "frame.html"
    path.write_text(f'<iframe sandbox="allow-scripts" width="700" height="700" srcdoc="{inner}"></iframe>', "utf-8")
    frame = opened(path).frame_locator("iframe")
    frame.get_by_role("application").focus()
    assert "looks at" in frame.get_by_role("status").inner_text()
    assert frame.locator(".static-hint").count() == 0


def test_many_outputs_on_one_page(opened, tmp_path, figure, pattern):
    """Thirteen outputs as in a notebook, one of them twice, each with its own script: all answer, no id comes twice."""
    others = [pattern_figure(LABELS, pattern[n % 3] ** (1 + n), heads=[f"L{n}H0"]) for n in range(11)]
    outputs = [f"<div>{shown.notebook_html()}</div>" for shown in [figure, figure, *others]]
    path = tmp_path / "many.html"
    path.write_text("<!DOCTYPE html><meta charset=utf-8>" + "\n".join(outputs), encoding="utf-8")
    page = opened(path)
    page.wait_for_function("document.querySelectorAll('[data-painted] canvas').length === 13")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    assert path.stat().st_size < 1_500_000


def test_one_bright_cell_of_a_thousand_tokens_is_seen(opened, tmp_path):
    """Of 1,024 tokens one cell with weight .9 is bright in the overview, and shown in the window."""
    n, at = 1024, (700, 333)
    pattern = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    pattern[at[0], : at[0] + 1] = 0.1 / at[0]
    pattern[at] = 0.9
    page = opened(
        written(tmp_path, pattern_figure([f"t{i}" for i in range(n)], pattern, heads=["L0H0"], row=700).html())
    )
    page.wait_for_selector(".overview canvas")
    bright = page.evaluate(
        """(pixels) => { const c = document.querySelector('.overview canvas'), d = eval(pixels)(c), found = [];
        const dark = (i) => d[4 * i + 3] && d[4 * i] + d[4 * i + 1] + d[4 * i + 2] < 250;
        for (let i = 0; i < c.width * c.height; i++) if (dark(i)) found.push([Math.floor(i / c.width), i % c.width]);
        return [c.width, found]; }""",
        PIXELS,
    )
    assert bright[0] == 512
    assert [at[0] // 2, at[1] // 2] in bright[1]
    assert page.get_by_role("status").inner_text() == "t700 looks at t333: about .890 of its 1."
    assert page.locator(".board text", has_text="t700").count() >= 1
    assert "shows the strongest of them" in page.locator(".note").inner_text()
    page.get_by_role("application").focus()
    page.keyboard.press("Shift+ArrowLeft")
    assert page.get_by_role("status").inner_text().startswith("t700 looks at t323")


def test_all_heads_at_a_glance(opened, tmp_path):
    """144 heads x 100 tokens: each is there to be chosen; the chosen head at first is exact, the others are "about"."""
    pattern = softmax(np.random.default_rng(1).normal(size=(12, 12, 100, 100)) * 3)
    figure = all_patterns_figure([f"t{i}" for i in range(100)], pattern, chosen="5.1")
    page = opened(written(tmp_path, figure.html()))
    page.wait_for_selector(".index canvas")
    said = page.get_by_role("status")
    assert "about" not in said.inner_text()
    page.get_by_role("application", name="All heads").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("combobox").input_value() == str(5 * 12 + 2)
    box = page.locator(".index").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 3.5 / 12, box["y"] + box["height"] * 7.5 / 12)
    assert page.locator(".index").get_attribute("title") == "L7H3"
    assert "about" in said.inner_text()
    shown = float("0" + said.inner_text().split("about ")[1].split(" of")[0])
    largest = pattern[5, 2, 99, 1:].max()
    assert shown <= largest * 1.031


def test_a_score_of_every_head_is_walked(opened, tmp_path, toy):
    """The grid of scores: arrow keys move from head to head, and the score is said."""
    import lensons

    table = lensons.score_heads(toy, n_prompts=2)
    page = opened(table.figure("induction").save(tmp_path / "scores.html"))
    page.get_by_role("application").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    value = float(table.values["induction"][1, 1])
    said = page.get_by_role("status").inner_text()
    assert said.startswith("L1H1: ")
    assert float("0" + said.split(": ")[1]) == pytest.approx(value, abs=6e-4)


def test_a_png_is_the_figure(figure, chromium, tmp_path):
    """A saved PNG is a picture at twice the screen's resolution, with the dark cells of the pattern in it."""
    import struct

    raw = figure.save(tmp_path / "x.png").read_bytes()
    assert raw.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", raw[16:24])
    assert width > 1_000
    assert height > 400
    page = chromium.new_page()
    page.set_content("<canvas>")
    address = "data:image/png;base64," + base64.b64encode(raw).decode()
    dark = page.evaluate(
        """async (address) => { const image = new Image(); image.src = address; await image.decode();
        const c = document.querySelector('canvas'); c.width = image.width; c.height = image.height;
        const context = c.getContext('2d', {willReadFrequently: true}); context.drawImage(image, 0, 0);
        const d = context.getImageData(0, 0, c.width, c.height).data; let dark = 0;
        for (let i = 0; i < d.length; i += 4) if (d[i] < 60 && d[i + 2] > 90) dark++;
        return dark; }""",
        address,
    )
    page.close()
    assert dark > 40 * 40
