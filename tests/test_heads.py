"""Naming a head."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lensons.errors import HeadIndexError, InputError, LensonsError
from lensons.heads import HeadName, parse_head


@pytest.mark.parametrize(
    "name",
    [
        (5, 1),
        [5, 1],
        "5.1",
        "L5H1",
        "l5h1",
        " 5.1 ",
        (np.int64(5), np.int32(1)),
        (torch.tensor(5), np.array(1)),
        HeadName(5, 1),
    ],
)
def test_four_forms_name_the_same_head(name):
    """HO-20: every accepted form gives layer 5, head 1."""
    assert parse_head(name, 12, 12) == (5, 1)


def test_dotted_ten_is_not_one():
    """HO-20: "5.10" is head 10, not head 1."""
    assert parse_head("5.10", 12, 12) == (5, 10)


def test_negative_numbers_count_from_the_end():
    """HO-20: (-1, -1) is the last head of the last layer."""
    assert parse_head((-1, -1), 12, 12) == (11, 11)


@pytest.mark.parametrize(
    ("name", "number", "span"),
    [
        ((12, 0), "12", "0-11"),
        ((-13, 0), "-13", "0-11"),
        ((0, 12), "12", "0-11"),
        ("L12H0", "12", "0-11"),
        ("3.99", "99", "0-11"),
    ],
)
def test_out_of_range_gives_the_users_own_number(name, number, span):
    """HO-20: a head that does not exist is an IndexError with the number as typed and the range allowed."""
    with pytest.raises(HeadIndexError) as caught:
        parse_head(name, 12, 12)
    assert isinstance(caught.value, IndexError)
    assert f" {number} " in str(caught.value)
    assert span in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        5.10,
        "5",
        "L5",
        True,
        (True, 0),
        (5,),
        (5, 1, 2),
        (5.0, 1),
        None,
        "",
        "5.1.2",
        "L5H",
        "-1.2",
        "５.1",
        b"5.1",
        {5: 1},
        (torch.tensor(1.5), 0),
        (np.array([1, 2]), 0),
        (torch.tensor([1, 2]), 0),
        (np.bool_(True), 0),
        (torch.tensor(True), 0),
        "5" * 5_000 + ".1",
    ],
)
def test_anything_else_is_a_value_error_with_the_forms(name):
    """HO-20: what is not one of the forms is a ValueError that lists them; a float is never guessed at."""
    with pytest.raises(InputError, match=r"L5H1") as caught:
        parse_head(name, 12, 12)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, LensonsError)


@given(st.integers(0, 40), st.integers(0, 40))
def test_every_name_reads_back(layer, head):
    """Both written forms of a head name give that head again."""
    name = HeadName(layer, head)
    assert parse_head(str(name), 41, 41) == parse_head(name.dotted, 41, 41) == name
