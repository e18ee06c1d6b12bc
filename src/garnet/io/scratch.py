"""Directories of intermediate files. No other module removes, replaces or renames anything.

A run keeps its intermediate files in one hidden directory that it makes itself. The directory's name ends in the run's
id, and a marker file in it has the same id. A file is removed only from such a directory, and what is finished leaves
it by `publish`, which replaces a file only if it is told to.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import socket
import stat
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from garnet.errors import GarnetError

MARKER = "garnet-run.json"
"""The file that tells such a directory from any other; the run at work holds a lock on it."""

State = Literal["at work", "dead", "unknown", "holds an earlier result"]
"""Whether the run of a directory is still there; unknown where the file system has no locks, on another machine.

A dead run may have been killed while it exchanged an earlier result for its own; the directory then holds the former.
"""

_NAME = re.compile(r"\.garnet-([0-9a-f]{16})")
_LONGEST_MARKER = 1 << 20
_STAGED = "staged"
_SPENT = "spent"
_EXCHANGING, _REPLACED, _ALL_REPLACED = "exchanging", "replaced", "all-replaced"
_NOTES = "stage-*.json"
_TRIES, _WAIT = 500, 0.01


@dataclass(frozen=True)
class Marker:
    """What a run wrote down when it made its directory.

    Attributes:
        id: of the run, 16 hex digits.
        output: what it was to write; empty for nothing that stays.
        key: what it was asked for, if it can go on where it was stopped; None if it can only begin anew.
        pid: of its process.
        host: where that was.
        begun: when, in seconds since 1970.
    """

    id: str
    output: str
    key: dict[str, Any] | None
    pid: int
    host: str
    begun: float


class Scratch:
    """A directory that this run made, or took over from one that was stopped, and has to itself.

    It is a context: at its end the directory goes, unless the run can go on (it has a key) and did not end well.

    Attributes:
        folder: the directory.
        marker: what was written down about the run.
    """

    def __init__(self, folder: Path, marker: Marker, lock: int) -> None:
        self.folder, self.marker, self._lock = folder, marker, lock
        self._release = weakref.finalize(self, os.close, lock)

    @classmethod
    def make(cls, parent: Path, *, output: Path | None = None, key: Mapping[str, Any] | None = None) -> Scratch:
        """A new directory.

        Args:
            parent: where; it must exist.
            output: what the run is to write.
            key: what the run was asked for, in plain values, if it can go on where it was stopped.

        Raises:
            GarnetError: no directory can be made there.
        """
        said, run = "" if output is None else str(output), secrets.token_hex(8)
        folder = parent / f".garnet-{run}"
        with writing(parent):
            # In a folder that all share, the graph is nobody else's to read.
            folder.mkdir(mode=0o700 if output is None else 0o777)
            try:
                lock = os.open(folder / MARKER, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
                marker = Marker(run, said, _plain(key), os.getpid(), socket.gethostname(), time.time())
                made = cls(folder, marker, lock)
                if _locked(lock) is False:
                    raise BlockingIOError(errno.EBUSY, os.strerror(errno.EBUSY))
                _write(lock, marker)
            except BaseException:  # nothing is in it yet but a marker that says nothing
                (folder / MARKER).unlink(missing_ok=True)
                folder.rmdir()
                raise
        return made

    @classmethod
    def claim(cls, output: Path, *, within: Path | None = None, key: Mapping[str, Any] | None = None) -> Scratch:
        """The directory of an earlier run for the same output that was stopped, or a new one.

        A run with the same key goes on with what is there; one that can only begin anew finds the directory empty.

        Args:
            output: what the run is to write, an absolute path.
            within: where the directory is; None for the output's own folder.
            key: what the run was asked for, in plain values, if it can go on where it was stopped.

        Raises:
            GarnetError: another run writes this output now, one that was stopped was asked for something else, or no
                directory can be made.
        """
        parent, wanted = within or output.parent, _plain(key)
        with _one_at_a_time(parent):
            for folder, marker in left_behind(parent, output):
                before = _opened(folder, marker)
                if before is None:
                    continue
                if before.state != "dead":
                    raise GarnetError(
                        f"Another run is writing {output}; wait until it has ended, or choose another name."
                    )
                if before.can_go_on and wanted is not None:
                    if marker.key == wanted:
                        return before
                    raise GarnetError(
                        f"An unfinished run for {output} differs in {_difference(marker.key or {}, wanted)}; repeat "
                        f"that one, remove it with 'garnet clean {parent} --yes', or choose another name."
                    )
                if not before.can_go_on:
                    before.remove()
            return cls.make(parent, output=output, key=wanted)

    @property
    def state(self) -> State:
        """Whether the run that made the directory is at work; if it is dead, this process has it from now on."""
        got = _locked(self._lock)
        if got is not None:
            return "dead" if got else "at work"
        if self.marker.host != socket.gethostname() or sys.platform == "win32":
            return "unknown"
        return "at work" if self.marker.pid != os.getpid() and _is_running(self.marker.pid) else "dead"

    @property
    def can_go_on(self) -> bool:
        """Whether what is in the directory is of use to the same run."""
        if self.marker.key is None or (self.folder / _SPENT).exists():
            return False
        return is_exchanging(self.folder) or any(self.folder.glob(_NOTES))

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or self.marker.key is None:
            self.remove()
        self.close()

    def close(self) -> None:
        """Let another run have the directory, if it is still there."""
        self._release()

    def clear(self) -> None:
        """Remove all that is in the directory but its marker."""
        with writing(self.folder):
            for path in self.folder.iterdir():
                if path.name != MARKER:
                    remove(path)

    def remove(self) -> None:
        """Remove the directory, which must be this run's, unless it holds an earlier result that is half replaced."""
        try:
            self._removed()
        except KeyboardInterrupt:
            self._removed()
            raise

    def _removed(self) -> None:
        if not self._release.alive or _marker(self.folder) is None or is_exchanging(self.folder):
            return
        with suppress(OSError):
            # Should the run be killed from here on, what is left is not taken for one that can go on.
            with suppress(OSError):
                (self.folder / _SPENT).touch()
            for path in self.folder.iterdir():
                if path.name not in (MARKER, _SPENT):
                    remove(path)
            (self.folder / _SPENT).unlink(missing_ok=True)
            # Last, so that whoever comes meanwhile is kept out of what is being removed.
            (self.folder / MARKER).unlink()
        self.close()  # on some network file systems a folder cannot go while a file of it is open
        with suppress(OSError):
            self.folder.rmdir()


def scratch_of(path: Path) -> Path | None:
    """The directory of a run that a path lies in, proven by its marker; None if it lies in none."""
    if ".." in path.parts:
        return None
    path = path.absolute()
    for folder in path.parents:
        if _marker(folder) is not None:
            between = path.parents[: len(path.parts) - len(folder.parts) - 1]
            return None if any(inner.is_symlink() for inner in between) else folder
    return None


def is_scratch_name(name: str) -> bool:
    """Whether a directory of a run could be called so."""
    return _NAME.fullmatch(name) is not None


def remove(path: Path) -> None:
    """Remove a file, or a folder with all in it, from a run's directory. What is not there is no matter.

    Links are removed, never followed.

    Raises:
        GarnetError: it is in no such directory.
        OSError: the system refuses.
    """
    if not os.path.lexists(path):
        return
    if scratch_of(path) is None:
        raise GarnetError(f"Will not remove {path}: it is not in a directory of a run's own.")
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def publish(staged: Path, target: Path, *, replace: bool) -> None:
    """Move a finished file from a run's directory to where it belongs, at once or not at all.

    Args:
        staged: the file, in the directory of a run.
        target: its place, in a folder that exists; no link.
        replace: whether a file that is there may be replaced; it then passes its permissions on.

    Raises:
        GarnetError: there is such a file and it may not be replaced, or the staged one is in no run's directory.
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

    Where there is none, or an empty one, it appears at once; an earlier result is exchanged for it as a whole. If that
    has files of others in it, its own make room for the new ones, one by one, and the others stay. Killed in between,
    the same call goes on; and until it has, nothing removes the directory, which then holds the earlier result.

    Args:
        staged: the folder, in the directory of a run.
        target: its place; absent, empty, or an earlier result.
        old: names of the files of the earlier result, the manifest among them.
        last: name of the manifest, without which the folder is unfinished.

    Raises:
        GarnetError: the place is neither, or has files of others in the place of new ones.
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
                    target.rmdir()
            staged.rename(target)
            return
        _require_exchangeable(staged, target, set(old), last)
        staged.chmod(stat.S_IMODE(target.stat().st_mode))
        if _exchanged(staged, target, home / _REPLACED, set(old)):
            return
        (home / _EXCHANGING).write_text(staged.name)
    _exchange_one_by_one(home, staged, target, old, last)


def is_exchanging(folder: Path) -> bool:
    """Whether a run was stopped while it exchanged an earlier result, which the directory then holds, for its own."""
    try:
        staged = folder / (folder / _EXCHANGING).read_text()
        return not (folder / _ALL_REPLACED).exists() or any(staged.iterdir())
    except OSError:
        return False


def left_behind(parent: Path, output: Path | None = None) -> Iterator[tuple[Path, Marker]]:
    """The directories of this user's runs in a folder, at work or dead; only those for one output, if it is given."""
    try:
        with os.scandir(parent) as entries:
            folders = sorted(Path(entry.path) for entry in entries if _NAME.fullmatch(entry.name))
    except OSError:
        return
    for folder in folders:
        marker = _marker(folder)
        if marker is not None and _is_mine(folder) and (output is None or marker.output == str(output)):
            yield folder, marker


def state_of(folder: Path, marker: Marker) -> State:
    """Whether the run of a directory is still at work."""
    found = _opened(folder, marker)
    if found is None:
        return "unknown" if (folder / MARKER).exists() else "dead"
    state = found.state
    found.close()
    return "holds an earlier result" if state == "dead" and is_exchanging(folder) else state


def forget(output: Path, *folders: Path | None, key: Mapping[str, Any] | None = None) -> None:
    """Remove what dead runs of one key, or of none, have left for an output in its folder or in others."""
    for parent in {output.parent, *(folder for folder in folders if folder is not None)}:
        for folder, marker in left_behind(parent, output):
            if marker.key is None or marker.key == _plain(key) or "from" in marker.key:
                discard(folder, marker)


def discard(folder: Path, marker: Marker) -> bool:
    """Remove the directory of a run that is dead; whether it is gone."""
    found = _opened(folder, marker)
    if found is None:
        with suppress(OSError):
            folder.rmdir()  # which is possible only if it is empty
    elif found.state == "dead":
        found.remove()
    return not folder.exists()


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Keep others who would claim a directory in this folder waiting, where the system can; it takes an instant."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with writing(folder):
        file = os.open(folder, os.O_RDONLY)
    try:
        for _ in range(_TRIES):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_WAIT)
            except OSError:  # no locks here
                break
        yield
    finally:
        os.close(file)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn what the system says while something is written, such as that the disk is full, into one sentence."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: str | Path, error: Exception) -> GarnetError:
    """What to say of a path that could not be written for this reason."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return GarnetError(f"Cannot write {path}: {reason[:1].lower()}{reason[1:].rstrip('.')}.")


def _astray(staged: Path) -> GarnetError:
    return GarnetError(f"Cannot move {staged}: the directory of this run is gone, or no longer its own.")


def _move_in(staged: Path, target: Path) -> None:
    """Move a file to where there is none; a name that is taken is an error, even if it was free a moment ago."""
    try:
        os.link(staged, target)
    except FileExistsError:
        if not staged.samefile(target):  # as it is if a run was killed right after this
            raise
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise
        # Where the file system has no hard links, there is a moment in which the name could be taken.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
        staged.rename(target)
        return
    staged.unlink()


def _require_exchangeable(staged: Path, target: Path, old: set[str], last: str) -> None:
    """Refuse a folder that is no earlier result any more, or has files of others in the way, before anything moves."""
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
    """Put one folder in the place of another that has nothing but its own files; whether that was possible."""
    if not {path.name for path in target.iterdir()} <= old:
        return False
    target.rename(aside)
    try:
        # What has come between stays where it is.
        if {path.name for path in aside.iterdir()} <= old:
            staged.rename(target)
            return True
    except BaseException:
        aside.rename(target)
        raise
    aside.rename(target)
    return False


def _exchange_one_by_one(home: Path, staged: Path, target: Path, old: Iterable[str], last: str) -> None:
    """Move the old files out of a folder and then the new ones in, the manifest first and last; or go on with it."""
    # Once all are out, what has the name of an old file is a new one.
    if not (home / _ALL_REPLACED).exists():
        (home / _REPLACED).mkdir(exist_ok=True)
        for name in sorted(old, key=lambda name: name != last):
            if _is_plain(target / name):
                (target / name).replace(home / _REPLACED / name)
        (home / _ALL_REPLACED).touch()
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
            (near.folder / _NOTES.replace("*", "copied")).touch()
        publish_folder(copy, target, old=old, last=last)
    remove(staged)


def _copy_attributes(source: Path, target: Path) -> None:
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(target, name, os.getxattr(source, name))


def _plain(key: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A key as it comes back from a file."""
    plain: dict[str, Any] | None = json.loads(json.dumps(key))
    return plain


def _write(lock: int, marker: Marker) -> None:
    text = json.dumps(vars(marker)).encode()
    if os.write(lock, text) < len(text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(lock)


def _marker(folder: Path) -> Marker | None:
    """The marker of a directory, if it is one of ours."""
    match = _NAME.fullmatch(folder.name)
    if match is None or folder.is_symlink():
        return None
    try:
        if _is_stillborn(folder):
            return Marker(match[1], "", None, 0, "", folder.stat().st_mtime)
        with (folder / MARKER).open("rb") as stream:
            marker = Marker(**json.loads(stream.read(_LONGEST_MARKER)))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    kinds: dict[str, Callable[[Any], bool]] = {
        "output": lambda value: isinstance(value, str),
        "key": lambda value: value is None or isinstance(value, dict),
        "pid": lambda value: isinstance(value, int),
        "host": lambda value: isinstance(value, str),
        "begun": lambda value: isinstance(value, int | float),
    }
    well = marker.id == match[1] and all(fine(getattr(marker, name)) for name, fine in kinds.items())
    return marker if well else None


def _is_stillborn(folder: Path) -> bool:
    """Whether a run was killed before it could mark its directory, in which there is nothing then."""
    return all(path.name == MARKER and not path.lstat().st_size for path in folder.iterdir())


def _is_mine(folder: Path) -> bool:
    """Whether the directory belongs to this user; in a shared folder, another could have prepared one."""
    try:
        return not hasattr(os, "geteuid") or folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _opened(folder: Path, marker: Marker) -> Scratch | None:
    """The directory with its marker open, if that is still there."""
    try:
        lock = os.open(folder / MARKER, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    found = Scratch(folder, marker, lock)
    if found.state != "dead":
        return found
    # Whoever had it may have removed the marker since it was opened; then it keeps nobody out.
    with suppress(OSError):
        if os.path.samestat((folder / MARKER).stat(), os.fstat(lock)):
            return found
    found.close()
    return None


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    return ", ".join(sorted(name for name in {*before, *now} if before.get(name) != now.get(name)))


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _locked(file: int) -> bool | None:
    """Whether nobody else had an open file locked, and this process has now; None where there are no locks.

    The system lets go of a lock when its process ends, in whatever way, so that none is ever left behind.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True
