"""Every way through the library ends at the same graph."""

import numpy as np
import pytest
import torch

from garnet import GARNET, as_graph
from garnet.datasets import block_model, cora
from garnet.edges import contains
from garnet.neighbors import Cells, Exact, Ivf
from garnet.solvers import Arpack, Chebyshev

PATHS = {
    "chebyshev, exact": (Chebyshev(tol=1e-5), Exact()),
    "chebyshev, cells": (Chebyshev(tol=1e-5), Cells(recall=0.999)),
    "arpack, ivf": (Arpack(), Ivf(cells=10, probes=10)),
}
GRAPHS = {
    "cora": cora(),
    "cora without features": as_graph(cora().adjacency),
    "block model in pieces": block_model(6000, mean_degree=7, classes=8, seed=3),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize(("solver", "search"), PATHS.values(), ids=PATHS)
def test_a_path_agrees_with_arpack_and_exact_search(graph, solver, search):
    # Regularised degrees: without them the 50th eigenvalue of the block model has as many equals as it has pieces.
    reference = GARNET(solver=Arpack(tol=1e-10), neighbors=Exact(), tau="mean", k=15).purify(graph)
    found = GARNET(solver=solver, neighbors=search, tau="mean", k=15).purify(graph)
    cosines = torch.linalg.svdvals(reference.spectrum.vectors.double().T @ found.spectrum.vectors.double())
    assert cosines.min() >= 0.999
    shared = contains(reference.graph.edges, found.graph.edges, graph.num_nodes).sum()
    assert shared / (reference.graph.num_edges + found.graph.num_edges - shared) >= 0.99
    both = np.minimum(reference.graph.adjacency.toarray(), found.graph.adjacency.toarray())
    assert both.sum() == pytest.approx(reference.graph.adjacency.sum(), rel=0.02)
