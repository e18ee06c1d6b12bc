import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from garnet import Split, as_graph, datasets
from garnet.attacks import Budget, Stop
from garnet.attacks.degree_test import DegreeTest
from garnet.attacks.linear_surrogate import LinearSurrogate
from garnet.attacks.nettack import Nettack
from garnet.backbones import GCN
from garnet.backbones.linear_gcn import LinearGCN
from garnet.bench.paper import published_model
from garnet.datasets import random_split
from garnet.errors import GraphError, ParameterError
from garnet.training.loop import Training, train
from garnet.training.predictor import Predictor

CLASSES = 3


def small(seed=0, *, n=14, weighted=False, words=9, density=0.25):
    """A random connected graph with words, labels and a split."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < density, k=1)
    upper[np.arange(n - 1), np.arange(1, n)] = True
    weights = rng.uniform(0.3, 2.5, size=(n, n)) if weighted else np.ones((n, n))
    adjacency = upper * weights
    labels = np.arange(n) % CLASSES
    return as_graph(
        sp.csr_array(adjacency + adjacency.T),
        features=(rng.random((n, words)) < 0.4).astype(np.float32),
        labels=labels,
        split=Split(np.arange(n - 3, n), np.arange(n - 6, n - 3), np.arange(n - 6)),
    )


def weights_for(graph, seed=0):
    return np.random.default_rng(1000 + seed).normal(size=(graph.features.shape[1], CLASSES))


def victim_of(graph, weights):
    weight = torch.from_numpy(weights.astype(np.float32))
    model = Predictor(graph, torch.zeros(0), backbone=LinearGCN(), parameters={"weight": weight})
    return model.on(graph)


def dense_logits(adjacency, features, weights):
    """The surrogate from scratch."""
    looped = adjacency + np.eye(len(adjacency))
    root = 1 / np.sqrt(looped.sum(axis=1))
    normalized = root[:, None] * looped * root
    return normalized @ normalized @ features @ weights


def flip_dense(adjacency, one, other):
    changed = adjacency.copy()
    changed[one, other] = changed[other, one] = 0.0 if adjacency[one, other] else 1.0
    return changed


def margin(logits, label):
    return logits[label] - np.delete(logits, label).max()


def exact(graph):
    """Adjacency and features as dense doubles."""
    features = graph.features.toarray() if sp.issparse(graph.features) else graph.features
    return graph.adjacency.toarray().astype(np.float64), features.astype(np.float64)


def likelihood_ratio(before, after, smallest=2):
    """The statistic of the paper, from two lists of degrees."""

    def likelihood(degrees):
        inside = degrees[degrees >= smallest].astype(np.float64)
        if not len(inside):
            return 0.0
        alpha = 1 + len(inside) / np.log(inside / (smallest - 0.5)).sum()
        return len(inside) * np.log(alpha * float(smallest) ** alpha) + (alpha + 1) * np.log(inside).sum()

    return 2 * (likelihood(before) + likelihood(after) - likelihood(np.concatenate([before, after])))


# --- the test of degrees ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_degree_test_is_the_likelihood_ratio_of_the_paper(seed):
    rng = np.random.default_rng(seed)
    clean = rng.integers(1, 12, size=40)
    degrees, test = clean.copy(), DegreeTest.of(clean)
    assert test.ratio == 0
    for _ in range(6):
        for change in (1, -1):
            table = test.ratios(degrees[:, None], degrees, change)
            for one, other in itertools.combinations(range(len(degrees)), 2):
                after = degrees.copy()
                after[[one, other]] += change
                assert table[one, other] == pytest.approx(likelihood_ratio(clean, after), abs=1e-9)
        one, other = rng.choice(len(degrees), 2, replace=False)
        change = int(rng.choice([-1, 1]))
        test = test.flipped(int(degrees[one]), int(degrees[other]), change)
        degrees[[one, other]] += change
        assert test.ratio == pytest.approx(likelihood_ratio(clean, degrees), abs=1e-9)


def test_a_flip_is_allowed_below_the_cutoff_alone():
    degrees = np.repeat([1, 2, 3, 5, 9, 20], 30)
    ratios = DegreeTest.of(degrees).ratios(degrees[:, None], degrees, 1)
    cutoff = float(np.median(ratios))
    allowed = DegreeTest.of(degrees, cutoff=cutoff).allowed(degrees[:, None], degrees, 1)
    assert np.array_equal(allowed, ratios < cutoff)
    assert 0 < allowed.sum() < allowed.size


def test_a_graph_of_single_edges_has_degrees_too_small_to_tell():
    test = DegreeTest.of(np.ones(6, dtype=int))
    assert test.ratio == 0
    assert test.allowed(1, 1, -1)


# --- the closed form --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("seed", range(3))
def test_every_flip_is_scored_as_if_the_graph_were_built_anew(seed, weighted):
    graph = small(seed, weighted=weighted)
    weights = weights_for(graph, seed)
    adjacency, features = exact(graph)
    surrogate = LinearSurrogate(graph, weights)
    nodes = range(graph.num_nodes)
    for one in nodes:
        others = np.array([other for other in nodes if other != one])
        expected = [dense_logits(flip_dense(adjacency, one, other), features, weights) for other in others]
        for target in nodes:
            found = surrogate.after_edges(target, one, others)
            np.testing.assert_allclose(found, [logits[target] for logits in expected], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("target", range(5))
def test_every_word_is_scored_as_if_the_logits_were_computed_anew(target):
    graph = small(4, weighted=True)
    weights = weights_for(graph)
    adjacency, features = exact(graph)
    columns = np.arange(features.shape[1])
    for node in range(graph.num_nodes):
        found = LinearSurrogate(graph, weights).after_words(target, node, columns)
        for column in columns:
            changed = features.copy()
            changed[node, column] = 1 - changed[node, column]
            np.testing.assert_allclose(
                found[column], dense_logits(adjacency, changed, weights)[target], rtol=1e-10, atol=1e-12
            )


# --- which flips ------------------------------------------------------------------------------------------------------


def brute_force(graph, weights, target, count, *, direct, cutoff, attackers=None):
    """The greedy attack with every graph built anew."""
    adjacency, features = exact(graph)
    clean, made, n = (adjacency > 0).sum(axis=1), [], graph.num_nodes
    label = int(graph.labels[target])
    for _ in range(count):
        left = {}
        for one, other in itertools.combinations(range(n), 2):
            mine = target in (one, other) if direct else target not in (one, other) and {one, other} & set(attackers)
            changed = flip_dense(adjacency, one, other)
            degrees = (changed > 0).sum(axis=1)
            fine = cutoff is None or likelihood_ratio(clean, degrees) < cutoff
            if mine and fine and degrees.all() and (one, other) not in made:
                left[one, other] = margin(dense_logits(changed, features, weights)[target], label)
        if not left:
            break
        made.append(min(left, key=left.get))
        adjacency = flip_dense(adjacency, *made[-1])
    return made


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("cutoff", [None, 0.004, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_a_direct_attack_makes_the_flips_of_an_exhaustive_search(seed, cutoff, weighted):
    graph = small(seed, weighted=weighted)
    victim = victim_of(graph, weights_for(graph, seed))
    weights = victim.parameters["weight"].double().numpy()
    attack = Nettack(unnoticeable=cutoff is not None, cutoff=cutoff or 1.0)
    for target in (0, 5):
        found = attack(graph, budget=Budget.edges(4), targets=[target], victim=victim).edges.T
        expected = brute_force(graph, weights, target, 4, direct=True, cutoff=cutoff)
        assert list(map(tuple, found.tolist())) == expected
    if cutoff == 0.2:
        assert len(expected) > 0


@pytest.mark.parametrize("seed", range(3))
def test_an_indirect_attack_makes_the_flips_of_an_exhaustive_search(seed):
    graph = small(seed)
    victim = victim_of(graph, weights_for(graph, seed))
    weights = victim.parameters["weight"].double().numpy()
    target = int(np.diff(graph.adjacency.indptr).argmax())
    around = graph.adjacency[[target]].indices.tolist()
    adjacency, features = exact(graph)
    hurt = {}
    for one in around:
        (pair,) = brute_force(graph, weights, target, 1, direct=False, cutoff=None, attackers=[one])
        logits = dense_logits(flip_dense(adjacency, *pair), features, weights)[target]
        hurt[one] = margin(logits, int(graph.labels[target]))
    chosen = sorted(around, key=hurt.get)[:2]
    assert len(around) > 2
    attack = Nettack(direct=False, influencers=2, unnoticeable=False)
    found = attack(graph, budget=Budget.edges(4), targets=[target], victim=victim).edges.T
    expected = brute_force(graph, weights, target, 4, direct=False, cutoff=None, attackers=chosen)
    assert list(map(tuple, found.tolist())) == expected


def test_edges_and_words_compete_for_the_budget():
    graph = small(2, words=12)
    drawn = weights_for(graph, 2)
    # Some words that say a lot, worth as much as an edge.
    drawn[:2] *= 4
    victim = victim_of(graph, drawn)
    weights = victim.parameters["weight"].double().numpy()
    target, label = 3, int(graph.labels[3])
    attack = Nettack(features=True, unnoticeable=False)
    made = attack(graph, budget=Budget.per_target(6), targets=[target], victim=victim)
    assert made.edges.shape[1] > 0
    assert len(made.entries) > 0
    adjacency, features = exact(graph)
    pairs, places = set(), set()
    for _ in range(6):
        left = {}
        for other in set(range(graph.num_nodes)) - {target}:
            changed = flip_dense(adjacency, target, other)
            if (changed > 0).any(axis=1).all() and other not in pairs:
                left["edge", other] = margin(dense_logits(changed, features, weights)[target], label)
        for column in set(range(features.shape[1])) - places:
            changed = features.copy()
            changed[target, column] = 1 - changed[target, column]
            left["word", column] = margin(dense_logits(adjacency, changed, weights)[target], label)
        kind, which = min(left, key=left.get)
        if kind == "edge":
            adjacency = flip_dense(adjacency, target, which)
            pairs.add(which)
        else:
            features[target, which] = 1 - features[target, which]
            places.add(which)
    assert {tuple(pair) for pair in made.edges.T.tolist()} == {tuple(sorted((target, other))) for other in pairs}
    assert {tuple(place) for place in made.entries.places.T.tolist()} == {(target, column) for column in places}
    poisoned = made.apply(graph)
    assert np.array_equal(exact(poisoned)[0], adjacency)
    assert np.array_equal(exact(poisoned)[1], features)


@pytest.fixture(scope="module")
def cora():
    graph = datasets.cora()
    return graph if graph.split is not None else as_graph(graph, split=random_split(graph.labels, seed=0))


TARGETS = [3, 100, 41, 7, 2000]


def test_direct_flips_touch_their_target_and_each_target_has_its_share(cora):
    made = Nettack()(cora, budget=Budget.edges(12), targets=TARGETS)
    owners = np.repeat(TARGETS, [3, 3, 2, 2, 2])
    assert made.edges.shape == (2, 12)
    assert (made.edges == owners).any(axis=0).all()


def test_an_indirect_attack_never_touches_its_target(cora):
    made = Nettack(direct=False, features=True)(cora, budget=Budget.per_target(4), targets=TARGETS[:1])
    assert made.num_changes == 4
    assert TARGETS[0] not in made.edges
    assert TARGETS[0] not in made.entries.places[0]


def test_targets_lose_their_margin_on_the_surrogate(cora):
    (model,) = train(LinearGCN(), cora, seeds=(0,), training=Training(epochs=100, patience=None))
    right = cora.split.test[model.predictions()[cora.split.test] == cora.labels[cora.split.test]]
    targets = right[:20]
    made = Nettack()(cora, budget=Budget.per_target(5), targets=targets, victim=model)
    before, after = (
        [margin(one, label) for one, label in zip(logits[targets].numpy(), cora.labels[targets], strict=True)]
        for logits in (model.logits(), model.on(made.apply(cora)).logits())
    )
    assert np.less(after, before).all()
    assert np.greater(before, 0).all()
    assert np.less(after, 0).sum() > len(targets) / 2


def test_the_next_target_is_attacked_in_the_graph_that_the_last_one_left(cora):
    (model,) = train(LinearGCN(), cora, seeds=(0,), training=Training(epochs=20, patience=None))
    together = Nettack()(cora, budget=Budget.per_target(5), targets=TARGETS, victim=model)
    graph, one_by_one = cora, []
    for target in TARGETS:
        made = Nettack()(graph, budget=Budget.per_target(5), targets=[target], victim=model)
        one_by_one.append(made.edges)
        graph = made.apply(graph)
    assert np.array_equal(together.edges, np.concatenate(one_by_one, axis=1))


def test_each_target_passes_the_degree_test_by_itself(cora):
    count, attack = 5, Nettack(cutoff=0.0005)
    free = Nettack(unnoticeable=False)(cora, budget=Budget.per_target(count), targets=TARGETS)
    made = attack(cora, budget=Budget.per_target(count), targets=TARGETS)
    assert not np.array_equal(made.edges, free.edges)
    graph = cora
    for target in TARGETS:
        clean = np.diff(graph.adjacency.indptr)
        mine = made.edges[:, (made.edges == target).any(axis=0)]
        graph = type(made).of(graph, mine).apply(graph)
        assert likelihood_ratio(clean, np.diff(graph.adjacency.indptr)) < 0.0005


def test_nobody_loses_the_last_edge():
    # A path within the class of the target, which an attack would cut at once.
    n = 8
    path = sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[1, -1], format="csr")
    features = np.eye(2, dtype=np.float32)[np.arange(n) % 2]
    graph = as_graph(path, features=features, labels=np.zeros(n, dtype=int))
    # Every neighbour speaks for the label, so that only drops lower the margin.
    victim = victim_of(graph, np.array([[1.0, 0.0], [1.0, 0.0]]))
    for target in range(n):
        made = Nettack(unnoticeable=False)(graph, budget=Budget.edges(7), targets=[target], victim=victim)
        assert np.diff(made.apply(graph).adjacency.indptr).min() > 0


def test_an_unknown_label_is_what_the_surrogate_predicts():
    graph = small(2)
    victim = victim_of(graph, weights_for(graph))
    target = 4
    for unknown in (None, np.full(graph.num_nodes, -1)):
        hidden = replace(graph, labels=unknown)
        predicted = replace(graph, labels=victim.predictions())
        found, expected = (
            Nettack()(one, budget=Budget.edges(3), targets=[target], victim=victim) for one in (hidden, predicted)
        )
        assert np.array_equal(found.edges, expected.edges)


def test_independent_targets_are_each_attacked_in_the_clean_graph(cora):
    attack = Nettack(sequential=False)
    alone = [attack(cora, budget=Budget.per_target(5), targets=[target]).edges.T.tolist() for target in TARGETS]
    together = attack(cora, budget=Budget.per_target(5), targets=TARGETS).edges.T.tolist()
    assert together == [list(pair) for pair in dict.fromkeys(tuple(pair) for part in alone for pair in part)]
    sequential = Nettack()(cora, budget=Budget.per_target(5), targets=TARGETS).edges.T.tolist()
    assert sequential[:5] == alone[0]
    assert sequential != together


def test_a_flip_that_two_targets_want_is_made_once():
    graph = replace(small(0, n=9, density=1.0), split=None)
    victim = victim_of(graph, weights_for(graph))
    attack = Nettack(sequential=False, unnoticeable=False)
    wanted = [
        tuple(pair)
        for target in range(9)
        for pair in attack(graph, budget=Budget.per_target(3), targets=[target], victim=victim).edges.T.tolist()
    ]
    made = attack(graph, budget=Budget.per_target(3), targets=range(9), victim=victim)
    assert len(wanted) > len(set(wanted))
    assert list(map(tuple, made.edges.T.tolist())) == list(dict.fromkeys(wanted))


# --- words ------------------------------------------------------------------------------------------------------------


def test_only_words_that_go_with_those_of_the_node_are_added():
    rng = np.random.default_rng(3)
    graph = small(3, n=40, words=14)
    features = np.zeros((40, 14), dtype=np.float32)
    # Two vocabularies that never meet, and a word that nobody has.
    features[:20, :6] = rng.random((20, 6)) < 0.5
    features[20:, 6:13] = rng.random((20, 7)) < 0.5
    features[0, :3] = features[20, 6:9] = 1
    graph = replace(graph, features=features)
    # The words of the other vocabulary are the ones that would hurt most.
    weights = np.zeros((14, CLASSES))
    weights[6:, 1], weights[:6, 1] = 10.0, 1.0
    graph = replace(graph, labels=np.zeros(40, dtype=np.int64))
    victim = victim_of(graph, weights)
    attack = Nettack(structure=False, features=True)
    made = attack(graph, budget=Budget.per_target(3), targets=[0], victim=victim)
    added = made.entries.places[1][made.entries.after == 1]
    assert (made.entries.places[1] < 6).all()
    free = replace(attack, unnoticeable=False)(graph, budget=Budget.per_target(3), targets=[0], victim=victim)
    assert (free.entries.places[1] >= 6).all()
    # The random step of the paper, word by word.
    together = (features.T @ features > 0) & ~np.eye(14, dtype=bool)
    own = np.flatnonzero(features[0])
    for column in range(14):
        chance = sum(together[word, column] / together[word].sum() for word in own) / len(own)
        most = sum(1 / together[word].sum() for word in own) / len(own)
        if column in added:
            assert chance > most / 2


def test_a_word_is_plausible_by_more_than_half_of_the_largest_chance():
    graph = small(5, n=30, words=25)
    features = (np.random.default_rng(5).random((30, 25)) < 0.12).astype(np.float32)
    graph = replace(graph, features=features)
    together = (features.T @ features > 0) & ~np.eye(25, dtype=bool)
    surrogate, seen = LinearSurrogate(graph, weights_for(graph)), set()
    for node in range(30):
        own = np.flatnonzero(features[node])
        steps = {word: 1 / together[word].sum() for word in own if together[word].any()}
        for column in range(25):
            chance = sum(step for word, step in steps.items() if together[word, column])
            expected = column in own or chance > sum(steps.values()) / 2
            assert (column in surrogate.columns(node, unnoticeable=True)) == expected
            seen.add((bool(expected), column in own))
    assert seen == {(True, True), (True, False), (False, False)}


# --- stopping and going on --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attack",
    [
        Nettack(cutoff=0.2),
        Nettack(sequential=False, unnoticeable=False),
        Nettack(features=True),
        Nettack(direct=False, unnoticeable=False),
        Nettack(structure=False, features=True),
    ],
    ids=["direct", "independent", "words", "indirect", "words only"],
)
@pytest.mark.slow
def test_an_attack_that_was_stopped_goes_on_as_if_it_had_not_been(attack):
    graph = small(6, n=30, words=20, density=0.1)
    call = {"budget": Budget.per_target(4), "targets": [2, 9, 17], "seed": 3}
    whole = attack(graph, **call)
    assert whole == attack(graph, **call)
    for stop_at in (1, 6, 10):
        told = itertools.count()

        def progress(step, told=told, stop_at=stop_at):
            if step.total and next(told) == stop_at:
                raise Stop

        part = attack(graph, progress=progress, **call)
        assert 0 < part.num_changes < whole.num_changes
        assert not part.complete
        assert attack(graph, resume=part, **call) == whole


def test_going_on_with_more_for_each_target_is_refused():
    graph = small(6, n=30, density=0.1)
    attack = Nettack(unnoticeable=False)
    part = attack(graph, budget=Budget.edges(4), targets=[2, 9])
    with pytest.raises(ParameterError, match="another budget for each target"):
        attack(graph, budget=Budget.edges(8), targets=[2, 9], resume=part)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"structure": False}, "The 'structure' parameter of Nettack must be True where 'features' is False."),
        ({"direct": False, "influencers": 0}, "The 'influencers' parameter of Nettack must be an integer >= 1. Got 0"),
        ({"cutoff": 0.0}, "The 'cutoff' parameter of Nettack must be a positive number. Got 0.0 instead."),
    ],
)
def test_parameters_outside_their_range_are_refused(parameters, words):
    with pytest.raises(ParameterError, match=words):
        Nettack(**parameters)


@pytest.mark.parametrize("backbone", [GCN(), LinearGCN(hops=3)], ids=["gcn", "three hops"])
def test_a_victim_that_is_not_linear_is_refused(backbone):
    graph = small()
    (victim,) = train(backbone, graph, training=Training(epochs=2, lr=0.01))
    with pytest.raises(ParameterError, match="linear surrogate of two hops"):
        Nettack()(graph, budget=Budget.edges(1), targets=[0], victim=victim)


def test_words_have_to_be_zero_or_one():
    graph = replace(small(), features=small().features * np.float32(0.5))
    with pytest.raises(GraphError, match="zero and one"):
        Nettack(features=True)(graph, budget=Budget.edges(1), targets=[0])
    assert Nettack(unnoticeable=False)(graph, budget=Budget.edges(1), targets=[0]).num_changes == 1


def test_a_graph_without_labels_needs_a_victim():
    graph = replace(small(), labels=None, split=None)
    with pytest.raises(GraphError, match="no labels"):
        Nettack()(graph, budget=Budget.edges(1), targets=[0])


# --- strength ---------------------------------------------------------------------------------------------------------


def test_the_published_targets_fall_at_least_as_deep_as_under_the_published_attack(data_folder, monkeypatch):
    monkeypatch.setenv("GARNET_DATA", str(data_folder))
    graph = datasets.poisoned("cora", attack="nettack", budget=0)
    made = Nettack()(graph, budget=Budget.per_target(5), targets=graph.split.test)
    backbone, training = published_model("cora", "gcn", "nettack", 5, defended=False)
    models = train(backbone, made.apply(graph), seeds=range(10), training=training)
    assert made.edges.shape[1] == 5 * len(graph.split.test)
    assert np.mean([model.accuracy() for model in models]) <= 0.57


def test_training_nodes_are_no_targets():
    with pytest.raises(ParameterError, match="The target 13 is a training node"):
        Nettack()(small(), budget=Budget.edges(1), targets=[0, 13])
