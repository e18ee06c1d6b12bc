"""What a purifier returns: the graph, how it was made, what became of every edge, and what it cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import GraphError, MissingExtra
from garnet.graph.edges import contains
from garnet.graph.graph import Edges
from garnet.graph.html import html_table
from garnet.io.atomic import atomic_path
from garnet.io.frames import data_frame
from garnet.linalg.sparse import to_host
from garnet.progress import Stage
from garnet.purify.fates import Columns, Fates, ends, fate_columns, found
from garnet.purify.settings import Settings, plain
from garnet.purify.verdicts import Judging, Later, Verdicts
from garnet.spectral.spectrum import Spectrum

_BATCH = 1 << 20  # edges


class LedgerBatch(NamedTuple):
    """What became of some edges.

    Attributes:
        edges: (2, s), the smaller node first.
        scores: (s,) how critical each is, or would have been.
        given: (s,) which are in the input.
        stays: (s,) which are in the purified graph.
        near: (s,) which are in the base graph.
    """

    edges: Edges
    scores: NDArray[np.float32]
    given: NDArray[np.bool_]
    stays: NDArray[np.bool_]
    near: NDArray[np.bool_]

    @property
    def status(self) -> NDArray[np.str_]:
        """`kept`, `dropped`, `added`, or `rejected` for a base edge that was pruned."""
        words: NDArray[np.str_] = np.array(["rejected", "dropped", "added", "kept"])[2 * self.stays + self.given]
        return words


class AnyLedger(ABC):
    """What became of every edge of the input, of the base graph and of the purified graph.

    Attributes:
        num_nodes: number of nodes of all three graphs.
        names: (n,) names of the nodes; None if they have none, or these are unknown.
        counts: how many edges were kept, dropped and added.
        base_edges: how many edges the base graph has.
    """

    num_nodes: int
    names: NDArray[Any] | None

    @property
    @abstractmethod
    def counts(self) -> dict[str, int]:
        """How many edges were kept, dropped and added."""

    @property
    @abstractmethod
    def base_edges(self) -> int:
        """Edges of the base graph."""

    @abstractmethod
    def batches(self, size: int = _BATCH) -> Iterator[LedgerBatch]:
        """All edges, in batches."""

    @cached_property
    def kept(self) -> Edges:
        """Input edges that the purified graph still has, (2, m)."""
        return self._collected[0]

    @cached_property
    def dropped(self) -> Edges:
        """Input edges that it no longer has."""
        return self._collected[2]

    @cached_property
    def added(self) -> Edges:
        """Edges that the input did not have."""
        return self._collected[4]

    @cached_property
    def kept_scores(self) -> NDArray[np.float32]:
        """How critical each kept edge is, (m,)."""
        return self._collected[1]

    @cached_property
    def dropped_scores(self) -> NDArray[np.float32]:
        """How critical each dropped edge would have been."""
        return self._collected[3]

    @cached_property
    def added_scores(self) -> NDArray[np.float32]:
        """How critical each added edge is."""
        return self._collected[5]

    def share_dropped(self, edges: Edges) -> float:
        """Share of the given edges (2, m), canonical and all in the input, that were dropped."""
        return float(contains(self.dropped, edges, self.num_nodes).mean()) if edges.shape[1] else 0.0

    @property
    def fates(self) -> Fates:
        """The edges that were kept, dropped and added, with their scores."""
        return {
            "kept": (self.kept, self.kept_scores),
            "dropped": (self.dropped, self.dropped_scores),
            "added": (self.added, self.added_scores),
        }

    def trust_of(self, edges: Edges) -> NDArray[np.float32]:
        """How far edges (2, m) of the input are trusted, from 0 to 1; NaN for others, and where nothing is known."""
        return np.full(edges.shape[1], np.nan, np.float32)

    def table(self) -> Columns:
        """As columns: source and target by name, status, trust, score and reason, in node order.

        `status` is kept, dropped or new; `trust`, from 0 to 1, how far an edge of the input is believed, NaN where
        planted edges did not determine it; `score` how critical it is to the graph.
        """
        edges, columns = fate_columns(self.fates, self.num_nodes)
        named = ends(edges, self.names)
        return {**named, "status": columns.pop("status"), "trust": self.trust_of(edges), **columns}

    def to_pandas(self) -> Any:
        """The `table` as a pandas data frame.

        Raises:
            MissingExtra: pandas is not installed.
        """
        return data_frame(self.table())

    def _repr_html_(self) -> str:
        rows = {f"edges {fate}": f"{count:,}" for fate, count in self.counts.items()}
        return html_table("Ledger", rows | {"edges of the base graph": f"{self.base_edges:,}"})

    def to_parquet(self, path: str | Path) -> None:
        """Write a table with the columns source, target, status and score, batch by batch.

        Raises:
            MissingExtra: pyarrow is not installed.
            GarnetError: the file cannot be written.
        """
        try:
            import pyarrow as arrow
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise MissingExtra("pyarrow", "A Parquet table", "pygarnet[parquet]") from error
        kinds = {"source": arrow.int64(), "target": arrow.int64(), "status": arrow.string(), "score": arrow.float32()}
        schema = arrow.schema(kinds.items())
        with atomic_path(path) as unfinished, parquet.ParquetWriter(unfinished, schema) as writer:
            for batch in self.batches():
                columns = dict(zip(kinds, (*batch.edges, batch.status, batch.scores), strict=True))
                writer.write_table(arrow.table(columns, schema=schema))

    @cached_property
    def _collected(self) -> list[NDArray[Any]]:
        """Sorted edges and scores of those kept, dropped and added."""
        columns: list[list[NDArray[Any]]] = [[] for _ in range(6)]
        for batch in self.batches():
            fates = batch.given & batch.stays, batch.given & ~batch.stays, batch.stays & ~batch.given
            for number, fate in enumerate(fates):
                columns[2 * number].append(batch.edges[:, fate])
                columns[2 * number + 1].append(batch.scores[fate])
        pairs = zip(columns[::2], columns[1::2], strict=True)
        return [column for edges, scores in pairs for column in _sorted(edges, scores, self.num_nodes)]


def _sorted(edges: Sequence[Edges], scores: Sequence[NDArray[np.float32]], n: int) -> tuple[Edges, NDArray[np.float32]]:
    """The edges of some batches and their scores, in node order."""
    every, number = np.concatenate(edges, axis=1), np.concatenate(scores)
    order = np.argsort(every[0] * n + every[1], kind="stable")
    return every[:, order], number[order]


@dataclass(frozen=True, eq=False, repr=False)
class Ledger(AnyLedger):
    """A ledger in memory.

    For a graph with a hundred million edges on a GPU, moving arrays of edges to the host takes longer than finding
    them, so they are made when first asked for. Until then the tensors stay on the device, at some 25 bytes per edge.

    Attributes:
        edges: (2, m) edges of the input, of the base graph, or of both, sorted, the smaller node first.
        scores: (m,) how critical each is, or would have been.
        given: (m,) which are in the input.
        stays: (m,) which are in the purified graph.
        num_nodes: number of nodes.
        near: (m,) which are in the base graph; None if there is none.
        trust: (m,) how far each input edge is trusted, from 0 to 1; None where planted edges did not determine it.
        names: (n,) names of the nodes; None if they have none.
    """

    edges: Tensor
    scores: Tensor
    given: Tensor
    stays: Tensor
    num_nodes: int
    near: Tensor | None = None
    trust: Tensor | None = None
    names: NDArray[Any] | None = None

    def trust_of(self, edges: Edges) -> NDArray[np.float32]:
        """See `AnyLedger`."""
        if self.trust is None:
            return super().trust_of(edges)
        given = to_host(self.given).numpy()
        known, values = to_host(self.edges).numpy()[:, given], to_host(self.trust).numpy()[given]
        return found(known, values, edges, self.num_nodes)

    @property
    def counts(self) -> dict[str, int]:
        """See `AnyLedger`."""
        kept, given, stays = (int(which.sum()) for which in (self.given & self.stays, self.given, self.stays))
        return {"kept": kept, "dropped": given - kept, "added": stays - kept}

    @property
    def base_edges(self) -> int:
        """See `AnyLedger`."""
        return 0 if self.near is None else int(self.near.sum())

    def batches(self, size: int = _BATCH) -> Iterator[LedgerBatch]:
        """See `AnyLedger`."""
        near = torch.zeros_like(self.given) if self.near is None else self.near
        columns = self.edges, self.scores, self.given, self.stays, near
        for begin in range(0, max(len(self.scores), 1), size):
            yield LedgerBatch(*(to_host(column[..., begin : begin + size]).numpy() for column in columns))

    @cached_property
    def _collected(self) -> list[NDArray[Any]]:
        fates = self.given & self.stays, self.given & ~self.stays, self.stays & ~self.given
        chosen = ((self.edges[:, fate], self.scores[fate]) for fate in fates)
        return [to_host(part).numpy() for pair in chosen for part in pair]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Purification:
    """The result of purifying a graph, wherever that was done.

    Attributes:
        graph: the purified graph, with the nodes, features, labels, split and names of the input. In memory a `Graph`,
            on disk its tiles or a table of its edges.
        spectrum: leading eigenpairs of the input's adjacency; on disk without the vectors.
        threshold: the score below which base edges were pruned: gamma in the units of `scores`.
        ledger: what became of each edge.
        settings: the parameters as resolved for this graph.
        parameters: the purifier that made it.
        place: where it ran.
        stages: cost of each stage; for an interrupted run, of all its parts that counted; none if it was done before.
        parts: how many parts the nodes were divided into.
        probes: cells searched for the neighbours of a cell; None if all points were compared, or this is unknown.
        recall: share of the true neighbours that this search expects to find.
        done_before: whether the very same call had made the output earlier, so nothing had to be done.
        later: makes the judge of edges that arrive later; None if the graph was not in memory.
    """

    graph: Any
    spectrum: Spectrum
    threshold: float
    ledger: AnyLedger
    settings: Settings
    parameters: Any
    place: str
    stages: tuple[Stage, ...]
    parts: int = 1
    probes: int | None = None
    recall: float | None = None
    done_before: bool = False
    later: Later | None = None

    def judge(self, edges: Any, *, features: Mapping[Any, Any] | None = None, numbers: bool = False) -> Verdicts:
        """Judge edges that arrive later by this purification, without a new run.

        Each is judged as if it were the only new one: trusted like the graph's own edges, and doubted where such an
        edge would be dropped. See `garnet.purify.judge` for how, and `Verdicts.purify_again` for how long that holds.

        Args:
            edges: (2, m) source and target nodes, by name, or by number if nodes have no names. Neither their order nor
                repeated edges matter.
            features: of nodes that the graph does not have, rows of numbers by node name.
            numbers: whether edges are given by node number even though nodes have names.

        Raises:
            GraphError: they are not edges; or the graph was purified on disk.
            ParameterError: the purification's settings say nothing about new edges.
        """
        return self._judge(edges, features=features, numbers=numbers)

    @cached_property
    def _judge(self) -> Judging:
        if self.later is None:
            raise GraphError("A purification on disk keeps nothing to judge new edges by; purify in memory.")
        judge: Judging = self.later()
        return judge

    @property
    def base(self) -> Edges:
        """The edges of the base graph, (2, m)."""
        return self._base[0]

    @property
    def scores(self) -> NDArray[np.float32]:
        """The score of each base edge, (m,); larger is more critical."""
        return self._base[1]

    @cached_property
    def _base(self) -> tuple[Edges, NDArray[np.float32]]:
        edges: list[Edges] = []
        scores: list[NDArray[np.float32]] = []
        for batch in self.ledger.batches():
            edges.append(batch.edges[:, batch.near])
            scores.append(batch.scores[batch.near])
        return _sorted(edges, scores, self.ledger.num_nodes)

    @property
    def seconds(self) -> float:
        """Wall time of all stages."""
        return sum(stage.seconds for stage in self.stages)

    def summary(self) -> dict[str, Any]:
        """The figures of this purification as plain values, ready for JSON."""
        counts, residuals = self.ledger.counts, self.spectrum.residuals
        return {
            "nodes": self.graph.num_nodes,
            "edges_before": counts["kept"] + counts["dropped"],
            "edges_after": self.graph.num_edges,
            **counts,
            "base_edges": self.ledger.base_edges,
            "probes": self.probes,
            "recall": self.recall,
            "rank": self.spectrum.rank,
            "largest_residual": float(residuals.max()) if len(residuals) else 0.0,
            "threshold": plain(self.threshold),
            "seconds": self.seconds,
            "stages": [asdict(stage) for stage in self.stages],
            "parts": self.parts,
            "place": self.place,
            "settings": self.settings.plain(),
            "parameters": plain_parameters(self.parameters),
        }

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {fate}" for fate, count in self.ledger.counts.items())
        return f"Purification({self.graph.num_nodes:,} nodes; edges: {counts}; {self.settings}; {self.seconds:.3g} s)"

    def _repr_html_(self) -> str:
        counts = self.ledger.counts
        rows = {"nodes": f"{self.graph.num_nodes:,}", "edges in": f"{counts['kept'] + counts['dropped']:,}"}
        rows |= {fate: f"{count:,}" for fate, count in counts.items()}
        rows |= {"edges out": f"{self.graph.num_edges:,}", "settings": str(self.settings), "place": self.place}
        rows["seconds"] = f"{self.seconds:.3g}"
        return html_table("Purification", rows)


def plain_parameters(purifier: Any) -> dict[str, Any]:
    """The parameters of a purifier as JSON values."""
    return {field.name: plain(getattr(purifier, field.name)) for field in fields(purifier)}


def without_vectors(values: list[float], residuals: list[float], products: int) -> Spectrum:
    """A spectrum of which only the numbers were kept."""
    vectors = torch.zeros(0, len(values))
    return Spectrum(torch.tensor(values), vectors, torch.tensor(residuals), products)
