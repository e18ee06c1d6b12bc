import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from garnet.errors import ParameterError, RecallWarning
from garnet.neighbors.cell_index import probes_needed
from garnet.neighbors.distances import nearest_in_pool, smallest
from garnet.neighbors.quantizer import _ranked, fit_quantizer
from garnet.neighbors.search import Cells, Exact, choose_neighbors, named_search, recall, union

SEARCHES = {"exact": Exact(), "cells": Cells()}


def clouds(n=5000, dimension=8, groups=40, seed=0):
    rng = np.random.default_rng(seed)
    centres = 4 * rng.standard_normal((groups, dimension))
    return torch.from_numpy((centres[rng.integers(groups, size=n)] + rng.standard_normal((n, dimension))).astype("f4"))


def crowded(n=8000, dimension=40, seed=0):
    """Dense about the origin and sparse far from it, as the rows of a spectral embedding are."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((n, dimension)) * np.linspace(1, 0.2, dimension)
    return torch.from_numpy((directions * rng.lognormal(-2, 1.5, size=(n, 1))).astype("f4"))


def brute_force(points, k):
    """Squared distances to the k nearest others, in double precision."""
    points = points.double()
    away = torch.cdist(points, points).square()
    return away.fill_diagonal_(torch.inf).sort(dim=1).values[:, :k]


def squared(points, found):
    return (points.double()[found] - points.double()[:, None]).square().sum(dim=2)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("k", [1, 7, 30])
def test_neighbours_are_others_each_once_and_nearest_first(search, k):
    points = clouds()
    found = search(points, k, seed=0)
    assert found.shape == (5000, k)
    assert found.dtype == torch.int64
    assert not (found == torch.arange(5000)[:, None]).any()
    assert all(len(set(row)) == k for row in found.tolist())
    away = (points[found] - points[:, None]).norm(dim=2)
    assert (away.diff(dim=1) >= -1e-3).all()


def test_exact_search_agrees_with_a_k_d_tree():
    points = clouds()
    found = Exact()(points, 10, seed=0)
    truth = torch.from_numpy(cKDTree(points.numpy()).query(points.numpy(), k=11)[1][:, 1:])
    assert (found[:, :, None] == truth[:, None, :]).any(dim=2).float().mean() > 0.9999


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 60), dimension=st.integers(1, 9), seed=st.integers(0, 99), grid=st.booleans(), data=st.data())
def test_few_points_have_the_neighbours_of_brute_force(n, dimension, seed, grid, data):
    k = data.draw(st.integers(1, n - 1))
    rng = np.random.default_rng(seed)
    # On a small grid nearly every distance is one of many equals.
    points = rng.integers(0, 3, (n, dimension)) if grid else rng.standard_normal((n, dimension))
    points = torch.from_numpy(points.astype("f4"))
    for search in (Exact(), Cells()):
        found = search(points, k, seed=seed)
        torch.testing.assert_close(squared(points, found), brute_force(points, k), rtol=1e-4, atol=1e-4)
        assert not (found == torch.arange(n)[:, None]).any()
        assert all(len(set(row)) == k for row in found.tolist())


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 5), width=st.integers(1, 3000), equals=st.booleans(), seed=st.integers(0, 99), data=st.data()
)
def test_smallest_is_top_k(rows, width, equals, seed, data):
    k = data.draw(st.integers(1, min(width, 40)))
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, width, generator=generator)
    if equals:
        values = values.round().masked_fill(values > 1, torch.inf)
    found, at = smallest(values, k)
    assert torch.equal(found, values.topk(k, dim=1, largest=False).values)
    assert torch.equal(values.gather(1, at), found)
    assert all(len(set(row)) == k for row in at.tolist())


def test_pools_searched_one_by_one_hold_what_all_points_hold():
    points = clouds(n=900)
    ids = torch.arange(900) + 5000
    queries = torch.randperm(900, generator=torch.Generator().manual_seed(0))[:200]
    parts = [
        nearest_in_pool(points[queries], ids[queries], points[some], ids[some], 12)
        for some in torch.split(torch.arange(900), [300, 5, 595])
    ]
    away, found = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
    away, at = away.sort(dim=1)
    torch.testing.assert_close(away[:, :12].double(), brute_force(points, 12)[queries], rtol=1e-4, atol=1e-4)
    assert torch.equal(found.gather(1, at[:, :12]) - 5000, Exact()(points, 12, seed=0)[queries])


def test_a_pool_too_small_says_so():
    points = torch.tensor([[0.0], [1.0], [3.0]])
    away, found = nearest_in_pool(points, torch.arange(3), points, torch.arange(3), 4)
    assert found.tolist() == [[1, 2, -1, -1], [0, 2, -1, -1], [1, 0, -1, -1]]
    assert away.tolist() == [[1, 9, math.inf, math.inf], [1, 4, math.inf, math.inf], [4, 9, math.inf, math.inf]]
    stranger, found = nearest_in_pool(torch.tensor([[2.5]]), torch.tensor([7]), points, torch.arange(3), 3)
    assert found.tolist() == [[2, 1, 0]]
    assert stranger[0].tolist() == pytest.approx([0.25, 2.25, 6.25])


@pytest.mark.parametrize("search", [Exact(), Cells()], ids=["exact", "cells"])
def test_neighbours_far_from_the_origin(search):
    points = clouds() + 2000
    truth = torch.from_numpy(cKDTree(points.numpy()).query(points.numpy(), k=11)[1][:, 1:])
    assert (search(points, 10, seed=0)[:, :, None] == truth[:, None, :]).any(dim=2).float().mean() > 0.94


@pytest.mark.parametrize("search", [Cells(), Cells(size=30), Cells(recall=0.99)], ids=repr)
def test_approximate_searches_find_nearly_all(search):
    points = clouds(n=8000, dimension=16)
    assert recall(points, search(points, 15, seed=0), sample=500) > 0.94


@pytest.mark.parametrize("asked", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("seed", [0, 1])
def test_cells_find_what_was_asked_where_points_are_dense_here_and_sparse_there(asked, seed):
    points = crowded()
    found = Cells(recall=asked, size=50)(points, 20, seed=seed)
    # Three standard errors of the two samples of a few hundred points.
    assert recall(points, found, sample=2000, seed=9) > asked - 0.02


def test_cells_give_distances_too():
    points = clouds(n=3000)
    away, found = Cells().search(points, 6, seed=0)
    torch.testing.assert_close(away.double(), squared(points, found), rtol=1e-3, atol=1e-3)


def test_all_probes_are_exact_search():
    points = crowded(n=3000)
    away, found = Cells(recall=1.0, size=100, max_probes=3000)(points, 12, seed=0), Exact()(points, 12, seed=0)
    torch.testing.assert_close(squared(points, away), squared(points, found), rtol=1e-4, atol=1e-6)


def test_a_recall_out_of_reach_is_said():
    points = clouds(n=8000, dimension=16, groups=1)
    with pytest.warns(RecallWarning, match="with 2 probes, less than recall=0.95"):
        found = Cells(size=50, max_probes=2)(points, 15, seed=0)
    assert recall(points, found, sample=500) < 0.9


def test_probes_are_those_at_which_the_sample_is_found():
    ranked = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    assert probes_needed(ranked, torch.tensor([[0, 0, 1], [1, 1, 0]]), 1.0) == (2, pytest.approx(1.0))
    assert probes_needed(ranked, torch.tensor([[0, 0, 1], [1, 1, 0]]), 0.6) == (1, pytest.approx(2 / 3))
    assert probes_needed(ranked, torch.tensor([[0, 9, 9], [1, 9, 9]]), 0.9) == (4, pytest.approx(1 / 3))
    # One of two queries is found: the mean is a half, and its standard error too, so that nothing can be counted on.
    assert probes_needed(ranked, torch.tensor([[0], [9]]), 0.5) == (4, pytest.approx(0.0, abs=1e-6))


def test_quantizer_covers_the_points_and_assigns_them_part_by_part():
    points = clouds(n=6000)
    quantizer = fit_quantizer(points[:2000], 60, seed=0)
    owner = quantizer.assign(points)
    assert torch.equal(owner, torch.cat([quantizer.assign(part) for part in torch.split(points, 700)]))
    cells = len(quantizer.centres)
    assert 40 <= cells <= 120
    assert torch.bincount(owner, minlength=cells).max() < 10 * 6000 / cells
    assert quantizer.ranked.shape == (cells, cells)
    assert torch.equal(quantizer.ranked[:, 0], torch.arange(cells))
    assert (quantizer.ranked.sort(dim=1).values == torch.arange(cells)).all()
    # A cell is tight: its points are far closer to its centre than to the middle of all.
    within = (points - quantizer.centres[owner]).square().sum(dim=1).mean()
    assert within < 0.2 * (points - points.mean(dim=0)).square().sum(dim=1).mean()


@settings(max_examples=60, deadline=None)
@given(
    cells=st.integers(1, 70),
    points=st.integers(1, 100),
    dimension=st.integers(2, 6),
    reach=st.integers(1, 90),
    tile=st.integers(1, 9),
    seed=st.integers(0, 999),
)
def test_cells_are_ranked_by_the_votes_of_all_pairs(cells, points, dimension, reach, tile, seed):
    rng = np.random.default_rng(seed)
    centres, sample = (rng.standard_normal((count, dimension)).astype("f4") for count in (cells, points))
    owner = rng.integers(cells, size=points)
    squares = np.square(sample[:, None].astype("f8") - centres).sum(axis=2)
    # Else rounding decides which is closer.
    assume((np.diff(np.sort(squares, axis=1)[:, :5], axis=1) > 2e-5).all())
    votes = np.zeros((cells, cells))
    for cell, near in zip(owner, np.argsort(squares, axis=1)[:, :4], strict=True):
        for place, other in enumerate(near):
            votes[cell, other] += min(4, cells) - place
    # Distances, between 0 and a half, only order cells that have equally many votes.
    away = np.square(centres[:, None].astype("f8") - centres).sum(axis=2)
    away -= np.square(centres.astype("f8")).sum(axis=1)[:, None]
    away -= away.min(axis=1, keepdims=True)
    away /= np.maximum(2 * away.max(axis=1, keepdims=True), 1e-30)
    value = away - votes - votes.T
    np.fill_diagonal(value, -np.inf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("garnet.neighbors.distances._TILE", tile * cells)  # so many rows at once
        found = _ranked(torch.from_numpy(sample), torch.from_numpy(owner), torch.from_numpy(centres), reach)
    assert found.shape == (cells, min(reach, cells))
    assert torch.equal(found[:, 0], torch.arange(cells))
    np.testing.assert_allclose(
        np.take_along_axis(value, found.numpy(), axis=1), np.sort(value, axis=1)[:, :reach], atol=1e-5
    )


def test_recall_is_one_for_the_truth_and_counts_what_is_missing():
    points = clouds(n=500)
    truth = Exact()(points, 10, seed=0)
    assert recall(points, truth) == 1
    half = torch.cat([truth[:, :5], Exact()(points, 20, seed=0)[:, 15:]], dim=1)
    assert recall(points, half) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.filterwarnings("ignore::garnet.errors.RecallWarning")
def test_same_seed_same_neighbours_even_among_equal_points(search):
    points = torch.zeros(4000, 3)
    points[2000:] = 1.0
    found = search(points, 4, seed=3)
    assert torch.equal(found, search(points, 4, seed=3))
    assert not (found == torch.arange(4000)[:, None]).any()
    assert ((found < 2000) == (torch.arange(4000) < 2000)[:, None]).all()


def test_same_seed_same_neighbours():
    points = crowded(n=4000)
    assert torch.equal(Cells()(points, 9, seed=5), Cells()(points, 9, seed=5))


def test_cells_cope_with_one_crowded_cell():
    points = clouds(n=4000)
    points[:3500] *= 1e-4
    assert recall(points, Cells()(points, 10, seed=0), sample=400) > 0.9


def test_union_joins_both_ways_once_and_keeps_node_numbers():
    neighbours = torch.tensor([[1], [0], [1]])
    assert union(neighbours).tolist() == [[0, 1], [1, 2]]
    assert union(neighbours, torch.tensor([2, 5, 9])).tolist() == [[2, 5], [5, 9]]


def test_search_is_chosen_by_size():
    assert choose_neighbors(50_000) == Exact()
    assert choose_neighbors(50_001) == Cells()
    assert choose_neighbors(50_001, "cuda") == Exact()


def test_search_is_found_by_name():
    assert [named_search(name) for name in SEARCHES] == list(SEARCHES.values())
    with pytest.raises(ParameterError, match="'hnsw'; choose one of exact, cells"):
        named_search("hnsw")
