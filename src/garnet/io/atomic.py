"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from garnet.errors import GarnetError
from garnet.io.failures import cannot_write, writing
from garnet.io.marker import scratch_of
from garnet.io.publish import publish
from garnet.io.removal import remove
from garnet.io.scratch import Scratch, discard, left_behind


@contextmanager
def atomic_path(path: str | Path, *, durable: bool = True) -> Iterator[Path]:
    """A path to write to, which becomes `path` if the block succeeds and is removed if it fails.

    Whatever was at `path` stays as it was until the new file is complete, and the new file takes its permissions. A
    link is followed, so the file it points to is replaced and not the link. Until it is complete, the file is in its
    own hidden directory in the same folder; if the process is killed, the next call for `path` removes that.

    Args:
        path: where the file should end up; its folder must exist.
        durable: wait until the file would survive a power failure; unnecessary for what can be recomputed.

    Yields:
        An empty file, to be written by the block.

    Raises:
        GarnetError: the folder is missing or not writable, `path` is a folder, or the block met a file system error,
            such as a full disk.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "result.txt"
        >>> with atomic_path(target) as unfinished:
        ...     _ = unfinished.write_text("done")
        >>> target.read_text()
        'done'
    """
    target = Path(path)
    if scratch_of(target) is not None:
        with _written(target.with_name(f"tmp-{secrets.token_hex(8)}"), target, path, durable) as unfinished:
            yield unfinished
        return
    try:
        target = target.resolve()
        if not target.parent.is_dir():
            raise GarnetError(f"Cannot write {path}: the folder {target.parent} does not exist.")
        if target.is_dir():
            raise GarnetError(f"Cannot write {path}: it is a folder.")
        if target.exists() and not target.is_file():
            raise GarnetError(f"Cannot write {path}: it is not a regular file.")
        for folder, marker in left_behind(target.parent, target):
            if marker.key is None:
                discard(folder, marker)
        scratch = Scratch.make(target.parent, output=target)
    except (OSError, ValueError, RuntimeError) as error:
        raise cannot_write(path, error) from error
    with scratch, _written(scratch.folder / "unfinished", target, path, durable) as unfinished:
        yield unfinished


@contextmanager
def _written(unfinished: Path, target: Path, said: str | Path, durable: bool) -> Iterator[Path]:
    with writing(said):
        unfinished.touch(exist_ok=False)
        try:
            yield unfinished
            if durable:
                with unfinished.open("r+b") as stream:
                    os.fsync(stream.fileno())
            publish(unfinished, target, replace=True)
        finally:
            remove(unfinished)
