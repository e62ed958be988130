"""Everything the attention lesson shows. Each part is measured when it is first asked for, and only once.

Steps read this and nothing else. A step that needs little, such as the grid, so waits for little.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from lensons.errors import InputError
from lensons.heads import HeadName
from lensons.lessons.comparison import Comparison
from lensons.lessons.referents import ItSearch, it_position, read, search_it_head
from lensons.lessons.repeated import Repeated, repeat_blocks
from lensons.models import LoadedModel
from lensons.prompts import repeated_blocks
from lensons.scoring import HeadScores, score_heads
from lensons.tokens import visible
from lensons.tracing import Trace, trace_tokens

TEXT = "The animal didn't cross the street because it was too tired."
OTHER = "The animal didn't cross the street because it was too wide."
FRONT = "The animal didn't cross the street, tired as it was."
FRONT_OTHER = "The animal didn't cross the street, wide as it was."
REFERENTS = ("animal", "street")
KINDS = ("previous_token", "duplicate_token", "induction", "first_token")

SHOWN_BLOCK = 8
"""Tokens in the random block that is shown on the page: few enough to be read."""

_CLEAR = 0.6
_LARGE = 50_000_000


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the attention lesson knows about one model and one text.

    Attributes:
        model: the model.
        given: the reader's text (or ids), or None for the lesson's.
        given_other: the second text, or None.
        referents: the two words that "it" may mean.
    """

    model: LoadedModel
    given: object = None
    given_other: object = None
    referents: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        two = self.referents
        if two is not None and (not isinstance(two, tuple | list) or len(two) != 2 or not all(isinstance(word, str) and word.strip() for word in two)):
            raise InputError(
                f"referents={two!r} was given. Allowed are two words that stand in your text, such as {REFERENTS!r}."
            )
        if two is not None and self.given_other is None:
            raise InputError(
                'referents was given without two texts. It names the two words that "it" may mean in them. Give text '
                "and other, or leave it out."
            )
        if self.given is None and self.given_other is not None:
            raise InputError("other was given without text. It is the second of two texts. Give both.")

    @cached_property
    def text(self) -> Trace:
        """The trace of the reader's text, checked."""
        return self._traced(TEXT if self.given is None else self.given)

    @property
    def has_own_pair(self) -> bool:
        """True where the first step compares the reader's own two texts, or the lesson's text was asked for."""
        return self.given is None or self.given_other is not None

    @cached_property
    def pair(self) -> Comparison | None:
        """Two texts that differ in a late word; None where the model cannot read the lesson's own."""
        if self.given_other is not None:
            return Comparison(self.text, self._traced(self.given_other))
        return self._own_pair(TEXT, OTHER)

    @cached_property
    def front(self) -> Comparison | None:
        """The lesson's pair with the clue in front of "it"; None where the model cannot read it."""
        return self._own_pair(FRONT, FRONT_OTHER)

    @cached_property
    def search(self) -> ItSearch | None:
        """The search for a head whose row of "it" follows the meaning; None where the model cannot read the pairs."""
        return None if self.front is None else search_it_head(self.model)

    @cached_property
    def table(self) -> HeadScores:
        """Scores of every head, on random blocks."""
        return score_heads(self.model, kinds=KINDS)

    @cached_property
    def repeated(self) -> Repeated:
        """Loss on random blocks, and what taking out the strongest heads does."""
        return repeat_blocks(self.model, self.table, KINDS)

    @cached_property
    def block(self) -> Trace:
        """A short random block that comes twice."""
        return readable_block(self.model)

    @cached_property
    def it(self) -> int | None:
        """Where "it" stands in the reader's text, or None."""
        return it_position(self.text.tokens)

    @property
    def query(self) -> int:
        """The token whose row the lesson follows, which is "it" or else the last one."""
        return len(self.text) - 1 if self.it is None else self.it

    @cached_property
    def head(self) -> HeadName:
        """The head the lesson follows, the one whose row is easiest to read.

        That is the head whose largest share is nearest to 60 %, and goes neither to the first token nor to the
        looking token itself; where no head looks so, the one that gives most to other tokens than the first.
        """
        query = self.query
        rows = self.text.pattern[:, :, query, : query + 1]
        largest, where = rows.max(-1)
        clear = (where > 0) & (where < query)
        if clear.any():
            distance = (largest - _CLEAR).abs().masked_fill(~clear, torch.inf)
            return HeadName(*divmod(int(distance.argmin()), self.text.n_heads))
        return HeadName(*divmod(int(rows[..., 1:].sum(-1).argmax()), self.text.n_heads))

    def key(self, head: HeadName, query: int) -> int:
        """The key to look at: the one with the largest share, the first token left out where there is another."""
        row = self.text.pattern[head.layer, head.head, query, : query + 1].clone()
        if query > 0:
            row[0] = -1
        return int(row.argmax())

    @property
    def is_rotary(self) -> bool:
        """True where queries and keys are turned by an angle that depends on their positions."""
        return getattr(self.model.raw.cfg, "positional_embedding_type", "standard") == "rotary"

    def agreement(self, *stages: str) -> float:
        """The largest error of these stages against the model's own hooks, in the reader's text."""
        return max((self.text.errors().get(stage, 0.0) for stage in stages), default=0.0)

    def vocabulary(self, head: HeadName, query: int, n: int = 5) -> list[tuple[str, float]]:
        """What z W_O points at in the vocabulary: the tokens with the largest (z W_O) . W_U, centred, largest first."""
        weights = self.model.unembedding().detach().float().cpu()
        scores = self.text.head(head).written[query] @ weights
        scores = scores - scores.mean()
        values, ids = scores.topk(min(n, len(scores)))
        return [(self._label(int(i)), float(v)) for v, i in zip(values, ids, strict=True)]

    def gather(self) -> None:
        """Measure everything now, with a bar on standard error where it takes long."""
        parts: list[tuple[str, Callable[[], object]]] = [
            ("reading the texts", lambda: (self.text, self.pair, self.front, self.block)),
            ("scoring every head", lambda: self.table),
            ('looking for a head that follows "it"', lambda: self.search),
            ("taking heads out, one by one", lambda: self.repeated),
        ]
        for _ in with_progress(self.model, parts):
            pass

    def _label(self, token_id: int) -> str:
        from lensons.tokens import describe

        tokens = describe(self.model, [token_id])
        return tokens.labels[0] or visible(str(token_id))

    def _own_pair(self, a: str, b: str) -> Comparison | None:
        if self.model.tokenizer is None:
            return None
        try:
            return Comparison(self._traced(a), self._traced(b))
        except InputError:  # longer than what the model reads at once
            return None

    def _traced(self, text: object) -> Trace:
        same = text is self.given or (isinstance(text, str) and isinstance(self.given, str) and text == self.given)
        if same and "text" in self.__dict__:
            return self.text
        return checked(trace_tokens(self.model, read(self.model, text)))


def checked(found: Trace) -> Trace:
    """The same trace, once every stage agreed with the model's own hooks. Nothing unchecked is shown."""
    found.check()
    return found


def readable_block(model: LoadedModel) -> Trace:
    """A short random block that comes twice, traced and checked; of several, the one that is easiest on the eye."""
    longest = min(SHOWN_BLOCK, (model.n_ctx - 1) // 2)
    tried = repeated_blocks(model, 32, longest, seed=1).ids
    read_as = [(read(model, list(ids)), ids) for ids in tried]
    tokens, _ = min(read_as, key=lambda entry: sum(not label.strip("␣").isalpha() for label in entry[0].labels))
    return checked(trace_tokens(model, tokens))


def with_progress(model: LoadedModel, parts: list[tuple[str, Callable[[], object]]]) -> list[object]:
    """Do one part after the other; where they take long and a person is watching, say which."""
    size = model.n_layers * model.d_model**2 * 12
    if size < _LARGE or not sys.stderr.isatty():
        return [part() for _, part in parts]
    from tqdm import tqdm

    done = []
    with tqdm(total=len(parts), file=sys.stderr, leave=False) as bar:
        for name, part in parts:
            bar.set_description(name)
            done.append(part())
            bar.update()
    return done
