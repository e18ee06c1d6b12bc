import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.nn import models

from garnet import GARNET, Budget, Split, as_graph
from garnet.attacks import PRBCD, Random
from garnet.backbones import GCN, LINKX
from garnet.backbones.base import Noise, initial_parameters
from garnet.datasets import contextual_block_model, load
from garnet.defenses import Purified
from garnet.errors import GraphError, ParameterError
from garnet.training.loop import Training, train
from garnet.training.predictor import Predictor

QUICK = Training(epochs=10, lr=0.02)


def generators(*seeds):
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def drawn(backbone, graph, *seeds):
    each = [initial_parameters(backbone, graph, 3, generator) for generator in generators(*seeds)]
    return {name: torch.stack([one[name] for one in each]) for name in each[0]}


def dense_linkx(parameters, adjacency, features, layers):
    """The equation of the paper in dense algebra, for one seed."""

    def mapped(name, block):
        return block @ parameters[f"{name}_weight"] + parameters[f"{name}_bias"]

    by_nodes, by_features = mapped("nodes", adjacency), mapped("features", features)
    hidden = torch.relu(mapped("joint", torch.hstack([by_nodes, by_features])) + by_nodes + by_features)
    for layer in range(layers - 1):
        hidden = torch.relu(mapped(f"final{layer}", hidden))
    return mapped(f"final{layers - 1}", hidden)


# --- the equation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_logits_and_gradients_are_those_of_dense_algebra(weighted, layers):
    backbone = LINKX(layers=layers, hidden=6)
    parameters = {name: value.requires_grad_() for name, value in drawn(backbone, weighted, 0, 1).items()}
    found = backbone.logits(parameters, backbone.prepare(weighted, "cpu"), None)
    adjacency, x = (torch.from_numpy(one) for one in (weighted.adjacency.toarray(), weighted.features))
    each = [{name: value[seed] for name, value in parameters.items()} for seed in range(2)]
    expected = torch.stack([dense_linkx(one, adjacency, x, layers) for one in each])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)

    pull = torch.randn(found.shape, generator=generators(2)[0])
    gradients = [torch.autograd.grad((one * pull).sum(), list(parameters.values())) for one in (found, expected)]
    for name, one, other in zip(parameters, *gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        assert one.abs().sum(dim=(1, 2)).min() > 0, name


def test_it_is_pyg_s_linkx(weighted):
    backbone = LINKX(hidden=8)
    parameters = drawn(backbone, weighted, 0)
    theirs = models.LINKX(7, 5, 8, 3, num_layers=1)
    joint = parameters["joint_weight"][0]
    weights = {
        "edge_lin.weight": parameters["nodes_weight"][0],
        "edge_lin.bias": parameters["nodes_bias"][0, 0],
        "node_mlp.lins.0.weight": parameters["features_weight"][0].T,
        "node_mlp.lins.0.bias": parameters["features_bias"][0, 0],
        "cat_lin1.weight": joint[:8].T,
        "cat_lin1.bias": parameters["joint_bias"][0, 0],
        "cat_lin2.weight": joint[8:].T,
        "cat_lin2.bias": torch.zeros(8),
        "final_mlp.lins.0.weight": parameters["final0_weight"][0].T,
        "final_mlp.lins.0.bias": parameters["final0_bias"][0, 0],
    }
    theirs.load_state_dict(weights)
    data = weighted.to_pyg()
    expected = theirs.eval()(data.x, data.edge_index, data.edge_weight).detach()
    found = backbone.logits(parameters, backbone.prepare(weighted, "cpu"), None)[0]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_sparse_features_give_the_same(weighted):
    parameters = drawn(LINKX(), weighted, 0)
    sparse = as_graph(weighted, features=sp.csr_array(weighted.features))
    found = [LINKX().logits(parameters, LINKX().prepare(graph, "cpu"), None) for graph in (weighted, sparse)]
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)


def test_dropout_is_noise_in_training_alone(weighted):
    parameters, inputs = drawn(LINKX(), weighted, 0), LINKX().prepare(weighted, "cpu")
    plain, noisy = (LINKX().logits(parameters, inputs, noise) for noise in (None, Noise(generators(5))))
    assert not torch.allclose(plain, noisy, atol=1e-3)
    certain = LINKX(dropout=0.0, feature_dropout=0.0)
    assert torch.equal(certain.logits(parameters, inputs, Noise(generators(5))), plain)


def test_gradients_reach_the_weights_of_edges(weighted):
    parameters, inputs = drawn(LINKX(hidden=6), weighted, 0), LINKX(hidden=6).prepare(weighted, "cpu")
    weights = torch.from_numpy(weighted.weights).requires_grad_()
    edges, x = torch.from_numpy(weighted.edges), torch.from_numpy(weighted.features)
    found = LINKX(hidden=6).logits(parameters, inputs.with_edges(edges, weights), None)[0]
    upper = torch.zeros(7, 7).index_put((edges[0], edges[1]), weights)
    expected = dense_linkx({name: value[0] for name, value in parameters.items()}, upper + upper.T, x, 1)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    pull = torch.randn(found.shape, generator=generators(2)[0])
    gradients = [torch.autograd.grad((one * pull).sum(), weights)[0] for one in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_an_attack_on_its_edges_finds_what_hurts(blocks):
    (victim,) = train(LINKX(), blocks, training=Training(epochs=60))
    made = PRBCD(block_size=2000, steps=30)(blocks, budget=Budget.fraction(0.2), victim=victim)
    random = Random()(blocks, budget=Budget.fraction(0.2))
    attacked, unlucky = (victim.on(one.apply(blocks)).accuracy() for one in (made, random))
    assert attacked < unlucky - 0.1


# --- what it learns ---------------------------------------------------------------------------------------------------


def test_seeds_together_are_each_alone(blocks):
    together = train(LINKX(), blocks, seeds=(4, 2), training=QUICK)
    for one in together:
        (alone,) = train(LINKX(), blocks, seeds=(one.seed,), training=QUICK)
        torch.testing.assert_close(one.logits(), alone.logits(), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(together[0].logits(), together[1].logits(), atol=1e-2)


def fans(n=400, hubs=30, seed=0):
    """Nodes of two classes that follow hubs of the other class; all have the same features."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    followers = np.arange(hubs, n)
    followed = [rng.choice(np.flatnonzero(labels[:hubs] != labels[node]), 5, replace=False) for node in followers]
    edges = np.stack([np.repeat(followers, 5), np.concatenate(followed)])
    order = rng.permutation(followers)
    split = Split(order[:120], order[120:200], order[200:])
    features = np.ones((n, 2), dtype=np.float32)
    return as_graph((edges, n), features=features, labels=labels, split=split, symmetrize=True)


def test_it_knows_neighbours_by_name_where_averages_say_nothing():
    graph = fans()
    accuracy = {
        type(backbone).__name__: np.mean([one.accuracy() for one in train(backbone, graph, seeds=(0, 1, 2))])
        for backbone in (GCN(), LINKX())
    }
    assert accuracy["GCN"] < 0.65
    assert accuracy["LINKX"] > 0.95


def test_it_is_at_least_as_good_on_squirrel_as_published(data_folder, monkeypatch):
    monkeypatch.setenv("GARNET_DATA", str(data_folder))
    graph = load("squirrel", split="geom-gcn-0")
    (one,) = train(LINKX(), graph, training=Training(epochs=60, lr=0.01))
    assert one.accuracy() > 0.6


# --- the nodes it knows -----------------------------------------------------------------------------------------------


def test_other_edges_of_the_same_nodes_are_fine_and_count(blocks):
    (one,) = train(LINKX(), blocks, training=QUICK)
    fewer = one.on(blocks.with_edges(blocks.edges[:, ::2]))
    assert torch.isfinite(fewer.logits()).all()
    assert not torch.allclose(fewer.logits(), one.logits(), atol=1e-3)
    assert Purified(GARNET(rank=10), LINKX(), QUICK).fit(blocks).accuracy() > 0.4


def test_a_graph_of_other_nodes_is_refused(blocks):
    (one,) = train(LINKX(), blocks, training=QUICK)
    other = contextual_block_model(119, classes=3, features=16, seed=2)
    with pytest.raises(GraphError, match=r"^LINKX has weights for each [^\n]* 120 in all, and this graph has 119;"):
        one.on(other)


def test_it_is_saved_and_loaded(blocks, tmp_path):
    backbone = LINKX(layers=2, hidden=16)
    (one,) = train(backbone, blocks, training=QUICK)
    one.save(tmp_path / "model.npz")
    loaded = Predictor.load(tmp_path / "model.npz")
    assert loaded.backbone == backbone
    assert torch.equal(loaded.logits(), one.logits())


def test_batches_are_refused(blocks):
    batches = Training(epochs=2, batch_size=16)
    for refused in (lambda: train(LINKX(), blocks, training=batches), lambda: Purified(None, LINKX(), batches)):
        with pytest.raises(ParameterError, match=r"^LINKX looks at the whole graph at once; leave 'batch_size' out\.$"):
            refused()


@pytest.mark.parametrize("wrong", [{"layers": 0}, {"hidden": 0}, {"dropout": 1.0}, {"feature_dropout": -0.1}])
def test_parameters_that_make_no_sense(wrong):
    with pytest.raises(ParameterError, match=f"The '{next(iter(wrong))}' parameter of LINKX must be"):
        LINKX(**wrong)
