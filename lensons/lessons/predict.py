"""The questions of the attention lesson. Right answers, and the reason for each choice, come from the trace."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lensons.figures import three_digits
from lensons.heads import HeadName
from lensons.lessons.base import Question
from lensons.lessons.comparison import Comparison
from lensons.lessons.pictures import thumbnail
from lensons.lessons.words import Words
from lensons.scoring import HeadScores
from lensons.tracing import HeadTrace, Trace

_MOST_CHOICES = 4


def which_rows(words: Words, pair: Comparison, it: int | None) -> Question:
    """Step 1: which rows will differ? Asked before the figure."""
    n, first, changed = len(pair.difference), pair.first_changed, set(pair.changed_rows)
    where = {"first": first if first is not None else n, "it": it if it is not None else 0}
    rows = {"all": set(range(n)), "none": set()}
    if first is not None:
        rows = {"all": rows["all"], "from": set(range(first, n)), "none": rows["none"]}
        if it is not None and it < first:
            rows = {**rows, "it": {it, *range(first, n)}}
    # The choice that says what is so: all rows that differ are in it, and it promises as few others as can be.
    right = min((name for name in rows if changed <= rows[name]), key=lambda name: len(rows[name]))
    order: list[str] = [name for name in ("all", "from", "it", "none") if name in rows]
    reasons = {name: words.plain(f"question.{name}_why", **where) for name in order}
    if right != "none":
        reasons["none"] = words.plain("question.none_wrong", **where)
    if right == "from" and first == 0:  # the first token differs already: "all" and "from 0" are the same rows
        order.remove("all")
    if first is None:
        text = words.plain("question.text_none")
    else:
        a, b = pair.a.tokens.labels[first], pair.b.tokens.labels[first]
        text = words.plain("question.text", first=first, a=a, b=b)
    choices = tuple(words.plain(f"question.{name}", **where) for name in order)
    return Question(text, choices, order.index(right), tuple(reasons[name] for name in order))


def strongest_cell(words: Words, trace: Trace, head: HeadTrace, query: int) -> Question | None:
    """Step 2: which cell of the ringed row is the strongest? None where the row has one cell."""
    if query == 0:
        return None
    row = head.pattern[query, : query + 1]
    keys = sorted(row.topk(min(_MOST_CHOICES, query + 1)).indices.tolist())
    best = int(row.argmax())
    labels = trace.tokens.labels
    return Question(
        words.plain("question.text", head=head.name, query=labels[query], at=query),
        tuple(words.plain("question.choice", key=labels[k], at=k) for k in keys),
        keys.index(best),
        tuple(
            words.plain(
                "question.right" if k == best else "question.wrong",
                key=labels[k],
                share=float(row[k]),
                best=labels[best],
            )
            for k in keys
        ),
    )


def sign_of_dot(words: Words, q: Tensor, k: Tensor) -> Question:
    """Step 3: is the dot product of three of the numbers above or below zero?"""
    largest = (q * k).abs().topk(min(3, len(q))).indices.tolist()
    # One decimal, so that it can be done in the head; the key is computed from what is shown.
    a, b = ([round(float(x[i]), 1) for i in largest] for x in (q, k))
    products = [x * y for x, y in zip(a, b, strict=True)]
    total = sum(products)
    if abs(total) < 0.01:  # too small to be seen with one decimal: more of them
        a, b = ([float(f"{float(x[i]):.3g}") for i in largest] for x in (q, k))
        products = [x * y for x, y in zip(a, b, strict=True)]
        total = sum(products)
    filled = {"a": _list(a), "b": _list(b), "products": _list(products), "sum": total}
    answer = 0 if total >= 0 else 1
    reasons = [words.plain("question.wrong", **filled)] * 2
    reasons[answer] = words.plain("question.right", **filled)
    return Question(
        words.plain("question.text", **filled),
        (words.raw("question.above"), words.raw("question.below")),
        answer,
        tuple(reasons),
    )


def share_of_higher(words: Words, trace: Trace, scores: Tensor, head: HeadTrace, query: int) -> Question:
    """Step 4: what does a score that is about 2 higher get? From two tokens of the row, where there are such."""
    labels, gap, pair = trace.tokens.labels, 2.0, None
    shares = head.pattern[query]
    # About 2 apart, and of those the pair whose smaller share is the largest: shares that can be read.
    found = [
        (float(shares[j]), i, j)
        for i in range(len(scores))
        for j in range(len(scores))
        if 1.5 <= float(scores[i] - scores[j]) <= 2.5
    ]
    if found and trace.unusual is None:
        _, i, j = max(found)
        gap, pair = float(scores[i] - scores[j]), (i, j)
    times = math.exp(gap)
    options = {
        "linear": gap,
        "right": times,
        "doubled": 2**gap,
        "hundred": 100.0,
    }
    shown = {"gap": gap, "times": times, "needed": math.log(100)}
    reasons = {
        "linear": words.plain("question.linear"),
        "doubled": words.plain("question.doubled"),
        "hundred": words.plain("question.hundred", **shown),
    }
    if pair is None:
        text = words.plain("question.text_plain", **shown)
        reasons["right"] = words.plain("question.right_plain", **shown)
    else:
        i, j = pair
        text = words.plain("question.text", a=f"{labels[i]} ({i})", b=f"{labels[j]} ({j})", **shown)
        share = {"share_a": float(head.pattern[query, i]), "share_b": float(head.pattern[query, j])}
        reasons["right"] = words.plain("question.right", **shown, **share)
    # Two that would read alike (2 and 2 x 2 / 2 at a gap of 2) would make a second right-looking choice.
    order, seen = [], set()
    for name, value in sorted(options.items(), key=lambda option: (option[1], option[0] != "right")):
        said = three_digits(value)
        if name == "right" or (said not in seen and said != three_digits(times)):
            order.append(name)
            seen.add(said)
    return Question(
        text,
        tuple(words.plain("question.times", times=options[name]) for name in order),
        order.index("right"),
        tuple(reasons[name] for name in order),
    )


def who_adds_most(words: Words, trace: Trace, query: int, preferred: HeadName) -> Question | None:
    """Step 5: a token without the largest share adds most: which? In that head, or where it is clearest."""
    shares = trace.pattern[:, :, query, : query + 1]
    lengths = trace.written_length[:, :, : query + 1]
    parts = shares * lengths
    heaviest, most = shares.argmax(-1), parts.argmax(-1)
    lead = (parts.max(-1).values - parts.gather(-1, heaviest[..., None])[..., 0]) / parts.sum(-1).clamp(min=1e-12)
    gap = shares.max(-1).values - shares.gather(-1, most[..., None])[..., 0]
    lead = torch.minimum(lead, gap).masked_fill(heaviest == most, -1.0)  # both have to be seen
    if float(lead.max()) <= 0:
        return None
    head = preferred if float(lead[preferred]) > 0 else HeadName(*divmod(int(lead.argmax()), trace.n_heads))
    share, length, part = shares[head], lengths[head], parts[head]
    top, heavy = int(most[head]), int(heaviest[head])
    largest = share.topk(min(_MOST_CHOICES, len(share))).indices.tolist()
    # A share that rounds to nothing is no choice for anybody.
    others = [k for k in largest if k not in (top, heavy) and float(share[k]) >= 0.005]
    keys = sorted([top, heavy, *others][:_MOST_CHOICES])
    labels = trace.tokens.labels

    def reason(k: int) -> str:
        said = {"key": labels[k], "part": float(part[k])}
        if k == top:
            times = float(length[top] / length[heavy].clamp(min=1e-12))
            return words.plain("question.right", **said, times=times, heaviest=labels[heavy])
        return words.plain(
            "question.wrong", **said, share=float(share[k]), length=float(length[k]), most=labels[top],
            most_part=float(part[top]),
        )  # fmt: skip

    return Question(
        words.plain("question.text", head=head, query=labels[query], heaviest=f"{labels[heavy]} ({heavy})"),
        tuple(words.plain("question.choice", key=labels[k], at=k, share=float(share[k])) for k in keys),
        keys.index(top),
        tuple(reason(k) for k in keys),
    )


def looks_one_back(words: Words, table: HeadScores, trace: Trace) -> Question | None:
    """Step 6: which of four heads looks at the previous token? The choices are pictures of their patterns."""
    best, score = table.top("previous_token", 1)[0]
    values = table.values["previous_token"]
    rivals = [head for kind in ("duplicate_token", "induction", "first_token") for head, _ in table.top(kind, 4)]
    others = [head for head in dict.fromkeys(rivals) if head != best and not values[head] > 0.9 * score]
    heads = sorted([best, *others[: _MOST_CHOICES - 1]])
    if len(heads) < 2 or math.isnan(score) or len(trace) < 3:
        return None
    return Question(
        words.plain("question.text"),
        tuple(words.plain("question.choice", head=head) for head in heads),
        heads.index(best),
        tuple(
            words.plain(
                "question.right" if head == best else "question.wrong", head=head, score=float(values[head]), best=best,
                chance=table.chance["previous_token"],
            )
            for head in heads
        ),
        pictures=tuple(thumbnail(trace.head(head).pattern, _strongest(trace, head)) for head in heads),
    )  # fmt: skip


def _strongest(trace: Trace, head: HeadName) -> str:
    """For who cannot see the picture: where the last rows look."""
    pattern, n = trace.head(head).pattern, len(trace)
    rows = range(max(1, n - 4), n)
    return "; ".join(f"{q} → {int(pattern[q].argmax())}, {three_digits(float(pattern[q].max()))}" for q in rows)


def _list(numbers: Sequence[float]) -> str:
    return ", ".join(f"{x:.3g}".replace("-", "−") for x in numbers)


__all__ = ["looks_one_back", "share_of_higher", "sign_of_dot", "strongest_cell", "which_rows", "who_adds_most"]
