"""A graph as a `Data` of PyTorch Geometric; `garnet.io.pyg_data` reads one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from garnet.errors import MissingExtra
from garnet.io.edge_source import GraphArrays

if TYPE_CHECKING:
    import torch_geometric.data


def to_pyg(graph: GraphArrays) -> torch_geometric.data.Data:
    """A `Data` with every edge in both directions, sorted, and features made dense."""
    try:
        import torch
        from torch_geometric.data import Data
    except ImportError as error:
        raise MissingExtra("torch_geometric", "A PyG Data", "torch_geometric") from error
    matrix = graph.adjacency
    n = matrix.shape[0]
    rows = np.repeat(np.arange(n, dtype=np.int64), np.diff(matrix.indptr))
    edge_index = torch.from_numpy(np.stack([rows, matrix.indices.astype(np.int64)]))
    # Copies: a Graph never changes, but PyG transforms work in place.
    data = Data(edge_index=edge_index, edge_weight=torch.from_numpy(matrix.data.copy()), num_nodes=n)
    if graph.features is not None:
        dense = graph.features.copy() if isinstance(graph.features, np.ndarray) else graph.features.toarray()
        data.x = torch.from_numpy(dense)
    if graph.labels is not None:
        data.y = torch.from_numpy(graph.labels.copy())
    if graph.split is not None:
        for part, nodes in zip(("train", "val", "test"), graph.split, strict=True):
            mask = torch.zeros(n, dtype=torch.bool)
            mask[torch.from_numpy(nodes)] = True
            data[f"{part}_mask"] = mask
    return data
