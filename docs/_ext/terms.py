"""The glossary, from the same file as the lessons'; each page's first use of a term links to it."""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from lensons.lessons import glossary

# Everyday English, or names of packages, too: these link only where a page writes {term}`...` itself.
BY_HAND = {"key", "value", "loss", "transformer"}
PLURALS = {"query": "queries"}
NOT_IN = (nodes.title, nodes.literal, nodes.literal_block, nodes.reference, nodes.raw, addnodes.pending_xref,
          addnodes.desc_signature, nodes.term, nodes.math, nodes.math_block, nodes.rubric)  # fmt: skip
NOT_ON = re.compile(r"glossary|bibliography|changelog|reference/(api|lessons-and-figures|errors)|genindex|search")


def pattern(term):
    """A term as it stands in a sentence: also in the plural, also with a capital where it begins one."""
    forms = [PLURALS.get(term, term + "s"), term]
    initial = f"[{term[0]}{term[0].upper()}]" if term[0].islower() else re.escape(term[0])
    return re.compile(r"(?<![\w-])(?:" + "|".join(initial + re.escape(form[1:]) for form in forms) + r")(?![\w-])")


PATTERNS = {term: pattern(term) for term in sorted(glossary(), key=len, reverse=True)}


class Glossary(SphinxDirective):
    """Every term of the lessons, in alphabetical order."""

    def run(self):
        """A glossary that Sphinx knows, so that pages can link into it."""
        entries = "\n\n".join(f"{term}\n  {meaning}" for term, meaning in glossary().items())
        return self.parse_text_to_nodes(f"```{{glossary}}\n:sorted:\n\n{entries}\n```")


def link_first_uses(app, doctree):
    """Each term's first use in the running text of a page becomes a link."""
    if NOT_ON.match(app.env.docname):
        return
    used = {node["reftarget"].lower() for node in doctree.findall(addnodes.pending_xref) if node["reftype"] == "term"}
    for text in list(doctree.findall(nodes.Text)):
        if any(isinstance(parent, NOT_IN) for parent in ancestors(text)):
            continue
        made = list(pieces(text, used))
        if len(made) > 1:
            text.parent.replace(text, [nodes.Text(piece) if isinstance(piece, str) else piece for piece in made])


def ancestors(node):
    """What a node stands in, from the inside out."""
    while node.parent is not None:
        node = node.parent
        yield node


def split(text, used):
    """The text, with a match in place of each term that the page has not used yet."""
    found = []
    for term, regex in PATTERNS.items():
        match = regex.search(text)
        if term.lower() in used or term in BY_HAND or match is None:
            continue
        if all(match.end() <= other.start() or other.end() <= match.start() for _, other in found):
            found.append((term, match))
    at = 0
    for term, match in sorted(found, key=lambda pair: pair[1].start()):
        yield text[at : match.start()]
        yield term, match[0]
        at = match.end()
    yield text[at:]


def pieces(text, used):
    """The same as nodes; the terms now count as used."""
    for piece in list(split(text.astext(), used)):
        if isinstance(piece, str):
            yield piece
            continue
        term, shown = piece
        used.add(term.lower())
        link = addnodes.pending_xref(
            "", nodes.inline("", shown, classes=["xref", "std", "std-term"]), refdomain="std", reftype="term",
            reftarget=term, refexplicit=True, refwarn=True,
        )  # fmt: skip
        yield link


def setup(app):
    """Sphinx calls this."""
    app.add_directive("lensons-glossary", Glossary)
    app.connect("doctree-read", link_first_uses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
