"""Sets of undirected edges as sorted arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.graph.graph import Edges, Graph


def canonical(first: NDArray[Any], second: NDArray[Any], n: int) -> Edges:
    """Each undirected pair once, the smaller node first, in lexicographic order; shape (2, m)."""
    # Torch sorts here; NumPy would hash, which is tens of times slower.
    return pairs(torch.from_numpy(first.astype(np.int64)), torch.from_numpy(second.astype(np.int64)), n).numpy()


def contains(edges: Edges, wanted: Edges, n: int) -> NDArray[np.bool_]:
    """Which columns of `wanted` are among `edges`; both as `canonical` returns them."""
    found: NDArray[np.bool_] = among(torch.from_numpy(edges), torch.from_numpy(wanted), n).numpy()
    return found


def pairs(first: Tensor, second: Tensor, n: int) -> Tensor:
    """Each undirected pair once, as in `canonical`, on any device."""
    keys = torch.unique(numbers(torch.minimum(first, second), torch.maximum(first, second), n))
    low = torch.div(keys, max(n, 1), rounding_mode="floor")
    return torch.stack([low, keys - low * n])


def among(edges: Tensor, wanted: Tensor, n: int) -> Tensor:
    """Which columns of `wanted` are among `edges`; both as `pairs` returns them."""
    keys, sought = numbers(edges[0], edges[1], n), numbers(wanted[0], wanted[1], n)
    if not len(keys):
        return torch.zeros(len(sought), dtype=torch.bool, device=sought.device)
    place = torch.searchsorted(keys, sought).clamp_max(len(keys) - 1)
    return keys[place] == sought


def numbers(first: Tensor, second: Tensor, n: int) -> Tensor:
    """A number for each pair of nodes, in lexicographic order.

    Adjacencies hold nodes as 32-bit integers, which the pair numbers of 46,341 nodes would overflow.
    """
    return first.long() * n + second


def presence(graph: Graph, edges: Tensor, weights: Tensor) -> Tensor:
    """(m,) how far each of the distinct pairs of nodes (2, m) with weights (m,) is an edge, from 0 to 1.

    That is its weight divided by its weight in the graph, or by one if it is no edge there; gradients flow to the
    weights. For code that asks whether there is an edge, under an attacker who asks about a fraction of one.
    """
    first, second = torch.from_numpy(graph.edges).to(edges.device)
    known = numbers(first, second, graph.num_nodes)
    own = torch.ones_like(weights)
    if len(known):
        wanted = numbers(edges.amin(dim=0), edges.amax(dim=0), graph.num_nodes)
        place = torch.searchsorted(known, wanted).clamp_max(len(known) - 1)
        own = torch.where(known[place] == wanted, torch.from_numpy(graph.weights).to(weights)[place], own)
    return (weights / own.detach()).clamp(0, 1)
