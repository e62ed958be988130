"""A text coloured by a number for each token: its table, its picture and its words."""

import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lensons
from lensons.errors import InputError
from lensons.figures import circuitsvis, token_values_figure

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20)


def made(labels, values, **options):
    return token_values_figure(labels, values, what="loss", title="t", caption="c", **options)


def shades(figure):
    """The strength of every chip of the picture, from 0 to 1; None where there is no number."""
    chips = [e for e in ET.fromstring(str(figure.picture)).iter() if e.tag.endswith("rect")]
    return [
        None if chip.get("class") == "undefined" else float(re.search(r"--w:([\d.e-]+)", chip.get("style"))[1])
        for chip in chips
    ]


@given(NUMBERS)
def test_strength_is_where_a_number_lies_between_the_ends(values):
    """Each chip's strength is (value - low) / (high - low), low being 0 or the smallest; the table has the numbers."""
    figure = made([str(i) for i in range(len(values))], values)
    low, high = min([0.0, *values]), max(values)
    for shade, value in zip(shades(figure), values, strict=True):
        expected = 0.0 if high <= low else (value - low) / (high - low)
        assert shade == pytest.approx(expected, abs=1e-4)
        assert 0 <= shade <= 1
    assert [row[1] for row in figure.table.rows] == values


def test_the_loss_of_each_token_of_a_text(toy):
    """Drawn from a trace's tokens and a loss: the first has none, and the words name highest and lowest."""
    tokens = lensons.trace(toy, "The animal was too tired.").tokens
    values = [math.nan, *np.linspace(3, 0.5, len(tokens) - 1)]
    figure = made(tokens, torch.tensor(values), unit="nats")
    assert shades(figure)[0] is None
    assert shades(figure)[1] == 1
    assert f"Highest: {tokens.labels[1]} 3.00. Lowest: {tokens.labels[-1]} .500." in figure.alt
    assert (figure.legend.low, figure.legend.high) == ("0 nats", "3.00 nats")
    assert figure.to_dataframe()["loss"].isna().tolist() == [True] + [False] * (len(tokens) - 1)


def test_no_number_at_all_is_a_text_without_colour():
    """All NaN: every chip is dashed, and nothing is said of highest and lowest."""
    figure = made(["a", "b"], [math.nan, math.nan])
    assert shades(figure) == [None, None]
    assert "Highest" not in figure.alt


@pytest.mark.parametrize(
    ("labels", "values", "says"),
    [
        (["a"], [1.0, 2.0], "one number for each token"),
        ([], [], "one number for each token"),
        (["a"], [[1.0]], "one number for each token"),
        (["a"], [math.inf], "infinite"),
        (["a"], ["x"], "cannot be read as numbers"),
    ],
)
def test_what_cannot_be_drawn_is_refused(labels, values, says):
    """Not one number a token, an infinite one, or none at all: one clear error."""
    with pytest.raises(InputError, match=says):
        made(labels, values)


def test_the_callers_numbers_stay():
    """Neither array nor list is changed."""
    values = np.array([3.0, np.nan, -1.0])
    before = values.copy()
    made(["a", "b", "c"], values)
    np.testing.assert_array_equal(values, before)


@given(st.text(max_size=60))
def test_tokens_are_text_in_circuitsvis_too(text):
    """CircuitsVis writes tokens as HTML: none of what it is given can begin an element or an entity."""
    view = circuitsvis.view("ColoredTokens", {"tokens": [text], "values": [1.0]})
    (given_token,) = view["props"]["tokens"]
    assert not re.search(r"<[a-zA-Z/!?]|&[a-zA-Z#]", given_token)
    assert given_token.replace("\u2060", "") == text.replace("\u2060", "")


def test_a_component_that_is_not_known_is_refused():
    """Only the components that lensons mounts can be asked for."""
    with pytest.raises(InputError, match="not a component of CircuitsVis that lensons mounts"):
        circuitsvis.view("TopKLogits", {})
