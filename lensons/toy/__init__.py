"""The toy model: a small GPT-2-shaped model that ships with lensons, and the record of its training.

It was trained by ``training/make.py`` on text that the project makes itself. It is not GPT-2.
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lensons.errors import FileError

if TYPE_CHECKING:
    from torch import Tensor

_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "training.safetensors")


def toy_folder() -> Path:
    """The folder of the toy model, in Hugging Face format.

    Raises:
        FileError: a file is missing; the message names it.
    """
    folder = Path(str(files("lensons.toy")))
    for name in _FILES:
        if not (folder / name).is_file():
            raise FileError(
                f"The toy model's file {name} is missing from {str(folder)!r}. It ships with lensons. "
                "Install lensons again."
            )
    return folder


@dataclass(frozen=True, eq=False)
class TrainingRecord:
    """What was measured while the toy model was trained.

    Attributes:
        steps: [moment]: the training steps at which it was measured.
        tokens_seen: [moment]: how many tokens it had read by then.
        loss_text: [moment]: loss on held-out text, in nats a token.
        loss_first, loss_second: [moment]: loss on the first and second copy of a random block.
        scores: per kind, [moment, layer, head]; duplicate, previous and induction on blocks, first token on text.
        pattern_steps: [12]: the steps at which patterns were kept.
        sentences: the two sentences they were kept for.
        labels: their tokens.
        patterns: [12, sentence, layer, head, query, key], rounded to 1/255; padded with 0 for the shorter sentence.
        nudged_until: the step until which some heads were nudged into their roles; see the model card.
        seed: of the run.
    """

    steps: "Tensor"
    tokens_seen: "Tensor"
    loss_text: "Tensor"
    loss_first: "Tensor"
    loss_second: "Tensor"
    scores: dict[str, "Tensor"]
    pattern_steps: "Tensor"
    sentences: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    patterns: "Tensor"
    nudged_until: int
    seed: int

    def __repr__(self) -> str:
        return f"TrainingRecord({len(self.steps)} moments over {int(self.steps[-1]):,} steps)"


def training_record() -> TrainingRecord:
    """The record of the toy model's training.

    Raises:
        FileError: the file is missing or broken; the message names it.

    Example:
        >>> record = training_record()
        >>> len(record.steps) >= 40
        True
    """
    path = toy_folder() / "training.safetensors"
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            about: dict[str, Any] = json.loads((file.metadata() or {})["lensons"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        return TrainingRecord(
            **{name: tensors[name] for name in ("steps", "tokens_seen", "loss_text", "loss_first", "loss_second")},
            scores={kind: tensors["scores"][:, i] for i, kind in enumerate(about["kinds"])},
            pattern_steps=tensors["pattern_steps"],
            sentences=tuple(about["sentences"]),
            labels=tuple(map(tuple, about["labels"])),
            patterns=tensors["patterns"].float() / 255,
            nudged_until=int(about["nudged_until"]),
            seed=int(about["seed"]),
        )
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise FileError(
            f"The toy model's training record {str(path)!r} cannot be read ({error}). Install lensons again."
        ) from error
