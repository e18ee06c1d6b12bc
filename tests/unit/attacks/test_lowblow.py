"""LowBlow: its gradient against dense differentiation, and what it does to the defence it was made for."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn.functional import cross_entropy

from garnet.attacks import Stop
from garnet.attacks.lowblow import LeadingDirections, LowBlow, LowRankConvolution, low_rank_gains
from garnet.attacks.meta_gradient import Aim, Descent
from garnet.attacks.mutable_graph import MutableGraph
from garnet.attacks.random import Random
from garnet.backbones import GPRGNN
from garnet.backbones.base import Features, glorot
from garnet.datasets import contextual_block_model, load, random_split
from garnet.defenses import TSVD
from garnet.errors import ParameterError
from garnet.graph.graph import as_graph
from garnet.training.loop import Training

STEPS = 20


def test_gradient_is_that_of_dense_differentiation_in_a_fixed_subspace():
    random, n, rank = np.random.default_rng(0), 60, 12
    upper = np.triu(random.random((n, n)) < 0.1, 1).astype(float)
    adjacency, features = upper + upper.T, torch.from_numpy((random.random((n, 9)) < 0.3).astype(np.float32))
    labels, nodes, share = torch.from_numpy(random.integers(3, size=n)), torch.arange(15), torch.full((n,), 1 / n)
    aim = Aim(Features(features), nodes, labels[nodes], labels, share, 3)
    values, vectors = np.linalg.eigh(adjacency)
    order = np.argsort(-np.abs(values))[:rank]
    values, vectors = torch.tensor(values[order]), torch.tensor(vectors[:, order])
    low = LowRankConvolution(vectors.float(), values.float())
    found = low_rank_gains(low, aim, Descent(steps=STEPS, hidden=5), torch.Generator().manual_seed(1))

    dense = torch.tensor(adjacency, requires_grad=True)
    kept = vectors @ (vectors.T @ dense @ vectors) @ vectors.T
    root = (kept.sum(dim=1) + 1).rsqrt()
    convolution = root[:, None] * (kept + torch.eye(n, dtype=torch.float64)) * root
    generator = torch.Generator().manual_seed(1)
    weights = [glorot(9, 5, generator).double().requires_grad_(), glorot(5, 3, generator).double().requires_grad_()]

    def logits():
        return convolution @ (convolution @ (features.double() @ weights[0] @ weights[1]))

    speed = [torch.zeros_like(one) for one in weights]
    for _ in range(STEPS):
        slopes = torch.autograd.grad(cross_entropy(logits()[nodes], labels[nodes]), weights, create_graph=True)
        speed = [0.9 * one + slope for one, slope in zip(speed, slopes, strict=True)]
        weights = [one - 0.1 * step for one, step in zip(weights, speed, strict=True)]
    (gradient,) = torch.autograd.grad(cross_entropy(logits(), labels), dense)
    expected = gradient + gradient.T
    assert ((found.left @ found.right.T - expected).abs().max() / expected.abs().max()) < 1e-4


def test_directions_follow_the_flips():
    random, n = np.random.default_rng(3), 120
    upper = np.triu(random.random((n, n)) < 0.05, 1).astype(float)
    graph = MutableGraph(sp.csr_array(upper + upper.T), loops=False)
    start = torch.linalg.qr(torch.from_numpy(random.standard_normal((n, 40)).astype(np.float32))).Q
    leading = LeadingDirections(graph, start)
    leading.follow(rounds=50)
    for pair in ((0, 1), (5, 9), (0, 7)):
        graph.flip(*pair)
        leading.follow()
    true = np.linalg.eigvalsh(graph.matrix.toarray())
    np.testing.assert_allclose(leading.values[:10], true[np.argsort(-np.abs(true))[:10]], rtol=1e-3)


@pytest.fixture(scope="module")
def community():
    graph = contextual_block_model(250, classes=3, features=30, homophily=0.9, mean_degree=6, seed=2)
    return as_graph(graph, split=random_split(graph.labels, train=0.15, val=0.15, seed=2))


def test_it_moves_the_leading_components_more_than_chance(community):
    values, vectors = np.linalg.eigh(community.adjacency.toarray())
    leading = vectors[:, np.argsort(-np.abs(values))[:10]]

    def moved(attack):
        change = attack(community, budget="20 edges").apply(community).adjacency - community.adjacency
        return np.linalg.norm(leading.T @ change.toarray() @ leading)

    assert moved(LowBlow(rank=10)) > 3 * moved(Random(kind="both"))


@pytest.mark.slow
def test_it_breaks_the_low_rank_defence():
    clean = load("cora", split="random")
    defense = TSVD(backbone=GPRGNN(), training=Training(epochs=50, lr=0.01, patience=None))

    def accuracy(attack):
        graph = attack(clean, budget="100 edges").apply(clean)
        return np.mean([one.accuracy() for one in defense.fit_seeds(graph, range(2))])

    # Two in a hundred edges.
    assert accuracy(LowBlow()) < 0.6 < 0.7 < accuracy(Random())


def test_stopped_it_goes_on_to_the_same_end(community):
    whole = LowBlow(rank=10)(community, budget="8 edges", seed=1)

    def stop(step):
        if step.done == 3:
            raise Stop

    begun = LowBlow(rank=10)(community, budget="8 edges", seed=1, progress=stop)
    assert begun.edges.shape[1] == 3
    assert LowBlow(rank=10)(community, budget="8 edges", seed=1, resume=begun) == whole


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 250}, "'rank' parameter of LowBlow must be below 250, the node count. Got 250 instead"),
        ({"steps": 0}, "'steps' parameter of LowBlow must be an integer"),
        ({"variant": "all"}, "'variant' parameter of LowBlow must be one of 'self', 'train', 'both'"),
    ],
)
def test_bad_parameters_get_one_sentence(community, parameters, message):
    with pytest.raises(ParameterError, match=message):
        LowBlow(**parameters)(community, budget="1 edges")
