"""Features changed by one who knows the whole defence."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from garnet import as_graph
from garnet.attacks import AdaptiveFeatures, Stop
from garnet.attacks.feature_model import FeatureModel
from garnet.backbones import GCN
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Committee, Defense, Purified
from garnet.graph.perturbation import Entries, Perturbation
from garnet.purify.garnet import GARNET
from garnet.training.loop import Training

QUICK = Training(epochs=60, lr=0.01)
NO_EDGES = np.zeros((2, 0), dtype=np.int64)
DEFENSES = {
    "none": Purified(None, GCN(hidden=8), QUICK),
    "garnet": Purified(GARNET(rank=20), GCN(hidden=8), QUICK),
    "committee": Committee(members=(None, GARNET(rank=20)), backbone=GCN(hidden=8), training=QUICK),
}


def drawn(words):
    graph = contextual_block_model(150, classes=3, mean_degree=5.0, features=12, signal=1.5, seed=0)
    features = (graph.features > 0.3).astype(np.float32) if words else graph.features
    return as_graph(graph, features=features, split=random_split(graph.labels, train=0.3, val=0.1, seed=0))


@pytest.fixture(scope="module")
def graph():
    return drawn(words=True)


@pytest.fixture(scope="module", params=DEFENSES)
def defense(request):
    return DEFENSES[request.param]


@pytest.fixture(scope="module")
def victim(graph, defense):
    return defense.fit(graph)


def wrong(defense, victim, graph, nodes=None):
    return 1 - defense.predict(victim, graph).accuracy(graph.split.test if nodes is None else nodes)


def random_words(graph, count, seed):
    generator = np.random.default_rng(seed)
    places = np.unravel_index(generator.choice(graph.features.size, count, replace=False), graph.features.shape)
    before = graph.features[places]
    return Perturbation.of(graph, NO_EDGES, Entries(np.stack(places).astype(np.int64), before, 1 - before))


def test_words_are_flipped_and_do_more_harm_than_chance(graph, defense, victim):
    told = []
    attack = AdaptiveFeatures(defense=defense, rounds=4)
    made = attack(graph, budget="60", victim=victim, progress=told.append)
    assert 0 < made.num_changes <= 60
    assert not made.edges.size
    assert np.array_equal(made.entries.after, 1 - made.entries.before)
    harm = wrong(defense, victim, made.apply(graph))
    random = np.mean([wrong(defense, victim, random_words(graph, 60, seed).apply(graph)) for seed in range(3)])
    assert harm > random + 0.1
    # What it says it did, it did.
    assert f"{harm:.1%} wrong, round" in [step.detail for step in told]
    assert attack(graph, budget="60", victim=victim) == made


def test_the_model_it_follows_says_what_the_defence_says(graph, defense, victim):
    changed = random_words(graph, 40, 0)
    said = defense.predict(victim, changed.apply(graph))
    model = FeatureModel.read_by(said, graph)
    places = torch.from_numpy(changed.entries.places)
    found = model.logits(places, torch.from_numpy(changed.entries.after - changed.entries.before))
    torch.testing.assert_close(found, said.logits().float(), atol=1e-4, rtol=1e-4)


def test_numbers_stay_within_their_bounds():
    graph, defense = drawn(words=False), DEFENSES["garnet"]
    victim = defense.fit(graph)
    made = AdaptiveFeatures(defense=defense, epsilon=0.5, rounds=3)(graph, budget="60", victim=victim)
    _, columns = made.entries.places
    spread = graph.features.std(axis=0)
    assert (np.abs(made.entries.after - made.entries.before) <= 0.5 * spread[columns] + 1e-5).all()
    assert (made.entries.after <= graph.features.max(axis=0)[columns]).all()
    assert (made.entries.after >= graph.features.min(axis=0)[columns]).all()
    assert wrong(defense, victim, made.apply(graph)) > wrong(defense, victim, graph)


def test_targets_with_a_budget_each_and_their_own_words_alone(graph):
    defense = DEFENSES["garnet"]
    victim, targets = defense.fit(graph), graph.split.test[:4]
    attack = AdaptiveFeatures(defense=defense, rounds=3, direct=True)
    made = attack(graph, budget="3/target", targets=targets, victim=victim)
    nodes, counts = np.unique(made.entries.places[0], return_counts=True)
    assert set(nodes) <= set(targets)
    assert (counts <= 3).all()
    assert wrong(defense, victim, made.apply(graph), targets) >= wrong(defense, victim, graph, targets)


@dataclass(frozen=True)
class Fickle(Defense):
    """It reads hardly any edge of a graph with an odd number of words."""

    def _fit(self, graph, seeds, progress):
        return DEFENSES["none"].fit_seeds(graph, seeds)

    def _predict(self, predictor, graph):
        odd = int(graph.features.sum()) % 2 == 1
        return DEFENSES["none"].predict(predictor, graph.with_edges(graph.edges[:, :5]) if odd else graph)


def test_each_target_begins_where_the_one_before_has_ended(graph):
    """Not where its last try was, which may have been discarded."""
    defense = Fickle()
    victim, attack = defense.fit(graph), AdaptiveFeatures(defense=defense, rounds=3)

    def found(graph, *targets):
        made = attack(graph, budget="4/target", targets=list(targets), victim=victim)
        return made, {tuple(place) for place in made.entries.places.T.tolist()}

    for first, second in graph.split.test[:16].reshape(-1, 2):
        made, one = found(graph, first)
        _, other = found(made.apply(graph), second)
        assert not one & other
        assert found(graph, first, second)[1] == one | other


def test_it_goes_on_from_edges_that_were_attacked_before(graph):
    defense = DEFENSES["garnet"]
    victim = defense.fit(graph)
    rewired = graph.with_edges(graph.edges[:, 5:], graph.weights[5:])
    made = AdaptiveFeatures(defense=defense, rounds=2)(rewired, budget="10", victim=victim)
    assert made.fingerprint == rewired.fingerprint
    assert 0 < made.num_changes <= 10


def test_stopped_it_gives_what_it_has(graph):
    defense = DEFENSES["none"]

    def after_two(step):
        if step.total == 10 and step.done >= 2:
            raise Stop

    made = AdaptiveFeatures(defense=defense)(graph, budget="50", progress=after_two)
    assert 0 < made.num_changes <= 50
