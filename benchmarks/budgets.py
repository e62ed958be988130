"""What the project set itself, and what was measured of it. A budget is a bound on one of the measured figures."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Budget:
    """A bound, and where in the measured figures the value stands that must not exceed it."""

    what: str
    unit: str
    bound: float
    value: Callable[[dict[str, Any]], float]


def _against(part: str, size: str, other: str) -> Callable[[dict[str, Any]], float]:
    return lambda found: found["scoring"][part][size]["against"][other]["ratio"]


BUDGETS = (
    Budget(
        "four kinds, all heads, 32 x 101, against the forward pass",
        "ratio of time",
        0.85,
        _against("four kinds / forward pass", "32 x 101", "forward pass"),
    ),
    Budget(
        "three kinds, all heads, 8 x 101, against `detect_head`",
        "ratio of time",
        0.2,
        _against("three kinds / detect_head", "8 x 101", "detect_head"),
    ),
    Budget(
        "three kinds, all heads, 1 x 1,023, against `detect_head`",
        "ratio of time",
        0.2,
        _against("three kinds / detect_head", "1 x 1,023", "detect_head"),
    ),
    Budget(
        "memory added by scoring, 8 x 101",
        "patterns of one layer",
        2,
        lambda found: found["scoring"]["peak memory"]["8 x 101"]["added by scoring"],
    ),
    Budget(
        "all Q-, K- and V-compositions of GPT-2 small",
        "seconds",
        10,
        lambda found: found["scoring"]["all compositions"]["seconds"]["all compositions"],
    ),
    Budget(
        "a whole lesson, model of GPT-2 small's size",
        "seconds",
        300,
        lambda found: found["lesson"]["lesson, text to HTML"]["GPT-2 small"]["seconds"],
    ),
    Budget(
        "that lesson's page",
        "megabytes",
        3,
        lambda found: found["lesson"]["lesson, text to HTML"]["GPT-2 small"]["page_megabytes"],
    ),
    Budget(
        "the toy's lesson page",
        "megabytes",
        1.5,
        lambda found: found["lesson"]["lesson, text to HTML"]["toy"]["page_megabytes"],
    ),
    Budget(
        "what 144 heads x 100 tokens add to a page, with the picture for scripts off",
        "megabytes",
        1,
        lambda found: found["pages"]["144 x 100"]["lensons, own drawing"]["without the fixed part"],
    ),
    Budget(
        "first picture, 12 heads x 200 tokens, against CircuitsVis",
        "ratio of time",
        0.05,
        lambda found: found["browser"]["12 x 200"]["CircuitsVis"]["lensons / this, first"]["ratio"],
    ),
    Budget("`import lensons`", "seconds", 0.1, lambda found: found["startup"]["import lensons"]["above"]),
)


def measured(found: dict[str, Any]) -> list[tuple[Budget, float]]:
    """Every budget with its value; those whose part was not measured are left out."""
    values = []
    for budget in BUDGETS:
        try:
            values.append((budget, budget.value(found)))
        except KeyError:  # a part, or a neighbour, that was not measured here
            continue
    return values
