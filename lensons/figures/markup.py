"""The one place where text becomes HTML. Templates escape; JSON blocks cannot end a script; ids come from content."""

import hashlib
import json
import os
import re
from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

# What neither HTML nor XML may hold: one such character, and a browser shows nothing of an SVG.
_NO_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

# Characters that end a script block, or a line in JavaScript, inside JSON.
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@lru_cache(maxsize=32)
def asset(name: str) -> str:
    """A file that ships with the figures, as text."""
    return (files("lensons.figures") / "assets" / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _templates() -> Environment:
    environment = Environment(
        loader=FunctionLoader(asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["three"] = three_digits
    # How far a picture shrinks on a narrow screen, and no further: 12 px letters stay 7.5 px, and it scrolls.
    environment.globals["least"] = 0.63
    return environment


def render(template: str, **values: Any) -> Markup:
    """Fill a template; whatever is not Markup is escaped, in text and in attributes, and what no page can hold is �."""
    return Markup(_NO_CHARACTERS.sub("\ufffd", _templates().get_template(template).render(**values)))


def json_block(data: Any) -> Markup:
    """Data as JSON that can stand in a script element, whatever text it holds."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup("".join(_UNSAFE.get(character, character) for character in text))


def content_id(*parts: object) -> str:
    """An id that the content decides: the same figure always has the same one. It starts with a letter."""
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode("utf-8", "surrogatepass"))
    return "l" + digest.hexdigest()[:12]


def for_a_page() -> bool:
    """True where outputs go into a page that has the style and the scripts already, as a site's pages do.

    :mod:`lensons.sphinxext` says so, through the environment, to the kernels in which a site's notebooks run.
    """
    return os.environ.get("LENSONS_OUTPUT") == "page"


def three_digits(number: float) -> str:
    """Three digits, as a reader sees a number; of a very small one the first two that are not 0.

    Example:
        >>> three_digits(0.123456), three_digits(41.3), three_digits(0.99999), three_digits(0.00016)
        ('.123', '41.3', '1.00', '.00016')
    """
    if number != number:
        return "not defined"
    if number in (float("inf"), float("-inf")):
        return "masked" if number < 0 else "infinite"
    size = abs(number)
    if size == 0:
        return "0"
    if size < 0.001:
        mantissa, exponent = f"{size:.1e}".split("e")
        text = f"{mantissa}e{int(exponent)}" if int(exponent) < -5 else f"{float(f'{size:.1e}'):.{1 - int(exponent)}f}"
    elif round(size, 3) < 1:
        text = f"{size:.3f}"
    else:
        text = f"{size:,.{max(0, 2 - len(str(int(round(size, 2)))) + 1)}f}"
    return ("−" if number < 0 else "") + (text[1:] if text.startswith("0.") else text)
