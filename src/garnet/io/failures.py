"""Turns file system errors into one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from garnet.errors import GarnetError


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn system errors during writing, such as a full disk, into one sentence."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: str | Path, error: Exception) -> GarnetError:
    """The message for a path that could not be written for this reason."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return GarnetError(f"Cannot write {path}: {reason[:1].lower()}{reason[1:].rstrip('.')}.")
