"""What each tool's score says where the right answer is known: ideal heads, uniform heads, published GPT-2 patterns.

Compared are lensons, TransformerLens' ``detect_head`` (by its own functions, in its three ways), and the stripe that
TransformerLens' demos and ARENA's exercises use: the mean of one diagonal.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformer_lens import head_detector

from benchmarks.measure import Setting
from lensons import scores

REFERENCE = Path(__file__).resolve().parents[2] / "shared" / "reference" / "patterns"
"""Published patterns of GPT-2 small; this part is left out where the folder is missing."""
BLOCKS = (5, 10, 50)
PUBLISHED = (
    ("arena101_L5", "ARENA", 5, 1, "induction", True),
    ("arena101_L5", "ARENA", 5, 5, "induction", True),
    ("arena101_L6", "ARENA", 6, 9, "induction", True),
    ("tl_headdet25_L4", "TransformerLens", 4, 11, "previous_token", True),
    ("te_ex0", "Transformer Explainer", 4, 11, "previous_token", False),
    ("bv_fox10", "BertViz", 4, 11, "previous_token", False),
)
"""File, who published it, layer, head, what the head is known for, and whether the text begins with BOS."""

Score = Callable[[str, torch.Tensor, torch.Tensor, bool], float]


def measure(setting: Setting) -> dict[str, Any]:
    """Scores by every tool of the same patterns."""
    blocks = setting.choose(BLOCKS, BLOCKS[:1])
    ideal = [_row(kind, n, bos, perfect=True) for kind in DIAGONALS for bos in (False, True) for n in blocks]
    uniform = [_row(kind, n, bos, perfect=False) for kind in DIAGONALS for bos in (False, True) for n in blocks]
    found: dict[str, Any] = {"perfect heads": ideal, "uniform heads": uniform}
    if REFERENCE.is_dir():
        found["published patterns of GPT-2 small"] = [_published(*place) for place in PUBLISHED]
    return found


def _lensons(kind: str, pattern: torch.Tensor, ids: torch.Tensor, bos: bool) -> float:
    return float(scores.score(kind, pattern, ids, bos=bos))


def _detector(measure: str, exclude_bos: bool = False) -> Score:
    def score(kind: str, pattern: torch.Tensor, ids: torch.Tensor, bos: bool) -> float:
        wanted = getattr(head_detector, f"get_{kind}_head_detection_pattern")(ids[None])
        return float(
            head_detector.compute_head_attention_similarity_score(
                pattern, wanted, exclude_bos=exclude_bos, exclude_current_token=False, error_measure=measure
            )
        )

    return score


DIAGONALS: dict[str, Callable[[int], int]] = {
    "previous_token": lambda period: 1,
    "duplicate_token": lambda period: period,
    "induction": lambda period: period - 1,
}
"""How far before the query the usual stripe looks, given how far apart the two copies are."""


def _stripe(kind: str, pattern: torch.Tensor, ids: torch.Tensor, bos: bool) -> float:
    """The mean of one diagonal, as the demos take it; undefined where the ids are no block that comes twice."""
    if kind != "previous_token" and not _period(ids):
        return float("nan")
    return float(pattern.diagonal(-DIAGONALS[kind](_period(ids))).mean())


def _period(ids: torch.Tensor) -> int:
    """How far apart the copies are; 0 where the ids are no block that comes twice."""
    for start in (0, 1):
        half = (len(ids) - start) // 2
        if half and (len(ids) - start) % 2 == 0 and torch.equal(ids[start : start + half], ids[start + half :]):
            return half
    return 0


SCORES: dict[str, Score] = {
    "lensons": _lensons,
    "detect_head mul": _detector("mul"),
    "detect_head mul, exclude_bos": _detector("mul", exclude_bos=True),
    "detect_head abs": _detector("abs"),
    "usual stripe": _stripe,
}


def _row(kind: str, block: int, bos: bool, perfect: bool) -> dict[str, Any]:
    """All scores of one made head on a block that comes twice."""
    once = torch.arange(1, block + 1)
    ids = torch.cat([torch.tensor([0] * bos, dtype=torch.long), once, once])
    wanted = scores.targets(kind, ids, bos=bos).float()
    pattern = _perfect(wanted) if perfect else _uniform(len(ids))
    row = {"kind": kind, "block": block, "bos": bos, "tokens": len(ids)}
    row |= {name: _rounded(score(kind, pattern, ids, bos)) for name, score in SCORES.items()}
    return row | {"chance": _rounded(float(scores.chance(kind, ids, bos=bos)))}


def _perfect(wanted: torch.Tensor) -> torch.Tensor:
    """All weight on the target where a query has one, else on the first token: what real heads do."""
    pattern = wanted.clone()
    pattern[wanted.sum(-1) == 0, 0] = 1
    return pattern / pattern.sum(-1, keepdim=True)


def _uniform(n: int) -> torch.Tensor:
    return torch.ones(n, n).tril() / torch.arange(1, n + 1)[:, None]


def _published(name: str, source: str, layer: int, head: int, kind: str, bos: bool) -> dict[str, Any]:
    with np.load(REFERENCE / f"{name}.npz", allow_pickle=False) as file:
        whole, ids = torch.from_numpy(file["pattern"]), torch.from_numpy(file["token_ids"])
    pattern = (whole[layer] if whole.ndim == 4 else whole)[head]
    row = {"head": f"{layer}.{head}", "kind": kind, "from": source, "bos": bos, "tokens": len(ids)}
    row |= {tool: _rounded(score(kind, pattern, ids, bos)) for tool, score in SCORES.items()}
    return row | {"chance": _rounded(float(scores.chance(kind, ids, bos=bos)))}


def _rounded(value: float) -> float | None:
    return None if value != value else round(value, 4)
