import numpy as np

from garnet import as_graph
from garnet.audit import audit
from garnet.datasets import cora, load
from garnet.defenses.audited import Audited


def test_what_the_audit_doubts_is_dropped_and_the_rest_weighs_as_it_is_believed():
    graph = cora()
    bare = as_graph(graph.adjacency, features=graph.features)
    found, cleaned = audit(bare), Audited().purify(bare)
    assert np.array_equal(cleaned.graph.edges, found.edges[:, ~found.doubted])
    assert np.allclose(cleaned.graph.weights, 1 - found.suspicion[~found.doubted])
    assert np.array_equal(cleaned.ledger.dropped, found.edges[:, found.doubted])
    assert cleaned.ledger.added.shape[1] == 0


def test_a_graph_that_nobody_attacked_keeps_nearly_all():
    graph = load("cora", split="random")
    assert Audited().purify(graph).graph.num_edges > 0.95 * graph.num_edges


def test_labels_of_other_than_training_nodes_have_no_part_in_it():
    graph = load("cora", split="random")
    labels = graph.labels.copy()
    others = np.setdiff1d(np.arange(graph.num_nodes), graph.split.train)
    labels[others] = np.random.default_rng(0).permutation(labels[others])
    changed = Audited().purify(as_graph(graph, labels=labels)).graph
    assert changed.fingerprint == Audited().purify(graph).graph.fingerprint
