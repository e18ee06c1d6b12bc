"""What of a long run is done, so that the same command goes on where it was stopped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from garnet.atomic import atomic_path
from garnet.errors import GarnetError

_RUN = "run.json"


class Journal:
    """A folder of work, with a note for each stage that is done.

    Args:
        folder: made if it is not there.
        key: what the run was asked for; a folder of another run is refused.
    """

    def __init__(self, folder: Path, key: dict[str, Any]) -> None:
        self.folder = folder
        key = json.loads(json.dumps(key))
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GarnetError(f"Cannot write {folder}: {error.strerror}.") from error
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

    @staticmethod
    def is_open(folder: Path) -> bool:
        """Whether a run that was begun in the folder has not been closed."""
        return (folder / _RUN).exists()

    def done(self, stage: str) -> dict[str, Any] | None:
        """What was noted when the stage was done; None if it is not.

        Raises:
            GarnetError: a file that the stage left is gone, or not as long as it was.
        """
        before = self._read(f"{stage}.json")
        if before is None:
            return None
        for name, size in before["files"].items():
            if (found := self._size(name)) != size:
                raise self._cannot_go_on(f"{self.folder / name} has {found} bytes but must have {size}")
        facts: dict[str, Any] = before["facts"]
        return facts

    def note(self, stage: str, facts: dict[str, Any], files: Iterable[Path] = ()) -> None:
        """The stage is done, and these files in the folder are what later stages read of it."""
        sizes = {name: self._size(name) for name in (str(file.relative_to(self.folder)) for file in files)}
        self._write(f"{stage}.json", {"facts": facts, "files": sizes})

    def remove(self) -> None:
        """All is done, and the folder goes; if it goes only in part, it is no longer taken for an unfinished run."""
        (self.folder / _RUN).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

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
        except (OSError, ValueError) as error:
            raise GarnetError(f"Cannot read {path}: it is damaged; remove {self.folder} to begin again.") from error
        return facts

    def _write(self, name: str, facts: dict[str, Any]) -> None:
        with atomic_path(self.folder / name) as unfinished:
            unfinished.write_text(json.dumps(facts))
