"""The words of a lesson: read from its text file, terms linked to the glossary, sources cited. Made safe here."""

import re
import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup, escape

from lensons.errors import InputError

_MARK = re.compile(r"\[\[(?P<term>[^\]]+)\]\]|\[@(?P<source>\w+)\]|\*\*(?P<strong>[^*]+)\*\*")


@lru_cache(maxsize=8)
def text_file(name: str) -> dict[str, Any]:
    """One of the files in ``lensons/lessons/text``."""
    return tomllib.loads((files("lensons.lessons") / "text" / f"{name}.toml").read_text(encoding="utf-8"))


def glossary() -> dict[str, str]:
    """Every term of the lessons, and what it means."""
    return dict(text_file("glossary"))


def sources() -> dict[str, str]:
    """Every work that the lessons cite."""
    return dict(text_file("sources"))


def anchor(kind: str, name: str) -> str:
    """The id of a term or a source on a page."""
    return f"{kind}-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def prose(text: str, **filled: object) -> Markup:
    """A sentence or more as HTML: ``{names}`` filled in, then everything escaped, then the marks turned to links."""
    out, at = Markup(), 0
    for match in _MARK.finditer(text):
        out += escape(_fill(text[at : match.start()], filled)) + _marked(match)
        at = match.end()
    return out + escape(_fill(text[at:], filled))


def paragraphs(texts: list[str], **filled: object) -> list[Markup]:
    """Several paragraphs."""
    return [Markup("<p>{}</p>").format(prose(text, **filled)) for text in texts]


def _fill(text: str, filled: dict[str, object]) -> str:
    # Not str.format: what is filled in is a reader's own text, which may hold braces.
    return re.sub(r"\{(\w+)\}", lambda m: str(filled[m[1]]) if m[1] in filled else m[0], text)


def _marked(match: re.Match[str]) -> Markup:
    if match["strong"]:
        return Markup("<strong>{}</strong>").format(match["strong"])
    if match["source"]:
        work = sources().get(match["source"])
        if work is None:
            raise InputError(f"The source {match['source']!r} is cited but not listed. Add it to sources.toml.")
        author = work.split(" (")[0].split(".")[0].split(",")[0]
        year = re.search(r"\((\d{4})\)", work)
        label = f"{author} {year[1]}" if year else author
        link = anchor("source", match["source"])
        return Markup('<a class="cite" href="#{}" title="{}">({})</a>').format(link, work, label)
    term = match["term"]
    meaning = glossary().get(term)
    if meaning is None:
        raise InputError(f"The term {term!r} is linked but not in the glossary. Add it to glossary.toml.")
    return Markup('<a class="term" href="#{}" title="{}">{}</a>').format(anchor("term", term), meaning, term)
