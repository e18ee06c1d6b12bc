"""An attacker who knows the defence: harm is what the defence itself says, and knowing it pays."""

import numpy as np
import pytest

from garnet import GARNET, as_graph
from garnet.attacks import PRBCD, AdaptiveEvasion, Random, Stop
from garnet.backbones import GCN
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import TSVD, Committee, FeatureKNN, Jaccard, ProGNN, Purified
from garnet.errors import GraphError, ParameterError
from garnet.training.loop import Training

QUICK = Training(epochs=60)
SHARE = GARNET(rank=12, support=0.3)


@pytest.fixture(scope="module")
def graph():
    made = contextual_block_model(240, classes=3, mean_degree=6, features=24, signal=2.5, seed=3)
    return as_graph(made, split=random_split(made.labels, train=0.15, val=0.15, seed=0))


def attack(defense, **parameters):
    return AdaptiveEvasion(defense=defense, **{"block_size": 4_000, "rounds": 4, "steps": 8} | parameters)


def evaded(defense, predictor, graph, perturbation):
    return defense.predict(predictor, perturbation.apply(graph)).accuracy()


@pytest.mark.parametrize(
    "defense",
    [
        Purified(GARNET(rank=12), GCN(hidden=16), QUICK),
        Purified(SHARE, GCN(hidden=16), QUICK),
        Purified(Jaccard(threshold=0.2, similarity="cosine"), GCN(hidden=16), QUICK),
        TSVD(rank=12, backbone=GCN(hidden=16), training=QUICK),
        Committee(members=(None, SHARE, FeatureKNN(k=5)), backbone=GCN(hidden=16), training=QUICK),
    ],
    ids=["garnet", "share", "jaccard", "tsvd", "committee"],
)
@pytest.mark.slow
def test_who_knows_the_defence_does_more_harm_than_who_does_not(defense, graph):
    predictor = defense.fit(graph, seed=0)
    tried = [attack(defense), attack(defense, way="open", start="blind")]
    known = min(evaded(defense, predictor, graph, one(graph, budget="15%", victim=predictor)) for one in tried)
    blind = PRBCD(block_size=4_000, steps=32, fine_steps=0)(graph, budget="15%")
    random = Random()(graph, budget="15%")
    assert known <= evaded(defense, predictor, graph, blind) + 1e-9
    assert known < evaded(defense, predictor, graph, random) - 0.02
    assert known < predictor.accuracy() - 0.05


def test_the_same_seed_makes_the_same_flips_and_another_does_not(graph):
    whole = Purified(GARNET(rank=12), GCN(hidden=8), QUICK)
    quick = attack(whole, rounds=2, steps=3)
    first, again, other = (quick(graph, budget="5%", seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.edges, again.edges)
    assert not np.array_equal(first.edges, other.edges)


@pytest.mark.parametrize(("kind", "sign"), [("additions", 1), ("deletions", -1)])
def test_flips_of_one_kind_alone(graph, kind, sign):
    whole = Purified(None, GCN(hidden=8), QUICK)
    made = attack(whole, flips=kind)(graph, budget="5%")
    assert made.apply(graph).num_edges - graph.num_edges == sign * made.num_changes != 0


@pytest.mark.parametrize(("kind", "sign"), [("additions", 1), ("deletions", -1)])
def test_a_blind_start_has_flips_of_that_kind_alone(graph, kind, sign):
    # With one step, what the blind attacker found is hardly ever improved on.
    blind = attack(Purified(None, GCN(hidden=8), QUICK), flips=kind, start="blind", rounds=1, steps=1)
    for seed in range(3):
        made = blind(graph, budget="20%", seed=seed)
        assert made.apply(graph).num_edges - graph.num_edges == sign * made.num_changes


def test_a_blind_start_attacks_what_is_predicted_where_labels_are_not_known(graph):
    whole = Purified(None, GCN(hidden=8), QUICK)
    targets = graph.split.test[np.diff(graph.adjacency.indptr)[graph.split.test] > 0][:3]
    labels = graph.labels.copy()
    labels[targets] = -1
    blind = attack(whole, start="blind", labels="predicted", rounds=2, steps=2)
    made = blind(as_graph(graph, labels=labels), budget="6", targets=targets)
    assert 0 < made.num_changes <= 6


@pytest.mark.parametrize("budget", ["5%", "2/target"])
@pytest.mark.parametrize(("start", "within"), [("nothing", "round"), ("blind", "loss"), ("blind", "round")])
def test_stopped_it_gives_the_best_so_far(graph, start, within, budget):
    def soon(step):
        if within in step.detail and step.done >= 2:
            raise Stop

    whole = Purified(None, GCN(hidden=8), QUICK)
    targets = graph.split.test[np.diff(graph.adjacency.indptr)[graph.split.test] > 0][:3] if "/" in budget else None
    made = attack(whole, start=start)(graph, budget=budget, targets=targets, progress=soon)
    assert made.num_changes > 0


def test_targets_alone_are_touched_and_lose_their_class(graph):
    whole = Purified(GARNET(rank=12), GCN(hidden=16), QUICK)
    predictor = whole.fit(graph)
    right = graph.split.test[predictor.predictions()[graph.split.test] == graph.labels[graph.split.test]]
    targets = right[np.diff(graph.adjacency.indptr)[right] > 0][:4]
    made = attack(whole)(graph, budget="5/target", targets=targets, victim=predictor)
    assert np.isin(made.edges, targets).any(axis=0).all()
    assert whole.predict(predictor, made.apply(graph)).accuracy(targets) < 0.6


def test_a_defence_may_be_said_by_its_name(graph):
    assert AdaptiveEvasion(defense="jaccard").defense == "jaccard"
    with pytest.raises(ParameterError, match="the name of a defence"):
        AdaptiveEvasion(defense="jacquard")
    with pytest.raises(ParameterError, match="a defence, such as"):
        AdaptiveEvasion(defense=3)


def test_what_has_nothing_to_say_of_another_graph_is_refused_in_a_sentence(graph):
    with pytest.raises(GraphError, match="ProGNN learns one graph only"):
        attack(ProGNN(training=Training(epochs=1)))(graph, budget="5%")
