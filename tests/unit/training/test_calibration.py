import numpy as np
import pytest
import torch

from garnet.training.calibration import expected_calibration_error, likeliest_temperature


def test_confidence_that_is_right_as_often_as_it_says_has_no_error():
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([1, 1, 1], size=200_000)
    labels = (truth.cumsum(axis=1) < rng.random((len(truth), 1))).sum(axis=1)
    assert expected_calibration_error(truth, labels) < 0.005
    sharper = truth**3 / (truth**3).sum(axis=1, keepdims=True)
    gap = sharper.max(axis=1).mean() - (sharper.argmax(axis=1) == labels).mean()
    assert expected_calibration_error(sharper, labels) == pytest.approx(gap, abs=0.01)


def test_one_node_and_none():
    assert expected_calibration_error(np.array([[0.0, 1.0]]), np.array([1])) == 0
    assert expected_calibration_error(np.array([[0.0, 1.0]]), np.array([0])) == 1
    assert expected_calibration_error(np.zeros((0, 2)), np.zeros(0, np.int64)) == 0


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
@pytest.mark.slow
def test_the_temperature_undoes_a_scale(scale):
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(100_000, 4, generator=generator)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    assert likeliest_temperature(scale * logits, labels) == pytest.approx(scale, rel=0.03)


def test_without_nodes_nothing_is_changed():
    assert likeliest_temperature(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)) == 1
