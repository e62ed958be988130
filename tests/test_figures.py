"""Figures without a browser: their numbers, their text forms, and that text cannot run."""

import base64
import gzip
import itertools
import math
import re
import sys
import xml.etree.ElementTree as ET
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lensons
from lensons.errors import AttentionMissingError, FileError, InputError, MissingPackageError
from lensons.figures import (
    all_patterns_figure,
    circuitsvis,
    document,
    head_scores_figure,
    line_figure,
    packing,
    pattern_figure,
    three_digits,
)
from lensons.figures.markup import content_id, json_block
from lensons.figures.plot import round_numbers
from tests.conftest import SENTENCE

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<b>x</b>",
    "a<b<c",
    '"onload="alert(1)',
    "<!--",
    "\u2028",
    "\x00\x07",
    "x" * 500,
]


class Elements(HTMLParser):
    """Every element of a page, and the text of its cells."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(str(text))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)


@pytest.fixture(scope="module")
def figure(small_gpt2):
    trace = lensons.trace(small_gpt2, SENTENCE)
    return pattern_figure(trace.tokens, trace.pattern[1], heads=[(1, h) for h in range(4)], row=3)


def test_every_visible_cell_is_in_the_table(figure):
    """The table has one row for each cell that can be seen, with the weight in full precision."""
    pattern = figure.data["pattern"][0]
    n = len(pattern)
    assert len(figure.table.rows) == n * (n + 1) // 2
    rows = iter(figure.table.rows)
    for q in range(n):
        for k in range(q + 1):
            assert next(rows)[2] == pattern[q, k]
    assert len(figure.to_dataframe()) == len(figure.table.rows)


def test_ho13_a_screen_reader_gets_name_and_table(figure):
    """HO-13: the picture has a name with the head, the table has headers, and the values are those drawn."""
    html = str(figure.html())
    assert 'role="img"' in html
    name = re.search(r'role="img" aria-label="([^"]*)"', html)[1]
    assert "L1H0" in name
    assert "The animal" in name
    assert html.count('scope="col"') == 3
    assert 'scope="row"' in html


def test_the_same_figure_gives_the_same_bytes(figure, small_gpt2):
    """Made twice, a figure is the same to the last byte, and its id starts with a letter."""
    trace = lensons.trace(small_gpt2, SENTENCE)
    again = pattern_figure(trace.tokens, trace.pattern[1], heads=[(1, h) for h in range(4)], row=3)
    assert again.html() == figure.html()
    assert again.notebook_html() == figure.notebook_html()
    assert figure.id[0].isalpha()
    assert content_id("a") != content_id("b")


def test_the_notebook_form_survives_a_sanitizer(figure):
    """HO-11: without style, script and SVG elements there is still a table and an image with a text."""
    html = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", str(figure.notebook_html()))
    tags = Elements(html).tags
    assert "svg" not in tags
    assert {"table", "img"} <= set(tags)
    assert "trust this notebook" in html
    assert re.search(r'<img class="picture" src="data:image/svg\+xml;base64,[A-Za-z0-9+/=]+" alt="[^"]{20,}"', html)
    image = base64.b64decode(re.search(r"svg\+xml;base64,([^\"]+)", html)[1]).decode()
    assert ET.fromstring(image).tag.endswith("svg")
    assert set(figure._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert len(repr(figure)) < 400


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_makes_no_element(text):
    """HO-08: tokens, titles and captions from anywhere are escaped in text, in attributes and in JSON."""
    plain = pattern_figure(["a", "b"], np.array([[1.0, 0], [0.5, 0.5]]), heads=["L0H0"], title="t", caption="c")
    hostile = pattern_figure([text, "b"], np.array([[1.0, 0], [0.5, 0.5]]), heads=["L0H0"], title=text, caption=text)
    assert Elements(hostile.html()).tags == Elements(plain.html()).tags
    assert Elements(document(text, [hostile.html()])).tags == Elements(document("t", [plain.html()])).tags
    assert "</script" not in str(json_block({"x": text}))


@given(st.text(max_size=30))
def test_any_text_makes_a_page(text):
    """Whatever a label holds, the picture is well-formed XML and the page has the template's elements."""
    figure = pattern_figure([text, "b"], np.array([[1.0, 0], [0.5, 0.5]]), heads=["L0H0"], title=text)
    assert Elements(figure.html()).tags.count("script") == 1
    if all(character.isprintable() for character in text):
        ET.fromstring(str(figure.picture))


def test_masked_is_hatched_and_not_zero(figure):
    """HO-12: a cell that cannot be seen is drawn another way than a cell with weight 0."""
    svg = str(figure.picture)
    n = len(figure.data["labels"])
    assert svg.count('fill="url(#hatch') == n * (n - 1) // 2
    assert "cannot see" in svg


def test_ho09_two_way_patterns_show_all_cells():
    """HO-09: with causal=False all nine cells are drawn and listed."""
    pattern = np.array([[0.2, 0.3, 0.5], [0.1, 0.6, 0.3], [0.4, 0.4, 0.2]])
    figure = pattern_figure(["a", "b", "c"], pattern, heads=["L0H0"], causal=False)
    assert [row[2] for row in figure.table.rows] == pattern.flatten().tolist()
    assert figure.board["causal"] is False
    assert packing.unpack(figure.board["packed"]) == pytest.approx(pattern.flatten(), abs=1e-7)
    assert 'fill="url(#hatch' not in str(figure.picture)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_ho18_any_type_is_drawn(dtype):
    """HO-18: half types, double and gradients are drawn, and the tensor is not changed."""
    pattern = torch.eye(3, dtype=dtype).requires_grad_()
    kept = pattern.detach().clone()
    figure = pattern_figure(["a", "b", "c"], pattern, heads=["L0H0"])
    assert figure.table.rows[0][2] == 1.0
    assert torch.equal(pattern.detach(), kept)


def test_ho17_a_long_text_is_one_small_image():
    """HO-17: 1,024 tokens are drawn as one image that keeps a single bright cell, under 1.5 MB, and says so."""
    n = 1024
    pattern = np.tril(np.full((n, n), 1e-6))
    pattern[900, 17] = 0.9
    figure = pattern_figure([str(i) for i in range(n)], pattern, heads=["L0H0"])
    html = str(figure.html())
    assert len(html) < 1_500_000
    assert figure.live is None
    assert "faint cells are drawn stronger" in figure.caption
    png = base64.b64decode(re.search(r"data:image/png;base64,([^\"]+)", html)[1])
    start = png.index(b"IDAT") + 4
    length = int.from_bytes(png[start - 8 : start - 4], "big")
    pixels = np.frombuffer(zlib.decompress(png[start : start + length]), np.uint8).reshape(n, n + 1)[:, 1:]
    assert pixels[900, 17] == round(0.9 ** (1 / 3) * 254)
    assert pixels[10, 20] == 255


def test_one_cell(small_gpt2):
    """HO-03: a single token is drawn as one cell."""
    trace = lensons.trace(small_gpt2, [7])
    figure = pattern_figure(trace.tokens, trace.pattern[0, 0], heads=["L0H0"])
    assert str(figure.picture).count('class="cell"') == 1


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (np.zeros((2, 1, 3, 3)), "choose one item"),
        (np.zeros((1, 4, 4)), r"\[1, 4, 4\] for 3 tokens"),
        (np.zeros((2, 3, 3)), "1 names were given for 2 heads"),
    ],
)
def test_ho19_shapes_that_do_not_go_together(pattern, says):
    """HO-19: a batch left in, or another length, is one clear error that names the numbers."""
    with pytest.raises(InputError, match=says):
        pattern_figure(["a", "b", "c"], pattern, heads=["L0H0"])


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ([[1.0, 0.0], [float("nan"), 1.0]], "NaN or infinity"),
        ([[1.0, -math.inf], [0.5, 0.5]], "scores before the softmax"),
        ([[0.5, 0.5], [0.5, 0.5]], "looks ahead: up to 0.5"),
        ("no numbers", "cannot be read as numbers"),
        ({"attentions": 1}, "cannot be read as numbers"),
        ([[1.0, 0.0], [0.5]], "cannot be read as numbers"),
    ],
)
def test_what_is_no_pattern_is_not_drawn(pattern, says):
    """Raw scores, a two-way pattern drawn as a causal one, or no numbers at all: one error that says what it is."""
    with pytest.raises(InputError, match=says):
        pattern_figure(["a", "b"], pattern, heads=["L0H0"])


@pytest.mark.parametrize("bad", [float("nan"), math.inf])
def test_what_is_no_pattern_is_not_drawn_among_all_heads(bad):
    """The grid of all heads takes patterns only, too."""
    pattern = np.tile(np.eye(3), (2, 2, 1, 1))
    pattern[1, 1, 2, 0] = bad
    with pytest.raises(InputError, match="NaN or infinity"):
        all_patterns_figure(["a", "b", "c"], pattern)


def test_more_numbers_than_a_page_holds_are_refused():
    """40 heads on 1,024 tokens are refused, and the message says how many heads would do."""
    pattern = np.broadcast_to(np.eye(1024, dtype=np.float32), (40, 1024, 1024))
    with pytest.raises(InputError, match=r"40 heads on 1,024 tokens are 20,992,000 numbers.*at most 28 heads"):
        pattern_figure([str(i) for i in range(1024)], pattern, heads=range(40))


def test_a_list_of_tensors_is_read_as_it_is():
    """What Hugging Face's model returns for one text, a tuple of [head, query, key], one a layer, is drawn whole."""
    layers = tuple(
        torch.softmax(torch.randn(2, 3, 3).masked_fill(torch.ones(3, 3).triu(1) > 0, -9e9), -1) for _ in "ab"
    )
    figure = all_patterns_figure(["a", "b", "c"], layers)
    assert np.allclose(figure.data["pattern"], torch.stack(layers).double().numpy())


@pytest.mark.parametrize(("factor", "says"), [(1.0, "exactly 1"), (0.25, "sum to .250 to .250")])
def test_the_caption_tells_what_the_rows_sum_to(factor, says):
    """A pattern that was edited is drawn as it is, and the caption does not claim that its rows share out 1."""
    pattern = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None] * factor
    assert says in pattern_figure(list("abcd"), pattern, heads=["L0H0"]).caption


@pytest.mark.parametrize("name", [5.1, True])
def test_a_number_names_no_head_on_a_figure_either(name):
    """5.1 and 5.10 are one number and two heads."""
    with pytest.raises(InputError, match="does not name a head"):
        pattern_figure(["a", "b"], np.eye(2), heads=[name])


def test_a_long_two_way_text_lists_later_tokens_too():
    """The table of a long text keeps the largest weights of each row, also on later tokens where they are seen."""
    n = circuitsvis.MOST_TOKENS + 6
    pattern = np.roll(np.eye(n), 1, axis=1)  # every token looks at the next one
    rows = pattern_figure([str(i) for i in range(n)], pattern, heads=["L0H0"], causal=False).table.rows
    assert rows[:1] == (("0", "1", 1.0),)
    assert sum(weight == 1.0 for _, _, weight in rows) == n


@pytest.mark.loose
@pytest.mark.parametrize("missing", [None, (), (None, None)])
def test_ho14_a_view_without_weights(missing):
    """HO-14: what sdpa hands out, given to a view, is the error that names eager attention."""
    with pytest.raises(AttentionMissingError, match="eager"):
        pattern_figure(["a", "b"], missing, heads=["L0H0"])


def test_ho12_an_image_brings_its_own_background(figure, tmp_path):
    """HO-12: a saved picture can be read on any page: it has a background of its own, in light and dark."""
    svg = figure.save(tmp_path / "x.svg").read_text(encoding="utf-8")
    assert "background:#fdfdfb" in svg
    assert "prefers-color-scheme:dark" in svg


def test_saving(figure, tmp_path):
    """HTML, SVG and CSV are written; another ending, or a place that is not there, is one clear error."""
    page = figure.save(tmp_path / "x.html").read_text(encoding="utf-8")
    assert "https://" not in re.sub(r"(?s)<pre>.*?</pre>|<script.*?</script>|xmlns=\"[^\"]*\"", "", page)
    ET.parse(figure.save(tmp_path / "x.svg"))
    assert len(figure.save(tmp_path / "x.csv").read_text().splitlines()) == len(figure.table.rows) + 1
    with pytest.raises(InputError, match=r"\.gif"):
        figure.save(tmp_path / "x.gif")
    with pytest.raises(FileError):
        figure.save(tmp_path / "none" / "x.html")


def test_all_heads_figure_ranks_and_says_chance(toy):
    """The grid of heads lists all heads, best first, undefined last, with chance beside each."""
    table = lensons.score_heads(toy, n_prompts=2, block_len=8)
    figure = head_scores_figure(table, "induction")
    assert [row[1] for row in figure.table.rows] == sorted((row[1] for row in figure.table.rows), reverse=True)
    assert figure.table.rows[0][0] == str(table.top("induction", 1)[0][0])
    assert three_digits(table.chance["induction"]) in figure.caption
    undefined = head_scores_figure(lensons.score_heads(toy, "It was wide."), "induction")
    assert "not defined" in undefined.alt


def test_the_bundle_is_packed_once_and_guarded(monkeypatch):
    """The bundle unpacks to CircuitsVis' own file without its source map; a changed bundle is one clear error."""
    code = gzip.decompress(base64.b64decode(circuitsvis.packed_bundle())).decode()
    assert "AttentionHeads" in code
    assert "sourceMappingURL=" not in code
    monkeypatch.setattr(circuitsvis, "_COMPONENTS", ("NoSuchComponent",))
    circuitsvis.packed_bundle.cache_clear()
    with pytest.raises(MissingPackageError, match=r"changed its JavaScript bundle.*1\.43\.3"):
        circuitsvis.packed_bundle()
    monkeypatch.undo()
    circuitsvis.packed_bundle.cache_clear()


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (1.0, "1.00"), (0.5, ".500"), (0.9999, "1.00"), (-0.25, "−.250"), (41.26, "41.3"), (174.4, "174"),
     (0.00016, ".00016"), (-0.00099, "−.00099"), (0.0009996, ".0010"),
     (0.000010, ".000010"), (7.04e-8, "7.0e-8"),
     (123456.0, "123,456"), (9.996, "10.0"), (math.nan, "not defined"), (-math.inf, "masked")],
)  # fmt: skip
def test_three_digits(number, text):
    """A number as a reader sees it."""
    assert three_digits(number) == text


@given(st.floats(-1e6, -1e-9) | st.floats(1e-9, 1e6))
def test_three_digits_are_three(number):
    """What is shown is within half a step of the third digit, or of the second digit of a number below a thousandth."""
    shown = float(three_digits(number).replace(",", "").replace("−", "-"))
    small = abs(number) < 0.001
    assert shown == pytest.approx(number, rel=0.051 if small else 6e-3, abs=0 if small else 5.1e-4)


@given(st.floats(-1e5, 1e5), st.floats(1e-3, 1e5))
def test_round_numbers_are_round_and_few(low, size):
    """Marks on an axis lie within it, evenly apart, and are a whole number of 1, 2, 2.5 or 5 times a power of ten."""
    marks = round_numbers(low, low + size)
    assert 1 < len(marks) <= 11
    step = marks[1] - marks[0]
    assert all(low - 1e-6 * size <= mark <= low + size * (1 + 1e-6) for mark in marks)
    assert all(b - a == pytest.approx(step, rel=1e-6, abs=1e-9 * abs(low)) for a, b in itertools.pairwise(marks))
    mantissa = float(f"{step:.3e}".split("e")[0])
    assert mantissa in {1.0, 2.0, 2.5, 5.0}


def test_a_line_stands_where_its_numbers_say():
    """A line's points and the mark are in proportion to their numbers; on the other axis to the logarithm."""
    made = line_figure("t", "c", "a", ("x", [0.0, 50.0, 100.0]), {"l": [0.0, 1.0, 4.0]}, "y", mark=(50.0, "half"))
    points = re.search(r' d="M([^"]+)"', str(made.picture))[1]
    assert [tuple(map(float, p.split(","))) for p in points.split()] == [(0, 240), (310, 180), (620, 0)]
    assert 'x1="310.0" x2="310.0" y1="0"' in str(made.picture)
    logarithmic = line_figure("t", "c", "a", ("x", [0.0, 9.0, 99.0]), {"l": [0.0, 1.0, 4.0]}, "y", log_x=True)
    points = re.search(r' d="M([^"]+)"', str(logarithmic.picture))[1]
    assert [float(p.split(",")[0]) for p in points.split()] == [0, 310, 620]


@given(st.integers(1, 9), st.booleans(), st.integers(0, 2**32 - 1))
def test_packed_patterns_come_back(n, causal, seed):
    """Exactly: every cell as float32. On the logarithmic scale: 3 % at most off, or 0 where under the smallest."""
    numbers = np.random.default_rng(seed).dirichlet(np.full(n, 0.05), size=(2, n))
    flat = [numbers[h, q, k] for h in range(2) for q in range(n) for k in range(q + 1 if causal else n)]
    assert packing.unpack(packing.pack_exactly(numbers, causal)).tolist() == [float(np.float32(x)) for x in flat]
    packed = packing.pack_logarithmically(numbers, causal)
    for value, found in zip(flat, packing.unpack(packed), strict=True):
        assert found == 0 if value < packed["under"] else abs(found / value - 1) <= 0.03
    assert packed["under"] < 4e-7


def test_144_heads_of_100_tokens_fit_into_a_megabyte():
    """The data of 144 heads x 100 tokens take 1.0 MB at most, also where every share is as random as can be."""
    scores = np.random.default_rng(0).normal(size=(144, 100, 100)) * 2
    scores[:, np.triu(np.ones((100, 100), bool), 1)] = -np.inf
    pattern = np.exp(scores - scores.max(-1, keepdims=True))
    pattern /= pattern.sum(-1, keepdims=True)
    figure = all_patterns_figure([f"t{i}" for i in range(100)], pattern.reshape(12, 12, 100, 100), chosen="5.1")
    assert len(str(json_block(figure.board))) < 1_000_000
    assert packing.unpack({"scale": "exact", "data": figure.board["packed"]["exactly"]["61"]}).tolist() == [
        float(np.float32(x)) for q in range(100) for x in pattern[61, q, : q + 1]
    ]
    assert len(figure.table.rows) == 144
    head, query, key, weight = figure.table.rows[61]
    assert (head, weight) == ("L5H1", pattern[61, :, 1:].max())
    assert pattern[61, int(query[1:]), int(key[1:])] == weight


def test_all_patterns_of_another_shape_are_refused():
    """Patterns that are not [layer, head, query, key] for these tokens are one clear error."""
    with pytest.raises(InputError, match=r"shaped \[2, 3, 3\] for 3 tokens. Allowed is \[layer, head, 3, 3\]"):
        all_patterns_figure(["a", "b", "c"], np.zeros((2, 3, 3)))


def test_a_png_needs_a_browser(figure, tmp_path, monkeypatch):
    """Without Playwright, or without a Chromium it can start, one error says what to install; nothing is written."""
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    with pytest.raises(MissingPackageError, match=r"A PNG needs Playwright.*pip install playwright.*or save as .svg"):
        figure.save(tmp_path / "x.png")
    assert not list(tmp_path.iterdir())


def test_the_title_agrees_with_the_number_of_heads():
    """One head looks, several look."""
    pattern = np.stack([np.eye(2)] * 2)
    assert pattern_figure(["a", "b"], pattern[:1], heads=["L0H0"]).title == "What L0H0 looks at"
    assert pattern_figure(["a", "b"], pattern, heads=["L0H0", "L0H1"]).title == "What L0H0, L0H1 look at"


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("\u200b", "⟨U+200B⟩"),
        ("\x00", "⟨U+0000⟩"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("a\nb", "a\\nb"),
        ("␣it", "␣it"),
        ("é", "é"),
    ],
)
def test_labels_of_the_callers_own_can_be_seen(label, shown):
    """HO-07: of labels that are given as text, what is invisible is shown by its code; the rest stays as it is."""
    figure = pattern_figure([label, "b"], np.array([[1.0, 0], [0.5, 0.5]]), heads=["L0H0"])
    assert figure.data["labels"] == [shown, "b"]
    assert figure.board["labels"] == [shown, "b"]


def test_a_gap_in_a_line_is_a_gap():
    """NaN ends a line, and the next number begins another; a number by itself shows; below zero is on the page."""
    nan = float("nan")
    figure = line_figure("t", "c", "a", ("x", [0, 1, 2, 3, 4]), {"l": [-2.0, 0.0, nan, 1.0, nan]}, "y")
    (path,) = re.findall(r' d="([^"]*)"', figure.picture)
    first, lone = path.split("M")[1:]
    assert first == "0.0,240.0 155.0,80.0"  # from the bottom to a third of the way down: -2, 0, of -2 to 1
    assert lone.startswith("465.0,0.0")


def test_a_figure_twice_on_a_page():
    """Every id stands on a page once, though the figure is there twice, and what is addressed is there."""
    figure = pattern_figure(["a", "b"], np.eye(2), heads=["x"])
    page = document("t", [figure.html(), figure.html()])
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert figure.id in ids
    assert page.count('<figure class="lensons-figure"') == 2
    assert set(re.findall(r"url\(#([\w-]+)\)", page)) <= set(ids)
