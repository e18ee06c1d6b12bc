"""Which stages of a long run are done, so the same command resumes where it was stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from garnet.errors import GarnetError
from garnet.io.checked import checksum, read_note, write_note
from garnet.io.failures import writing
from garnet.io.removal import remove
from garnet.io.scratch import left_behind
from garnet.progress import Clock, Progress, Stage

_STAGES = ("tile", "embed", "neighbours", "prune", "reasons", *(f"plant {n} of 3" for n in (1, 2, 3)), "doubt")

T = TypeVar("T")


class Journal:
    """Notes on finished stages, in the directory of a run.

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
        """The finished stages, in no particular order."""
        return [file.stem.removeprefix("stage-") for file in self.folder.glob("stage-*.json")]

    def done(self, stage: str) -> dict[str, Any] | None:
        """What was noted when the stage finished; None if it has not.

        Raises:
            GarnetError: a file that the stage left is gone, or has changed.
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
        """Record that the stage is done, with the files in the folder that later stages read."""
        names = [str(file.relative_to(self.folder)) for file in files]
        found = {name: (self._size(name), checksum(self.folder / name)) for name in names}
        write_note(self._file(stage), {"facts": facts, "files": found})

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
            return read_note(path)
        except (OSError, ValueError) as error:
            raise GarnetError(f"Cannot read {path}: it is damaged; {self._cure}.") from error


class Resumable(Clock):
    """A clock that knows which stages were done before, and what they cost."""

    def __init__(self, journal: Journal, progress: Progress | None) -> None:
        super().__init__(progress)
        self._journal = journal

    def stage(
        self,
        name: str,
        compute: Callable[[], T],
        note: Callable[[T], dict[str, Any]],
        files: Callable[[T], Iterable[Path]],
    ) -> dict[str, Any]:
        """Run a stage, unless it was done before; returns what was noted about it.

        Args:
            name: of the stage.
            compute: does it.
            note: what a later run must know about the result, as JSON values.
            files: the files that a later run must find.
        """
        before = self._journal.done(name)
        if before is not None:
            self.stages.append(Stage(**before["stage"]))
            facts: dict[str, Any] = before["facts"]
            return facts
        with self(name):
            value = compute()
        facts = note(value)
        self._journal.note(name, {"facts": facts, "stage": asdict(self.stages[-1])}, files(value))
        return facts


def stages_done(output: Path, scratch: Path | None = None) -> list[str]:
    """The finished stages of an interrupted run for an output, which will not be repeated.

    Args:
        output: what the run is writing, an absolute path.
        scratch: the folder of its intermediate files; None for the output's own.
    """
    done = {stage for folder, _ in left_behind(scratch or output.parent, output) for stage in Journal(folder).stages()}
    return [stage for stage in _STAGES if stage in done]
