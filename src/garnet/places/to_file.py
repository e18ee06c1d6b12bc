"""Purify on disk or on a cluster, and write the result to one file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from garnet.errors import GarnetError
from garnet.graph.files import open_source
from garnet.io.failures import writing
from garnet.io.identity import digest_of
from garnet.io.publish import publish, publish_folder
from garnet.io.scratch import Scratch, forget
from garnet.io.stamp import stamp, stamp_of
from garnet.io.targets import require_file
from garnet.machine import physical_memory
from garnet.places.delivery import delivered, describe, manifest_name, require_free
from garnet.places.plan import BASELINE, bytes_of
from garnet.places.tiled_place import Task, require_tileable, source_of, working
from garnet.places.tiled_result import from_facts, held
from garnet.places.tiled_work import STAGED, GraphOnDisk
from garnet.places.tiles import TiledGraph
from garnet.progress import Progress, Step
from garnet.purify.result import Purification

_BYTES_AN_ENTRY = 60  # of a tiled graph while it is assembled in memory


def purify_to_file(
    method: Any, graph: Any, *, place: Any, symmetrize: bool = False, progress: Progress | None = None
) -> Purification | None:
    """Purify a graph on disk and write the result to one file, if it fits in memory.

    Args:
        method: the purifier.
        graph: the graph to purify.
        place: an `OnDisk` or `OnCluster` whose output is a file; its extension gives the format.
        symmetrize: accept a directed graph.
        progress: called with the stages.

    Returns:
        The result, with the graph in memory; None if the very same call has written that file before.

    Raises:
        GarnetError: the file already exists, another run is writing it, or it cannot be written.
    """
    try:
        result: Purification = method.purify(graph, place=_ToFile(place), symmetrize=symmetrize, progress=progress)
    except DoneAlready:
        return None
    return result


class DoneAlready(Exception):
    """The very same call has written the file before; what it found then is not known."""


@dataclass(frozen=True)
class _ToFile:
    """A place whose result is one file: see `purify_to_file`."""

    place: Any

    @contextmanager
    def open(
        self, method: Any, graph: Any, *, symmetrize: bool = False, progress: Progress | None = None
    ) -> Iterator[GraphOnDisk]:
        """See `Place`."""
        place = replace(self.place, output=None)
        source = source_of(graph, symmetrize=symmetrize)
        task = Task(place=place, method=method, source=source, symmetrize=symmetrize, progress=progress)
        with _opened(task, Path(self.place.output)) as work:
            yield work


@contextmanager
def _opened(task: Task, output: Path) -> Iterator[GraphOnDisk]:
    """The graph in tiles, finally to be written to one file.

    Raises:
        DoneAlready: the very same call has written that file before.
    """
    require_tileable(task.method)
    require_file(output, inputs=task.inputs)
    target = output.resolve()
    key = task.key(target)
    run = digest_of(key)
    if stamp_of(target) == run:
        forget(target, task.scratch, key=key)
        raise DoneAlready
    require_file(output, inputs=task.inputs, overwrite=task.place.overwrite)
    instead = target.with_name(f"{target.name}.tiles")
    if delivered(instead) is not None:
        require_free(instead, overwrite=False)
    open_source(task.source)
    with working(Scratch.claim(target, within=task.scratch, key=key)) as (made, journal):
        if stamp_of(target) == run:  # by the same call, a moment ago
            raise DoneAlready
        yield task.work(made, journal, lambda facts: _saved(task, facts, made, output, instead, run))


def _saved(task: Task, facts: dict[str, Any], made: Scratch, output: Path, instead: Path, run: str) -> Purification:
    """Write the graph to one file, or leave it in tiles beside it if it does not fit in memory."""
    tiles, target = TiledGraph.open(made.folder / STAGED), output.resolve()
    nodes = sum(size for name, size in tiles.sizes.items() if name.startswith("node-"))
    needed = BASELINE + 2 * _BYTES_AN_ENTRY * tiles.num_edges + 2 * nodes
    if needed > (physical_memory() if task.place.memory is None else bytes_of(task.place.memory)):
        require_free(instead, overwrite=False)
        describe(tiles.folder, instead, run, {**facts, "stages": []})
        with writing(instead):
            publish_folder(tiles.folder, instead, old=(), last=manifest_name(instead))
        made.remove()
        raise GarnetError(
            f"Cannot write {output}: that takes {needed / 1e9:.1f} GB of memory; the graph is in {instead}, in tiles."
        )
    if task.progress is not None:
        task.progress(Step("write"))
    result = from_facts(facts, tiles.folder, task.method, repr(task.place))
    if task.place.ledger:
        result = replace(result, ledger=held(result.ledger))
    graph, staged = tiles.to_graph(), made.folder / target.name
    graph.save(staged)
    with writing(output):
        stamp(staged, run)
        publish(staged, target, replace=task.place.overwrite)
    return replace(result, graph=graph)
