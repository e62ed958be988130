"""Figures of attention patterns: one head, several to choose from, or all heads of a model."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lensons.errors import InputError
from lensons.figures import circuitsvis, packing, svg
from lensons.figures.figure import Figure, Scale, Table
from lensons.figures.inputs import array_of, labels_of, must_be_drawable, names_of
from lensons.figures.markup import three_digits
from lensons.heads import HeadName, parse_head
from lensons.options import whole_number
from lensons.scores.patterns import read_pattern
from lensons.tokens import Tokens

# What the pages' script says; numbers and labels are filled in there.
_WORDS = {
    "pattern": {
        "head": "head",
        "role": "pattern",
        "label": "Pattern of head {head} on {n} tokens. The arrow keys move from cell to cell.",
        "said": "{query} looks at {key}: {share} of its 1.",
        "hidden": "{query} cannot see {key}: it comes later.",
        "about": "about",
        "under": "under {under}",
        "stronger": "Draw faint cells stronger",
        "overview": "All {n} tokens; faint cells are always drawn stronger here. The frame marks those shown "
        "large. Click to move it, or walk with the arrow keys; with Shift, ten at a time.",
        "blocks": "One dot is {block} x {block} cells, and shows the strongest of them.",
    },
    "all": {
        "role_all": "heads",
        "label_all": "All heads. The arrow keys move from head to head; the chosen one is shown below.",
        "note_all": "Faint cells are drawn stronger here. Choose a head to see it large. "
        "Numbers with “about” are off by 3 % at most.",
    },
}


_LOW, _HIGH = "0 looks not at all", "1 looks here only"


def _sums(weights: np.ndarray) -> str:
    """What a row shares out, as it is: 1, or something else where the pattern was edited or averaged oddly."""
    low, high = float(weights.sum(-1).min()), float(weights.sum(-1).max())
    if max(abs(low - 1), abs(high - 1)) <= 2e-2:  # bfloat16 rounds by that much
        return "It shares out exactly 1 over the columns."
    return f"These rows do not share out 1: they sum to {three_digits(low)} to {three_digits(high)}."


def pattern_figure(
    tokens: Tokens | Sequence[str],
    pattern: Any,
    *,
    heads: Sequence[Any],
    row: int | None = None,
    title: str | None = None,
    caption: str | None = None,
    causal: bool = True,
    looks: str = "looks (query)",
    looked_at: str = "is looked at (key)",
) -> Figure:
    """One head's pattern as a grid, or several heads to choose from.

    Numbers are exact up to 40,000 cells in all. Of more, the first head's are exact and the others off by 3 % at most,
    said with "about"; of a text over 446 tokens all are, and shares under 1e-4 are said as "under 0.0001". 12 heads x
    1,024 tokens take 3 to 7 MB of a page, the less the sharper the heads look: choose the heads that you need.

    Args:
        tokens: what the model read, or labels.
        pattern: [head, query, key], or [query, key] for one head.
        heads: the heads' names, as many as there are patterns.
        row: the position, from 0, of a query whose row is ringed.
        title, caption: instead of the usual ones.
        causal: False draws the upper triangle too, for models that read both ways.
        looks, looked_at: what the rows and columns are called.

    Raises:
        InputError: the pattern is not shaped so, holds NaN or infinity, looks ahead though ``causal``, is more than
            a page can hold, or not as many names were given.

    Example:
        >>> import lensons
        >>> trace = lensons.trace("toy", "The animal was too tired.")
        >>> pattern_figure(trace.tokens, trace.pattern[0, 0], heads=["L0H0"]).title
        'What L0H0 looks at'
    """
    labels = labels_of(tokens)
    _must_be_there(pattern)
    weights = array_of(pattern)
    if weights.ndim == 4 and weights.shape[0] == 1:
        weights = weights[0]
    if weights.ndim == 2:
        weights = weights[None]
    n = len(labels)
    if weights.ndim != 3 or weights.shape[1:] != (n, n) or not weights.size:
        what = "a batch: choose one item, for instance pattern[0]" if weights.ndim == 4 else "one head, or [head, ...]"
        raise InputError(
            f"The pattern is shaped {list(weights.shape)} for {n} tokens. Allowed is [head, {n}, {n}] ({what})."
        )
    names = names_of(heads)
    if len(names) != len(weights):
        raise InputError(f"{len(names)} names were given for {len(weights)} heads. Give one for each.")
    row = None if row is None else whole_number("row", row, 0, n - 1)
    must_be_drawable(weights, causal)
    first = weights[0]
    cells = [(q, k) for q in range(n) for k in range(n if not causal else q + 1)]
    if n > circuitsvis.MOST_TOKENS:  # of a long text the table keeps what can be read: the largest of each row
        cells = [(q, k) for q in range(n) for k in np.argsort(-(first[q, : q + 1] if causal else first[q]))[:3]]
    named = " and ".join([", ".join(names[:3]), f"{len(names) - 3} more"] if len(names) > 3 else [", ".join(names)])
    thinned = f" Of {n:,} tokens at once, faint cells are drawn stronger." if n > circuitsvis.MOST_TOKENS else ""
    words = _WORDS["pattern"]
    prompt = tokens.text if isinstance(tokens, Tokens) else " ".join(labels)
    alt = f"Pattern of head {names[0]} on {n} tokens, “{prompt[:80]}”. " + _strongest(labels, first)
    return Figure(
        kind="pattern",
        title=title or f"What {named} {'looks' if len(names) == 1 else 'look'} at",
        caption=(caption or f"Each row is a token that looks. {_sums(weights)}") + thinned,
        alt=alt,
        data={"labels": labels, "pattern": weights, "heads": names, "row": row},
        table=Table(
            (looks, looked_at, "weight"),
            tuple((labels[q], labels[k], float(first[q, k])) for q, k in cells),
            frozenset({"weight"}),
        ),
        picture=svg.heat_map(labels, first, alt=alt, row=row, causal=causal),
        legend=Scale(_LOW, _HIGH, masked=causal, shares=True, stronger=n > circuitsvis.MOST_TOKENS),
        board={"labels": labels, "heads": names, "row": row, "causal": causal, "words": words,
               "stronger": n > circuitsvis.MOST_TOKENS,
               "packed": packing.pack(weights, causal)},
    )  # fmt: skip


def all_patterns_figure(
    tokens: Tokens | Sequence[str],
    pattern: Any,
    *,
    chosen: Any = None,
    title: str | None = None,
    caption: str | None = None,
) -> Figure:
    """The patterns of all heads of a model: a small picture each to choose from, and the chosen one large.

    Its script reads 8 bits a cell on a logarithmic scale, off by 3 % at most, and says "about"; the chosen head's
    numbers are exact. 144 heads x 100 tokens take up less than 1 MB of a page.

    Args:
        tokens: what the model read, or labels.
        pattern: [layer, head, query, key], such as ``trace.pattern``. Causal: what a token cannot see is left out.
        chosen: the head that is shown large at first; the one with the largest share off the first column if None.
        title, caption: instead of the usual ones.

    Raises:
        InputError: the pattern is not shaped so, holds NaN or infinity, looks ahead, or is more than a page can hold.

    Example:
        >>> import lensons
        >>> trace = lensons.trace("toy", "The animal was too tired.")
        >>> lensons.figures.all_patterns_figure(trace.tokens, trace.pattern).title
        'All 16 heads'
    """
    labels = labels_of(tokens)
    _must_be_there(pattern)
    weights, n = array_of(pattern), len(labels)
    if weights.ndim != 4 or weights.shape[2:] != (n, n) or not weights.size:
        raise InputError(
            f"The patterns are shaped {list(weights.shape)} for {n} tokens. Allowed is [layer, head, {n}, {n}], "
            "such as trace.pattern. Give those of one text."
        )
    layers, columns = weights.shape[:2]
    flat = weights.reshape(layers * columns, n, n)
    must_be_drawable(flat)
    names = [HeadName(layer, head) for layer in range(layers) for head in range(columns)]
    off_first = flat[:, :, 1:].reshape(len(flat), -1).max(1) if n > 1 else flat.reshape(len(flat), -1).max(1)
    index = int(off_first.argmax()) if chosen is None else names.index(parse_head(chosen, layers, columns))
    packed = packing.pack_logarithmically(flat)
    packed["exactly"] = {str(index): packing.pack_exactly(flat[index])["data"]}
    best = [divmod(int(cells.argmax()), n) for cells in np.where(np.arange(n) > 0, flat, -1.0)]
    prompt = tokens.text if isinstance(tokens, Tokens) else " ".join(labels)
    alt = f"Patterns of {len(flat)} heads on {n} tokens, “{prompt[:80]}”. Shown large: {names[index]}. " + _strongest(
        labels, flat[index]
    )
    return Figure(
        kind="all-patterns",
        title=title or f"All {len(flat)} heads",
        caption=caption or "A row is a layer, a column a head. Each picture is one head's pattern: rows look.",
        alt=alt,
        data={"labels": labels, "pattern": weights, "chosen": names[index]},
        table=Table(
            ("head", "looks (query)", "is looked at (key)", "weight"),
            tuple(
                (str(name), labels[q], labels[k], float(flat[i, q, k]))
                for i, (name, (q, k)) in enumerate(zip(names, best, strict=True))
            ),
            frozenset({"weight"}),
        ),
        picture=svg.sheet(weights, alt=alt),
        legend=Scale(_LOW, _HIGH, masked=True, shares=True, stronger=True),
        board={"labels": labels, "heads": list(map(str, names)), "row": None, "causal": True, "layers": layers,
               "stronger": n > circuitsvis.MOST_TOKENS,
               "columns": columns, "chosen": index, "words": _WORDS["pattern"] | _WORDS["all"], "packed": packed},
    )  # fmt: skip


def _must_be_there(pattern: Any) -> None:
    """What a model with a fused kernel hands out: no weights. The error says so, and what to do."""
    if pattern is None or (isinstance(pattern, tuple | list) and any(layer is None for layer in pattern or [None])):
        read_pattern(pattern)


def _strongest(labels: Sequence[str], pattern: np.ndarray) -> str:
    """In words, the three cells below the first row that are strongest."""
    order = np.dstack(np.unravel_index(np.argsort(-pattern, axis=None), pattern.shape))[0]
    cells = [(q, k) for q, k in order.tolist() if q > 0][:3]
    return "Strongest: " + "; ".join(f"{labels[q]} at {labels[k]} {three_digits(pattern[q, k])}" for q, k in cells)
