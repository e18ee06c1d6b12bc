"""Features that are taken as they are give the same graph on disk as in memory."""

import numpy as np
import pytest
import scipy.sparse as sp

from garnet import GARNET, InMemory, OnDisk, as_graph
from garnet.datasets import contextual_block_model
from garnet.spectral import Chebyshev


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("asked", [{"features": "raw"}, {"features": "low-rank", "feature_rank": None}], ids=str)
def test_whole_features_on_disk(asked, sparse):
    graph = contextual_block_model(300, classes=3, mean_degree=6, features=12, signal=3.0, seed=0)
    features = np.maximum(graph.features, 0)
    graph = as_graph(graph, features=sp.csr_array(features) if sparse else features)
    method, solver = GARNET(rank=8, k=5, **asked), Chebyshev(tol=1e-6)
    here = method.purify(graph, place=InMemory(solver=solver))
    there = method.purify(graph, place=OnDisk(memory="2GB", parts=3, solver=solver))
    assert there.parts == 3
    assert (there.graph.edges == here.graph.edges).all()
    assert there.graph.weights == pytest.approx(here.graph.weights, abs=1e-4)
    assert there.settings.feature_weight == pytest.approx(here.settings.feature_weight)
