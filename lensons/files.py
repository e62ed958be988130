"""Writing a file whole or not at all."""

import os
import tempfile
from pathlib import Path

from lensons.errors import FileError


def written_whole(path: str | os.PathLike[str], content: bytes | str) -> Path:
    """Write ``content`` next to ``path`` first, then put it in its place in one step.

    An interrupt, a full disk or a folder that may not be written to leaves what was there before.

    Raises:
        FileError: the file cannot be written.
    """
    target = Path(path)
    temporary = None
    try:
        raw = content.encode("utf-8") if isinstance(content, str) else content
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name[:50]}.", delete=False) as file:
            temporary = Path(file.name)
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
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
