"""The graphs that tests of backbones share."""

import numpy as np
import pytest

from garnet import as_graph
from garnet.datasets import contextual_block_model, random_split


@pytest.fixture(scope="package")
def weighted():
    """Seven nodes, weighted edges, node 6 isolated."""
    edges = np.array([[0, 0, 1, 2, 3, 4], [1, 2, 2, 3, 4, 5]])
    features = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    return as_graph((np.zeros((2, 0)), 7), features=features).with_edges(edges, [0.5, 2, 1, 0.1, 3, 1])


@pytest.fixture(scope="package")
def blocks():
    """Three classes of forty nodes that show in edges and features, and a split."""
    graph = contextual_block_model(120, classes=3, features=16, signal=2.0, seed=1)
    return as_graph(graph, split=random_split(graph.labels, train=0.4, val=0.2, seed=1))
