"""PR-BCD and GR-BCD: gradients, projection and numbering against dense ones, and both against PyTorch Geometric's."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from torch_geometric.nn import models

from garnet.attacks import Stop
from garnet.attacks.bcd import GRBCD, PRBCD
from garnet.attacks.models import EdgeModel, attack_loss
from garnet.attacks.random import Random
from garnet.attacks.relaxation import numbered_pairs, pair_numbers, projected
from garnet.backbones import GCN, GPRGNN, MLP, LinearGCN, TorchModule
from garnet.datasets import contextual_block_model, random_split
from garnet.errors import GraphError, ParameterError
from garnet.graph.budget import Budget
from garnet.graph.graph import as_graph
from garnet.graph.perturbation import Perturbation
from garnet.training.loop import Training, train

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch_geometric.contrib.nn import GRBCDAttack, PRBCDAttack


def pyg_gcn(features, classes):
    return models.GCN(features, 16, 2, classes)


def block_graph(n=150, seed=0, weighted=False):
    graph = contextual_block_model(n, classes=3, mean_degree=6.0, features=8, signal=1.5, seed=seed)
    if weighted:
        weights = np.random.default_rng(seed).uniform(0.3, 2.0, graph.num_edges)
        graph = graph.with_edges(graph.edges, weights)
    return as_graph(graph, split=random_split(graph.labels, train=0.3, val=0.1, seed=seed))


def trained(backbone, graph, epochs=60):
    return train(backbone, graph, training=Training(epochs=epochs, lr=0.01))[0]


@pytest.fixture(scope="module")
def graph():
    return block_graph()


@pytest.fixture(scope="module")
def victim(graph):
    return trained(TorchModule(pyg_gcn), graph)


def loss_on(victim, graph, name="tanh-margin", nodes=None):
    nodes = graph.split.test if nodes is None else np.asarray(nodes)
    return float(attack_loss(name, victim.on(graph).logits()[nodes], torch.from_numpy(graph.labels[nodes])))


def dense_convolution(pairs, weights, n):
    upper = torch.zeros(n, n, dtype=torch.float64).index_put((pairs[0], pairs[1]), weights)
    looped = upper + upper.T + torch.eye(n, dtype=torch.float64)
    root = looped.sum(dim=1) ** -0.5
    return torch.diag(root) @ looped @ torch.diag(root)


def dense_logits(victim, graph, matrix):
    x, p = torch.from_numpy(graph.features).double(), {name: v.double() for name, v in victim.parameters.items()}
    match victim.backbone:
        case GCN():
            return matrix @ (matrix @ x @ p["weight0"] + p["bias0"]).relu() @ p["weight1"] + p["bias1"]
        case LinearGCN():
            return matrix @ matrix @ x @ p["weight"]
        case GPRGNN():
            hidden = (x @ p["weight0"] + p["bias0"]).relu() @ p["weight1"] + p["bias1"]
            return sum(c * torch.linalg.matrix_power(matrix, k) @ hidden for k, c in enumerate(p["coefficients"]))
        case _:
            first, second = (f"learnt.convs.{layer}." for layer in (0, 1))
            hidden = (matrix @ x @ p[first + "lin.weight"].T + p[first + "bias"]).relu()
            return matrix @ hidden @ p[second + "lin.weight"].T + p[second + "bias"]


def all_pairs(n):
    return np.stack(np.triu_indices(n, 1)).astype(np.int64)


def dense_gains(victim, graph, name, nodes):
    """By how much the loss grows with the probability of flipping each pair, by dense differentiation."""
    pairs = all_pairs(graph.num_nodes)
    there = torch.from_numpy(graph.adjacency.toarray()[pairs[0], pairs[1]]).double()
    p = torch.zeros(pairs.shape[1], dtype=torch.float64, requires_grad=True)
    weights = torch.where(there > 0, there * (1 - p), p)
    matrix = dense_convolution(torch.from_numpy(pairs), weights, graph.num_nodes)
    logits = dense_logits(victim, graph, matrix)[nodes]
    return torch.autograd.grad(attack_loss(name, logits, torch.from_numpy(graph.labels[nodes])), p)[0].numpy()


@pytest.mark.parametrize("backbone", [GCN(hidden=8), GPRGNN(hops=3, hidden=8), LinearGCN(), TorchModule(pyg_gcn)])
@pytest.mark.parametrize("share", [0.15, 1.0], ids=["sparse", "full"])
def test_gradients_reach_the_weights_of_edges_as_they_do_in_a_dense_matrix(backbone, share):
    graph = block_graph(40, weighted=True)
    victim = trained(backbone, graph, epochs=20)
    rng = np.random.default_rng(1)
    pairs = all_pairs(40)[:, rng.random(780) < share]
    # Pairs of weight zero among them: no edges yet.
    weights = rng.uniform(0, 2, pairs.shape[1]) * (rng.random(pairs.shape[1]) < 0.7)
    edges, nodes, labels = torch.from_numpy(pairs), graph.split.test, torch.from_numpy(graph.labels[graph.split.test])

    mine = torch.from_numpy(weights).float().requires_grad_()
    logits = EdgeModel.of(victim, graph).logits(edges, mine)
    (found,) = torch.autograd.grad(attack_loss("cross-entropy", logits[nodes], labels), mine)
    theirs = torch.from_numpy(weights).requires_grad_()
    expected_logits = dense_logits(victim, graph, dense_convolution(edges, theirs, 40))
    (expected,) = torch.autograd.grad(attack_loss("cross-entropy", expected_logits[nodes], labels), theirs)
    assert (logits - expected_logits).abs().max() < 1e-5 * expected_logits.abs().max()
    assert (found - expected).abs().max() < 1e-5 * expected.abs().max()


@given(st.integers(2, 60))
@settings(max_examples=20, deadline=None)
def test_pairs_are_numbered_in_their_order(n):
    numbers = torch.arange(n * (n - 1) // 2)
    assert numbered_pairs(numbers, n).T.tolist() == [list(pair) for pair in itertools.combinations(range(n), 2)]
    assert torch.equal(pair_numbers(numbered_pairs(numbers, n), n), numbers)


@given(st.integers(2, 3_000_000), st.data())
@settings(max_examples=30, deadline=None)
def test_numbers_of_pairs_are_exact_in_graphs_of_millions_of_nodes(n, data):
    first = data.draw(st.integers(0, n - 2))
    second = data.draw(st.integers(first + 1, n - 1))
    number = pair_numbers(torch.tensor([[first], [second]]), n)
    assert int(number) == first * n - first * (first + 1) // 2 + second - first - 1
    assert numbered_pairs(number, n).flatten().tolist() == [first, second]


@given(st.lists(st.floats(-3, 5, width=32), min_size=1, max_size=40), st.integers(1, 10))
@settings(max_examples=100, deadline=None)
def test_projection_is_the_one_that_another_solver_finds(values, budget):
    p = np.array(values)
    shift = 0.0
    if np.clip(p, 0, 1).sum() > budget:
        shift = brentq(lambda mu: np.clip(p - mu, 0, 1).sum() - budget, 0, p.max(), xtol=1e-12)
    found = projected(torch.tensor(values, dtype=torch.float32), budget)
    assert found.sum() <= budget + 1e-5
    np.testing.assert_allclose(found, np.clip(p - shift, 0, 1), atol=2e-6)


@pytest.mark.parametrize("loss", ["tanh-margin", "masked-cross-entropy", "cross-entropy", "margin"])
def test_a_greedy_step_takes_the_largest_gradients_of_all_pairs(loss):
    graph = block_graph(60, weighted=True)
    victim = trained(GCN(hidden=8), graph)
    found = GRBCD(steps=1, loss=loss)(graph, budget=Budget.edges(20), victim=victim)
    gains = dense_gains(victim, graph, loss, graph.split.test)
    expected = all_pairs(60)[:, np.argsort(-gains)[:20]]
    assert set(map(tuple, found.edges.T.tolist())) == set(map(tuple, expected.T.tolist()))


def by_pyg(kind, victim, graph, budget, seed, **options):
    """What PyTorch Geometric's own attack does to the same model."""
    model = pyg_gcn(graph.features.shape[1], 3)
    model.load_state_dict({n[7:]: v for n, v in victim.parameters.items() if n.startswith("learnt.")})
    edges = torch.from_numpy(np.stack(graph.adjacency.nonzero()).astype(np.int64))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        _, flipped = kind(model.eval(), log=False, **options).attack(
            torch.from_numpy(graph.features), edges, torch.from_numpy(graph.labels), budget,
            torch.from_numpy(graph.split.test),
        )  # fmt: skip
    return Perturbation.of(graph, flipped.numpy())


def masked(logits, labels, nodes):
    return attack_loss("masked-cross-entropy", logits[nodes], labels[nodes])


def pairs_of(perturbation):
    return set(map(tuple, perturbation.edges.T.tolist()))


def test_greedy_flips_are_those_of_pytorch_geometric_where_blocks_hold_all_pairs(graph, victim):
    found = GRBCD(steps=12)(graph, budget=Budget.edges(12), victim=victim)
    # Drawn 36 times over, so that no pair is missing.
    theirs = by_pyg(GRBCDAttack, victim, graph, 12, seed=0, block_size=400_000, epochs=12, loss=masked)
    assert pairs_of(found) == pairs_of(theirs)


@pytest.mark.parametrize(
    ("mine", "theirs", "options"),
    [
        # Of its step sizes 30, 100, 300 and 1000, theirs does best here with this one.
        (PRBCD(block_size=2000), PRBCDAttack, {"loss": "tanh_margin", "lr": 100}),
        (GRBCD(block_size=2000), GRBCDAttack, {"loss": masked}),
    ],
    ids=["prbcd", "grbcd"],
)
@pytest.mark.slow
def test_as_strong_as_the_attacks_of_pytorch_geometric(graph, victim, mine, theirs, options):
    found, others = (
        np.array([loss_on(victim, made(seed).apply(graph)) for seed in range(4)])
        for made in (
            lambda seed: mine(graph, budget=Budget.edges(40), victim=victim, seed=seed),
            lambda seed: by_pyg(theirs, victim, graph, 40, seed, block_size=2000, **options),
        )
    )
    # Each draws blocks of its own; two standard errors of the difference are luck.
    luck = 2 * np.sqrt((found.var(ddof=1) + others.var(ddof=1)) / 4)
    assert found.mean() >= others.mean() - luck
    assert found.min() > loss_on(victim, graph) + 0.3


@pytest.mark.parametrize(
    "attack", [PRBCD(block_size=2000, steps=40, fine_steps=10), GRBCD(block_size=2000)], ids=["prbcd", "grbcd"]
)
class TestBoth:
    def test_evasion_does_far_more_than_random_edges(self, attack, graph, victim):
        budget = Budget.fraction(0.1)
        made = attack(graph, budget=budget, victim=victim)
        random = np.mean([victim.on(Random()(graph, budget=budget, seed=s).apply(graph)).accuracy() for s in range(3)])
        lost, at_random = victim.accuracy() - victim.on(made.apply(graph)).accuracy(), victim.accuracy() - random
        assert 0 < made.num_changes <= int(0.1 * graph.num_edges)
        assert lost > 0.1 + 2 * at_random

    def test_poisons_a_model_that_it_does_not_know(self, attack, graph):
        poison = attack(graph, budget="25%").apply(graph)
        clean, poisoned = (
            np.mean([one.accuracy() for one in train(GCN(), where, seeds=range(3))]) for where in (graph, poison)
        )
        assert poisoned < clean - 0.1

    def test_same_seed_same_flips(self, attack, graph, victim):
        first, again, other = (attack(graph, budget="20 edges", victim=victim, seed=s) for s in (1, 1, 2))
        assert first == again
        assert not np.array_equal(first.edges, other.edges)

    def test_local_flips_touch_the_target_and_fool_it(self, attack, graph, victim):
        right = graph.split.test[victim.predictions()[graph.split.test] == graph.labels[graph.split.test]]
        targets, fooled = right[:5], 0
        for target in targets:
            degree = int(np.diff(graph.adjacency.indptr)[target])
            made = attack(graph, budget=Budget.edges(degree), targets=[target], victim=victim)
            assert (made.edges == target).any(axis=0).all()
            fooled += victim.on(made.apply(graph)).predictions()[target] != graph.labels[target]
        assert fooled >= 4

    def test_every_target_has_its_own_budget(self, attack, graph, victim):
        targets = [4, 9, 21]
        made = attack(graph, budget=Budget.per_target(2), targets=targets, victim=victim)
        assert made.num_changes == 6
        for number, target in enumerate(targets):
            assert (made.edges[:, 2 * number : 2 * number + 2] == target).any(axis=0).all()

    def test_targets_together_share_a_budget(self, attack, graph, victim):
        targets = [4, 9, 21]
        made = attack(graph, budget=Budget.edges(7), targets=targets, victim=victim)
        assert np.isin(made.edges, targets).any(axis=0).all()
        assert loss_on(victim, made.apply(graph), nodes=targets) > loss_on(victim, graph, nodes=targets)

    def test_predictions_stand_in_for_labels(self, attack, graph, victim):
        unlabelled = as_graph(graph.to_scipy(), features=graph.features)
        attack = replace(attack, labels="predicted")
        made = attack(unlabelled, budget="20 edges", victim=victim)
        changed = victim.on(made.apply(unlabelled)).predictions() != victim.on(unlabelled).predictions()
        assert changed.sum() > 10
        with pytest.raises(GraphError, match="no labels"):
            replace(attack, labels="true")(unlabelled, budget="20 edges", victim=victim)

    def test_flips_can_be_more_than_half_of_all_pairs(self, attack):
        small = block_graph(12)
        made = attack(small, budget=Budget.edges(50))
        assert made.num_changes <= 50

    def test_a_victim_without_edges_in_it_is_refused(self, attack, graph):
        for backbone in (MLP(), TorchModule(lambda f, c: models.GraphSAGE(f, 4, 2, c))):
            with pytest.raises(ParameterError, match=r"No gradient of \w+ reaches the edges here"):
                attack(graph, budget="5 edges", victim=trained(backbone, graph, epochs=2))

    @pytest.mark.parametrize(
        ("name", "value"),
        [("block_size", 0), ("steps", 0), ("steps", 1.5), ("loss", "hinge"), ("labels", "all"), ("device", "abacus")],
    )
    def test_parameters_that_make_no_sense(self, attack, graph, name, value):
        with pytest.raises(ParameterError, match=f"The '{name}' parameter of {type(attack).__name__} must be"):
            replace(attack, **{name: value})(graph, budget="5 edges")


@pytest.mark.parametrize("cut", [1, 7, 10, 23])
def test_greedy_goes_on_as_if_it_had_not_been_stopped(graph, victim, cut):
    attack = GRBCD(block_size=2000, steps=9)
    whole = attack(graph, budget=Budget.edges(24), victim=victim, seed=3)
    part = whole.first(cut, graph)
    assert attack(graph, budget=Budget.edges(24), victim=victim, seed=3, resume=part) == whole


def test_greedy_goes_on_from_target_to_target(graph, victim):
    attack, arguments = GRBCD(block_size=50), {"targets": [4, 9, 21], "victim": victim, "seed": 1}
    whole = attack(graph, budget=Budget.per_target(3), **arguments)
    for cut in (2, 3, 7):
        part = whole.first(cut, graph)
        assert attack(graph, budget=Budget.per_target(3), resume=part, **arguments) == whole


def test_greedy_goes_on_with_a_larger_budget(graph, victim):
    attack = GRBCD(block_size=2000, steps=9)
    first = attack(graph, budget=Budget.edges(10), victim=victim)
    more = attack(graph, budget=Budget.edges(35), victim=victim, resume=first)
    assert more.num_changes == 35
    np.testing.assert_array_equal(more.edges[:, :10], first.edges)
    assert loss_on(victim, more.apply(graph)) > loss_on(victim, first.apply(graph))


def stop_at(call):
    calls = itertools.count(1)

    def progress(step):
        if next(calls) >= call:
            raise Stop

    return progress


def test_a_stopped_descent_gives_the_best_it_has(graph, victim):
    attack, clean = PRBCD(block_size=2000), loss_on(victim, graph)
    early, late = (attack(graph, budget=Budget.edges(30), victim=victim, progress=stop_at(step)) for step in (1, 40))
    whole = attack(graph, budget=Budget.edges(30), victim=victim)
    losses = [loss_on(victim, made.apply(graph)) for made in (early, late, whole)]
    assert clean < losses[0] < losses[1] <= losses[2]
    with pytest.raises(ParameterError, match="cannot go on"):
        attack(graph, budget=Budget.edges(30), victim=victim, resume=early)


def test_a_stopped_greedy_attack_keeps_what_it_has(graph, victim):
    attack = GRBCD(block_size=2000, steps=5)
    part = attack(graph, budget=Budget.edges(20), victim=victim, progress=stop_at(2))
    assert part.num_changes == 8
    assert not part.complete
    assert attack(graph, budget=Budget.edges(20), victim=victim, resume=part).complete


def test_a_block_must_have_room_for_the_budget(graph, victim):
    with pytest.raises(ParameterError, match="'block_size' parameter of PRBCD must be at least 60"):
        PRBCD(block_size=59)(graph, budget=Budget.edges(30), victim=victim)


def test_other_parameters_of_the_descent():
    for name, value in (("lr", 0.0), ("lr", float("nan")), ("samples", -1), ("fine_steps", -1)):
        with pytest.raises(ParameterError, match=f"The '{name}' parameter of PRBCD must be"):
            PRBCD(**{name: value})(block_graph(20), budget="5 edges")
