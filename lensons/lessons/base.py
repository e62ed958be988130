"""What a lesson is made of: steps with figures, a question each, and one page for all of them.

To write a lesson: gather everything it shows into one frozen object (its evidence), once; write a method for each
step that only reads it; put the words into a file under ``text/``. :mod:`lensons.lessons.attention` is an example.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lensons.figures import Figure, document, style_sheet
from lensons.figures.markup import asset, content_id, render
from lensons.files import written_whole
from lensons.lessons.words import anchor, glossary, prose, sources


class PageOnly(Markup):
    """A part of a step that needs the page's own scripts, so it is left out of a notebook."""


@dataclass(frozen=True)
class Question:
    """Predict, then look: a question whose right answer was computed from the trace.

    Attributes:
        text: the question.
        choices: what can be answered.
        answer: which choice is right, from 0.
        reason: why, in one or two sentences.
    """

    text: str
    choices: tuple[str, ...]
    answer: int
    reason: str

    def html(self, *, with_answer: bool = True) -> Markup:
        """The question as a card; the answer is folded away, and in no one's sight before it is asked for."""
        name = content_id("question", self.text, self.choices)
        return render("question.html.j2", question=self, with_answer=with_answer, id=name)


@dataclass(frozen=True, eq=False, repr=False)
class Step:
    """One step of a lesson.

    Attributes:
        name: its short name, and its id on the page.
        number: from 1.
        title: its question.
        lead: one sentence.
        parts: text, as safe HTML, and figures, in the order they are read.
        question: the question of this step, or None; ``data["no_question"]`` then says why.
        not_shown: what this step does not show.
        minutes: how long it takes to read.
        data: the numbers of this step.
    """

    name: str
    number: int
    title: str
    lead: str
    parts: tuple[Markup | Figure, ...]
    question: Question | None
    not_shown: str
    minutes: int
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of this step, in order."""
        return tuple(part for part in self.parts if isinstance(part, Figure))

    def html(self, *, notebook: bool = False) -> Markup:
        """The step as part of a page, or of a notebook's output."""
        parts = [
            part if isinstance(part, Markup) else part.notebook_html() if notebook else part.html()
            for part in self.parts
            if not (notebook and isinstance(part, PageOnly))
        ]
        html = render("step.html.j2", step=self, parts=parts, notebook=notebook)
        return _without_links(html) if notebook else html

    def _repr_html_(self) -> str:
        page_style = Markup(asset("lesson.css"))  # noqa: S704 - our own file
        style = Markup("<style>{}{}</style>").format(style_sheet(), page_style)
        return str(style + Markup("<div class='lensons'>{}</div>").format(self.html(notebook=True)))

    def __repr__(self) -> str:
        return f"Step {self.number}, {self.name}: {self.title}"


_LINK = re.compile(r'<a class="(?P<kind>term|cite)" href="#[^"]+" (?P<title>title="[^"]*")>(?P<text>.*?)</a>')


def _without_links(html: Markup) -> Markup:
    """In a notebook there is no list of words and sources to jump to; what a link says stays, on hover."""
    return Markup(_LINK.sub(r'<span class="\g<kind>" \g<title>>\g<text></span>', str(html)))  # noqa: S704 - was safe


class Lesson(ABC):
    """A lesson: steps, a page, a worksheet."""

    #: The name of its page and of its text file.
    name: str
    title: str
    lead: str

    @property
    @abstractmethod
    def steps(self) -> tuple[Step, ...]:
        """The steps, in order."""

    @property
    @abstractmethod
    def introduction(self) -> Sequence[Markup]:
        """What comes before the first step, as safe HTML."""

    @property
    @abstractmethod
    def provenance(self) -> Mapping[str, Any]:
        """Which model, in which version, made the numbers."""

    @property
    def questions(self) -> dict[str, Question]:
        """The teacher's key: each step's question with its right answer and reason."""
        return {step.name: step.question for step in self.steps if step.question is not None}

    def save(self, path: str | Path) -> Path:
        """Write the lesson as one HTML file that fetches nothing.

        Raises:
            FileError: the file cannot be written; a file that was there before is then still as it was.
        """
        steps = self.steps
        contents = render("contents.html.j2", steps=steps, minutes=sum(step.minutes for step in steps))
        heading = render("heading.html.j2", title=self.title, lead=self.lead)
        ending = render("ending.html.j2", terms=self._terms(steps), works=self._works())
        style = Markup("<style>{}</style>").format(Markup(asset("lesson.css")))  # noqa: S704 - our own file
        parts = [style, heading, *self.introduction, contents, *(step.html() for step in steps), ending]
        code = Markup(asset("questions.js") + asset("playground.js"))  # noqa: S704 - our own files
        script = Markup("<script>{}</script>").format(code)
        page = document(self.title, [*parts, script], live=True, footer=self._made_with())
        return written_whole(path, page)

    def worksheet(self, path: str | Path) -> Path:
        """Write the questions, without their answers, to print on paper."""
        heading = render("heading.html.j2", title=f"{self.title}: worksheet", lead="Name: ____________________")
        cards = [question.html(with_answer=False) for question in self.questions.values()]
        style = Markup("<style>{}</style>").format(Markup(asset("lesson.css")))  # noqa: S704 - our own file
        return written_whole(
            path, document(f"{self.title}: worksheet", [style, heading, *cards], footer=self._made_with())
        )

    def _terms(self, steps: Sequence[Step]) -> list[dict[str, str]]:
        """The glossary entries that the page links to."""
        used = "".join(str(part) for part in [*self.introduction, *(p for s in steps for p in s.parts)])
        return [
            {"id": anchor("term", term), "term": term, "meaning": meaning}
            for term, meaning in sorted(glossary().items(), key=lambda item: item[0].lower())
            if f"#{anchor('term', term)}" in used
        ]

    def _works(self) -> list[dict[str, str]]:
        return [{"id": anchor("source", key), "work": work} for key, work in sources().items()]

    def _made_with(self) -> str:
        about = self.provenance
        revision = f" (revision {about['revision'][:10]})" if about.get("revision") else ""
        versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items() if version)
        toy = " It is lensons' own small model, not GPT-2." if about["model"] == "toy" else ""
        return (
            f"Every number was made by the model {about['model']!r}{revision}, {about['weights']} weights, "
            f"{about['dtype']}, {about['engine']}.{toy} {versions}."
        )

    def _repr_html_(self) -> str:
        page_style = Markup(asset("lesson.css"))  # noqa: S704 - our own file
        style = Markup("<style>{}{}</style>").format(style_sheet(), page_style)
        heading = render("heading.html.j2", title=self.title, lead=self.lead)
        parts = [heading, *self.introduction, *(step.html(notebook=True) for step in self.steps)]
        return str(style + Markup("<div class='lensons'>{}</div>").format(Markup().join(parts)))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def __repr__(self) -> str:
        return f"{type(self).__name__} on {self.provenance['model']!r}: {len(self.steps)} steps"


__all__ = ["Lesson", "Question", "Step", "prose"]
