from dataclasses import replace

import numpy as np
import pytest
import torch

from garnet import GARNET, as_graph
from garnet.backbones import GCN
from garnet.datasets import block_model, load, random_split
from garnet.defenses.beliefs import STRENGTHS
from garnet.defenses.committee import Committee
from garnet.training.loop import Training
from garnet.training.predictor import Predictor

QUICK = Committee(members=(None, GARNET()), backbone=GCN(hidden=16), training=Training(epochs=60, lr=0.05))


@pytest.fixture(scope="module")
def cora():
    return load("cora", split="random")


@pytest.fixture(scope="module")
def fitted(cora):
    return QUICK.fit(cora, seed=0)


def blocks(*, homophily, told, classes=4, mean_degree=12):
    """A graph whose edges follow its classes, and features of which a share tells the class and the rest is noise."""
    graph = block_model(800, classes=classes, mean_degree=mean_degree, homophily=homophily, seed=3)
    rng = np.random.default_rng(4)
    features = rng.normal(size=(graph.num_nodes, 16)).astype(np.float32)
    features[:, :classes] += told * np.eye(classes, dtype=np.float32)[graph.labels]
    return as_graph(graph, features=features, split=random_split(graph.labels, seed=0))


def test_where_features_tell_something_they_are_the_answer(fitted):
    assert QUICK.votes(fitted).strength in STRENGTHS
    assert QUICK.votes(fitted).strength > 0
    assert fitted.accuracy() > 0.8


def test_a_node_that_loses_its_edges_after_training_keeps_what_its_features_say(cora, fitted):
    """All edges of half of the test nodes are gone; a model on the graph as it is has nothing to average there."""
    gone = cora.split.test[::2]
    kept = ~np.isin(cora.edges, gone).any(axis=0)
    bare = cora.with_edges(cora.edges[:, kept])
    after = fitted.on(bare)
    right = (after.logits().argmax(dim=1).numpy() == cora.labels)[gone].mean()
    features_alone = replace(QUICK, members=(None,), leeway=None).fit(cora.with_edges(cora.edges[:, :0]), seed=0)
    assert right > (features_alone.logits().argmax(dim=1).numpy() == cora.labels)[gone].mean()


def test_made_up_edges_after_training_harm_less_than_without(cora, fitted):
    rng = np.random.default_rng(0)
    pairs = rng.integers(cora.num_nodes, size=(2, 4 * cora.num_edges))
    unlike = pairs[:, cora.labels[pairs[0]] != cora.labels[pairs[1]]][:, : cora.num_edges]
    worse = cora.with_edges(np.concatenate([cora.edges, unlike], axis=1))
    mixture = replace(QUICK, leeway=None).fit(cora, seed=0)
    assert fitted.on(worse).accuracy() > mixture.on(worse).accuracy()


def test_who_asks_again_and_again_hears_what_is_predicted(cora, fitted):
    answer = QUICK.answers(fitted)
    bare = cora.with_edges(cora.edges[:, ::2])
    others = as_graph(bare, features=cora.features[::-1])
    for one in (bare, others):
        assert torch.equal(answer(one), QUICK.predict(fitted, one).logits())


def test_saved_and_loaded_it_says_the_same(cora, fitted, tmp_path):
    fitted.save(tmp_path / "model.npz")
    loaded = Predictor.load(tmp_path / "model.npz")
    assert torch.equal(loaded.logits(), fitted.logits())
    again = loaded.on(cora)
    assert QUICK.votes(again).strength == pytest.approx(QUICK.votes(fitted).strength)
    torch.testing.assert_close(again.logits(), fitted.logits(), atol=1e-4, rtol=0)


def test_where_features_tell_nothing_the_members_are_the_answer():
    graph = blocks(homophily=0.9, told=0.0)
    fitted = QUICK.fit(graph, seed=0)
    assert QUICK.votes(fitted).strength is None
    assert torch.equal(fitted.logits(), replace(QUICK, leeway=None).fit(graph, seed=0).logits())


@pytest.mark.filterwarnings("ignore::garnet.defenses.views.CommitteeWarning")  # of no edges
def test_neighbours_of_other_classes_tell_as_much_as_those_of_the_same():
    """With two classes that are joined to each other alone, an edge says as much as one inside a class."""
    graph = blocks(homophily=0.05, told=1.0, classes=2)
    fitted = QUICK.fit(graph, seed=0)
    without = fitted.on(graph.with_edges(graph.edges[:, :0]))
    assert QUICK.votes(fitted).strength > 0
    assert fitted.accuracy() > without.accuracy() + 0.05


@pytest.mark.slow
def test_more_caution_never_believes_edges_more(cora):
    strengths = [
        QUICK.votes(replace(QUICK, caution=caution, leeway=100.0).fit(cora, seed=0)).strength
        for caution in (0.0, 1.0, 100.0)
    ]
    assert strengths == sorted(strengths, reverse=True)
    assert strengths[-1] == 0.0


def test_the_scale_of_weights_makes_no_difference(cora, fitted):
    weighed = as_graph(cora.adjacency * np.float32(7.0), labels=cora.labels, split=cora.split, features=cora.features)
    assert QUICK.votes(QUICK.fit(weighed, seed=0)).strength == QUICK.votes(fitted).strength


def test_without_validation_nodes_the_members_are_the_answer(cora):
    split = replace(cora.split, val=cora.split.val[:0])
    with pytest.warns(UserWarning, match="validation"):
        fitted = QUICK.fit(as_graph(cora, split=split), seed=0)
    assert QUICK.votes(fitted).strength is None
