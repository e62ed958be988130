"""Step 1 of the attention lesson: what does "it" mean? Two texts row by row, and a head that was looked for."""

from typing import Any

from markupsafe import Markup

from lensons.errors import InputError
from lensons.figures import Figure
from lensons.heads import HeadName
from lensons.lessons import predict
from lensons.lessons.base import Parts, figure_of
from lensons.lessons.comparison import Comparison
from lensons.lessons.evidence import FRONT, FRONT_OTHER, Evidence
from lensons.lessons.referents import ENOUGH, ItSearch, it_position, word_positions
from lensons.lessons.words import Words
from lensons.tokens import Tokens


def meaning_of_it(words: Words, e: Evidence) -> tuple[Parts, dict[str, Any]]:
    """Two texts, row by row; then a pair with the clue in front of "it". What is read, and its numbers."""
    n_heads = e.model.n_layers * e.model.n_heads
    own = e.given_other is not None
    parts: Parts = []
    data: dict[str, Any] = {}
    if e.given is not None and not own:
        parts += words.paragraphs("one_text")
    if e.pair is None:
        parts.append(Markup("<p>{}</p>").format(words.html("no_pair")))
        data["not_possible"] = data["no_question"] = words.plain("no_pair")
    else:
        it = it_position(e.pair.a.tokens)
        parts += [*words.paragraphs("before_own" if own else "before"), _two_texts(e.pair)]
        parts += _marks(words, e.pair.a.tokens)
        parts += [] if e.pair.same_length else words.paragraphs("lengths")
        parts += words.paragraphs("rows", n_heads=n_heads)
        after = words.paragraphs("after" if e.pair.changed_rows else "unchanged")
        parts += predict.which_rows(words, e.pair, it).before(_difference(words, e.pair), *after)
        parts += words.paragraphs("famous") if not own else []
        parts += _referents(words, e, e.pair) if own else []
        data |= {
            "first_changed": e.pair.first_changed,
            "row_difference": e.pair.difference.tolist(),
            "changed_rows": e.pair.changed_rows,
            "it": it,
        }
    if e.front is not None and e.search is not None:
        parts += _clue_in_front(words, e.front, e.search)
        data |= {"front_first_changed": e.front.first_changed, "front_row_difference": e.front.difference.tolist()}
    data["search"] = e.search
    return parts, data


def _marks(words: Words, tokens: Tokens) -> Parts:
    """What stands on the chips that is in no text, said where it is seen first."""
    parts = words.paragraphs("marks_space") if any(label.startswith("␣") for label in tokens.labels) else []
    return [*parts, *(words.paragraphs("marks_bos") if tokens.has_bos else [])]


def _difference(words: Words, pair: Comparison) -> Figure:
    gaps, changed = pair.difference.tolist(), pair.changed_rows
    n = len(gaps)
    said = words.raw("figures.difference")
    title = "title_none" if not changed else "title_all" if len(changed) == n else "title"
    return figure_of(
        words,
        "difference",
        {
            "position": [str(position) for position in range(n)],
            "a": pair.a.tokens.labels[:n],
            "b": pair.b.tokens.labels[:n],
            "token": [
                words.raw(f"figures.difference.{'changed' if i in pair.changed_tokens else 'same'}")
                for i in range(n)
            ],
            "difference": gaps,
        },
        bars=["difference"],
        title=title,
        same=n - len(changed) if changed else n,
        changed=len(changed),
        rows=", ".join(map(str, changed)) or said["none"],
        first="–" if pair.first_changed is None else pair.first_changed,
    )


def _clue_in_front(words: Words, front: Comparison, search: ItSearch) -> Parts:
    """The pair in which the row of "it" can differ, and the head that was looked for."""
    parts: Parts = [Markup("<h3>{}</h3>").format(words.plain("front_title"))]
    parts += words.paragraphs("front", front_a=FRONT, front_b=FRONT_OTHER)
    parts.append(_difference(words, front))
    parts += words.paragraphs(
        "found" if search.found else "weak" if search.choosing[search.head] > search.chance else "none",
        n_pairs=search.n_pairs,
        head=search.head,
        moved=search.mean,
        low=search.low,
        high=search.high,
        rank=search.rank,
        n_heads=search.choosing.numel(),
        chance=search.chance,
        chosen=float(search.choosing[search.head]),
        enough=ENOUGH,
    )
    parts.append(_it_rows(words, front, search.head, search.mean))
    if search.n_answers:
        count = search.n_answers
        parts += words.paragraphs("answers", answers=round(search.answers * count), n_answers=count)
        worst = search.most_needed
        if worst is not None:
            lost = search.answers - worst[1]
            parts += words.paragraphs(
                "needed" if lost >= 0.1 else "unneeded",
                needed=worst[0],
                answers_without=round(worst[1] * count),
                n_answers=count,
            )
        elif search.head in search.answers_without:
            without = round(search.answers_without[search.head] * count)
            parts += words.paragraphs("without_found", head=search.head, answers_without=without, n_answers=count)
    return parts


def _it_rows(words: Words, front: Comparison, head: HeadName, moved: float) -> Figure:
    """The row of "it" in both texts with the clue in front, side by side."""
    it = it_position(front.a.tokens)
    if it is None:  # the lesson's own sentences have one
        raise InputError('The lesson\'s sentence has no "it". Its file text/attention.toml was changed.')
    changed = it if front.first_changed is None else front.first_changed
    both = list(zip(front.a.tokens.labels, front.b.tokens.labels, strict=False))[: it + 1]
    shares = [trace.head(head).pattern[it, : it + 1] for trace in (front.a, front.b)]
    labels = [a if a == b else f"{a} / {b}" for a, b in both]
    return figure_of(
        words,
        "it-rows",
        {"token": labels, "a": shares[0].tolist(), "b": shares[1].tolist()},
        bars=["a", "b"],
        head=head,
        moved=moved,
        clue_a=both[changed][0],
        clue_b=both[changed][1],
        most_a=labels[int(shares[0].argmax())],
        most_b=labels[int(shares[1].argmax())],
    )


def _referents(words: Words, e: Evidence, pair: Comparison) -> Parts:
    """What the found head gives the reader's two nouns, in the reader's two texts."""
    its = [it_position(trace.tokens) for trace in (pair.a, pair.b)]
    if None in its:
        return list(words.paragraphs("no_it"))
    search = e.search
    if e.referents is None or search is None:
        return []
    given: dict[str, object] = {"head": search.head}
    for which, word in zip("ab", e.referents, strict=True):
        given[f"noun_{which}"] = word
        for name, trace, it in zip("ab", (pair.a, pair.b), its, strict=True):
            where = [at for at in word_positions(trace.tokens, word) if it is not None and at < it]
            if not where:
                return list(words.paragraphs("no_word", word=word))
            given[f"{which}_{name}"] = float(trace.head(search.head).pattern[it, where].sum())
    return list(words.paragraphs("referents", **given))


def _two_texts(pair: Comparison) -> Markup:
    """Both texts, one under the other, token by token; those that differ are marked."""
    longest = max(len(pair.a), len(pair.b))
    shared = min(len(pair.a), len(pair.b))
    lines = Markup()
    for trace in (pair.a, pair.b):
        cells = Markup()
        for position in range(longest):
            label = trace.tokens.labels[position] if position < len(trace) else ""
            differs = position >= shared or position in pair.changed_tokens
            chip = Markup('<span class="token">{}</span>').format(label) if label else Markup()
            cells += Markup("<td>{}</td>").format(Markup("<mark>{}</mark>").format(chip) if differs and label else chip)
        lines += Markup("<tr>{}</tr>").format(cells)
    return Markup('<div class="scroll texts" tabindex="0"><table>{}</table></div>').format(lines)
