"""DGL graphs. DGL is not imported here: whoever has such a graph has already imported it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import torch

from garnet.errors import GraphError
from garnet.io.edge_source import EdgeSource
from garnet.io.pyg_data import data_source


def dgl_source(graph: Any) -> EdgeSource:
    """A homogeneous `DGLGraph`: `weight` of the edges; `feat`, `label` and the three masks of the nodes.

    Raises:
        GraphError: it has several types of edges, or is a batch of graphs.
    """
    if not graph.is_homogeneous:
        raise GraphError(
            f"The {type(graph).__name__} has several types of edges or nodes; take one, such as "
            "graph.edge_type_subgraph([...]), and make it homogeneous."
        )
    if graph.batch_size > 1:
        raise GraphError(f"The {type(graph).__name__} holds {graph.batch_size} graphs; unbatch it, and purify each.")
    nodes, names = graph.ndata, {"x": "feat", "y": "label"}
    names |= {name: name for name in ("train_mask", "val_mask", "test_mask")}
    fields = {ours: nodes[theirs] for ours, theirs in names.items() if theirs in nodes}
    if "weight" in graph.edata:
        fields["edge_weight"] = graph.edata["weight"]
    edges = torch.stack(list(graph.edges()))
    found = SimpleNamespace(edge_index=edges, num_nodes=graph.num_nodes(), **fields)
    return data_source(cast(Any, found))
