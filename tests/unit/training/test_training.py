from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from torch_geometric.nn.models import GraphSAGE

from garnet import Split, as_graph
from garnet.backbones import GCN, GPRGNN, H2GCN, MLP, TorchModule
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Purified
from garnet.errors import GraphError, ParameterError
from garnet.registry import BACKBONES, DEFENSES
from garnet.training.loop import Training, train
from garnet.training.sampling import batches

QUICK = Training(epochs=20, lr=0.02)
# Those that are defences too have their own contract.
NAMES = [name for name in BACKBONES.names() if name not in DEFENSES.names()]
ALL = [BACKBONES.build(name, {}) for name in NAMES]
BATCHED = [backbone for backbone in ALL if not getattr(backbone, "whole_graph", False)]
SAGE = TorchModule(lambda features, classes: GraphSAGE(features, 16, 2, classes, dropout=0.5))


def taught(n=400, *, seed=0, **others):
    graph = contextual_block_model(n, classes=3, features=16, seed=seed, **others)
    return as_graph(graph, split=random_split(graph.labels, seed=seed))


@pytest.fixture(scope="module")
def graph():
    return taught(signal=1.5)


# --- seeds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backbone", ALL, ids=NAMES)
def test_a_seed_alone_is_the_same_seed_in_company(graph, backbone):
    together = train(backbone, graph, seeds=(3, 0, 7), training=QUICK)
    (alone,) = train(backbone, graph, seeds=(0,), training=QUICK)
    torch.testing.assert_close(together[1].logits(), alone.logits(), rtol=1e-4, atol=1e-4)
    assert [one.seed for one in together] == [3, 0, 7]
    assert together[1].epoch == alone.epoch
    assert not torch.allclose(together[0].logits(), together[1].logits(), atol=1e-2)


def test_a_large_graph_takes_the_seeds_a_few_at_a_time(graph, monkeypatch):
    together = train(GCN(), graph, seeds=(3, 0, 7), training=QUICK)
    monkeypatch.setattr("garnet.training.loop._NODES_TOGETHER", 2 * graph.num_nodes)
    apart = train(GCN(), graph, seeds=(3, 0, 7), training=QUICK)
    for one, other in zip(together, apart, strict=True):
        assert one.seed == other.seed
        torch.testing.assert_close(one.logits(), other.logits(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("backbone", "training"),
    [
        *((backbone, QUICK) for backbone in [*ALL, SAGE]),
        *((backbone, replace(QUICK, epochs=4, batch_size=10)) for backbone in [*BATCHED, SAGE]),
    ],
)
def test_the_same_seed_gives_the_same_bytes_and_nothing_global_is_touched(graph, backbone, training):
    before = torch.get_rng_state()
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    one, other = (train(backbone, graph, seeds=(0, 1), training=training) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    for first, second in zip(one, other, strict=True):
        assert torch.equal(first.logits(), second.logits())
        assert all(torch.equal(first.parameters[name], second.parameters[name]) for name in first.parameters)


# --- what is learnt ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backbone", ALL, ids=NAMES)
def test_training_beats_chance(graph, backbone):
    (one,) = train(backbone, graph, training=Training(epochs=60))
    assert one.accuracy() > 0.55


def test_neighbours_help_where_they_are_alike(graph):
    means = {
        backbone: np.mean([one.accuracy() for one in train(backbone, graph, seeds=(0, 1, 2), training=QUICK)])
        for backbone in (GCN(), GPRGNN(), H2GCN(), MLP())
    }
    perceptron = means.pop(MLP())
    assert min(means.values()) > perceptron + 0.05


def test_the_input_is_not_changed(graph):
    copy = taught(signal=1.5)
    train(GCN(), graph, training=QUICK)
    assert graph == copy


# --- which epoch counts -----------------------------------------------------------------------------------------------


def test_the_best_epoch_is_kept(graph):
    for one in train(GCN(), graph, seeds=(0, 1, 2), training=Training(epochs=80, lr=0.05)):
        assert one.val_accuracy == pytest.approx(one.accuracy(graph.split.val))
        assert torch.equal(one.on(graph).logits(), one.logits())
        stopped = train(GCN(), graph, seeds=(one.seed,), training=Training(epochs=one.epoch + 1, lr=0.05))[0]
        torch.testing.assert_close(stopped.logits(), one.logits(), rtol=1e-4, atol=1e-4)


def test_patience_ends_training(graph):
    steps = []
    progress = steps.append
    (one,) = train(GCN(), graph, training=Training(epochs=5000, lr=0.05, patience=10), progress=progress)
    assert one.epoch < 4000
    assert len(steps) < 400
    assert (steps[0].stage, steps[0].done, steps[0].total) == ("train", 0, 5000)
    assert "%" in steps[0].detail


class Scripted:
    """Seed s has the validation accuracy `script[s][t]` at epoch t, whatever it learns."""

    def __init__(self, *script):
        self.script, self.epoch = script, -1

    def initial(self, features, classes, generator):
        return {"seed": torch.tensor(float(generator.initial_seed()))}

    def prepare(self, graph, device):
        return graph

    def logits(self, parameters, graph, noise):
        labels, checked = torch.from_numpy(graph.labels), torch.from_numpy(graph.split.val)
        self.epoch += noise is None
        logits = torch.zeros(len(parameters["seed"]), graph.num_nodes, 3) + 0 * parameters["seed"][:, None, None]
        for seed in range(len(logits)):
            right = round(self.script[seed][min(self.epoch, len(self.script[seed]) - 1)] * len(checked))
            answers = torch.where(torch.arange(len(checked)) < right, labels[checked], (labels[checked] + 1) % 3)
            logits = logits.index_put((torch.tensor(seed), checked, answers), torch.tensor(1.0))
        return logits


def test_a_seed_whose_patience_is_spent_keeps_its_best_while_others_go_on(graph):
    never = [0.5, 0.1, 0.1, 0.1, 0.1, 0.9, 0.9, 0.9]
    still = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.6, 0.6]
    spent, patient = train(
        Scripted(never, still), graph, seeds=(0, 1), training=Training(epochs=8, patience=3, lr=0.01)
    )
    assert (spent.epoch, patient.epoch) == (0, 5)
    assert spent.val_accuracy == pytest.approx(0.5, abs=0.02)
    forever, _ = train(Scripted(never, still), graph, seeds=(0, 1), training=Training(epochs=8, patience=None, lr=0.01))
    assert forever.epoch == 5


def test_of_several_step_sizes_each_seed_keeps_the_best_on_validation(graph):
    rates, seeds = (1e-4, 0.02, 0.3), (0, 1, 2)
    alone = {rate: train(GCN(), graph, seeds=seeds, training=Training(epochs=20, lr=rate)) for rate in rates}
    chosen = train(GCN(), graph, seeds=seeds, training=Training(epochs=20, lr=rates))
    for number, one in enumerate(chosen):
        best = max((models[number] for models in alone.values()), key=lambda model: model.val_accuracy)
        assert one.val_accuracy == best.val_accuracy
        assert any(torch.equal(one.logits(), models[number].logits()) for models in alone.values())


@dataclass(frozen=True)
class Watched(MLP):
    """Notes which nodes each step learns from, by the gradient that reaches their logits."""

    steps: list = field(default_factory=list)

    def logits(self, parameters, inputs, noise):
        result = super().logits(parameters, inputs, noise)
        if noise is not None:
            result.register_hook(lambda gradient: self.steps.append(gradient.ne(0).any(dim=2).any(dim=0).numpy()))
        return result


def test_the_whole_graph_teaches_the_training_nodes_alone(graph):
    watched = Watched()
    train(watched, graph, seeds=(0, 1), training=Training(epochs=3, lr=0.01))
    assert len(watched.steps) == 3
    for step in watched.steps:
        np.testing.assert_array_equal(np.flatnonzero(step), graph.split.train)


def test_a_batch_teaches_the_nodes_asked_for_and_not_their_neighbours(graph):
    watched = Watched()
    train(watched, graph, training=Training(epochs=2, batch_size=16, lr=0.01))
    assert len(watched.steps) == 2 * -(-len(graph.split.train) // 16)
    assert all(step[:16].sum() == step.sum() <= 16 for step in watched.steps)
    assert sum(step.sum() for step in watched.steps) == 2 * len(graph.split.train)


def test_self_training_leaves_the_validation_nodes_alone(graph):
    watched = Watched()
    train(watched, graph, training=Training(epochs=10, confidence=0.4))
    taught = np.flatnonzero(watched.steps[-1])
    assert len(taught) > 2 * len(graph.split.train)
    assert not np.isin(graph.split.val, taught).any()


def test_nothing_counts_before_the_warmup(graph):
    (one,) = train(GCN(), graph, training=Training(epochs=30, warmup=25))
    assert one.epoch >= 25


def test_without_validation_nodes_the_last_epoch_counts(graph):
    split = graph.split
    bare = as_graph(graph, split=Split(split.train, split.val[:0], split.test))
    (one,) = train(GCN(), bare, training=Training(epochs=12, patience=2))
    assert one.epoch == 11
    assert np.isnan(one.val_accuracy)


def test_self_training_learns_from_its_own_sure_predictions(graph):
    few = as_graph(graph, split=Split(graph.split.train[:6], graph.split.val, graph.split.test))
    once, twice, unsure = (
        train(GCN(), few, seeds=(0, 1), training=Training(epochs=60, confidence=confidence))
        for confidence in (None, 0.7, 1.0)
    )
    for first, second in zip(once, twice, strict=True):
        sure = first.logits().softmax(dim=1).amax(dim=1).numpy() > 0.7
        sure[few.split.val] = False
        assert 0.2 < sure.mean() < 1
        assert (first.predictions() == second.predictions())[sure].mean() > 0.95
        assert second.logits().softmax(dim=1).amax(dim=1).mean() > first.logits().softmax(dim=1).amax(dim=1).mean()
        assert second.accuracy() > 0.6
    torch.testing.assert_close(unsure[0].logits(), once[0].logits())


# --- batches ----------------------------------------------------------------------------------------------------------


def test_a_pass_meets_every_node_once_and_samples_true_edges():
    graph = taught(300, mean_degree=20.0)
    graph = graph.with_edges(graph.edges, np.random.default_rng(0).uniform(0.5, 2, graph.num_edges))
    nodes = torch.arange(0, 300, 3)
    met = []
    for batch in batches(graph, nodes, size=32, fanout=(4, 3), generator=torch.Generator().manual_seed(0)):
        ids = batch.nodes.numpy()
        met.append(ids[: batch.asked])
        assert len(np.unique(ids)) == len(ids) == batch.graph.num_nodes
        np.testing.assert_array_equal(batch.graph.features, graph.features[ids])
        first, second = batch.graph.edges
        true = graph.adjacency[ids][:, ids].toarray()
        np.testing.assert_array_equal(true[first, second], batch.graph.weights)
        counts = np.diff(batch.graph.adjacency.indptr)[: batch.asked]
        assert (counts >= np.minimum(np.diff(graph.adjacency.indptr)[ids[: batch.asked]], 4)).all()
        assert batch.graph.num_edges <= batch.asked * (4 + 4 * 3)
    np.testing.assert_array_equal(np.sort(np.concatenate(met)), nodes)
    assert not np.array_equal(np.concatenate(met), nodes)


def test_every_neighbour_is_drawn_as_often_as_any_other():
    star = as_graph((np.array([[0] * 9, range(1, 10)]), 10), features=np.ones((10, 1)), symmetrize=True)
    generator, counts = torch.Generator().manual_seed(0), np.zeros(10)
    for _ in range(1500):
        (batch,) = batches(star, torch.tensor([0]), size=1, fanout=(3,), generator=generator)
        assert batch.graph.num_nodes == 4
        counts[batch.nodes] += 1
    np.testing.assert_allclose(counts[1:] / 1500, 1 / 3, atol=0.05)


def test_a_fanout_as_large_as_the_graph_draws_the_whole_neighbourhood():
    graph = taught(100)
    (batch,) = batches(
        graph, torch.arange(100), size=100, fanout=(100,), generator=torch.Generator().manual_seed(0)
    )  # fmt: skip
    ids = batch.nodes.numpy()
    assert (batch.graph.adjacency != graph.adjacency[ids][:, ids]).nnz == 0


@pytest.mark.parametrize("backbone", [*BATCHED, SAGE], ids=lambda one: type(one).__name__)
@pytest.mark.slow
def test_batches_teach_as_well_as_the_whole_graph(graph, backbone):
    in_batches = Training(epochs=20, batch_size=8, fanout=(8, 8))
    accuracy = np.mean([one.accuracy() for one in train(backbone, graph, seeds=(0, 1), training=in_batches)])
    whole = np.mean([one.accuracy() for one in train(backbone, graph, seeds=(0, 1), training=Training(epochs=60))])
    assert accuracy > whole - 0.08


def test_self_training_in_batches(graph):
    one, other = train(
        GCN(), graph, seeds=(0, 1), training=Training(epochs=8, batch_size=16, fanout=(5, 5), confidence=0.8)
    )  # fmt: skip
    assert min(one.accuracy(), other.accuracy()) > 0.7
    assert torch.isfinite(one.logits()).all()


def test_isolated_nodes_in_batches():
    graph = taught(60)
    lonely = graph.with_edges(graph.edges[:, :0])
    for backbone in BATCHED:
        (one,) = train(backbone, lonely, training=Training(epochs=2, batch_size=4))
        assert torch.isfinite(one.logits()).all()


# --- sentences --------------------------------------------------------------------------------------------------------


def test_a_graph_that_cannot_be_trained_on(graph):
    bare = replace(graph, labels=None)
    with pytest.raises(GraphError, match="no labels, and a model is trained to predict them"):
        train(GCN(), bare)
    with pytest.raises(GraphError, match=r"no training nodes; give it a split, such as garnet.datasets.random_split"):
        train(GCN(), replace(graph, split=None))
    empty = graph.split.train[:0]
    with pytest.raises(GraphError, match="no training nodes"):
        train(GCN(), as_graph(graph, split=Split(empty, graph.split.val, graph.split.test)))
    labels = graph.labels.copy()
    labels[graph.split.train[2]] = -1
    with pytest.raises(GraphError, match=f"Node {graph.split.train[2]} is for training .* has no label; 1 such"):
        train(GCN(), as_graph(graph, labels=labels))
    with pytest.raises(GraphError, match="no labels"):
        train(GCN(), as_graph(graph, labels=np.full(graph.num_nodes, -1)))


def test_training_nodes_of_one_class_teach_nothing(graph):
    labels = graph.labels.copy()
    labels[graph.split.train] = 1
    with pytest.raises(GraphError, match=f"All {len(graph.split.train)} training nodes have the label 1"):
        train(GCN(), as_graph(graph, labels=labels))


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_a_split_of_another_graph_is_refused(graph, part):
    # Put there by hand, past `as_graph`, which would have refused it.
    nodes = getattr(graph.split, part)
    other = replace(graph, split=replace(graph.split, **{part: np.append(nodes, graph.num_nodes + 5)}))
    with pytest.raises(GraphError, match=f"from 0 to {graph.num_nodes - 1}. Got {graph.num_nodes + 5};"):
        train(GCN(), other)
    with pytest.raises(GraphError, match="Got -1;"):
        train(GCN(), replace(graph, split=replace(graph.split, **{part: np.append(nodes, -1)})))
    twice = (graph.split.val if part == "train" else graph.split.train)[3]
    with pytest.raises(GraphError, match=f"names a node twice, such as {twice};"):
        train(GCN(), replace(graph, split=replace(graph.split, **{part: np.append(nodes, twice)})))


def test_validation_nodes_without_any_label_are_none(graph):
    labels = graph.labels.copy()
    labels[graph.split.val] = -1
    unknown = as_graph(graph, labels=labels)
    none = as_graph(graph, split=replace(graph.split, val=graph.split.val[:0]))
    first, second = (train(GCN(), one, training=Training(epochs=3, lr=0.05))[0] for one in (unknown, none))
    assert torch.equal(first.logits(), second.logits())
    assert np.isnan(first.val_accuracy)
    labels[graph.split.val[1:]] = graph.labels[graph.split.val[1:]]
    with pytest.raises(GraphError, match=f"Node {graph.split.val[0]} is for training or validation"):
        train(GCN(), as_graph(graph, labels=labels))


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("epochs", 0, "an integer >= 1"),
        ("epochs", 1.5, "an integer >= 1"),
        ("lr", 0, "a positive number"),
        ("lr", float("nan"), "a positive number"),
        ("weight_decay", -1, "a number >= 0"),
        ("patience", 0, "an integer >= 1 or None"),
        ("warmup", 10_000, "at least 0 and below 'epochs'"),
        ("confidence", 1.1, "above 0 and at most 1"),
        ("batch_size", 0, "an integer >= 1"),
        ("batch_size", "32", "an integer >= 1"),
        ("fanout", (), "a tuple, not empty"),
        ("fanout", (10, 0), "a tuple of which each is an integer >= 1"),
        ("fanout", 10, "a tuple"),
    ],
)
def test_parameters_that_make_no_sense(name, value, wanted):
    with pytest.raises(ParameterError, match=f"The '{name}' parameter of Training must be {wanted}.* Got "):
        Training(**{name: value})


@pytest.mark.parametrize(
    ("backbone", "name", "value"),
    [(GCN, "layers", 0), (GCN, "hidden", 0), (GPRGNN, "hops", -1), (H2GCN, "rounds", 0), (MLP, "dropout", 1.0)],
)
def test_models_that_make_no_sense(backbone, name, value):
    with pytest.raises(ParameterError, match=f"The '{name}' parameter of {backbone.__name__} must"):
        backbone(**{name: value})


def test_other_things_that_make_no_sense(graph):
    for seeds in ((), 3, [0.5], [-1], [2**64]):
        with pytest.raises(ParameterError, match="seed"):
            train(GCN(), graph, seeds=seeds)
    with pytest.raises(ParameterError, match="The 'device' parameter of train must be a device that torch has here"):
        train(GCN(), graph, device="gpu")
    for backbone in (GCN, "gcn", None):
        with pytest.raises(ParameterError, match="The 'backbone' parameter of train must be a backbone"):
            train(backbone, graph)
    inputs = GCN().prepare(graph, "cpu")
    with pytest.raises(ParameterError, match="leave 'batch_size' out"):
        train(GCN(), graph, inputs=inputs, training=Training(batch_size=3))


def test_the_cost_is_told(graph):
    one = Purified(None, GCN(), Training(epochs=3)).fit(graph)
    assert [stage.name for stage in one.stages] == ["train"]
    assert one.stages[0].seconds > 0
