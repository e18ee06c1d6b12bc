"""What every defence and every purifier promises, whoever wrote it; a new name is tested once it is registered."""

import subprocess
import sys
import tracemalloc
from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_geometric.transforms import BaseTransform, Compose, NormalizeFeatures

from garnet import Graph, Ledger, Split, as_graph
from garnet.backbones import GCN
from garnet.backbones.base import Noise
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Defense, Model, Purified, Purifier
from garnet.defenses.lookup import gives_model, takes_training
from garnet.errors import GarnetError, GraphError
from garnet.progress import Stage
from garnet.purify.base import CleanedGraph
from garnet.registry import BACKBONES, DEFENSES, PURIFIERS
from garnet.training.loop import Training, train
from garnet.training.predictor import Predictor

NAMES = [*DEFENSES.names(), *PURIFIERS.names()]

pytestmark = pytest.mark.filterwarnings("ignore::garnet.errors.RankWarning")


def defense(name):
    if name in PURIFIERS.names():
        return Purified(PURIFIERS.build(name, {}), GCN(hidden=4), Training(epochs=3))
    built = DEFENSES.build(name, {})
    return replace(built, training=replace(built.training, epochs=3)) if hasattr(built, "training") else built


def with_all(edges, n, weights=None):
    rng = np.random.default_rng(n)
    labels = np.arange(n) % 2
    features = rng.standard_normal((n, 3)) + 3 * labels[:, None]
    order = rng.permutation(n)
    split = Split(np.sort(order[: n // 2]), order[n // 2 : n // 2 + 2], order[n // 2 + 2 :])
    graph = as_graph((np.array(edges).T, n), features=features, labels=labels, split=split, symmetrize=True)
    return graph if weights is None else graph.with_edges(graph.edges, weights)


def clique(nodes):
    return [(a, b) for a in nodes for b in nodes if a < b]


GRAPHS = {
    "path": with_all([(i, i + 1) for i in range(9)], 10),
    "star": with_all([(0, i) for i in range(1, 10)], 10),
    "two cliques": with_all([*clique(range(5)), *clique(range(5, 10))], 10),
    "isolated node": with_all([*clique(range(4)), (3, 4), (4, 5), (5, 6), (6, 7)], 9),
    "weighted": with_all([(i, (i + 1) % 12) for i in range(12)], 12, np.linspace(0.01, 50, 12)),
}


@dataclass(frozen=True)
class DropsOne(Purifier):
    """A purifier of somebody else's."""

    def _purify(self, graph, *, progress):
        edges = torch.from_numpy(graph.edges)
        stays = torch.arange(graph.num_edges) > 0
        ledger = Ledger(edges, stays.float(), torch.ones_like(stays), stays, graph.num_nodes)
        stages = (Stage("drop", 0.0, 0),)
        return CleanedGraph(graph.with_edges(graph.edges[:, 1:], graph.weights[1:]), ledger, stages)


class Largest(TorchDispatchMode):
    """Sees how many numbers the largest tensor has that any operation makes."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
                # A number that is expanded over a matrix takes no room.
                self.numbers = max(self.numbers, tensor.untyped_storage().nbytes() // tensor.element_size())
        return result


def bytes_of(graph):
    matrix, split = graph.adjacency, graph.split
    arrays = [matrix.data, matrix.indices, matrix.indptr, graph.features, graph.labels]
    return [array.tobytes() for array in (*arrays, split.train, split.val, split.test)]


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("name", NAMES)
def test_tiny_graphs(name, graph):
    before = bytes_of(graph)
    state = torch.get_rng_state()
    one = defense(name).fit(graph, seed=3)
    assert one.logits().shape == (graph.num_nodes, 2)
    assert torch.isfinite(one.logits()).all()
    assert one.seed == 3
    assert 0 <= one.accuracy() <= 1
    assert one.graph.num_nodes == graph.num_nodes
    assert torch.equal(defense(name).fit(graph, seed=3).logits(), one.logits())
    assert bytes_of(graph) == before
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", NAMES)
def test_seeds_together_come_in_the_order_asked_for(name):
    graph = GRAPHS["two cliques"]
    together = defense(name).fit_seeds(graph, [2, 0, 1])
    assert [one.seed for one in together] == [2, 0, 1]
    for one in together:
        alone = defense(name).fit(graph, seed=one.seed)
        torch.testing.assert_close(one.logits(), alone.logits(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("missing", ["labels", "split"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_is_said(name, missing):
    graph = replace(GRAPHS["path"], **{missing: None})
    with pytest.raises(GarnetError, match=rf"^The graph has no ({missing}|training nodes)[^\n]*\.$"):
        defense(name).fit(graph)


# Nodes that are known by their numbers alone are all equally unlike.
COMPARE_FEATURES = ("jaccard", "feature-knn", "gnnguard", "simp-gcn", "rsgnn", "prognn", "linear-floor")


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_without_features_is_learnt_by_its_numbers_or_refused_by_name(name, tmp_path):
    graph = replace(GRAPHS["two cliques"], features=None)
    if name in COMPARE_FEATURES:
        kind = type(DEFENSES.build(name, {}) if name in DEFENSES.names() else PURIFIERS.build(name, {})).__name__
        with pytest.raises(GarnetError, match=rf"^The graph has no features, and {kind} [^\n]*\.$"):
            defense(name).fit(graph)
        return
    one = defense(name).fit(graph, seed=1)
    assert one.graph.features is None
    assert "one-hot node numbers" in repr(one)
    assert torch.isfinite(one.logits()).all()
    if gives_model(name):
        one.save(tmp_path / "model.npz")
        assert torch.equal(Predictor.load(tmp_path / "model.npz").logits(), one.logits())
    # A purifier, of a committee too, would compare the rows of an identity that it is given as features.
    if name not in (*PURIFIERS.names(), "committee"):
        numbered = as_graph(graph, features=sp.eye_array(10, format="csr"))
        assert torch.equal(defense(name).fit(numbered, seed=1).logits(), one.logits())


@pytest.mark.parametrize("name", PURIFIERS.names())
def test_a_purifier_sees_no_numbers_of_nodes(name):
    if name in COMPARE_FEATURES:
        return
    graph = replace(GRAPHS["two cliques"], features=None)
    assert defense(name).fit(graph).graph == PURIFIERS.build(name, {}).purify(graph).graph


@pytest.mark.parametrize("name", NAMES)
def test_a_single_class_is_said(name):
    graph = replace(GRAPHS["path"], labels=np.zeros(10, dtype=np.int64))
    with pytest.raises(GarnetError, match=r"^All labels of the graph are 0; there is nothing to tell apart\.$"):
        defense(name).fit(graph)


@pytest.mark.parametrize("name", NAMES)
def test_a_purifier_may_come_before_it(name):
    graph = GRAPHS["two cliques"]

    composed = Purified(DropsOne(), defense(name)).fit(graph, seed=1)
    alone = defense(name).fit(DropsOne().purify(graph).graph, seed=1)
    assert torch.equal(composed.logits(), alone.logits())
    assert [stage.name for stage in composed.stages] == ["drop", *(stage.name for stage in alone.stages)]


# Their graphs are dense by construction; each says so, and refuses what would not fit.
DENSE = ("tsvd", "prognn")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in DENSE])
@pytest.mark.slow
def test_no_matrix_of_all_pairs(name):
    n = 9_000
    graph = contextual_block_model(n, classes=2, mean_degree=4, features=8)
    graph = as_graph(graph, split=random_split(graph.labels, seed=0))
    tracemalloc.start()
    with Largest() as largest:
        defense(name).fit(graph)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert largest.numbers < n * n / 4
    assert peak < n * n


@pytest.mark.parametrize("name", [name for name in BACKBONES.names() if name not in COMPARE_FEATURES])
@pytest.mark.slow
def test_numbers_of_nodes_are_no_matrix_of_all_pairs(name):
    n = 9_000
    graph = contextual_block_model(n, classes=2, mean_degree=4, features=8)
    graph = as_graph(graph.adjacency, labels=graph.labels, split=random_split(graph.labels, seed=0))
    tracemalloc.start()
    with Largest() as largest:
        train(BACKBONES.build(name, {}), graph, training=Training(epochs=1, lr=0.01))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert largest.numbers < n * n / 4
    assert peak < n * n


@pytest.mark.parametrize("name", DENSE)
def test_a_dense_graph_that_would_not_fit_is_refused(name):
    with pytest.raises(
        GarnetError, match=r"^\w+ forms a dense matrix of 10 x 10 numbers, 0\.0 GB, more than its 'most_bytes'"
    ):
        replace(defense(name), most_bytes=399).fit(GRAPHS["path"])


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_is_saved_and_loaded_says_the_same(name, tmp_path):
    one = defense(name).fit(GRAPHS["weighted"], seed=1)
    if not gives_model(name):
        with pytest.raises(GarnetError, match=r"^These predictions come from no model"):
            one.save(tmp_path / "model.npz")
        return
    one.save(tmp_path / "model.npz")
    loaded = Predictor.load(tmp_path / "model.npz")
    assert torch.equal(loaded.logits(), one.logits())
    other = loaded.on(GRAPHS["weighted"].with_edges(GRAPHS["weighted"].edges[:, :5]))
    assert torch.isfinite(other.logits()).all()


@pytest.mark.parametrize("name", [name for name in DEFENSES.names() if issubclass(DEFENSES.get(name), Model)])
def test_dropout_leaves_units_out_in_training_alone(name):
    graph, model = GRAPHS["two cliques"], DEFENSES.build(name, {})
    if name == "gnnguard":
        model = replace(model, backbone=replace(model.backbone, dropout=0.9))
    else:
        model = replace(model, dropout=0.9)
    inputs = model.prepare(graph, "cpu")
    drawn = model.initial(3, 2, torch.Generator().manual_seed(0))
    parameters = {key: value[None] for key, value in drawn.items()}
    with torch.no_grad():
        plain = model.logits(parameters, inputs, None)
        assert torch.equal(model.logits(parameters, inputs, None), plain)
        noise = Noise([torch.Generator().manual_seed(1)])
        assert not torch.allclose(model.logits(parameters, inputs, noise), plain, atol=1e-3)


@pytest.mark.parametrize("name", DEFENSES.names())
def test_what_is_wrong_with_it_is_said_before_anything_is_purified(name):
    if not takes_training(name):
        return
    seen = []

    class Spy(DropsOne):
        def _purify(self, graph, *, progress):
            seen.append(graph)
            return super()._purify(graph, progress=progress)

    wrong = replace(defense(name), device="meta")
    with pytest.raises(GarnetError, match=r"^The 'device' parameter of \w+ must be a device that torch has here\."):
        Purified(Spy(), wrong).fit(GRAPHS["path"])
    assert not seen


@pytest.mark.parametrize(
    "name", ["lfr", "rsgnn", "simp-gcn", "soft-median-gdc", "prognn", "tsvd", "adversarial-training"]
)
def test_what_needs_the_whole_graph_refuses_batches(name):
    with pytest.raises(GarnetError, match=r"leave 'batch_size' out\.$"):
        replace(defense(name), training=Training(epochs=2, batch_size=3))


def pyg(graph):
    data = graph.to_pyg()
    data.edge_attr = torch.ones(data.num_edges, 2)
    data.note = "kept"
    return data


@pytest.mark.parametrize("name", DEFENSES.names())
def test_a_defence_fits_whatever_as_graph_reads(name):
    graph = GRAPHS["weighted"]
    assert isinstance(defense(name), Defense)
    expected = defense(name).fit(graph, seed=1).logits()
    assert torch.equal(defense(name).fit(pyg(graph), seed=1).logits(), expected)


@pytest.mark.parametrize("name", DEFENSES.names())
def test_a_defence_refuses_what_is_no_graph(name):
    with pytest.raises(GarnetError, match=r"^Cannot read a graph from object"):
        defense(name).fit(object())
    with pytest.raises(GarnetError, match=r"^A seed must be an integer"):
        defense(name).fit(GRAPHS["path"], seed=-1)
    with pytest.raises(GarnetError, match=r"at least one"):
        defense(name).fit_seeds(GRAPHS["path"], [])


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("name", PURIFIERS.names())
def test_a_purifier_says_what_became_of_every_edge(name, graph):
    before = bytes_of(graph)
    steps = []
    cleaned = PURIFIERS.build(name, {}).purify(graph, progress=steps.append)
    assert [step.stage for step in steps if not step.detail] == [stage.name for stage in cleaned.stages]
    counts = cleaned.ledger.counts
    assert counts["kept"] + counts["dropped"] == graph.num_edges
    assert counts["kept"] + counts["added"] == cleaned.graph.num_edges
    ours = {tuple(edge) for edge in np.concatenate([cleaned.ledger.kept, cleaned.ledger.added], axis=1).T.tolist()}
    assert ours == {tuple(edge) for edge in cleaned.graph.edges.T.tolist()}
    assert {part: len(getattr(cleaned.ledger, f"{part}_scores")) for part in counts} == counts
    assert np.array_equal(cleaned.graph.labels, graph.labels)
    assert bytes_of(graph) == before


@pytest.mark.parametrize("name", PURIFIERS.names())
def test_a_purifier_reads_whatever_as_graph_reads(name, tmp_path):
    graph = GRAPHS["weighted"]
    purifier = PURIFIERS.build(name, {})
    expected = purifier.purify(graph).graph.fingerprint
    graph.save(tmp_path / "graph.npz")
    assert purifier.purify(pyg(graph)).graph.fingerprint == expected
    assert purifier.purify(tmp_path / "graph.npz").graph.fingerprint == expected
    with pytest.raises(GarnetError, match=r"^Cannot read a graph from object"):
        purifier.purify(object())


@pytest.mark.parametrize("name", PURIFIERS.names())
def test_a_purifier_is_a_transform_of_pyg(name):
    graph = GRAPHS["weighted"]
    purifier = PURIFIERS.build(name, {})
    assert isinstance(purifier, Purifier)
    assert isinstance(purifier, BaseTransform)
    data = pyg(graph)
    edges = data.edge_index.clone()
    cleaned = Compose([NormalizeFeatures(), purifier])(data)
    assert cleaned.note == "kept"
    assert len(cleaned.edge_attr) == cleaned.num_edges
    assert torch.equal(data.edge_index, edges)
    assert torch.equal(purifier.forward(data).edge_index, purifier(data).edge_index)
    assert as_graph(purifier(data)).fingerprint == purifier.purify(graph).graph.fingerprint
    assert isinstance(purifier(graph), Graph)
    # A citation has one direction only, and keeps it; what is new has both.
    directed = data.clone()
    one_way = directed.edge_index[0] < directed.edge_index[1]
    directed.edge_index, directed.edge_weight = directed.edge_index[:, one_way], directed.edge_weight[one_way]
    both_ways, pairs = purifier(data).edge_index, purifier(directed).edge_index
    written = set(map(tuple, directed.edge_index.T.tolist()))
    expected = [pair for pair in map(tuple, both_ways.T.tolist()) if pair in written or pair[::-1] not in written]
    assert list(map(tuple, pairs.T.tolist())) == expected


def test_pyg_is_not_imported_before_somebody_asks():
    program = (
        "import sys; from garnet import GARNET; from garnet.defenses import Jaccard, Purified; GARNET(), Jaccard();"
        "assert not any(name.startswith('torch_geometric') for name in sys.modules);"
        "from torch_geometric.transforms import BaseTransform;"
        "assert isinstance(GARNET(), BaseTransform) and isinstance(Jaccard(), BaseTransform);"
        "assert issubclass(GARNET, BaseTransform) and not isinstance(Purified(), BaseTransform)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_predicting_the_graph_of_training_says_what_training_said(name):
    graph, whole = GRAPHS["two cliques"], defense(name)
    trained = whole.fit(graph)
    if whole.learns_one_graph:
        with pytest.raises(GraphError, match="another"):
            whole.predict(trained, graph)
    else:
        assert torch.allclose(whole.predict(trained, graph).logits(), trained.logits(), atol=1e-5)


def test_an_evaded_graph_is_purified_as_the_one_in_training_was():
    graph = GRAPHS["path"]
    whole = Purified(DropsOne(), GCN(hidden=4), Training(epochs=3))
    trained = whole.fit(graph)
    other = graph.with_edges(graph.edges[:, 2:])
    assert torch.equal(whole.predict(trained, other).logits(), trained.on(DropsOne().purify(other).graph).logits())


@pytest.mark.parametrize("name", [name for name in NAMES if not defense(name).learns_one_graph])
def test_who_asks_again_and_again_hears_what_is_predicted(name):
    graph, whole = GRAPHS["two cliques"], defense(name)
    trained = whole.fit(graph)
    answer = whole.answers(trained)
    fewer = graph.with_edges(graph.edges[:, 2:])
    others = replace(fewer, features=graph.features[::-1].copy())
    for one in (graph, fewer, others, graph):
        assert torch.equal(answer(one), whole.predict(trained, one).logits())


@pytest.mark.parametrize("name", NAMES)
def test_near_its_graph_a_defence_as_an_attacker_follows_it_is_the_defence(name):
    graph, whole = GRAPHS["isolated node"], defense(name)
    trained = whole.fit(graph)
    if whole.learns_one_graph or name == "rsgnn":  # whose features join all nodes of so small a graph anyway
        with pytest.raises(GarnetError):
            whole.relaxed(trained, graph)
        return
    model = whole.relaxed(trained, graph)
    edges, weights = model.edges(graph)
    weights.requires_grad_()
    logits = model.logits(edges, weights)
    assert torch.allclose(logits.detach(), whole.predict(trained, graph).logits(), atol=1e-4)
    reached = torch.autograd.grad(logits.square().sum(), weights, allow_unused=True)[0]
    assert reached is None or reached.isfinite().all()
