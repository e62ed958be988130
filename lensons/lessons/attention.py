"""The attention lesson: six steps through one model, on the reader's own sentence."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from markupsafe import Markup

from lensons.figures import (
    Figure,
    all_heads_figure,
    difference_figure,
    line_figure,
    pattern_figure,
    row_figure,
    table_figure,
    three_digits,
)
from lensons.figures.markup import json_block, render
from lensons.heads import HeadName, parse_head
from lensons.lessons.base import Lesson, PageOnly, Question, Step
from lensons.lessons.evidence import FRONT, KINDS, Evidence, Pair, gather, word_position
from lensons.lessons.words import paragraphs, prose, text_file
from lensons.models import as_model
from lensons.tracing import HeadTrace, Trace

# Below this two rows count as the same: what float32 leaves when the order of a sum changes.
NOISE = 1e-5


class AttentionLesson(Lesson):
    """The lesson on attention, made on one model and, if you like, your own sentence.

    Args:
        model: what :func:`lensons.load_model` gave, a TransformerLens model of your own, or a name such as ``"toy"``.
        text: your own sentence; None for the lesson's.
        other: a second text to compare it with in the first step; None for the lesson's own pair.
        referents: the two words that "it" may mean in your texts.

    The model is run once, when the lesson is made; the steps only read what was found. Each method returns a
    :class:`~lensons.lessons.base.Step`, which shows itself in a notebook.

    Raises:
        InputError: a text is empty or too long.
        CheckError: a number does not agree with the model's own hooks.

    Example:
        >>> import lensons
        >>> lesson = lensons.AttentionLesson("toy")
        >>> [step.name for step in lesson.steps]
        ['it', 'grid', 'queries-and-keys', 'scores-to-shares', 'mixing-values', 'many-heads']
    """

    name = "attention"

    def __init__(
        self,
        model: Any,
        text: str | None = None,
        other: str | None = None,
        referents: tuple[str, str] | None = None,
    ) -> None:
        self._words = text_file(self.name)
        self.title, self.lead = self._words["title"], self._words["lead"]
        self.evidence: Evidence = gather(as_model(model), text, other, referents)

    # --- what every step needs ----------------------------------------------------------------------------------

    @property
    def trace(self) -> Trace:
        """The trace of the reader's text."""
        return self.evidence.text

    @property
    def objectives(self) -> tuple[str, ...]:
        """What a reader can do afterwards."""
        return tuple(self._words["objectives"])

    @property
    def misconceptions(self) -> tuple[str, ...]:
        """What readers often take away wrongly, and what is right."""
        return tuple(self._words["misconceptions"])

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Which model, in which version, made the numbers."""
        return self.trace.provenance

    @property
    def introduction(self) -> Sequence[Markup]:
        """What comes before the first step."""
        return paragraphs(self._words["intro"], model_line=self._model_line())

    @property
    def steps(self) -> tuple[Step, ...]:
        """The six steps."""
        return (
            self.it(),
            self.grid(),
            self.queries_and_keys(),
            self.scores_to_shares(),
            self.mixing_values(),
            self.many_heads(),
        )

    def _model_line(self) -> str:
        model = self.evidence.model
        shape = f"{model.n_layers} layers with {model.n_heads} heads each"
        if model.is_toy:
            return f"It is lensons' own toy model: small, really trained, on simple English. It has {shape}. It is not GPT-2."
        if model.name == "gpt2":
            return f"It is GPT-2, the small one, published in 2019. It has {shape}."
        return f"It is {model.name}. It has {shape}."

    @cached_property
    def default_head(self) -> HeadName:
        """The head that the steps follow unless told otherwise: the one that follows "it", else a previous-token head."""
        follower = self.evidence.follower
        if follower is not None and follower.found:
            return follower.head
        return self.evidence.table.top("previous_token", 1)[0][0]

    def _head(self, given: object) -> HeadTrace:
        return self.trace.head(self.default_head if given is None else given)

    def _query(self, given: int | None) -> int:
        if given is not None:
            return self.trace.position(given)
        it = word_position(self.trace.tokens, "it")
        return len(self.trace) - 1 if it is None else it

    def _key(self, given: int | None, head: HeadTrace, query: int) -> int:
        if given is not None:
            return self.trace.position(given)
        row = head.pattern[query, : query + 1].clone()
        if query > 0:  # the sink would be the answer in nearly every head, and teaches little
            row[0] = -1
        return int(row.argmax())

    def _part(self, name: str, *figures: Figure, **filled: object) -> tuple[Markup | Figure, ...]:
        words = self._words[name]
        parts: list[Markup | Figure] = [*paragraphs(words["before"], **filled), *figures]
        parts += paragraphs(words["after"], **filled)
        if "formula" in words:
            parts.append(Markup('<p class="formula">{}</p>').format(prose(words["formula"], **filled)))
        return tuple(parts)

    def _step(
        self,
        number: int,
        name: str,
        parts: Sequence[Markup | Figure],
        question: Question | None,
        data: Mapping[str, Any],
        **filled: object,
    ) -> Step:
        words = self._words[name]
        return Step(
            name=name,
            number=number,
            title=words["title"],
            lead=str(prose(words["lead"], **filled).striptags()),
            parts=tuple(parts),
            question=question,
            not_shown=str(prose(words["not_shown"], **filled).striptags()),
            minutes=words["minutes"],
            data=data,
        )

    def _agrees(self, *stages: str) -> Markup:
        off = max(self.evidence.check.get(stage, 0.0) for stage in stages)
        return Markup('<p class="agrees">✓ agrees with the model to {}</p>').format(
            f"{off:.0e}" if off else "the last digit"
        )

    # --- the six steps ------------------------------------------------------------------------------------------

    def it(self) -> Step:
        """Step 1: what does "it" mean? The row of "it" before and after the word that decides."""
        e = self.evidence
        words = self._words["it"]
        pair = e.pair
        parts: list[Markup | Figure] = [*paragraphs(words["before"])]
        parts.append(_two_texts(pair))
        parts.append(self._difference(pair))
        parts += paragraphs(words["after"])
        parts += [Markup("<h3>{}</h3>").format("The clue in front"), Markup("<p>{}</p>").format(
            prose(words["front"], front_a=FRONT[0], front_b=FRONT[1])
        )]  # fmt: skip
        parts.append(self._difference(e.front))
        follower = e.follower
        if follower is not None:
            said = words["found"] if follower.found else words["none"]
            parts.append(
                Markup("<p>{}</p>").format(
                    prose(
                        said,
                        n_pairs=follower.n_pairs,
                        head=follower.head,
                        moved=three_digits(follower.moved),
                        low=three_digits(follower.low),
                        high=three_digits(follower.high),
                        rank=follower.rank,
                        n_heads=follower.n_heads,
                        chance=three_digits(follower.by_luck),
                    )
                )
            )
            parts += self._it_rows(follower.head)
        data = {
            "first_changed": pair.first_changed,
            "row_difference": pair.row_difference.tolist(),
            "front_first_changed": e.front.first_changed,
            "front_row_difference": e.front.row_difference.tolist(),
            "follower": follower,
        }
        return self._step(1, "it", parts, self._which_rows(pair), data)

    def _difference(self, pair: Pair) -> Figure:
        gaps = pair.row_difference
        changed = [i for i, gap in enumerate(gaps.tolist()) if gap > NOISE]
        unequal = (
            "" if len(pair.a) == len(pair.b) else " The texts differ in length; only their common length is compared."
        )
        return difference_figure(
            pair.a.tokens,
            pair.b.tokens,
            gaps,
            title=f"The rows are the same up to position {(changed[0] if changed else len(gaps)) - 1}",
            caption="For each row, the largest difference between the two texts, over all layers and heads." + unequal,
            alt=f"Rows that differ: {', '.join(map(str, changed)) or 'none'} of {len(gaps)}; "
            f"the first changed token is at {pair.first_changed}.",
        )

    def _it_rows(self, head: HeadName) -> list[Figure]:
        """The row of "it" in both texts with the clue in front, side by side."""
        pair = self.evidence.front
        it = word_position(pair.a.tokens, "it")
        if it is None:
            return []
        clues = [trace.tokens.labels[min(pair.first_changed, it)] for trace in (pair.a, pair.b)]
        weights = [trace.head(head).pattern[it] for trace in (pair.a, pair.b)]
        names = (f"weight with {clues[0]}", f"weight with {clues[1]}")
        labels = [
            a if a == b else f"{a} / {b}" for a, b in zip(pair.a.tokens.labels, pair.b.tokens.labels, strict=False)
        ][: it + 1]
        columns: dict[str, Sequence[Any]] = {"token looked at": labels}
        columns |= {name: w[: it + 1].tolist() for name, w in zip(names, weights, strict=True)}
        return [
            table_figure(
                "it-rows",
                f'What "it" looks at in head {head}, with either clue',
                "Each column is one row of a pattern, and adds up to 1.",
                f'The row of "it" in head {head} for both texts.',
                columns,
                names,
            )
        ]

    def _which_rows(self, pair: Pair) -> Question:
        n, first = len(pair.row_difference), pair.first_changed
        changed = [i for i, gap in enumerate(pair.row_difference.tolist()) if gap > NOISE]
        choices = (
            "All rows.",
            f"Only rows from position {first} on, where the changed word stands.",
            'Only the row of "it".',
            "No row.",
        )
        if not changed:
            answer, why = 3, "The two texts have the same tokens as far as both go."
        elif min(changed) >= first:
            answer, why = (
                1,
                f"Rows 0 to {first - 1} were read before the changed word came. It is the same reading twice.",
            )
        else:
            answer, why = 0, "The texts differ from the first token that counts."
        return Question(
            f"The two sentences have {n} positions, and differ at position {first}. Which rows of the patterns differ?",
            choices,
            answer,
            why,
        )

    def grid(self, head: object = None) -> Step:
        """Step 2: the whole pattern of one head; the others of its layer to choose from."""
        chosen = self._head(head)
        layer, index = chosen.name
        order = [index, *(h for h in range(self.trace.n_heads) if h != index)]
        query = self._query(None)
        figure = pattern_figure(
            self.trace.tokens,
            self.trace.pattern[layer, order],
            heads=[HeadName(layer, h) for h in order],
            row=query,
            title=f"What every token looks at in head {chosen.name}",
            caption=f"Rows look, columns are looked at. The ringed row is {self.trace.tokens.labels[query]}.",
            looks="looks",
            looked_at="is looked at",
        )
        labels = self.trace.tokens.labels
        row = chosen.pattern[query, : query + 1]
        question, reason = None, {}
        if query > 0:
            keys = sorted(row.topk(min(4, query + 1)).indices.tolist())
            best = int(row.argmax())
            question = Question(
                f"Head {chosen.name}: which token does {labels[query]} (position {query}) look at most?",
                tuple(f"{labels[k]} (position {k})" for k in keys),
                keys.index(best),
                f"It gets {three_digits(float(row[best]))} of the row's 1.",
            )
        else:
            reason = {
                "no_question": "There is one token only. It can look at nothing but itself, so there is nothing to guess."
            }
        parts = [*self._part("grid", figure), self._agrees("pattern", "mask")]
        return self._step(2, "grid", parts, question, {"head": chosen.name, "query": query, **reason})

    def queries_and_keys(self, head: object = None, query: int | None = None, key: int | None = None) -> Step:
        """Step 3: one query and one key, number by number; then the dot product for every key."""
        chosen = self._head(head)
        q_at = self._query(query)
        k_at = self._key(key, chosen, q_at)
        labels = self.trace.tokens.labels
        q, k = chosen.q[q_at].double(), chosen.k[k_at].double()
        products = q * k
        largest = products.abs().topk(min(8, len(products))).indices.tolist()
        dot = float(products.sum())
        rest = dot - float(products[largest].sum())
        figure = table_figure(
            "products",
            f"{labels[q_at]} looks for, {labels[k_at]} offers: head {chosen.name}",
            f"The {len(largest)} products that count most, of {len(products)}. All together they add up to {three_digits(dot)}.",
            f"Dot product of the query of {labels[q_at]} and the key of {labels[k_at]}: {three_digits(dot)}.",
            {
                "number": [*map(str, largest), f"the other {len(products) - len(largest)}", "sum"],
                "query": [*q[largest].tolist(), None, None],
                "key": [*k[largest].tolist(), None, None],
                "query x key": [*products[largest].tolist(), rest, dot],
            },
        )
        dots = chosen.q[q_at].double() @ chosen.k[: q_at + 1].double().T
        every = table_figure(
            "dots",
            f"The dot product of {labels[q_at]} with every token it can see",
            "One sum for each key. The largest will get the largest share.",
            f"Largest: {labels[int(dots.argmax())]} with {three_digits(float(dots.max()))}.",
            {"token looked at": labels[: q_at + 1], "q · k": dots.tolist()},
        )
        a, b = q[largest[:3]].tolist(), k[largest[:3]].tolist()
        small = sum(x * y for x, y in zip(a, b, strict=True))
        question = Question(
            f"Three numbers of the query are {_list(a)}; the same three of the key are {_list(b)}. "
            "What is the sign of their dot product?",
            ("Positive: they point the same way.", "Negative: they point away from each other."),
            0 if small > 0 else 1,
            f"The products add up to {three_digits(small)}.",
        )
        filled = {"query": labels[q_at], "d_head": self.trace.d_head}
        parts = [*self._part("queries-and-keys", figure, every, **filled), self._agrees("scores")]
        data = {"head": chosen.name, "query": q_at, "key": k_at, "dot": dot, "dots": dots.tolist()}
        return self._step(3, "queries-and-keys", parts, question, data, **filled)

    def scores_to_shares(self, head: object = None, query: int | None = None, key: int | None = None) -> Step:
        """Step 4: dot product / scale -> mask -> exponentiate -> divide by the sum, for one row."""
        chosen = self._head(head)
        q_at = self._query(query)
        k_at = self._key(key, chosen, q_at)
        labels, n = self.trace.tokens.labels, len(self.trace)
        scores = chosen.scores[q_at].double()
        dots = (chosen.q[q_at].double() @ chosen.k.double().T).tolist()
        top = float(scores[: q_at + 1].max())
        seen = [k <= q_at for k in range(n)]
        figure = table_figure(
            "shares",
            f"From scores to shares: the row of {labels[q_at]} in head {chosen.name}",
            f"Read each line from left to right. {labels[k_at]}: q·k {three_digits(dots[k_at])} → "
            f"/{three_digits(chosen.scale)} {three_digits(float(scores[k_at]))} → share {three_digits(float(chosen.pattern[q_at, k_at]))}.",
            f"{labels[k_at]} gets a share of {three_digits(float(chosen.pattern[q_at, k_at]))}.",
            {
                "token looked at": labels,
                "q · k": [d if s else None for d, s in zip(dots, seen, strict=True)],
                f"/ {three_digits(chosen.scale)}": [
                    float(x) if s else "masked" for x, s in zip(scores, seen, strict=True)
                ],
                "e^(x - largest)": [
                    math.exp(float(x) - top) if s else "0, masked" for x, s in zip(scores, seen, strict=True)
                ],
                "share": [float(p) if s else None for p, s in zip(chosen.pattern[q_at], seen, strict=True)],
            },
            ["share"],
        )
        times = math.e**2
        question = Question(
            "Two tokens are looked at. The score of the first is 2 higher. How much more weight does it get?",
            ("2 times as much", f"{times:.1f} times as much", "100 times as much"),
            1,
            f"One higher is e = 2.718 times; two higher is e × e = {times:.2f} times.",
        )
        filled = {"scale": f"√{self.trace.d_head} = {three_digits(chosen.scale)}"}
        if not math.isclose(chosen.scale, math.sqrt(self.trace.d_head)):
            filled = {"scale": three_digits(chosen.scale)}
        play = {
            "labels": list(labels),
            # Scores of later tokens were never used by the model; they show what lifting the mask would do.
            "scores": [float(x) if s else d / chosen.scale for x, d, s in zip(scores, dots, seen, strict=True)],
            "query": q_at,
        }
        playground = PageOnly(render("playground.html.j2", data=json_block(play)))
        parts = [*self._part("scores-to-shares", figure, **filled), self._agrees("scores", "pattern"), playground]
        data = {"head": chosen.name, "query": q_at, "scores": scores[: q_at + 1].tolist(),
                "shares": chosen.pattern[q_at, : q_at + 1].tolist()}  # fmt: skip
        return self._step(4, "scores-to-shares", parts, question, data, **filled)

    def mixing_values(self, head: object = None, query: int | None = None) -> Step:
        """Step 5: weight x value, added up; what each token's message is, and how long."""
        chosen = self._head(head)
        q_at = self._query(query)
        labels = self.trace.tokens.labels
        weights = chosen.pattern[q_at, : q_at + 1].double()
        message = chosen.written_by_key[: q_at + 1].double()
        lengths = message.norm(dim=-1)
        parts_added = weights * lengths
        total = float((weights[:, None] * message).sum(0).norm())
        figure = row_figure(
            self.trace.tokens,
            weights,
            query=q_at,
            title=f"How much {labels[q_at]} takes from each token, in head {chosen.name}",
            caption="The share, the length of the whole message v W_O, and the two multiplied. "
            f"Added up as directions, what the head adds has length {three_digits(total)}.",
            columns={"length of v W_O": lengths, "share × length": parts_added},
        )
        terms = (weights[:, None] * chosen.v[: q_at + 1].double()).T
        shown = chosen.z[q_at].abs().topk(min(4, len(chosen.z[q_at]))).indices.tolist()
        order = weights.topk(min(4, len(weights))).indices.tolist()
        columns: dict[str, Sequence[Any]] = {"number of z": [str(i) for i in shown]}
        for k in order:
            columns[f"{labels[k]} ({k})"] = terms[shown, k].tolist()
        others = terms[shown].sum(1) - terms[shown][:, order].sum(1)
        columns["other tokens"] = others.tolist()
        columns["sum"] = terms[shown].sum(1).tolist()
        columns["z in the model"] = chosen.z[q_at][shown].tolist()
        mixing = table_figure(
            "mixing",
            "Share times value, added up, is the head's output z",
            f"The {len(shown)} largest of z's {self.trace.d_head} numbers. Each is a sum over all tokens.",
            "The sums agree with the model's own z.",
            columns,
        )
        most, heaviest = int(parts_added.argmax()), int(weights.argmax())
        question, reason = None, {}
        if most != heaviest:
            keys = sorted({most, heaviest, *parts_added.topk(min(4, len(weights))).indices.tolist()})[:4]
            keys = sorted({*keys[:2], most, heaviest}) if most not in keys or heaviest not in keys else keys
            question = Question(
                f"{labels[heaviest]} (position {heaviest}) has the largest share. Which token adds most?",
                tuple(f"{labels[k]} (position {k})" for k in keys),
                keys.index(most),
                f"Its share is {three_digits(float(weights[most]))}, but its message is "
                f"{three_digits(float(lengths[most] / lengths[heaviest].clamp(min=1e-12)))} times as long.",
            )
        else:
            reason = {
                "no_question": "In this row the token with the largest share also adds most, "
                "so there is no question here. Other heads differ."
            }
        filled = {"query": labels[q_at]}
        parts = [*self._part("mixing-values", figure, mixing, **filled), self._agrees("z", "attn_out")]
        data = {"head": chosen.name, "query": q_at, "weights": weights.tolist(), "lengths": lengths.tolist(), **reason}
        return self._step(5, "mixing-values", parts, question, data, **filled)

    def many_heads(self) -> Step:
        """Step 6: every head scored; what happens when the best are taken out; the loss on repeated blocks."""
        e = self.evidence
        table = e.table
        figures: list[Figure] = [
            all_heads_figure(
                table.values[kind], kind=kind, chance=table.chance[kind], low=table.low[kind], high=table.high[kind]
            )
            for kind in KINDS
        ]
        figures.append(self._ablations())
        figures.append(self._losses())
        if e.model.is_toy:
            figures.append(_training())
        best, score = table.top("previous_token", 1)[0]
        others = [head for kind in ("duplicate_token", "induction", "first_token") for head, _ in table.top(kind, 3)]
        choices = sorted({best, *[head for head in dict.fromkeys(others) if head != best][:3]})
        question = None
        if len(choices) > 1 and score == score:
            question = Question(
                "Which of these heads looks at the previous token?",
                tuple(map(str, choices)),
                choices.index(best),
                f"{best} scores {three_digits(score)}; chance is {three_digits(table.chance['previous_token'])}.",
            )
        n_heads = e.model.n_layers * e.model.n_heads
        parts = self._part("many-heads", *figures, n_heads=n_heads)
        data = {"table": table, "ablations": e.ablations, "losses": e.block_losses}
        return self._step(6, "many-heads", parts, question, data, n_heads=n_heads)

    def _ablations(self) -> Figure:
        e = self.evidence
        ranked = sorted(e.ablations.values(), key=lambda a: -(a.change.second or 0.0))
        random = ranked[0].random_mean
        return table_figure(
            "ablations",
            f"Without {ranked[0].heads[0]} the second copy gets hardest",
            f"The change of loss when one head's output is set to 0, on {ranked[0].n_prompts} prompts of random blocks. "
            f"Only the five highest of each kind were measured; all others were not.",
            f"Taking out {ranked[0].heads[0]} raises the loss on the second copy by "
            f"{three_digits(ranked[0].change.second or 0.0)} nats.",
            {
                "head taken out": [*(str(a.heads[0]) for a in ranked), "a head at random (mean of 20)"],
                "first copy": [*(a.change.first for a in ranked), random.first],
                "second copy": [*(a.change.second for a in ranked), random.second],
            },
        )

    def _losses(self) -> Figure:
        losses, n = self.evidence.block_losses, self.evidence.block_len
        second = losses[-n + 1 :]
        first = losses[-2 * n + 1 : -n]
        mean_first, mean_second = sum(first) / len(first), sum(second) / len(second)
        return line_figure(
            "The second copy is easier",
            "How wrong the model is at each position of a random block that comes twice, in nats. "
            f"On average {three_digits(mean_first)} in the first copy, {three_digits(mean_second)} in the second.",
            f"Loss falls from {three_digits(mean_first)} to {three_digits(mean_second)} nats on the second copy.",
            ("position", [float(i + 1) for i in range(len(losses))]),
            {"loss": losses},
            "loss (nats)",
        )


def _two_texts(pair: Pair) -> Markup:
    """Both texts, the changed tokens marked."""
    lines = []
    for trace in (pair.a, pair.b):
        marked = [
            Markup("<mark>{}</mark>").format(label) if i == pair.first_changed else Markup("{}").format(label)
            for i, label in enumerate(trace.tokens.labels)
        ]
        chips = Markup(" ").join(Markup('<span class="token">{}</span>').format(label) for label in marked)
        lines.append(Markup("<p>{}</p>").format(chips))
    return Markup("").join(lines)


def _list(numbers: Sequence[float]) -> str:
    return ", ".join(three_digits(number) for number in numbers)


def _training() -> Figure:
    """For the toy model: its heads forming while the loss on the second copy falls."""
    from lensons.toy import training_record

    record = training_record()
    first = record.loss_first.clamp(min=1e-6)
    lines = {
        "best induction head": record.scores["induction"].flatten(1).amax(1).tolist(),
        "best previous-token head": record.scores["previous_token"].flatten(1).amax(1).tolist(),
        "loss on second / first copy": (record.loss_second / first).tolist(),
    }
    log_steps = torch.log10(record.steps.float() + 1).tolist()
    return line_figure(
        "How the toy model's heads came to be",
        "While it was trained, its induction head formed and the loss on the second copy fell. "
        f"Until step {record.nudged_until} these heads were nudged into their roles; the model card says how.",
        "Induction score rises as the loss on the second copy falls.",
        ("training step, as a power of ten", log_steps),
        lines,
        "score, or share of loss",
    )
