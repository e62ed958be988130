"""The lesson on induction heads: two heads that work together, found, looked at, and taken out."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from lensons.figures import Figure, line_figure, pattern_figure, token_values_figure
from lensons.heads import HeadName
from lensons.lessons.base import Lesson, Question, Step, figure_of
from lensons.lessons.circuit import Circuit
from lensons.lessons.words import Chip, Words
from lensons.models import as_model

_CLEAR = 0.3
_SHOWN = 8

Parts = list[Markup | Figure | Question]


class InductionLesson(Lesson):
    """The lesson on induction heads, made on one model.

    Args:
        model: what :func:`lensons.load_model` gave, a TransformerLens model of your own, or a name such as ``"toy"``.

    Raises:
        InputError: the model has one layer only.

    Example:
        >>> import lensons
        >>> lesson = lensons.InductionLesson("toy")
        >>> [step.name for step in lesson.steps]
        ['second-copy', 'two-heads', 'composition', 'take-out']

    Source: Olsson et al. 2022; Elhage et al. 2021.
    """

    name = "induction"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.evidence = Circuit(as_model(model))

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Which model, in which version, made the numbers."""
        return self.evidence.model.provenance()

    @property
    def introduction(self) -> Sequence[Markup]:
        """What comes before the first step."""
        model = self.evidence.model
        which = "model_toy" if model.is_toy else "model_gpt2" if model.name == "gpt2" else "model_other"
        return self.words.paragraphs("intro", model_line=self.words.html(which, name=model.name))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The four steps."""
        return self.second_copy(), self.two_heads(), self.composition(), self.take_out()

    def second_copy(self) -> Step:
        """Step 1: the same random tokens twice, and the loss of each."""
        words, repeated = Words(self.name, "second-copy"), self.evidence.repeated
        said = {"first": repeated.first_copy, "second": repeated.second_copy}
        n, where = repeated.block_len, "figures.loss"
        figure = line_figure(
            words.plain(f"{where}.title"),
            words.plain(f"{where}.caption", n_prompts=repeated.n_prompts, n=n),
            words.plain(f"{where}.alt", **said),
            (words.raw(f"{where}.x"), [float(i + 1) for i in range(len(repeated.loss))]),
            {words.raw(f"{where}.line"): repeated.loss.tolist()},
            words.raw(f"{where}.y"),
            mark=(float(repeated.has_bos + n), words.raw(f"{where}.again")),
        )
        one_text = token_values_figure(
            self.evidence.shown.tokens,
            self.evidence.shown_losses,
            what=words.plain("figures.tokens.what"),
            title=words.plain("figures.tokens.title"),
            caption=words.plain("figures.tokens.caption"),
            unit=words.plain("figures.tokens.unit"),
        )
        # Entry p of the losses is for token p + 1, so the last n are those of the second copy.
        easy = [i for i, loss in enumerate(repeated.loss[-n:].tolist()) if loss < repeated.first_copy / 2]
        right = "never" if not easy else "one" if easy[0] == 0 else "two" if easy[0] == 1 else "later"
        order = ("one", "two", "later", "never")
        first_easy = easy[0] + 1 if easy else 0
        reasons = {
            name: words.plain("question.none_why" if not easy else f"question.{name}_why", first_easy=first_easy)
            for name in order
        }
        question = Question(
            words.plain("question.text"),
            tuple(words.plain(f"question.{name}") for name in order),
            order.index(right),
            tuple(reasons[name] for name in order),
        )
        after = words.paragraphs("after" if easy else "flat", **said)
        parts: Parts = [*words.paragraphs("before"), _block(self.evidence.shown.tokens.labels)]
        parts += question.before(figure, *after, one_text)
        return self._step(1, "second-copy", words, parts, {"loss": repeated.loss.tolist(), "block_len": n, **said})

    def two_heads(self) -> Step:
        """Step 2: a previous-token head below, an induction head above."""
        words, e = Words(self.name, "two-heads"), self.evidence
        trace, upper, lower = e.shown, e.upper, e.lower
        labels, n = trace.tokens.labels, len(trace)
        block = (n - trace.tokens.has_bos) // 2
        query = n - block // 2 - 1
        scores = {
            head: float(e.scores.values[kind][head]) for head, kind in ((upper, "induction"), (lower, "previous_token"))
        }
        said = {
            "upper": upper,
            "lower": lower,
            "upper_score": scores[upper],
            "lower_score": scores[lower],
            "upper_chance": e.scores.chance["induction"],
            "lower_chance": e.scores.chance["previous_token"],
            "n_prompts": e.scores.n_prompts["induction"],
        }
        figures = [
            pattern_figure(
                trace.tokens,
                trace.head(head).pattern,
                heads=[head],
                row=query if name == "upper" else None,
                title=words.plain(f"figures.{name}.title", head=head),
                caption=words.plain(f"figures.{name}.caption", n=block, query=Chip(labels[query])),
            )
            for name, head in (("lower", lower), ("upper", upper))
        ]
        row = trace.head(upper).pattern[query]
        best = int(row.argmax())
        places = {"copy": query - block, "after": query - block + 1, "before": query - 1, "first": 0}
        named = {k: name for name, k in reversed(places.items())}
        keys = sorted({*named, best})
        question = Question(
            words.plain("question.text", head=upper, query=labels[query], at=query, earlier=query - block),
            tuple(words.plain(f"question.{named.get(k, 'other')}", key=labels[k], k=k) for k in keys),
            keys.index(best),
            tuple(
                words.plain("question.right", share=float(row[k]), key=labels[k])
                if k == best
                else words.plain(
                    "question.wrong", share=float(row[k]), key=labels[k], best=best, best_share=float(row[best])
                )
                for k in keys
            ),
        )
        parts: Parts = list(words.paragraphs("before", **said))
        parts += words.paragraphs("weak") if min(scores.values()) < _CLEAR else []
        parts += [figures[0], *question.before(figures[1], *words.paragraphs("after", **said))]
        return self._step(2, "two-heads", words, parts, {"upper": upper, "lower": lower, "query": query, **said})

    def composition(self) -> Step:
        """Step 3: from the weights alone, what the upper head's keys pick up from each head below."""
        words, e = Words(self.name, "composition"), self.evidence
        model = e.model
        values = e.k_composition
        below = [HeadName(layer, head) for layer in range(e.upper.layer) for head in range(model.n_heads)]
        ranked = sorted(below, key=lambda head: (-float(values[head]), head))
        previous = e.scores.values["previous_token"]
        chance, spread = e.baseline
        shown = ranked[:_SHOWN] if e.lower in ranked[:_SHOWN] else [*ranked[: _SHOWN - 1], e.lower]
        figure = figure_of(
            words,
            "composition",
            {
                "head": list(map(str, shown)),
                "value": [float(values[head]) for head in shown],
                "previous": [float(previous[head]) for head in shown],
            },
            bars=["previous"],
            upper=e.upper,
            chance=chance,
            best=ranked[0],
            value=float(values[ranked[0]]),
        )
        said = {"upper": e.upper, "lower": e.lower}
        parts: Parts = list(words.paragraphs("before", **said))
        parts += words.paragraphs("rotary") if model.raw.cfg.positional_embedding_type == "rotary" else []
        after = [
            *words.paragraphs(
                "after", lower=e.lower, rank=e.lower_rank, n_below=len(below), chance=chance, spread=spread
            ),
            Markup('<div class="formula" tabindex="0">{}</div>').format(Markup(words.raw("formula"))),
        ]
        choices = sorted(dict.fromkeys([ranked[0], ranked[len(ranked) // 2], ranked[-1], e.lower]))
        if len(choices) > 1:
            best = ranked[0]
            reasons = tuple(
                words.plain(
                    "question.right" if head == best else "question.wrong",
                    head=head,
                    value=float(values[head]),
                    best=best,
                    best_value=float(values[best]),
                )
                for head in choices
            )
            question = Question(
                words.plain("question.text", upper=e.upper),
                tuple(words.plain("question.choice", head=head, score=float(previous[head])) for head in choices),
                choices.index(best),
                reasons,
            )
            parts += question.before(figure, *after)
        else:
            parts += [figure, *after]
        data = {"composition": values, "baseline": e.baseline, "rank": e.lower_rank}
        return self._step(3, "composition", words, parts, data)

    def take_out(self) -> Step:
        """Step 4: the loss without each head, and the upper head's score without the lower one."""
        words, e = Words(self.name, "take-out"), self.evidence
        upper, lower, repeated = e.upper, e.lower, e.repeated
        scores = e.upper_score_without
        others = [score for head, score in scores.items() if head not in (None, lower)]
        others_mean = sum(others) / len(others) if others else scores[None]
        changes = {head: e.without[head].change for head in (upper, lower)}
        random = e.without[upper].random_mean
        together = repeated.without
        upper_change, lower_change = (float(changes[head].second or 0.0) for head in (upper, lower))
        said: dict[str, Any] = {
            "upper": upper,
            "lower": lower,
            "upper_change": upper_change,
            "lower_change": lower_change,
        }
        figure = figure_of(
            words,
            "losses",
            {
                "head": [str(upper), str(lower), words.plain("figures.losses.together", n=len(together.heads)),
                         words.raw("figures.losses.random")],
                "first": [changes[upper].first, changes[lower].first, together.change.first, random.first],
                "second": [upper_change, lower_change, together.change.second, random.second],
                "score": [None, scores[lower], None, others_mean],
            },
            n_prompts=repeated.n_prompts,
            **said,
        )  # fmt: skip
        gap = abs(upper_change - lower_change)
        clear = gap > 0.1 * max(abs(upper_change), abs(lower_change), 0.1)
        right = "same" if not clear else "upper" if upper_change > lower_change else "lower"
        order = ("upper", "lower", "same")
        question = Question(
            words.plain("question.text"),
            tuple(words.plain(f"question.{name}", **said) for name in order),
            order.index(right),
            (words.plain("question.right", **said),) * len(order),
        )
        whole = scores[None]
        after = words.paragraphs(
            "after", upper=upper, lower=lower, whole=whole, without=scores[lower], others=others_mean
        )
        if whole > _CLEAR and scores[lower] < whole / 2:
            after += words.paragraphs("needs", upper=upper, lower=lower)
        joint = float(together.change.second or 0.0)
        if upper_change < 0.1 < joint:
            after += words.paragraphs("backup", upper=upper, change=upper_change, n=len(together.heads), together=joint)
        parts: Parts = [*words.paragraphs("before"), *question.before(figure, *after)]
        data = {"changes": changes, "upper_score_without": scores, "together": together}
        return self._step(4, "take-out", words, parts, data)

    def _step(self, number: int, name: str, words: Words, parts: Parts, data: Mapping[str, Any]) -> Step:
        return Step(
            name=name,
            number=number,
            title=words.plain("title"),
            lead=words.plain("lead"),
            parts=tuple(parts),
            not_shown=words.plain("not_shown"),
            minutes=words.raw("minutes"),
            data=data,
        )


def _block(labels: Sequence[str]) -> Markup:
    """The tokens of the block that is shown, as chips."""
    return Markup('<p class="texts">{}</p>').format(Markup(" ").join(Chip(label).__html__() for label in labels))
