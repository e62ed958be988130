"""lensons: how attention works inside GPT-2, shown on the model's own numbers.

Names are loaded when they are first used, so ``import lensons`` itself is quick and loads neither torch nor
TransformerLens.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lensons._version import __version__

# Public name -> the module that defines it.
_WHERE = {
    "AttentionLesson": "lensons.lessons",
    "Check": "lensons.tracing",
    "HeadName": "lensons.heads",
    "HeadScores": "lensons.scoring",
    "InductionLesson": "lensons.lessons",
    "LensonsError": "lensons.errors",
    "LensonsWarning": "lensons.errors",
    "Lesson": "lensons.lessons",
    "LoadedModel": "lensons.models",
    "Tokens": "lensons.tokens",
    "Trace": "lensons.tracing",
    "ablate_heads": "lensons.ablation",
    "head_card": "lensons.ablation",
    "load_model": "lensons.models",
    "score_heads": "lensons.scoring",
    "trace": "lensons.tracing",
    "weight_scores": "lensons.weights",
}
_MODULES = {"errors", "figures", "lessons", "scores", "toy"}

if TYPE_CHECKING:
    from lensons import errors as errors
    from lensons import scores as scores
    from lensons.ablation import ablate_heads as ablate_heads
    from lensons.ablation import head_card as head_card
    from lensons.errors import LensonsError as LensonsError
    from lensons.errors import LensonsWarning as LensonsWarning
    from lensons.heads import HeadName as HeadName
    from lensons.lessons import AttentionLesson as AttentionLesson
    from lensons.lessons import InductionLesson as InductionLesson
    from lensons.lessons import Lesson as Lesson
    from lensons.models import LoadedModel as LoadedModel
    from lensons.models import load_model as load_model
    from lensons.scoring import HeadScores as HeadScores
    from lensons.scoring import score_heads as score_heads
    from lensons.tokens import Tokens as Tokens
    from lensons.toy import training_record as toy_training
    from lensons.tracing import Check as Check
    from lensons.tracing import Trace as Trace
    from lensons.tracing import trace as trace
    from lensons.weights import weight_scores as weight_scores

__all__ = [
    "AttentionLesson",
    "Check",
    "HeadName",
    "HeadScores",
    "InductionLesson",
    "LensonsError",
    "LensonsWarning",
    "Lesson",
    "LoadedModel",
    "Tokens",
    "Trace",
    "__version__",
    "ablate_heads",
    "errors",
    "head_card",
    "load_model",
    "score_heads",
    "scores",
    "toy_training",
    "trace",
    "weight_scores",
]


def __getattr__(name: str) -> Any:
    if name == "toy_training":
        value = import_module("lensons.toy").training_record
    elif name in _WHERE:
        value = getattr(import_module(_WHERE[name]), name)
    elif name in _MODULES:
        return import_module(f"lensons.{name}")
    else:
        raise AttributeError(f"module 'lensons' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
