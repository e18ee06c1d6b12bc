"""GARNET on graphs larger than memory: the same stages, part by part, through files."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch

from garnet.errors import GarnetError, GraphError, ParameterError
from garnet.graph.files import open_source
from garnet.graph.graph import Graph, as_graph
from garnet.io.failures import writing
from garnet.io.identity import digest_of, file_identity
from garnet.io.journal import Journal, Resumable
from garnet.io.publish import publish_folder
from garnet.io.scratch import Scratch, forget
from garnet.io.targets import require_folder, require_scratch
from garnet.linalg.threads import sharing
from garnet.machine import __version__
from garnet.parameters import Count, require_parameters
from garnet.places.build import build_tiles
from garnet.places.cluster import ClusterRun
from garnet.places.delivery import delivered, describe, made_by, manifest_name, require_free
from garnet.places.edge_table import NEEDED, is_table, require_writable_table
from garnet.places.held_matrix import held_bytes
from garnet.places.plan import Cut, Memory, columns_bytes, cut_of
from garnet.places.planted_tiles import plant_tiles, planted_in
from garnet.places.row_store import RowStore, Run, run_locally
from garnet.places.tiled_result import from_facts, held
from garnet.places.tiled_work import STAGED, GraphOnDisk
from garnet.places.tiles import TiledGraph
from garnet.progress import Progress
from garnet.purify.result import Purification, plain_parameters
from garnet.spectral import Chebyshev

TILES = "tiles"
"""Folder of the tiles of the input, in the directory of a run."""


@dataclass(frozen=True, kw_only=True)
class TiledPlace:
    """What `OnDisk` and `OnCluster` have in common: they process the graph in tiles, through files.

    Intermediate files are in one hidden directory that the run makes itself. It is removed at the end; if the run is
    killed, the same call takes it over. The output appears when it is complete. If it already exists, made by the very
    same call, it is returned.

    Attributes:
        memory: bytes that a process may hold, such as `8GB`.
        output: a folder for the tiles of the purified graph or, if its name ends in .parquet, for a table of its edges;
            new, empty, or an earlier result. None to keep the result in memory.
        scratch: a folder for intermediate files; None for the output's folder, or the system's temporary one.
        overwrite: replace an earlier result in the output; other files there stay.
        ledger: keep what became of every edge, beside the tiles, at 22 bytes per edge.
        parts: minimum number of parts to cut the nodes into; memory or workers may require more.
        solver: the block solver; None chooses its tolerance by size.
    """

    memory: Memory | None
    output: str | Path | None = None
    scratch: str | Path | None = None
    overwrite: bool = False
    ledger: bool = False
    parts: Count = 1
    solver: Chebyshev | None = None

    has_workers: ClassVar[bool] = False
    """Whether other processes do the work."""

    def __post_init__(self) -> None:
        require_parameters(self)

    @contextmanager
    def open(
        self, method: Any, graph: Any, *, symmetrize: bool = False, progress: Progress | None = None
    ) -> Iterator[GraphOnDisk | Purification]:
        """See `Place`."""
        source = source_of(graph, symmetrize=symmetrize)
        task = Task(place=self, method=method, source=source, symmetrize=symmetrize, progress=progress)
        with sharing(0 if self.has_workers else None), task.open() as work:
            yield work

    def usual_solver(self, nodes: int, rank: int) -> Chebyshev:
        """The solver, if the user chose none."""
        return Chebyshev(tol=1e-5 if nodes <= 50_000 else 1e-4)

    def run(self) -> Run:
        """What does the work: this process, one task after another."""
        return run_locally

    def cut(self, method: Any, features: int, run: Run) -> Cut:
        """What decides into how many parts a graph is cut.

        Args:
            method: the purifier.
            features: of a node, of the graph.
            run: who does the work.
        """
        cut = replace(cut_of(method, features, self.memory), least=self.parts)
        if not isinstance(run, ClusterRun):
            return cut
        # Everything a process does at once must fit in its memory.
        there = run.capacity()
        memory = cut.memory if self.memory is not None or there.memory is None else there.memory
        return replace(cut, memory=memory, least=max(cut.least, there.threads), at_once=there.at_once)


def source_of(graph: Any, *, symmetrize: bool = False) -> Path | Graph:
    """What to read piece by piece: a file by its path, and anything else as a graph."""
    return Path(graph) if isinstance(graph, str | Path) else as_graph(graph, symmetrize=symmetrize)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A purification on disk or on a cluster, and how it is to be done.

    Attributes:
        place: where.
        method: the purifier.
        source: what `garnet.graph.files.open_source` reads.
        symmetrize: accept a directed graph.
        progress: called with the stages.
    """

    place: TiledPlace
    method: Any
    source: Path | Graph
    symmetrize: bool
    progress: Progress | None

    what = "a finished graph"
    """What an output holds, in words."""

    @contextmanager
    def open(self) -> Iterator[Any]:
        """The graph in tiles; or the result, if the very same call has already made it."""
        require_tileable(self.method)
        output = None if self.place.output is None else Path(self.place.output)
        if output is not None:
            yield from self._to_folder(output)
            return
        with Scratch.make(self.scratch or require_scratch(Path(tempfile.gettempdir()))) as made:
            yield self.work(made, Journal(made.folder), lambda facts: self.held(facts, made))

    def found(self, facts: dict[str, Any], output: Path, *, done_before: bool = False) -> Any:
        """The result in a folder, from its record."""
        return from_facts(facts, output, self.method, repr(self.place), done_before=done_before)

    def held(self, facts: dict[str, Any], made: Scratch) -> Any:
        """The result in memory, if the user named no output."""
        result = from_facts(facts, made.folder / STAGED, self.method, repr(self.place), scored=made.folder)
        return replace(result, graph=result.graph.to_graph(), ledger=held(result.ledger))

    def manifest(self, output: Path) -> str:
        """The name of the result's manifest."""
        return manifest_name(output)

    @property
    def as_table(self) -> bool:
        """Whether the result is a table of edges in Parquet."""
        return self.place.output is not None and is_table(Path(self.place.output))

    @property
    def scratch(self) -> Path | None:
        """Where to put the directory of intermediate files, if the user says."""
        return None if self.place.scratch is None else require_scratch(Path(self.place.scratch))

    @property
    def inputs(self) -> list[Path]:
        """The files that are read."""
        return [] if isinstance(self.source, Graph) else [self.source]

    def key(self, output: Path) -> dict[str, Any]:
        """Everything that determines the result, in plain values."""
        source = digest_of({"source": identity(self.source, output)})
        asked: dict[str, Any] = {"symmetrize": self.symmetrize, "parts": self.place.parts, "ledger": self.place.ledger}
        asked |= {"memory": self.place.memory, "solver": repr(self.place.solver)}
        return {
            "version": __version__, "source": source, "format": output.suffix, **asked,
            **plain_parameters(self.method),
        }  # fmt: skip

    def _to_folder(self, output: Path) -> Iterator[Any]:
        target, scratch = require_folder(output, inputs=self.inputs), self.scratch
        if scratch == target:
            raise GarnetError(f"Cannot keep intermediate files in {target}: it is where the result goes; give another.")
        key, manifest = self.key(target), self.manifest(target)
        run = digest_of(key)

        def finished() -> Any:
            before = made_by(target, run, manifest)
            return None if before is None else self.found(before.facts, target, done_before=True)

        if (done := finished()) is not None:
            forget(target, scratch, key=key)
            yield done
            return
        open_source(self.source)  # reports what is wrong with it before anything is written
        with working(Scratch.claim(target, within=scratch, key=key)) as (made, journal):
            if (done := finished()) is not None:  # by the same call, a moment ago
                yield done
                return
            noted, staged = journal.done("publish"), made.folder / STAGED
            if noted is not None and not any(staged.glob("*")):  # what was published has since been removed
                made.clear()
                noted = None
            # If a run was killed while it exchanged files, there is no manifest.
            if noted is None or delivered(target, manifest) is not None:
                old = require_free(target, overwrite=self.place.overwrite, name=manifest, what=self.what)
                noted = {**(noted or {}), "old": [] if old is None else sorted(old.files)}

            def deliver(facts: dict[str, Any]) -> Any:
                if "facts" not in noted:
                    describe(staged, target, run, {**facts, "stages": []}, manifest)
                    noted["facts"] = facts
                journal.note("publish", noted)
                with writing(target):
                    publish_folder(staged, target, old=noted["old"], last=manifest)
                return self.found(noted["facts"], target)

            if "facts" in noted:
                yield deliver(noted["facts"])
            else:
                yield self.work(made, journal, deliver)

    def work(self, scratch: Scratch, journal: Journal, deliver: Callable[[dict[str, Any]], Any]) -> GraphOnDisk:
        """Cut the graph into tiles, in the directory of a run."""
        opened, folder, run = open_source(self.source), scratch.folder, self.place.run()
        if self.as_table:
            require_writable_table(opened.names)
        cut, threads = self.place.cut(self.method, 0 if opened.features is None else opened.features.width, run), 1
        if isinstance(run, ClusterRun):
            threads = run.capacity().threads
            if self.as_table:
                run.require_package(*NEEDED)
            run.require_folder(folder)
        clock, tiles, planted = Resumable(journal, self.progress), folder / TILES, folder / "planted"
        plants, written = self.method.support == "auto", list[Path]()

        def tile() -> dict[str, Any]:
            options: dict[str, Any] = {"symmetrize": self.symmetrize, "progress": self.progress}
            options |= {"run": run, "at_once": cut.at_once}
            graph = build_tiles(self.source, tiles, memory=cut.memory, parts=cut.parts, **options)
            written.extend(tiles.iterdir())
            if plants and graph.num_edges:
                written.extend(plant_tiles(graph, planted, seed=self.method.seed, run=run))
            return {"memory": cut.memory}

        # Workers may have other limits when a run resumes.
        memory = clock.stage("tile", tile, lambda facts: facts, lambda _: written)["memory"]
        given = graph = TiledGraph.open(tiles)
        new = torch.zeros(2, 0, dtype=torch.int64)
        if plants and given.num_edges:
            graph, new = TiledGraph.open(planted), planted_in(planted)
        cut = replace(cut, memory=memory)
        store = RowStore(folder, graph.bounds, run, clock.tell, threads=threads)
        shared = 0 if run is run_locally else threads
        columns = cut.columns(graph.num_nodes, graph.parts, held_bytes(graph), threads=shared)
        if run is run_locally:
            spare = cut.spare(graph.num_nodes, graph.parts)
            beside = held_bytes(graph) + columns_bytes(graph.num_nodes, columns)
            # Blocks in files cost more than tiles in files.
            columns = columns if 2 * beside <= spare else 0
            store.hold(spare - beside if columns else spare)
        return GraphOnDisk(given, graph, new, store, clock, self.place, cut, columns, self.as_table, deliver)


def identity(source: Path | Graph, output: Path) -> list[Any]:
    """What identifies a source: a graph's contents, or the bytes of its files, except those of the output."""
    if not isinstance(source, Graph):
        return file_identity(source, without=[output])
    split = None if source.split is None else source.split.fingerprint
    return [source.fingerprint, *map(_digest, (source.features, source.labels, source.names)), split]


def _digest(part: Any) -> str | None:
    """Hex digits that depend only on the contents of an array, dense or sparse."""
    if part is None:
        return None
    digest = hashlib.sha256()
    for array in (part.indptr, part.indices, part.data) if sp.issparse(part) else (part,):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


@contextmanager
def working(scratch: Scratch) -> Iterator[tuple[Scratch, Journal]]:
    """The directory of a run with its notes; after a failure it stays only if the same call could resume from it."""
    with scratch:
        journal = Journal(scratch.folder)
        had = journal.stages()
        try:
            journal.tidy()
            with writing(scratch.folder):
                yield scratch, journal
        except BaseException as error:
            # Earlier work may be useful once the cause is gone, such as a cluster that does not answer.
            if not journal.stages() or (isinstance(error, ParameterError | GraphError) and not had):
                scratch.remove()
            raise


def require_tileable(method: Any) -> None:
    """Refuse what needs the whole graph in memory."""
    for name, allowed in {
        "score": ("distance", "signed"),
        "scaling": ("unit", "none"),
        "features": ("auto", "none", "raw", "low-rank"),
    }.items():
        got = getattr(method, name)
        if got not in allowed:
            raise ParameterError(
                f"With a memory limit or a cluster the '{name}' parameter of GARNET must be one of "
                f"{', '.join(map(repr, allowed))}. Got {got!r} instead."
            )
