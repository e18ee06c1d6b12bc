from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
import torch_geometric.nn.models
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp

from garnet import GARNET, as_graph
from garnet.backbones import GCN, MLP, TorchModule
from garnet.datasets import block_model, load, random_split
from garnet.defenses.committee import Committee
from garnet.defenses.jaccard import Jaccard
from garnet.defenses.purified import Purified
from garnet.defenses.views import CommitteeWarning, called
from garnet.defenses.weighting import Suspects, doubts, likeliest_weights
from garnet.errors import GraphError, ParameterError
from garnet.graph.edges import canonical, contains
from garnet.graph.graph import Split
from garnet.purify.base import Purifier
from garnet.training.loop import Training
from garnet.training.predictor import Predictor

SHORT = Training(epochs=60, lr=0.05)
MEMBERS = (None, GARNET(), GARNET(rank=8))
SMALL = Committee(members=MEMBERS, backbone=GCN(hidden=16), training=SHORT, leeway=None)


@pytest.fixture(scope="module")
def cora():
    return load("cora", split="random")


@pytest.fixture(scope="module")
def poisoned(cora):
    """Cora with as many made-up edges between papers of unlike subjects as it has edges, and their nodes."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(cora.num_nodes, size=(2, 4 * cora.num_edges))
    unlike = cora.labels[pairs[0]] != cora.labels[pairs[1]]
    planted = pairs[:, unlike][:, : cora.num_edges]
    edges = np.concatenate([cora.edges, planted], axis=1)
    return cora.with_edges(edges), planted


@pytest.fixture(scope="module")
def fitted(poisoned):
    return SMALL.fit(poisoned[0], seed=3)


class TestWeights:
    def test_they_are_those_of_another_optimiser(self):
        rng = np.random.default_rng(1)
        given, against = np.log(rng.uniform(0.05, 1, (3, 80))), rng.uniform(0, 2, (3, 80))

        def loss(weights):
            say = log_softmax(weights[:, None] - against, axis=0)
            return -logsumexp(given + say, axis=0).sum() - 5 * log_softmax(weights).mean()

        theirs = log_softmax(minimize(loss, np.zeros(3)).x)
        ours = likeliest_weights(torch.from_numpy(given), torch.from_numpy(against), 5.0)
        assert np.exp(ours.numpy()) == pytest.approx(np.exp(theirs), abs=2e-3)

    def test_the_member_that_knows_gets_nearly_all_where_there_are_many_nodes(self):
        given = torch.log(torch.tensor([0.9, 0.2, 0.2])[:, None].expand(-1, 500))
        weights = likeliest_weights(given, torch.zeros_like(given), 5.0).exp()
        assert weights[0] > 0.95

    def test_few_nodes_say_little_and_none_say_nothing(self):
        given = torch.log(torch.tensor([0.9, 0.2])[:, None])
        few, many = (likeliest_weights(given.expand(-1, k), torch.zeros(2, k), 5.0).exp()[0] for k in (2, 200))
        assert 0.5 < few < 0.75 < many
        assert likeliest_weights(given[:, :0], torch.zeros(2, 0), 5.0).exp().tolist() == [0.5, 0.5]


PATH = as_graph((np.array([[0, 1], [1, 2]]), 4), symmetrize=True)
SUSPECTS = Suspects(PATH.edges, np.array([0.2, 0.6]))


class TestDoubt:
    def test_it_is_the_share_of_what_is_read_at_a_node_that_is_probably_made_up(self):
        heavier = PATH.with_edges(PATH.edges, np.array([1.0, 3.0]))
        joined = PATH.with_edges(np.array([[0, 0, 1], [1, 2, 2]]))
        others = PATH.with_edges(np.array([[0], [2]]))
        found = doubts(SUSPECTS, [PATH, heavier, joined, others])
        expected = [[0.2, 0.4, 0.6, 0], [0.2, 0.5, 0.6, 0], [0.1, 0.4, 0.3, 0], [0, 0, 0, 0]]
        assert found.numpy() == pytest.approx(np.array(expected))

    def test_suspects_are_told_from_true_edges_and_every_node_has_an_edge_that_is_none(self, cora, poisoned):
        graph, planted = poisoned
        suspects, n = Suspects.of(GARNET().purify(graph)), graph.num_nodes
        assert (suspects.edges == graph.edges).all()
        assert 0 <= suspects.chances.min() <= suspects.chances.max() <= 1
        true = contains(cora.edges, suspects.edges, n)
        made_up = contains(canonical(*planted, n), suspects.edges, n) & ~true
        assert suspects.chances[made_up].mean() > 2 * suspects.chances[true].mean()
        trusted = suspects.edges[:, suspects.chances == 0]
        assert (np.bincount(trusted.ravel(), minlength=n) > 0).all()

    def test_where_nothing_was_planted_nobody_is_suspected(self, cora):
        with pytest.raises(ParameterError, match="support='auto'"):
            Suspects.of(GARNET(support=0.3).purify(cora))

    def test_where_nothing_is_suspicious_members_count_the_same_at_all_nodes(self):
        graph = block_model(300, classes=3, mean_degree=10, seed=0)
        features = np.eye(3)[graph.labels] + np.random.default_rng(0).standard_normal((300, 3))
        graph = as_graph(graph, features=features, split=random_split(graph.labels, seed=0))
        committee = replace(SMALL, members=(None, GARNET(), GARNET(support=0.3)))
        assert (committee.prepare(graph, "cpu").doubt == 0).all()
        votes = committee.votes(committee.fit(graph))
        assert votes.say == pytest.approx(np.tile(votes.weights[:, None], 300), abs=1e-6)

    def test_where_it_is_not_asked_for_members_count_the_same_at_all_nodes(self, poisoned):
        graph, _ = poisoned
        fitted = replace(SMALL, doubt=0.0).fit(graph, seed=3)
        votes = SMALL.votes(fitted)
        assert votes.say == pytest.approx(np.tile(votes.weights[:, None], graph.num_nodes), abs=1e-6)

    def test_it_is_had_without_a_member_that_plants_edges(self, poisoned):
        graph, _ = poisoned
        with_it, without = (
            replace(SMALL, members=members).prepare(graph, "cpu")
            for members in ((None, GARNET()), (None, GARNET(support=0.3)))
        )
        assert with_it.doubt[0].any()
        assert with_it.doubt[0].numpy() == pytest.approx(without.doubt[0].numpy(), abs=1e-6)


class TestOnPoisonedCora:
    def test_it_is_better_than_the_graph_as_it_is(self, poisoned, fitted):
        alone = Purified(None, GCN(hidden=16), SHORT).fit(poisoned[0], seed=3)
        assert fitted.accuracy() > alone.accuracy() + 0.05

    def test_it_says_how_sure_it_is(self, fitted):
        probabilities = fitted.probabilities()
        assert probabilities.sum(axis=1) == pytest.approx(1)
        assert (probabilities.argmax(axis=1) == fitted.predictions()).all()
        assert fitted.calibration_error() < 0.06

    def test_votes_are_what_decided(self, poisoned, fitted):
        graph, planted = poisoned
        votes = SMALL.votes(fitted)
        assert votes.members == ("as it is", "GARNET()", "GARNET(rank=8)")
        assert votes.weights.sum() == pytest.approx(1)
        assert list(SMALL.weights(fitted).values()) == pytest.approx(votes.weights)
        assert votes.say.sum(axis=0) == pytest.approx(1)
        decided = votes.predictions[votes.decided, np.arange(graph.num_nodes)]
        assert (decided == fitted.predictions()).mean() > 0.95
        # Where more edges were made up, the graph as it is has less say.
        made_up = np.bincount(planted.ravel(), minlength=graph.num_nodes) / np.diff(graph.adjacency.indptr).clip(1)
        assert votes.say[0, made_up > 0.7].mean() < votes.say[0, made_up < 0.2].mean()
        assert votes.doubt[0, made_up > 0.7].mean() > votes.doubt[0, made_up < 0.2].mean()

    def test_they_disagree_where_members_would_have_said_something_else(self, fitted):
        votes, chosen = SMALL.votes(fitted), fitted.predictions()
        against = votes.disagreement(chosen)
        assert ((against == 0) == (votes.predictions == chosen).all(axis=0)).all()
        with_it = (votes.say * (votes.predictions == chosen)).sum(axis=0)
        assert against == pytest.approx(1 - with_it, abs=1e-6)

    def test_it_is_saved_and_loaded_as_one_model(self, fitted, tmp_path):
        fitted.save(tmp_path / "committee.npz")
        loaded = Predictor.load(tmp_path / "committee.npz")
        assert torch.equal(loaded.logits(), fitted.logits())
        assert loaded.backbone == replace(SMALL, training=Training())
        before, after = SMALL.votes(fitted), loaded.backbone.votes(loaded)
        assert after.members == before.members
        for name in ("weights", "say", "doubt", "predictions", "decided"):
            assert getattr(after, name) == pytest.approx(getattr(before, name), abs=1e-6)

    def test_it_predicts_on_another_graph(self, cora, fitted):
        assert fitted.on(cora).accuracy() > fitted.accuracy()

    def test_labels_of_test_nodes_have_no_part_in_it(self, poisoned, fitted):
        graph, _ = poisoned
        labels = graph.labels.copy()
        labels[graph.split.test] = np.random.default_rng(0).permutation(labels[graph.split.test])
        assert torch.equal(SMALL.fit(as_graph(graph, labels=labels), seed=3).logits(), fitted.logits())


def test_where_nobody_attacks_it_costs_nothing(cora):
    seeds = (0, 1, 2)
    alone = Purified(None, GCN(hidden=16), SHORT).fit_seeds(cora, seeds)
    together = SMALL.fit_seeds(cora, seeds)
    assert np.mean([one.accuracy() for one in together]) > np.mean([one.accuracy() for one in alone]) - 0.005
    assert [one.seed for one in together] == [0, 1, 2]


def test_one_member_says_what_it_says_alone(cora):
    alone = Purified(None, MLP(hidden=8), SHORT).fit(cora, seed=1)
    committee = Committee(members=(None,), backbone=MLP(hidden=8), training=SHORT, leeway=None).fit(cora, seed=1)
    assert (committee.predictions() == alone.predictions()).all()
    assert committee.val_accuracy == pytest.approx(alone.val_accuracy)


def test_progress_says_whose_training_it_is(cora):
    steps = []
    committee = Committee(members=(None, GARNET()), backbone=MLP(hidden=4), training=Training(epochs=2))
    committee.fit_seeds(cora, [0], progress=steps.append)
    trained = [step.detail.split(",")[0] for step in steps if step.stage == "train"]
    assert {"as it is", "GARNET()"} <= set(trained)


def test_the_step_size_that_does_better_is_taken(cora):
    lame = Committee(members=(None, GARNET()), backbone=MLP(hidden=8), training=Training(epochs=30, lr=(1e-6, 0.05)))
    assert lame.fit(cora).accuracy() > 0.4


@pytest.mark.parametrize("why", ["there are none", "none has a label"])
def test_without_validation_nodes_all_count_the_same(cora, why):
    labels = cora.labels.copy()
    labels[cora.split.val] = -1
    split = replace(cora.split, val=cora.split.val[:0])
    graph = as_graph(cora, split=split) if why == "there are none" else as_graph(cora, labels=labels)
    with pytest.warns(CommitteeWarning, match="count the same") as said:
        fitted = SMALL.fit(graph)
    assert len(said) == 1
    assert said[0].filename == __file__
    votes = SMALL.votes(fitted)
    assert votes.weights == pytest.approx(1 / 3)
    assert np.isnan(fitted.val_accuracy)
    assert fitted.accuracy() > 0.6
    # Nothing says how sure it may be, so the members' probabilities are left as they are.
    assert fitted.probabilities().max(axis=1) == pytest.approx(fitted.logits().exp().numpy().max(axis=1), abs=1e-5)


def test_labels_that_nobody_learns_from_may_be_unknown(cora):
    labels = cora.labels.copy()
    labels[cora.split.test[::2]] = -1
    assert SMALL.fit(as_graph(cora, labels=labels)).accuracy() > 0.7


@pytest.fixture
def tiny():
    graph = block_model(12, classes=2, mean_degree=4, seed=0)
    split = Split(*map(np.array, ([0, 1, 2, 6, 7, 8], [3, 9], [4, 5, 10, 11])))
    return as_graph(graph, features=np.eye(12, dtype=np.float32), split=split)


def test_a_member_that_cannot_read_the_graph_is_left_out_and_said(tiny):
    members = (None, GARNET(rank=16), GARNET(rank=3, k=2))
    committee = Committee(members=members, backbone=MLP(hidden=4), training=Training(epochs=3))
    with pytest.warns(CommitteeWarning, match="GARNET\\(rank=16\\)") as said:
        fitted = committee.fit(tiny)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert committee.votes(fitted).members == ("as it is", "GARNET(rank=3, k=2)")


@dataclass(frozen=True, kw_only=True)
class Counted(Purifier):
    """Counts how often it was asked."""

    asked: list[int] = field(default_factory=list)

    def _purify(self, graph, *, progress):
        self.asked.append(1)
        return Jaccard(threshold=0.0).purify(graph)


def test_who_decided_is_kept_and_purifies_nothing_again(cora):
    counted = Counted()
    committee = Committee(members=(None, counted), backbone=MLP(hidden=4), training=Training(epochs=2))
    first, second = committee.fit_seeds(cora, [0, 1])
    assert committee.votes(first).say.shape == committee.votes(second).say.shape == (2, cora.num_nodes)
    assert len(counted.asked) == 1
    assert committee.votes(first.on(cora)).say == pytest.approx(committee.votes(first).say, abs=1e-6)
    assert len(counted.asked) == 2


def test_a_graph_without_features_has_a_committee_too():
    graph = block_model(300, classes=3, mean_degree=10, seed=0)
    graph = as_graph(graph.adjacency, labels=graph.labels, split=random_split(graph.labels, seed=0))
    fitted = replace(SMALL, members=Committee().members).fit(graph)
    assert "FeatureKNN()" not in SMALL.votes(fitted).members
    assert fitted.accuracy() > 0.6


@pytest.mark.filterwarnings("ignore::garnet.defenses.views.CommitteeWarning")
def test_nobody_left_is_an_error(tiny):
    with pytest.raises(GraphError, match="No member"):
        Committee(members=(GARNET(rank=16),)).fit(tiny)
    with pytest.raises(ParameterError, match="members"):
        Committee(members=())


def test_with_a_model_of_ones_own_it_is_loaded_with_that(cora, tmp_path):
    mine = TorchModule(lambda features, classes: torch_geometric.nn.models.GCN(features, 8, 2, classes))
    committee = Committee(members=(None, GARNET()), backbone=mine, training=Training(epochs=3, lr=0.05))
    fitted = committee.fit(cora)
    fitted.save(tmp_path / "mine.npz")
    assert torch.equal(Predictor.load(tmp_path / "mine.npz", backbone=committee).logits(), fitted.logits())
    with pytest.raises(GraphError, match="give it as 'backbone'"):
        Predictor.load(tmp_path / "mine.npz")


def test_a_graph_with_other_features_than_those_it_was_trained_on_is_refused(cora, fitted, tmp_path):
    fitted.save(tmp_path / "committee.npz")
    loaded = Predictor.load(tmp_path / "committee.npz")
    with pytest.raises(GraphError, match=r"^The graph has no features, and the model was trained on 1433;"):
        loaded.on(as_graph(cora.adjacency))
    with pytest.raises(GraphError, match=r"^The graph has 12 features, and the model was trained on 1433;"):
        loaded.on(as_graph(cora, features=np.ones((cora.num_nodes, 12), dtype=np.float32)))


def test_votes_are_for_committees(cora):
    one = Purified(None, MLP(hidden=4), Training(epochs=2)).fit(cora)
    with pytest.raises(GraphError, match="Committee"):
        SMALL.votes(one)


def test_members_are_called_by_what_differs():
    assert called(GARNET(k=1, support=0.1)) == "GARNET(k=1, support=0.1)"
    assert len(set(Committee().names)) == len(Committee().members)
