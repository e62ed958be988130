"""The attention lesson: six steps through one model, on the reader's own sentence."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from markupsafe import Markup

from lensons.errors import InputError
from lensons.figures import Figure, all_heads_figure, line_figure, pattern_figure, three_digits
from lensons.heads import HeadName, parse_head
from lensons.lessons import predict
from lensons.lessons.base import Lesson, Parts, Step, figure_of
from lensons.lessons.comparison import Comparison
from lensons.lessons.evidence import FRONT, FRONT_OTHER, KINDS, REFERENTS, Evidence
from lensons.lessons.live import heads_block, trace_block
from lensons.lessons.pictures import strips
from lensons.lessons.referents import ENOUGH, it_position, word_positions
from lensons.lessons.step_heads import heads_and_their_kinds
from lensons.lessons.step_it import meaning_of_it
from lensons.lessons.words import Chip, Words
from lensons.models import as_model
from lensons.tracing import HeadTrace, Trace

_SHOWN_PRODUCTS = 8
_SHOWN_OF_Z = 4


class AttentionLesson(Lesson):
    """The lesson on attention, made on one model and, if you like, on your own sentence.

    Args:
        model: what :func:`lensons.load_model` gave, a TransformerLens model of your own, or a name such as ``"toy"``.
        text: your own sentence; None for the lesson's.
        other: a second text, for the first step to compare it with; None for the lesson's own pair.
        referents: the two words in your texts that "it" may mean.

    Each method gives a :class:`~lensons.lessons.base.Step`, which shows itself in a notebook. What a step needs is
    measured when it is first asked for, and kept.

    Raises:
        InputError: a text is empty or too long, or an option is not one of those above.
        CheckError: a number does not agree with the model's own hooks.

    Example:
        >>> import lensons
        >>> lesson = lensons.AttentionLesson("toy")
        >>> lesson.grid(head="1.0").figures[0].title
        'Head L1H0 on 14 tokens'
    """

    name = "attention"

    def __init__(
        self,
        model: Any,
        text: Any = None,
        other: Any = None,
        referents: tuple[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.evidence = Evidence(as_model(model), text, other, referents)
        _ = self.evidence.text, self.evidence.pair  # a text that cannot be read is said here, not in some later step

    @property
    def trace(self) -> Trace:
        """The trace of the reader's text."""
        return self.evidence.text

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Which model, in which version, made the numbers."""
        return self.trace.provenance

    @property
    def introduction(self) -> Sequence[Markup]:
        """What comes before the first step."""
        model = self.evidence.model
        which = "model_toy" if model.is_toy else "model_gpt2" if model.name == "gpt2" else "model_other"
        line = self.words.html(which, layers=model.n_layers, heads=model.n_heads, name=model.name)
        return self.words.paragraphs("intro", model_line=line)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The six steps."""
        self.evidence.gather()
        return (
            self.it(),
            self.grid(),
            self.queries_and_keys(),
            self.scores_to_shares(),
            self.mixing_values(),
            self.many_heads(),
        )

    @cached_property
    def _trace_block(self) -> Markup:
        """The numbers with which the page's script answers in steps 2 to 5, without a kernel."""
        e = self.evidence
        return trace_block(e.text, e.head, e.query, e.key(e.head, e.query))

    def _blocks(self, number: int) -> tuple[Markup, ...]:
        """What the page's script needs for a step."""
        if number == 1:
            return ()
        return (heads_block(self.evidence),) if number == 6 else (self._trace_block,)

    # --- what every step needs ----------------------------------------------------------------------------------

    def _head(self, given: object) -> HeadTrace:
        return self.trace.head(self.evidence.head if given is None else given)

    def _position(self, given: int | str | None, otherwise: int) -> int:
        """A position, given as a number or as a word of the text."""
        if given is None:
            return otherwise
        if isinstance(given, str):
            found = word_positions(self.trace.tokens, given)
            if not found:
                raise InputError(
                    f"The word {given!r} does not stand in the text {self.trace.tokens.text!r:.80}. "
                    "Give one of its words, or a position as a whole number."
                )
            return found[-1]
        return self.trace.position(given)

    def _row(self, head: object, query: int | str | None, key: int | str | None = None) -> tuple[HeadTrace, int, int]:
        """The head, query and key that a step is about; a key that comes after the query is an error."""
        chosen = self._head(head)
        q = self._position(query, self.evidence.query)
        k = self._position(key, self.evidence.key(chosen.name, q))
        if k > q:
            raise InputError(
                f"Position {k} comes after position {q}, so it cannot be looked at from there. "
                f"Allowed are keys from 0 to {q}. Choose one of those, or a later query."
            )
        return chosen, q, k

    def _label(self, position: int) -> Chip:
        return Chip(self.trace.tokens.labels[position])

    def _agrees(self, *stages: str) -> Markup:
        page, off = Words("page", "page"), self.evidence.agreement(*stages)
        said = page.plain("agrees", error=f"{off:.0e}".replace("e-0", "e-")) if off else page.raw("agrees_wholly")
        return Markup('<p class="agrees">{}</p>').format(said)

    # --- step 1 -------------------------------------------------------------------------------------------------

    def it(self) -> Step:
        """Step 1: what does "it" mean? Two texts, row by row; then a pair with the clue in front of "it"."""
        words = Words(self.name, "it")
        parts, data = meaning_of_it(words, self.evidence)
        own = self.evidence.given_other is not None
        return self._step(1, "it", words, parts, data, lead=words.plain("lead_own" if own else "lead"))

    # --- step 2 -------------------------------------------------------------------------------------------------

    def grid(self, head: object = None) -> Step:
        """Step 2: the whole pattern of one head, the others of its layer to choose from."""
        words = Words(self.name, "grid")
        chosen, query, _ = self._row(head, None)
        layer, index = chosen.name
        order = [index, *(h for h in range(self.trace.n_heads) if h != index)]
        figure = pattern_figure(
            self.trace.tokens,
            self.trace.pattern[layer, order],
            heads=[HeadName(layer, h) for h in order],
            row=query,
            title=words.plain("figures.pattern.title", head=chosen.name, n=len(self.trace)),
            caption=words.plain("figures.pattern.caption", query=self._label(query)),
            looks=words.raw("figures.pattern.looks"),
            looked_at=words.raw("figures.pattern.looked_at"),
        )
        whose = self.words.raw("whose_own" if self.evidence.given is None else "whose_yours")
        parts: Parts = [*words.paragraphs("before", whose=whose), figure, self._agrees("pattern", "mask")]
        data: dict[str, Any] = {"head": chosen.name, "query": query, "pattern": chosen.pattern}
        question = predict.strongest_cell(words, self.trace, chosen, query)
        if question is None:
            data["no_question"] = data["not_possible"] = words.plain("one_token")
            parts.append(Markup("<p>{}</p>").format(words.html("one_token")))
        else:
            parts.append(question)
        return self._step(2, "grid", words, [*parts, *words.paragraphs("after")], data)

    # --- step 3 -------------------------------------------------------------------------------------------------

    def queries_and_keys(
        self, head: object = None, query: int | str | None = None, key: int | str | None = None
    ) -> Step:
        """Step 3: one query and one key, number by number; then the dot product with every key."""
        words, model = Words(self.name, "queries-and-keys"), self.evidence.model
        chosen, q_at, k_at = self._row(head, query, key)
        q, k = chosen.q[q_at].double(), chosen.k[k_at].double()
        products = q * k
        dots = (chosen.q[q_at].double() @ chosen.k[: q_at + 1].double().T).tolist()
        filled: dict[str, Any] = {
            "query": self._label(q_at),
            "key": self._label(k_at),
            "head": chosen.name,
            "d_head": len(q),
            "dot": dots[k_at],
        }
        shown = products.abs().topk(min(_SHOWN_PRODUCTS, len(products))).indices.tolist()
        left = len(products) - len(shown)
        rest = float(products.sum() - products[shown].sum())
        numbers = [str(i) for i in range(len(q))]
        vectors = figure_of(
            words,
            "vectors",
            {"number": numbers, "query": q.tolist(), "key": k.tolist(), "product": products.tolist()},
            picture=strips(
                words.plain("figures.vectors.alt", **filled),
                {name: (words.raw(f"figures.vectors.{name}"), x.tolist())
                 for name, x in (("query", q), ("key", k), ("product", products))},
            ),
            **filled,
        )  # fmt: skip
        table = {
            "number": [*map(str, shown), *([words.plain("figures.products.others", n=left)] if left else []),
                       words.raw("figures.products.sum")],
            "query": [*q[shown].tolist(), *([None] if left else []), None],
            "key": [*k[shown].tolist(), *([None] if left else []), None],
            "product": [*products[shown].tolist(), *([rest] if left else []), float(products.sum())],
        }  # fmt: skip
        best = max(range(len(dots)), key=dots.__getitem__)
        parts: Parts = [
            *words.paragraphs("before", **filled),
            *(words.paragraphs("rotary") if self.evidence.is_rotary else []),
            *(words.paragraphs("grouped", n_kv=model.n_kv_heads, n_heads=model.n_heads)
              if model.n_kv_heads != model.n_heads else []),
            predict.sign_of_dot(words, q, k),
            vectors,
            figure_of(words, "products", table, **filled, n=len(shown)),
            figure_of(words, "dots", {"token": self.trace.tokens.labels[: q_at + 1], "dot": dots},
                      **filled | {"best": self._label(best), "dot": dots[best]}),
            self._agrees("scores"),
            *words.paragraphs("after", **filled),
            _formula(words),
        ]  # fmt: skip
        data = {"head": chosen.name, "query": q_at, "key": k_at, "dot": dots[k_at], "dots": dots}
        return self._step(3, "queries-and-keys", words, parts, data)

    # --- step 4 -------------------------------------------------------------------------------------------------

    def scores_to_shares(
        self, head: object = None, query: int | str | None = None, key: int | str | None = None
    ) -> Step:
        """Step 4: dot product / scale -> mask -> e to that power -> divide by the sum, for one row."""
        words = Words(self.name, "scores-to-shares")
        chosen, q_at, k_at = self._row(head, query, key)
        n, later = len(self.trace), len(self.trace) - q_at - 1
        scores = chosen.scores[q_at, : q_at + 1].double()
        dots = (chosen.q[q_at].double() @ chosen.k[: q_at + 1].double().T).tolist()
        powers = (scores - scores.max()).exp().tolist()
        shares = chosen.pattern[q_at, : q_at + 1].tolist()
        masked = words.raw("figures.shares.masked")
        figure = figure_of(
            words,
            "shares",
            {
                "token": self.trace.tokens.labels,
                "dot": [*dots, *[None] * later],
                "score": [*scores.tolist(), *[masked] * later],
                "power": [*powers, *[masked] * later],
                "share": [*shares, *[None] * later],
            },
            bars=["share"],
            query=self._label(q_at),
            key=self._label(k_at),
            head=chosen.name,
            dot=dots[k_at],
            scale=_scale(chosen.scale),
            score=float(scores[k_at]),
            power=powers[k_at],
            share=shares[k_at],
        )
        root = math.isclose(chosen.scale, math.sqrt(self.trace.d_head))
        scale = f"√{self.trace.d_head} = {_scale(chosen.scale)}" if root else _scale(chosen.scale)
        question = predict.share_of_higher(words, self.trace, scores, chosen, q_at)
        parts: Parts = [*words.paragraphs("before", scale=scale), *question.before(figure)]
        if self.trace.unusual is not None:
            parts.append(Markup("<p>{}</p>").format(words.html("unusual", why=self.trace.unusual)))
        parts += [
            self._agrees("scores", "pattern"),
            *words.paragraphs("after"),
            _formula(words),
        ]
        data = {"head": chosen.name, "query": q_at, "key": k_at, "n": n, "dots": dots, "scores": scores.tolist(),
                "powers": powers, "shares": shares}  # fmt: skip
        return self._step(4, "scores-to-shares", words, parts, data)

    # --- step 5 -------------------------------------------------------------------------------------------------

    def mixing_values(self, head: object = None, query: int | str | None = None) -> Step:
        """Step 5: share x value, added up, is z; z W_O is what the head adds. Who adds how much?"""
        words, e = Words(self.name, "mixing-values"), self.evidence
        chosen, q_at, _ = self._row(head, query)
        labels = self.trace.tokens.labels
        shares = chosen.pattern[q_at, : q_at + 1].double()
        lengths = self.trace.written_length[chosen.name][: q_at + 1].double()
        parts_added = shares * lengths
        total = float(chosen.written[q_at].norm())
        filled: dict[str, Any] = {"query": self._label(q_at), "head": chosen.name, "d_head": self.trace.d_head}
        best = int(parts_added.argmax())
        values = figure_of(
            words,
            "values",
            {
                "token": labels[: q_at + 1],
                "share": shares.tolist(),
                "length": lengths.tolist(),
                "part": parts_added.tolist(),
            },
            bars=["share"],
            total=total,
            best=self._label(best),
            part=float(parts_added[best]),
            **filled,
        )
        question = predict.who_adds_most(words, self.trace, q_at, chosen.name)
        data: dict[str, Any] = {
            "head": chosen.name,
            "query": q_at,
            "shares": shares.tolist(),
            "lengths": lengths.tolist(),
            "parts": parts_added.tolist(),
            "total": total,
        }
        parts: Parts = [*words.paragraphs("before", **filled)]
        shown: list[Markup | Figure] = [values, *words.paragraphs("after"), *self._sink(words, shares, lengths)]
        if question is None:
            data["no_question"] = words.plain("question.left_out")
            parts += [Markup("<p>{}</p>").format(data["no_question"]), *shown]
        else:
            parts += question.before(*shown)
        parts += [self._mixing(words, chosen, q_at, shares, filled), self._agrees("z", "attn_out"), _formula(words)]
        vocabulary = e.vocabulary(chosen.name, q_at)
        data["vocabulary"] = vocabulary
        parts.append(
            figure_of(
                words,
                "vocabulary",
                {"token": [token for token, _ in vocabulary], "score": [score for _, score in vocabulary]},
                best=vocabulary[0][0],
                **filled,
            )
        )
        return self._step(5, "mixing-values", words, parts, data)

    def _sink(self, words: Words, shares: torch.Tensor, lengths: torch.Tensor) -> list[Markup]:
        """The first token's share beside the length of its message: is it a sink here?"""
        if len(shares) < 3:
            return []
        times, share = float(lengths[0] / lengths[1:].mean().clamp(min=1e-12)), float(shares[0])
        return words.paragraphs("sink" if times < 0.5 and share > 0.2 else "sink_long", share=share, times=times)

    def _mixing(
        self, words: Words, chosen: HeadTrace, q_at: int, shares: torch.Tensor, filled: Mapping[str, Any]
    ) -> Figure:
        """A few numbers of z, each as a sum over tokens."""
        terms = (shares[:, None] * chosen.v[: q_at + 1].double()).T
        shown = chosen.z[q_at].abs().topk(min(_SHOWN_OF_Z, self.trace.d_head)).indices.tolist()
        order = shares.topk(min(4, len(shares))).indices.tolist()
        columns: dict[str, Sequence[Any]] = {"number": [str(i) for i in shown]}
        columns |= {f"{self.trace.tokens.labels[k]} ({k})": terms[shown, k].tolist() for k in order}
        if len(shares) > len(order):
            columns[words.raw("figures.mixing.others")] = (terms[shown].sum(1) - terms[shown][:, order].sum(1)).tolist()
        columns[words.raw("figures.mixing.sum")] = terms[shown].sum(1).tolist()
        columns[words.raw("figures.mixing.model")] = chosen.z[q_at][shown].tolist()
        return figure_of(words, "mixing", columns, n=len(shown), **filled)

    # --- step 6 -------------------------------------------------------------------------------------------------

    def many_heads(self) -> Step:
        """Step 6: every head scored; the same tokens twice; what taking heads out does."""
        words, model = Words(self.name, "many-heads"), self.evidence.model
        parts, data = heads_and_their_kinds(words, Words(self.name, "kinds"), self.evidence)
        return self._step(6, "many-heads", words, parts, data, n_heads=model.n_layers * model.n_heads)

    # --- putting a step together --------------------------------------------------------------------------------

    def _step(
        self,
        number: int,
        name: str,
        words: Words,
        parts: Parts,
        data: Mapping[str, Any],
        lead: str | None = None,
        **filled: object,
    ) -> Step:
        return Step(
            name=name,
            number=number,
            title=words.plain("title"),
            lead=words.plain("lead", **filled) if lead is None else lead,
            parts=tuple(parts),
            not_shown=words.plain("not_shown"),
            minutes=words.raw("minutes"),
            data=data,
            blocks=lambda: self._blocks(number),
        )


def _scale(scale: float) -> str:
    """8 rather than 8.00."""
    return f"{scale:g}" if scale == round(scale) else three_digits(scale)


def _formula(words: Words) -> Markup:
    # Our own MathML, from the text file; nothing of the reader's is in it.
    return Markup('<div class="formula" tabindex="0">{}</div>').format(Markup(words.raw("formula")))


__all__ = ["REFERENTS", "AttentionLesson"]
