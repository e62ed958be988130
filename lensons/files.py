"""Writing a file whole or not at all."""

import os
import stat
import tempfile
from pathlib import Path

from lensons.errors import FileError, InputError


def as_path(given: object) -> Path:
    """A path, given as text or as a Path."""
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"{given!r:.100} is not a path. Allowed are a text and a Path. Give one of those.")
    return Path(given)


def written_whole(path: str | os.PathLike[str], content: bytes | str) -> Path:
    """Write ``content`` next to ``path`` first, then put it in its place in one step.

    An interrupt, a full disk or a folder that may not be written to leaves what was there before. A link stays a
    link: the file it points to is replaced, and keeps its permissions. A device or pipe is written into.

    Raises:
        InputError: what was given is no path.
        FileError: the file cannot be written.
    """
    target = as_path(path)
    temporary = None
    try:
        raw = content.encode("utf-8") if isinstance(content, str) else content
        place = Path(os.path.realpath(target))
        mode = place.stat().st_mode if place.exists() else None
        if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            place.write_bytes(raw)  # /dev/stdout, a named pipe: nothing there to be lost, and it must not be replaced
            return target
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=f".{place.name[:50]}.", delete=False) as file:
            temporary = Path(file.name)
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask() if mode is None else stat.S_IMODE(mode))
        temporary.replace(place)
    except (OSError, ValueError) as error:  # ValueError: NUL in the name, half of a surrogate pair in the text
        raise FileError(
            f"{str(target)!r} cannot be written ({getattr(error, 'strerror', None) or error}). "
            "Allowed is a file in a folder that exists and may be written to. Choose another place."
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
    return target


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
