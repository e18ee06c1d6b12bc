"""Tall matrices in files, the solver on them, and the search for neighbours among them."""

import numpy as np
import pytest
import torch

from garnet import GARNET
from garnet.datasets import block_model, cora
from garnet.errors import GarnetError
from garnet.neighbors.search import Cells, Exact
from garnet.places import tiled_search
from garnet.places.build import build_tiles
from garnet.places.row_store import RowStore, whole, write
from garnet.places.tiled_embedding import components, tiled_features, tiled_spectrum
from garnet.places.tiled_search import tiled_base_graph
from garnet.purify.settings import Shape
from garnet.spectral import Arpack, Chebyshev
from garnet.spectral.spectrum import normalized_adjacency

MEMORY = 1 << 30


@pytest.fixture
def tiled(scratch):
    def build(graph, parts):
        tiles = build_tiles(graph, scratch / "tiles", memory=MEMORY, parts=parts)
        work = scratch / "work"
        work.mkdir()
        return tiles, RowStore(work, tiles.bounds)

    return build


def stored(parts, rows, name=None):
    """Rows of memory as a tall matrix."""
    pieces = torch.split(rows, np.diff(parts.bounds).tolist())
    tall = parts.new(rows.shape[1], name)
    for file, piece in zip(tall.files, pieces, strict=True):
        write(file, piece)
    return tall


def test_maps_and_sums_are_those_of_the_whole_matrix(scratch):
    parts = RowStore(scratch, (0, 3, 3, 10))
    rows = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
    tall = stored(parts, rows)
    torch.testing.assert_close(
        whole(parts.map(lambda x, y: x @ x.new_ones(4, 2) - y[:, :2], tall, tall)),
        rows @ torch.ones(4, 2) - rows[:, :2],
    )
    torch.testing.assert_close(parts.sum(lambda x: x.T @ x, tall), (rows.T @ rows).double(), rtol=1e-5, atol=1e-5)


def test_files_go_with_the_matrix_but_for_one_with_a_name(scratch):
    parts = RowStore(scratch, (0, 2, 4))
    tall, named = stored(parts, torch.ones(4, 1)), stored(parts, torch.ones(4, 1), "points")
    doubled = parts.map(lambda x: 2 * x, tall)
    assert len(list(scratch.iterdir())) == 6
    del tall, doubled, named
    assert sorted(path.name for path in scratch.iterdir()) == ["points-0.bin", "points-1.bin"]


def test_matrices_stay_in_memory_while_there_is_room_and_give_it_back(scratch):
    parts = RowStore(scratch, (0, 2, 4))
    parts.hold(2 * 4 * 3)  # a part of two rows and three columns

    def files():
        return sorted(path.name for path in scratch.iterdir())

    rows = torch.arange(12.0).view(4, 3)
    start = stored(RowStore(scratch, (0, 2, 4)), rows, "start")
    first = parts.map(lambda x: x + 1, start)
    assert len(files()) == 3  # the second part of it found no room
    second = parts.map(lambda x: x + 2, start)
    assert len(files()) == 5
    torch.testing.assert_close(whole(first), rows + 1)
    torch.testing.assert_close(whole(second), rows + 2)
    del first
    assert len(files()) == 4
    third = parts.map(lambda x: 3 * x, start)
    assert len(files()) == 5  # in the room that was given back, one of its parts
    torch.testing.assert_close(whole(third), 3 * rows)
    parts.map(lambda x: x, start, name="stays")
    assert "stays-0.bin" in files()
    assert "stays-1.bin" in files()


@pytest.mark.parametrize("room", [100_000, 1 << 30])
def test_what_is_held_in_memory_changes_no_eigenpair(tiled, room):
    graph = block_model(3000, mean_degree=8, seed=0)
    tiles, parts = tiled(graph, 2)
    solver = Chebyshev(tol=1e-5)
    settings = GARNET(rank=12).on(graph)
    on_disk = tiled_spectrum(tiles, parts, settings, solver)
    vectors = whole(on_disk.vectors)
    parts.hold(room)
    held = tiled_spectrum(tiles, parts, settings, solver)
    assert torch.equal(held.values, on_disk.values)
    assert torch.equal(whole(held.vectors), vectors)


def test_a_file_that_is_gone_or_cut_short_is_said(scratch):
    parts = RowStore(scratch, (0, 2, 4))
    tall = stored(parts, torch.ones(4, 3))
    tall.files[1].write_bytes(tall.files[1].read_bytes()[:8])
    with pytest.raises(GarnetError, match=r"-1\.bin: it is truncated; remove its folder"):
        parts.map(lambda x: x, tall)
    tall.files[1].unlink()
    with pytest.raises(GarnetError, match=r"-1\.bin: No such file or directory; remove its folder"):
        parts.sum(lambda x: x.sum(dim=0), tall)


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("end", ["algebraic", "magnitude"])
def test_eigenpairs_on_tiles_are_those_of_arpack(tiled, parts, end):
    graph = cora()
    tiles, place = tiled(graph, parts)
    found = tiled_spectrum(tiles, place, GARNET(rank=20, tau=1.0, end=end).on(graph), Chebyshev(tol=1e-6))
    expected = Arpack(tol=1e-10)(normalized_adjacency(graph, 1.0), 20, end=end, seed=0, device="cpu")
    np.testing.assert_allclose(found.values, expected.values, atol=1e-5)
    vectors = whole(found.vectors).double()
    assert torch.linalg.svdvals(vectors.T @ expected.vectors).min() > 0.9999
    residuals = np.linalg.norm(
        normalized_adjacency(graph, 1.0) @ vectors.numpy() - vectors.numpy() * found.values.numpy(), axis=0
    )
    assert residuals.max() < 1e-4
    del found
    assert not list(place.folder.iterdir())


def test_small_components_take_no_part(tiled):
    graph = block_model(3000, mean_degree=2.5, seed=1)
    tiles, place = tiled(graph, 3)
    from scipy.sparse.csgraph import connected_components

    number, expected = connected_components(graph.adjacency, directed=False)
    label = components(tiles)
    assert len(np.unique(np.stack([label, expected]), axis=1).T) == number
    found = tiled_spectrum(tiles, place, GARNET(rank=10).on(graph), Chebyshev())
    large = np.bincount(expected)[expected] > 10
    assert (large.sum(), 0) < (3000, number)
    assert not whole(found.vectors)[~large].any()
    # The constant vector of the one large component alone has eigenvalue 1.
    assert found.values[0] == pytest.approx(1, abs=1e-4)
    assert found.values[1] < 0.9999


def test_features_have_the_distances_of_those_in_memory(tiled):
    from garnet.purify.features import feature_block

    graph = cora()
    tiles, place = tiled(graph, 3)
    found = whole(tiled_features(tiles, place, GARNET(feature_rank=30).on(graph)))
    expected = feature_block(graph, "low-rank", 30, seed=0, device="cpu")
    some = torch.arange(0, 2485, 50)
    torch.testing.assert_close(found[some] @ found[some].T, expected[some] @ expected[some].T, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("parts", [1, 3])
def test_neighbours_among_parts_are_those_of_an_exact_search(scratch, parts, exact, monkeypatch):
    monkeypatch.setattr(tiled_search, "EXACT_UP_TO", 4000 if exact else 100)
    generator = torch.Generator().manual_seed(2)
    centres = 3 * torch.randn(40, 12, generator=generator)
    points = centres[torch.arange(4000) % 40] + torch.randn(4000, 12, generator=generator)
    points[[5, 77, 3999]] = 0
    place = RowStore(scratch, tuple(np.linspace(0, 4000, parts + 1).astype(int).tolist()))
    settings = GARNET(k=8).on(Shape(nodes=4000, edges=1))
    base = tiled_base_graph(place, stored(place, points, "points"), settings, memory=MEMORY, search=Cells(recall=0.97))
    pairs = set()
    for (i, j), segments in base.files.items():
        assert i <= j
        for name, first, count in segments:
            local = np.fromfile(scratch / name, np.int32, 2 * count, offset=8 * first).reshape(-1, 2)
            pairs |= {tuple(sorted(pair)) for pair in (local + np.array([place.bounds[i], place.bounds[j]])).tolist()}
    known = points.abs().amax(dim=1).nonzero()[:, 0]
    nearest = known[Exact()(points[known], 8, seed=0)]
    wanted = [
        tuple(sorted(pair))
        for u, near in zip(known.tolist(), nearest.tolist(), strict=True)
        for pair in ((u, v) for v in near)
    ]
    assert sum(pair in pairs for pair in wanted) / len(wanted) > (0.9999 if exact else 0.95)
    assert len(pairs) <= 8 * len(known)
    assert not {node for pair in pairs for node in pair} & {5, 77, 3999}
    assert all(u != v for u, v in pairs)
