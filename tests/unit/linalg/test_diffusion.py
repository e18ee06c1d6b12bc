import numpy as np
import pytest
import torch

import garnet.linalg.pagerank as pagerank_module
from garnet.datasets import contextual_block_model
from garnet.defenses.soft_median_gdc import SoftMedianGDC
from garnet.linalg.diffusion import weighted_pagerank
from garnet.linalg.pagerank import top_pagerank
from garnet.linalg.soft_median import Neighborhoods

PLAIN = contextual_block_model(60, classes=2, mean_degree=4, features=6, seed=1)
GRAPH = PLAIN.with_edges(PLAIN.edges, np.random.default_rng(0).uniform(0.5, 2, PLAIN.num_edges))
EDGES, WEIGHTS = torch.from_numpy(GRAPH.edges), torch.from_numpy(GRAPH.weights)


def placed(columns, values):
    return torch.zeros(len(columns), len(columns), dtype=values.dtype).scatter(1, columns, values)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("k", [7, 100])
def test_the_largest_entries_are_those_without_gradients(alpha, k, monkeypatch):
    monkeypatch.setattr(pagerank_module, "_BLOCK", 1_000)
    expected = top_pagerank(GRAPH.adjacency, alpha=alpha, k=k).toarray()
    found = placed(*weighted_pagerank(EDGES, WEIGHTS, 60, alpha=alpha, k=k))
    np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("k", [7, 60])
def test_derivatives_are_finite_differences(k, monkeypatch):
    monkeypatch.setattr(pagerank_module, "_BLOCK", 1_000)
    edges = torch.cat([EDGES, torch.tensor([[0, 5, 11], [40, 50, 59]])], dim=1)
    weights = torch.cat([WEIGHTS.double(), torch.tensor([0.02, 0.3, 0.9], dtype=torch.float64)])
    towards = torch.randn(60, 60, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def said(weights):
        return (placed(*weighted_pagerank(edges, weights, 60, alpha=0.2, k=k)) * towards).sum()

    assert torch.autograd.gradcheck(said, weights.requires_grad_(), eps=1e-7, atol=1e-5)


def test_light_edges_are_not_walked_but_have_derivatives():
    edges = torch.cat([EDGES, torch.tensor([[0], [40]])], dim=1)
    towards = torch.randn(60, 60, generator=torch.Generator().manual_seed(0))
    found, slopes = [], []
    for weight in (0.0, 0.009):
        weights = torch.cat([WEIGHTS, torch.tensor([weight])]).requires_grad_()
        found.append(placed(*weighted_pagerank(edges, weights, 60, alpha=0.2, k=60)))
        slopes.append(torch.autograd.grad((found[-1] * towards).sum(), weights)[0])
    assert torch.equal(*found)
    assert torch.equal(*slopes)
    assert slopes[0][-1]


def test_a_soft_median_has_derivatives_by_the_weights():
    generator = torch.Generator().manual_seed(0)
    columns = torch.stack([torch.randperm(12, generator=generator)[:5] for _ in range(12)])
    weights = torch.rand(12, 5, dtype=torch.float64, generator=generator) + 0.1
    weights[3, 4], weights[5] = 0.0, 0.0
    hidden = torch.randn(2, 12, 3, dtype=torch.float64, generator=generator)
    there = weights > 0

    def said(entries, hidden):
        near = Neighborhoods.weighing(columns, torch.zeros_like(weights).masked_scatter(there, entries))
        return near.soft_median(hidden, 0.3)

    entries = weights[there].requires_grad_()
    assert torch.autograd.gradcheck(said, (entries, hidden.requires_grad_()), eps=1e-7, atol=1e-5)


def test_a_selection_of_few_neighbours_is_that_of_the_model():
    model = SoftMedianGDC(k=6, hidden=8)
    inputs = model.prepare(GRAPH, "cpu")
    parameters = model.initial(6, 2, torch.Generator().manual_seed(0))
    parameters = {name: value[None] for name, value in parameters.items()}
    expected = model.logits(parameters, inputs, None)
    found = model.logits(parameters, inputs.with_edges(EDGES, WEIGHTS), None)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
