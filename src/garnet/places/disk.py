"""GARNET on a graph that is on disk: the stages of `garnet.purify.garnet`, part by part, here or on a cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from garnet.errors import GarnetError, GraphError, ParameterError
from garnet.graph.files import open_source
from garnet.graph.graph import Graph
from garnet.io.edge_source import EdgeSource
from garnet.io.failures import writing
from garnet.io.identity import digest_of
from garnet.io.publish import publish, publish_folder
from garnet.io.scratch import Scratch, forget
from garnet.io.stamp import stamp, stamp_of
from garnet.io.targets import require_file, require_folder, require_scratch
from garnet.machine import __version__, physical_memory
from garnet.parameters import require_valid
from garnet.places.build import lay_tiles
from garnet.places.cluster import OnCluster
from garnet.places.delivery import delivered, describe, made_by, manifest_name, require_free
from garnet.places.edge_table import NEEDED, is_table, require_writable_table, table_of
from garnet.places.journal import Journal
from garnet.places.neighbors import Effort, neighbor_pairs
from garnet.places.plan import BASELINE, Cut, bytes_of
from garnet.places.points import embedded_points
from garnet.places.prune import Pruned, Rule, prune
from garnet.places.result import TiledPurification, from_facts, plain_parameters, to_facts, without_costs
from garnet.places.resume import Resumable, identity
from garnet.places.row_store import Parts, Run, Tall, here
from garnet.places.tiles import TiledGraph
from garnet.progress import Progress, Step

if TYPE_CHECKING:
    from garnet.purify.garnet import GARNET

# What is counted on before the graph is known.
_RANK, _NEIGHBORS = 100, 15
_CLUSTER_MEMORY = 4 << 30
_STAGED = "graph"
_BYTES_AN_ENTRY = 60  # of a tiled graph while it is put together in memory


@dataclass(frozen=True, kw_only=True)
class Task:
    """A purification on disk, and how it is to be done.

    Attributes:
        purifier: with `memory` or `cluster` set.
        source: what `garnet.graph.files.open_source` reads.
        symmetrize: accept a directed graph.
        parts: cut the nodes into so many parts at least; the memory may ask for more.
        scratch: folder for the directory of intermediate files; None for that of the output.
        progress: called with the name of each stage as it begins.
    """

    purifier: GARNET
    source: str | Path | Graph
    symmetrize: bool = False
    parts: int = 1
    scratch: Path | None = None
    progress: Progress | None = None

    @property
    def inputs(self) -> list[Path]:
        """The files that are read."""
        return [] if isinstance(self.source, Graph) else [Path(self.source)]

    def key(self, output: Path) -> dict[str, Any]:
        """All that decides the result, in plain values."""
        asked = {"symmetrize": self.symmetrize, "parts": self.parts, **plain_parameters(self.purifier)}
        source = digest_of({"source": identity(self.source, output)})
        return {"version": __version__, "source": source, "format": output.suffix, **asked}


def purify_tiled(
    purifier: GARNET,
    source: str | Path | Graph,
    output: Path | None,
    *,
    symmetrize: bool = False,
    parts: int = 1,
    scratch: Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TiledPurification:
    """Purify a graph that need not fit in memory.

    Intermediate files lie in one hidden directory that the run makes itself. It goes when all is done; after a kill the
    same call takes it over. The output appears when it is complete. Where it is there already, and the very same call
    has made it, that is what comes back.

    Args:
        purifier: with `memory` or `cluster` set.
        source: what `garnet.graph.files.open_source` reads.
        output: folder for the tiles of the purified graph, or if its name ends in .parquet, for a table of edges; new,
            empty, or an earlier result. None to have it in memory.
        symmetrize: accept a directed graph.
        parts: cut the nodes into so many parts at least; the memory may ask for more.
        scratch: folder for the directory of intermediate files; None for that of the output, or the system's
            temporary one.
        overwrite: replace an earlier result in the output; other files in it stay.
        progress: called with the name of each stage as it begins.

    Raises:
        MissingExtra: a table or a cluster needs a package that is not installed.
        GarnetError: the output is not free, another run writes it, or a file cannot be read or written.
    """
    task = Task(
        purifier=purifier,
        source=source,
        symmetrize=symmetrize,
        parts=parts,
        scratch=None if scratch is None else require_scratch(scratch),
        progress=progress,
    )
    require_tileable(purifier)
    if output is None:
        with Scratch.make(task.scratch or require_scratch(Path(tempfile.gettempdir()))) as made:
            result = _purified(task, open_source(source), made, as_table=False)
            return replace(result, graph=result.pruned.graph.to_graph())
    target = require_folder(output, inputs=task.inputs)
    if task.scratch == target:
        raise GarnetError(f"Cannot keep intermediate files in {target}: it is where the result goes; give another.")
    key = task.key(target)
    run = digest_of(key)
    if (before := made_by(target, run)) is not None:
        forget(target, task.scratch, key=key)
        return from_facts(before.facts, target, purifier, done_before=True)
    opened = open_source(source)  # says what is wrong with it before anything is written
    with _working(Scratch.claim(target, within=task.scratch, key=key)) as (made, journal):
        noted, staged = journal.done("publish"), made.folder / _STAGED
        if (before := made_by(target, run)) is not None:  # by the same call, a moment ago
            return from_facts(before.facts, target, purifier, done_before=True)
        if noted is not None and not any(staged.glob("*")):  # what was published has been taken away since
            made.clear()
            noted = None
        # Where a run was killed while it exchanged files, there is no manifest.
        if noted is None or delivered(target) is not None:
            old = require_free(target, overwrite=overwrite)
            noted = {**(noted or {}), "old": [] if old is None else sorted(old.files)}
        if "facts" not in noted:
            facts = to_facts(_purified(task, opened, made, as_table=is_table(target)))
            describe(staged, target, run, without_costs(facts))
            noted["facts"] = facts
        journal.note("publish", noted)
        with writing(target):
            publish_folder(staged, target, old=noted["old"], last=manifest_name(target))
    return from_facts(noted["facts"], target, purifier)


def purify_to_file(task: Task, output: Path, *, overwrite: bool = False) -> TiledPurification | None:
    """Purify a graph on disk and write the result to one file, if it fits in memory.

    Args:
        task: the purification.
        output: the file; its ending says how it is written.
        overwrite: replace a file that is there.

    Returns:
        What came out, with the graph in memory; None if the very same call has written that file before.

    Raises:
        GarnetError: the file is there already, another run writes it, or it cannot be written.
    """
    require_tileable(task.purifier)
    require_file(output, inputs=task.inputs)
    target = output.resolve()
    key = task.key(target)
    run = digest_of(key)
    if stamp_of(target) == run:
        forget(target, task.scratch, key=key)
        return None
    require_file(output, inputs=task.inputs, overwrite=overwrite)
    instead = target.with_name(f"{target.name}.tiles")
    if delivered(instead) is not None:
        require_free(instead, overwrite=False)
    opened = open_source(task.source)
    with _working(Scratch.claim(target, within=task.scratch, key=key)) as (made, _):
        if stamp_of(target) == run:  # by the same call, a moment ago
            return None
        result = _purified(task, opened, made, as_table=False)
        tiles = TiledGraph.open(made.folder / _STAGED)
        if (needed := _memory_of(tiles)) > _room_of(task.purifier):
            require_free(instead, overwrite=False)
            describe(tiles.folder, instead, run, without_costs(to_facts(result)))
            with writing(instead):
                publish_folder(tiles.folder, instead, old=(), last=manifest_name(instead))
            made.remove()
            raise GarnetError(
                f"Cannot write {output}: that takes {needed / 1e9:.1f} GB of memory; the graph is in {instead}, in "
                "tiles."
            )
        if task.progress is not None:
            task.progress(Step("write"))
        graph, staged = tiles.to_graph(), made.folder / target.name
        graph.save(staged)
        with writing(output):
            stamp(staged, run)
            publish(staged, target, replace=overwrite)
    return replace(result, graph=graph)


@contextmanager
def _working(scratch: Scratch) -> Iterator[tuple[Scratch, Journal]]:
    """The directory of a run with its notes; if it fails, it stays only if the same call could go on with it."""
    with scratch:
        journal = Journal(scratch.folder)
        had = journal.stages()
        try:
            journal.tidy()
            with writing(scratch.folder):
                yield scratch, journal
        except BaseException as error:
            # What was done before may be of use once the cause is gone, such as a cluster that does not answer.
            if not journal.stages() or (isinstance(error, ParameterError | GraphError) and not had):
                scratch.remove()
            raise


def _memory_of(tiles: TiledGraph) -> int:
    """Bytes that it takes to put a tiled graph together in memory."""
    nodes = sum(size for name, size in tiles.sizes.items() if name.startswith("node-"))
    return BASELINE + 2 * _BYTES_AN_ENTRY * tiles.num_edges + 2 * nodes


def _room_of(purifier: GARNET) -> int:
    return physical_memory() if purifier.memory is None else bytes_of(purifier.memory)


def _purified(task: Task, opened: EdgeSource, scratch: Scratch, *, as_table: bool) -> TiledPurification:
    """The stages, in the directory of a run; the purified graph is in its folder `_STAGED`."""
    purifier, folder = task.purifier, scratch.folder
    if as_table:
        require_writable_table(opened.names)
    run = _run_of(purifier)
    cut = _cut_for(purifier, 0 if opened.features is None else opened.features.width, run, task.parts)
    if isinstance(run, OnCluster):
        if as_table:
            run.require_package(*NEEDED)
        run.require_folder(folder)
    clock, tiles = Resumable(Journal(folder), task.progress), folder / "tiles"
    with clock("tile") as facts:
        if facts is None:
            lay_tiles(
                task.source,
                tiles,
                memory=cut.memory,
                parts=cut.parts,
                symmetrize=task.symmetrize,
                progress=task.progress,
            )
            facts = {"memory": cut.memory}
            clock.note(facts, tiles.iterdir())
    graph = TiledGraph.open(tiles)
    require_valid(purifier, graph.num_nodes, graph.num_edges)
    rows = Parts(folder, graph.bounds, run, clock.tell)
    if run is here:
        rows.hold(cut.spare(graph.num_nodes, graph.parts))
    # Workers may have other limits when a run goes on.
    return _purify(purifier, graph, rows, clock, memory=facts["memory"], as_table=as_table)


def _purify(
    purifier: GARNET, graph: TiledGraph, parts: Parts, clock: Resumable, *, memory: int, as_table: bool
) -> TiledPurification:
    """Embed the nodes of a tiled graph, find neighbours and prune; or go on with it."""
    with clock("embed") as facts:
        if facts is None:
            facts = embedded_points(purifier, graph, parts)
            clock.note(facts, parts.files("points"))
    points = Tall(parts.files("points"), graph.bounds, facts["width"], keep=True)

    k = purifier.neighbors_of(graph.num_nodes, graph.num_edges)
    with clock("neighbours") as found:
        if found is None:
            base = neighbor_pairs(parts, points, k, memory=memory, seed=purifier.seed) if k else {}
            effort = Effort.noted(parts.folder)
            found = {
                "base": [[i, j, [file.name for file in files]] for (i, j), files in base.items()],
                "effort": None if effort is None else asdict(effort),
            }
            clock.note(found, (file for files in base.values() for file in files))
    base = {(i, j): [parts.folder / name for name in names] for i, j, names in found["base"]}

    staged = parts.folder / _STAGED
    with clock("prune") as counted:
        if counted is None:
            rule = _rule(purifier, points.width, facts["values"], k)
            pruned = prune(graph, parts, points, base, rule, staged, as_table=as_table)
            clock.note({name: value for name, value in vars(pruned).items() if name != "graph"}, ())
        else:
            edges = counted["kept"] + counted["added"]
            purified = table_of(graph, staged, edges) if as_table else TiledGraph.open(staged)
            pruned = Pruned(graph=purified, **counted)
    return TiledPurification(
        graph=pruned.graph,
        values=facts["values"],
        residuals=facts["residuals"],
        pruned=pruned,
        stages=tuple(clock.stages),
        parts=graph.parts,
        parameters=purifier,
        effort=None if found["effort"] is None else Effort(**found["effort"]),
    )


def _rule(purifier: GARNET, width: int, values: list[float], k: int) -> Rule:
    """Which edges stay."""
    signs = None
    if purifier.score == "signed":
        signs = torch.ones(width)
        signs[: len(values)] = torch.tensor(values).sign()
    return Rule(
        gamma=purifier.gamma,
        gamma_unit=purifier.gamma_unit,
        support=purifier.doubted(k),
        overlap=purifier.overlap,
        score=purifier.score,  # type: ignore[arg-type]
        signs=signs,
        weight=_weight_kind(purifier, k),
    )


def cut_of(purifier: GARNET, features: int) -> Cut:
    """What decides into how many parts a graph with so many features of a node is cut, whoever does the work."""
    return Cut(
        memory=bytes_of(purifier.memory or _CLUSTER_MEMORY),
        width=_coordinates(purifier, features),
        k=purifier.k or _NEIGHBORS,
    )


def _cut_for(purifier: GARNET, features: int, run: Run, parts: int) -> Cut:
    """The same for those who do the work: all that a process does at once must fit in its memory."""
    cut = replace(cut_of(purifier, features), least=parts)
    if not isinstance(run, OnCluster):
        return cut
    there = run.capacity()
    memory = there.memory if purifier.memory is None and there.memory is not None else cut.memory
    return replace(cut, memory=memory, least=max(parts, there.threads), at_once=there.at_once)


def _coordinates(purifier: GARNET, features: int) -> int:
    """Coordinates of a point, at most."""
    rank = purifier.rank if isinstance(purifier.rank, int) else _RANK
    if purifier.features == "none":
        return rank
    whole = purifier.features == "raw" or purifier.feature_rank is None
    return rank + (features if whole else min(features, purifier.feature_rank or features))


def _weight_kind(purifier: GARNET, k: int) -> Any:
    if purifier.weight != "auto":
        return purifier.weight
    return "similarity" if k else "given"


def _run_of(purifier: GARNET) -> Run:
    if purifier.cluster is None:
        return here
    return OnCluster(purifier.cluster)


def require_tileable(purifier: GARNET) -> None:
    """Refuse what only the whole graph in memory allows."""
    for name, allowed in {
        "score": ("distance", "signed"),
        "scaling": ("unit", "none"),
        "features": ("auto", "none", "raw", "low-rank"),
        "neighbors": (None, "cells"),
        "device": ("cpu",),
    }.items():
        got = getattr(purifier, name)
        if got not in allowed:
            raise ParameterError(
                f"With a memory limit or a cluster the '{name}' parameter of GARNET must be one of "
                f"{', '.join(map(repr, allowed))}. Got {got!r} instead."
            )
