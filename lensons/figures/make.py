"""The other figures of the lessons, each made from numbers that are there already. Nothing here computes attention."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lensons.errors import InputError
from lensons.figures import circuitsvis, plot, svg
from lensons.figures.figure import Figure, Scale, Table, rows_of
from lensons.figures.inputs import array_of, even, labels_of
from lensons.figures.markup import three_digits
from lensons.heads import HeadName
from lensons.options import whole_number
from lensons.tokens import Tokens


def row_figure(
    tokens: Tokens | Sequence[str],
    weights: Any,
    *,
    query: int,
    title: str,
    caption: str,
    columns: Mapping[str, Any] | None = None,
) -> Figure:
    """What one token looks at: a bar for every token up to and with it.

    Args:
        tokens: what the model read, or labels.
        weights: the shares of that row, [key].
        query: which position looks.
        title, caption: what to see, and how to read it.
        columns: further numbers for each key, shown beside the weights.

    Raises:
        InputError: no such query, or not one number for each key.

    Example:
        >>> import lensons
        >>> trace = lensons.trace("toy", "The animal was tired.")
        >>> row = trace.head("0.0").pattern[4]
        >>> row_figure(trace.tokens, row, query=4, title="One row", caption="It adds up to 1.").table.columns
        ('token looked at', 'weight')
    """
    every = labels_of(tokens)
    query = whole_number("query", query, 0, len(every) - 1)
    shares = _one_a_key("weights", weights, query)
    extra = {name: _one_a_key(name, values, query) for name, values in (columns or {}).items()}
    labels = every[: query + 1]
    best = int(shares.argmax())
    return Figure(
        kind="row",
        title=title,
        caption=caption,
        alt=f"{labels[query]} looks most at {labels[best]}, {three_digits(float(shares[best]))} of its 1.",
        data={"labels": labels, "weights": shares, "query": query, **extra},
        table=Table(
            ("token looked at", "weight", *extra),
            rows_of([labels, shares.tolist(), *(values.tolist() for values in extra.values())]),
            frozenset({"weight"}),
        ),
    )


def _one_a_key(name: str, values: Any, query: int) -> np.ndarray:
    """Numbers for the keys that a query can see; those for later ones are left out."""
    numbers = array_of(values)
    if numbers.ndim != 1 or len(numbers) <= query or not np.isfinite(numbers[: query + 1]).all():
        raise InputError(
            f"{name} is shaped {list(numbers.shape)} for query {query}. Allowed is one finite number for each key, "
            f"[{query + 1}] or longer. Give one row of a pattern, such as head.pattern[{query}]."
        )
    return numbers[: query + 1]


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

    Raises:
        InputError: the columns differ in length, or there are none.

    Example:
        >>> table_figure("shares", "Two shares", "They add up to 1.", "One is larger.",
        ...              {"token": ["a", "b"], "share": [0.25, 0.75]}, ["share"]).table.rows
        (('a', 0.25), ('b', 0.75))
    """
    even(columns)
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
    gaps = array_of(difference)
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

    Raises:
        InputError: not a number for each layer and head, or an infinite one.

    Example:
        >>> import torch
        >>> figure = all_heads_figure(torch.tensor([[0.1, 0.9]]), kind="induction", chance=0.02)
        >>> figure.alt
        '2 heads coloured by induction score. Highest: L0H1 with .900. Chance is .020.'
    """
    score = array_of(values)
    down = np.full_like(score, np.nan) if low is None else array_of(low)
    up = np.full_like(score, np.nan) if high is None else array_of(high)
    for name, part in (("values", score), ("low", down), ("high", up)):
        if part.ndim != 2 or part.shape != score.shape or not part.size or np.isinf(part).any():
            raise InputError(
                f"{name} is shaped {list(part.shape)}. Allowed are finite numbers [layer, head], or NaN where a score "
                'is not defined, such as table.values["induction"]. Give those.'
            )
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


def token_values_figure(
    tokens: Tokens | Sequence[str], values: Any, *, what: str, title: str, caption: str, unit: str = ""
) -> Figure:
    """A text with each token coloured by a number, such as its loss.

    Paper is 0, or the smallest number where one is below 0; ink is the largest.

    Args:
        tokens: what the model read, or labels.
        values: one number for each token, [pos]; NaN where there is none, such as the loss of the first token.
        what: what the numbers are, such as ``"loss"``: the heading of their column.
        title, caption: what to see, and how to read it.
        unit: of the numbers, such as ``"nats"``.

    Raises:
        InputError: not one number for each token, or an infinite one.

    Example:
        >>> figure = token_values_figure(["a", "b"], [float("nan"), 2.0], what="loss", title="t", caption="c")
        >>> figure.alt
        'loss of 2 tokens, from 2.00 to 2.00. Highest: b 2.00. Lowest: b 2.00.'
    """
    labels, numbers = labels_of(tokens), array_of(values)
    if numbers.shape != (len(labels),) or not labels:
        raise InputError(
            f"The values are shaped {list(numbers.shape)} for {len(labels)} tokens. Allowed is one number for each "
            f"token, [{len(labels)}]. Give NaN where a token has none."
        )
    if np.isinf(numbers).any():
        raise InputError("A value is infinite: no colour stands for that. Give numbers, or NaN where there is none.")
    known = [i for i in range(len(labels)) if not np.isnan(numbers[i])]
    low, high = (min(0.0, numbers[known].min()), numbers[known].max()) if known else (0.0, 1.0)
    shades = (numbers - low) / (high - low or 1.0)
    said = f"{what} of {len(labels)} tokens"
    if known:
        most, least = (max(known, key=lambda i: numbers[i]), min(known, key=lambda i: numbers[i]))
        said += (
            f", from {three_digits(numbers[least])} to {three_digits(numbers[most])}. Highest: {labels[most]} "
            f"{three_digits(numbers[most])}. Lowest: {labels[least]} {three_digits(numbers[least])}."
        )
    low_end, high_end = (f"{three_digits(float(end))} {unit}".rstrip() for end in (low, high))
    return Figure(
        kind="token-values",
        title=title,
        caption=caption,
        alt=said,
        data={"labels": labels, "values": numbers},
        table=Table(("token", what), tuple(zip(labels, map(float, numbers), strict=True))),
        picture=svg.token_chips(labels, numbers, shades, alt=said),
        legend=Scale(low_end, high_end),
        live=circuitsvis.view(
            "ColoredTokens",
            {"tokens": labels, "values": [None if np.isnan(x) else round(float(x), 4) for x in numbers],
             "minValue": float(low), "maxValue": float(high or 1.0), "positiveColor": "#003080"},
        ),
    )  # fmt: skip


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

    Raises:
        InputError: a line has not one number for each place, there is no place, or a number is infinite.

    Example:
        >>> line_figure("Loss", "In nats.", "It falls.", ("step", [0, 1]), {"loss": [2.0, 1.0]}, "nats").table.rows
        ((0.0, 2.0), (1.0, 1.0))
    """
    name, places = x
    columns: dict[str, Any] = {name: [float(place) for place in places]}
    columns |= {line: [float(value) for value in values] for line, values in lines.items()}
    even(columns)
    known = [value for values in columns.values() for value in values if value == value]
    if not len(places) or not lines or not np.isfinite([*columns[name], *known]).all():
        raise InputError(
            "A line needs a place, places that are numbers, and numbers that are finite. Give NaN where a line has a "
            "gap."
        )
    series = [(line, list(places), list(values)) for line, values in lines.items()]
    picture = plot.lines(series, alt=alt, x=name, y=y, log_x=log_x, mark=mark)
    return Figure(
        "lines", title, caption, alt, columns, Table(tuple(columns), rows_of(list(columns.values()))), picture
    )
