"""Naming a head: ``(5, 1)``, ``"5.1"`` and ``"L5H1"`` all mean head 1 of layer 5, counted from zero."""

import re
from typing import NamedTuple

from lensons.errors import HeadIndexError, InputError
from lensons.options import as_index

_WRITTEN = re.compile(r"[lL](?P<layer>\d{1,9})[hH](?P<head>\d{1,9})|(?P<layer2>\d{1,9})\.(?P<head2>\d{1,9})", re.ASCII)
_FORMS = 'Write it as (5, 1), "5.1" or "L5H1"; layers and heads are counted from 0.'


class HeadName(NamedTuple):
    """One attention head. ``str()`` gives ``"L5H1"``; ``dotted`` gives ``"5.1"``.

    Example:
        >>> str(HeadName(5, 1)), HeadName(5, 1).dotted
        ('L5H1', '5.1')
    """

    layer: int
    head: int

    def __str__(self) -> str:
        return f"L{self.layer}H{self.head}"

    @property
    def dotted(self) -> str:
        """The form used in papers, ``"5.1"``."""
        return f"{self.layer}.{self.head}"


def parse_head(given: object, n_layers: int, n_heads: int) -> HeadName:
    """Read a head's name and check that the model has such a head.

    Args:
        given: ``(layer, head)`` as two integers (negative ones count from the end), ``"5.1"`` or ``"L5H1"``.
        n_layers: number of layers of the model.
        n_heads: number of heads in each layer.

    Returns:
        A :class:`HeadName` with both numbers between 0 and the count.

    Raises:
        InputError: the name is not written in one of the three forms.
        HeadIndexError: the model has no such layer or head; the message gives your own number.

    Example:
        >>> parse_head("5.10", 12, 12)
        HeadName(layer=5, head=10)
        >>> parse_head((-1, -1), 12, 12)
        HeadName(layer=11, head=11)
    """
    layer, head = _two_numbers(given)
    return HeadName(_index("layer", layer, n_layers, given), _index("head", head, n_heads, given))


def _two_numbers(given: object) -> tuple[int, int]:
    if isinstance(given, str):
        match = _WRITTEN.fullmatch(given.strip())
        if match is None:
            raise InputError(f"{given!r} does not name a head. {_FORMS}")
        return int(match["layer"] or match["layer2"]), int(match["head"] or match["head2"])
    if isinstance(given, float):
        raise InputError(
            f"{given!r} is a number, and the numbers 5.1 and 5.10 are the same, so it does not name a head. {_FORMS}"
        )
    if isinstance(given, list | tuple) and len(given) == 2:
        layer, head = map(as_index, given)
        if layer is not None and head is not None:
            return layer, head
    raise InputError(f"{given!r} does not name a head. {_FORMS}")


def _index(what: str, number: int, count: int, given: object) -> int:
    if not -count <= number < count:
        raise HeadIndexError(
            f"There is no {what} {number} (asked for: {given!r}). This model has {what}s 0-{count - 1}. "
            f"Choose one of those, or count from the end with -1 to -{count}."
        )
    return number % count
