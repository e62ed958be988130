"""Which key is the right one, for each query and each kind of head. Token ids and masks only; no pattern.

Every score is built from the two tensors made here: the *targets* (which keys a perfect head would look at) and
the *queries* (which rows have such a key, and so count).
"""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float32, Int
from torch import Tensor

from lensons.errors import InputError
from lensons.options import whole_number
from lensons.scores.patterns import plain

Kind = Literal["previous_token", "duplicate_token", "induction", "first_token", "current_token", "entropy"]
KINDS: tuple[str, ...] = get_args(Kind)
NEEDS_IDS = frozenset({"duplicate_token", "induction"})


class Positions:
    """What is known about each position of a prompt, or of a batch of prompts.

    Attributes:
        real: not a pad, [batch, pos].
        special: BOS, or whatever else the caller marked; never a token that repeats, [batch, pos].
        ids: token ids, [batch, pos], or None where no kind needs them.
        batched: whether the caller's ids or mask had a batch axis.
    """

    def __init__(
        self,
        kind: str,
        token_ids: object = None,
        n_pos: int | None = None,
        bos: bool | Tensor = False,
        attention_mask: object = None,
    ) -> None:
        if kind not in KINDS:
            raise InputError(f"{kind!r} is not a kind of score. Allowed are {', '.join(KINDS)}. Choose one of those.")
        ids = None if token_ids is None else _matrix(token_ids, "token_ids")
        mask = None if attention_mask is None else _matrix(attention_mask, "attention_mask")
        self.kind, self.ids = kind, ids
        if kind in NEEDS_IDS:
            self.known_ids()
        shapes = [tuple(t.shape) for t in (ids, mask) if t is not None]
        if n_pos is None and not shapes:
            raise InputError(f"How many positions? {kind} was asked for with neither token_ids nor n_pos. Give one.")
        n_pos = None if n_pos is None else whole_number("n_pos", n_pos, 1)
        length = shapes[0][-1] if shapes else int(n_pos or 0)
        if n_pos is not None and n_pos != length:
            raise InputError(
                f"token_ids or attention_mask have {length} positions, but n_pos is {n_pos}. They must be equal. "
                "Are these the ids of this pattern?"
            )
        batch = max((shape[0] for shape in shapes if len(shape) == 2), default=0)
        for name, given in (("token_ids", ids), ("attention_mask", mask)):
            if given is not None and not _goes_with(given.shape, batch, length):
                raise InputError(
                    f"{name} is shaped {list(given.shape)}, which does not go with {batch or 1} x {length} positions. "
                    "token_ids and attention_mask must have the same shape."
                )
        device = next((t.device for t in (ids, mask) if t is not None), torch.device("cpu"))
        rows = max(batch, 1)
        self.batched = batch > 0
        self.ids = None if ids is None else ids.expand(rows, length)
        self.real = torch.ones(rows, length, dtype=torch.bool, device=device)
        if mask is not None:
            self.real = real_positions(mask).expand(rows, length).to(device)
        self.special = self._marked(bos, rows, length, device) & self.real
        self.n = length

    def _marked(self, bos: object, rows: int, length: int, device: torch.device) -> Bool[Tensor, "batch pos"]:
        if isinstance(bos, Tensor):
            if bos.dtype != torch.bool or bos.ndim not in (1, 2) or not _goes_with(bos.shape, rows, length):
                raise InputError(
                    f"bos is a {bos.dtype} tensor shaped {list(bos.shape)}. Allowed are True, False, or a bool tensor "
                    f"shaped like token_ids, whose last axis is {length}."
                )
            return bos.to(device).expand(rows, length)
        if type(bos).__name__ not in ("bool", "bool_"):  # Python's or NumPy's; 1 and "yes" are no answers
            raise InputError(
                f"bos={bos!r:.100} was given. Allowed are True, False, or a bool tensor shaped like token_ids."
            )
        return self.first() if bos else torch.zeros(rows, length, dtype=torch.bool, device=device)

    def first(self) -> Bool[Tensor, "batch pos"]:
        """The first real position of each prompt."""
        return self.real & (self.real.cumsum(-1) == 1)

    def previous(self) -> Int[Tensor, "batch pos"]:
        """For each position, the real position before it; -1 where there is none."""
        places = torch.arange(self.n, device=self.real.device).expand_as(self.real)
        latest = places.masked_fill(~self.real, -1).cummax(-1).values
        return torch.cat([torch.full_like(latest[:, :1], -1), latest[:, :-1]], dim=-1)

    def known_ids(self) -> Int[Tensor, "*batch pos"]:
        """The ids, where a kind cannot do without."""
        if self.ids is None:
            raise InputError(
                f"{self.kind} compares tokens, but no token_ids were given. Pass the ids the pattern is for."
            )
        return self.ids

    def same_token(self, ordinary: Bool[Tensor, "batch pos"]) -> Bool[Tensor, "batch query key"]:
        """Where the key holds the same token as the query, and both are among the ordinary ones. In any order."""
        ids = self.known_ids()
        return (ids[:, :, None] == ids[:, None, :]) & ordinary[:, :, None] & ordinary[:, None, :]

    def repeats(self) -> Bool[Tensor, "batch query key"]:
        """The same, where neither a pad nor a special token is ordinary."""
        return self.same_token(self.real & ~self.special)


def real_positions(mask: Tensor) -> Bool[Tensor, "*batch pos"]:
    """A tokenizer's attention mask as bools; a mask to be added to scores is another thing, and refused."""
    if mask.dtype != torch.bool and not bool(((mask == 0) | (mask == 1)).all()):
        raise InputError(
            f"attention_mask holds numbers from {mask.min().item()} to {mask.max().item()}. Allowed are 1 for a real "
            "token and 0 for a pad, as a tokenizer gives them."
        )
    return mask != 0


def _goes_with(shape: tuple[int, ...], rows: int, length: int) -> bool:
    """Whether one row for all prompts, or one row for each, of that many positions."""
    return shape[-1] == length and (len(shape) == 1 or shape[0] in (1, rows))


def _matrix(given: object, name: str) -> Int[Tensor, "*batch pos"]:
    """Ids or a mask as a tensor; a list of lists, an array and a tensor are all the same."""
    if isinstance(given, Tensor):
        tensor = given
    elif hasattr(given, "__array__") or isinstance(given, list | tuple):
        try:
            tensor = torch.as_tensor(plain(given))
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"{name} cannot be read as whole numbers ({error}). Allowed are a list of ids, a list of equally long "
                "lists, or a tensor shaped [pos] or [batch, pos]."
            ) from error
    else:
        raise InputError(
            f"{name} is a {type(given).__name__}. Allowed are a list of ids, or a tensor shaped [pos] or [batch, pos]."
        )
    no_numbers = (
        tensor.is_floating_point() or tensor.is_complex() or (name == "token_ids" and tensor.dtype == torch.bool)
    )
    if no_numbers or tensor.ndim not in (1, 2) or not tensor.shape[-1]:
        raise InputError(
            f"{name} is {tensor.dtype} shaped {list(tensor.shape)}. Allowed are whole numbers shaped [pos] or "
            "[batch, pos], with at least one position."
        )
    return tensor.detach()


def find_targets(kind: str, at: Positions) -> Bool[Tensor, "batch query key"]:
    """The right keys of each query that counts; a row without any does not count."""
    places = torch.arange(at.n, device=at.real.device)
    earlier = places[:, None] > places[None, :]
    previous = at.previous()
    if kind == "previous_token":
        return (previous[:, :, None] == places) & at.real[:, :, None] & ~at.special[:, None, :]
    if kind == "duplicate_token":
        return at.repeats() & earlier
    if kind == "induction":
        # Key k is right for query q when the token before k is the token at q.
        same = at.repeats()
        before = previous.clamp(min=0)[:, None, :].expand_as(same)
        return same.gather(-1, before) & (previous >= 0)[:, None, :] & at.real[:, None, :] & earlier
    later = (at.real & ~at.first())[:, :, None]
    if kind == "first_token":
        return later & at.first()[:, None, :]
    if kind == "current_token":
        return later & torch.eye(at.n, dtype=torch.bool, device=at.real.device)
    return later & at.real[:, None, :] & (earlier | torch.eye(at.n, dtype=torch.bool, device=at.real.device))


def find_detector_targets(kind: str, at: Positions) -> Bool[Tensor, "batch query key"]:
    """The target cells of TransformerLens' ``detect_head``: BOS is an id like any other, and k may be q itself."""
    if kind == "entropy":
        raise InputError('measure="mass_share" was asked for entropy, which has no targets. Use "query_mean".')
    causal = torch.ones(at.n, at.n, dtype=torch.bool, device=at.real.device).tril()
    plain = at.real[:, :, None] & at.real[:, None, :]
    if kind in NEEDS_IDS:
        same = at.same_token(at.real) & causal.tril(-1)
        if kind == "duplicate_token":
            return same
        previous = at.previous()
        shifted = same.gather(-1, previous.clamp(min=0)[:, None, :].expand_as(same))
        return shifted & (previous >= 0)[:, None, :] & plain & causal
    if kind == "first_token":
        return plain & at.first()[:, None, :]
    if kind == "current_token":
        return plain & torch.eye(at.n, dtype=torch.bool, device=at.real.device)
    places = torch.arange(at.n, device=at.real.device)
    return (at.previous()[:, :, None] == places) & at.real[:, :, None]


def targets(
    kind: Kind,
    token_ids: object = None,
    n_pos: int | None = None,
    *,
    bos: bool | Tensor = False,
    attention_mask: object = None,
) -> Bool[Tensor, "*batch query key"]:
    """The keys that a perfect head of this kind looks at, for each query.

    ==================  ============================================  =====================================
    kind                targets of query q                            queries that count
    ==================  ============================================  =====================================
    previous_token      q - 1                                         q >= 1 (with BOS at 0: q >= 2)
    duplicate_token     every k < q with the same id                  those that have one
    induction           every k, 1 <= k < q, with id[k-1] == id[q]    those that have one
    first_token         the first real position                       every later one
    current_token       q                                             every one but the first
    entropy             every key that can be seen                    every one but the first
    ==================  ============================================  =====================================

    Args:
        kind: one of the names above.
        token_ids: [pos] or [batch, pos]; needed for the second and third kind. Nothing is added to them.
        n_pos: the number of positions, where no ids are given.
        bos: True: the first real position is BOS. A bool tensor shaped like ``token_ids`` marks any special
            positions. A special position is never a token that repeats.
        attention_mask: [batch, pos] or [pos]; 1 is real, 0 a pad, on either side.

    Returns:
        A bool tensor [query, key], or [batch, query, key] where ids or mask have a batch axis.

    Raises:
        InputError: an unknown kind, ids missing, or shapes that do not go together.

    Example:
        >>> targets("induction", [7, 8, 9, 7]).nonzero().tolist()
        [[3, 1]]

    Source: previous-token and duplicate-token heads: Wang et al. 2022, section 3; induction heads: Olsson et al.
    2022, "prefix matching"; first token: Xiao et al. 2023, section 3.1.
    """
    at = Positions(kind, token_ids, n_pos, bos, attention_mask)
    found = find_targets(kind, at)
    return found if at.batched else found[0]


def queries(
    kind: Kind,
    token_ids: object = None,
    n_pos: int | None = None,
    *,
    bos: bool | Tensor = False,
    attention_mask: object = None,
) -> Bool[Tensor, "*batch query"]:
    """The queries that count for this kind: those that have at least one target. Arguments as for :func:`targets`.

    Example:
        >>> queries("duplicate_token", [7, 8, 7]).tolist()
        [False, False, True]
    """
    return targets(kind, token_ids, n_pos, bos=bos, attention_mask=attention_mask).any(-1)


def chance(
    kind: Kind,
    token_ids: object = None,
    n_pos: int | None = None,
    *,
    bos: bool | Tensor = False,
    attention_mask: object = None,
) -> Float32[Tensor, "*batch"]:
    """What a head would score that looks at every token it can see alike, on these very tokens.

    chance = mean over the queries that count of (targets of q) / (keys q can see). For entropy it is 1.

    Arguments and errors as for :func:`targets`. Returns a float32 number between 0 and 1, one for each prompt of a
    batch; NaN where no query counts.

    Example:
        >>> round(float(chance("previous_token", n_pos=7)), 4)
        0.2655
    """
    at = Positions(kind, token_ids, n_pos, bos, attention_mask)
    wanted = find_targets(kind, at)
    seen = at.real.cumsum(-1).clamp(min=1)  # real keys up to and with the query
    shares = wanted.sum(-1).double() / seen
    counted = wanted.any(-1)
    value = torch.where(counted, shares, 0).sum(-1) / counted.sum(-1)  # 0 / 0 is NaN: undefined
    return (value if at.batched else value[0]).to(torch.float32)


_REASONS = {
    "previous_token": "no token has an ordinary token before it",
    "duplicate_token": "no token comes twice",
    "induction": "no token comes twice with another after its first copy",
    "first_token": "there is no token after the first",
    "current_token": "there is no token after the first",
    "entropy": "there is no token after the first",
}


def why_undefined(
    kind: Kind,
    token_ids: object = None,
    n_pos: int | None = None,
    *,
    bos: bool | Tensor = False,
    attention_mask: object = None,
) -> str | list[str | None] | None:
    """Why the score of this kind is NaN for these tokens; None where it is defined. A list for a batch.

    Arguments and errors as for :func:`targets`.

    Example:
        >>> why_undefined("duplicate_token", [464, 2068, 7586, 21831])
        'no token comes twice'
    """
    at = Positions(kind, token_ids, n_pos, bos, attention_mask)
    counted = find_targets(kind, at).any(-1).any(-1).tolist()
    reasons = [None if any_query else _REASONS[kind] for any_query in counted]
    return reasons if at.batched else reasons[0]
