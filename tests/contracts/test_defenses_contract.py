"""What every defence and every purifier promises, whoever wrote it; a new name is tested once it is registered."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from garnet import Split, as_graph
from garnet.backbones import GCN
from garnet.defenses import Purified
from garnet.errors import GarnetError
from garnet.registry import DEFENSES, PURIFIERS
from garnet.training import Training

NAMES = [*DEFENSES.names(), *PURIFIERS.names()]

pytestmark = pytest.mark.filterwarnings("ignore::garnet.errors.RankWarning")


def defense(name):
    if name in PURIFIERS.names():
        return Purified(PURIFIERS.build(name, {}), GCN(hidden=4), Training(epochs=3))
    built = DEFENSES.build(name, {})
    return replace(built, training=Training(epochs=3)) if hasattr(built, "training") else built


def with_all(edges, n, weights=None):
    rng = np.random.default_rng(n)
    labels = np.arange(n) % 2
    features = rng.standard_normal((n, 3)) + 3 * labels[:, None]
    order = rng.permutation(n)
    split = Split(np.sort(order[: n // 2]), order[n // 2 : n // 2 + 2], order[n // 2 + 2 :])
    graph = as_graph((np.array(edges).T, n), features=features, labels=labels, split=split, symmetrize=True)
    return graph if weights is None else graph.with_edges(graph.edges, weights)


def clique(nodes):
    return [(a, b) for a in nodes for b in nodes if a < b]


GRAPHS = {
    "path": with_all([(i, i + 1) for i in range(9)], 10),
    "star": with_all([(0, i) for i in range(1, 10)], 10),
    "two cliques": with_all([*clique(range(5)), *clique(range(5, 10))], 10),
    "isolated node": with_all([*clique(range(4)), (3, 4), (4, 5), (5, 6), (6, 7)], 9),
    "weighted": with_all([(i, (i + 1) % 12) for i in range(12)], 12, np.linspace(0.01, 50, 12)),
}


def bytes_of(graph):
    matrix, split = graph.adjacency, graph.split
    arrays = [matrix.data, matrix.indices, matrix.indptr, graph.features, graph.labels]
    return [array.tobytes() for array in (*arrays, split.train, split.val, split.test)]


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("name", NAMES)
def test_tiny_graphs(name, graph):
    before = bytes_of(graph)
    state = torch.get_rng_state()
    one = defense(name).fit(graph, seed=3)
    assert one.logits().shape == (graph.num_nodes, 2)
    assert torch.isfinite(one.logits()).all()
    assert one.seed == 3
    assert 0 <= one.accuracy() <= 1
    assert one.graph.num_nodes == graph.num_nodes
    assert torch.equal(defense(name).fit(graph, seed=3).logits(), one.logits())
    assert bytes_of(graph) == before
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", NAMES)
def test_seeds_together_come_in_the_order_asked_for(name):
    graph = GRAPHS["two cliques"]
    together = defense(name).fit_seeds(graph, [2, 0, 1])
    assert [one.seed for one in together] == [2, 0, 1]
    for one in together:
        alone = defense(name).fit(graph, seed=one.seed)
        torch.testing.assert_close(one.logits(), alone.logits(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("missing", ["features", "labels", "split"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_is_said(name, missing):
    graph = replace(GRAPHS["path"], **{missing: None})
    with pytest.raises(GarnetError, match=rf"^The graph has no ({missing}|training nodes)[^\n]*\.$"):
        defense(name).fit(graph)
