"""The matrices that models average with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.graph.graph import Graph
from garnet.linalg.device_graph import Resident
from garnet.linalg.sparse import SparseMatrix


def gcn_matrix(graph: Graph, device: str) -> SparseMatrix:
    r""":math:`\tilde D^{-1/2} (A + I) \tilde D^{-1/2}`: a loop of weight one at every node, so none is isolated."""
    if torch.device(device).type != "cpu":
        rows = Resident.of(graph, device).looped().normalized(0.0)
        return SparseMatrix.symmetric(replace(rows, values=rows.values.float()))
    looped = graph.adjacency.astype(np.float64) + sp.eye_array(graph.num_nodes, format="csr")
    return symmetric_matrix(looped, device)


def symmetric_matrix(adjacency: sp.csr_array, device: str, dtype: torch.dtype = torch.float32) -> SparseMatrix:
    r""":math:`D^{-1/2} A D^{-1/2}`; rows of isolated nodes are zero."""
    degrees = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    root = sp.diags_array(1 / np.sqrt(np.where(degrees > 0, degrees, 1)))
    return SparseMatrix(sp.csr_array(root @ adjacency @ root), device, symmetric=True, dtype=dtype)


def dense_matrix(adjacency: Tensor, loops: float) -> Tensor:
    r""":math:`D^{-1/2} (A + c I) D^{-1/2}` in place of A, with zeros where a degree is not positive."""
    adjacency.diagonal().add_(loops)
    degrees = adjacency.sum(dim=1)
    root = torch.where(degrees > 1e-6, degrees.clamp_min(1e-6).rsqrt(), 0.0)
    return adjacency.mul_(root[:, None]).mul_(root)
