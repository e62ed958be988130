"""What the page's own script needs to answer a reader without a kernel: the trace and the heads' cards, packed small.

Queries, keys and values are float16, scores float32; whatever the page shows of the lesson's own choice is the exact
number from Python. A long text of a large model does not fit: then as many heads as fit are there, and the page
says so.
"""

import base64
import gzip
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor

from lensons.figures.markup import json_block
from lensons.heads import HeadName
from lensons.lessons.evidence import KINDS, Evidence
from lensons.lessons.words import text_file
from lensons.tracing import Trace

MOST_BYTES = 1_400_000
"""Of numbers in the page, before they are packed."""

MARKS = {"previous_token": "▸", "duplicate_token": "≡", "induction": "↻", "first_token": "▾"}


def trace_block(trace: Trace, head: HeadName, query: int, key: int) -> Markup:
    """The trace as a block of JSON for the page's script."""
    heads = _fitting(trace, head)
    n = len(trace)
    below = torch.ones(n, n, dtype=torch.bool).tril()
    layers, index = [h.layer for h in heads], [h.head for h in heads]
    added = trace.written[layers, index].norm(dim=-1) if len(heads) * n < 50_000 else torch.zeros(len(heads), n)
    parts = [
        trace.scores[layers, index][:, below],
        *([trace.pattern[layers, index][:, below]] if trace.unusual else []),
        trace.written_length[layers, index],
        added,
        *(vectors[layers, index].half() for vectors in (trace.q, trace.k, trace.v)),
    ]
    words = text_file("attention")
    data = {
        "labels": trace.tokens.labels,
        "d": trace.d_head,
        "scale": trace.scale,
        "heads": [list(h) for h in heads],
        "all": len(heads) == trace.n_layers * trace.n_heads,
        "unusual": trace.unusual is not None,
        "chosen": {"head": heads.index(head), "query": query, "key": key},
        "words": {
            **{name: figure for step in ("grid", "queries-and-keys", "scores-to-shares", "mixing-values")
               for name, figure in words[step]["figures"].items()},
            "choose": text_file("page")["choose"],
            "playground": text_file("page")["playground"],
        },
        "packed": _packed(parts),
    }  # fmt: skip
    return _script("lensons-trace", data)


def heads_block(evidence: Evidence) -> Markup:
    """Scores, patterns and ablations of all heads as a block of JSON for the page's script."""
    table, repeated = evidence.table, evidence.repeated
    each = {head.dotted: [a.change.first, a.change.second] for head, a in repeated.each.items()}
    random = next(iter(repeated.each.values())).random_mean.second if repeated.each else None
    names = text_file("attention")["kinds"]
    data = {
        "kinds": [
            {
                "kind": kind,
                "name": names[kind],
                "mark": MARKS[kind],
                "chance": _plain(table.chance[kind]),
                "value": _rows(table.values[kind]),
                "low": _rows(table.low[kind]),
                "high": _rows(table.high[kind]),
            }
            for kind in KINDS
        ],
        "removed": each,
        "random": random,
        "text": _pictures(evidence.text),
        "block": _pictures(evidence.block),
        "words": text_file("page")["card"],
    }
    return _script("lensons-heads", data)


def _pictures(trace: Trace, most: int = 64) -> dict[str, Any] | None:
    """Every head's pattern for a small picture: 8 bits a cell, the square root of the share."""
    n = len(trace)
    if n > most:
        return None
    below = torch.ones(n, n, dtype=torch.bool).tril()
    cells = (trace.pattern.flatten(0, 1)[:, below].clamp(0, 1).sqrt() * 255).round().to(torch.uint8)
    return {"labels": trace.tokens.labels, "packed": _packed([cells])}


def _fitting(trace: Trace, chosen: HeadName) -> list[HeadName]:
    """The heads whose numbers fit into the page: all, or the chosen one, its layer and the layers around it."""
    every = [HeadName(layer, head) for layer in range(trace.n_layers) for head in range(trace.n_heads)]
    n = len(trace)
    each = n * trace.d_head * 6 + n * (n + 1) * (4 if trace.unusual else 2) + 8 * n
    room = max(1, MOST_BYTES // each)
    nearest = sorted(every, key=lambda h: (h != chosen, abs(h.layer - chosen.layer), h))
    return sorted(nearest[:room])


def _packed(parts: list[Tensor]) -> str:
    raw = b"".join(np.ascontiguousarray(part.numpy()).tobytes() for part in parts)
    return base64.b64encode(gzip.compress(raw, 9, mtime=0)).decode()


def _rows(values: Tensor) -> list[list[float | None]]:
    return [[_plain(float(x)) for x in row] for row in values]


def _plain(value: float) -> float | None:
    return None if value != value else round(value, 6)


def _script(name: str, data: dict[str, Any]) -> Markup:
    return Markup('<script type="application/json" id="{}">{}</script>').format(name, json_block(data))
