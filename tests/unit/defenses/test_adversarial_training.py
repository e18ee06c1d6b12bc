"""Adversarial training keeps to its budget, is plain training without one, and makes models harder to fool."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

from garnet.attacks import PRBCD, Budget
from garnet.backbones import GCN, GPRGNN, H2GCN
from garnet.datasets.splits import random_split
from garnet.datasets.synthetic import contextual_block_model
from garnet.defenses.adversarial_training import AdversarialTraining
from garnet.errors import BudgetError, ParameterError
from garnet.training.loop import Training, train
from garnet.training.predictor import Predictor

QUICK = Training(epochs=20, lr=0.01, confidence=0.01)


def community(n=300, homophily=0.85, **settings):
    graph = contextual_block_model(n, classes=3, mean_degree=6, homophily=homophily, features=32, **settings)
    return replace(graph, split=random_split(graph.labels, train=0.1, val=0.1, seed=0))


@dataclass(frozen=True, kw_only=True)
class Watched(GCN):
    """Remembers the convolution of every training step."""

    seen: list = field(default_factory=list, compare=False)

    def logits(self, parameters, inputs, noise):
        if noise is not None:
            self.seen.append(inputs.matrix)
        return super().logits(parameters, inputs, noise)


def adjacency(matrix, n):
    """The weights behind a normalised matrix: its diagonal is one over the degrees."""
    dense = matrix if isinstance(matrix, torch.Tensor) else torch.zeros(n, n)
    if not isinstance(matrix, torch.Tensor):
        dense = (
            matrix.dense()
            if hasattr(matrix, "dense")
            else dense.index_put((matrix.rows, matrix.columns), matrix.values)
        )
    root = dense.diagonal().rsqrt()
    return (root[:, None] * dense * root).double() - torch.eye(n, dtype=torch.float64)


@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_attacks_keep_to_the_budget_and_use_it(weight):
    graph = community()
    graph = graph.with_edges(graph.edges, np.full(graph.num_edges, weight))
    n, flips = graph.num_nodes, int(0.1 * graph.num_edges)
    backbone = Watched(hidden=8)
    AdversarialTraining(
        backbone=backbone, training=Training(epochs=20, lr=0.01), budget=0.1, warmup=0.25, block_size=4 * flips
    ).fit(graph)
    clean = torch.from_numpy(graph.adjacency.toarray()).double()
    assert len(backbone.seen) == 20
    # The probability of each flip: a pair without an edge gains it as weight, an edge loses it as a share.
    scale = torch.where(clean > 0, weight, 1.0)
    flipped = [((adjacency(matrix, n) - clean) / scale).triu(1) for matrix in backbone.seen]
    assert all(one.abs().max() < 1e-4 for one in flipped[:5])
    for one in flipped[5:]:
        assert one.abs().max() <= 1 + 1e-4
        assert 0 < one.abs().sum() <= flips * (1 + 1e-3)
        assert (one[clean.triu(1) > 0] <= 1e-4).all()
    assert flipped[-1].abs().sum() > 0.9 * flips


@pytest.mark.parametrize("backbone", [GPRGNN(hidden=8), GCN(hidden=8)])
@pytest.mark.parametrize("training", [Training(epochs=12), QUICK, replace(QUICK, patience=2, warmup=3)])
def test_without_a_budget_it_is_plain_training(backbone, training):
    graph = community()
    mine = AdversarialTraining(backbone=backbone, training=training, budget=0.0).fit(graph, seed=5)
    (plain,) = train(backbone, graph, seeds=[5], training=training)
    assert torch.equal(mine.logits(), plain.logits())
    assert mine.parameters.keys() == plain.parameters.keys()
    assert all(torch.equal(mine.parameters[name], plain.parameters[name]) for name in plain.parameters)
    assert (mine.epoch, mine.val_accuracy) == (plain.epoch, plain.val_accuracy)


def test_attacks_follow_from_the_seed():
    graph, defense = community(), AdversarialTraining(backbone=GPRGNN(hidden=8), training=QUICK, block_size=1_000)
    first, again, other = (defense.fit(graph, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.logits(), again.logits())
    assert not torch.equal(first.logits(), other.logits())
    together = defense.fit_seeds(graph, [2, 1])
    assert torch.equal(together[0].logits(), other.logits())
    assert torch.equal(together[1].logits(), first.logits())
    plain = replace(defense, budget=0.0).fit(graph, seed=1)
    assert not torch.equal(first.logits(), plain.logits())


@pytest.mark.slow
def test_a_model_trained_so_is_harder_to_evade():
    attack, plain, robust = PRBCD(block_size=5_000, steps=20, fine_steps=5, samples=0), [], []
    defense = AdversarialTraining(
        backbone=GPRGNN(hidden=32, hops=5, dropout=0.2), training=replace(QUICK, epochs=100), block_size=2_000
    )
    for seed in range(2):
        graph = community(homophily=0.75, signal=2.0, seed=seed)
        (usual,) = train(defense.backbone, graph, seeds=[seed])
        for model, found in ((usual, plain), (defense.fit(graph, seed=seed), robust)):
            hurt = attack(graph, budget="10%", victim=model, seed=seed).apply(graph)
            found.append((model.accuracy(), model.on(hurt).accuracy()))
    (plain_clean, plain_hurt), (robust_clean, robust_hurt) = np.mean(plain, axis=0), np.mean(robust, axis=0)
    assert plain_hurt < plain_clean - 0.05
    assert robust_hurt > plain_hurt + 0.05
    assert robust_clean > plain_clean - 0.02


def test_the_model_is_saved_and_loaded(tmp_path):
    model = AdversarialTraining(backbone=GPRGNN(hidden=8), training=QUICK, block_size=1_000).fit(community())
    model.save(tmp_path / "model.npz")
    assert torch.equal(Predictor.load(tmp_path / "model.npz").logits(), model.logits())


@pytest.mark.parametrize("budget", [5.0, 1e-6, Budget.edges(3), Budget.fraction(0.2)])
def test_any_budget_on_a_small_graph(budget):
    graph = community(30)
    model = AdversarialTraining(backbone=GCN(hidden=4), training=QUICK, budget=budget, attacked="taught").fit(graph)
    assert torch.isfinite(model.logits()).all()


def test_a_graph_without_edges_is_trained_on_plainly():
    graph = community(60)
    bare = graph.with_edges(graph.edges[:, :0])
    backbone = GCN(hidden=4)
    model = AdversarialTraining(backbone=backbone, training=QUICK).fit(bare)
    assert torch.equal(model.logits(), train(backbone, bare, training=QUICK)[0].logits())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"backbone": H2GCN()},
            "'backbone' parameter of AdversarialTraining must be a GPRGNN or a GCN",
        ),
        ({"backbone": GPRGNN(hops=0)}, "must be GPRGNN with at least one hop or GCN"),
        ({"budget": -0.1}, "'budget' parameter of AdversarialTraining must be a share >= 0 or a Budget"),
        ({"budget": "10%"}, "'budget' parameter of AdversarialTraining must be a share >= 0 or a Budget"),
        ({"steps": 0}, "'steps' parameter of AdversarialTraining must be an integer >= 1"),
        ({"step_size": 0}, "'step_size' parameter of AdversarialTraining must be a positive number"),
        ({"block_size": 0}, "'block_size' parameter of AdversarialTraining must be an integer >= 1"),
        ({"block_size": 10}, "'block_size' parameter of AdversarialTraining must be at least 20"),
        ({"warmup": 1.0}, "'warmup' parameter of AdversarialTraining must be at least 0 and below 1"),
        ({"settle": -1}, "'settle' parameter of AdversarialTraining must be at least 0 and below 1"),
        ({"attacked": "some"}, "'attacked' parameter of AdversarialTraining must be one of 'all', 'taught'"),
        ({"device": "abacus"}, "'device' parameter of AdversarialTraining must be a device"),
        ({"training": {"epochs": 3}}, "'training' parameter of AdversarialTraining must be a Training"),
        ({"training": Training(batch_size=8)}, "looks at the whole graph at once; leave 'batch_size' out"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, said):
    graph = community(60)
    settings = {"budget": 10 / graph.num_edges, **settings}
    with pytest.raises(ParameterError, match=said):
        AdversarialTraining(**settings).fit(graph)


def test_a_budget_for_targets_has_none():
    with pytest.raises(BudgetError, match="needs targets"):
        AdversarialTraining(budget=Budget.per_target(2)).fit(community(60))
