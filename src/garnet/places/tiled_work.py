"""A graph in tiles, and what the stages of a purification ask of it; see `garnet.purify.place.Work`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from garnet.errors import GarnetError
from garnet.io.failures import writing
from garnet.io.journal import Resumable
from garnet.linalg.edge_products import inner_products
from garnet.neighbors.search import Cells
from garnet.places.edge_table import EdgeTable, table_of, write_table
from garnet.places.plan import Cut
from garnet.places.row_files import RowFile, read, write
from garnet.places.row_store import RowMatrix, RowStore
from garnet.places.tile_writer import finish_like, has_strip, link_or_copy
from garnet.places.tiled_embedding import released, tiled_features, tiled_spectrum
from garnet.places.tiled_nodes import revise_tile, row_at_nodes, together
from garnet.places.tiled_scores import (
    TileTask,
    count_digits,
    gather_strip,
    is_scored,
    points_of,
    score_tile,
    tally_files,
    tile_looks,
)
from garnet.places.tiled_search import TiledBase, tiled_base_graph
from garnet.places.tiles import TiledGraph
from garnet.purify.memory import thinned
from garnet.purify.place import Counted, Embedding, Pruned, Revised
from garnet.purify.quantile import quantile
from garnet.purify.result import Purification, without_vectors
from garnet.purify.scores import Choice, Critical, Tally
from garnet.purify.settings import Settings, Shape, count_classes
from garnet.purify.suspicion import MOST_LEARNT, Seen, Suspicion
from garnet.spectral import Spectrum

STAGED = "graph"
"""Folder of the purified graph, in the directory of a run."""

Tiles = dict[tuple[int, int], Path]
"""The file of scored edges of each tile (i, j), i <= j."""


@dataclass(frozen=True, eq=False)
class GraphOnDisk:
    """See `Work`.

    Attributes:
        given: the tiles of the input.
        graph: the graph to read: the same, or with planted edges.
        planted: (2, p) the planted edges.
        store: where matrices of rows are kept, and what works on them.
        clock: times the stages.
        place: an `OnDisk` or an `OnCluster`.
        cut: how the graph is cut, and what a process may hold.
        columns: columns that a task may filter; 0 if no process may hold the part of the adjacency that this takes.
        as_table: write a table of edges instead of tiles.
        deliver: puts the result where it belongs.
    """

    given: TiledGraph
    graph: TiledGraph
    planted: Tensor
    store: RowStore
    clock: Resumable
    place: Any
    cut: Cut
    columns: int
    as_table: bool
    deliver: Callable[[dict[str, Any]], Any]

    @cached_property
    def shape(self) -> Shape:
        """See `Work`."""
        graph = self.given
        return Shape(
            nodes=graph.num_nodes,
            edges=graph.num_edges,
            features=graph.feature_width or 0,
            classes=count_classes(graph.labels()),
            mean_degree=graph.total_weight() / max(graph.num_nodes, 1),
        )

    def stage(self, name: str, compute: Callable[[], Any]) -> Any:
        """See `Work`."""
        note: Any = {"embed": self._note_embedding, "neighbours": asdict_base, "prune": _note_pruned}[name]
        restore: Any = {"embed": self._embedding, "neighbours": base_of, "prune": self._pruned}[name]
        files: Any = {
            "embed": lambda _: self.store.files("points"),
            "neighbours": lambda base: (self.store.folder / name for name in base.names()),
            "prune": lambda _: (),
        }[name]
        # The recorded value is passed on, so matrices no longer needed are forgotten.
        return restore(self.clock.stage(name, compute, note, files))

    def spectrum(self, settings: Settings) -> Spectrum:
        """See `Work`."""
        solver = self.place.solver or self.place.usual_solver(self.graph.num_nodes, settings.rank)
        return tiled_spectrum(self.graph, self.store, settings, solver, columns=self.columns)

    def features(self, settings: Settings) -> RowMatrix | None:
        """See `Work`."""
        return tiled_features(self.graph, self.store, settings)

    def map(self, work: Callable[..., Tensor], *blocks: RowMatrix, name: str | None = None) -> RowMatrix:
        """See `Work`."""
        return self.store.map(work, *blocks, name=name)

    def take(self, block: RowMatrix, nodes: Tensor) -> Tensor:
        """See `Work`."""
        return self.store.take(block, nodes)

    def edge_likeness(self, block: RowMatrix) -> tuple[Tensor, Tensor]:
        """See `Work`."""
        tasks = [(self.graph, i, j, block.files[i], block.files[j], block.width) for i, j in self._tiles]
        edges, alike = (torch.cat(every, dim=-1) for every in zip(*self.store.run(_likeness, tasks), strict=True))
        order = (edges[0] * self.graph.num_nodes + edges[1]).argsort()
        return edges[:, order], alike[order]

    def base_graph(self, points: RowMatrix, settings: Settings) -> TiledBase:
        """See `Work`."""
        return tiled_base_graph(self.store, points, settings, memory=self.cut.memory, search=Cells())

    def base_embedding(self, base: TiledBase, rank: int, settings: Settings) -> Tensor:
        """See `Work`; available only with the whole graph in memory."""
        raise GarnetError("The score 'distortion' needs the whole graph in memory; purify with InMemory().")

    def seen(self, embedding: Embedding) -> Seen:
        """See `Work`."""
        points, bounds = embedding.points, self.graph.bounds
        owners = torch.searchsorted(torch.tensor(bounds[1:]), self.planted, right=True)
        tasks = []
        for i, j in self._tiles:
            planted = self.planted[:, (owners[0] == i) & (owners[1] == j)] - torch.tensor([[bounds[i]], [bounds[j]]])
            files = points.files[i], points.files[j]
            tasks.append((self.given, self.graph, i, j, files, points.width, embedding.spectrum.rank, planted))
        edges, given, planted = (torch.cat(every, dim=1) for every in zip(*self.store.run(_seen, tasks), strict=True))
        order = (edges[0] * self.graph.num_nodes + edges[1]).argsort()
        return Seen(edges[:, order], given[:, order], planted)

    def score(
        self, embedding: Embedding, base: TiledBase, settings: Settings, critical: Critical, suspicion: Suspicion | None
    ) -> Tiles:
        """See `Work`; a tile that has been scored is not scored again."""
        folder, points, scored = self.store.folder, embedding.points, self._files("scored")
        tasks = (
            TileTask(
                given=self.given,
                graph=self.graph,
                i=i,
                j=j,
                points=(points.files[i], points.files[j]),
                width=points.width,
                base=[(folder / name, first, count) for name, first, count in base.files.get((i, j), ())],
                settings=settings,
                critical=critical,
                rank=embedding.spectrum.rank,
                suspicion=suspicion,
                target=file,
            )
            for (i, j), file in scored.items()
            if not is_scored(file)
        )
        with released(self.store):
            self.store.do("score", score_tile, ((task,) for task in tasks))
        return scored

    def at_nodes(self, scored: Tiles, of: Counted, *, largest: bool = False) -> Tensor:
        """See `Work`."""
        bounds, parts = self.graph.bounds, range(self.graph.parts)
        sizes = [[bounds[j + 1] - bounds[j] for j in range(i, self.graph.parts)] for i in parts]
        found = self.store.each(row_at_nodes, self._rows(scored), sizes, repeat(of), repeat(largest))
        total = torch.zeros(bounds[-1], found[0][0].shape[1], dtype=torch.float64)
        for i, (rows, columns) in enumerate(found):
            here, after = slice(bounds[i], bounds[i + 1]), slice(bounds[i], None)
            total[here] = together(total[here], rows, largest=largest)
            total[after] = together(total[after], columns, largest=largest)
        return total

    def revise(self, name: str, scored: Tiles, of: Revised, nodes: Tensor) -> Tiles:
        """See `Work`."""
        numbers, bounds = self.store.new(nodes.shape[1], f"nodes-{name}"), self.graph.bounds
        for i, file in enumerate(numbers.files):
            write(file, nodes[bounds[i] : bounds[i + 1]])
        revised = self._files(name)
        tasks = [
            (scored[i, j], file, of, numbers.files[i], numbers.files[j], nodes.shape[1])
            for (i, j), file in revised.items()
        ]
        self.store.do("weigh", revise_tile, tasks)
        return revised

    def quantile(self, scored: Tiles, column: Literal["score", "support"], share: float) -> float:
        """See `Work`."""
        rows = self._rows(scored)

        def count(place: int, beginnings: Sequence[int]) -> Tensor:
            columns = rows, repeat(column), repeat(place), repeat(tuple(beginnings))
            return torch.stack(self.store.each(count_digits, *columns)).sum(dim=0)

        return quantile(count, share)

    def tally(self, scored: Tiles, choice: Choice) -> Tally:
        """See `Work`."""
        return Tally.sum(self.store.each(tally_files, self._rows(scored), repeat(choice)))

    def gather(self, scored: Tiles, choice: Choice, tally: Tally) -> TiledGraph | EdgeTable:
        """See `Work`; a strip that has been written is not written again."""
        graph, output = self.given, self._staged
        with writing(output):
            output.mkdir(exist_ok=True)
        if self.as_table:
            write_table(graph, self.store, self._rows(scored), choice, output)
            return table_of(graph, output, tally.kept + tally.added)
        tasks = []
        for i in range(graph.parts):
            if not has_strip(output, i):
                files = [scored[min(i, j), max(i, j)] for j in range(graph.parts)]
                tasks.append((i, graph.bounds, files, choice, output))
        self.store.do("write", gather_strip, tasks)
        return finish_like(output, graph)

    def result(self, settings: Settings, embedding: Embedding, base: TiledBase, pruned: Pruned) -> Purification:
        """See `Work`."""
        spectrum = embedding.spectrum
        facts = {
            "bounds": list(self.graph.bounds),
            "left_out": list(getattr(pruned.graph, "left_out", ())),
            "values": spectrum.values.tolist(),
            "residuals": spectrum.residuals.tolist(),
            "products": spectrum.products,
            "choice": asdict(pruned.choice),
            "tally": list(pruned.tally),
            "settings": settings.plain(),
            "probes": base.probes,
            "recall": base.recall,
            "tiles": _name_of(pruned.scored),
            "stages": [asdict(stage) for stage in self.clock.stages],
        }
        if self.place.ledger:
            for (i, j), file in pruned.scored.items():
                link_or_copy(file, self._staged / ledger_name(i, j))
        result: Purification = self.deliver(facts)
        return result

    @property
    def _staged(self) -> Path:
        return self.store.folder / STAGED

    @property
    def _tiles(self) -> list[tuple[int, int]]:
        return [(i, j) for i in range(self.graph.parts) for j in range(i, self.graph.parts)]

    def _files(self, name: str) -> Tiles:
        return {(i, j): self.store.folder / f"{name}-{i}-{j}.bin" for i, j in self._tiles}

    def _rows(self, scored: Tiles) -> list[list[Path]]:
        """The files of each row of tiles."""
        return [[scored[i, j] for j in range(i, self.graph.parts)] for i in range(self.graph.parts)]

    def _note_embedding(self, embedding: Embedding) -> dict[str, Any]:
        spectrum = embedding.spectrum
        return {
            "width": embedding.points.width,
            "values": spectrum.values.tolist(),
            "residuals": spectrum.residuals.tolist(),
            "products": spectrum.products,
            "feature_weight": embedding.feature_weight,
        }

    def _embedding(self, noted: dict[str, Any]) -> Embedding:
        points = RowMatrix(self.store.files("points"), self.graph.bounds, noted["width"], keep=True)
        spectrum = without_vectors(noted["values"], noted["residuals"], noted["products"])
        return Embedding(points, spectrum, noted["feature_weight"])

    def _pruned(self, noted: dict[str, Any]) -> Pruned:
        choice, tally = Choice(**noted["choice"]), Tally(*noted["tally"])
        edges = tally.kept + tally.added
        graph = table_of(self.given, self._staged, edges) if self.as_table else TiledGraph.open(self._staged)
        return Pruned(choice, tally, self._files(noted["tiles"]), graph, noted["share"], noted["power"])


def asdict_base(base: TiledBase) -> dict[str, Any]:
    """A base graph as JSON values."""
    files = [[i, j, segments] for (i, j), segments in base.files.items()]
    return {"files": files, "probes": base.probes, "recall": base.recall}


def base_of(noted: dict[str, Any]) -> TiledBase:
    """The recorded base graph."""
    files = {(i, j): [(name, first, count) for name, first, count in some] for i, j, some in noted["files"]}
    return TiledBase(files, noted["probes"], noted["recall"])


def _note_pruned(pruned: Pruned) -> dict[str, Any]:
    facts = {"choice": asdict(pruned.choice), "tally": list(pruned.tally), "tiles": _name_of(pruned.scored)}
    return {**facts, "share": pruned.share, "power": pruned.power}


def _name_of(tiles: Tiles) -> str:
    """The name under which tiles were scored, or revised."""
    return next(iter(tiles.values())).name.split("-")[0]


def ledger_name(i: int, j: int) -> str:
    """The file of the ledger of a tile."""
    return f"ledger-{i}-{j}.bin"


def _likeness(graph: TiledGraph, i: int, j: int, first: RowFile, second: RowFile, width: int) -> tuple[Tensor, Tensor]:
    """Edges of a tile, (2, s), a sample if very many; and the inner product of each edge's rows."""
    edges = thinned(torch.from_numpy(graph.edges(i, j)), graph.num_edges)
    left, right = read(first, width), read(second, width)
    local = edges - torch.tensor([[graph.bounds[i]], [graph.bounds[j]]])
    return edges, inner_products(left, right, local)


def _seen(
    given: TiledGraph,
    graph: TiledGraph,
    i: int,
    j: int,
    files: tuple[RowFile, RowFile],
    width: int,
    rank: int,
    planted: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Edges of a tile, a sample if very many; what is observed about them, and about those planted there."""
    first = torch.tensor([[graph.bounds[i]], [graph.bounds[j]]])
    edges = thinned(torch.from_numpy(given.edges(i, j)), given.num_edges, MOST_LEARNT)
    left = points_of(graph, i, files[0], width)
    points = left, left if i == j else points_of(graph, j, files[1], width)
    both = torch.cat([edges - first, planted], dim=1)
    order = both[0].argsort(stable=True)
    looked = torch.empty(4, len(order))
    looked[:, order] = tile_looks(graph, i, j, both[:, order], points, rank)
    return edges, looked[:, : edges.shape[1]], looked[:, edges.shape[1] :]
