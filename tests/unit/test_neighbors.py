import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

from garnet.neighbors import Cells, Exact, Ivf, choose_neighbors, recall, union

SEARCHES = {"exact": Exact(), "cells": Cells(), "ivf": Ivf()}


def clouds(n=5000, dimension=8, groups=40, seed=0):
    rng = np.random.default_rng(seed)
    centres = 4 * rng.standard_normal((groups, dimension))
    return torch.from_numpy((centres[rng.integers(groups, size=n)] + rng.standard_normal((n, dimension))).astype("f4"))


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


@pytest.mark.parametrize("search", [Exact(), Cells()], ids=["exact", "cells"])
def test_neighbours_far_from_the_origin(search):
    points = clouds() + 2000
    truth = torch.from_numpy(cKDTree(points.numpy()).query(points.numpy(), k=11)[1][:, 1:])
    assert (search(points, 10, seed=0)[:, :, None] == truth[:, None, :]).any(dim=2).float().mean() > 0.94


@pytest.mark.parametrize(
    "search", [Cells(), Cells(size=30, candidates=600), Cells(candidates=300, recall=0.99), Ivf()], ids=repr
)
def test_approximate_searches_find_nearly_all(search):
    points = clouds(n=8000, dimension=16)
    assert recall(points, search(points, 15, seed=0), sample=500) > 0.94


def test_cells_add_partitions_until_the_recall_is_there():
    points = clouds(n=8000, dimension=16, groups=1)
    one = recall(points, Cells(candidates=200, size=20, max_partitions=1)(points, 15, seed=0), sample=500)
    more = recall(points, Cells(candidates=200, size=20, recall=0.9, max_partitions=20)(points, 15, seed=0), sample=500)
    assert one < 0.8
    assert more > 0.88


def test_recall_is_one_for_the_truth_and_counts_what_is_missing():
    points = clouds(n=500)
    truth = Exact()(points, 10, seed=0)
    assert recall(points, truth) == 1
    half = torch.cat([truth[:, :5], Exact()(points, 20, seed=0)[:, 15:]], dim=1)
    assert recall(points, half) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_same_seed_same_neighbours_even_among_equal_points(search):
    points = torch.zeros(4000, 3)
    points[2000:] = 1.0
    found = search(points, 4, seed=3)
    assert torch.equal(found, search(points, 4, seed=3))
    assert not (found == torch.arange(4000)[:, None]).any()
    assert ((found < 2000) == (torch.arange(4000) < 2000)[:, None]).all()


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
