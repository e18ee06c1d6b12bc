"""Every way through the library ends at the same graph."""

import numpy as np
import pytest
import torch
from garnet.places.disk import purify_tiled
from garnet.places.embed import spectrum

from garnet import GARNET, as_graph
from garnet.datasets import block_model, cora
from garnet.graph.edges import contains
from garnet.neighbors.search import Cells, Exact
from garnet.places.build import build_tiles
from garnet.places.cluster import OnCluster
from garnet.places.row_store import RowStore, whole
from garnet.spectral import Arpack, Chebyshev

PATHS = {
    "chebyshev, exact": (Chebyshev(tol=1e-5), Exact()),
    "chebyshev, cells": (Chebyshev(tol=1e-5), Cells(recall=0.999)),
}
GRAPHS = {
    "cora": cora(),
    "cora without features": as_graph(cora().adjacency),
    "block model in pieces": block_model(6000, mean_degree=7, classes=8, seed=3),
}


# Regularised degrees: without them the 50th eigenvalue of the block model has as many equals as it has pieces.
REFERENCE = GARNET(solver=Arpack(tol=1e-10), neighbors=Exact(), tau="mean", k=15)


@pytest.fixture(scope="module", params=GRAPHS.values(), ids=GRAPHS)
def reference(request):
    return request.param, REFERENCE.purify(request.param)


def agree(reference, found):
    """Few edges differ, and what they weigh."""
    shared = contains(reference.edges, found.edges, reference.num_nodes).sum()
    assert shared / (reference.num_edges + found.num_edges - shared) >= 0.99
    both = np.minimum(reference.adjacency.toarray(), found.adjacency.toarray())
    assert both.sum() == pytest.approx(reference.adjacency.sum(), rel=0.02)


@pytest.mark.parametrize(("solver", "search"), PATHS.values(), ids=PATHS)
def test_a_path_agrees_with_arpack_and_exact_search(reference, solver, search):
    graph, expected = reference
    found = GARNET(solver=solver, neighbors=search, tau="mean", k=15).purify(graph)
    cosines = torch.linalg.svdvals(expected.spectrum.vectors.double().T @ found.spectrum.vectors.double())
    assert cosines.min() >= 0.999
    agree(expected.graph, found.graph)


def spans_the_same(reference, graph, parts):
    """The leading eigenvectors of a tiled graph, wherever they are found, are those of the reference."""
    tau = 2 * graph.num_edges / graph.num_nodes  # their weights are one
    found = spectrum(graph, parts, 70, tau=tau, solver=Chebyshev(tol=1e-5), end="algebraic", seed=0)
    cosines = torch.linalg.svdvals(reference.spectrum.vectors.double().T @ whole(found.vectors).double())
    assert cosines.min() >= 0.999


@pytest.mark.parametrize("parts", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_tiles_on_disk_agree_with_arpack_and_exact_search(reference, parts, scratch):
    graph, expected = reference
    purifier = GARNET(memory="2GB", tau="mean", k=15)
    found = purify_tiled(purifier, graph, scratch / "out", parts=parts)
    assert found.parts == parts
    np.testing.assert_allclose(found.values, expected.spectrum.values, atol=1e-5)
    agree(expected.graph, found.graph.to_graph())
    tiles = build_tiles(graph, scratch / "tiles", memory=1 << 30, parts=parts)
    spans_the_same(expected, tiles, RowStore(scratch, tiles.bounds))


@pytest.mark.slow
@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_a_cluster_agrees_with_arpack_and_exact_search(processes, scratch):
    distributed = pytest.importorskip("distributed")
    graph = cora()
    expected = REFERENCE.purify(graph)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=processes, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = GARNET(cluster=client, tau="mean", k=15).purify(graph, output=scratch / "out")
        tiles = build_tiles(graph, scratch / "tiles", memory=1 << 30, parts=2)
        spans_the_same(expected, tiles, RowStore(scratch, tiles.bounds, OnCluster(client)))
    np.testing.assert_allclose(found.values, expected.spectrum.values, atol=1e-5)
    agree(expected.graph, found.graph.to_graph())
