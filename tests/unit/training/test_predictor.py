import io
import json
import zipfile
from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from garnet import as_graph, load_graph
from garnet.backbones import GCN, GPRGNN, H2GCN, MLP
from garnet.datasets import contextual_block_model, random_split
from garnet.errors import GraphError
from garnet.graph.provenance import Provenance
from garnet.training.loop import Training, train
from garnet.training.predictor import Predictor


@pytest.fixture(scope="module")
def graph():
    graph = contextual_block_model(120, classes=3, features=8, signal=2.0, seed=2)
    return as_graph(graph, split=random_split(graph.labels, seed=0), names=np.arange(120) + 1000)


def fitted(graph, backbone=None):
    return train(backbone or GCN(hidden=np.int64(8)), graph, seeds=(5,), training=Training(epochs=10))[0]


@pytest.fixture(scope="module")
def predictor(graph):
    return fitted(graph)


# --- what it says -----------------------------------------------------------------------------------------------------


def test_predictions_accuracy_and_confusion_agree(graph, predictor):
    test, labels = graph.split.test, graph.labels
    predictions = predictor.predictions()
    np.testing.assert_array_equal(predictions, predictor.logits().argmax(dim=1))
    assert predictor.accuracy() == (predictions[test] == labels[test]).mean()
    confusion = predictor.confusion()
    assert confusion.sum() == len(test)
    assert np.trace(confusion) / len(test) == pytest.approx(predictor.accuracy())
    np.testing.assert_array_equal(confusion.sum(axis=1), np.bincount(labels[test], minlength=3))
    np.testing.assert_array_equal(confusion.sum(axis=0), np.bincount(predictions[test], minlength=3))
    assert predictor.accuracy(test[:1]) in (0, 1)
    assert predictor.confusion(np.arange(120)).sum() == 120


def test_nodes_without_a_label_do_not_count(graph, predictor):
    labels = graph.labels.copy()
    labels[graph.split.test[:5]] = -1
    some = replace(predictor, graph=as_graph(graph, labels=labels))
    assert some.confusion().sum() == len(graph.split.test) - 5
    with pytest.raises(GraphError, match="at least one test node with a label"):
        some.accuracy(graph.split.test[:5])
    with pytest.raises(GraphError, match="needs labels and test nodes"):
        replace(predictor, graph=replace(graph, split=None)).accuracy()


def test_in_a_notebook_it_is_a_small_table_without_tensors(graph, predictor):
    @dataclass(frozen=True)
    class Named(GCN):
        pass

    Named.__name__ = "<script>"
    for one in (
        predictor,
        replace(predictor, backbone=Named()),
        Predictor(replace(graph, labels=None), torch.ones(120, 3)),
    ):
        for text in (repr(one), one._repr_html_()):
            assert len(text) < 1000
            assert "tensor" not in text
            assert "<script>" not in text or text.startswith("Predictor")
    assert f"{predictor.accuracy():.1%}" in predictor._repr_html_()
    assert f"{predictor.accuracy():.1%}" in repr(predictor)


def test_the_same_model_on_another_graph(graph, predictor):
    assert torch.equal(predictor.on(graph).logits(), predictor.logits())
    other = contextual_block_model(50, classes=3, features=8, signal=2.0, seed=2)
    elsewhere = predictor.on(other)
    assert elsewhere.graph is other
    assert elsewhere.logits().shape == (50, 3)
    assert torch.equal(predictor.logits(), fitted(graph).logits())
    lonely = graph.with_edges(graph.edges[:, :0])
    assert not torch.allclose(predictor.on(lonely).logits(), predictor.logits(), atol=1e-3)
    with pytest.raises(GraphError, match="has 9 features, and the model was trained on 8;"):
        predictor.on(contextual_block_model(50, features=9, seed=2))
    with pytest.raises(GraphError, match="has no features, and the model was trained on 8;"):
        predictor.on(replace(graph, features=None))
    sparse = fitted(as_graph(graph, features=sp.csr_array(graph.features)))
    with pytest.raises(GraphError, match="has 7 features"):
        sparse.on(as_graph(graph, features=sp.csr_array(graph.features[:, :7])))


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "backbone", [GCN(layers=3, hidden=8, batch_norm=True, residual=True), GPRGNN(hops=3), H2GCN(rounds=1), MLP()]
)
def test_what_is_saved_comes_back_bit_by_bit(graph, backbone, tmp_path):
    one = train(backbone, graph, seeds=(0, 5, 7), training=Training(epochs=10))[1]
    one.save(tmp_path / "model.npz")
    back = Predictor.load(tmp_path / "model.npz")
    assert back.backbone == backbone
    assert back.graph == graph
    assert torch.equal(back.logits(), one.logits())
    assert back.parameters.keys() == one.parameters.keys()
    assert all(torch.equal(back.parameters[name], one.parameters[name]) for name in one.parameters)
    assert (back.seed, back.epoch, back.val_accuracy) == (5, one.epoch, one.val_accuracy)
    assert load_graph(tmp_path / "model.npz") == graph


def test_a_file_says_where_its_model_came_from_and_an_old_one_may_not(predictor, tmp_path):
    path = tmp_path / "model.npz"
    predictor.save(path, command="garnet train graph.npz -o model.npz")
    back = Predictor.load(path)
    assert back.made == Provenance.here("garnet train graph.npz -o model.npz", graph=predictor.graph)
    assert back.stages == predictor.stages
    back.save(path, command="another")
    assert Predictor.load(path).made == back.made
    with np.load(path) as archive:
        old = json.loads(archive["model"].tobytes())
    old = {name: value for name, value in old.items() if name not in ("stages", "made")}
    rewritten(path, model=np.frombuffer(json.dumps(old).encode(), dtype=np.uint8))
    opened = Predictor.load(path)
    assert torch.equal(opened.logits(), predictor.logits())
    assert opened.stages == ()
    assert opened.made == Provenance(
        command="", fingerprints={"graph": predictor.graph.fingerprint}, versions={}, machine={}
    )


def test_predictions_of_no_model_cannot_be_saved(graph, tmp_path):
    with pytest.raises(GraphError, match="no model that could be saved"):
        Predictor(graph, torch.zeros(120, 3)).save(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


def test_a_model_goes_into_an_npz_file(predictor, tmp_path):
    with pytest.raises(GraphError, match=r"an \.npz file\. Got .*model\.csv"):
        predictor.save(tmp_path / "model.csv")


@pytest.fixture
def saved(predictor, tmp_path):
    predictor.save(tmp_path / "model.npz")
    return tmp_path / "model.npz"


def rewritten(path, **changes):
    """The same file with some arrays replaced, or left out where they are None."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays = {name: value for name, value in (arrays | changes).items() if value is not None}
    np.savez(path, **arrays)


def described(path, **changes):
    with np.load(path) as archive:
        description = json.loads(archive["model"].tobytes())
    rewritten(path, model=np.frombuffer(json.dumps(description | changes).encode(), dtype=np.uint8))


def test_a_graph_without_a_model(graph, tmp_path):
    graph.save(tmp_path / "graph.npz")
    with pytest.raises(GraphError, match=r"Cannot read a model from .*: it holds a graph but no model\."):
        Predictor.load(tmp_path / "graph.npz")
    with pytest.raises(GraphError, match="no such file"):
        Predictor.load(tmp_path / "nothing.npz")


def test_a_damaged_file(saved):
    whole = saved.read_bytes()
    for length in (10, len(whole) // 2, len(whole) - 1):
        saved.write_bytes(whole[:length])
        with pytest.raises(GraphError, match=r"model\.npz"):
            Predictor.load(saved)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"backbone": "gnc"}, "There is no backbone named 'gnc'. Did you mean gcn"),
        ({"backbone": ["gcn"]}, "description of the model is damaged"),
        ({"backbone": None}, "give it as 'backbone'"),
        ({"made": {"command": "garnet train"}}, "description of the model is damaged"),
        ({"stages": [{"name": "train", "seconds": float("nan"), "peak_bytes": 0}]}, "of the model is damaged"),
        ({"backbone": "h2gcn", "parameters": {}}, "do not fit"),
        ({"parameters": {"hiden": 3}}, "Did you mean hidden"),
        ({"parameters": {"layers": 4}}, "do not fit"),
        ({"parameters": {"layers": "two"}}, "The 'layers' parameter of GCN must be an integer >= 1"),
        ({"backbone": "rung", "parameters": {"lambda_hat": 0}}, "The 'lambda_hat' parameter of RUNG must be above 0"),
        (
            {"backbone": "gnnguard", "parameters": {"backbone": {"parameters": {}}}},
            "description of the model is damaged",
        ),
        ({"backbone": "gnnguard", "parameters": {"backbone": "gcn"}}, "The 'backbone' parameter of GNNGuard must be"),
        ({"backbone": "gprgnn", "parameters": {}}, "do not fit"),
        ({"parameters": [1]}, "description of the model is damaged"),
        ({"seed": "five"}, "description of the model is damaged"),
        ({"epoch": None}, "description of the model is damaged"),
    ],
)
def test_a_description_somebody_changed(saved, changes, sentence):
    described(saved, **changes)
    with pytest.raises(GraphError, match=f"Cannot read a model from .*{sentence}"):
        Predictor.load(saved)


def test_a_description_that_would_fill_the_memory(graph, tmp_path):
    fitted(graph, H2GCN(rounds=1)).save(tmp_path / "model.npz")
    described(tmp_path / "model.npz", parameters={"rounds": 12})
    with pytest.raises(GraphError, match="H2GCN of 12 rounds needs"):
        Predictor.load(tmp_path / "model.npz")


def test_descriptions_that_are_none(saved):
    for text in (b"", b"[" * 60_000, b"\xff\xfe", b"[]", b"{}"):
        rewritten(saved, model=np.frombuffer(text, dtype=np.uint8))
        with pytest.raises(GraphError, match="description of the model is damaged"):
            Predictor.load(saved)
    rewritten(saved, model=np.zeros(1 << 21, dtype=np.uint8))
    with pytest.raises(GraphError, match="absurdly long"):
        Predictor.load(saved)
    rewritten(saved, model=np.zeros(8))
    with pytest.raises(GraphError, match="'model' has dtype float64"):
        Predictor.load(saved)


def test_weights_somebody_changed(saved):
    for changes in (
        {"weight_weight0": None},
        {"weight_weight0": np.zeros((2, 2), np.float32)},
        {"weight_bias1": np.zeros(0, np.float64)},
        {"weight_weight1": np.zeros((8, 3), np.int64)},
    ):
        original = saved.read_bytes()
        rewritten(saved, **changes)
        with pytest.raises(GraphError, match="do not fit"):
            Predictor.load(saved)
        saved.write_bytes(original)


class Trap:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("member", ["model", "weight_weight0", "adj_data"])
def test_nothing_is_unpickled(saved, tmp_path, member):
    sprung = tmp_path / "sprung"
    trap = io.BytesIO()
    np.save(trap, np.array([Trap(str(sprung))], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members[f"{member}.npy"] = trap.getvalue()
    with zipfile.ZipFile(saved, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(GraphError, match="holds Python objects"):
        Predictor.load(saved)
    assert not sprung.exists()


@dataclass(frozen=True)
class Mine(MLP):
    """A backbone that the library does not know."""


def test_a_backbone_of_one_s_own_is_given_again(graph, tmp_path):
    one = fitted(graph, Mine(hidden=8))
    one.save(tmp_path / "model.npz")
    with pytest.raises(GraphError, match="not one of the library's own; give it as 'backbone'"):
        Predictor.load(tmp_path / "model.npz")
    assert torch.equal(Predictor.load(tmp_path / "model.npz", backbone=Mine(hidden=8)).logits(), one.logits())
