"""Directories of intermediate files.

A run keeps its intermediate files in one hidden directory that it makes itself. The directory's name ends in the run's
id, and a marker file in it has the same id. A file is removed only from such a directory (removal.py), and finished
files leave it by `publish` (publish.py), which replaces a file only if told to.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import socket
import sys
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from garnet.errors import GarnetError
from garnet.io.failures import writing
from garnet.io.locks import is_running, lock_now, one_at_a_time
from garnet.io.marker import MARKER, NOTES, Marker, is_exchanging, is_scratch_name, marker_of, write_marker
from garnet.io.removal import SPENT, empty_run, remove, remove_empty, remove_unmarked

State = Literal["at work", "dead", "unknown", "holds an earlier result"]
"""Whether the run of a directory is still there; unknown where the file system has no locks, on another machine.

A dead run may have been killed while it exchanged an earlier result for its own; the directory then holds the former.
"""


class Scratch:
    """A directory that this run made, or took over from a stopped run, and has to itself.

    It is a context manager: it removes the directory at its end, unless the run failed and can resume (has a key).

    Attributes:
        folder: the directory.
        marker: what was recorded about the run.
    """

    def __init__(self, folder: Path, marker: Marker, lock: int) -> None:
        self.folder, self.marker, self._lock = folder, marker, lock
        self._release = weakref.finalize(self, os.close, lock)

    @classmethod
    def make(cls, parent: Path, *, output: Path | None = None, key: Mapping[str, Any] | None = None) -> Scratch:
        """Make a new directory.

        Args:
            parent: its parent folder, which must exist.
            output: what the run is to write.
            key: what the run was asked for, in plain values, if it can go on where it was stopped.

        Raises:
            GarnetError: no directory can be made there.
        """
        said, run = "" if output is None else str(output), secrets.token_hex(8)
        folder = parent / f".garnet-{run}"
        with writing(parent):
            # In a shared folder, nobody else may read the graph.
            folder.mkdir(mode=0o700 if output is None else 0o777)
            try:
                lock = os.open(folder / MARKER, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
                marker = Marker(run, said, _plain(key), os.getpid(), socket.gethostname(), time.time())
                made = cls(folder, marker, lock)
                if lock_now(lock) is False:
                    raise BlockingIOError(errno.EBUSY, os.strerror(errno.EBUSY))
                write_marker(lock, marker)
            except BaseException:
                remove_unmarked(folder)
                raise
        return made

    @classmethod
    def claim(cls, output: Path, *, within: Path | None = None, key: Mapping[str, Any] | None = None) -> Scratch:
        """Take over the directory of a stopped run for the same output, or make a new one.

        A run with the same key continues with what is there; one that can only start again finds the directory empty.

        Args:
            output: what the run is to write, an absolute path.
            within: where the directory is; None for the output's own folder.
            key: what the run was asked for, in plain values, if it can go on where it was stopped.

        Raises:
            GarnetError: another run is writing this output, a stopped run was asked for something else, or no directory
                can be made.
        """
        parent, wanted = within or output.parent, _plain(key)
        with one_at_a_time(parent):
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
        """Whether the run that made the directory is active; if it is dead, this process takes it over."""
        got = lock_now(self._lock)
        if got is not None:
            return "dead" if got else "at work"
        if self.marker.host != socket.gethostname() or sys.platform == "win32":
            return "unknown"
        return "at work" if self.marker.pid != os.getpid() and is_running(self.marker.pid) else "dead"

    @property
    def can_go_on(self) -> bool:
        """Whether the contents of the directory are useful to the same run."""
        if self.marker.key is None or (self.folder / SPENT).exists():
            return False
        return is_exchanging(self.folder) or any(self.folder.glob(NOTES))

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
        """Remove everything in the directory but its marker."""
        with writing(self.folder):
            for path in self.folder.iterdir():
                if path.name != MARKER:
                    remove(path)

    def remove(self) -> None:
        """Remove the directory, which must be this run's, unless it holds a half-replaced earlier result."""
        try:
            self._removed()
        except KeyboardInterrupt:
            self._removed()
            raise

    def _removed(self) -> None:
        if self._release.alive and marker_of(self.folder) is not None and empty_run(self.folder):
            self.close()  # some network file systems cannot remove a folder while one of its files is open
            remove_empty(self.folder)


def left_behind(parent: Path, output: Path | None = None) -> Iterator[tuple[Path, Marker]]:
    """The directories of this user's runs in a folder, active or dead; only those for one output, if given."""
    try:
        with os.scandir(parent) as entries:
            folders = sorted(Path(entry.path) for entry in entries if is_scratch_name(entry.name))
    except OSError:
        return
    for folder in folders:
        marker = marker_of(folder)
        if marker is not None and _is_mine(folder) and (output is None or marker.output == str(output)):
            yield folder, marker


def state_of(folder: Path, marker: Marker) -> State:
    """Whether the run of a directory is still active."""
    found = _opened(folder, marker)
    if found is None:
        return "unknown" if (folder / MARKER).exists() else "dead"
    state = found.state
    found.close()
    return "holds an earlier result" if state == "dead" and is_exchanging(folder) else state


def forget(output: Path, *folders: Path | None, key: Mapping[str, Any] | None = None) -> None:
    """Remove what dead runs with one key, or none, have left for an output in its folder or in others."""
    for parent in {output.parent, *(folder for folder in folders if folder is not None)}:
        for folder, marker in left_behind(parent, output):
            if marker.key is None or marker.key == _plain(key) or "from" in marker.key:
                discard(folder, marker)


def discard(folder: Path, marker: Marker) -> bool:
    """Remove the directory of a dead run; returns whether it is gone."""
    found = _opened(folder, marker)
    if found is None:
        remove_empty(folder)
    elif found.state == "dead":
        found.remove()
    return not folder.exists()


def _plain(key: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A key as it comes back from a file."""
    plain: dict[str, Any] | None = json.loads(json.dumps(key))
    return plain


def _is_mine(folder: Path) -> bool:
    """Whether the directory belongs to this user; in a shared folder, somebody else could have planted one."""
    try:
        return not hasattr(os, "geteuid") or folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _opened(folder: Path, marker: Marker) -> Scratch | None:
    """The directory with its marker open, if the marker still exists."""
    try:
        lock = os.open(folder / MARKER, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    found = Scratch(folder, marker, lock)
    if found.state != "dead":
        return found
    # Its owner may have removed the marker since it was opened; then it keeps nobody out.
    with suppress(OSError):
        if os.path.samestat((folder / MARKER).stat(), os.fstat(lock)):
            return found
    found.close()
    return None


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    return ", ".join(sorted(name for name in {*before, *now} if before.get(name) != now.get(name)))
