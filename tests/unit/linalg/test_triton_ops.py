"""The kernels against the plain search; they run on a GPU, or in Triton's interpreter (TRITON_INTERPRET=1)."""

import pytest
import scipy.sparse as sp
import torch

from garnet.datasets import block_model
from garnet.linalg import common_neighbors
from garnet.linalg import triton_ops as fused
from garnet.linalg.device_graph import Resident
from garnet.linalg.sparse import to_rows
from garnet.neighbors.cell_index import CellIndex
from garnet.neighbors.quantizer import fit_quantizer
from garnet.purify.scores import inner_products, squared_distances

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

pytestmark = pytest.mark.skipif(
    not fused.usable(torch.zeros(1, device=DEVICE)), reason="needs Triton, and a GPU or TRITON_INTERPRET=1"
)


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch, request):
    """The interpreter takes seconds for what a GPU does in no time."""
    if "in_full" in request.fixturenames:
        return
    sizes = {"_QUERIES": 32, "_POOL": 32, "_DEPTH": 16, "_CAPACITY": 128, "_ROWS": 150, "_GROWTH": 2}
    for name, value in sizes.items():
        monkeypatch.setattr(fused, name, value)


def clouds(n, dimension, *, scale=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(12, dimension, generator=generator)
    points = centres[torch.randint(12, (n,), generator=generator)]
    points = points + 0.3 * torch.randn(n, dimension, generator=generator)
    return (scale * (points - points.mean(dim=0))).to(DEVICE)


def layout_of(points, *, cells=8, largest=80):
    quantizer = fit_quantizer(points, cells, seed=0)
    return CellIndex.of(quantizer, quantizer.assign(points), largest=largest, reach=256)


def plainly(layout, points, k, probes, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("garnet.neighbors.cell_index.usable", lambda points: False)
        return layout.search(points, k, probes)


@pytest.mark.parametrize(("scale", "probes"), [(1.0, 5), (1e-6, 2), (1e6, 3)])
def test_finds_the_neighbours_that_the_plain_search_finds(monkeypatch, scale, probes):
    points = clouds(260, 20, scale=scale)
    layout = layout_of(points)
    away, found = layout.search(points, 6, probes)
    plain_away, plain_found = plainly(layout, points, 6, probes, monkeypatch)
    assert torch.equal(found, plain_found)
    torch.testing.assert_close(away, plain_away, rtol=1e-4, atol=1e-6 * scale**2)
    assert not (found == torch.arange(260, device=DEVICE)[:, None]).any()


@pytest.fixture
def in_full():
    """Tiles and rounds as they are, which only a GPU has time for."""
    if DEVICE == "cpu":
        pytest.skip("needs a GPU")


@pytest.mark.usefixtures("in_full")
@pytest.mark.parametrize("probes", [1, 2, 5])
def test_finds_them_in_tiles_of_full_size(monkeypatch, probes):
    points = torch.cat([clouds(12_000, 100, seed=1), clouds(40_000, 100, seed=2)])
    layout = layout_of(points, cells=9, largest=9_000)
    away, found = layout.search(points, 50, probes)
    plain_away, plain_found = plainly(layout, points, 50, probes, monkeypatch)
    torch.testing.assert_close(away, plain_away, rtol=1e-4, atol=1e-4)
    # Neighbours that are equally far, as single precision sees it, may change places.
    assert (found[:, :, None] == plain_found[:, None, :]).any(dim=2).float().mean() > 0.9999


def test_points_that_half_precision_cannot_tell_apart_are_still_ranked(monkeypatch):
    """Beside a far outlier, all other points would lie in one place, as half precision sees them."""
    points = clouds(260, 20, scale=1e-5)
    points[0] = 100.0
    layout = layout_of(points, largest=200)
    found = layout.search(points, 6, 3)[1]
    assert torch.equal(found[1:], plainly(layout, points, 6, 3, monkeypatch)[1][1:])  # to the outlier all are one


@pytest.mark.parametrize("first", [32, 33, 34])
@pytest.mark.parametrize("again", [0, 4])
def test_rows_that_are_full_before_all_parts_are_seen_try_again_or_are_not_relied_on(monkeypatch, first, again):
    """Points of the first part are far from each other; between them lie more than there is room for."""
    monkeypatch.setattr(fused, "_CAPACITY", 32)
    monkeypatch.setattr(fused, "_AGAIN", again)
    sizes = [first, *[32] * 5]
    points = 0.1 * clouds(sum(sizes), 8)
    points[:first] *= 100
    ranked = torch.stack([torch.arange(6).roll(-part) for part in range(6)]).to(DEVICE)
    found, sure = fused.nearest(points, torch.tensor(sizes, device=DEVICE), ranked, 6, 6)[1:]
    expected = torch.cdist(points.double(), points.double()).fill_diagonal_(torch.inf).argsort(dim=1)[:, :6]
    assert (found.sort(dim=1).values == expected.sort(dim=1).values).all(dim=1)[sure].all()
    assert sure.any()
    assert sure.all() == (again > 0)


def test_few_points_in_reach_are_not_relied_on():
    points = clouds(90, 8)
    sizes, ranked = torch.tensor([4, 86], device=DEVICE), torch.tensor([[0, 1], [1, 0]], device=DEVICE)
    sure = fused.nearest(points, sizes, ranked, 10, 1)[2]
    assert not sure[:4].any()
    assert sure[4:].all()


def test_a_point_at_the_origin_has_neighbours_and_is_one(monkeypatch):
    points = clouds(260, 20)
    points[17] = 0
    points[40] = 0.01
    layout = layout_of(points)
    found = layout.search(points, 6, 5)[1]
    assert torch.equal(found, plainly(layout, points, 6, 5, monkeypatch)[1])
    assert 40 in found[17]
    assert 17 in found[40]


def test_equal_points_are_neighbours(monkeypatch):
    points = clouds(120, 8).repeat_interleave(2, dim=0)
    layout = layout_of(points, cells=4, largest=120)
    away, found = layout.search(points, 1, 4)
    assert float(away.abs().max()) == 0
    assert torch.equal(found[:, 0], torch.arange(240, device=DEVICE) ^ 1)


@pytest.mark.parametrize("edges", [0, 1, 37])
@pytest.mark.parametrize("dimension", [3, 150])
def test_edges_have_the_distances_and_products_of_their_ends(edges, dimension):
    generator = torch.Generator().manual_seed(edges)
    left, right = (torch.randn(50, dimension, generator=generator).to(DEVICE) for _ in range(2))
    ends = torch.randint(50, (2, edges), generator=generator).to(DEVICE)
    apart = (left[ends[0]].double() - right[ends[1]].double()).square().sum(dim=1)
    product = (left[ends[0]].double() * right[ends[1]].double()).sum(dim=1)
    torch.testing.assert_close(fused.compared(left, right, ends, distance=True).double(), apart, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        fused.compared(left, right, ends, distance=False).double(), product, rtol=1e-5, atol=1e-4
    )
    assert torch.equal(squared_distances(left, left, ends), fused.compared(left, left, ends, distance=True))
    assert torch.equal(inner_products(left, right, ends), fused.compared(left, right, ends, distance=False))


@pytest.mark.parametrize("columns", [1, 8, 70, 150])
def test_products_with_a_sparse_matrix(monkeypatch, columns):
    monkeypatch.setattr(fused, "_LONG", 40)
    generator = torch.Generator().manual_seed(columns)
    dense = torch.randn(60, 60, generator=generator) * (torch.rand(60, 60, generator=generator) < 0.2)
    dense[7] = 0
    dense[11] = 1
    block, minus = torch.randn(2, 60, columns, generator=generator).to(DEVICE)
    multiplier = to_rows(sp.csr_array(dense.numpy()), DEVICE).multiplier
    image = dense.to(block) @ block
    torch.testing.assert_close(multiplier.product(block, 1.0, 0.0, None), image, rtol=1e-5, atol=1e-4)
    expected = 2 * image - 0.5 * block - minus
    torch.testing.assert_close(multiplier.product(block, 2.0, 0.5, minus), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("hub", "marks"), [(1 << 10, 1 << 30), (4, 1 << 30), (4, 200), (0, 64)])
def test_shared_neighbours_are_those_of_the_plain_count(monkeypatch, hub, marks):
    graph = block_model(200, mean_degree=12, seed=2)
    resident = Resident.of(graph, DEVICE)
    with monkeypatch.context() as patch:
        patch.setattr(common_neighbors, "usable", lambda _: False)
        expected = common_neighbors.shared_neighbors(resident, resident.edges)
    monkeypatch.setattr(common_neighbors, "_HUB", hub)
    monkeypatch.setattr(common_neighbors, "_MARKS", marks)
    assert torch.equal(common_neighbors.shared_neighbors(resident, resident.edges), expected)


def test_points_that_half_precision_cannot_tell_apart_are_told_apart():
    """Clouds that are far narrower than their distance from the origin."""
    generator = torch.Generator().manual_seed(0)
    points = clouds(12, 16).repeat_interleave(30, dim=0)
    points += 1e-3 * torch.randn(points.shape, generator=generator).to(DEVICE)
    layout = layout_of(points, cells=4, largest=200)
    found = layout.search(points, 5, len(layout.ranked))[1]
    truth = torch.cdist(points.double(), points.double()).fill_diagonal_(torch.inf).topk(5, largest=False).indices
    assert (found[:, :, None] == truth[:, None, :]).any(dim=2).float().mean() > 0.97
