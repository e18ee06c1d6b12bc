"""How many connected components a graph has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components

from garnet.graph.graph import Graph


@dataclass(frozen=True)
class Pieces:
    """The connected components of a graph, found in time linear in its edges.

    Attributes:
        components: number of connected components; a node without edges is one of its own.
        isolated: number of nodes without edges.

    Example:
        >>> from garnet import as_graph
        >>> Pieces.of(as_graph(([[0, 2], [1, 3]], 5), symmetrize=True))
        Pieces(components=3, isolated=1)
    """

    components: int
    isolated: int

    @classmethod
    def of(cls, graph: Graph) -> Pieces:
        """The components of a graph."""
        if not graph.num_nodes:
            return cls(0, 0)
        count = connected_components(graph.adjacency, directed=False, return_labels=False)
        return cls(int(count), int((np.diff(graph.adjacency.indptr) == 0).sum()))


def fell_apart(before: Pieces, after: Pieces) -> str:
    """A sentence if a change left a graph in more components; otherwise empty.

    Example:
        >>> fell_apart(Pieces(1, 0), Pieces(4, 2))
        'The graph fell into 4 components, of which 2 are nodes without edges; before it had 1 and 0.'
    """
    if after.components <= before.components and after.isolated <= before.isolated:
        return ""
    return (
        f"The graph fell into {after.components:,} components, of which {after.isolated:,} are nodes without edges; "
        f"before it had {before.components:,} and {before.isolated:,}."
    )
