"""Every way through the library ends at the same graph."""

from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest
import torch

from garnet import GARNET, InMemory, OnCluster, OnDisk, as_graph
from garnet.datasets import block_model, cora
from garnet.graph.edges import contains
from garnet.neighbors.search import Cells, Exact
from garnet.places.row_store import whole, write
from garnet.places.tiled_scores import read_tile
from garnet.places.tiles import TiledGraph
from garnet.purify.garnet import embed, prune
from garnet.purify.scores import Choice
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
METHOD = GARNET(tau="mean", k=15)
REFERENCE = InMemory(solver=Arpack(tol=1e-10), neighbors=Exact())


@pytest.fixture(scope="module", params=GRAPHS.values(), ids=GRAPHS)
def reference(request):
    return request.param, METHOD.purify(request.param, place=REFERENCE)


def agree(reference, found):
    """Few edges differ, and what they weigh."""
    shared = contains(reference.edges, found.edges, reference.num_nodes).sum()
    assert shared / (reference.num_edges + found.num_edges - shared) >= 0.99
    both = np.minimum(reference.adjacency.toarray(), found.adjacency.toarray())
    assert both.sum() == pytest.approx(reference.adjacency.sum(), rel=0.02)


@pytest.mark.parametrize(("solver", "search"), PATHS.values(), ids=PATHS)
def test_a_path_agrees_with_arpack_and_exact_search(reference, solver, search):
    graph, expected = reference
    found = METHOD.purify(graph, place=InMemory(solver=solver, neighbors=search))
    cosines = torch.linalg.svdvals(expected.spectrum.vectors.double().T @ found.spectrum.vectors.double())
    assert cosines.min() >= 0.999
    agree(expected.graph, found.graph)


def spans_the_same(reference, graph, place):
    """The leading eigenvectors, wherever they are found, are those of the reference."""
    with place.open(METHOD, graph) as work:
        found = whole(work.spectrum(METHOD.on(work.shape)).vectors)
    cosines = torch.linalg.svdvals(reference.spectrum.vectors.double().T @ found.double())
    assert cosines.min() >= 0.999


@pytest.mark.parametrize("parts", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_tiles_on_disk_agree_with_arpack_and_exact_search(reference, parts, tmp_path):
    graph, expected = reference
    found = METHOD.purify(graph, place=OnDisk(memory="2GB", parts=parts, output=tmp_path / "out"))
    assert found.parts == parts
    np.testing.assert_allclose(found.spectrum.values, expected.spectrum.values, atol=1e-5)
    agree(expected.graph, found.graph.to_graph())
    spans_the_same(expected, graph, OnDisk(memory="2GB", parts=parts, solver=Chebyshev(tol=1e-5)))


@contextmanager
def two_workers(*, processes):
    distributed = pytest.importorskip("distributed")
    workers = {"n_workers": 2, "threads_per_worker": 1, "processes": processes, "dashboard_address": ":0"}
    with distributed.LocalCluster(**workers) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_a_cluster_agrees_with_arpack_and_exact_search(processes, tmp_path):
    graph = cora()
    expected = METHOD.purify(graph, place=REFERENCE)
    with two_workers(processes=processes) as client:
        found = METHOD.purify(graph, place=OnCluster(cluster=client, output=tmp_path / "out"))
        spans_the_same(expected, graph, OnCluster(cluster=client, solver=Chebyshev(tol=1e-5)))
    np.testing.assert_allclose(found.spectrum.values, expected.spectrum.values, atol=1e-5)
    agree(expected.graph, found.graph.to_graph())


# --- where the search uses cells -------------------------------------------------------------------------------------

NODES = 60_000
MANY = GARNET(rank=15, tau="mean", k=8)
SOLVER = Chebyshev(tol=1e-6)


class Found(NamedTuple):
    """What a place found: the base graph and the purified one as sorted numbers of their edges, and the weights."""

    base: np.ndarray
    edges: np.ndarray
    weights: np.ndarray
    choice: Choice


@pytest.fixture(scope="module")
def large():
    return block_model(NODES, mean_degree=12, classes=16, seed=3)


def numbered(edges):
    """Edges (2, m) as sorted numbers."""
    return np.sort(edges[0] * NODES + edges[1])


def found_in(work, embedding):
    """Search and prune in a place, given the points."""
    settings = MANY.on(work.shape)
    pruned = prune(work, embedding, work.base_graph(embedding.points, settings), settings)
    if isinstance(pruned.graph, TiledGraph):
        graph, tiles = pruned.graph.to_graph(), []
        for (i, j), file in pruned.scored.items():
            edges, _ = read_tile(file)
            starts = torch.tensor([[work.graph.bounds[i]], [work.graph.bounds[j]]])
            tiles.append(edges.ends[:, edges.near] + starts)
        base = torch.cat(tiles, dim=1)
    else:
        graph, edges = pruned.graph, pruned.scored.edges
        base = edges.ends[:, edges.near]
    return Found(numbered(base.numpy()), numbered(graph.edges), graph.weights, pruned.choice)


@pytest.fixture(scope="module")
def in_memory(large):
    with InMemory(solver=SOLVER).open(MANY, large) as work:
        embedding = embed(work, MANY.on(work.shape))
        return embedding, found_in(work, embedding)


def found_in_tiles(place, graph, embedding):
    with place.open(MANY, graph) as work:
        rows = work.store.new(embedding.points.shape[1], "points")
        pieces = torch.split(embedding.points, np.diff(rows.bounds).tolist())
        for file, piece in zip(rows.files, pieces, strict=True):
            write(file, piece)
        return found_in(work, embedding._replace(points=rows))


def require_same(found, expected):
    """The same base graph, and the same edges with the same weights, to the last bit."""
    for ours, theirs in zip(found, expected, strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.slow
def test_with_cells_tiles_find_what_memory_finds_of_the_same_points(large, in_memory):
    embedding, expected = in_memory
    require_same(found_in_tiles(OnDisk(memory="2GB", parts=3), large, embedding), expected)


@pytest.mark.slow
def test_with_cells_a_cluster_finds_what_tiles_find_of_the_same_points(large, in_memory):
    embedding, expected = in_memory
    with two_workers(processes=True) as client:
        found = found_in_tiles(OnCluster(cluster=client, memory="2GB", parts=3), large, embedding)
    require_same(found, expected)
    on_disk = found_in_tiles(OnDisk(memory="2GB", parts=3), large, embedding)
    for ours, theirs in zip(found, on_disk, strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.slow
def test_with_cells_the_whole_way_on_disk_agrees_with_that_in_memory(large, in_memory):
    found = MANY.purify(large, place=OnDisk(memory="2GB", parts=3, solver=SOLVER))
    assert found.probes >= 1
    assert found.recall >= 0.95
    edges, expected = numbered(found.graph.edges), in_memory[1].edges
    shared = len(np.intersect1d(edges, expected))
    assert shared / (len(edges) + len(expected) - shared) >= 0.99
