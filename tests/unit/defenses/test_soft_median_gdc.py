"""Soft Median GDC beside a loop over nodes, in float64 and with torch's own gradients."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import garnet.linalg.soft_median as soft_median_module
from garnet import GARNET, Split, as_graph
from garnet.datasets import poisoned
from garnet.defenses import Purified
from garnet.defenses.soft_median_gdc import SoftMedianGDC
from garnet.errors import ParameterError
from garnet.linalg.soft_median import Neighborhoods, median_places
from garnet.training.loop import Training


def random_matrix(n, share, seed):
    rng = np.random.default_rng(seed)
    dense = rng.random((n, n)) * (rng.random((n, n)) < share)
    dense[3] = 0  # a row without entries
    return sp.csr_array(dense)


def loop_median(values, weights):
    """The smallest of the values with half of all weight at it or below."""
    order = sorted(range(len(values)), key=lambda i: float(values[i]))
    total, below = sum(weights), 0.0
    for i in order:
        below += weights[i]
        if below >= total / 2:
            return i
    raise AssertionError


def loop_soft_median(matrix, x, temperature):
    """One node after another, as the formula is written; gradients are autograd's."""
    means = []
    for i in range(matrix.shape[0]):
        near = matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]
        weights = torch.from_numpy(matrix.data[matrix.indptr[i] : matrix.indptr[i + 1]].astype(float))
        if not len(near):
            means.append(torch.zeros_like(x[0]))
            continue
        rows = x[torch.from_numpy(near.astype(np.int64))]
        picks = [loop_median(rows[:, j].tolist(), weights.tolist()) for j in range(x.shape[1])]
        median = rows[picks, range(x.shape[1])]
        away = torch.stack([torch.linalg.vector_norm(row - median) for row in rows]) / x.shape[1] ** 0.5
        counts = torch.exp(-away / temperature) * weights
        means.append(weights.sum() * (counts[:, None] * rows).sum(dim=0) / counts.sum())
    return torch.stack(means)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("block", [1, 300, 1 << 18])
def test_means_and_gradients_are_those_of_a_loop(temperature, block, monkeypatch):
    monkeypatch.setattr(soft_median_module, "_GATHERED", block)
    matrix = random_matrix(30, 0.3, 0)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 30, 5, generator=generator, dtype=torch.float64)
    pull = torch.randn(2, 30, 5, generator=generator, dtype=torch.float64)

    mine = x.float().requires_grad_()
    found = Neighborhoods(matrix).soft_median(mine, temperature)
    (found * pull.float()).sum().backward()

    theirs = x.clone().requires_grad_()
    wanted = torch.stack([loop_soft_median(matrix, one, temperature) for one in theirs])
    (wanted * pull).sum().backward()

    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine.grad.double(), theirs.grad, rtol=1e-3, atol=1e-4)


def test_gradients_are_finite_where_neighbours_are_equal():
    matrix = sp.csr_array(np.ones((4, 4)))
    x = torch.ones(1, 4, 3, requires_grad=True)
    found = Neighborhoods(matrix).soft_median(x, 0.5)
    found.sum().backward()
    torch.testing.assert_close(found, torch.full((1, 4, 3), 4.0))
    torch.testing.assert_close(x.grad, torch.full((1, 4, 3), 4.0))


def test_hot_it_is_the_product_with_the_matrix():
    matrix = random_matrix(25, 0.4, 2)
    x = torch.randn(1, 25, 6, generator=torch.Generator().manual_seed(0))
    found = Neighborhoods(matrix).soft_median(x, 1e6)
    torch.testing.assert_close(found[0], torch.from_numpy(matrix @ x[0].numpy()).float(), rtol=1e-4, atol=1e-4)


def test_an_outlier_moves_it_little():
    matrix = sp.csr_array(np.full((8, 8), 1 / 8))
    x = torch.randn(1, 8, 4, generator=torch.Generator().manual_seed(0))
    x[0, 5] = 1e4
    near = Neighborhoods(matrix)
    assert near.soft_median(x, 0.5).abs().max() < x[0, [0, 1, 2, 3, 4, 6, 7]].abs().max()
    assert near.soft_median(x, 1e9).abs().min() > 1000


@pytest.mark.parametrize("k", [1, 2, 63, 64, 65, 130])
def test_medians_of_any_numbers(k):
    rng = np.random.default_rng(k)
    scales = 10.0 ** rng.integers(-30, 30, (9, 1, 1))
    values = (rng.standard_normal((9, k, 3)) * scales).astype(np.float32)
    values[0] = 0
    values[1, : k // 2] = -0.0
    weights = rng.random((9, k)).astype(np.float32)
    weights[2:4, 1:] *= rng.random((2, k - 1)) < 0.5
    places = median_places(torch.from_numpy(values), torch.from_numpy(weights)).numpy()
    for i in range(9):
        for j in range(3):
            wanted = loop_median(values[i, :, j].tolist(), weights[i].astype(float).tolist())
            assert values[i, places[i, j], j] == values[i, wanted, j]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_model_that_diverges_gives_no_numbers_rather_than_an_error(bad):
    x = torch.randn(1, 5, 3, generator=torch.Generator().manual_seed(0))
    x[0, 2] = bad
    found = Neighborhoods(sp.csr_array(np.ones((5, 5)))).soft_median(x, 1.0)
    assert not torch.isfinite(found).any()


def small_graph(n=40, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    edges = rng.integers(0, n, (2, 3 * n))
    edges = edges[:, edges[0] != edges[1]]
    features = (rng.standard_normal((n, 6)) + labels[:, None]).astype(np.float32)
    split = Split(np.arange(0, 20), np.arange(20, 28), np.arange(28, n))
    return as_graph((edges, n), features=features, labels=labels, split=split, symmetrize=True)


def test_logits_are_those_of_the_paper():
    graph = small_graph()
    model = SoftMedianGDC(hidden=5, k=7, alpha=0.2, temperature=0.4)
    parameters = {
        name: value[None] + 0.1 for name, value in model.initial(6, 2, torch.Generator().manual_seed(0)).items()
    }
    found = model.logits(parameters, model.prepare(graph, "cpu"), None)[0]

    looped = graph.adjacency.toarray().astype(float) + np.eye(40)
    root = np.sqrt(looped.sum(axis=1))
    diffusion = 0.2 * np.linalg.inv(np.eye(40) - 0.8 * looped / root[:, None] / root)
    for row in diffusion:
        row[np.argsort(-row)[7:]] = 0
    diffusion /= diffusion.sum(axis=1, keepdims=True)
    into = np.sqrt(diffusion.sum(axis=0))
    matrix = sp.csr_array(diffusion / into[:, None] / into)
    weights = {name: value[0].double() for name, value in parameters.items()}
    hidden = loop_soft_median(matrix, torch.from_numpy(graph.features).double() @ weights["weight0"], 0.4)
    hidden = (hidden + weights["bias0"]).relu() @ weights["weight1"]
    wanted = loop_soft_median(matrix, hidden, 0.4) + weights["bias1"]
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-4)


def test_batch_norm_standardises_the_hidden_units():
    graph = small_graph()
    model = SoftMedianGDC(hidden=5, layers=3, batch_norm=True, training=Training(epochs=3, lr=0.01))
    one = model.fit(graph, seed=1)
    assert torch.isfinite(one.logits()).all()
    # Scaling all features changes neither the standardised units nor, with so hot a median, anything after them.
    hot = replace(model, temperature=1e9)
    scaled = replace(graph, features=graph.features * np.float32(100))
    parameters = {name: value[None] for name, value in one.parameters.items()}
    logits = [hot.logits(parameters, hot.prepare(each, "cpu"), None) for each in (graph, scaled)]
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("temperature", 0.0, "a positive number"),
        ("temperature", float("inf"), "a positive number"),
        ("temperature", "hot", "a positive number"),
        ("k", 0, "an integer >= 1"),
        ("k", 2.5, "an integer >= 1"),
        ("alpha", 0.0, "at least 1e-6 and at most 1"),
    ],
)
def test_wrong_parameters_are_named(name, value, wanted):
    with pytest.raises(ParameterError) as raised:
        SoftMedianGDC(**{name: value}).fit(small_graph())
    assert str(raised.value) == f"The '{name}' parameter of SoftMedianGDC must be {wanted}. Got {value!r} instead."


def test_after_a_purifier():
    defense = Purified(GARNET(rank=5, k=5), SoftMedianGDC(hidden=4, training=Training(epochs=2)))
    one = defense.fit(small_graph())
    assert [stage.name for stage in one.stages][-1] == "train"
    assert torch.isfinite(one.logits()).all()


def test_a_model_says_the_same_of_its_own_graph_again():
    graph = small_graph()
    one = SoftMedianGDC(hidden=4, training=Training(epochs=3)).fit(graph, seed=2)
    torch.testing.assert_close(one.on(graph).logits(), one.logits())


def test_it_withstands_metattack(data_folder, monkeypatch):
    monkeypatch.setenv("GARNET_DATA", str(data_folder))
    graph = poisoned("cora", attack="metattack", budget=0.2)
    model = SoftMedianGDC(k=32, training=Training(epochs=15, lr=0.02, weight_decay=1e-3))
    assert model.fit(graph).accuracy() > 0.62  # a GCN has 0.57 there
