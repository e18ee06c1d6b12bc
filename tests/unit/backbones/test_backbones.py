import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.nn import GATConv, GCNConv, Sequential, models

from garnet import Graph, as_graph
from garnet.backbones import GCN, GPRGNN, H2GCN, MLP, TorchModule
from garnet.backbones.base import Features, Noise, linear, propagate
from garnet.backbones.h2gcn import two_hops
from garnet.backbones.matrices import gcn_matrix
from garnet.datasets import contextual_block_model
from garnet.errors import GraphError, ParameterError
from garnet.training.loop import Training, train
from garnet.training.predictor import Predictor

QUICK = Training(epochs=15, lr=0.02)


def parameters_of(backbone, features, classes=3, seed=0):
    return {name: v[None] for name, v in backbone.initial(features, classes, generator(seed)).items()}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def dense_convolution(graph):
    looped = graph.adjacency.toarray() + np.eye(graph.num_nodes)
    root = 1 / np.sqrt(looped.sum(axis=1))
    return torch.from_numpy((root[:, None] * looped * root).astype(np.float32))


def logits(backbone, parameters, graph):
    return backbone.logits(parameters, backbone.prepare(graph, "cpu"), None)[0]


# --- the library's own, against others and against dense algebra ------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_gcn_is_a_stack_of_pyg_s_convolutions(weighted, layers):
    backbone = GCN(layers=layers, hidden=8)
    parameters = parameters_of(backbone, 5)
    data = weighted.to_pyg()
    hidden = data.x
    for layer in range(layers):
        weight = parameters[f"weight{layer}"][0]
        bias = parameters[f"bias{layer}"].normal_(generator=generator(layer))[0, 0]
        conv = GCNConv(*weight.shape)
        conv.load_state_dict({"lin.weight": weight.T, "bias": bias})
        hidden = conv(hidden if layer == 0 else hidden.relu(), data.edge_index, data.edge_weight)
    torch.testing.assert_close(logits(backbone, parameters, weighted), hidden.detach(), rtol=1e-5, atol=1e-5)


def test_gcn_with_batch_norm_and_residuals_against_torch(weighted):
    backbone = GCN(layers=3, hidden=8, batch_norm=True, residual=True)
    parameters = parameters_of(backbone, 5)
    matrix, hidden, before = dense_convolution(weighted), torch.from_numpy(weighted.features), None
    for layer in range(3):
        for name in ("scale", "bias"):
            if f"{name}{layer}" in parameters:
                parameters[f"{name}{layer}"].normal_(generator=generator(layer))
        hidden = matrix @ hidden @ parameters[f"weight{layer}"][0]
        if layer < 2:
            scale, shift = parameters[f"scale{layer}"][0, 0], parameters[f"bias{layer}"][0, 0]
            hidden = torch.nn.functional.batch_norm(hidden, None, None, scale, shift, training=True).relu()
            hidden = hidden if before is None else hidden + before
            before = hidden
    expected = hidden + parameters["bias2"][0]
    torch.testing.assert_close(logits(backbone, parameters, weighted), expected, rtol=1e-4, atol=1e-5)


def test_gprgnn_is_its_polynomial_of_the_dense_matrix(weighted):
    backbone = GPRGNN(hops=4, alpha=0.2, hidden=8)
    parameters = parameters_of(backbone, 5)
    np.testing.assert_allclose(parameters["coefficients"].sum(), 1, atol=1e-6)
    parameters["coefficients"].normal_(generator=generator(3))
    matrix, x = dense_convolution(weighted), torch.from_numpy(weighted.features)
    one = (x @ parameters["weight0"][0] + parameters["bias0"][0]).relu()
    one = one @ parameters["weight1"][0] + parameters["bias1"][0]
    powers = [torch.linalg.matrix_power(matrix, hop) for hop in range(5)]
    expected = sum(c * power @ one for c, power in zip(parameters["coefficients"][0], powers, strict=True))
    torch.testing.assert_close(logits(backbone, parameters, weighted), expected, rtol=1e-5, atol=1e-5)


def test_two_hops_are_the_pairs_at_distance_two(weighted):
    graph = contextual_block_model(60, mean_degree=3, features=2, seed=4)
    for one in (weighted, graph):
        distances = sp.csgraph.shortest_path(one.adjacency, unweighted=True)
        np.testing.assert_array_equal(two_hops(one).toarray(), distances == 2)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_h2gcn_against_dense_algebra(weighted, batch_norm):
    backbone = H2GCN(rounds=2, hidden=4, batch_norm=batch_norm)
    parameters = parameters_of(backbone, 5)
    distances = sp.csgraph.shortest_path(weighted.adjacency, unweighted=True)
    near, far = (torch.from_numpy(normalised(a)) for a in (weighted.adjacency.toarray(), distances == 2))
    rounds = [(torch.from_numpy(weighted.features) @ parameters["embed"][0]).relu()]
    for number in range(2):
        latest = torch.cat([near @ rounds[-1], far @ rounds[-1]], dim=1)
        if batch_norm:
            scale, shift = (
                parameters[f"{name}{number}"].normal_(generator=generator(number))[0, 0] for name in ("scale", "shift")
            )
            latest = torch.nn.functional.batch_norm(latest, None, None, scale, shift, training=True)
        rounds.append(latest)
    expected = torch.cat(rounds, dim=1) @ parameters["weight"][0]
    torch.testing.assert_close(logits(backbone, parameters, weighted), expected, rtol=1e-5, atol=1e-5)


def normalised(adjacency):
    degrees = adjacency.sum(axis=1)
    root = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1)), 0)
    return (root[:, None] * adjacency * root).astype(np.float32)


def test_mlp_does_not_see_the_edges(weighted):
    parameters = parameters_of(MLP(), 5)
    without = weighted.with_edges(weighted.edges[:, :0])
    assert torch.equal(logits(MLP(), parameters, weighted), logits(MLP(), parameters, without))


@pytest.mark.parametrize("backbone", [GCN(), GPRGNN(), H2GCN(), MLP()])
def test_sparse_and_dense_features_give_the_same(weighted, backbone):
    parameters = parameters_of(backbone, 5)
    sparse = as_graph(weighted, features=sp.csr_array(weighted.features))
    found = logits(backbone, parameters, sparse)
    torch.testing.assert_close(found, logits(backbone, parameters, weighted), rtol=1e-5, atol=1e-5)


def test_mostly_empty_features_are_multiplied_as_sparse_ones():
    features = np.eye(10, dtype=np.float32)
    graph = as_graph((np.zeros((2, 0)), 10), features=features)
    assert not isinstance(Features.of(graph, "cpu").matrix, torch.Tensor)
    weight = torch.randn(2, 10, 3, generator=generator())
    torch.testing.assert_close(Features.of(graph, "cpu").linear(weight, 0.0, None), weight)


@pytest.mark.parametrize("classes", [3, 40])
def test_linear_maps_and_their_gradients(classes):
    hidden = torch.randn(2, 20, 6, generator=generator(), requires_grad=True)
    weight = torch.randn(2, 6, classes, generator=generator(1), requires_grad=True)
    pull = torch.randn(2, 20, classes, generator=generator(2))
    found, expected = linear(hidden, weight), torch.einsum("snf,sfc->snc", hidden, weight)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    gradients = [torch.autograd.grad((one * pull).sum(), (hidden, weight)) for one in (found, expected)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [3, 40])
def test_all_seeds_are_propagated_as_each_alone(weighted, width):
    matrix = gcn_matrix(weighted, "cpu")
    hidden = torch.randn(4, 7, width, generator=generator())
    expected = torch.stack([dense_convolution(weighted) @ one for one in hidden])
    torch.testing.assert_close(propagate(matrix, hidden), expected, rtol=1e-5, atol=1e-5)


def test_dropout_leaves_the_mean_and_drops_its_share():
    mask = Noise([generator(0), generator(1)]).mask((200, 200), 0.3)
    assert mask.shape == (2, 200, 200)
    assert (mask == 0).float().mean() == pytest.approx(0.3, abs=0.01)
    assert mask.mean() == pytest.approx(1, abs=0.02)
    assert not torch.equal(mask[0], mask[1])
    assert torch.equal(mask[1], Noise([generator(1)]).mask((200, 200), 0.3)[0])
    assert Noise([generator(0)]).mask((5,), 1.0).max() == 0
    assert (Noise([generator(0)]).mask((7, 1001), 1e-7) == 0).float().mean() < 1e-3


# --- any module -------------------------------------------------------------------------------------------------------


class Weighted(torch.nn.Module):
    """A hand-written module: one round of weighted sums, with batch norm."""

    def __init__(self, features, classes):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(features)
        self.linear = torch.nn.Linear(features, classes)
        self.frozen = torch.nn.Parameter(torch.ones(1), requires_grad=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x, edges, weights):
        self.steps += self.training
        gathered = torch.zeros_like(x).index_add(0, edges[1], weights[:, None] * x[edges[0]])
        return self.frozen * self.linear(torch.dropout(self.norm(x + gathered), 0.5, self.training))


MODULES = {
    "PyG's GCN with batch norm": lambda f, c: models.GCN(f, 16, 2, c, dropout=0.5, norm="batch_norm"),
    "PyG's GAT": lambda f, c: models.GAT(f, 16, 2, c, dropout=0.3),
    "a single GATConv, which takes no weights": lambda f, c: GATConv(f, c, heads=1, dropout=0.3),
    "by hand": Weighted,
}


@pytest.mark.parametrize("build", MODULES.values(), ids=MODULES)
def test_any_module_is_trained_saved_and_loaded(blocks, build, tmp_path):
    before = torch.get_rng_state()
    together = train(TorchModule(build), blocks, seeds=(0, 1, 2), training=QUICK)
    (alone,) = train(TorchModule(build), blocks, seeds=(1,), training=QUICK)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(together[1].logits(), alone.logits())
    assert not torch.equal(together[0].logits(), together[1].logits())
    assert alone.accuracy() > 0.6

    alone.save(tmp_path / "model.npz")
    with pytest.raises(GraphError, match="give it as 'backbone'"):
        Predictor.load(tmp_path / "model.npz")
    loaded = Predictor.load(tmp_path / "model.npz", backbone=TorchModule(build))
    assert torch.equal(loaded.logits(), alone.logits())
    assert torch.equal(torch.get_rng_state(), before)


def test_buffers_are_updated_and_neither_learnt_nor_decayed(blocks):
    (one,) = train(
        TorchModule(Weighted), blocks, training=Training(epochs=7, weight_decay=0.5, patience=None, warmup=6)
    )
    own = {name: value for name, value in one.parameters.items() if name.startswith("buffer.own.")}
    assert own["buffer.own.steps"] == 7
    assert own["buffer.own.steps"].dtype == torch.long
    assert own["buffer.own.norm.num_batches_tracked"] == 7
    assert own["buffer.own.frozen"] == 1
    x = torch.from_numpy(blocks.features) + torch.from_numpy(blocks.adjacency @ blocks.features)
    np.testing.assert_allclose(own["buffer.own.norm.running_mean"], (1 - 0.9**7) * x.mean(dim=0), atol=1e-4)


def test_weights_reach_the_module_and_count(weighted):
    parameters = parameters_of(TorchModule(lambda f, c: models.GCN(f, 8, 2, c)), 5)
    ours = TorchModule(lambda f, c: models.GCN(f, 8, 2, c))
    unweighted = weighted.with_edges(weighted.edges)
    assert not torch.allclose(logits(ours, parameters, weighted), logits(ours, parameters, unweighted), atol=1e-3)
    model, data = models.GCN(5, 8, 2, 3), weighted.to_pyg()
    state = {n.removeprefix("learnt."): v[0] for n, v in parameters.items() if n.startswith("learnt.")}
    model.load_state_dict(state)
    expected = model.eval()(data.x, data.edge_index, data.edge_weight).detach()
    torch.testing.assert_close(logits(ours, parameters, weighted), expected, rtol=1e-5, atol=1e-5)


def test_a_layer_that_caches_the_edges_is_not_fooled_by_another_graph(weighted):
    inputs = "x, edge_index, edge_weight"
    backbone = TorchModule(lambda f, c: Sequential(inputs, [(GCNConv(f, c, cached=True), f"{inputs} -> x")]))
    parameters = parameters_of(backbone, 5)
    other = weighted.with_edges(weighted.edges)
    assert not torch.equal(logits(backbone, parameters, weighted), logits(backbone, parameters, other))


def test_modules_that_cannot_be_trained(blocks):
    with pytest.raises(ParameterError, match="without a shape"):
        train(TorchModule(lambda f, c: models.GCN(-1, 8, 2, c)), blocks, training=QUICK)
    with pytest.raises(ParameterError, match=r"shape \(120, 3\), a row for each node. Got \(120, 5\)"):
        train(TorchModule(lambda f, c: models.GCN(f, 8, 2, 5)), blocks, training=QUICK)


def test_a_module_reads_dense_numbers_of_nodes_without_features(blocks, monkeypatch):
    bare = Graph(blocks.adjacency)
    assert torch.equal(TorchModule(Weighted).prepare(bare, "cpu").x, torch.eye(120))
    monkeypatch.setattr("garnet.machine.physical_memory", lambda: 4 * 120**2 - 1)
    with pytest.raises(GraphError, match=r"^A dense matrix of 120 features, for a module, needs .* GB"):
        TorchModule(Weighted).prepare(bare, "cpu")


def test_a_module_on_a_graph_with_other_features(blocks, weighted):
    (one,) = train(TorchModule(Weighted), blocks, training=QUICK)
    with pytest.raises(GraphError, match="has 5 features, and the model was trained on 16;"):
        one.on(weighted)
