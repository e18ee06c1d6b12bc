"""What attacks know of a whole defence, and what they do with one that does not read the edges."""

from dataclasses import dataclass

import numpy as np
import pytest

from garnet import GARNET, as_graph
from garnet.attacks import AdaptiveEvasion, AdaptiveSearch, FalseNeighbors, QuerySearch
from garnet.attacks.adaptive import device_of
from garnet.backbones import GCN, MLP
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Committee, FeatureKNN, GNNGuard, LinearFloor, Purified
from garnet.errors import ParameterError
from garnet.training.loop import Training

QUICK = Training(epochs=30)
SEARCHES = [AdaptiveSearch, QuerySearch]
BY_GRADIENT = [AdaptiveEvasion, FalseNeighbors]


@dataclass(frozen=True, kw_only=True)
class Hidden(Purified):
    """A defence that reads the edges, and gives no gradient."""

    def relaxed(self, predictor, graph, *, way="still"):
        raise ParameterError("No gradient of Hidden reaches the edges here; attack through a surrogate.")


@pytest.fixture(scope="module")
def graph():
    made = contextual_block_model(120, classes=3, mean_degree=6, features=16, signal=2.5, seed=3)
    return as_graph(made, split=random_split(made.labels, train=0.2, val=0.2, seed=0))


@pytest.mark.parametrize(
    ("defense", "device"),
    [
        (Purified(), "cpu"),
        (Purified(device="cuda"), "cuda"),
        (Purified(FeatureKNN(), GNNGuard(device="cuda")), "cuda"),
        (Purified(FeatureKNN(), GNNGuard(device="cuda"), device="cpu"), "cpu"),
        (Committee(device="cuda"), "cuda"),
        (LinearFloor(), "cpu"),
    ],
)
def test_a_defence_computes_where_it_or_its_model_was_told_to(defense, device):
    assert device_of(defense) == device


@pytest.mark.parametrize(
    "call", [{"budget": "6"}, {"budget": "2/target", "targets": [20, 21, 22]}], ids=["all", "each"]
)
@pytest.mark.parametrize("purifier", [None, GARNET(rank=12)], ids=["bare", "purified"])
@pytest.mark.parametrize("kind", [*SEARCHES, *BY_GRADIENT])
@pytest.mark.slow
def test_a_model_of_the_features_alone_is_attacked_in_vain(graph, kind, purifier, call):
    defense = Purified(purifier, MLP(hidden=8), QUICK)
    attack = kind(defense=defense, **({"queries": 4} if kind in SEARCHES else {"rounds": 3}))
    made = attack(graph, seed=1, **call)
    assert made == attack(graph, seed=1, **call)
    # A search flips something all the same; who follows gradients finds that nothing gains.
    assert made.num_changes == (6 if kind in SEARCHES else 0)
    assert made.complete
    victim = defense.fit(graph)
    assert np.array_equal(defense.predict(victim, made.apply(graph)).predictions(), victim.predictions())


def test_a_purifier_that_does_not_read_the_edges_is_attacked_in_vain(graph):
    defense = Purified(FeatureKNN(k=5), GCN(hidden=8), QUICK)
    assert AdaptiveEvasion(defense=defense, rounds=2, block_size=500)(graph, budget="6").num_changes == 0


@pytest.mark.parametrize("kind", BY_GRADIENT)
def test_a_defence_without_a_gradient_that_reads_the_edges_is_refused(graph, kind):
    with pytest.raises(ParameterError, match="No gradient"):
        kind(defense=Hidden(purifier=None, backbone=GCN(hidden=8), training=QUICK))(graph, budget="6")


def test_the_search_does_without_a_gradient_where_there_is_none(graph):
    defense = Hidden(purifier=None, backbone=GCN(hidden=8), training=QUICK)
    victim = defense.fit(graph)
    made = AdaptiveSearch(defense=defense, queries=30)(graph, budget="10%", victim=victim)
    assert defense.predict(victim, made.apply(graph)).accuracy() < victim.accuracy() - 0.05


def test_a_stress_test_of_a_model_of_the_features_alone_has_no_failures(graph, command, tmp_path):
    graph.save(tmp_path / "graph.npz")
    known = "adaptive-evasion,false-neighbors,adaptive-metattack"
    status, out, err = command(
        *("stress", tmp_path / "graph.npz", "--defense", "none", "--backbone", "mlp", "--attacks", known),
        *("--budgets", "5%", "--seeds", 1, "--epochs", 20, "--no-unbounded"),
    )
    assert status == 0, out + err
    assert "No gradient" not in out + err
