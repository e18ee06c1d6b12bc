"""The leading eigenvalues of the purified graph, to be seen beside those of the graph before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from garnet.errors import ConvergenceWarning, RankWarning, warnings_are
from garnet.graph.graph import Graph
from garnet.spectral import choose_solver
from garnet.spectral.spectrum import End, normalized_adjacency, spread_components

MOST_NODES = 50_000
"""A larger graph would have a report wait for minutes."""


def leading_values(graph: Graph, rank: int, parameters: Mapping[str, Any]) -> NDArray[np.float64] | None:
    """The `rank` leading eigenvalues, of the same matrix as the purifier takes; None if the graph is too large for it.

    Args:
        graph: the graph.
        rank: how many; fewer if the graph has no more.
        parameters: of the purifier: `normalize`, `tau` and `end`.
    """
    tau = parameters.get("tau", 0.0)
    shift = float(graph.degrees.mean()) if tau == "mean" else tau
    known = isinstance(shift, int | float) and 0 <= shift < math.inf
    if graph.num_nodes > MOST_NODES or not graph.num_edges or rank < 1 or not known:
        return None
    matrix = (
        normalized_adjacency(graph, shift) if parameters.get("normalize", True) else graph.adjacency.astype(np.float64)
    )
    component = connected_components(graph.adjacency, directed=False)[1]
    end: End = "magnitude" if parameters.get("end") == "magnitude" else "algebraic"
    # What is drawn needs fewer digits than a purification, which has warned of its own.
    with warnings_are("ignore", RankWarning, ConvergenceWarning):
        nodes = spread_components(torch.from_numpy(component.astype(np.int64)), rank).numpy()
        part = matrix[nodes][:, nodes]
        solver = choose_solver(len(nodes))
        spectrum = solver(part, min(rank, len(nodes) - 1), end=end, seed=0, device="cpu")
    values: NDArray[np.float64] = spectrum.values.numpy().astype(np.float64)
    return values
