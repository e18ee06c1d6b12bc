"""What an audit of a graph in tiles found: the figures and the worst edges in memory, the rest in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.audit.any_audit import AnyAudit
from garnet.audit.tiled_table import Columns, edge_file, node_file
from garnet.errors import GarnetError
from garnet.io.frames import data_frame
from garnet.io.table_file import read_tables
from garnet.progress import Stage

NO_GROUPS = "Groups of nodes are looked for in memory only."


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TiledAudit(AnyAudit):
    """What an audit of a graph on disk or on a cluster found.

    Attributes:
        figures: numbers of `nodes`, `edges`, `doubted` edges and `unstable_nodes`, and `false_alarms`.
        share: estimated share of made-up edges, if these are as easy to detect as random ones.
        power: how often an edge planted by the audit itself looked worse than one of the graph.
        weights: weight of each reason.
        planted: (f,) how suspicious the planted edges were; a sample if there are very many.
        labels: whether labels were used, or why not, in words.
        top: the most suspicious thousand edges, as columns.
        folder: folder of all edges and nodes; None if the place had no output.
        ending: suffix of the files in it, .csv or .parquet.
        parts: number of parts into which the nodes, and so the tables, were cut.
        place: where it ran.
        stages: cost of each stage; none if it was done before.
        node_columns: all nodes, if the place had no output.
        done_before: whether the very same call had already made the output, so that nothing was left to do.
    """

    figures: Mapping[str, Any]
    share: float
    power: float
    weights: Mapping[str, float]
    planted: NDArray[np.float64]
    labels: str
    top: Columns
    folder: Path | None
    ending: str
    parts: int
    place: str
    stages: tuple[Stage, ...] = ()
    node_columns: Columns | None = None
    done_before: bool = False

    @property
    def num_nodes(self) -> int:
        """See `AnyAudit`."""
        return int(self.figures["nodes"])

    @property
    def num_edges(self) -> int:
        """See `AnyAudit`."""
        return int(self.figures["edges"])

    @property
    def doubted_edges(self) -> int:
        """See `AnyAudit`."""
        return int(self.figures["doubted"])

    @property
    def unstable_nodes(self) -> int:
        """See `AnyAudit`."""
        return int(self.figures["unstable_nodes"])

    @property
    def false_alarms(self) -> float:
        """See `AnyAudit`."""
        return float(self.figures["false_alarms"])

    def edge_table(self) -> Columns:
        """The most suspicious thousand edges as columns; `batches` has all."""
        return self.top

    def node_table(self) -> Columns:
        """The ranked nodes as columns: name, stability, neighbours, doubted edges, and score."""
        if self.node_columns is not None:
            return self.node_columns
        pieces = list(self._pieces(nodes=True))
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}

    def batches(self) -> Iterator[Columns]:
        """All edges as columns, in batches, the most suspicious first.

        Raises:
            GarnetError: they were not kept.
        """
        return self._pieces(nodes=False)

    def to_pandas(self, *, nodes: bool = False) -> Any:
        """The table of the worst edges, or of the nodes, as a pandas data frame.

        Raises:
            MissingExtra: pandas is not installed.
        """
        return data_frame(self.node_table() if nodes else self.edge_table())

    def summary(self) -> dict[str, Any]:
        """See `AnyAudit`."""
        return super().summary() | {"groups": None, "parts": self.parts}

    def _pieces(self, *, nodes: bool) -> Iterator[Columns]:
        if self.folder is None:
            raise GarnetError("All edges of an audit are kept where the place has an output: OnDisk(..., output=...).")
        name, like = (node_file, _NODES) if nodes else (edge_file, self.top)
        like = {"node": self.top["source"], **like} if nodes else like
        return read_tables([name(self.folder, piece, self.ending) for piece in range(self.parts)], like)


_NODES: Columns = {
    "stability": np.zeros(0),
    "neighbors": np.zeros(0, np.int64),
    "doubted": np.zeros(0, np.int64),
    "score": np.zeros(0),
}
