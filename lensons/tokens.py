r"""Tokens: the ids the model reads, the exact bytes of each, and a label that can be seen.

A text is tokenized once, here; from then on ids are passed on, never text.

Labels are for eyes. A space is ``␣``, a newline ``\n``; what cannot be seen is named, as in ``⟨U+200B⟩``; a token
that holds only part of a character shows its bytes, as in ``\xf0\x9f``. Two different texts never share a label.
"""

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lensons.errors import InputError
from lensons.models import LoadedModel
from lensons.options import as_index, yes_or_no
from lensons.scores.patterns import plain

_FORMS = "Allowed are a text, a list of ids, or a tensor of ids shaped [pos] or [1, pos]."
# Letters by Unicode's reckoning, but blank on every screen.
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f")


class Piece(NamedTuple):
    """A token that is one part of a character: ``part`` of ``of``, and the whole ``character``."""

    part: int
    of: int
    character: str


@dataclass(frozen=True)
class Tokens:
    """What the model reads, position by position.

    Attributes:
        ids: the token ids.
        bytes: the exact bytes of each token; joined, they are the text. A BOS token in front has none.
        texts: the exact text of each token; for a part of a character its bytes, written ``\\xNN``.
        labels: the same, made visible; different texts have different labels.
        pieces: for a token that is part of a character, which part; otherwise None.
        special: True where a token stands for no text (beginning, end, padding).
        has_bos: True where the first token is the one that marks the beginning of a text.

    Example:
        >>> import lensons
        >>> tokens = lensons.trace(lensons.load_model("toy"), "It was too tired.").tokens
        >>> tokens.labels[0], tokens.has_bos, len(tokens) == len(tokens.ids)
        ('⟨BOS⟩', True, True)
    """

    ids: tuple[int, ...]
    bytes: tuple[bytes, ...]
    texts: tuple[str, ...]
    labels: tuple[str, ...]
    pieces: tuple[Piece | None, ...]
    special: tuple[bool, ...]
    has_bos: bool

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def text(self) -> str:
        """The text, put together again from the bytes."""
        return b"".join(self.bytes).decode("utf-8", errors="replace")


def tokenize(model: LoadedModel, given: Any, prepend_bos: bool | None = None) -> Tokens:
    """The tokens of a text, or of ids, exactly as the model will read them.

    Args:
        model: whose tokenizer and whose limit apply.
        given: a text, a list of ids, or a tensor of ids shaped [pos] or [1, pos].
        prepend_bos: whether a BOS token goes in front. None: yes for a text, no for ids. It is never doubled.

    Raises:
        InputError: nothing was given, an id or a type is not allowed, the tokenizer has no BOS token, or there
            are more tokens than the model can read.
    """
    if prepend_bos is not None:
        prepend_bos = yes_or_no("prepend_bos", prepend_bos)
    if isinstance(given, str):
        ids = _ids_of_text(model, given)
        wants_bos = prepend_bos is not False
    else:
        ids = _ids_as_given(model, given)
        wants_bos = bool(prepend_bos)
    if wants_bos:
        ids = _with_bos(model, ids, prepend_bos)
    for token_id in ids:
        if not 0 <= token_id < model.d_vocab:
            raise InputError(
                f"There is no token {token_id}. {model.name} has ids 0-{model.d_vocab - 1:,}. "
                "Were these ids made by another model's tokenizer?"
            )
    has_bos = model.bos_id is not None and ids[0] == model.bos_id
    if len(ids) > model.n_ctx:
        counted = ", the BOS token counted" if has_bos else ""
        raise InputError(
            f"This is {len(ids):,} tokens{counted}. {model.name} reads at most {model.n_ctx:,} at once, "
            f"and a BOS token counts as one of them. Shorten it by {len(ids) - model.n_ctx:,}."
        )
    return describe(model, ids, text=given if isinstance(given, str) else None)


def describe(model: LoadedModel, ids: Sequence[int], text: str | None = None) -> Tokens:
    """Bytes, texts and labels for ids that are known to be good; ``text`` is what they came from, if anything."""
    has_bos = bool(ids) and model.bos_id is not None and ids[0] == model.bos_id
    special = tuple(token_id in model.special_ids for token_id in ids)
    found = [_token_bytes(model.tokenizer, token_id) for token_id in ids]
    bos_in_text = has_bos and text is not None and text.encode("utf-8", "replace").startswith(found[0])
    if has_bos and not bos_in_text:
        found[0] = b""
    pieces = _pieces(found)
    texts = []
    labels = []
    for position, (token_id, raw) in enumerate(zip(ids, found, strict=True)):
        if special[position]:
            name = _token_bytes(model.tokenizer, token_id).decode("utf-8", "replace")
            texts.append(name)
            labels.append("⟨BOS⟩" if position == 0 and has_bos else f"⟨{visible(name)}⟩")
        elif not raw:
            texts.append("")
            labels.append(f"⟨#{token_id}⟩")
        else:
            texts.append(_exact(raw))
            labels.append(_visible_bytes(raw))
    return Tokens(tuple(ids), tuple(found), tuple(texts), tuple(labels), tuple(pieces), special, has_bos)


def visible(text: str) -> str:
    r"""A text in which every character can be seen; different texts give different results.

    Example:
        >>> visible(" it"), visible("a\n\u200bb")
        ('␣it', 'a\\n⟨U+200B⟩b')
    """
    return "".join(_visible_character(character, start=index == 0) for index, character in enumerate(text))


def _visible_character(character: str, *, start: bool) -> str:
    named = {" ": "␣", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}.get(character)
    if named is not None:
        return named
    category = unicodedata.category(character)
    hidden = (
        category in {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}
        or character in _BLANK_LETTERS
        or unicodedata.name(character, "").startswith("VARIATION SELECTOR")
        # A combining mark needs a letter to sit on; the three signs below have a meaning of their own here.
        or (start and category in {"Mn", "Mc", "Me"})
        or character in "␣⟨⟩"
    )
    return f"⟨U+{ord(character):04X}⟩" if hidden else character


def _visible_bytes(raw: bytes) -> str:
    """Whole characters made visible; the bytes of a broken one as ``\\xNN``."""
    parts = raw.decode("utf-8", "surrogateescape")
    return "".join(
        f"\\x{ord(c) - 0xDC00:02x}" if "\udc80" <= c <= "\udcff" else _visible_character(c, start=i == 0)
        for i, c in enumerate(parts)
    )


def _exact(raw: bytes) -> str:
    """The text of whole characters; ``\\xNN`` for the bytes of a broken one."""
    return raw.decode("utf-8", "backslashreplace")


def _pieces(found: Sequence[bytes]) -> list[Piece | None]:
    """Which tokens are parts of one character, by following UTF-8 over the joined bytes."""
    owner = [position for position, raw in enumerate(found) for _ in raw]
    joined = b"".join(found)
    pieces: list[Piece | None] = [None] * len(found)
    at = 0
    while at < len(joined):
        width = _character_width(joined, at)
        tokens = sorted(set(owner[at : at + width]))
        if len(tokens) > 1:
            character = joined[at : at + width].decode("utf-8")
            for part, position in enumerate(tokens, start=1):
                pieces[position] = Piece(part, len(tokens), character)
        at += width
    return pieces


def _character_width(joined: bytes, at: int) -> int:
    """How many bytes the character at ``at`` has; 1 where the bytes are not valid UTF-8."""
    for width in range(1, 5):
        try:
            joined[at : at + width].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return width
    return 1


# --- text to ids ------------------------------------------------------------------------------------------------


def _ids_of_text(model: LoadedModel, text: str) -> list[int]:
    if not text:
        raise InputError("The text is empty. At least one character is needed. Give a sentence.")
    if model.tokenizer is None:
        raise InputError("This model has no tokenizer, so it cannot read a text. Give token ids instead.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"The text holds half of a surrogate pair at character {error.start}, which is no character. "
            "Any valid Unicode text is allowed. Decode it again from its source."
        ) from None
    ids = [int(token_id) for token_id in model.tokenizer(text, add_special_tokens=False)["input_ids"]]
    if not ids:
        raise InputError(f"The tokenizer made no tokens of {text!r:.60}. Give a text that has some.")
    return ids


def _with_bos(model: LoadedModel, ids: list[int], asked: bool | None) -> list[int]:
    if model.bos_id is None:
        how = "prepend_bos=True was given" if asked else "A text gets a BOS token in front"
        raise InputError(
            f"{how}, but the tokenizer of {model.name} has no BOS token. Pass prepend_bos=False to go without one."
        )
    return ids if ids[0] == model.bos_id else [model.bos_id, *ids]


def _ids_as_given(model: LoadedModel, given: Any) -> list[int]:
    if isinstance(given, Tensor) or hasattr(given, "__array__"):
        try:
            array = given if isinstance(given, Tensor) else torch.as_tensor(plain(given))
            numbers = array.flatten().tolist()
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"These ids cannot be read ({error}). {_FORMS}") from error
        if array.is_floating_point() or array.is_complex() or array.dtype == torch.bool:
            raise InputError(f"Token ids are whole numbers, but {array.dtype} was given. {_FORMS}")
        if array.ndim == 2 and array.shape[0] > 1:
            raise InputError(
                f"A batch of {array.shape[0]} prompts was given. One prompt at a time is allowed. "
                "Choose one, for instance ids[0]."
            )
        if array.ndim not in (1, 2):
            raise InputError(f"Ids shaped {list(array.shape)} were given. {_FORMS}")
        ids = numbers
    elif isinstance(given, list | tuple):
        ids = list(given[0]) if len(given) == 1 and isinstance(given[0], list | tuple) else list(given)
        read = [as_index(token_id) for token_id in ids]
        if None in read:
            raise InputError(f"{given!r:.80} is not a list of token ids, which are whole numbers. {_FORMS}")
        ids = read
    else:
        raise InputError(f"{given!r:.80} (a {type(given).__name__}) is neither text nor ids. {_FORMS}")
    if not ids:
        raise InputError("The list of ids is empty. At least one token is needed. Give some ids or a text.")
    return ids


# --- ids to bytes -----------------------------------------------------------------------------------------------


def _token_bytes(tokenizer: Any, token_id: int) -> bytes:
    """The bytes a token stands for. Vocabulary entries are written in an alphabet of the tokenizer's own."""
    if tokenizer is None:
        return b""
    added = tokenizer.added_tokens_decoder.get(token_id)
    if added is not None:
        return str(added.content).encode("utf-8", "replace")
    entry = tokenizer.convert_ids_to_tokens(token_id)
    if entry is None:  # the model's table of tokens may be longer than the tokenizer's
        return b""
    if _is_byte_level(tokenizer):
        alphabet = _byte_alphabet()
        return bytes(alphabet[character] for character in entry) if set(entry) <= alphabet.keys() else entry.encode()
    if len(entry) == 6 and entry.startswith("<0x") and entry.endswith(">"):  # SentencePiece's single bytes
        return bytes.fromhex(entry[3:5])
    return str(entry).replace("▁", " ").encode("utf-8", "replace")


def _is_byte_level(tokenizer: Any) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return backend is not None and _has_byte_level_decoder(id(backend), backend)


@lru_cache(maxsize=8)
def _has_byte_level_decoder(_identity: int, backend: Any) -> bool:
    decoder = json.loads(backend.to_str()).get("decoder") or {}
    return any(part.get("type") == "ByteLevel" for part in [decoder, *decoder.get("decoders", [])])


@lru_cache(maxsize=1)
def _byte_alphabet() -> dict[str, int]:
    """Byte-level BPE writes each byte as one printable character: itself where it is one, else one past U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + n): b for n, b in enumerate(others)}
