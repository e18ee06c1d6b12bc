"""PGD and min-max: a step against dense differentiation, and what they do to a model and its training."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from torch_geometric.nn import models

from garnet.attacks import Stop
from garnet.attacks.bcd import PRBCD
from garnet.attacks.models import EdgeModel, attack_loss
from garnet.attacks.pgd import PGD, Learner, MinMax
from garnet.attacks.random import Random
from garnet.backbones import GCN, MLP, TorchModule
from garnet.datasets import block_model, class_features, contextual_block_model, random_split
from garnet.errors import GraphError, ParameterError
from garnet.graph.budget import Budget
from garnet.graph.graph import as_graph
from garnet.training.loop import Training, train

BOTH = pytest.mark.parametrize("attack", [PGD(steps=60), MinMax(steps=60)], ids=["pgd", "min-max"])


def block_graph(n=100):
    graph = contextual_block_model(n, classes=3, mean_degree=6.0, features=8, signal=1.5, seed=1)
    return as_graph(graph, split=random_split(graph.labels, train=0.3, val=0.1))


@pytest.fixture(scope="module")
def graph():
    return block_graph()


@pytest.fixture(scope="module")
def victim(graph):
    return train(GCN(hidden=16), graph, training=Training(epochs=60, lr=0.01))[0]


def dense_loss(victim, graph, p):
    """The loss of a GCN in a dense matrix of probabilities, (n, n), of flips."""
    adjacency = torch.from_numpy(graph.adjacency.toarray()).double()
    flipped = torch.triu(p, 1) + torch.triu(p, 1).T
    looped = torch.where(adjacency > 0, adjacency * (1 - flipped), flipped)
    looped = looped - torch.diag(looped.diagonal()) + torch.eye(len(p), dtype=torch.float64)
    root = looped.sum(dim=1) ** -0.5
    matrix, w = root[:, None] * looped * root, {name: value.double() for name, value in victim.parameters.items()}
    x = torch.from_numpy(graph.features).double()
    logits = matrix @ (matrix @ x @ w["weight0"] + w["bias0"]).relu() @ w["weight1"] + w["bias1"]
    test = graph.split.test
    return attack_loss("tanh-margin", logits[test], torch.from_numpy(graph.labels[test]))


def test_flips_are_those_of_a_dense_projected_gradient(graph, victim):
    """Written anew with dense matrices: step, shift until the budget is kept, and in the end the likeliest flips."""
    budget, steps, lr, n = 25, 5, 0.4, graph.num_nodes
    upper = np.triu_indices(n, 1)
    p, best, chosen = np.zeros(len(upper[0])), -np.inf, None

    def whole(values):
        matrix = torch.zeros(n, n, dtype=torch.float64)
        matrix[upper] = torch.from_numpy(values)
        return matrix

    for step in range(steps):
        matrix = whole(p).requires_grad_()
        gradient = torch.autograd.grad(dense_loss(victim, graph, matrix), matrix)[0][upper].numpy()
        p = p + lr / np.sqrt(step + 1) * gradient / np.sort(gradient)[-budget:].mean()
        if np.clip(p, 0, 1).sum() > budget:
            p = p - brentq(lambda mu, p=p: np.clip(p - mu, 0, 1).sum() - budget, 0, p.max(), xtol=1e-13)
        p = np.clip(p, 0, 1)
        flips = np.argsort(-p)[:budget]
        flips = flips[p[flips] > 0]
        loss = float(dense_loss(victim, graph, whole(np.isin(np.arange(len(p)), flips).astype(float))))
        if loss > best:
            best, chosen = loss, flips
    found = PGD(steps=steps, lr=lr, samples=0)(graph, budget=Budget.edges(budget), victim=victim)
    expected = {(int(upper[0][flip]), int(upper[1][flip])) for flip in chosen}
    assert set(map(tuple, found.edges.T.tolist())) == expected


def test_is_the_block_attack_with_all_pairs_in_its_block(graph, victim):
    one = PGD(steps=1, lr=0.3, samples=5)(graph, budget=Budget.edges(30), victim=victim)
    other = PRBCD(steps=1, fine_steps=0, lr=0.3, samples=0)(graph, budget=Budget.edges(30), victim=victim)
    losses = [_loss(victim, made.apply(graph)) for made in (one, other)]
    assert losses[0] >= losses[1] > _loss(victim, graph)


def _loss(victim, graph):
    test = graph.split.test
    return float(attack_loss("tanh-margin", victim.on(graph).logits()[test], torch.from_numpy(graph.labels[test])))


@BOTH
def test_poisoned_training_does_worse_than_with_random_edges(attack, graph):
    budget = Budget.fraction(0.25)
    poison = attack(graph, budget=budget)
    assert poison.num_changes <= int(0.25 * graph.num_edges)
    clean, at_random, poisoned = (
        np.mean([one.accuracy() for one in train(GCN(), where, seeds=range(3), training=Training(lr=0.01))])
        for where in (graph, Random()(graph, budget=budget).apply(graph), poison.apply(graph))
    )
    assert clean - poisoned > 0.1 + (clean - at_random)


@BOTH
def test_evasion_of_any_module(attack, graph):
    module = TorchModule(lambda features, classes: models.GCN(features, 8, 2, classes))
    victim = train(module, graph, training=Training(epochs=60, lr=0.01))[0]
    made = replace(attack, steps=20)(graph, budget=Budget.edges(30), victim=victim)
    assert _loss(victim, made.apply(graph)) > _loss(victim, graph) + 0.1


@BOTH
def test_same_seed_same_flips(attack, graph, victim):
    attack = replace(attack, steps=5)
    first, again = (attack(graph, budget="20 edges", victim=victim, seed=1) for _ in range(2))
    assert first == again


@BOTH
def test_a_stopped_attack_gives_what_it_has(attack, graph, victim):
    def progress(step):
        if step.done == 3:
            raise Stop

    made = attack(graph, budget=Budget.edges(30), victim=victim, progress=progress)
    assert _loss(victim, made.apply(graph)) > _loss(victim, graph)
    with pytest.raises(ParameterError, match="cannot go on"):
        attack(graph, budget=Budget.edges(30), victim=victim, resume=made)


def test_the_model_learns_on_the_weighted_graph(graph, victim):
    """Every step of its weights lowers the training loss on a relaxed graph, and the victim stays as it was."""
    model, nodes = EdgeModel.of(victim, graph), graph.split.train
    before = {name: value.clone() for name, value in victim.parameters.items()}
    edges = torch.from_numpy(graph.edges)
    weights = torch.rand(edges.shape[1], generator=torch.Generator().manual_seed(0))
    learner, labels, losses = Learner(model, graph, 0.01), torch.from_numpy(graph.labels[nodes]), []
    for _ in range(20):
        losses.append(float(attack_loss("cross-entropy", learner.model.logits(edges, weights)[nodes], labels)))
        learner.step(edges, weights)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.9 * losses[0]
    assert all(torch.equal(value, before[name]) for name, value in victim.parameters.items())


@BOTH
def test_a_large_graph_is_refused(attack):
    graph = block_model(5001, seed=0)
    graph = as_graph(graph, features=class_features(graph.labels, dim=2, signal=1.0), split=random_split(graph.labels))
    with pytest.raises(GraphError, match=r"at most 5000 nodes\. Got 5001; use prbcd"):
        attack(graph, budget="5 edges")


@BOTH
@pytest.mark.parametrize(("name", "value"), [("steps", 0), ("lr", -1.0), ("samples", -1), ("loss", "hinge")])
def test_parameters_that_make_no_sense(attack, graph, name, value):
    with pytest.raises(ParameterError, match=f"The '{name}' parameter of {type(attack).__name__} must be"):
        replace(attack, **{name: value})(graph, budget="5 edges")


def test_parameters_of_the_learner(graph):
    for name, value in (("inner_steps", 0), ("inner_lr", 0)):
        with pytest.raises(ParameterError, match=f"The '{name}' parameter of MinMax must be"):
            MinMax(**{name: value})(graph, budget="5 edges")


@BOTH
def test_a_victim_without_edges_in_it_is_refused(attack, graph):
    with pytest.raises(ParameterError, match="No gradient of MLP reaches the edges here"):
        attack(graph, budget="5 edges", victim=train(MLP(), graph, training=Training(epochs=2, lr=0.01))[0])
