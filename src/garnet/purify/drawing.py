"""What became of every edge, for viewing in Gephi or another program that reads GraphML or GEXF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.graph.graph import Graph
from garnet.io.atomic import atomic_path
from garnet.io.drawing import Drawing
from garnet.io.gexf import draw_gexf
from garnet.io.graphml import draw_graphml
from garnet.purify.result import AnyLedger, Ledger

DRAWINGS = {".graphml": draw_graphml, ".gexf": draw_gexf}
"""The writers of drawings, by file extension."""


def drawing_of(given: Graph, cleaned: Graph, ledger: AnyLedger, *, dropped: bool = True) -> Drawing:
    """The edges of a graph and those it gained, with columns that say what became of each.

    These are `weight`, the weight of an edge that stays, or the former weight of one that is gone; `weight_given`, the
    weight in the input; `status`: `kept`, `dropped` or `new`; `score`; and where edges were planted, `suspicion`, from
    0 to 1.

    Args:
        given: the graph that was purified.
        cleaned: the purified graph.
        ledger: of the purification.
        dropped: whether dropped edges are drawn, too.
    """
    batches = list(ledger.batches())
    edges = np.concatenate([batch.edges for batch in batches], axis=1).astype(np.int64)
    columns: dict[str, NDArray[Any]] = {
        "status": np.concatenate([np.where(batch.status == "added", "new", batch.status) for batch in batches]),
        "score": np.concatenate([batch.scores for batch in batches]),
    }
    if isinstance(ledger, Ledger) and ledger.trust is not None:
        columns["suspicion"] = 1 - ledger.trust.cpu().numpy()
    shown = columns["status"] != "rejected"
    if not dropped:
        shown &= columns["status"] != "dropped"
    edges, columns = edges[:, shown], {name: column[shown] for name, column in columns.items()}
    before, after = _weights(given.adjacency, edges), _weights(cleaned.adjacency, edges)
    weight = np.where(np.isnan(after), before, after)
    nodes = {} if given.labels is None else {"class": given.labels}
    return Drawing(
        num_nodes=given.num_nodes,
        edges=edges,
        names=given.names,
        node_columns=nodes,
        edge_columns={"weight": weight, "weight_given": before, **columns},
    )


def save_drawing(drawing: Drawing, path: str | Path) -> None:
    """Write a drawing to a .graphml or .gexf file, whole or not at all; an existing file is replaced.

    Raises:
        GraphError: the extension is another, or a text cannot be kept in XML.
        GarnetError: the file cannot be written.
    """
    write = DRAWINGS.get(Path(path).suffix.lower())
    if write is None:
        raise GraphError(f"A drawing is written to a file that ends in {' or '.join(DRAWINGS)}. Got {str(path)!r}.")
    with atomic_path(path) as unfinished, unfinished.open("wb") as stream:
        write(drawing, stream)


def _weights(adjacency: sp.csr_array, edges: NDArray[np.int64]) -> NDArray[np.float32]:
    """The weight of each edge, NaN where there is none."""
    found = np.asarray(adjacency[edges[0], edges[1]], dtype=np.float32).ravel()
    return np.where(found > 0, found, np.float32(np.nan))
