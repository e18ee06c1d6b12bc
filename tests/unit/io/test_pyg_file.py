import os

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from garnet import as_graph, load_graph
from garnet.datasets import block_model, random_split
from garnet.errors import GraphError


@pytest.fixture
def graph():
    bare = block_model(60, classes=3, seed=1)
    return as_graph(bare, features=torch.randn(60, 4).numpy(), split=random_split(bare.labels, seed=0))


@pytest.mark.parametrize("form", ["data", "dict", "dataset"])
def test_a_data_comes_back_with_features_labels_and_masks(graph, tmp_path, form):
    data = graph.to_pyg()
    saved = {"data": data, "dict": data.to_dict(), "dataset": (data.to_dict(), None)}[form]
    torch.save(saved, tmp_path / "mine.pt")
    assert load_graph(tmp_path / "mine.pt") == graph


def test_a_directed_data_is_refused_until_symmetrised(tmp_path):
    torch.save(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3), tmp_path / "mine.pt")
    with pytest.raises(GraphError, match="symmetr"):
        load_graph(tmp_path / "mine.pt")
    assert load_graph(tmp_path / "mine.pt", symmetrize=True).num_edges == 2


class Evil:
    def __reduce__(self):
        return os.system, ("touch hacked",)


def test_nothing_in_the_file_is_run(graph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = graph.to_pyg()
    data.extra = Evil()
    torch.save(data, "mine.pt")
    with pytest.raises(GraphError, match="could run code"):
        load_graph("mine.pt")
    assert not (tmp_path / "hacked").exists()


def test_other_things_get_one_sentence(tmp_path):
    torch.save(torch.ones(3), tmp_path / "tensor.pt")
    with pytest.raises(GraphError, match="it holds a Tensor where a Data is wanted"):
        load_graph(tmp_path / "tensor.pt")
    torch.save(HeteroData(), tmp_path / "hetero.pt")
    with pytest.raises(GraphError, match="Cannot read"):
        load_graph(tmp_path / "hetero.pt")
    (tmp_path / "text.pt").write_text("no such thing")
    with pytest.raises(GraphError, match="Cannot read"):
        load_graph(tmp_path / "text.pt")
    torch.save(Data(x=torch.ones(3, 1)), tmp_path / "bare.pt")
    with pytest.raises(GraphError, match="edge_index"):
        load_graph(tmp_path / "bare.pt")
    whole = (tmp_path / "bare.pt").read_bytes()
    (tmp_path / "half.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(GraphError, match="Cannot read"):
        load_graph(tmp_path / "half.pt")


def test_a_pt_file_is_not_written(graph, tmp_path):
    with pytest.raises(GraphError, match=r"\.pt"):
        graph.save(tmp_path / "mine.pt")
