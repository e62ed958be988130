"""Small pictures that only lessons need: numbers as bars, and a pattern without labels."""

from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup
from torch import Tensor

from lensons.figures.markup import render, three_digits

_WIDTH, _HEIGHT = 560, 48


def strips(alt: str, lines: Mapping[str, tuple[str, Sequence[float]]]) -> Markup:
    """Lists of numbers under one another, a bar each, up or down from the middle.

    All lines but the last share one scale, so that they can be compared; the last one, the products, has its own.
    """
    shared = max([abs(x) for _, numbers in list(lines.values())[:-1] for x in numbers] or [1.0]) or 1.0
    drawn = []
    for name, (label, numbers) in lines.items():
        limit = (max(map(abs, numbers)) or 1.0) if name == list(lines)[-1] else shared
        step = _WIDTH / max(1, len(numbers))
        bars = []
        for i, x in enumerate(numbers):
            size = abs(x) / limit * _HEIGHT / 2
            bars.append(
                {
                    "x": round(i * step, 2),
                    "y": round(_HEIGHT / 2 - (size if x >= 0 else 0), 2),
                    "width": round(step * 0.8, 2),
                    "height": round(size, 2),
                    "down": x < 0,
                    "title": f"{i}: {three_digits(float(x))}",
                }
            )
        drawn.append({"name": name, "label": label, "bars": bars})
    return render("strips.svg.j2", lines=drawn, width=_WIDTH, height=_HEIGHT, alt=alt)


def thumbnail(pattern: Tensor, alt: str, most: int = 40) -> Markup:
    """A pattern as a small picture without labels; of a long text its last tokens."""
    weights = pattern[-most:, -most:].double().numpy()
    n = len(weights)
    cells = [
        {"x": k, "y": q, "w": round(float(np.clip(weights[q, k], 0, 1)), 3)}
        for q in range(n)
        for k in range(q + 1)
        if weights[q, k] >= 0.005
    ]
    return render("thumbnail.svg.j2", cells=cells, n=n, alt=alt)
