"""Large graphs are worked on some rows and some edges at a time: what comes out is as if it were at once."""

import numpy as np
import pytest
import torch

from garnet import GARNET
from garnet.datasets import block_model, cora
from garnet.linalg.device_graph import Resident, joined, joined_by_sorting
from garnet.spectral.ordering import permuted


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("garnet.linalg.sparse._ENTRIES", 97)
    monkeypatch.setattr("garnet.purify.memory._EDGES", 101)


@pytest.mark.parametrize("method", [GARNET(), GARNET(support=0.3), GARNET(only_drop=True)], ids=["", "share", "drop"])
def test_a_purification_is_the_same(request, method):
    whole = method.purify(cora())
    request.getfixturevalue("small_pieces")
    pieces = method.purify(cora())
    assert pieces.graph.fingerprint == whole.graph.fingerprint
    assert np.array_equal(pieces.ledger.dropped, whole.ledger.dropped)
    assert pieces.ledger.counts == whole.ledger.counts


def test_matrices_are_the_same(request):
    here = Resident.of(block_model(200, seed=3))
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    edges, weights = here.edges, torch.rand(here.edges.shape[1], generator=torch.Generator().manual_seed(1))

    def made():
        one = Resident.of(block_model(200, seed=3))
        matrix = one.normalized(0.5)
        return (
            matrix.values,
            permuted(matrix, order).values,
            one.least_of_component(),
            joined_by_sorting(edges, weights, 200),
        )

    *whole, graph = made()
    request.getfixturevalue("small_pieces")
    *pieces, other = made()
    assert all(torch.equal(one, two) for one, two in zip(whole, pieces, strict=True))
    plain = joined(edges, weights, 200)
    assert all(abs(one - plain).nnz == 0 for one in (graph, other))
