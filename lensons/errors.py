"""The errors lensons raises.

Each message has three sentences: what was given, what is allowed, what to do next. Every class is also
kin of a built-in error, so code that knows nothing of lensons can still catch it.
"""


class LensonsError(Exception):
    """Anything that lensons refuses or cannot do. Catch this to catch them all."""


class InputError(LensonsError, ValueError):
    """A text, a list of ids, a pattern or an option that cannot be used as given."""


class HeadIndexError(LensonsError, IndexError):
    """A layer, head or position that is well written but does not exist in this model."""


class AttentionMissingError(LensonsError, ValueError):
    """Attention weights were asked for, but the model did not hand any out."""


class ModelError(LensonsError, RuntimeError):
    """A model that cannot be found, loaded or used."""


class CheckError(LensonsError, RuntimeError):
    """A number that differs from the model's own hook by more than the tolerance."""


class FileError(LensonsError, OSError):
    """A file that cannot be read or written, or that does not hold what it should."""


class MissingPackageError(LensonsError, ImportError):
    """An optional package is needed for this call and is not installed."""


class LensonsWarning(UserWarning):
    """Something that can be computed but may not mean what it seems to mean."""
