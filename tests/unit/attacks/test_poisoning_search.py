"""The search that trains the defence on what it has found: it counts both, and what it gives was really trained on."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from garnet import as_graph
from garnet.attacks import PoisoningSearch, QuerySearch, Random, Stop
from garnet.backbones import GCN
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Purified
from garnet.defenses.base import Defense
from garnet.errors import ParameterError
from garnet.training.loop import Training


@dataclass(frozen=True, eq=False)
class Counting(Defense):
    """A GCN that counts what it is trained on and how often it is asked."""

    inner: Purified = field(default_factory=lambda: Purified(None, GCN(hidden=8), Training(epochs=60, lr=0.01)))
    trained: list = field(default_factory=list)
    asked: list = field(default_factory=list)

    def _fit(self, graph, seeds, progress):
        self.trained.append(graph)
        return self.inner.fit_seeds(graph, seeds, progress=progress)

    def _predict(self, predictor, graph):
        self.asked.append(graph)
        return self.inner.predict(predictor, graph)


@pytest.fixture(scope="module")
def graph():
    drawn = contextual_block_model(200, classes=3, mean_degree=5.0, features=8, signal=1.5, seed=0)
    return as_graph(drawn, split=random_split(drawn.labels, train=0.3, val=0.1, seed=0))


def wrong_when_trained(graph, made, seed=0):
    return 1 - Counting().fit(made.apply(graph), seed=seed).accuracy()


@pytest.mark.parametrize(("queries", "trainings"), [(6, 1), (14, 5), (30, 3)])
def test_it_asks_and_trains_no_more_often_than_it_may(graph, queries, trainings):
    defense = Counting()
    made = PoisoningSearch(defense=defense, queries=queries, trainings=trainings)(graph, budget="12")
    assert len(defense.asked) <= queries
    assert 1 < len(defense.trained) <= 1 + trainings
    assert made.num_changes == 12


@pytest.mark.parametrize("last_block", [0.05, 0.3])
def test_a_large_budget_does_not_make_it_ask_once_too_often(graph, last_block):
    defense = Counting()
    PoisoningSearch(defense=defense, queries=31, trainings=3, last_block=last_block)(graph, budget="80", seed=2)
    assert len(defense.asked) <= 31


def test_it_never_trains_on_the_same_flips_twice_in_a_row(graph):
    defense = Counting()
    PoisoningSearch(defense=defense, queries=24, trainings=10)(graph, budget="2")
    assert 1 < len(defense.trained) <= 11
    assert all(not np.array_equal(one.edges, other.edges) for one, other in pairwise(defense.trained))


def test_it_returns_what_did_most_harm_of_all_it_has_trained_on(graph):
    defense = Counting()
    made = PoisoningSearch(defense=defense, queries=60, trainings=6)(graph, budget="12")
    tried = [1 - Counting().fit(one, seed=0).accuracy() for one in defense.trained[1:]]
    assert wrong_when_trained(graph, made) == pytest.approx(max(tried))


@pytest.mark.slow
def test_flips_that_were_made_for_training_do_more_harm_to_it(graph):
    search = {"queries": 120, "defense": Counting()}
    harm = [
        np.mean([wrong_when_trained(graph, attack(graph, budget="10%", seed=seed), seed) for seed in range(3)])
        for attack in (Random(), QuerySearch(**search), PoisoningSearch(**search))
    ]
    assert harm[0] < harm[1] < harm[2]


def test_stopped_it_gives_what_it_has(graph):
    def after(asked):
        def stop(step):
            if step.total and step.done >= asked:
                raise Stop

        return stop

    for asked in (3, 40):
        made = PoisoningSearch(defense=Counting(), queries=60, trainings=3)(graph, budget="12", progress=after(asked))
        assert made.num_changes == 12


def test_fewer_questions_than_trainings_need_are_refused():
    with pytest.raises(ParameterError, match=r"'queries' parameter .* at least 24, .* Got 20 instead"):
        PoisoningSearch(queries=20)
