import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from garnet import Split, as_graph
from garnet.datasets import block_model
from garnet.errors import GraphError
from garnet.training import Predictor, Verdict
from garnet.training.verdict import NeverFoundWarning, never_found


def predictor(labels, said, *, classes=None, test=None):
    """A model that is sure of what it says."""
    labels = np.asarray(labels)
    n = len(labels)
    test = np.arange(n // 2, n) if test is None else np.asarray(test)
    bare = block_model(n, classes=1, mean_degree=2, seed=0)
    graph = as_graph(bare.adjacency, labels=labels, split=Split(np.arange(1), np.arange(1, 2), test))
    scores = torch.eye(classes or int(max(labels.max(), max(said))) + 1)[torch.as_tensor(said)] * 4
    return Predictor(graph, scores)


@pytest.fixture
def missed():
    """27 frauds of which none is found: right on nearly all, and good for nothing."""
    labels = np.zeros(4500, dtype=np.int64)
    labels[np.r_[:27, 4473:4500]] = 1
    return predictor(labels, np.zeros(4500, dtype=np.int64), classes=2)


def test_who_finds_no_fraud_is_not_praised_for_it(missed):
    with pytest.warns(NeverFoundWarning, match="Class 1 is never predicted, though 27 of 2,250 nodes") as said:
        verdict = missed.verdict()
    assert said[0].filename == __file__
    assert verdict.headline == "balanced accuracy"
    assert verdict.score == verdict.balanced_accuracy == missed.balanced_accuracy() == 0.5
    assert verdict.accuracy == verdict.always_largest == missed.accuracy() == pytest.approx(0.988)
    assert (verdict.positive, verdict.f1, verdict.auc) == (1, 0, 0.5)
    assert verdict.average_precision == missed.average_precision() == pytest.approx(27 / 2250)
    assert verdict.never_predicted == verdict.never_found == (1,)
    assert str(verdict).startswith("balanced accuracy 50.0%")
    assert repr(missed).index("balanced accuracy 50.0%") < repr(missed).index("test accuracy 98.8%")


def test_only_who_asks_for_the_verdict_is_warned(missed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        missed.accuracy(), missed.recall(), missed.f1(), missed.auc(), repr(missed), missed._repr_html_()
        assert missed.verdict(warn=False).never_found == (1,)


@pytest.mark.parametrize(
    ("shares", "headline", "positive"),
    [
        ((50, 50), "accuracy", 1),
        ((40, 60), "accuracy", 0),
        ((80, 20), "accuracy", 1),
        ((81, 19), "balanced accuracy", 1),
        ((5, 95), "balanced accuracy", 0),
        ((30, 30, 40), "accuracy", None),
        ((2, 90, 8), "balanced accuracy", None),
    ],
)
def test_the_figure_that_comes_first_fits_the_labels(shares, headline, positive):
    labels = np.repeat(np.arange(len(shares)), shares)
    verdict = Verdict.of(np.eye(len(shares))[labels], labels)
    assert (verdict.headline, verdict.positive) == (headline, positive)
    assert verdict.largest_share == max(shares) / 100
    assert verdict.accuracy == verdict.balanced_accuracy == verdict.f1 == verdict.auc == verdict.average_precision == 1
    assert verdict.counts == shares
    assert not never_found([verdict])


def test_the_labels_of_all_nodes_decide_and_not_those_of_the_few_that_are_asked_about():
    labels = np.r_[np.zeros(95, dtype=np.int64), np.ones(5, dtype=np.int64), -np.ones(50, dtype=np.int64)]
    one = predictor(labels, labels.clip(0), test=[2, 3, 95, 96])
    assert one.verdict().headline == "balanced accuracy"
    assert one.verdict([3, 4]).positive == 1
    assert math.isnan(one.verdict([3, 4]).auc)
    assert one.recall([3, 4])[0] == 1
    assert math.isnan(one.recall([3, 4])[1])
    assert one.verdict(np.arange(len(labels)) < 10).nodes == 10


def test_a_class_that_the_model_does_not_know_counts_against_it():
    labels = np.array([0, 1, 0, 1, 0, 1, 2, 2])
    one = predictor(labels, labels % 2, classes=2, test=np.arange(2, 8))
    verdict = one.verdict(warn=False)
    assert verdict.recall == (1, 1, 0)
    assert verdict.balanced_accuracy == pytest.approx(2 / 3)
    assert verdict.never_predicted == (2,)
    # Both nodes of class 2 are taken for 0, so that half the others rank as high; of class 2 the model has no opinion.
    assert verdict.auc == pytest.approx((0.75 + 1 + 0.5) / 3)


def test_a_class_that_is_predicted_but_in_the_wrong_places_is_not_found():
    labels = np.array([0] * 18 + [1, 1])
    verdict = Verdict.of(np.eye(2)[np.array([1] + [0] * 19)], labels)
    assert (verdict.never_predicted, verdict.never_found) == ((), (1,))
    assert never_found([verdict]) == ["Class 1 is never found, though 2 of 20 nodes have it."]


def test_of_many_classes_and_models_one_sentence_is_enough():
    labels = np.repeat(np.arange(9), 2)
    blind = Verdict.of(np.eye(9)[np.zeros(18, dtype=np.int64)], labels)
    good = Verdict.of(np.eye(9)[labels], labels)
    (sentence,) = never_found([good, blind, good], "more nodes")
    for words in ("1, 2, 3, 4, 5 and 3 others", "by 1 of 3 models", "16 of 18", "try more nodes."):
        assert words in sentence
    assert never_found([good]) == []


def test_nothing_to_judge_is_an_error():
    one = predictor([0, 1, 0, 1], [0, 1, 0, 1])
    for question in ("verdict", "auc", "f1", "average_precision", "balanced_accuracy", "recall", "precision"):
        with pytest.raises(GraphError, match="needs labels and test nodes"):
            getattr(replace(one, graph=replace(one.graph, labels=None)), question)()
    with pytest.raises(GraphError, match="at least one node"):
        Verdict.of(np.zeros((0, 2)), np.zeros(0, dtype=np.int64))


def test_a_table_has_every_node_under_its_own_name():
    one = predictor([0, 1, 2, -1, 1, 0], [0, 1, 1, 1, 0, 0], classes=3)
    graph = as_graph(one.graph, names=list("abcdef"))
    table = replace(one, graph=graph).table()
    assert list(table)[:3] == ["node", "predicted", "probability"]
    assert table["node"].tolist() == list("abcdef")
    assert table["label"].tolist() == [0, 1, 2, None, 1, 0]
    assert table["part"].tolist() == ["train", "validation", "", "test", "test", "test"]
    shares = np.stack([table[f"probability_{c}"] for c in range(3)], axis=1)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(shares.argmax(axis=1), table["predicted"])
    np.testing.assert_array_equal(shares.max(axis=1), table["probability"])
    bare = replace(one, graph=as_graph(one.graph.adjacency)).table()
    assert bare["node"].tolist() == list(range(6))
    assert bare["label"].tolist() == [None] * 6
    assert set(bare["part"].tolist()) == {""}
