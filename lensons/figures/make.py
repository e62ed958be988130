"""The figures of the lessons, each made from numbers that are there already. Nothing here computes attention."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lensons.errors import InputError
from lensons.figures import circuitsvis, packing, plot, svg
from lensons.figures.figure import Figure, Table, rows_of
from lensons.figures.markup import three_digits
from lensons.heads import HeadName, parse_head
from lensons.scores.patterns import read_pattern
from lensons.tokens import Tokens, visible

# Of all heads together: 144 heads on 455 tokens, about 15 MB of a page. 12 heads on 1,024 tokens are 6.3 million.
MOST_NUMBERS = 15_000_000

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
        "overview": "All {n} tokens; faint cells are drawn stronger. The frame marks the {count} tokens below. "
        "Click to move it, or walk with the arrow keys; with Shift, ten at a time.",
        "blocks": "One dot is {block} x {block} cells, and shows the strongest of them.",
    },
    "all": {
        "role_all": "heads",
        "label_all": "All heads. The arrow keys move from head to head; the chosen one is shown below.",
        "note_all": "Faint cells are drawn stronger here. Choose a head to see it large. "
        "Numbers with “about” are off by 3 % at most.",
    },
}


def _labels(tokens: Tokens | Sequence[str]) -> list[str]:
    """What stands beside rows and columns; of a caller's own labels, what cannot be seen is made visible."""
    if isinstance(tokens, Tokens):
        return list(tokens.labels)
    return ["".join(c if c.isprintable() else visible(c) for c in str(label)) or visible("") for label in tokens]


def _array(numbers: Any) -> np.ndarray:
    """A torch tensor on any device and of any type, or whatever numpy reads; never the caller's own memory."""
    if isinstance(numbers, list | tuple):
        numbers = [_array(part) if hasattr(part, "detach") else part for part in numbers]
    if hasattr(numbers, "detach"):
        numbers = numbers.detach().cpu().float().numpy()
    try:
        return np.array(numbers, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"A {type(numbers).__name__} cannot be read as numbers ({error}). Give a tensor or an array; of what "
            "Hugging Face's model returns, its attentions."
        ) from error


def _must_be_drawable(weights: np.ndarray, causal: bool = True) -> None:
    """Nothing is drawn that is no weight, that a picture would leave out, or that no page can hold."""
    heads, n = weights.shape[0], weights.shape[-1]
    numbers = heads * n * (n + 1) // 2
    if numbers > MOST_NUMBERS:
        raise InputError(
            f"{heads:,} heads on {n:,} tokens are {numbers:,} numbers. A page holds at most {MOST_NUMBERS:,}. "
            f"Choose at most {MOST_NUMBERS // (n * (n + 1) // 2)} heads, or a shorter text."
        )
    if not np.isfinite(weights).all():
        raise InputError(
            "The pattern holds NaN or infinity. Attention weights are numbers from 0 to 1: of scores before the "
            "softmax, masked ones are -inf. Give the pattern."
        )
    ahead = weights[:, np.triu(np.ones((n, n), dtype=bool), 1)] if causal else np.zeros(1)
    if ahead.size and np.abs(ahead).max() > 1e-3:
        raise InputError(
            f"The pattern looks ahead: up to {np.abs(ahead).max():.4g} of a row lies on later tokens, and a causal "
            "picture would leave that out. Give causal=False to pattern_figure for a model that reads both ways."
        )


def _sums(weights: np.ndarray) -> str:
    """What a row shares out, as it is: 1, or something else where the pattern was edited or averaged oddly."""
    low, high = float(weights.sum(-1).min()), float(weights.sum(-1).max())
    if max(abs(low - 1), abs(high - 1)) <= 2e-2:  # bfloat16 rounds by that much
        return "It shares out exactly 1 over the columns."
    return f"These rows do not share out 1: they sum to {three_digits(low)} to {three_digits(high)}."


def _name(head: Any) -> str:
    """A head's name as it is written on a figure."""
    if isinstance(head, bool | float):
        raise InputError(
            f"{head!r} does not name a head: the numbers 5.1 and 5.10 are the same. Write (5, 1) or 'L5H1'."
        )
    return str(HeadName(*head)) if isinstance(head, tuple) else str(head)


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
        row: a query whose row is ringed.
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
    labels = _labels(tokens)
    if pattern is None or (isinstance(pattern, tuple) and (not pattern or pattern[0] is None)):
        read_pattern(pattern)  # says that the model handed out no weights, and what to do
    weights = _array(pattern)
    if weights.ndim == 4 and weights.shape[0] == 1:
        weights = weights[0]
    if weights.ndim == 2:
        weights = weights[None]
    n = len(labels)
    if weights.ndim != 3 or weights.shape[1:] != (n, n):
        what = "a batch: choose one item, for instance pattern[0]" if weights.ndim == 4 else "one head, or [head, ...]"
        raise InputError(
            f"The pattern is shaped {list(weights.shape)} for {n} tokens. Allowed is [head, {n}, {n}] ({what})."
        )
    if len(heads) != len(weights):
        raise InputError(f"{len(heads)} names were given for {len(weights)} heads. Give one for each.")
    names = [_name(head) for head in heads]
    _must_be_drawable(weights, causal)
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
        legend=True,
        board={"labels": labels, "heads": names, "row": row, "causal": causal, "words": words,
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
    labels = _labels(tokens)
    weights, n = _array(pattern), len(labels)
    if weights.ndim != 4 or weights.shape[2:] != (n, n) or not weights.size:
        raise InputError(
            f"The patterns are shaped {list(weights.shape)} for {n} tokens. Allowed is [layer, head, {n}, {n}], "
            "such as trace.pattern. Give those of one text."
        )
    layers, columns = weights.shape[:2]
    flat = weights.reshape(layers * columns, n, n)
    _must_be_drawable(flat)
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
        legend=True,
        board={"labels": labels, "heads": list(map(str, names)), "row": None, "causal": True, "layers": layers,
               "columns": columns, "chosen": index, "words": _WORDS["pattern"] | _WORDS["all"], "packed": packed},
    )  # fmt: skip


def _strongest(labels: Sequence[str], pattern: np.ndarray) -> str:
    """In words, the three cells below the first row that are strongest."""
    order = np.dstack(np.unravel_index(np.argsort(-pattern, axis=None), pattern.shape))[0]
    cells = [(q, k) for q, k in order.tolist() if q > 0][:3]
    return "Strongest: " + "; ".join(f"{labels[q]} at {labels[k]} {three_digits(pattern[q, k])}" for q, k in cells)


def row_figure(
    tokens: Tokens, weights: Any, *, query: int, title: str, caption: str, columns: Mapping[str, Any] | None = None
) -> Figure:
    """What one token looks at: a bar for every token up to and with it.

    Args:
        tokens: what the model read.
        weights: the shares of that row, [key].
        query: which position looks.
        title, caption: what to see, and how to read it.
        columns: further numbers for each key, shown beside the weights.

    Example:
        >>> import lensons
        >>> trace = lensons.trace("toy", "The animal was tired.")
        >>> row = trace.head("0.0").pattern[4]
        >>> row_figure(trace.tokens, row, query=4, title="One row", caption="It adds up to 1.").table.columns
        ('token looked at', 'weight')
    """
    shares = _array(weights)[: query + 1]
    extra = {name: _array(values)[: query + 1] for name, values in (columns or {}).items()}
    labels = tokens.labels[: query + 1]
    best = int(shares.argmax())
    return Figure(
        kind="row",
        title=title,
        caption=caption,
        alt=f"{tokens.labels[query]} looks most at {labels[best]}, {three_digits(float(shares[best]))} of its 1.",
        data={"labels": list(labels), "weights": shares, "query": query, **extra},
        table=Table(
            ("token looked at", "weight", *extra),
            rows_of([list(labels), shares.tolist(), *(values.tolist() for values in extra.values())]),
            frozenset({"weight"}),
        ),
    )


def table_figure(
    kind: str,
    title: str,
    caption: str,
    alt: str,
    columns: Mapping[str, Sequence[Any]],
    bars: Sequence[str] = (),
) -> Figure:
    """Numbers that are best read as a table.

    Args:
        kind: what sort of figure it is, in one word.
        title, caption, alt: what to see, how to read it, and the same in one sentence for who cannot see it.
        columns: each column's numbers or texts, by its heading; all equally long.
        bars: headings of columns whose numbers, from 0 to 1, also show as bars.

    Example:
        >>> table_figure("shares", "Two shares", "They add up to 1.", "One is larger.",
        ...              {"token": ["a", "b"], "share": [0.25, 0.75]}, ["share"]).table.rows
        (('a', 0.25), ('b', 0.75))
    """
    return Figure(
        kind,
        title,
        caption,
        alt,
        dict(columns),
        Table(tuple(columns), rows_of(list(columns.values())), frozenset(bars)),
    )


def difference_figure(
    tokens_a: Tokens, tokens_b: Tokens, difference: Any, *, title: str, caption: str, alt: str
) -> Figure:
    """Two texts side by side, and for each row how far the two patterns are apart, at most, over all heads.

    Args:
        tokens_a, tokens_b: what the model read, both times.
        difference: the largest difference of each row, [row], for as many rows as both texts have.
        title, caption, alt: what to see, how to read it, and the same in one sentence for who cannot see it.

    Example:
        >>> import lensons
        >>> a, b = (lensons.trace("toy", text) for text in ("It was tired.", "It was wide."))
        >>> gaps = (a.pattern - b.pattern).abs().amax((0, 1, 3))
        >>> difference_figure(a.tokens, b.tokens, gaps, title="t", caption="c", alt="a").table.rows[0][3]
        'same'
    """
    gaps = _array(difference)
    labels_a, labels_b = tokens_a.labels[: len(gaps)], tokens_b.labels[: len(gaps)]
    same = ["same" if a == b else "changed" for a, b in zip(tokens_a.ids, tokens_b.ids, strict=False)][: len(gaps)]
    return table_figure(
        "difference",
        title,
        caption,
        alt,
        {
            "position": list(range(len(gaps))),
            "first text": labels_a,
            "second text": labels_b,
            "token": same,
            "largest difference of this row": gaps.tolist(),
        },
        ["largest difference of this row"],
    )


def all_heads_figure(
    values: Any, *, kind: str, chance: float, low: Any = None, high: Any = None, caption: str | None = None
) -> Figure:
    """All heads on one grid, coloured by one score; the best five are ringed.

    Args:
        values: the scores, [layer, head]; NaN where a score is not defined.
        kind: which score it is, such as ``"induction"``.
        chance: what a head scores that looks everywhere alike.
        low, high: the ends of each score's interval, [layer, head], or None.
        caption: instead of the usual one.

    Example:
        >>> import torch
        >>> figure = all_heads_figure(torch.tensor([[0.1, 0.9]]), kind="induction", chance=0.02)
        >>> figure.alt
        '2 heads coloured by induction score. Highest: L0H1 with .900. Chance is .020.'
    """
    score = _array(values)
    down = np.full_like(score, np.nan) if low is None else _array(low)
    up = np.full_like(score, np.nan) if high is None else _array(high)
    order = [i for i in np.argsort(-np.nan_to_num(score, nan=-1), axis=None) if not np.isnan(score.flat[i])]
    heads = [HeadName(*(int(x) for x in divmod(int(i), score.shape[1]))) for i in order]
    best = heads[:5]
    word = kind.replace("_", " ")
    first = f"Highest: {best[0]} with {three_digits(float(score[best[0]]))}." if best else "It is not defined here."
    every = [HeadName(layer, head) for layer in range(score.shape[0]) for head in range(score.shape[1])]
    rows = tuple(
        (str(h), float(score[h]), float(down[h]), float(up[h]), float(chance))
        for h in [*heads, *(h for h in every if h not in set(heads))]
    )
    return Figure(
        kind="all-heads",
        title=f"Every head, by its {word} score",
        caption=caption
        or f"1 is a perfect {word} head. A head that looks everywhere alike would score {three_digits(chance)}. "
        "The five highest are ringed.",
        alt=f"{score.size} heads coloured by {word} score. {first} Chance is {three_digits(chance)}.",
        data={"values": score, "low": down, "high": up, "chance": chance, "kind": kind},
        table=Table(("head", "score", "95 % from", "to", "chance"), rows, frozenset({"score"})),
        picture=svg.head_grid(score, alt=f"{word} score of {score.size} heads. {first}", best=best),
        legend=False,
    )


def head_scores_figure(table: Any, kind: str) -> Figure:
    """One kind of score of a :class:`lensons.HeadScores`; its method ``figure`` is the short way.

    Args:
        table: the scores.
        kind: which of them.

    Example:
        >>> import lensons
        >>> head_scores_figure(lensons.score_heads("toy", n_prompts=2), "induction").kind
        'all-heads'
    """
    return all_heads_figure(
        table.values[kind], kind=kind, chance=table.chance[kind], low=table.low[kind], high=table.high[kind]
    )


def line_figure(
    title: str,
    caption: str,
    alt: str,
    x: tuple[str, Sequence[int | float]],
    lines: Mapping[str, Sequence[int | float]],
    y: str,
    *,
    log_x: bool = False,
    mark: tuple[int | float, str] | None = None,
) -> Figure:
    """One or more lines over a common axis.

    Args:
        title, caption, alt: what to see, how to read it, and the same for who cannot see it.
        x: the name of the x-axis, and the places on it.
        lines: for each line its name and a number for every place; NaN is a gap.
        y: the name of the y-axis.
        log_x: equal steps to the right are equal factors.
        mark: a place on the x-axis where a thin line stands, and what is written there.

    Example:
        >>> line_figure("Loss", "In nats.", "It falls.", ("step", [0, 1]), {"loss": [2.0, 1.0]}, "nats").table.rows
        ((0.0, 2.0), (1.0, 1.0))
    """
    name, places = x
    columns: dict[str, Any] = {name: [float(place) for place in places]}
    columns |= {line: [float(value) for value in values] for line, values in lines.items()}
    series = [(line, list(places), list(values)) for line, values in lines.items()]
    picture = plot.lines(series, alt=alt, x=name, y=y, log_x=log_x, mark=mark)
    return Figure(
        "lines", title, caption, alt, columns, Table(tuple(columns), rows_of(list(columns.values()))), picture
    )
