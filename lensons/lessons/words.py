"""The words of a lesson: read from its text file, terms explained on the spot, sources cited. Made safe here.

A text file under ``text/`` is TOML, so that it can be translated without touching code. In a text,

* ``{name}`` is filled in, whatever it holds; a number is shown with three significant digits;
* ``[[query]]`` explains a term of the glossary where it first comes up in a step; ``[[queries|query]]`` shows
  another form of it;
* ``[@olsson2022]`` cites a work of ``references.bib``;
* ``**word**`` is strong.
"""

import re
import tomllib
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from lensons.errors import InputError
from lensons.figures.markup import three_digits

_MARK = re.compile(
    r"\[\[(?P<shown>[^\]|]+)(?:\|(?P<term>[^\]]+))?\]\]|\[@(?P<source>\w+)\]|\*\*(?P<strong>[^*]+)\*\*|\{(?P<name>\w+)\}"
)
_ENTRY = re.compile(r"^@\w+\{(?P<key>\w+),\n(?P<fields>.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s*(?P<name>\w+)\s*=\s*\{(?P<value>.*)\},?\s*$", re.MULTILINE)


class Chip(str):
    """A token's label: plain text in a title, a chip on the page."""

    __slots__ = ()

    def __html__(self) -> Markup:
        return Markup('<span class="token">{}</span>').format(str(self))


@lru_cache(maxsize=8)
def text_file(name: str) -> dict[str, Any]:
    """One of the TOML files in ``lensons/lessons/text``."""
    return tomllib.loads((files("lensons.lessons") / "text" / f"{name}.toml").read_text(encoding="utf-8"))


def glossary() -> dict[str, str]:
    """Every term of the lessons, and what it means.

    Example:
        >>> "query" in glossary()
        True
    """
    return dict(text_file("glossary"))


def references_file() -> Path:
    """The BibTeX file of all works that the lessons cite; the site's bibliography reads the same file.

    Example:
        >>> references_file().name
        'references.bib'
    """
    return Path(str(files("lensons.lessons") / "text" / "references.bib"))


@lru_cache(maxsize=1)
def sources() -> dict[str, dict[str, str]]:
    """Every work of ``references.bib`` by its key: ``label`` as it is cited, ``work`` as it is listed, ``url``."""
    found = {}
    for entry in _ENTRY.finditer(references_file().read_text(encoding="utf-8")):
        fields = {field["name"]: field["value"].strip("{}") for field in _FIELD.finditer(entry["fields"])}
        people = [person.split(",")[0].strip("{} ") for person in fields["author"].split(" and ")]
        who = people[0] + (f" & {people[1]}" if len(people) == 2 else " et al." if len(people) > 2 else "")
        year = fields.get("year")
        place = next(
            (fields[f] for f in ("journal", "booktitle", "howpublished", "institution", "note") if f in fields), ""
        )
        parts = [f"{who} ({year})" if year else who, fields["title"], place]
        found[entry["key"]] = {
            "label": f"{who} {year}" if year else who,
            "work": ". ".join(part for part in parts if part) + ".",
            "url": fields.get("url", ""),
        }
    return found


def anchor(kind: str, name: str) -> str:
    """The id of a term or a source on a page."""
    return f"{kind}-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


class Words:
    """One part of a text file, such as one step of a lesson.

    Args:
        name: the text file.
        part: which part of it; its name also begins the ids that are made here, so that they are met once a page.
    """

    def __init__(self, name: str, part: str) -> None:
        self.part = part
        self._texts = text_file(name)[part]
        self._explained: set[str] = set()

    def __contains__(self, path: str) -> bool:
        try:
            self.raw(path)
        except KeyError:
            return False
        return True

    def raw(self, path: str) -> Any:
        """What stands at a path such as ``"figures.shares.title"``, nothing filled in."""
        found: Any = self._texts
        for key in path.split("."):
            found = found[key]
        return found

    def plain(self, path: str, **filled: object) -> str:
        """A text without marks, for a title or a label."""
        return plain(self.raw(path), **filled)

    def html(self, path: str, **filled: object) -> Markup:
        """A sentence or more as HTML: filled in, escaped, terms explained and works cited."""
        return self._html(self.raw(path), filled)

    def paragraphs(self, path: str, **filled: object) -> list[Markup]:
        """Several paragraphs; none where the text has none at this path."""
        texts = self.raw(path) if path in self else []
        return [Markup("<p>{}</p>").format(self._html(text, filled)) for text in texts]

    def _html(self, text: str, filled: dict[str, object]) -> Markup:
        out, at = Markup(), 0
        for match in _MARK.finditer(text):
            out += escape(text[at : match.start()]) + self._marked(match, filled)
            at = match.end()
        return out + escape(text[at:])

    def _marked(self, match: re.Match[str], filled: dict[str, object]) -> Markup:
        if match["name"]:
            return escape(_shown(match["name"], filled))
        if match["strong"]:
            return Markup("<strong>{}</strong>").format(match["strong"])
        if match["source"]:
            work = sources().get(match["source"])
            if work is None:
                raise InputError(f"The source {match['source']!r} is cited but not in references.bib. Add it there.")
            link = anchor("source", match["source"])
            return Markup('<a class="cite" href="#{}">({})</a>').format(link, work["label"])
        term = match["term"] or match["shown"]
        meaning = glossary().get(term)
        if meaning is None:
            raise InputError(f"The term {term!r} is marked but not in glossary.toml. Add it there.")
        if term in self._explained:
            return escape(match["shown"])
        self._explained.add(term)
        made = anchor(f"{self.part}-term", term)
        return Markup(
            '<span class="term" tabindex="0" role="term" aria-describedby="{id}">{shown}'
            '<span class="meaning" role="tooltip" id="{id}">{meaning}</span></span>'
        ).format(id=made, shown=match["shown"], meaning=meaning)


def plain(text: str, **filled: object) -> str:
    """A text with its names filled in and its marks taken out."""

    def replaced(match: re.Match[str]) -> str:
        if match["name"]:
            return str(_shown(match["name"], filled))
        return match["shown"] or match["strong"] or ""

    return _MARK.sub(replaced, text)


def _shown(name: str, filled: dict[str, object]) -> object:
    """What stands for ``{name}``: numbers as a reader sees them, everything else as it is."""
    if name not in filled:
        raise InputError(
            f"The text asks for {{{name}}}, which is not there. Known here are {', '.join(filled) or 'none'}."
        )
    value = filled[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return three_digits(value) if isinstance(value, float) else f"{value:,}"
