from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import lsq_linear, minimize

from garnet import as_graph
from garnet.backbones.base import Features
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Purified
from garnet.defenses.elastic_gnn import ElasticGNN
from garnet.defenses.feature_knn import FeatureKNN
from garnet.errors import ParameterError
from garnet.training.loop import Training

NORMS = ["L21", "L1"]


def random_graph(n, share, seed=0):
    """Weighted, with an isolated node."""
    rng = np.random.default_rng(seed)
    pairs = np.stack(np.triu_indices(n - 1, k=1))
    edges = pairs[:, rng.random(pairs.shape[1]) < share]
    plain = as_graph((edges, n), features=rng.standard_normal((n, 5)), labels=np.arange(n) % 3, symmetrize=True)
    return plain.with_edges(edges, rng.uniform(0.1, 3.0, edges.shape[1]))


@pytest.fixture(scope="module")
def graph():
    return random_graph(24, 0.2)


@pytest.fixture(scope="module")
def tiny():
    return random_graph(7, 0.5, seed=4)


def parameters_of(model, seeds=(0, 1, 2)):
    models = [model.initial(5, 3, torch.Generator().manual_seed(seed)) for seed in seeds]
    return {name: 3 * torch.stack([one[name] for one in models]) for name in models[0]}


def outputs(model, graph):
    """What the perceptron gives, and what message passing makes of it, for some random parameters."""
    parameters, inputs = parameters_of(model), model.prepare(graph, "cpu")
    given = replace(model, hops=0).logits(parameters, inputs, None)
    return given.double().numpy(), model.logits(parameters, inputs, None).double().numpy()


def matrices(graph):
    """The incidence matrix, edge by edge, and the convolution."""
    adjacency = graph.adjacency.toarray().astype(np.float64)
    degrees = 1 + adjacency.sum(axis=1)
    incidence = np.zeros((graph.num_edges, graph.num_nodes))
    for row, (i, j) in zip(incidence, graph.edges.T, strict=True):
        row[i] = np.sqrt(adjacency[i, j] / degrees[i])
        row[j] = -np.sqrt(adjacency[i, j] / degrees[j])
    return incidence, (adjacency + np.eye(len(adjacency))) / np.sqrt(np.outer(degrees, degrees))


def message_passing(model, graph, given):
    """The method with dense matrices, in float64."""
    incidence, convolution = (torch.from_numpy(one) for one in matrices(graph))
    gamma = 1 / (1 + model.lambda2)
    beta = 1 / (2 * gamma)
    smooth, dual = given, given.new_zeros(graph.num_edges, given.shape[1])
    for _ in range(model.hops):
        step = smooth - gamma * (smooth - given + model.lambda2 * (smooth - convolution @ smooth))
        ahead = dual + beta * incidence @ (step - gamma * incidence.T @ dual)
        if model.norm == "L1":
            dual = ahead.clamp(-model.lambda1, model.lambda1)
        else:
            lengths = (ahead**2).sum(dim=1, keepdim=True).add(1e-30).sqrt()
            dual = torch.where(lengths > model.lambda1, model.lambda1 * ahead / lengths, ahead)
        smooth = step - gamma * incidence.T @ dual
    return smooth


@pytest.mark.parametrize("lambda2", [0.0, 3.0])
@pytest.mark.parametrize("norm", NORMS)
def test_message_passing_and_its_gradient_are_those_of_the_dense_method(graph, norm, lambda2):
    model = ElasticGNN(lambda1=0.3, lambda2=lambda2, norm=norm, hops=7)
    parameters, inputs = parameters_of(model), model.prepare(graph, "cpu")
    parameters["weight1"].requires_grad_()
    smooth = model.logits(parameters, inputs, None)
    (smooth**2).sum().backward()
    weights = parameters["weight1"].detach().double().requires_grad_()
    bias = parameters["bias1"].double()
    features = torch.from_numpy(np.asarray(graph.features)) @ parameters["weight0"] + parameters["bias0"]
    given = torch.bmm(features.relu().double(), weights) + bias
    exact = torch.stack([message_passing(model, graph, one) for one in given])
    (exact**2).sum().backward()
    np.testing.assert_allclose(smooth.detach(), exact.detach(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(parameters["weight1"].grad, weights.grad, rtol=1e-3, atol=1e-2)


def test_the_square_of_the_incidence_matrix_is_the_laplacian(graph):
    inputs = ElasticGNN().prepare(graph, "cpu")
    incidence = inputs.incidence.dense()
    laplacian = torch.eye(graph.num_nodes) - inputs.matrix.dense()
    torch.testing.assert_close(incidence.T @ incidence, laplacian, rtol=1e-5, atol=1e-6)


def test_without_l1_it_converges_to_the_denoised_signal(graph):
    given, smooth = outputs(ElasticGNN(lambda1=0.0, lambda2=3.0, hops=200), graph)
    incidence, _ = matrices(graph)
    exact = np.linalg.solve(np.eye(graph.num_nodes) + 3 * incidence.T @ incidence, given)
    np.testing.assert_allclose(smooth, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lambda2", [0.0, 2.0])
def test_with_the_l1_norm_it_converges_to_the_minimum(tiny, lambda2):
    """The dual is least squares in a box, which SciPy solves."""
    given, smooth = outputs(ElasticGNN(lambda1=0.2, lambda2=lambda2, norm="L1", hops=600), tiny)
    incidence, _ = matrices(tiny)
    inverse = np.linalg.inv(np.eye(tiny.num_nodes) + lambda2 * incidence.T @ incidence)
    root = np.linalg.cholesky(inverse).T
    for one, result in zip(given, smooth, strict=True):
        duals = [lsq_linear(root @ incidence.T, root @ column, (-0.2, 0.2), tol=1e-12).x for column in one.T]
        exact = inverse @ (one - incidence.T @ np.stack(duals, axis=1))
        np.testing.assert_allclose(result, exact, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("lambda2", [0.0, 2.0])
def test_with_the_l21_norm_it_converges_to_the_minimum(tiny, lambda2):
    """No objective lies below the dual of any admissible Z; SciPy finds one that ours nearly touches."""
    given, smooth = outputs(ElasticGNN(lambda1=0.2, lambda2=lambda2, hops=600), tiny)
    incidence, _ = matrices(tiny)
    inverse = np.linalg.inv(np.eye(tiny.num_nodes) + lambda2 * incidence.T @ incidence)
    for one, result in zip(given, smooth, strict=True):
        shape = (len(incidence), one.shape[1])

        def dual(z, one=one, shape=shape):
            left = one - incidence.T @ z.reshape(shape)
            return ((one**2).sum() - (left * (inverse @ left)).sum()) / 2

        room = {"type": "ineq", "fun": lambda z, shape=shape: 0.2**2 - (z.reshape(shape) ** 2).sum(axis=1)}
        start = np.zeros(shape[0] * shape[1])
        found = minimize(lambda z: -dual(z), start, method="SLSQP", constraints=room, options={"maxiter": 500}).x
        lengths = np.linalg.norm(found.reshape(shape), axis=1, keepdims=True)
        admissible = found.reshape(shape) * np.minimum(1, 0.2 / np.maximum(lengths, 1e-12))
        apart = incidence @ result
        objective = 0.2 * np.linalg.norm(apart, axis=1).sum() + lambda2 / 2 * (apart**2).sum()
        objective += ((result - one) ** 2).sum() / 2
        assert objective == pytest.approx(dual(admissible), rel=1e-4)


def test_strong_l1_smoothing_makes_components_constant(graph):
    """Their rows, over the roots of the degrees, become the projection onto what the incidence matrix maps to zero."""
    given, smooth = outputs(ElasticGNN(lambda1=1e4, lambda2=0.0, hops=1000), graph)
    incidence, _ = matrices(graph)
    exact = given - np.linalg.pinv(incidence) @ (incidence @ given)
    np.testing.assert_allclose(smooth, exact, atol=1e-3)


@pytest.mark.parametrize("norm", NORMS)
def test_the_pull_of_a_stranger_is_bounded(norm):
    """The edge between the two ends moves each by lambda1 over the root of its degree at most."""
    identity = {"weight0": torch.eye(2)[None], "weight1": torch.eye(2)[None]}
    parameters = {**identity, "bias0": torch.zeros(1, 1, 2), "bias1": torch.zeros(1, 1, 2)}
    model = ElasticGNN(lambda1=0.5, lambda2=0.0, norm=norm)
    for size in (10.0, 1000.0):
        graph = as_graph((np.array([[0], [1]]), 2), features=np.array([[1.0, 0.0], [1.0, size]]), symmetrize=True)
        smooth = model.logits(parameters, model.prepare(graph, "cpu"), None)[0]
        torch.testing.assert_close(smooth[0], torch.tensor([1.0, 0.5 / 2**0.5]), rtol=1e-4, atol=1e-4)


def test_equal_ends_have_a_finite_gradient(graph):
    """Where the two ends of an edge do not differ, the length of its dual row has no derivative."""
    same = as_graph(graph, features=np.zeros((graph.num_nodes, 5)))
    model = ElasticGNN()
    parameters = parameters_of(model)
    for value in parameters.values():
        value.requires_grad_()
    still = {**parameters, "bias1": torch.zeros_like(parameters["bias1"], requires_grad=True)}
    still["bias0"] = torch.zeros_like(parameters["bias0"], requires_grad=True)
    (model.logits(still, model.prepare(same, "cpu"), None) - 1).square().sum().backward()
    assert all(torch.isfinite(value.grad).all() for value in still.values())
    assert still["bias1"].grad.abs().min() > 0


def test_a_graph_without_edges_leaves_the_perceptron(graph):
    given, smooth = outputs(ElasticGNN(), graph.with_edges(np.zeros((2, 0), dtype=np.int64)))
    np.testing.assert_allclose(smooth, given, rtol=1e-5)


def test_a_purifier_may_come_first():
    graph = contextual_block_model(120, classes=3, features=8, signal=2.5, mean_degree=6.0, seed=3)
    graph = as_graph(graph, split=random_split(graph.labels, seed=0))
    purifier = FeatureKNN(k=3)
    one = Purified(purifier, ElasticGNN(hidden=4), Training(epochs=5)).fit(graph)
    assert one.graph == purifier.purify(graph).graph
    assert torch.equal(one.on(one.graph).logits(), one.logits())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"lambda1": -1}, "The 'lambda1' parameter of ElasticGNN must be a number >= 0. Got -1 instead."),
        ({"lambda2": "3"}, "The 'lambda2' parameter of ElasticGNN must be a number >= 0. Got '3' instead."),
        ({"norm": "L2"}, "The 'norm' parameter of ElasticGNN must be one of 'L21', 'L1'. Got 'L2' instead."),
        ({"hidden": 0}, "The 'hidden' parameter of ElasticGNN must be an integer >= 1. Got 0 instead."),
    ],
)
def test_what_no_smoothing_allows_is_refused(graph, wrong, said):
    split = as_graph(graph, split=random_split(graph.labels, seed=0))
    with pytest.raises(ParameterError) as raised:
        ElasticGNN(**wrong).fit(split)
    assert str(raised.value) == said


@pytest.mark.parametrize("lambda2", [0.0, 2.0])
@pytest.mark.parametrize("norm", NORMS)
def test_weights_apart_from_the_incidence_say_the_same_and_have_slopes_at_zero(graph, norm, lambda2):
    model = ElasticGNN(lambda1=0.3, lambda2=lambda2, norm=norm, hidden=8)
    parameters, inputs = parameters_of(model), model.prepare(graph, "cpu")
    edges = torch.cat([torch.from_numpy(graph.edges), torch.tensor([[23], [0]])], dim=1)
    weights = torch.cat([torch.from_numpy(graph.weights), torch.zeros(1)]).requires_grad_()
    found = model.logits(parameters, inputs.with_edges(edges, weights), None)
    torch.testing.assert_close(found, model.logits(parameters, inputs, None), rtol=1e-4, atol=1e-5)
    parameters = {name: value.double() for name, value in parameters.items()}
    inputs = replace(inputs, features=Features(torch.from_numpy(graph.features).double()))
    weights = weights.detach().double().requires_grad_()
    now = model.logits(parameters, inputs.with_edges(edges, weights), None).square().sum()
    (gradient,) = torch.autograd.grad(now, weights)
    with torch.no_grad():
        weights[-1] = 1e-8
        ahead = model.logits(parameters, inputs.with_edges(edges, weights), None).square().sum()
    assert torch.isfinite(gradient).all()
    assert float(gradient[-1]) == pytest.approx(float(ahead - now.detach()) / 1e-8, rel=1e-3)
