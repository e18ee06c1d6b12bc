"""How finished files leave the directory of their run. No other module moves or replaces a file."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from garnet.errors import GarnetError
from garnet.io.marker import ALL_REPLACED, EXCHANGING, NOTES, is_exchanging, scratch_of
from garnet.io.removal import remove, remove_empty
from garnet.io.scratch import Scratch

_STAGED, _REPLACED = "staged", "replaced"


def publish(staged: Path, target: Path, *, replace: bool) -> None:
    """Move a finished file from a run's directory to where it belongs, at once or not at all.

    Args:
        staged: the file, in the directory of a run.
        target: its place, in a folder that exists; not a link.
        replace: whether an existing file may be replaced; the new file takes its permissions.

    Raises:
        GarnetError: the target exists and may not be replaced, or the staged file is in no run's directory.
        OSError: the system refuses.
    """
    home = scratch_of(staged)
    if home is None:
        raise _astray(staged)
    try:
        if replace:
            if home != scratch_of(target):
                with suppress(FileNotFoundError):
                    staged.chmod(stat.S_IMODE(target.stat().st_mode))
            staged.replace(target)
        else:
            _move_in(staged, target)
    except FileExistsError:
        raise GarnetError(f"Cannot write {target}: a file of this name has appeared meanwhile.") from None
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with Scratch.make(target.parent, output=target) as near:
            copy = near.folder / _STAGED
            shutil.copyfile(staged, copy)
            _copy_attributes(staged, copy)
            publish(copy, target, replace=replace)
        remove(staged)


def publish_folder(staged: Path, target: Path, *, old: Iterable[str], last: str) -> None:
    """Move a finished folder from a run's directory to where it belongs.

    If there is no folder, or an empty one, it appears at once; an earlier result is replaced as a whole. If that
    contains foreign files, these stay, and its own are replaced one by one. After a kill, the same call continues;
    until then, nothing removes the run's directory, which holds the earlier result.

    Args:
        staged: the folder, in the directory of a run.
        target: its place; absent, empty, or an earlier result.
        old: names of the files of the earlier result, including the manifest.
        last: name of the manifest, without which the folder is unfinished.

    Raises:
        GarnetError: the place is none of these, or has foreign files where new ones belong.
        OSError: the system refuses.
    """
    home = scratch_of(staged)
    if home is None:
        raise _astray(staged)
    if home.stat().st_dev != target.parent.stat().st_dev:
        _publish_from_afar(staged, target, old, last)
        return
    if not is_exchanging(home):
        if not target.exists() or not any(target.iterdir()):
            if target.exists():
                staged.chmod(stat.S_IMODE(target.stat().st_mode))
                if sys.platform == "win32":
                    remove_empty(target)
            staged.rename(target)
            return
        _require_exchangeable(staged, target, set(old), last)
        staged.chmod(stat.S_IMODE(target.stat().st_mode))
        if _exchanged(staged, target, home / _REPLACED, set(old)):
            return
        (home / EXCHANGING).write_text(staged.name)
    _exchange_one_by_one(home, staged, target, old, last)


def _astray(staged: Path) -> GarnetError:
    return GarnetError(f"Cannot move {staged}: the directory of this run is gone, or no longer its own.")


def _move_in(staged: Path, target: Path) -> None:
    """Move a file to a free name; a taken name is an error, even if it was free a moment ago."""
    try:
        os.link(staged, target)
    except FileExistsError:
        if not staged.samefile(target):  # the same, if a run was killed right after this
            raise
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise
        # Without hard links, there is a moment in which the name could be taken.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
        staged.rename(target)
        return
    remove(staged)


def _require_exchangeable(staged: Path, target: Path, old: set[str], last: str) -> None:
    """Refuse a folder that is no longer an earlier result, or has foreign files in the way, before anything moves."""
    there = {path.name: path for path in target.iterdir()}
    if not old or last not in there:
        raise GarnetError(f"Cannot write into {target}: it has got files that are no result of ours meanwhile.")
    new = {path.name for path in staged.iterdir()}
    wrong = [name for name in there if name in new - old or (name in old and not _is_plain(there[name]))]
    if wrong:
        raise GarnetError(f"Cannot write into {target}: its {min(wrong)} is not of the earlier result; move it away.")


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _exchanged(staged: Path, target: Path, aside: Path, old: set[str]) -> bool:
    """Replace a folder that has only its own files by another; returns whether that was possible."""
    if not {path.name for path in target.iterdir()} <= old:
        return False
    target.rename(aside)
    try:
        # What has appeared in between stays where it is.
        if {path.name for path in aside.iterdir()} <= old:
            staged.rename(target)
            return True
    except BaseException:
        aside.rename(target)
        raise
    aside.rename(target)
    return False


def _exchange_one_by_one(home: Path, staged: Path, target: Path, old: Iterable[str], last: str) -> None:
    """Move the old files out of a folder and the new ones in, the manifest first and last; or continue doing so."""
    # Once all are out, a file with an old name is a new one.
    if not (home / ALL_REPLACED).exists():
        (home / _REPLACED).mkdir(exist_ok=True)
        for name in sorted(old, key=lambda name: name != last):
            if _is_plain(target / name):
                (target / name).replace(home / _REPLACED / name)
        (home / ALL_REPLACED).touch()
    for path in sorted(staged.iterdir(), key=lambda path: (path.name == last, path.name)):
        publish(path, target / path.name, replace=False)


def _publish_from_afar(staged: Path, target: Path, old: Iterable[str], last: str) -> None:
    """Copy a folder to the file system of its place first."""
    with Scratch.claim(target, key={"from": str(staged)}) as near:
        copy, half = near.folder / _STAGED, near.folder / "half"
        if not copy.exists():
            remove(half)
            shutil.copytree(staged, half)
            half.rename(copy)
            (near.folder / NOTES.replace("*", "copied")).touch()
        publish_folder(copy, target, old=old, last=last)
    remove(staged)


def _copy_attributes(source: Path, target: Path) -> None:
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(target, name, os.getxattr(source, name))
