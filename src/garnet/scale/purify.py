"""GARNET on a graph that is on disk: the stages of `garnet.purify`, part by part, here or on a cluster."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from garnet import __version__
from garnet.errors import GarnetError, ParameterError
from garnet.features import alikeness_of_ends
from garnet.graph import Graph
from garnet.parameters import require_valid
from garnet.prune import quantile
from garnet.purification import Clock, Progress, Stage, Step, plain
from garnet.scale.build import build_tiles
from garnet.scale.cluster import OnCluster
from garnet.scale.embed import ends_of_some_edges, feature_coordinates, scaled, spectrum
from garnet.scale.journal import Journal
from garnet.scale.neighbors import Effort, neighbor_pairs
from garnet.scale.parquet import NEEDED, EdgeTable, is_table, require_pyarrow
from garnet.scale.parts import Parts, Run, Tall, here
from garnet.scale.plan import Cut, bytes_of
from garnet.scale.prune import Pruned, Rule, prune
from garnet.scale.sources import open_source
from garnet.scale.tiles import MANIFEST, TiledGraph
from garnet.solvers.chebyshev import Chebyshev
from garnet.spectral import choose_rank, eigengap

if TYPE_CHECKING:
    from garnet.purify import GARNET

# Readers of tables take no notice of what begins with a low line.
_WORK, _WORK_IN_TABLE = "work", "_work"
_STAGES = ("tile", "embed", "neighbours")
_SOME_EDGES = 50_000
# What is counted on before the graph is known.
_RANK, _FEATURES, _NEIGHBORS = 100, 64, 15
_CLUSTER_MEMORY = 4 << 30


@dataclass(frozen=True, eq=False)
class TiledPurification:
    """What purifying a graph on disk gave.

    Attributes:
        graph: the purified graph; on disk if a folder was given for it, in tiles or as a table of edges, in memory if
            not.
        values: leading eigenvalues.
        residuals: of the eigenpairs.
        pruned: how many edges were kept, dropped and added, and the score below which edges were pruned.
        stages: cost of each stage; of a run that was stopped, those of all its pieces that counted.
        parts: into how many parts the nodes were cut.
        parameters: the purifier that made it.
        effort: how many cells were searched for neighbours, and the recall that this promises; None if none were.
    """

    graph: Graph | TiledGraph | EdgeTable
    values: list[float]
    residuals: list[float]
    pruned: Pruned
    stages: tuple[Stage, ...]
    parts: int
    parameters: GARNET
    effort: Effort | None = None

    @property
    def seconds(self) -> float:
        """Wall time of all stages."""
        return sum(stage.seconds for stage in self.stages)

    def summary(self) -> dict[str, Any]:
        """The figures of this purification as plain values, ready for JSON."""
        pruned = self.pruned
        return {
            "nodes": self.graph.num_nodes,
            "edges_before": pruned.kept + pruned.dropped,
            "edges_after": self.graph.num_edges,
            "kept": pruned.kept,
            "dropped": pruned.dropped,
            "added": pruned.added,
            "base_edges": pruned.base_edges,
            "probes": None if self.effort is None else self.effort.probes,
            "recall": None if self.effort is None else self.effort.recall,
            "rank": len(self.values),
            "largest_residual": max(self.residuals),
            "threshold": plain(pruned.threshold),
            "seconds": self.seconds,
            "stages": [asdict(stage) for stage in self.stages],
            "parts": self.parts,
            "parameters": _parameters(self.parameters),
        }


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
    _require_free(output)
    open_source(source)  # says what is wrong with it before anything is written
    if is_table(output):
        require_pyarrow()
    run = _run_of(purifier)
    cut = _cut_for(purifier, run, parts)
    if is_table(output) and isinstance(run, OnCluster):
        run.require_package(*NEEDED)
    asked = {"source": _identity(source), "symmetrize": symmetrize, "parts": parts, **_parameters(purifier)}
    step: Step | None = getattr(progress, "step", None)
    with Journal(_work_of(output), {"version": __version__, **asked}) as journal:
        if isinstance(run, OnCluster):
            run.require_folder(journal.folder)
        clock, tiles = _Resumable(journal, progress), journal.folder / "tiles"
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
    purifier: GARNET, graph: TiledGraph, parts: Parts, clock: _Resumable, output: Path, *, memory: int
) -> TiledPurification:
    """Embed the nodes of a tiled graph, find neighbours and prune; or go on with it."""
    with clock("embed") as facts:
        if facts is None:
            facts = _embed(purifier, graph, parts)
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


def _embed(purifier: GARNET, graph: TiledGraph, parts: Parts) -> dict[str, Any]:
    """Write the points, V beside the features, and say of what they are made."""
    labels = graph.labels()
    rank = choose_rank(purifier.rank, graph.num_nodes, labels)
    solver = purifier.solver or Chebyshev(tol=1e-5 if graph.num_nodes <= 50_000 else 1e-4)
    if not isinstance(solver, Chebyshev):
        raise ParameterError("With a memory limit or a cluster the 'solver' parameter of GARNET must be a Chebyshev.")
    total = sum(float(graph.degrees(i).sum()) for i in range(graph.parts))
    tau = total / graph.num_nodes if purifier.tau == "mean" else purifier.tau
    found = spectrum(
        graph, parts, rank, tau=tau if purifier.normalize else None, solver=solver, end=purifier.end, seed=purifier.seed
    )
    kept = eigengap(found.values) if purifier.rank == "auto" and labels is None else rank
    roots = found.values[:kept].abs().sqrt()
    spectral = parts.map(_embedded(roots, purifier.scaling), found.vectors)
    features = feature_coordinates(graph, parts, purifier.features, purifier.feature_rank)
    if features is None:
        points = parts.map(lambda rows: rows, spectral, name="points")
    else:
        block = parts.map(scaled(purifier.scaling), features)
        weight = purifier.feature_weight
        if weight == "auto":
            alike, first, second = ends_of_some_edges(
                graph, parts, spectral, block, most=_SOME_EDGES, seed=purifier.seed
            )
            inner = alike >= quantile(alike, 0.5)
            weight = purifier.say_of_features(alikeness_of_ends(first[inner], second[inner]))
        points = parts.map(_beside(float(weight)), spectral, block, name="points")
    return {
        "width": points.width,
        "values": found.values[:kept].tolist(),
        "residuals": found.residuals[:kept].tolist(),
        "products": found.products,
    }


def _embedded(roots: torch.Tensor, scaling: Any) -> Any:
    work = scaled(scaling)
    return lambda vectors: work(vectors[:, : len(roots)] * roots)


def _beside(weight: float) -> Any:
    return lambda spectral, block: torch.cat([spectral, weight * block], dim=1)


class _Resumable(Clock):
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
    return [name for name in _STAGES if (_work_of(output) / f"{name}.json").exists()]


def _work_of(output: Path) -> Path:
    return output / (_WORK_IN_TABLE if is_table(output) else _WORK)


def _require_free(output: Path) -> None:
    """Refuse what is not a folder, and one that holds a finished graph."""
    if output.is_file():
        raise GarnetError(f"Cannot write {output}: it is a file, and the result is a folder; remove it first.")
    work = _work_of(output)
    finished = any(output.glob("*.parquet")) if is_table(output) else (output / MANIFEST).exists()
    # A run that was stopped when all but its last note was written has both, and is brought to its end.
    if finished and not Journal.is_open(work):
        shutil.rmtree(work, ignore_errors=True)
        raise GarnetError(f"{output} holds a finished graph; remove it, or give another folder.")


def cut_of(purifier: GARNET) -> Cut:
    """What decides into how many parts a graph is cut before anything is known of it, or of the workers."""
    return Cut(
        memory=bytes_of(purifier.memory or _CLUSTER_MEMORY), width=_coordinates(purifier), k=purifier.k or _NEIGHBORS
    )


def _cut_for(purifier: GARNET, run: Run, parts: int) -> Cut:
    """The same for those who do the work: all that a process does at once must fit in its memory."""
    cut = replace(cut_of(purifier), least=parts)
    if not isinstance(run, OnCluster):
        return cut
    there = run.capacity()
    memory = there.memory if purifier.memory is None and there.memory is not None else cut.memory
    return replace(cut, memory=memory, least=max(parts, there.threads), at_once=there.at_once)


def _coordinates(purifier: GARNET) -> int:
    """Coordinates of a point, at most."""
    rank = purifier.rank if isinstance(purifier.rank, int) else _RANK
    return rank + (0 if purifier.features == "none" else purifier.feature_rank or _FEATURES)


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


def _identity(source: str | Path | Graph) -> list[Any]:
    """What tells a source from another: a graph by what it holds, a file by its place, size and time."""
    if isinstance(source, Graph):
        return [source.fingerprint, _digest(source.features), _digest(source.labels)]
    path = Path(source).resolve()
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return [str(path), *([file.stat().st_size, file.stat().st_mtime_ns] for file in files if file.exists())]


def _digest(part: Any) -> str | None:
    """Some hex digits that are the same wherever an array is, dense or sparse."""
    if part is None:
        return None
    digest = hashlib.sha256()
    for array in (part.indptr, part.indices, part.data) if sp.issparse(part) else (part,):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def _parameters(purifier: GARNET) -> dict[str, Any]:
    return {field.name: plain(getattr(purifier, field.name)) for field in fields(purifier) if field.name != "cluster"}
