"""Lines over a common axis, as SVG, with round numbers at the axes."""

import math
from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup

from lensons.figures.markup import render, three_digits

_WIDTH, _HEIGHT = 620.0, 240.0


def lines(
    series: Sequence[tuple[str, Sequence[int | float], Sequence[int | float]]],
    *,
    alt: str,
    x: str,
    y: str,
    log_x: bool = False,
    mark: tuple[int | float, str] | None = None,
) -> Markup:
    """Lines over a common axis; each ``(name, xs, ys)``, told apart by dash as well as colour.

    Args:
        series: the lines. NaN is a gap.
        alt: the picture in one sentence.
        x, y: what the axes are called.
        log_x: equal steps to the right are equal factors; 0 stands at the very left.
        mark: a place on the x-axis where a thin line stands, and what is written there.
    """
    xs = [value for _, places, _ in series for value in places]
    ys = [value for _, _, values in series for value in values if not math.isnan(value)]
    ticks_y = round_numbers(min([*ys, 0.0]), max([*ys, 1e-9]))
    top, bottom = max([ticks_y[-1], *ys]), min([ticks_y[0], *ys])

    def along(value: int | float) -> float:
        return math.log10(value + 1) if log_x else float(value)

    left, right = along(min(xs)), along(max(xs))

    def place(value: int | float) -> float:
        return (along(value) - left) * _WIDTH / ((right - left) or 1)

    def height(value: int | float) -> float:
        return _HEIGHT - (value - bottom) / (top - bottom) * _HEIGHT

    drawn, key = [], 0.0
    for index, (name, places, values) in enumerate(series):
        points = [(place(px), height(py)) for px, py in zip(places, values, strict=True)]
        drawn.append({"name": name, "path": _path(points), "number": index, "key": key})
        key += 46 + len(name) * 6.6
    powers = [0.0, *(10.0**power for power in range(9))]
    ticks_x = [value for value in powers if min(xs) <= value <= max(xs)] if log_x else round_numbers(min(xs), max(xs))
    return render(
        "lines.svg.j2",
        lines=drawn,
        ticks_y=[{"at": round(height(value), 1), "text": _plain(value)} for value in ticks_y],
        ticks_x=[{"at": round(place(value), 1), "text": _plain(value)} for value in ticks_x],
        mark=None if mark is None else {"at": round(place(mark[0]), 1), "text": mark[1]},
        width=_WIDTH,
        height=_HEIGHT,
        alt=alt,
        x=x,
        y=y,
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    """A line through the points, with a gap where there is no number; a point by itself is a short dash."""
    pieces = []
    for known, piece in groupby(points, key=lambda point: not math.isnan(point[1])):
        if known:
            run = [f"{x:.1f},{y:.1f}" for x, y in piece]
            pieces.append("M" + " ".join(run) if len(run) > 1 else f"M{run[0]}m-2,0h4")
    return "".join(pieces)


def round_numbers(low: int | float, high: int | float) -> list[float]:
    """A handful of round numbers within a range, evenly apart.

    Example:
        >>> round_numbers(0, 7.77), round_numbers(1, 100)
        ([0.0, 2.0, 4.0, 6.0], [20.0, 40.0, 60.0, 80.0, 100.0])
    """
    if not high > low:
        return [float(low)]
    raw = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= 0.7 * raw)
    first = math.ceil(low / step - 1e-9)
    return [n * step + 0.0 for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _plain(value: float) -> str:
    """A round number as short as it can be."""
    return f"{value:,.0f}" if value == round(value) else three_digits(value).rstrip("0")
