"""Graphs without features: models read one-hot node numbers."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.nn.models import GraphSAGE

from garnet import GARNET, as_graph
from garnet.backbones import GCN, GPRGNN, TorchModule
from garnet.backbones.base import model_features
from garnet.datasets import block_model, contextual_block_model, load, poisoned, random_split
from garnet.defenses import RUNG, TSVD, GNNGuard, ProGNN, Purified
from garnet.errors import GraphError
from garnet.registry import BACKBONES, DEFENSES
from garnet.training import Predictor, Training, train
from garnet.training.sampling import batches

QUICK = Training(epochs=20, lr=0.02)
NAMES = [name for name in BACKBONES.names() if name not in DEFENSES.names()]
ALL = [BACKBONES.build(name, {}) for name in NAMES]
SAGE = TorchModule(lambda features, classes: GraphSAGE(features, 16, 2, classes))


def two_blocks(n=300, seed=0):
    graph = block_model(n, classes=2, mean_degree=10, homophily=0.85, seed=seed)
    return as_graph(graph, split=random_split(graph.labels, train=0.2, val=0.2, seed=seed))


@pytest.fixture(scope="module")
def graph():
    return two_blocks()


def numbered(graph, dense=False):
    identity = sp.eye_array(graph.num_nodes, dtype=np.float32, format="csr")
    return as_graph(graph, features=identity.toarray() if dense else identity)


@pytest.mark.parametrize("backbone", [GCN(), GPRGNN(), BACKBONES.build("linear-gcn", {}), SAGE])
def test_two_blocks_are_learnt(graph, backbone):
    (one,) = train(backbone, graph, training=Training(epochs=100))
    assert one.accuracy() > 0.75
    assert one.graph is graph
    assert one.graph.features is None


def test_two_blocks_are_learnt_after_purifying(graph):
    assert Purified(GARNET(rank=4), GPRGNN()).fit(graph).accuracy() > 0.75


@pytest.mark.parametrize("training", [QUICK, replace(QUICK, batch_size=16)], ids=["whole", "batches"])
@pytest.mark.parametrize("backbone", [*ALL, SAGE], ids=[*NAMES, "module"])
@pytest.mark.slow
def test_it_is_as_if_the_identity_had_been_given(graph, backbone, training):
    if training.batch_size is not None and getattr(backbone, "whole_graph", False):
        pytest.skip("it looks at the whole graph at once")
    (one,) = train(backbone, graph, seeds=(3,), training=training)
    for dense in (False, True):
        (other,) = train(backbone, numbered(graph, dense), seeds=(3,), training=training)
        assert torch.equal(one.logits(), other.logits())
        assert all(torch.equal(one.parameters[name], other.parameters[name]) for name in one.parameters)


def test_features_without_a_column_are_none(graph):
    hollow = as_graph(graph, features=np.zeros((graph.num_nodes, 0)))
    assert torch.equal(
        train(GCN(), hollow, training=QUICK)[0].logits(), train(GCN(), graph, training=QUICK)[0].logits()
    )


def test_a_batch_knows_its_nodes_by_their_numbers_in_the_whole_graph(graph):
    asked, generator = torch.arange(0, 300, 7), torch.Generator().manual_seed(0)
    for batch in batches(graph, asked, size=8, fanout=(3, 3), generator=generator):
        np.testing.assert_array_equal(model_features(batch.graph).argmax(axis=1), batch.nodes)
        assert batch.graph.features.shape == (len(batch.nodes), 300)


def test_two_blocks_are_learnt_in_batches(graph):
    (one,) = train(GCN(), graph, training=Training(epochs=60, batch_size=16))
    assert one.accuracy() > 0.75


def test_it_is_said(graph):
    (one,) = train(GCN(), graph, training=QUICK)
    assert "features one-hot node numbers" in repr(one)
    assert "one-hot node numbers" in one._repr_html_()
    (other,) = train(GCN(), numbered(graph), training=QUICK)
    assert "one-hot" not in repr(other)


@pytest.mark.parametrize("backbone", ALL, ids=NAMES)
def test_a_saved_model_says_the_same(graph, backbone, tmp_path):
    (one,) = train(backbone, graph, training=QUICK)
    one.save(tmp_path / "model.npz")
    back = Predictor.load(tmp_path / "model.npz")
    assert back.graph == graph
    assert torch.equal(back.logits(), one.logits())


@pytest.mark.parametrize("backbone", [*ALL, SAGE], ids=[*NAMES, "module"])
def test_other_edges_of_the_same_nodes_will_do_and_other_nodes_will_not(graph, backbone):
    (one,) = train(backbone, graph, training=QUICK)
    assert torch.isfinite(one.on(graph.with_edges(graph.edges[:, ::2])).logits()).all()
    for nodes in (299, 301):
        with pytest.raises(GraphError, match=r"^(The model|LINKX)[^\n]*\.$"):
            one.on(two_blocks(nodes))
    # As many features as there were nodes, though the weights would fit.
    with pytest.raises(GraphError, match="has 300 features, and the model was trained on none;"):
        one.on(contextual_block_model(300, classes=2, features=300, seed=0))


def test_features_and_numbers_are_not_taken_for_each_other(graph):
    known = as_graph(graph, features=np.random.default_rng(0).random((300, 300)))
    with pytest.raises(GraphError, match="has no features, and the model was trained on 300;"):
        train(GCN(), known, training=QUICK)[0].on(graph)


def test_what_compares_no_features_needs_none(graph):
    assert GNNGuard(similarity="graphlets", training=QUICK).fit(graph).accuracy() > 0.5
    assert ProGNN(smoothness=0, training=Training(epochs=2, lr=0.01)).fit(graph).accuracy() > 0.5


@pytest.mark.parametrize(
    "defense", [Purified(None), Purified(GARNET()), TSVD(rank=10), RUNG()], ids=["none", "garnet", "tsvd", "rung"]
)
@pytest.mark.slow
def test_polblogs(data_folder, monkeypatch, defense):
    if not (data_folder / "polblogs").is_dir():
        pytest.skip(f"no polblogs in {data_folder}")
    monkeypatch.setenv("GARNET_DATA", str(data_folder))
    quick = replace(defense, training=Training(epochs=60, lr=0.01))
    assert quick.fit(load("polblogs")).accuracy() > 0.9
    assert quick.fit(poisoned("polblogs", attack="metattack", budget=0.05)).accuracy() > 0.6
