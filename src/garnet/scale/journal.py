"""What of a long run is done, so that the same command goes on where it was stopped."""

from __future__ import annotations

import json
import os
import shutil
import sys
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from garnet.atomic import atomic_path
from garnet.errors import GarnetError
from garnet.scale.tiles import checksum, json_check

_RUN = "run.json"
_LOCK = "lock"


class Journal:
    """A folder of work, with a note for each stage that is done, which one run at a time has to itself.

    It is a context: at its end another run may have the folder, which stays as it is unless `remove` was called.

    Args:
        folder: made if it is not there.
        key: what the run was asked for; a folder of another run is refused.

    Raises:
        GarnetError: a run is at work in the folder, an unfinished one there was asked for something else, or it cannot
            be written.
    """

    def __init__(self, folder: Path, key: dict[str, Any]) -> None:
        self.folder = folder
        self._release = weakref.finalize(self, os.close, _locked(folder))
        try:
            self._begin(json.loads(json.dumps(key)))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let another run have the folder."""
        self._release()

    @staticmethod
    def is_open(folder: Path) -> bool:
        """Whether a run that was begun in the folder has not been closed."""
        return (folder / _RUN).exists()

    def done(self, stage: str) -> dict[str, Any] | None:
        """What was noted when the stage was done; None if it is not.

        Raises:
            GarnetError: a file that the stage left is gone, or not what it was.
        """
        before = self._read(f"{stage}.json")
        if before is None:
            return None
        for name, (size, check) in before["files"].items():
            if (found := self._size(name)) != size:
                raise self._cannot_go_on(f"{self.folder / name} has {found} bytes but must have {size}")
            if checksum(self.folder / name) != check:
                raise self._cannot_go_on(f"{self.folder / name} has other bytes than were written")
        facts: dict[str, Any] = before["facts"]
        return facts

    def note(self, stage: str, facts: dict[str, Any], files: Iterable[Path] = ()) -> None:
        """The stage is done, and these files in the folder are what later stages read of it."""
        names = [str(file.relative_to(self.folder)) for file in files]
        found = {name: (self._size(name), checksum(self.folder / name)) for name in names}
        self._write(f"{stage}.json", {"facts": facts, "files": found})

    def remove(self) -> None:
        """All is done, and the folder goes; if it goes only in part, it is no longer taken for an unfinished run."""
        with suppress(OSError):
            (self.folder / _RUN).unlink(missing_ok=True)
            for path in self.folder.iterdir():
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                elif path.name != _LOCK:
                    path.unlink(missing_ok=True)
            # It goes last, so that whoever comes meanwhile is kept out of what is being removed.
            (self.folder / _LOCK).unlink(missing_ok=True)
        self.close()  # on some network file systems a folder cannot go while a file of it is open
        with suppress(OSError):
            self.folder.rmdir()

    def _begin(self, key: dict[str, Any]) -> None:
        """Go on with the run of this key, or begin it."""
        folder = self.folder
        before = self._read(_RUN)
        if before is not None and before != key:
            differs = ", ".join(sorted(name for name in {*before, *key} if before.get(name) != key.get(name)))
            raise GarnetError(
                f"{folder.parent} holds an unfinished run that differs in {differs}; repeat that, remove {folder}, or "
                "give another folder."
            )
        for left in (*folder.glob("tmp-*"), *folder.glob(".*.tmp")):
            left.unlink(missing_ok=True)
        self._write(_RUN, key)

    def _size(self, name: str) -> int:
        path = self.folder / name
        if not path.is_file():
            raise self._cannot_go_on(f"{path} is missing")
        return path.stat().st_size

    def _cannot_go_on(self, why: str) -> GarnetError:
        return GarnetError(f"Cannot go on: {why}; remove {self.folder} to begin again.")

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        if not path.is_file():
            return None
        try:
            facts: dict[str, Any] = json.loads(path.read_bytes())
            if facts.pop("check") != json_check(facts):
                raise ValueError("check")
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise GarnetError(f"Cannot read {path}: it is damaged; remove {self.folder} to begin again.") from error
        return facts

    def _write(self, name: str, facts: dict[str, Any]) -> None:
        with atomic_path(self.folder / name) as unfinished:
            unfinished.write_text(json.dumps({**facts, "check": json_check(facts)}))


def _locked(folder: Path) -> int:
    """Make the folder if it is not there, and open a file in it that no other run can have at the same time.

    The system lets go of such a file when its process ends, in whatever way, so that none is ever left locked. Where it
    or the file system knows no locks, nobody is refused.
    """
    path = folder / _LOCK
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if sys.platform == "win32":
                return os.open(os.devnull, os.O_RDONLY)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise GarnetError(f"Cannot write {folder}: {error.strerror}.") from error
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise GarnetError(
                f"Another run is at work in {folder.parent}; wait until it has ended, or give another folder."
            ) from None
        except OSError:
            return file
        # Whoever had it before may have removed it since it was opened; then it keeps nobody out.
        if path.exists() and os.path.samestat(path.stat(), os.fstat(file)):
            return file
        os.close(file)
