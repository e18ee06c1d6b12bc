"""What of a long run is done, so that the same command goes on where it was stopped."""

from __future__ import annotations

import json
import shutil
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

    def done(self, stage: str) -> dict[str, Any] | None:
        """What was noted when the stage was done; None if it is not."""
        return self._read(f"{stage}.json")

    def note(self, stage: str, facts: dict[str, Any]) -> None:
        """The stage is done."""
        self._write(f"{stage}.json", facts)

    def remove(self) -> None:
        """All is done, and the folder goes."""
        shutil.rmtree(self.folder, ignore_errors=True)

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
