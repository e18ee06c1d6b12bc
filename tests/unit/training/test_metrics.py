import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from garnet.training import metrics


def by_pairs(scores, positive):
    """What the area under the ROC curve means: every pair of a positive and a negative node, one by one."""
    pairs = [(mine > other) + (mine == other) / 2 for mine in scores[positive] for other in scores[~positive]]
    return sum(pairs) / len(pairs)


def by_thresholds(scores, positive):
    """Average precision as it is defined, threshold by threshold."""
    total = recall = 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        flagged = scores >= threshold
        now = (flagged & positive).sum() / positive.sum()
        total += (now - recall) * (flagged & positive).sum() / flagged.sum()
        recall = now
    return total


@st.composite
def ranked(draw):
    k = draw(st.integers(2, 40))
    scores = draw(arrays(np.float64, k, elements=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])))  # many are equal
    positive = draw(arrays(np.bool_, k))
    positive[0], positive[-1] = True, False
    return scores, positive


@given(ranked())
def test_areas_are_what_they_are_defined_to_be(case):
    scores, positive = case
    assert metrics.roc_auc(scores, positive) == pytest.approx(by_pairs(scores, positive), abs=1e-12)
    assert metrics.average_precision(scores, positive) == pytest.approx(by_thresholds(scores, positive), abs=1e-12)
    # The other class, ranked the other way round, has the same area; any rising function of the scores, too.
    assert metrics.roc_auc(-scores, ~positive) == pytest.approx(metrics.roc_auc(scores, positive))
    assert metrics.roc_auc(np.exp(scores), positive) == metrics.roc_auc(scores, positive)
    assert metrics.average_precision(np.exp(scores), positive) == metrics.average_precision(scores, positive)


def test_a_perfect_a_reversed_and_a_silent_ranking():
    positive = np.arange(10) >= 7
    rising, same = np.arange(10.0), np.ones(10)
    assert metrics.roc_auc(rising, positive) == metrics.average_precision(rising, positive) == 1
    assert metrics.roc_auc(-rising, positive) == 0
    assert metrics.average_precision(-rising, positive) == pytest.approx((1 / 8 + 2 / 9 + 3 / 10) / 3)
    assert metrics.roc_auc(same, positive) == 0.5
    assert metrics.average_precision(same, positive) == 0.3
    for one in (positive | True, positive & False):
        assert math.isnan(metrics.roc_auc(rising, one))
    assert math.isnan(metrics.average_precision(rising, positive & False))


def test_shares_of_a_confusion_matrix_in_closed_form():
    confusion = np.array([[90, 5, 5, 0], [10, 0, 0, 0], [4, 0, 6, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(metrics.recalls(confusion), [0.9, 0, 0.6, np.nan])
    np.testing.assert_allclose(metrics.precisions(confusion), [90 / 104, 0, 6 / 11, np.nan])
    np.testing.assert_allclose(metrics.f1_scores(confusion), [180 / 204, 0, 12 / 21, np.nan])
    assert metrics.accuracy(confusion) == pytest.approx(96 / 120)
    assert metrics.balanced_accuracy(confusion) == pytest.approx(0.5)
    assert metrics.macro_f1(confusion) == pytest.approx((180 / 204 + 12 / 21) / 3)


@given(arrays(np.int64, (4, 4), elements=st.integers(0, 30)))
def test_where_all_classes_are_as_large_both_accuracies_agree(confusion):
    confusion = confusion + np.eye(4, dtype=np.int64)
    size = confusion.sum(axis=1).max()
    confusion[np.arange(4), (np.arange(4) + 1) % 4] += size - confusion.sum(axis=1)
    assert metrics.balanced_accuracy(confusion) == pytest.approx(metrics.accuracy(confusion))
    f1, recall, precision = metrics.f1_scores(confusion), metrics.recalls(confusion), metrics.precisions(confusion)
    known = (recall > 0) & (precision > 0)
    np.testing.assert_allclose(f1[known], (2 * recall * precision / (recall + precision))[known])


def test_nothing_to_judge_is_no_number():
    nothing = np.zeros((2, 2), dtype=np.int64)
    assert math.isnan(metrics.accuracy(nothing))
    assert math.isnan(metrics.balanced_accuracy(nothing))
    assert math.isnan(metrics.macro_f1(nothing))


def test_as_scikit_learn_has_them():
    theirs = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    labels = rng.choice(4, 300, p=[0.6, 0.25, 0.1, 0.05])
    scores = rng.dirichlet(np.ones(4), 300).round(2) + 0.3 * np.eye(4)[labels]
    scores /= scores.sum(axis=1, keepdims=True)
    confusion = theirs.confusion_matrix(labels, scores.argmax(axis=1))
    said = scores.argmax(axis=1)
    assert metrics.balanced_accuracy(confusion) == pytest.approx(theirs.balanced_accuracy_score(labels, said))
    assert metrics.macro_f1(confusion) == pytest.approx(theirs.f1_score(labels, said, average="macro"))
    area = theirs.roc_auc_score(labels, scores, multi_class="ovr", average="macro")
    assert metrics.macro_roc_auc(scores, labels) == pytest.approx(area)
    average = theirs.average_precision_score(np.eye(4)[labels], scores, average="macro")
    assert metrics.macro_average_precision(scores, labels) == pytest.approx(average)


def test_means_over_classes_leave_out_those_that_cannot_be_told():
    labels = np.array([0, 0, 1, 1])
    scores = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.8, 0.1], [0.4, 0.3, 0.3]])
    zero, one = (by_pairs(scores[:, c], labels == c) for c in (0, 1))
    assert metrics.macro_roc_auc(scores, labels) == pytest.approx((zero + one) / 2)
    zero, one = (by_thresholds(scores[:, c], labels == c) for c in (0, 1))
    assert metrics.macro_average_precision(scores, labels) == pytest.approx((zero + one) / 2)
