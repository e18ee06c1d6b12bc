import numpy as np
import pytest
import scipy.sparse as sp
import torch

from garnet import as_graph
from garnet.datasets import block_model
from garnet.defenses.feature_knn import FeatureKNN
from garnet.defenses.student import FOLDS, Reading, Students


def reading_of(width, *, sparse=False, nodes=97):
    rng = np.random.default_rng(width)
    graph = block_model(nodes, classes=3, mean_degree=6, seed=1)
    features = rng.random((nodes, width)).astype(np.float32) * (rng.random((nodes, width)) < 0.3)
    features[:, 0] += 1
    graph = as_graph(graph, features=sp.csr_array(features) if sparse else features)
    near = FeatureKNN(k=5).purify(graph).graph
    return Reading.of(graph, near, "cpu"), features / np.linalg.norm(features, axis=1, keepdims=True), near


def teacher(nodes):
    taught = torch.rand(nodes, 3, generator=torch.Generator().manual_seed(5))
    return taught / taught.sum(dim=1, keepdim=True)


def stacked(learnt):
    return {name: value[None] for name, value in learnt.items()}


@pytest.mark.parametrize("sparse", [False, True])
def test_each_is_the_ridge_regression_of_the_nodes_it_was_taught(sparse):
    reading, rows, near = reading_of(20, sparse=sparse)
    taught = teacher(len(rows))
    answers = reading.answers(stacked(Students(reading).learnt(taught)))[0].numpy()

    weights = near.adjacency.toarray() + np.eye(len(rows))
    scale = 1 / np.sqrt(weights.sum(axis=1))
    step = weights * scale[:, None] * scale
    around = step @ (step @ rows)
    design = np.concatenate([rows, around / np.sqrt((around**2).sum(axis=1).mean())], axis=1)
    for fold in range(FOLDS):
        others = np.arange(len(rows)) % FOLDS != fold
        mean = taught.numpy()[others].mean(axis=0)
        square = design[others].T @ design[others] + np.eye(design.shape[1])
        learnt = np.linalg.solve(square, design[others].T @ (taught.numpy()[others] - mean))
        assert answers[~others] == pytest.approx(design[~others] @ learnt + mean, abs=1e-4)


@pytest.mark.parametrize("width", [20, 700])
def test_no_node_is_judged_by_what_was_taught_of_it(width):
    reading, rows, _ = reading_of(width)
    students, taught = Students(reading), teacher(len(rows))
    before = reading.answers(stacked(students.learnt(taught)))[0]
    changed = taught.clone()
    changed[13] = torch.tensor([0.0, 0.0, 1.0])
    after = reading.answers(stacked(students.learnt(changed)))[0]
    same = torch.isclose(before, after, atol=1e-7).all(dim=1)
    assert same[13 % FOLDS :: FOLDS].all()
    assert not same.all()


def test_the_same_teacher_gives_the_same_bytes():
    learnt = [Students(reading_of(700)[0]).learnt(teacher(97)) for _ in range(2)]
    assert all(torch.equal(learnt[0][name], learnt[1][name]) for name in learnt[0])
