"""A model that has learnt classes by their names knows them by these, whatever numbers another table gives them."""

import numpy as np
import pytest

from garnet import as_graph
from garnet.backbones import MLP
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Purified
from garnet.errors import GraphError
from garnet.training.loop import Training
from garnet.training.predictor import Predictor

KINDS = np.array(["ham", "mule", "spam"])


def table_of(graph, kept=KINDS):
    kinds = KINDS[graph.labels].astype(object)
    kinds[~np.isin(kinds, kept)] = None
    return {"id": np.arange(graph.num_nodes), "kind": kinds}


@pytest.fixture(scope="module")
def drawn():
    graph = contextual_block_model(200, classes=3, features=12, signal=4.0, seed=0)
    return as_graph(graph, split=random_split(graph.labels, seed=0))


@pytest.fixture(scope="module")
def trained(drawn):
    graph = as_graph(drawn, nodes=table_of(drawn), id="id", labels="kind")
    return Purified(None, MLP(), Training(epochs=40)).fit(graph, seed=0)


def named(graph, kept=KINDS):
    return as_graph(graph, nodes=table_of(graph, kept), id="id", labels="kind")


def test_predictions_have_the_names(trained, tmp_path):
    table = trained.table()
    assert set(table["predicted"].tolist()) <= set(KINDS.tolist())
    assert [name for name in table if name.startswith("probability_")] == [f"probability_{kind}" for kind in KINDS]
    assert table["label"].tolist() == KINDS[trained.graph.labels].tolist()
    trained.save(tmp_path / "model.npz")
    assert Predictor.load(tmp_path / "model.npz").class_names.tolist() == KINDS.tolist()


def test_a_table_with_some_of_the_classes_means_the_same_ones(trained, drawn):
    whole = trained.on(named(drawn))
    for kept in (["mule", "spam"], ["spam"]):
        some = named(drawn, kept)
        nodes = np.flatnonzero(some.labels >= 0)
        assert trained.on(some).accuracy(nodes) == whole.accuracy(nodes) > 0.6
        assert set(trained.on(some).table()["label"][nodes].tolist()) == set(kept)


def test_a_graph_without_labels_is_answered_with_the_names(trained, drawn):
    bare = as_graph(drawn.adjacency, features=drawn.features)
    table = trained.on(bare).table()
    assert table["predicted"].tolist() == trained.table()["predicted"].tolist()
    assert table["label"].mask.all()


def test_a_class_that_was_not_learnt_is_refused(trained, drawn):
    kinds = KINDS[drawn.labels].astype(object)
    kinds[:5] = "phish"
    other = as_graph(drawn, nodes={"id": np.arange(200), "kind": kinds}, id="id", labels="kind")
    with pytest.raises(GraphError, match="class 'phish', and the model has learnt ham, mule, spam"):
        trained.on(other)
