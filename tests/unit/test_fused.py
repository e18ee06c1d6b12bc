"""The kernels against the plain search; they run on a GPU, or in Triton's interpreter (TRITON_INTERPRET=1)."""

import pytest
import torch

from garnet import fused
from garnet.cells import fit_quantiser
from garnet.layout import Layout
from garnet.prune import inner_products, squared_distances

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

pytestmark = pytest.mark.skipif(
    not fused.usable(torch.zeros(1, device=DEVICE)), reason="needs Triton, and a GPU or TRITON_INTERPRET=1"
)


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch):
    """The interpreter takes seconds for what a GPU does in no time."""
    for name, value in (("_QUERIES", 32), ("_POOL", 32), ("_DEPTH", 16), ("_CAPACITY", 128), ("_ROWS", 150)):
        monkeypatch.setattr(fused, name, value)


def clouds(n, dimension, *, scale=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(12, dimension, generator=generator)
    points = centres[torch.randint(12, (n,), generator=generator)]
    points = points + 0.3 * torch.randn(n, dimension, generator=generator)
    return (scale * (points - points.mean(dim=0))).to(DEVICE)


def layout_of(points, *, cells=8, largest=80):
    quantiser = fit_quantiser(points, cells, seed=0)
    return Layout.of(quantiser, quantiser.assign(points), largest=largest, reach=256)


def plainly(layout, points, k, probes, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("garnet.layout.usable", lambda points: False)
        return layout.search(points, k, probes)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_finds_the_neighbours_that_the_plain_search_finds(monkeypatch, scale):
    points = clouds(260, 20, scale=scale)
    layout = layout_of(points)
    away, found = layout.search(points, 6, 3)
    plain_away, plain_found = plainly(layout, points, 6, 3, monkeypatch)
    assert torch.equal(found, plain_found)
    torch.testing.assert_close(away, plain_away, rtol=1e-4, atol=1e-6 * scale**2)
    assert not (found == torch.arange(260, device=DEVICE)[:, None]).any()


def test_points_that_half_precision_cannot_tell_apart_are_still_ranked(monkeypatch):
    """A far outlier leaves all other points, as half precision sees them, in one place: too many then seem near."""
    points = clouds(260, 20, scale=1e-5)
    points[0] = 100.0
    layout = layout_of(points, largest=200)
    found = layout.search(points, 6, 3)[1]
    assert torch.equal(found[1:], plainly(layout, points, 6, 3, monkeypatch)[1][1:])  # to the outlier all are one


def test_few_points_in_reach_are_not_relied_on():
    points = clouds(90, 8)
    sizes, ranked = torch.tensor([4, 86], device=DEVICE), torch.tensor([[0, 1], [1, 0]], device=DEVICE)
    sure = fused.nearest(points, sizes, ranked, 10, 1)[2]
    assert not sure[:4].any()
    assert sure[4:].all()


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
    assert torch.equal(squared_distances(left, ends), fused.compared(left, left, ends, distance=True))
    assert torch.equal(inner_products(left, right, ends), fused.compared(left, right, ends, distance=False))
