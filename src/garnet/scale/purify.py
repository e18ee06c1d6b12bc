"""GARNET on a graph that is on disk: the stages of `garnet.purify`, part by part, here or on a cluster."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from garnet import __version__
from garnet.errors import ParameterError
from garnet.graph import Graph
from garnet.parameters import require_valid
from garnet.purification import Progress, Step
from garnet.scale.build import build_tiles
from garnet.scale.cluster import OnCluster
from garnet.scale.journal import Journal
from garnet.scale.neighbors import Effort, neighbor_pairs
from garnet.scale.parquet import NEEDED, is_table, require_pyarrow
from garnet.scale.parts import Parts, Run, Tall, here
from garnet.scale.plan import Cut, bytes_of
from garnet.scale.points import embedded_points
from garnet.scale.prune import Rule, prune
from garnet.scale.result import TiledPurification, plain_parameters
from garnet.scale.resume import Resumable, finished, identity, is_finished, require_free, stages_done, work_of
from garnet.scale.sources import open_source
from garnet.scale.tiles import TiledGraph

if TYPE_CHECKING:
    from garnet.purify import GARNET

# What is counted on before the graph is known.
_RANK, _NEIGHBORS = 100, 15
_CLUSTER_MEMORY = 4 << 30


def purify_tiled(
    purifier: GARNET,
    source: str | Path | Graph,
    output: Path | None,
    *,
    symmetrize: bool = False,
    parts: int = 1,
    progress: Progress | None = None,
) -> TiledPurification:
    """Purify a graph that need not fit in memory.

    Args:
        purifier: with `memory` or `cluster` set.
        source: what `garnet.scale.sources.open_source` reads.
        output: folder for the tiles of the purified graph, and for the work until it is done; if its name ends in
            .parquet, for a table of edges instead; None for a temporary one.
        symmetrize: accept a directed graph.
        parts: cut the nodes into so many parts at least; the memory may ask for more.
        progress: called with the name of each stage as it begins.

    Raises:
        MissingExtra: a table or a cluster needs a package that is not installed.
        GarnetError: the folder holds something else, or a file cannot be read or written.
    """
    require_tileable(purifier)
    if output is None:
        with tempfile.TemporaryDirectory(prefix="garnet-") as folder:
            place = Path(folder) / "graph"
            result = purify_tiled(purifier, source, place, symmetrize=symmetrize, parts=parts, progress=progress)
            return replace(result, graph=result.pruned.graph.to_graph())
    output = output.resolve()  # a worker may stand elsewhere
    require_free(output)
    opened = open_source(source)  # says what is wrong with it before anything is written
    if is_table(output):
        require_pyarrow()
    run = _run_of(purifier)
    cut = _cut_for(purifier, 0 if opened.features is None else opened.features.width, run, parts)
    if is_table(output) and isinstance(run, OnCluster):
        run.require_package(*NEEDED)
    asked = {"source": identity(source, output), "symmetrize": symmetrize, "parts": parts, **plain_parameters(purifier)}
    step: Step | None = getattr(progress, "step", None)
    with Journal(work_of(output), {"version": __version__, **asked}) as journal:
        if is_finished(output) and not stages_done(output):  # by another run, since it was looked at
            journal.remove()
            raise finished(output)
        if isinstance(run, OnCluster):
            run.require_folder(journal.folder)
        clock, tiles = Resumable(journal, progress), journal.folder / "tiles"
        with clock("tile") as facts:
            if facts is None:
                say = None if step is None else lambda name: step(name, 0, 0)
                build_tiles(source, tiles, memory=cut.memory, parts=cut.parts, symmetrize=symmetrize, progress=say)
                facts = {"memory": cut.memory}
                clock.note(facts, tiles.iterdir())
        graph = TiledGraph.open(tiles)
        require_valid(purifier, graph.num_nodes, graph.num_edges)
        rows = Parts(journal.folder, graph.bounds, run, step)
        if run is here:
            rows.hold(cut.spare(graph.num_nodes, graph.parts))
        # Workers may have other limits when a run goes on.
        result = _purify(purifier, graph, rows, clock, output, memory=facts["memory"])
        journal.remove()
    return result


def _purify(
    purifier: GARNET, graph: TiledGraph, parts: Parts, clock: Resumable, output: Path, *, memory: int
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

    with clock("prune"):
        signs = None
        if purifier.score == "signed":
            signs = torch.ones(points.width)
            signs[: len(facts["values"])] = torch.tensor(facts["values"]).sign()
        rule = Rule(
            gamma=purifier.gamma,
            gamma_unit=purifier.gamma_unit,
            support=purifier.doubted(k),
            overlap=purifier.overlap,
            score=purifier.score,  # type: ignore[arg-type]
            signs=signs,
            weight=_weight_kind(purifier, k),
        )
        pruned = prune(graph, parts, points, base, rule, output, as_table=is_table(output))
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
