"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from garnet.errors import GarnetError


@contextmanager
def atomic_path(path: str | Path, *, durable: bool = True) -> Iterator[Path]:
    """A temporary path beside `path`, renamed onto it when the block ends well and removed when it does not.

    Whatever was at `path` stays as it was until the new file is complete, and its permissions pass on to the new one.
    A link is followed, so that the file it points to is replaced and not the link.

    Args:
        path: where the file should end up; its folder must exist.
        durable: wait until the file would survive a loss of power; what can be computed again need not.

    Yields:
        An empty file in the same folder, to be written by the block.

    Raises:
        GarnetError: the folder is missing or not writable, `path` is a folder, or the block met an error of the file
            system, such as a full disk.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "result.txt"
        >>> with atomic_path(target) as unfinished:
        ...     _ = unfinished.write_text("done")
        >>> target.read_text()
        'done'
    """
    try:
        target = Path(path).resolve()
        if not target.parent.is_dir():
            raise GarnetError(f"Cannot write {path}: the folder {target.parent} does not exist.")
        if target.is_dir():
            raise GarnetError(f"Cannot write {path}: it is a folder.")
        mode = target.stat().st_mode & 0o777 if target.exists() else None
        # A name of our own, not one made from the target's, which may already be as long as the file system allows.
        unfinished = target.parent / f".{secrets.token_hex(8)}.tmp"
        unfinished.touch(exist_ok=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise _cannot_write(path, error) from error
    try:
        yield unfinished
        if durable:
            with unfinished.open("r+b") as stream:
                os.fsync(stream.fileno())
        if mode is not None:
            unfinished.chmod(mode)
        unfinished.replace(target)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _cannot_write(path: str | Path, error: Exception) -> GarnetError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return GarnetError(f"Cannot write {path}: {reason[:1].lower()}{reason[1:]}.")
