"""Pictures as SVG: a heat map, a grid of all heads, lines. They show without scripts, in light and dark.

Colours are not fixed here: a cell says how strong it is (``--w`` from 0 to 1), the style sheet gives the colour.
"""

import base64
import math
import struct
import unicodedata
import zlib
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from lensons.figures.markup import asset, render, three_digits

_CHARACTER = 7.3  # width of a 12 px monospaced character
_MOST_CELLS = 64  # tokens above which cells become one image


def _label(text: str, longest: int = 14) -> str:
    """A label short enough for an axis; the whole text stands in the table."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def heat_map(
    labels: Sequence[str], pattern: np.ndarray, *, alt: str, row: int | None = None, causal: bool = True
) -> Markup:
    """One head's pattern: rows look, columns are looked at; hatched where nothing can be seen."""
    n = len(labels)
    short = [_label(label) for label in labels]
    margin = max(map(_columns, short)) * _CHARACTER + 14
    cell = 26.0 if n <= 24 else max(8.0, 620 // n)
    if n > _MOST_CELLS:
        cell = 640 / n
    cells = []
    if n <= _MOST_CELLS:
        for q in range(n):
            for k in range(n):
                hidden = causal and k > q
                title = (
                    f"{labels[q]} cannot see {labels[k]}"
                    if hidden
                    else f"{labels[q]} looks at {labels[k]}: {three_digits(float(pattern[q, k]))}"
                )
                weight = 0.0 if hidden else float(pattern[q, k])
                cells.append({"x": k * cell, "y": q * cell, "w": round(weight, 4), "hidden": hidden, "title": title})
    step = max(1, math.ceil(13 / cell))
    return render(
        "heat.svg.j2",
        labels=[{"text": text, "at": (i + 0.5) * cell} for i, text in enumerate(short) if i % step == 0],
        cells=cells,
        image="" if cells else _image(pattern, causal),
        cell=cell,
        size=n * cell,
        margin=margin,
        row=row,
        causal=causal,
        alt=alt,
        hatch=f"hatch-{n}-{len(alt)}",
    )


def _columns(text: str) -> int:
    """How many letters wide a text is in a monospaced face: Chinese signs and emoji take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def token_chips(labels: Sequence[str], values: np.ndarray, shades: np.ndarray, *, alt: str) -> Markup:
    """A text as a row of chips that wraps, each coloured by its number from 0 to 1; NaN has a dashed frame.

    Args:
        labels: what stands on the chips.
        values: what they stand for, as is said of each.
        shades: the same from 0 to 1.
        alt: the picture in words.
    """
    width, height, gap = 640.0, 30, 4
    chips, x, y = [], 0.0, 0
    for label, value, shade in zip(labels, values, shades, strict=True):
        short = _label(label, 40)
        size = _columns(short) * 7.9 + 14
        if x and x + size > width:
            x, y = 0.0, y + height + gap
        chips.append(
            {
                "x": round(x, 1),
                "y": y,
                "width": round(size, 1),
                "text": short,
                "w": 0.0 if math.isnan(shade) else round(float(shade), 4),
                "undefined": math.isnan(shade),
                "title": f"{label}: {three_digits(float(value))}",
            }
        )
        x += size + gap
    return render("tokens.svg.j2", chips=chips, width=width, height=height, total=y + height, alt=alt)


def head_grid(values: np.ndarray, *, alt: str, best: Sequence[tuple[int, int]] = ()) -> Markup:
    """All heads, a row a layer, coloured by one score; the best ones are ringed."""
    n_layers, n_heads = values.shape
    size = 34
    cells = [
        {
            "x": head * size,
            "y": layer * size,
            "w": 0.0 if math.isnan(values[layer, head]) else round(float(min(max(values[layer, head], 0), 1)), 4),
            "undefined": math.isnan(values[layer, head]),
            "text": "" if math.isnan(values[layer, head]) else _two_digits(float(values[layer, head])),
            "best": (layer, head) in set(best),
            "title": f"L{layer}H{head}: {three_digits(float(values[layer, head]))}",
        }
        for layer in range(n_layers)
        for head in range(n_heads)
    ]
    return render("heads.svg.j2", cells=cells, size=size, n_layers=n_layers, n_heads=n_heads, alt=alt)


def _two_digits(score: float) -> str:
    """A score as it fits into a small square."""
    return f"{score:.2f}".replace("0.", ".", 1)


def sheet(pattern: np.ndarray, *, alt: str, side: int = 20) -> Markup:
    """All heads, [layer, head, query, key], as small pictures: of each block of cells the strongest."""
    layers, heads, n, _ = pattern.shape
    block = math.ceil(n / side)
    small = math.ceil(n / block)
    padded = np.zeros((layers, heads, small * block, small * block))
    padded[:, :, :n, :n] = np.tril(pattern)
    strongest = padded.reshape(layers, heads, small, block, small, block).max((3, 5))
    whole = np.full((layers * (small + 1), heads * (small + 1)), np.nan)
    for layer, head in np.ndindex(layers, heads):
        seen = np.where(np.tril(np.ones((small, small), bool)), strongest[layer, head], np.nan)
        whole[layer * (small + 1) :, head * (small + 1) :][:small, :small] = seen
    height, width = whole.shape
    shown = min(max(2 * width, 240), 860)
    unit = width / shown  # one pixel of the page, in cells of the picture
    return render(
        "sheet.svg.j2",
        image=_image(whole, causal=False),
        width=width,
        height=height,
        shown=shown,
        unit=unit,
        rows=_edge(layers, small + 1, unit),
        columns=_edge(heads, small + 1, unit),
        alt=alt,
    )


def _edge(count: int, step: int, unit: float) -> list[dict[str, int | float]]:
    """Numbers along an edge, at the middle of each picture; some are left out where they would touch."""
    every = max(1, math.ceil(16 * unit / step))
    return [{"number": i, "at": round((i + 0.5) * step - 0.5, 2)} for i in range(0, count, every)]


def standalone(picture: Markup) -> str:
    """An SVG as a file of its own: with its colours, following the reader's light or dark."""
    head, _, rest = str(picture).partition(">")  # plain strings: Markup would escape what is added to it
    # A page's own background cannot be known from inside an image, so it brings one: its text can always be read.
    paper = (
        ".lensons-picture{background:#fdfdfb}@media (prefers-color-scheme:dark){.lensons-picture{background:#131416}}"
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}><style>{asset("picture.css")}{paper}</style>{rest}'


def data_address(picture: Markup) -> str:
    """An SVG as the address of an image, which survives where SVG elements are removed."""
    return "data:image/svg+xml;base64," + base64.b64encode(standalone(picture).encode()).decode()


def _image(pattern: np.ndarray, causal: bool) -> str:
    """A long pattern as one small image: a palette of 256 steps from paper to ink, one pixel a cell."""
    weights = np.clip(np.nan_to_num(pattern), 0, 1)
    # The cube root keeps single faint cells visible; caption and legend say so.
    pixels = np.round(np.cbrt(weights) * 254).astype(np.uint8)
    pixels[np.isnan(pattern)] = 255
    if causal:
        pixels[np.triu_indices(len(pixels), 1)] = 255
    steps = np.linspace(0, 1, 255)[:, None]
    palette = np.round(np.array([247, 248, 252]) * (1 - steps) + np.array([27, 38, 96]) * steps).astype(np.uint8)
    palette = np.concatenate([palette, np.array([[226, 226, 226]], np.uint8)])
    height, width = pixels.shape
    raw = b"".join(b"\0" + line.tobytes() for line in pixels)
    body = (
        _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + _chunk(b"PLTE", palette.tobytes())
        + _chunk(b"IDAT", zlib.compress(raw, 9))
        + _chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
