"""Where the library may write: what is refused before any work begins."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from garnet.errors import GarnetError, ParameterError
from garnet.io.failures import cannot_write

_SHOWN = 3
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def require_file(path: str | Path, *, inputs: Iterable[Path] = (), overwrite: bool = True) -> None:
    """Fail now, before hours of work, if a file could not be written there, or would replace one.

    Args:
        path: the file.
        inputs: files that are read; none is replaced unless asked for.
        overwrite: whether an existing file may be replaced.

    Raises:
        GarnetError: it cannot be written, or may not be replaced.
    """
    with _asking(path):
        path = Path(path)
        _require_name(path)
        if path.is_dir():
            raise GarnetError(f"Cannot write {path}: it is a folder; give a file in it.")
        if path.exists() and not path.is_file():
            raise GarnetError(f"Cannot write {path}: it is not a regular file.")
        parent = path.resolve().parent
        if not parent.is_dir():
            raise GarnetError(f"Cannot write {path}: the folder {parent} does not exist.")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise GarnetError(f"Cannot write {path}: the folder {parent} is read-only.")
        if overwrite or not path.exists():
            return
        if any(_is_same(path, other) for other in inputs):
            raise ParameterError(f"{path} is read by this command; choose another file, or say --overwrite.")
        raise GarnetError(f"{path} exists already; choose another name, or say --overwrite to replace it.")


def require_other(path: Path, read: Path) -> None:
    """Refuse to write to a file that is also read, under whatever name.

    Raises:
        ParameterError: it is the same file.
    """
    if _is_same(path, read):
        raise ParameterError(f"{path} is read by this command; choose another file.")


def require_apart(*paths: Path | None) -> None:
    """Refuse to write two things to one file.

    Raises:
        ParameterError: two are the same.
    """
    taken: set[Path] = set()
    for path in paths:
        if path is None:
            continue
        with _asking(path):
            if path.resolve() in taken:
                raise ParameterError(f"{path} is written twice by this command; choose another file for one of them.")
            taken.add(path.resolve())


def require_folder(path: Path, *, inputs: Iterable[Path] = ()) -> Path:
    """Refuse, before any work is done, a folder in which nothing may be written, whatever it holds.

    Args:
        path: the folder, which need not exist.
        inputs: files and folders that are read; none of them may be in it.

    Returns:
        Its absolute path, free of links.

    Raises:
        GarnetError: it is a place such as the root or the home folder, or holds an input; or it is a file, or its
            parent does not exist.
    """
    with _asking(path):
        _require_name(path)
        target = path.resolve()
        what = _special(target)
        if what is None and any(_holds(target, other) for other in inputs):
            what = "the folder of the input, or one that contains it"
        if what is not None:
            raise GarnetError(f"Cannot write into {path}: it is {what}; give a new folder, such as {path / 'clean'}.")
        if target.exists() and not target.is_dir():
            raise GarnetError(f"Cannot write {path}: it is a file, and the result is a folder; choose another name.")
        if not target.parent.is_dir():
            raise GarnetError(f"Cannot write {path}: the folder {target.parent} does not exist; make it first.")
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise GarnetError(f"Cannot write {path}: the folder {target.parent} is read-only.")
    return target


def require_scratch(path: Path) -> Path:
    """The absolute path of a folder for intermediate files, which must exist.

    Raises:
        GarnetError: it does not exist, or cannot be written to.
    """
    with _asking(path):
        if not path.is_dir() or not os.access(path, os.W_OK | os.X_OK):
            raise GarnetError(f"Cannot keep intermediate files in {path}: it is no folder that can be written into.")
        return path.resolve()


def strangers(folder: Path, ours: Iterable[str] = ()) -> str:
    """The names of some files in a folder that are not ours, for a sentence; empty if there are none."""
    names = sorted({path.name for path in folder.iterdir()} - set(ours))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _special(target: Path) -> str | None:
    """The kind of a folder that is never written to."""
    if target == target.parent:
        return "the root of the file system"
    try:
        if target == Path.home().resolve():
            return "the home folder"
    except RuntimeError:  # nobody's
        pass
    if target == Path.cwd():
        return "the working directory"
    return "a mount point" if os.path.ismount(target) else None


def _is_same(path: Path, other: Path) -> bool:
    """Whether two paths lead to one file, by name, link or mount."""
    try:
        return path.samefile(other)
    except (OSError, ValueError):
        return False


def _holds(target: Path, other: Path) -> bool:
    """Whether an input is the folder, or is in it, under whatever name."""
    try:
        inner = other.resolve()
    except (OSError, ValueError, RuntimeError):
        return False
    return other.exists() and any(_is_same(target, folder) for folder in (inner, *inner.parents))


def _require_name(path: Path) -> None:
    """Refuse names that no line of text could show."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise GarnetError(f"Cannot write {str(path)!r}: its name is not valid text; choose another name.") from None
    if _CONTROL.search(str(path)):
        raise GarnetError(f"Cannot write {str(path)!r}: its name has a control character; choose another name.")


@contextmanager
def _asking(path: str | Path) -> Iterator[None]:
    """Turn the system's error about an impossible path into one sentence."""
    try:
        yield
    except GarnetError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        text = str(path)
        raise cannot_write(text if len(text) <= 300 else f"{text[:100]}...{text[-100:]}", error) from error
