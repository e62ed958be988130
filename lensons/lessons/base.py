"""What a lesson is made of: steps, the figures and the question in each, and one page for all of them.

To write a lesson:

1. Gather what it shows in one frozen object, its evidence. :mod:`lensons.lessons.evidence` is an example: each part
   is measured when it is first asked for, and every trace is checked before it is shown.
2. Put the words into a TOML file under ``text/``; :mod:`lensons.lessons.words` says what the marks mean.
3. Subclass :class:`Lesson` with a method for each step. It only reads the evidence, and returns a :class:`Step`.

:mod:`lensons.lessons.induction` is a short one to start from.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lensons.figures import Figure, document, in_a_frame, table_figure
from lensons.figures.markup import asset, content_id, for_a_page, json_block, render
from lensons.files import written_whole
from lensons.lessons.words import Words, anchor, glossary, sources

LETTERS = "ABCDEFGH"


@dataclass(frozen=True)
class Question:
    """Predict, commit, then look: a question whose right answer was computed from the model's own numbers.

    Attributes:
        text: the question.
        choices: what can be answered.
        answer: which choice is right, from 0.
        reasons: for each choice one sentence: why it is right, or why it is not.
        pictures: for each choice a picture, or empty.
        hides: how many of the parts that come next show the answer; the page shows them after the commitment.
    """

    text: str
    choices: tuple[str, ...]
    answer: int
    reasons: tuple[str, ...]
    pictures: tuple[Markup, ...] = ()
    hides: int = 0

    @property
    def reason(self) -> str:
        """Why the right answer is right."""
        return self.reasons[self.answer]

    @property
    def id(self) -> str:
        """An id that the content decides."""
        return content_id("question", self.text, self.choices)

    def before(self, *parts: "Markup | Figure") -> "list[Markup | Figure | Question]":
        """The question, then the parts that show its answer."""
        return [replace(self, hides=len(parts)), *parts]

    def html(self, *, form: str = "page") -> Markup:
        """The question as a card.

        Args:
            form: ``"page"``: commit, then the answer is put there by the page's script, so that nobody is told
                before; without scripts it is folded away. ``"notebook"``: folded away. ``"paper"``: no answer.
        """
        words = Words("page", "question")
        hidden = {
            "answer": self.answer,
            "reasons": self.reasons,
            "right": words.raw("right"),
            "wrong": words.raw("wrong"),
            "said": words.raw("answer"),
        }
        return render(
            "question.html.j2",
            question=self,
            form=form,
            words=words,
            why=Words("page", "page").plain("worksheet_why"),
            letters=LETTERS,
            hidden=json_block(hidden),
        )


Parts = list[Markup | Figure | Question]
"""What is read in a step, in order."""


@dataclass(frozen=True, eq=False, repr=False)
class Step:
    """One step of a lesson.

    Attributes:
        name: its short name, and its id on the page.
        number: from 1.
        title: its question.
        lead: one sentence.
        parts: what is read, in order: text as safe HTML, figures, and the question.
        not_shown: what this step does not show.
        minutes: how long it takes to read.
        data: the numbers of this step. ``data["no_question"]`` says why there is no question, where there is none;
            ``data["not_possible"]`` why the step can't be shown on this text or model.
        blocks: makes what the page's script needs for this step, JSON in script elements.
    """

    name: str
    number: int
    title: str
    lead: str
    parts: tuple[Markup | Figure | Question, ...]
    not_shown: str
    minutes: int
    data: Mapping[str, Any] = field(default_factory=dict)
    blocks: Callable[[], Sequence[Markup]] = tuple

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of this step, in order."""
        return tuple(part for part in self.parts if isinstance(part, Figure))

    @property
    def question(self) -> Question | None:
        """The question of this step, or None."""
        return next((part for part in self.parts if isinstance(part, Question)), None)

    def html(self, *, notebook: bool = False, titled: bool = True) -> Markup:
        """The step as part of a page, or of a notebook's output; without its title where the page has one above."""
        shown = []
        for part in self.parts:
            if isinstance(part, Question):
                shown.append(part.html(form="notebook" if notebook else "page"))
            elif isinstance(part, Figure):
                shown.append(part.for_a_frame() if notebook else part.html())
            else:
                shown.append(part)
        page = Words("page", "page")
        label = page.plain("step", number=self.number, minutes=self.minutes)
        html = render(
            "step.html.j2", step=self, parts=shown, label=label, not_shown=page.raw("not_shown"), notebook=notebook,
            titled=titled,
        )  # fmt: skip
        return _alone(html) if notebook else html

    def _repr_html_(self) -> str:
        if for_a_page():
            inside = Markup().join([self.html(titled=False), *self.blocks()])
            return str(Markup("<div class='lensons'>{}</div>").format(inside))
        return str(_framed(self.html(notebook=True)))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def __repr__(self) -> str:
        figures = "".join(f"\n  {figure.title}. {figure.alt}" for figure in self.figures)
        return f"Step {self.number}, {self.name}: {self.title} {self.lead}{figures}"


class Lesson(ABC):
    """A lesson: steps, a page, a worksheet, and what a teacher needs.

    A subclass gives :attr:`name` (also of its text file), :attr:`steps` and :attr:`provenance`.
    """

    #: The name of its page and of its text file.
    name: str

    def __init__(self) -> None:
        self.words = Words(self.name, "lesson")

    @property
    @abstractmethod
    def steps(self) -> tuple[Step, ...]:
        """The steps, in order."""

    @property
    @abstractmethod
    def provenance(self) -> Mapping[str, Any]:
        """Which model, in which version, made the numbers."""

    @property
    def introduction(self) -> Sequence[Markup]:
        """What comes before the first step, as safe HTML."""
        return self.words.paragraphs("intro")

    @property
    def title(self) -> str:
        """What the lesson is called."""
        return self.words.plain("title")

    @property
    def lead(self) -> str:
        """What it is about, in one sentence."""
        return self.words.plain("lead")

    @property
    def objectives(self) -> tuple[str, ...]:
        """What a reader can do afterwards."""
        return tuple(self.words.raw("objectives"))

    @property
    def misconceptions(self) -> tuple[str, ...]:
        """What readers often take away wrongly, and what is right."""
        return tuple(self.words.raw("misconceptions"))

    @property
    def minutes(self) -> dict[str, int]:
        """How long each step takes."""
        return {step.name: step.minutes for step in self.steps}

    @property
    def questions(self) -> dict[str, Question]:
        """The teacher's key, each step's question with its right answer and its reasons."""
        return {step.name: step.question for step in self.steps if step.question is not None}

    def save(self, path: str | Path) -> Path:
        """Write the lesson as one HTML file that fetches nothing.

        Raises:
            FileError: the file cannot be written; a file that was there before is then still as it was.
        """
        steps = self.steps
        page = Words("page", "page")
        minutes = sum(step.minutes for step in steps)
        contents = render(
            "contents.html.j2", steps=steps, label=page.plain("steps", count=len(steps), minutes=minutes), words=page
        )
        parts = [
            _own_style(),
            render("heading.html.j2", title=self.title, lead=self.lead),
            *self.introduction,
            contents,
            *(step.html() for step in steps),
            self._ending(steps),
            *dict.fromkeys(block for step in steps for block in step.blocks()),
        ]
        own = [Markup(asset("lesson.js"))]
        page_text = document(self.title, parts, live=True, footer=self._made_with(), scripts=own)
        return written_whole(path, page_text)

    def worksheet(self, path: str | Path) -> Path:
        """Write the questions, without their answers, to print on paper; ``questions`` is the key to it.

        Raises:
            FileError: the file cannot be written.
        """
        page = Words("page", "page")
        parts = [
            _own_style(),
            render("heading.html.j2", title=self.title, lead=f"{page.raw('worksheet_name')}: {'_' * 30}"),
        ]
        for step in self.steps:
            if step.question is not None:
                parts += [Markup("<h2>{}. {}</h2>").format(step.number, step.title), step.question.html(form="paper")]
        return written_whole(path, document(self.title, parts, footer=self._made_with()))

    def _ending(self, steps: Sequence[Step]) -> Markup:
        page = Words("page", "page")
        used = Markup().join(step.html() for step in steps) + Markup().join(self.introduction)
        terms = sorted((term for term in glossary() if anchor("term", term) in used), key=str.lower)
        return render(
            "ending.html.j2",
            page=page,
            tally=Words("page", "question"),
            terms=[{"id": anchor("term", term), "term": term, "meaning": glossary()[term]} for term in terms],
            works=[
                {"id": anchor("source", key), **work}
                for key, work in sources().items()
                if f'#{anchor("source", key)}"' in used
            ],
            objectives=self.objectives,
            misconceptions=self.misconceptions,
            times=[page.plain("time", title=step.title, minutes=step.minutes) for step in steps],
            own=self.words.plain("own_model") if "own_model" in self.words else "",
        )

    def _made_with(self) -> str:
        about, page = self.provenance, Words("page", "page")
        revision = f" (revision {about['revision'][:10]})" if about.get("revision") else ""
        versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items() if version)
        said = page.plain(
            "made_with", model=repr(about["model"]), revision=revision, weights=about["weights"], dtype=about["dtype"],
            engine=about["engine"],
        )  # fmt: skip
        return " ".join([said, *([page.raw("toy")] if about["model"] == "toy" else []), f"{versions}."])

    def _repr_html_(self) -> str:
        if for_a_page():
            steps = [step.html() + Markup().join(step.blocks()) for step in self.steps]
            return str(Markup("<div class='lensons'>{}</div>").format(Markup().join([*self.introduction, *steps])))
        heading = render("heading.html.j2", title=self.title, lead=self.lead)
        return str(_framed(heading, *self.introduction, *(step.html(notebook=True) for step in self.steps)))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def __repr__(self) -> str:
        return f"{type(self).__name__} on {self.provenance['model']!r}: {self.title}. {self.lead}"


def figure_of(
    words: Words,
    name: str,
    columns: Mapping[str, Sequence[Any]],
    *,
    bars: Sequence[str] = (),
    title: str = "title",
    picture: Markup | None = None,
    kind: str | None = None,
    **filled: object,
) -> Figure:
    """A table of numbers, with its title, caption, text form and column headings from the words of a step.

    Args:
        words: the words of the step.
        name: of the figure, under ``figures`` in the text file.
        columns: numbers by the column's short name; a heading is looked up, other names stand as they are.
        bars: short names of columns that also show as bars.
        title: which of the titles in the text file.
        picture: an SVG above the table.
        kind: what sort of figure it is, for the page's script; its name if not given.
        filled: what the texts ask for.

    Example:
        >>> from lensons.lessons import Words
        >>> words = Words("attention", "mixing-values")
        >>> figure_of(words, "vocabulary", {"token": ["a"], "score": [0.5]}, best="a", head="L0H0", query="it").alt
        'Most: a.'
    """
    path = f"figures.{name}"

    def heading(column: str) -> str:
        return words.plain(f"{path}.columns.{column}", **filled) if f"{path}.columns.{column}" in words else column

    made = table_figure(
        kind or name,
        words.plain(f"{path}.{title}", **filled),
        words.plain(f"{path}.caption", **filled),
        words.plain(f"{path}.alt", **filled),
        {heading(column): values for column, values in columns.items()},
        [heading(column) for column in bars],
    )
    if picture is None:
        return made
    return Figure(made.kind, made.title, made.caption, made.alt, made.data, made.table, picture)


_EXPLAINED = re.compile(
    r'<span class="term"[^>]*>(?P<shown>[^<]*)<span class="meaning"[^>]*>(?P<meaning>[^<]*)</span></span>'
)
_CITED = re.compile(r'<a class="cite" href="#[^"]+">(?P<label>[^<]*)</a>')


def _alone(html: Markup) -> Markup:
    """In a notebook there is no list of sources to jump to, and styles may be taken away: a term keeps its meaning
    in a title, a work its name."""
    explained = _EXPLAINED.sub(r'<span class="term" title="\g<meaning>">\g<shown></span>', str(html))
    return Markup(_CITED.sub(r'<span class="cite">\g<label></span>', explained))


def _own_style() -> Markup:
    return Markup("<style>{}</style>").format(Markup(asset("lesson.css")))


def _framed(*parts: Markup) -> Markup:
    """HTML for a notebook's output."""
    return in_a_frame(*parts, style=asset("lesson.css"))
