"""Going on with a run that was stopped: which stages it has done, and whether it is the same run."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from garnet.errors import GarnetError
from garnet.graph import Graph
from garnet.purification import Clock, Progress, Stage
from garnet.scale.journal import Journal
from garnet.scale.parquet import is_table
from garnet.scale.tiles import MANIFEST

# Readers of tables take no notice of what begins with a low line.
_WORK, _WORK_IN_TABLE = "work", "_work"
_STAGES = ("tile", "embed", "neighbours")


class Resumable(Clock):
    """A clock that knows which stages were done before, and what they cost then."""

    def __init__(self, journal: Journal, progress: Progress | None) -> None:
        super().__init__(progress)
        self._journal = journal
        self._facts: dict[str, Any] = {}
        self._files: tuple[Path, ...] = ()

    def note(self, facts: dict[str, Any], files: Iterable[Path]) -> None:
        """What a later run must know of the stage that is being done, and which files it must find."""
        self._facts, self._files = facts, tuple(files)

    @contextmanager
    def __call__(self, name: str) -> Iterator[Any]:
        """Run a stage, or yield what was noted of it if it was done before."""
        before = self._journal.done(name)
        if before is not None:
            yield before["facts"]
            self.stages.append(Stage(**before["stage"]))
            return
        self._facts, self._files = {}, ()
        with super().__call__(name):
            yield None
        self._journal.note(name, {"facts": self._facts, "stage": asdict(self.stages[-1])}, self._files)


def stages_done(output: Path) -> list[str]:
    """The stages of an unfinished run in the folder that are not done again."""
    return [name for name in _STAGES if (work_of(output) / f"{name}.json").exists()]


def work_of(output: Path) -> Path:
    """Where in a folder the work lies until it is done."""
    return output / (_WORK_IN_TABLE if is_table(output) else _WORK)


def require_free(output: Path) -> None:
    """Refuse what is not a folder, and one that holds a finished graph."""
    if output.is_file():
        raise GarnetError(f"Cannot write {output}: it is a file, and the result is a folder; remove it first.")
    # A run that was stopped when all but its last note was written has both, and is brought to its end.
    if is_finished(output) and not Journal.is_open(work_of(output)):
        shutil.rmtree(work_of(output), ignore_errors=True)
        raise finished(output)


def is_finished(output: Path) -> bool:
    """Whether a folder holds a graph, or some of it."""
    return any(output.glob("*.parquet")) if is_table(output) else (output / MANIFEST).exists()


def finished(output: Path) -> GarnetError:
    """What to say of a folder that holds a finished graph."""
    return GarnetError(f"{output} holds a finished graph; remove it, or give another folder.")


def identity(source: str | Path | Graph, output: Path) -> list[Any]:
    """What tells a source from another: a graph by what it holds, a file by its place, size and time.

    Args:
        source: what is to be purified.
        output: folder of the result, which is no part of the source though it may lie in it.
    """
    if isinstance(source, Graph):
        split = None if source.split is None else source.split.fingerprint
        return [source.fingerprint, *map(_digest, (source.features, source.labels, source.names)), split]
    path = Path(source).resolve()
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and not file.is_relative_to(output))
    return [str(path), *([file.stat().st_size, file.stat().st_mtime_ns] for file in files if file.exists())]


def _digest(part: Any) -> str | None:
    """Some hex digits that are the same wherever an array is, dense or sparse."""
    if part is None:
        return None
    digest = hashlib.sha256()
    for array in (part.indptr, part.indices, part.data) if sp.issparse(part) else (part,):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]
