"""Going on with a run that was stopped: which stages it has done, and whether it is the same run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from garnet.graph.graph import Graph
from garnet.io.identity import file_identity
from garnet.io.scratch import left_behind
from garnet.places.journal import Journal
from garnet.progress import Clock, Progress, Stage

_STAGES = ("tile", "embed", "neighbours", "prune")


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


def stages_done(output: Path, scratch: Path | None = None) -> list[str]:
    """The stages of an unfinished run for an output that are not done again.

    Args:
        output: what the run is to write, an absolute path.
        scratch: the folder of its intermediate files; None for the output's own.
    """
    done = {stage for folder, _ in left_behind(scratch or output.parent, output) for stage in Journal(folder).stages()}
    return [stage for stage in _STAGES if stage in done]


def identity(source: str | Path | Graph, output: Path) -> list[Any]:
    """What tells a source from another: what a graph holds, or the bytes of a file.

    Args:
        source: what is to be purified.
        output: folder of the result, which is no part of the source though it may lie in it.
    """
    if not isinstance(source, Graph):
        return file_identity(Path(source), without=[output])
    split = None if source.split is None else source.split.fingerprint
    return [source.fingerprint, *map(_digest, (source.features, source.labels, source.names)), split]


def _digest(part: Any) -> str | None:
    """Some hex digits that are the same wherever an array is, dense or sparse."""
    if part is None:
        return None
    digest = hashlib.sha256()
    for array in (part.indptr, part.indices, part.data) if sp.issparse(part) else (part,):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]
