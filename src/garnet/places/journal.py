"""What of a long run is done, so that the same command goes on where it was stopped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from garnet.errors import GarnetError
from garnet.io.atomic import atomic_path
from garnet.io.failures import writing
from garnet.io.removal import remove
from garnet.places.tiles import checksum, json_check


class Journal:
    """Notes of the stages that are done, in the directory of a run.

    Args:
        folder: the directory.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def tidy(self) -> None:
        """Remove files that a run was writing when it was killed.

        Raises:
            GarnetError: one cannot be removed.
        """
        with writing(self.folder):
            for left in list(self.folder.rglob("tmp-*")):
                remove(left)

    def stages(self) -> list[str]:
        """The stages that are done, in no order."""
        return [file.stem.removeprefix("stage-") for file in self.folder.glob("stage-*.json")]

    def done(self, stage: str) -> dict[str, Any] | None:
        """What was noted when the stage was done; None if it is not.

        Raises:
            GarnetError: a file that the stage left is gone, or not what it was.
        """
        before = self._read(stage)
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
        noted = {"facts": facts, "files": found}
        with atomic_path(self._file(stage)) as unfinished:
            unfinished.write_text(json.dumps({**noted, "check": json_check(noted)}))

    def _file(self, stage: str) -> Path:
        return self.folder / f"stage-{stage}.json"

    def _size(self, name: str) -> int:
        path = self.folder / name
        if not path.is_file():
            raise self._cannot_go_on(f"{path} is missing")
        return path.stat().st_size

    def _cannot_go_on(self, why: str) -> GarnetError:
        return GarnetError(f"Cannot go on: {why}; {self._cure}.")

    @property
    def _cure(self) -> str:
        return f"remove {self.folder} with 'garnet clean {self.folder.parent} --yes' to begin again"

    def _read(self, stage: str) -> dict[str, Any] | None:
        path = self._file(stage)
        if not path.is_file():
            return None
        try:
            noted: dict[str, Any] = json.loads(path.read_bytes())
            if noted.pop("check") != json_check(noted):
                raise ValueError("check")
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise GarnetError(f"Cannot read {path}: it is damaged; {self._cure}.") from error
        return noted
