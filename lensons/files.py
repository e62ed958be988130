"""Writing a file whole or not at all."""

import os
import secrets
import stat
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
        scrap = place.parent / f".{place.name[:50]}.{secrets.token_hex(8)}"
        # Made as any new file is, with the permissions that the process gives; in place of a private one as private.
        rights = 0o666 if mode is None else 0o600
        with open(scrap, "xb", opener=lambda name, flags: os.open(name, flags, rights)) as file:
            temporary = scrap
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
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
