"""What became of a graph when it was purified: all that a report needs to know of it, in memory or in an .npz file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError, ParameterError
from garnet.graph.edges import canonical, contains
from garnet.graph.graph import Edges, Graph, as_graph
from garnet.graph.provenance import Provenance
from garnet.io.archive import Archive, described
from garnet.io.limits import require_plausible
from garnet.io.text import reading
from garnet.linalg.sparse import to_host
from garnet.purify.judge_file import judge_arrays
from garnet.purify.result import Purification
from garnet.purify.result_file import described_as, read_edges, read_made, read_nodes, read_stages, write_described
from garnet.purify.verdicts import Later
from garnet.report.statistics import bins, counts_in

# Of each array in a file the kinds of numbers that it may have there, and the type that it has in memory.
_ARRAYS: dict[str, tuple[str, type[np.number[Any]]]] = {
    "scores": ("f", np.float32),
    "weights_before": ("f", np.float32),
    "weights_after": ("f", np.float32),
    "base_counts": ("iu", np.int64),
    "base_bounds": ("f", np.float64),
    "values": ("f", np.float64),
}


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Test accuracy of models trained on the graph before and after purification, one share for each seed.

    Attributes:
        before: on the graph that was given.
        after: on the purified graph.
        model: its name.
        mended: test nodes that every model got wrong before and gets right after.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    model: str = ""
    mended: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, shares in (("before", self.before), ("after", self.after)):
            if not shares or not all(math.isfinite(one) and 0 <= one <= 1 for one in shares):
                raise GraphError(f"Accuracy {name} must be a share from 0 to 1 for each seed. Got {shares!r} instead.")


@dataclass(frozen=True, kw_only=True, eq=False)
class PurificationRecord:
    """What became of a graph when it was purified; `garnet purify --result` saves one.

    Attributes:
        edges: (2, m) edges of the graph before, after, or of both, as `garnet.graph.graph.Edges`.
        scores: (m,) how critical each edge is; infinite if nothing is known of an end.
        weights_before: (m,) zero for edges that were not there.
        weights_after: (m,) zero for edges that were removed.
        num_nodes: number of nodes of both graphs.
        labels: (n,) or None.
        names: (n,) or None.
        base_counts: (b,) how many edges of the base graph have a score in each bin.
        base_bounds: (b + 1,) of the bins.
        threshold: gamma in the units of the scores.
        values: (r,) the leading eigenvalues of the graph before.
        summary: as `Purification.summary` gives it.
        made: where it came from, with the fingerprints of the graphs `before` and `after`.
        truth: (2, t) the edges that an attack is known to have added; None if that is not known.
        accuracy: accuracy of models; None if none were trained.
        later: makes what judges later edges, to be saved along; None in a record that was read, since no report needs
            it: `garnet.purify.judge_file.load_judge` reads it.
    """

    edges: Edges
    scores: NDArray[np.float32]
    weights_before: NDArray[np.float32]
    weights_after: NDArray[np.float32]
    num_nodes: int
    labels: NDArray[np.int64] | None
    names: NDArray[Any] | None
    base_counts: NDArray[np.int64]
    base_bounds: NDArray[np.float64]
    threshold: float
    values: NDArray[np.float64]
    summary: Mapping[str, Any]
    made: Provenance
    truth: Edges | None
    accuracy: Accuracy | None
    later: Later | None = None

    @classmethod
    def of(
        cls,
        before: Graph,
        result: Purification,
        *,
        truth: Edges | None = None,
        accuracy: Accuracy | None = None,
        command: str = "",
    ) -> PurificationRecord:
        """The record of a purification.

        Args:
            before: the graph that was purified.
            result: what that gave.
            truth: (2, t) edges that an attack is known to have added, in any order.
            accuracy: of models trained on both graphs.
            command: the command that made it, if any.

        Raises:
            GraphError: the purification is of another graph, or on disk, or `truth` has no edges of it.
        """
        if not isinstance(result.graph, Graph):
            raise GraphError(
                "A purification in pieces on disk keeps no single edges; purify in memory to report on it."
            )
        ledger, n = result.ledger, before.num_nodes
        if result.graph.num_nodes != n or ledger.counts["kept"] + ledger.counts["dropped"] != before.num_edges:
            raise GraphError(
                f"The purification is of another graph than {before!r}; give the one that it was made from."
            )
        batches = [(batch, batch.given | batch.stays) for batch in ledger.batches()]
        edges = np.concatenate([batch.edges[:, there] for batch, there in batches], axis=1)
        base = result.scores[np.isfinite(result.scores)].astype(np.float64)
        bounds = bins(base)
        return cls(
            edges=edges,
            scores=np.concatenate([batch.scores[there] for batch, there in batches]),
            weights_before=_weights(before, edges),
            weights_after=_weights(result.graph, edges),
            num_nodes=n,
            labels=before.labels,
            names=before.names,
            base_counts=counts_in(base, bounds),
            base_bounds=bounds,
            threshold=float(result.threshold),
            values=to_host(result.spectrum.values).numpy().astype(np.float64),
            summary=result.summary(),
            made=Provenance.here(command, before=before, after=result.graph),
            truth=None if truth is None else _known_edges(truth, n),
            accuracy=accuracy,
            later=result.later,
        )

    def save(self, path: str | Path) -> None:
        """Write the record to one .npz file, whole or not at all.

        Raises:
            GraphError: the path does not end in .npz or has no folder.
            GarnetError: the file cannot be written.
        """
        facts: dict[str, Any] = {"summary": self.summary, "num_nodes": self.num_nodes, **asdict(self.made)}
        facts |= {"threshold": repr(self.threshold), "accuracy": self.accuracy and asdict(self.accuracy)}
        arrays = {one.name: value for one in fields(self) if isinstance(value := getattr(self, one.name), np.ndarray)}
        write_described(path, "result", facts, arrays | self._judge_arrays())

    def _judge_arrays(self) -> dict[str, NDArray[Any]]:
        """What new edges are judged by; none where a purification had settings by which nothing can be said of them."""
        try:
            return {} if self.later is None else judge_arrays(self.later())
        except ParameterError:
            return {}

    @classmethod
    def load(cls, path: str | Path) -> PurificationRecord:
        """Read what `save` wrote; nothing in the file is unpickled.

        Raises:
            GraphError: there is no such file, or it does not hold a record; the message says why.
        """
        path, otherwise = Path(path), "it holds no result of a purification; garnet purify --result writes one."
        with reading(path), described(path, "result", otherwise) as (archive, text):
            facts = _read_facts(text)
            return cls(**facts, **_read_arrays(archive, facts["num_nodes"]))

    @property
    def given(self) -> NDArray[np.bool_]:
        """(m,) which edges the graph had before."""
        return self.weights_before > 0

    @property
    def stays(self) -> NDArray[np.bool_]:
        """(m,) which edges it has after."""
        return self.weights_after > 0

    @cached_property
    def before(self) -> Graph:
        """The graph that was given, without features."""
        return self._graph(self.weights_before)

    @cached_property
    def after(self) -> Graph:
        """The purified graph, without features."""
        return self._graph(self.weights_after)

    @cached_property
    def adversarial(self) -> NDArray[np.bool_]:
        """(m,) which edges an attack is known to have added; none if nothing is known."""
        if self.truth is None:
            return np.zeros(self.edges.shape[1], dtype=bool)
        return contains(self.truth, self.edges, self.num_nodes)

    def _graph(self, weights: NDArray[np.float32]) -> Graph:
        there = weights > 0
        nodes = as_graph((np.zeros((2, 0), dtype=np.int64), self.num_nodes), labels=self.labels, names=self.names)
        return nodes.with_edges(self.edges[:, there], weights[there])


def _weights(graph: Graph, edges: Edges) -> NDArray[np.float32]:
    """(m,) what edges weigh in a graph all of whose edges are among them; zero where it lacks one."""
    weights = np.zeros(edges.shape[1], dtype=np.float32)
    weights[contains(graph.edges, edges, graph.num_nodes)] = graph.weights
    return weights


def _known_edges(edges: Edges, n: int) -> Edges:
    edges = np.asarray(edges)
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise GraphError(f"The known adversarial edges must be integers of shape (2, m). Got shape {edges.shape}.")
    if edges.size and (edges.min() < 0 or edges.max() >= n):
        raise GraphError(f"The known adversarial edges must join nodes 0 to {n - 1}. Got {edges.min()}, {edges.max()}.")
    return canonical(edges[0], edges[1], n)


def _read_arrays(archive: Archive, n: int) -> dict[str, Any]:
    m = archive.header("edges", "i", ndim=2).shape[1]
    require_plausible(n, m, "nodes")
    edges = read_edges(archive, "edges", n)
    found = {name: archive.read(name, kinds, ndim=1) for name, (kinds, _) in _ARRAYS.items()}
    lengths = [len(found[name]) for name in ("scores", "weights_before", "weights_after")]
    if set(lengths) != {m}:
        raise GraphError(f"its edges are {m}, but it has {lengths[0]}, {lengths[1]} and {lengths[2]} numbers of them.")
    weights = np.stack([found["weights_before"], found["weights_after"]])
    if np.isnan(found["scores"]).any() or not (np.isfinite(weights) & (weights >= 0)).all():
        raise GraphError("its scores or weights are no numbers.")
    finite = all(np.isfinite(found[name]).all() for name in ("base_bounds", "values"))
    if not finite or len(found["base_bounds"]) != len(found["base_counts"]) + 1:
        raise GraphError("its histogram or spectrum is damaged.")
    nodes = read_nodes(archive, n)
    truth = read_edges(archive, "truth", n) if "truth" in archive else None
    stored = {name: found[name].astype(dtype) for name, (_, dtype) in _ARRAYS.items()}
    return {"edges": edges, "labels": nodes.labels, "names": nodes.names, "truth": truth, **stored}


def _read_facts(text: bytes) -> dict[str, Any]:
    with described_as("the purification"):
        found = json.loads(text)
        summary, accuracy = found["summary"], None
        if type(found["num_nodes"]) is not int or found["num_nodes"] < 0 or not isinstance(summary["parameters"], dict):
            raise TypeError
        read_stages(summary["stages"])
        if (given := found["accuracy"]) is not None:
            shares = {name: tuple(float(one) for one in given[name]) for name in ("before", "after")}
            mended = tuple(int(node) for node in given.get("mended", ()))
            accuracy = Accuracy(**shares, model=str(given["model"]), mended=mended)
            if not all(0 <= node < found["num_nodes"] for node in mended):
                raise TypeError
        return {
            "num_nodes": found["num_nodes"],
            "threshold": float(found["threshold"]),
            "summary": summary,
            "made": read_made(found),
            "accuracy": accuracy,
        }
