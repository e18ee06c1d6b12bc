"""What can be measured of a cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.graph.graph import Graph
from garnet.progress import Clock, Progress, Stage

if TYPE_CHECKING:
    from garnet.bench.study import Cell

Measured = tuple[dict[str, Any], tuple[Stage, ...]]
"""Values by name, ready for JSON, and what they cost."""
Measure = Callable[["Cell", Graph, Graph, Any, Sequence[int], Progress | None], Measured]
"""(cell, graph, clean graph, defence or purifier, seeds, progress) -> what was measured."""

_MOST_DENSE = 6000
_ROWS = 256
_SMALLEST_RATIO = 1e-6
_SINGULAR_VALUES = 200


def accuracy(
    cell: Cell, graph: Graph, clean: Graph, defense: Any, seeds: Sequence[int], progress: Progress | None
) -> Measured:
    """Accuracy on the test and the validation nodes in percent, for each seed."""
    predictors = defense.fit_seeds(graph, seeds, progress=progress)
    return {
        "accuracy": [100 * one.accuracy() for one in predictors],
        "val_accuracy": [100 * one.val_accuracy for one in predictors],
    }, predictors[0].stages


def homophily(
    cell: Cell, graph: Graph, clean: Graph, purifier: Any, seeds: Sequence[int], progress: Progress | None
) -> Measured:
    """Share of edges between equal labels, each edge once: clean, as attacked, and purified (table 11)."""
    purified, stages = _purified(graph, purifier, progress)
    return {"clean": clean.homophily, "input": graph.homophily, "after": purified.homophily}, stages


def recovery(
    cell: Cell, graph: Graph, clean: Graph, purifier: Any, seeds: Sequence[int], progress: Progress | None
) -> Measured:
    """How much of each node's two-hop neighbourhood in the clean graph the purified one has (table 12).

    With N the nodes within two edges of a node, itself left out, recall is |N_clean & N_purified| / |N_clean| and
    precision the same over |N_purified|. The paper has the mean over five nodes, this is the mean over all for which
    the quotient is defined.
    """
    purified, stages = _purified(graph, purifier, progress)
    clock = Clock(progress)
    with clock("compare"):
        counts = np.concatenate(
            [
                _shared(clean, purified, np.arange(n, min(n + _ROWS, clean.num_nodes)))
                for n in range(0, clean.num_nodes, _ROWS)
            ],
            axis=1,
        )
        both, known, found = counts
        values = {"recall": _mean_ratio(both, known), "precision": _mean_ratio(both, found)}
    return values, (*stages, *clock.stages)


def rank(
    cell: Cell, graph: Graph, clean: Graph, purifier: Any, seeds: Sequence[int], progress: Progress | None
) -> Measured:
    """Numerical rank of the adjacency and its leading singular values (the opening figure).

    A singular value counts if it exceeds a millionth of the largest.
    """
    if graph.num_nodes > _MOST_DENSE:
        raise GraphError(
            f"The rank is counted with a dense decomposition, of at most {_MOST_DENSE} nodes; {cell.graph} has "
            f"{graph.num_nodes}. Choose a smaller graph."
        )
    clock = Clock(progress)
    with clock("decompose"):
        # The matrix is symmetric: its singular values are the sizes of its eigenvalues.
        eigenvalues = scipy.linalg.eigvalsh(graph.adjacency.astype(np.float64).toarray(), overwrite_a=True)
        values = np.sort(np.abs(eigenvalues))[::-1]
    counted = int((values > _SMALLEST_RATIO * values.max(initial=0)).sum())
    return {"rank": counted, "singular_values": values[:_SINGULAR_VALUES].tolist()}, tuple(clock.stages)


MEASURES: dict[str, Measure] = {"accuracy": accuracy, "homophily": homophily, "recovery": recovery, "rank": rank}


def _purified(graph: Graph, purifier: Any, progress: Progress | None) -> tuple[Graph, tuple[Stage, ...]]:
    if purifier is None:
        return graph, ()
    cleaned = purifier.purify(graph, progress=progress)
    return cleaned.graph, cleaned.stages


def _shared(clean: Graph, purified: Graph, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    """(3, nodes) sizes of the two-hop neighbourhoods: of both graphs, of the clean one, of the purified one."""
    truth, found = (_within_two_hops(graph, nodes) for graph in (clean, purified))
    return np.stack([np.asarray(one.sum(axis=1)).ravel() for one in (truth.multiply(found), truth, found)])


def _within_two_hops(graph: Graph, nodes: NDArray[np.int64]) -> sp.csr_array:
    """0/1 rows: which nodes are within two edges of each of `nodes`, itself left out."""
    adjacency = graph.adjacency.astype(bool).astype(np.float32)
    one = adjacency[nodes]
    reach = (one + one @ adjacency).tocoo()
    others = reach.col != nodes[reach.row]
    entries = np.ones(int(others.sum()))
    return sp.coo_array((entries, (reach.row[others], reach.col[others])), reach.shape).tocsr()


def _mean_ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> float | None:
    defined = whole > 0
    return float((part[defined] / whole[defined]).mean()) if defined.any() else None
