"""Metattack: gradients through training against dense automatic differentiation, and what the attack may do."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn.functional import cross_entropy

from garnet.attacks import Stop, Task, pair_scores
from garnet.attacks.degree_test import DegreeTest
from garnet.attacks.greedy import GreedyFlips
from garnet.attacks.meta_gradient import Aim, Descent, aim_of, first_order_gradient, linear_meta_gradient
from garnet.attacks.metattack import Metattack
from garnet.attacks.models import margins
from garnet.attacks.mutable_graph import MutableGraph
from garnet.attacks.random import Random
from garnet.attacks.unrolled import unrolled_meta_gradient
from garnet.backbones import GCN, GPRGNN, MLP, LinearGCN
from garnet.backbones.base import Features, glorot
from garnet.backbones.gcn import GCNInputs
from garnet.datasets import contextual_block_model, random_split
from garnet.errors import AttackError, GraphError, ParameterError
from garnet.graph.graph import as_graph
from garnet.linalg.sparse import SparseMatrix
from garnet.training.loop import Training, train

DESCENT = Descent(steps=25, hidden=5)
ONE_MAP = Descent(steps=25, hidden=None)


def problem(seed, *, sparse=True, weighted=False, n=36, d=11, classes=3):
    """A small random graph, and an attacker's aim on it."""
    random = np.random.default_rng(seed)
    upper = np.triu(random.random((n, n)) < 0.12, 1) * (random.random((n, n)) + 0.5 if weighted else 1.0)
    features = ((random.random((n, d)) < 0.3) * random.random((n, d))).astype(np.float32)
    labels = torch.from_numpy(random.integers(classes, size=n))
    train_nodes = torch.from_numpy(random.permutation(n)[:10])
    share = torch.from_numpy(random.random(n).astype(np.float32)) / n
    held = Features(SparseMatrix(sp.csr_array(features)) if sparse else torch.from_numpy(features))
    aim = Aim(held, train_nodes, labels[train_nodes], labels, share, classes)
    return upper + upper.T, torch.from_numpy(features).double(), aim


def harm_of(logits, aim):
    """The attacker's loss."""
    if aim.loss == "cross-entropy":
        return (aim.share * cross_entropy(logits, aim.labels, reduction="none")).sum()
    return -(aim.share * torch.tanh(aim.sharpness * margins(logits, aim.labels))).sum()


def dense_scores(adjacency, features, aim, model, first_order=False):
    """The same by automatic differentiation of dense matrices, in double precision, for every pair of nodes."""
    weights = torch.tensor(adjacency, dtype=torch.float64, requires_grad=True)
    looped = weights + torch.eye(len(weights), dtype=torch.float64)
    root = looped.sum(dim=1).rsqrt()
    convolution = root[:, None] * looped * root
    parameters, logits = model(convolution, features)
    speed, harm = [torch.zeros_like(one) for one in parameters], 0.0
    for _ in range(DESCENT.steps):
        loss = cross_entropy(logits(parameters)[aim.train], aim.target)
        slopes = torch.autograd.grad(loss, parameters, create_graph=not first_order)
        speed = [DESCENT.momentum * one + slope for one, slope in zip(speed, slopes, strict=True)]
        parameters = [one - DESCENT.lr * step for one, step in zip(parameters, speed, strict=True)]
        if first_order:
            parameters = [one.detach().requires_grad_() for one in parameters]
            held = [one.detach() for one in parameters]
            harm = harm + harm_of(logits(held), aim)
    if not first_order:
        harm = harm_of(logits(parameters), aim)
    (gradient,) = torch.autograd.grad(harm, weights)
    return (gradient + gradient.T).triu(1)


def linear(seed, classes=3, hidden=DESCENT.hidden):
    def model(convolution, features):
        generator = torch.Generator().manual_seed(seed)
        if hidden is None:
            weight = glorot(features.shape[1], classes, generator).double().requires_grad_()
            return [weight], lambda weights: convolution @ (convolution @ (features @ weights[0]))
        parameters = [
            glorot(features.shape[1], DESCENT.hidden, generator).double().requires_grad_(),
            glorot(DESCENT.hidden, classes, generator).double().requires_grad_(),
        ]
        return parameters, lambda weights: convolution @ (convolution @ (features @ weights[0] @ weights[1]))

    return model


def of_backbone(backbone, seed, classes=3):
    def model(convolution, features):
        initial = backbone.initial(features.shape[1], classes, torch.Generator().manual_seed(seed))
        names = list(initial)
        inputs = GCNInputs(Features(features), convolution)

        def logits(values):
            stacked = {name: value[None] for name, value in zip(names, values, strict=True)}
            return backbone.logits(stacked, inputs, None)[0]

        return [initial[name].double().requires_grad_() for name in names], logits

    return model


def assembled(gradient, graph):
    """All blocks of the scores in one matrix."""
    whole = torch.zeros(graph.n, graph.n)
    for block in gradient.scores(graph):
        nodes = torch.from_numpy(block.nodes[block.first :])
        rows, columns = nodes[: len(block.entries), None], nodes[None]
        whole[rows.minimum(columns), rows.maximum(columns)] = block.entries
    return whole.triu(1)


def close(found, expected):
    return float((found - expected).abs().max() / expected.abs().max()) < 1e-4


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sparse", [True, False])
def test_linear_meta_gradient_is_that_of_dense_differentiation(seed, sparse):
    adjacency, features, aim = problem(seed, sparse=sparse, weighted=seed % 2 == 1)
    graph = MutableGraph(sp.csr_array(adjacency), loops=True)
    found = linear_meta_gradient(graph, aim, DESCENT, torch.Generator().manual_seed(seed))
    assert close(assembled(found, graph), dense_scores(adjacency, features, aim, linear(seed)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("descent", [DESCENT, ONE_MAP])
@pytest.mark.parametrize("first_order", [False, True])
def test_gradient_of_a_margin_is_that_of_dense_differentiation(seed, descent, first_order):
    adjacency, features, aim = problem(seed, weighted=seed == 1)
    aim = replace(aim, loss="tanh-margin", sharpness=0.7)
    graph = MutableGraph(sp.csr_array(adjacency), loops=True)
    gradient = first_order_gradient if first_order else linear_meta_gradient
    found = gradient(graph, aim, descent, torch.Generator().manual_seed(seed))
    expected = dense_scores(adjacency, features, aim, linear(seed, hidden=descent.hidden), first_order)
    assert close(assembled(found, graph), expected)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("descent", [DESCENT, ONE_MAP])
def test_first_order_gradient_is_that_of_dense_differentiation(seed, descent):
    adjacency, features, aim = problem(seed)
    graph = MutableGraph(sp.csr_array(adjacency), loops=True)
    found = first_order_gradient(graph, aim, descent, torch.Generator().manual_seed(seed))
    model = linear(seed, hidden=descent.hidden)
    assert close(assembled(found, graph), dense_scores(adjacency, features, aim, model, first_order=True))


@pytest.mark.parametrize("backbone", [GCN(hidden=5), GPRGNN(hidden=5, hops=3)])
def test_gradient_through_any_backbone_is_that_of_dense_differentiation(backbone):
    adjacency, features, aim = problem(7)
    graph = MutableGraph(sp.csr_array(adjacency), loops=True)
    found = unrolled_meta_gradient(graph, aim, DESCENT, torch.Generator().manual_seed(7), backbone)
    assert close(assembled(found, graph), dense_scores(adjacency, features, aim, of_backbone(backbone, 7)))


def test_blocks_give_what_the_whole_gives(monkeypatch):
    adjacency, _, aim = problem(3)
    graph = MutableGraph(sp.csr_array(adjacency), loops=True)
    gradient = linear_meta_gradient(graph, aim, DESCENT, torch.Generator().manual_seed(3))
    whole = assembled(gradient, graph)
    monkeypatch.setattr(pair_scores, "_AT_ONCE", {"cpu": 7 * graph.n})
    assert len(list(gradient.scores(graph))) == 6
    torch.testing.assert_close(assembled(gradient, graph), whole, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("unnoticeable", [False, True])
def test_the_best_flip_is_that_of_an_exhaustive_search(monkeypatch, weighted, unnoticeable):
    adjacency, _, aim = problem(5, weighted=weighted, n=60)
    monkeypatch.setattr(pair_scores, "_FEW", 8)
    greedy = GreedyFlips(MutableGraph(sp.csr_array(adjacency), loops=True), unnoticeable=unnoticeable)
    clean = greedy.graph.counts
    for step in range(12):
        gradient = first_order_gradient(greedy.graph, aim, DESCENT, torch.Generator().manual_seed(step))
        scores, weights, counts = (
            assembled(gradient, greedy.graph),
            greedy.graph.matrix.toarray(),
            greedy.graph.counts,
        )
        gains = {}
        for one, other in itertools.combinations(range(60), 2):
            there = weights[one, other] > 0
            after = counts.copy()
            after[[one, other]] += -1 if there else 1
            if (one, other) in greedy.flipped or (there and min(after[one], after[other]) == 0):
                continue
            if unnoticeable and moved(clean, after).ratio >= 0.004:
                continue
            gains[one, other] = float(scores[one, other]) * (-weights[one, other] if there else 1)
        best = greedy.best(gradient)
        if not gains:
            assert best is None
            break
        assert gains[best] == pytest.approx(max(gains.values()), rel=1e-5)
        greedy.flip(*best)


def moved(before, after):
    """The test of degrees for a graph that had some degrees and has others."""
    test = DegreeTest.of(before)
    kept = after[after >= test.smallest]
    return replace(test, count=float(len(kept)), logs=float(np.log(kept).sum()))


@pytest.fixture(scope="module")
def community():
    graph = contextual_block_model(200, classes=3, features=40, homophily=0.9, mean_degree=6, seed=1)
    return as_graph(graph, split=random_split(graph.labels, train=0.15, val=0.15, seed=1))


def accuracy(graph):
    models = train(GCN(), graph, seeds=range(3), training=Training(epochs=100, lr=0.01))
    return np.mean([one.accuracy() for one in models])


PAPER = {"loss": "cross-entropy", "given_up": 0.0, "unit_rows": False, "hidden": 16, "steps": 100}


SLOW = [pytest.param(one, marks=pytest.mark.slow) for one in (PAPER, {"surrogate": GCN(hidden=16)})]


@pytest.mark.parametrize("parameters", [{}, {"approx": True}, *SLOW])
def test_it_hurts_more_than_chance(community, parameters):
    attack = Metattack(**parameters)(community, budget="20%")
    chance = Random()(community, budget="20%")
    assert accuracy(attack.apply(community)) < accuracy(chance.apply(community)) - 0.05


def test_variants_have_their_own_aim(community):
    task = Task(community, 1, None, np.zeros(0, dtype=np.int64), None, 0)
    shares = {variant: aim_of(task, LinearGCN(), variant, "cpu").share for variant in ("self", "train", "both")}
    taught = torch.zeros(community.num_nodes, dtype=torch.bool)
    taught[community.split.train] = True
    assert not shares["self"][taught].any()
    assert not shares["train"][~taught].any()
    torch.testing.assert_close(shares["both"], (shares["self"] + shares["train"]) / 2)
    for share in shares.values():
        torch.testing.assert_close(share.sum(), torch.tensor(1.0))


def test_nodes_that_are_lost_count_no_more():
    _, _, aim = problem(2)
    logits = torch.zeros(len(aim.labels), 3)
    lost = torch.arange(0, len(logits), 2)
    logits[lost, aim.labels[lost]] = -20
    slope = replace(aim, given_up=0.01).loss_slope(logits)
    assert not slope[lost].any()
    kept = torch.arange(1, len(logits), 2)
    torch.testing.assert_close(slope[kept], aim.loss_slope(logits)[kept])
    logits.requires_grad_()
    (aim.share * cross_entropy(logits, aim.labels, reduction="none")).sum().backward()
    torch.testing.assert_close(aim.loss_slope(logits.detach()), logits.grad)


@pytest.mark.parametrize("steps", [None, 4])
def test_the_slope_of_a_margin_is_that_of_automatic_differentiation(steps):
    aim = replace(problem(2)[2], loss="tanh-margin", sharpness=0.3)
    shape = (len(aim.labels), *([steps] if steps else []), 3)
    logits = (4 * torch.randn(shape, generator=torch.Generator().manual_seed(0))).requires_grad_()
    each = logits.unbind(1) if steps else [logits]
    sum(harm_of(one, aim) for one in each).backward()
    torch.testing.assert_close(aim.loss_slope(logits.detach()), logits.grad)


def test_the_scale_of_the_features_does_not_matter(community):
    victim = train(GCN(), community, training=Training(epochs=30, lr=0.01))[0]
    larger = as_graph(community, features=community.features * np.float32(1024))
    first, second = (Metattack()(graph, budget="5 edges", victim=victim) for graph in (community, larger))
    np.testing.assert_array_equal(first.edges, second.edges)


def test_no_node_loses_its_last_edge(community):
    attacked = Metattack(variant="train")(community, budget="20%").apply(community)
    before, after = (np.diff(graph.adjacency.indptr) for graph in (community, attacked))
    assert not ((before > 0) & (after == 0)).any()


def test_unnoticeable_keeps_the_test_of_degrees(community):
    free, careful = (Metattack(unnoticeable=kept)(community, budget="15%").apply(community) for kept in (False, True))
    clean = np.diff(community.adjacency.indptr)

    assert moved(clean, np.diff(careful.adjacency.indptr)).ratio < 0.004
    assert moved(clean, np.diff(free.adjacency.indptr)).ratio > 0.004


def test_stopped_it_goes_on_to_the_same_end(community):
    whole = Metattack(unnoticeable=True)(community, budget="12 edges", seed=3)

    def stop(step):
        if step.done == 5:
            raise Stop

    begun = Metattack(unnoticeable=True)(community, budget="12 edges", seed=3, progress=stop)
    assert begun.edges.shape[1] == 5
    assert Metattack(unnoticeable=True)(community, budget="12 edges", seed=3, resume=begun) == whole


def test_a_victim_says_what_the_attacker_believes(community):
    victim = train(GCN(), community, training=Training(epochs=30, lr=0.01))[0]
    task = Task(community, 1, None, np.zeros(0, dtype=np.int64), victim, 0)
    believed = aim_of(task, LinearGCN(), "self", "cpu").labels.numpy()
    unlabelled = np.setdiff1d(np.arange(community.num_nodes), community.split.train)
    np.testing.assert_array_equal(believed[unlabelled], victim.predictions()[unlabelled])
    np.testing.assert_array_equal(believed[community.split.train], community.labels[community.split.train])
    stranger = replace(victim, scores=victim.scores[:50])
    with pytest.raises(ParameterError, match="trained on another graph"):
        Metattack()(community, budget="1 edges", victim=stranger)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"variant": "other"}, "'variant' parameter of Metattack must be one of 'self', 'train', 'both'. Got 'other'"),
        (
            {"loss": "margin"},
            "'loss' parameter of Metattack must be one of 'tanh-margin', 'cross-entropy'. Got 'margin'",
        ),
        ({"sharpness": 0.0}, "'sharpness' parameter of Metattack must be a positive number"),
        ({"steps": 0}, "'steps' parameter of Metattack must be an integer >= 1. Got 0 instead"),
        ({"momentum": 1.0}, "'momentum' parameter of Metattack must be at least 0 and below 1"),
        ({"surrogate": "gnn"}, "'surrogate' parameter of Metattack must be a backbone, or the name of one: "),
        ({"surrogate": MLP()}, "Metattack cannot train through MLP"),
        (
            {"surrogate": "gcn", "approx": True},
            "must be False where the surrogate is not linear",
        ),
    ],
)
def test_bad_parameters_get_one_sentence(community, parameters, message):
    with pytest.raises(ParameterError, match=message):
        Metattack(**parameters)(community, budget="1 edges")


def test_a_graph_without_labels_is_refused(community):
    with pytest.raises(GraphError, match="no labels, and the attack metattack needs them"):
        Metattack()(as_graph(community.adjacency, features=community.features), budget="10%")


@pytest.mark.parametrize("approx", [False, True])
def test_training_that_diverges_is_said_so(community, approx):
    features = community.features * np.float32(1e20)
    with pytest.raises(AttackError, match="the surrogate's training diverged; scale the features down"):
        Metattack(approx=approx, unit_rows=False)(as_graph(community, features=features), budget="1 edges")
