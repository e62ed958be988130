"""What it costs to score all heads: time and memory, against the bare forward pass and ``detect_head``, and growth."""

from typing import Any

import torch
from transformer_lens.head_detector import detect_head

import lensons
from benchmarks.measure import Setting, compare, peak_bytes
from benchmarks.subject import Subject, random_gpt2
from lensons import scores
from lensons.prompts import repeated_blocks

FOUR = ("previous_token", "duplicate_token", "induction", "first_token")
DETECTOR = {
    "previous_token": "previous_token_head",
    "duplicate_token": "duplicate_token_head",
    "induction": "induction_head",
}
BATCH = 8


def measure(setting: Setting) -> dict[str, Any]:
    """Everything about scoring."""
    subject = random_gpt2(setting.small)
    prompts, length = setting.choose((32, 101), (4, 21))
    n_ctx = setting.choose(1024, 64)
    few = setting.choose(BATCH, 1)
    usual, long = _ids(subject, prompts, length), _ids(subject, BATCH, n_ctx)
    # detect_head refuses a prompt that fills the context exactly.
    nearly = _ids(subject, 1, n_ctx - 1)
    subject.forward(usual[:1])
    return {
        "four kinds / forward pass": {
            _size(ids): _against_forward(subject, ids, setting.seconds * 2, warm=False) for ids in (usual, long)
        },
        "three kinds / detect_head": {
            _size(ids): _against_detector(subject, ids, setting.seconds) for ids in (usual[:few], nearly)
        },
        "peak memory": {
            _size(usual[:BATCH]): _memory(subject, usual[:BATCH]) | _whole_pass(subject, usual[:BATCH]),
            _size(long): _memory(subject, long),
        },
        "peak memory of detect_head": {_size(usual[:1]): _detector_memory(subject, usual[:1])},
        "growth": _growth(subject, setting),
        "all compositions": _compositions(subject, setting.seconds),
    }


def _ids(subject: Subject, n_prompts: int, length: int) -> Any:
    """BOS and a random block that comes twice; one more token of it where the length is even."""
    made = repeated_blocks(subject.model, n_prompts, (length - 1) // 2)
    return torch.tensor([[*row, *row[1:2]][:length] for row in made.ids])


def _size(ids: Any) -> str:
    return f"{ids.shape[0]} x {ids.shape[1]:,}"


def _bare(subject: Subject, ids: Any) -> None:
    for batch in ids.split(BATCH):
        subject.forward(batch)


def _score(subject: Subject, ids: Any, kinds: Any = FOUR) -> None:
    lensons.score_heads(subject.model, ids, kinds=list(kinds), batch_size=BATCH)


def _against_forward(subject: Subject, ids: Any, seconds: float, warm: bool = True) -> dict[str, Any]:
    works = {"scoring": lambda: _score(subject, ids), "forward pass": lambda: _bare(subject, ids)}
    return compare("scoring", works, seconds, warm=warm)


def _detector(subject: Subject, texts: list[str]) -> None:
    for text in texts:
        for name in DETECTOR.values():
            detect_head(subject.model.raw, text, name, error_measure="mul")


def _against_detector(subject: Subject, ids: Any, seconds: float) -> dict[str, Any]:
    texts = [subject.text(row[1:]) for row in ids]
    for text, row in zip(texts, ids, strict=True):
        assert subject.model.raw.to_tokens(text)[0].tolist() == row.tolist(), "the text's tokens are not the prompt's"
    works = {
        "scoring": lambda: _score(subject, ids, DETECTOR),
        "detect_head": lambda: _detector(subject, texts),
        "forward pass": lambda: _bare(subject, ids),
    }
    return compare("scoring", works, seconds, warm=len(ids) > 1)


def _memory(subject: Subject, ids: Any) -> dict[str, Any]:
    """Peaks in patterns of one layer. What scoring adds is above the same pass, stopped where scoring stops."""
    model = subject.model
    layer = _layer_bytes(subject, ids)
    unwatched = peak_bytes(lambda: model.run(ids, {}, stop_after=("pattern", model.n_layers - 1)))
    scoring = peak_bytes(lambda: _score(subject, ids))
    return {
        "one layer's pattern, megabytes": round(layer / 1e6, 3),
        "scoring": round(scoring / layer, 2),
        "the same pass, unwatched": round(unwatched / layer, 2),
        "added by scoring": round(max(0, scoring - unwatched) / layer, 2),
    }


def _whole_pass(subject: Subject, ids: Any) -> dict[str, Any]:
    return {"forward pass": round(peak_bytes(lambda: subject.forward(ids)) / _layer_bytes(subject, ids), 2)}


def _layer_bytes(subject: Subject, ids: Any) -> int:
    """The size of one layer's pattern in float32."""
    return int(ids.shape[0] * subject.model.n_heads * ids.shape[1] ** 2 * 4)


def _detector_memory(subject: Subject, ids: Any) -> dict[str, Any]:
    layer = _layer_bytes(subject, ids)
    texts = [subject.text(row[1:]) for row in ids]
    theirs = peak_bytes(lambda: _detector(subject, texts))
    ours = peak_bytes(lambda: _score(subject, ids, DETECTOR))
    return {
        "detect_head": round(theirs / layer, 1),
        "scoring": round(ours / layer, 1),
        "ratio": round(ours / theirs, 3),
    }


def _growth(subject: Subject, setting: Setting) -> dict[str, Any]:
    """Scoring / forward pass as one thing grows and the others stay."""
    prompts = setting.choose((8, 16), (2, 4))
    lengths = setting.choose((26, 101, 401), (11, 21))
    layers = setting.choose((3, 6), ())
    n, length = setting.choose((8, 101), (2, 11))
    seconds = setting.seconds / 5
    by_layers = {str(count): random_gpt2(n_layers=count) for count in layers}
    by_layers[str(subject.model.n_layers)] = subject
    return {
        "prompts": {str(count): _against_forward(subject, _ids(subject, count, length), seconds) for count in prompts},
        "tokens": {
            str(count): _against_forward(subject, _ids(subject, n, count), seconds, warm=False) for count in lengths
        },
        "layers": {name: _grown(other, _ids(other, n, length), seconds) for name, other in by_layers.items()},
    }


def _grown(subject: Subject, ids: Any, seconds: float) -> dict[str, Any]:
    memory = _memory(subject, ids)
    return _against_forward(subject, ids, seconds) | {"added by scoring, in patterns": memory["added by scoring"]}


def _compositions(subject: Subject, seconds: float) -> dict[str, Any]:
    """Q-, K- and V-composition of every head with every head, beside one forward pass of 8 x 101 tokens."""
    weights = [subject.model.attention_weights(name) for name in ("W_Q", "W_K", "W_V")]
    w_o = subject.model.output_weights()[0]

    def ours() -> None:
        for kind in ("q", "k", "v"):
            scores.composition(kind, *weights, w_o)

    ids = _ids(subject, BATCH, min(101, subject.model.n_ctx))
    works = {"all compositions": ours, "forward pass": lambda: subject.forward(ids)}
    return compare("all compositions", works, seconds, most=3, warm=False)
