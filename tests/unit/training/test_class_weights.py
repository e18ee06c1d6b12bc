import warnings

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from garnet import GARNET, as_graph
from garnet.backbones import GCN, MLP
from garnet.datasets import block_model, class_features, random_split
from garnet.defenses import Committee, Purified
from garnet.errors import ParameterError
from garnet.training import Training, train
from garnet.training.supervision import Supervision


@pytest.fixture(scope="module")
def frauds():
    """1,200 accounts of which 24 are frauds, hard to tell from others."""
    bare = block_model(1200, classes=50, mean_degree=6, homophily=0.7, seed=0)
    labels = (bare.labels == 0).astype(np.int64)
    features = class_features(labels, dim=8, signal=1.0, seed=0)
    split = random_split(labels, train=0.3, val=0.3, seed=0)
    return as_graph(bare.adjacency, features=features, labels=labels, split=split)


def fitted(graph, *, backbone=None, seeds=(0,), **changed):
    return train(backbone or GCN(hidden=16), graph, seeds=seeds, training=Training(epochs=60, lr=0.01, **changed))


def test_balanced_weights_find_what_is_missed_without(frauds):
    (plain,), (balanced,) = fitted(frauds), fitted(frauds, class_weights="balanced")
    assert plain.verdict(warn=False).never_found == (1,)
    assert plain.accuracy() > 0.97
    assert balanced.recall()[1] > 0.3
    assert balanced.balanced_accuracy() > plain.balanced_accuracy() + 0.1


def test_training_itself_never_warns(frauds):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted(frauds)[0].recall()[1] == 0


def test_the_loss_is_that_of_torch_and_the_best_state_is_chosen_likewise(frauds):
    weights = (0.5, 20.0)
    supervision = Supervision.of(frauds, 2, "cpu", weights)
    logits = torch.randn(2, frauds.num_nodes, 2, generator=torch.Generator().manual_seed(0))
    labels, split = torch.from_numpy(frauds.labels), frauds.split
    for own, loss in zip(logits, supervision.losses(logits), strict=True):
        wanted = cross_entropy(own[split.train], labels[split.train], weight=torch.tensor(weights))
        assert float(loss) == pytest.approx(float(wanted), rel=1e-5)
    val = labels[split.val]
    accuracies, losses = supervision.checks(logits)
    for own, accuracy, loss in zip(logits, accuracies, losses, strict=True):
        wanted = cross_entropy(own[split.val], val, weight=torch.tensor(weights))
        assert float(loss) == pytest.approx(float(wanted), rel=1e-5)
        right, counts = (own[split.val].argmax(dim=1) == val).double(), torch.tensor(weights)[val]
        assert float(accuracy) == pytest.approx(float((right * counts).sum() / counts.sum()), rel=1e-5)


def test_balanced_is_the_weights_that_make_up_for_the_counts(frauds):
    counts = np.bincount(frauds.labels[frauds.split.train])
    said = tuple((1 / counts).tolist())
    (one,), (other,) = fitted(frauds, class_weights="balanced"), fitted(frauds, class_weights=said)
    torch.testing.assert_close(one.logits(), other.logits(), rtol=1e-3, atol=1e-3)
    assert one.val_accuracy == pytest.approx(one.balanced_accuracy(frauds.split.val), abs=1e-3)


def test_equal_weights_are_none(frauds):
    for changed in ({}, {"confidence": 0.9}, {"batch_size": 100}):
        one = fitted(frauds, backbone=MLP(hidden=8), **changed)[0]
        other = fitted(frauds, backbone=MLP(hidden=8), class_weights=(3.0, 3.0), **changed)[0]
        torch.testing.assert_close(one.logits(), other.logits(), rtol=1e-3, atol=1e-3)
        assert one.epoch == other.epoch


def test_seeds_side_by_side_are_what_they_are_alone(frauds):
    together = fitted(frauds, seeds=(3, 7), class_weights="balanced")
    (alone,) = fitted(frauds, seeds=(7,), class_weights="balanced")
    torch.testing.assert_close(together[1].logits(), alone.logits(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("changed", [{"batch_size": 100}, {"confidence": 0.95}], ids=str)
def test_batches_and_second_teachings_weigh_classes_too(frauds, changed):
    (one,) = fitted(frauds, class_weights="balanced", **changed)
    assert one.recall()[1] > 0


@pytest.mark.filterwarnings("ignore::garnet.defenses.views.CommitteeWarning")
def test_defences_that_train_in_the_shared_way_take_them(frauds):
    training = Training(epochs=40, lr=0.01, class_weights="balanced")
    behind = Purified(GARNET(support=0.1, rank=10), GCN(hidden=16), training).fit(frauds)
    assert behind.recall()[1] > 0
    members = Committee(members=(None, GARNET()), backbone=GCN(hidden=16), training=training)
    committee = members.fit(frauds)
    assert committee.recall()[1] > 0
    assert committee.votes.strength is None  # a handful of frauds could not tell whether beliefs find any


def test_a_class_without_training_nodes_does_no_harm(frauds):
    labels = frauds.labels.copy()
    labels[np.setdiff1d(np.arange(1200), frauds.split.train)[:5]] = 2
    one = fitted(as_graph(frauds, labels=labels), class_weights="balanced")[0]
    assert torch.isfinite(one.logits()).all()
    assert np.isfinite(one.val_accuracy)


def test_extreme_weights_give_numbers_all_the_same(frauds):
    (one,) = fitted(frauds, class_weights=(1e-30, 1e30))
    assert torch.isfinite(one.logits()).all()
    assert one.recall()[1] == 1


@pytest.mark.parametrize("wrong", ["balance", (), (1.0, -2.0), (1.0, 0.0), (1.0, float("nan")), 3, {0: 1.0}])
def test_what_is_no_weights_is_refused(wrong):
    with pytest.raises(ParameterError, match=r"^The 'class_weights' parameter of Training must be"):
        Training(class_weights=wrong)


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 2.0, 3.0)])
def test_there_must_be_one_for_each_class(frauds, weights):
    with pytest.raises(ParameterError, match=f"2 numbers, one for each class of the labels. Got {len(weights)}"):
        fitted(frauds, class_weights=weights)
