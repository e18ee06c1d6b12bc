"""SGA: its scores against dense products, and what it does to targets."""

from dataclasses import replace

import numpy as np
import pytest

from garnet.attacks import Stop
from garnet.attacks.sga import SGA
from garnet.backbones import GCN, MLP, LinearGCN
from garnet.datasets import contextual_block_model, random_split
from garnet.errors import GraphError, ParameterError
from garnet.graph.budget import Budget
from garnet.graph.graph import as_graph
from garnet.training.loop import Training, train


def block_graph(n=150, weighted=False, seed=0):
    graph = contextual_block_model(n, classes=3, mean_degree=6.0, features=8, signal=1.5, seed=seed)
    if weighted:
        graph = graph.with_edges(graph.edges, np.random.default_rng(seed).uniform(0.3, 2.0, graph.num_edges))
    return as_graph(graph, split=random_split(graph.labels, train=0.3, val=0.1, seed=seed))


def surrogate_of(graph, seed=0):
    """The model that the attack trains for itself."""
    return train(LinearGCN(), graph, seeds=(seed,), training=Training(epochs=200, lr=0.01, weight_decay=5e-4))[0]


def dense_logits(adjacency, hidden):
    looped = adjacency + np.eye(len(adjacency))
    root = looped.sum(axis=1) ** -0.5
    matrix = root[:, None] * looped * root
    return matrix @ matrix @ hidden


def flipped(adjacency, one, other):
    after = adjacency.copy()
    after[one, other] = after[other, one] = 0.0 if adjacency[one, other] else 1.0
    return after


def greedy(graph, targets, count):
    """Every flip tried with dense products: own edges, and new ones to nodes of the best wrong class."""
    model = surrogate_of(graph)
    clean = graph.adjacency.toarray().astype(np.float64)
    hidden = graph.features @ model.parameters["weight"].numpy().astype(np.float64)
    classes = dense_logits(clean, hidden).argmax(axis=1)
    adjacency, done = clean.copy(), []
    for target in targets:
        right = graph.labels[target]
        for _ in range(count):
            logits = dense_logits(adjacency, hidden)[target]
            wrong = int(np.where(np.arange(3) == right, -np.inf, logits).argmax())
            neighbors = np.flatnonzero(adjacency[target])
            others = [v for v in np.flatnonzero(classes == wrong) if v != target and v not in neighbors]
            others += list(neighbors) if len(neighbors) > 1 else []
            tried = {}
            for other in others:
                pair = tuple(sorted((int(target), int(other))))
                if pair not in done:
                    after = dense_logits(flipped(adjacency, target, other), hidden)[target]
                    tried[pair] = after[wrong] - after[right]
            best = max(tried, key=tried.get)
            adjacency = flipped(adjacency, *best)
            done.append(best)
    return done


@pytest.mark.parametrize("weighted", [False, True])
def test_flips_are_those_that_dense_products_find_best(weighted):
    graph = block_graph(50, weighted)
    targets = graph.split.test[np.diff(graph.adjacency.indptr)[graph.split.test] > 0][:4]
    found = SGA()(graph, budget=Budget.per_target(6), targets=targets)
    assert list(map(tuple, found.edges.T.tolist())) == greedy(graph, targets, 6)


@pytest.fixture(scope="module")
def graph():
    return block_graph(400)


@pytest.fixture(scope="module")
def victim(graph):
    return train(GCN(), graph, training=Training(epochs=100, lr=0.01))[0]


@pytest.fixture(scope="module")
def targets(graph, victim):
    test = graph.split.test[np.diff(graph.adjacency.indptr)[graph.split.test] > 0]
    return test[victim.predictions()[test] == graph.labels[test]][:20]


@pytest.mark.parametrize("knows", [False, True], ids=["surrogate", "distilled"])
@pytest.mark.slow
def test_with_as_many_flips_as_edges_most_targets_fall(graph, victim, targets, knows):
    fallen = 0
    for target in targets:
        degree = int(np.diff(graph.adjacency.indptr)[target])
        made = SGA()(graph, budget=Budget.edges(degree), targets=[target], victim=victim if knows else None)
        assert made.num_changes == degree
        assert (made.edges == target).any(axis=0).all()
        fallen += victim.on(made.apply(graph)).predictions()[target] != graph.labels[target]
    assert fallen >= 16


def test_few_potential_nodes_do_almost_as_well_as_all(graph, targets):
    model = surrogate_of(graph)

    def margin(potential):
        made = SGA(potential=potential)(graph, budget=Budget.per_target(3), targets=targets)
        logits = model.on(made.apply(graph)).logits().numpy()[targets]
        own = np.arange(len(targets)), graph.labels[targets]
        right = logits[own]
        logits[own] = -np.inf
        return (right - logits.max(axis=1)).mean()

    few, every = margin(20), margin(400)
    logits = model.logits().numpy()[targets]
    own = np.arange(len(targets)), graph.labels[targets]
    clean = logits[own] - np.where(np.eye(3)[graph.labels[targets]] > 0, -np.inf, logits).max(axis=1)
    assert every < clean.mean()
    assert clean.mean() - few > 0.8 * (clean.mean() - every)


def test_a_budget_for_all_is_shared_evenly(graph, targets):
    made = SGA()(graph, budget=Budget.edges(7), targets=targets[:3])
    for target, (first, last) in zip(targets, ((0, 2), (2, 4), (4, 7)), strict=False):
        assert (made.edges[:, first:last] == target).any(axis=0).all()


@pytest.mark.parametrize("cut", [1, 4, 9, 19])
def test_goes_on_as_if_it_had_not_been_stopped(graph, targets, cut):
    attack, arguments = SGA(potential=30), {"budget": Budget.per_target(4), "targets": targets[:5], "seed": 2}
    whole = attack(graph, **arguments)
    assert attack(graph, resume=whole.first(cut, graph), **arguments) == whole


def test_a_stop_keeps_what_was_done(graph, targets):
    def progress(step):
        if step.done == 3:
            raise Stop

    made = SGA()(graph, budget=Budget.per_target(4), targets=targets[:2], progress=progress)
    assert made.num_changes == 3
    assert not made.complete


def test_the_last_edge_of_a_target_stays():
    graph = block_graph(50)
    leaf = int(np.flatnonzero(np.diff(graph.adjacency.indptr) == 1)[0])
    made = SGA()(graph, budget=Budget.edges(1), targets=[leaf])
    assert made.added(graph).shape[1] == 1


def test_all_pairs_of_a_target_at_most():
    graph = block_graph(30)
    made = SGA()(graph, budget=Budget.edges(100), targets=[1, 2])
    # Two stars share one pair.
    assert made.num_changes == 2 * 29 - 1


def test_predictions_stand_in_for_labels(graph, victim, targets):
    unlabelled = as_graph(graph.to_scipy(), features=graph.features)
    made = SGA(labels="predicted")(unlabelled, budget=Budget.per_target(8), targets=targets[:10], victim=victim)
    after = victim.on(made.apply(unlabelled)).predictions()[targets[:10]]
    assert (after != victim.predictions()[targets[:10]]).mean() >= 0.7
    with pytest.raises(GraphError, match="no labels"):
        SGA()(unlabelled, budget=Budget.per_target(1), targets=targets[:1], victim=victim)


def test_a_victim_that_never_sees_a_class(graph, targets):
    blind = train(MLP(), graph, training=Training(epochs=1, lr=0.01))[0]
    scores = blind.scores.clone()
    scores[:, 2] = -100
    blind = replace(blind, scores=scores)
    found = targets[graph.labels[targets] == 2][:2]
    assert SGA()(graph, budget=Budget.per_target(2), targets=found, victim=blind).num_changes == 2 * len(found) > 0


def test_what_makes_no_sense_is_refused(graph, targets):
    with pytest.raises(ParameterError, match="The 'potential' parameter of SGA must be an integer >= 1"):
        SGA(potential=0)(graph, budget="1/target", targets=targets)
    with pytest.raises(ParameterError, match="needs targets"):
        SGA()(graph, budget="5 edges")
    other = train(GCN(), block_graph(60), training=Training(epochs=1, lr=0.01))[0]
    with pytest.raises(ParameterError, match="made for a graph of 60 nodes"):
        SGA()(graph, budget="1/target", targets=targets, victim=other)
    unknown = as_graph(graph, labels=np.where(np.arange(400) == targets[0], -1, graph.labels))
    with pytest.raises(ParameterError, match="has no label"):
        SGA()(unknown, budget="1/target", targets=targets[:1])
