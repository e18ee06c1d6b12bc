import hashlib
from importlib.resources import files

import numpy as np
import pytest
import scipy.sparse as sp

from garnet import load_graph
from garnet.datasets import cora


def test_cora_has_the_size_that_papers_report():
    graph = cora()
    assert (graph.num_nodes, graph.num_edges) == (2485, 5069)
    assert graph.features.shape == (2485, 1433)
    assert set(np.unique(graph.features.data)) == {1.0}
    assert np.bincount(graph.labels).tolist() == [285, 406, 726, 379, 214, 131, 344]
    assert graph.homophily == pytest.approx(0.804, abs=1e-3)
    assert set(graph.weights) == {1.0}
    assert sp.csgraph.connected_components(graph.adjacency)[0] == 1


def test_cora_says_where_it_comes_from():
    folder = files("garnet.datasets")
    with np.load(folder / "cora.npz", allow_pickle=False) as arrays:
        provenance = arrays["provenance"].item()
    assert "graphdatascience 2.2 (Apache-2.0)" in provenance
    assert provenance.count("sha256") == 2
    assert "Apache License" in (folder / "NOTICE").read_text()


def test_cora_is_the_file_that_the_script_makes():
    content = (files("garnet.datasets") / "cora.npz").read_bytes()
    assert len(content) < 150_000
    assert hashlib.sha256(content).hexdigest() == "61e8e4d398263fe86684a4b2ccbcd7588754bec3284b61469e5c8a748f92e4c8"


def test_cora_equals_the_file_of_the_gnn_benchmark_collection(data_folder):
    assert cora() == load_graph(data_folder / "cora" / "cora_lcc.npz")


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.15, 0.2, 0.25])
def test_published_metattack_graphs_fit(data_folder, rate):
    poisoned = load_graph(data_folder / "cora" / f"cora_meta_adj_{rate}.npz")
    flips = (poisoned.adjacency != cora().adjacency).nnz // 2
    assert flips == int(rate * 5069)


def test_published_nettack_graphs_fit(data_folder):
    poisoned = load_graph(data_folder / "cora" / "cora_nettack_adj_1.0.npz")
    assert (poisoned.adjacency != cora().adjacency).nnz // 2 == 83


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "classes"),
    [
        ("citeseer/citeseer_lcc.npz", 2110, 3668, 6),
        ("pubmed/pubmed.npz", 19717, 44324, 3),
        ("chameleon/chameleon_full.npz", 2277, 31371, 5),
    ],
)
def test_other_graphs_of_the_field_are_read(data_folder, name, nodes, edges, classes):
    graph = load_graph(data_folder / name)
    assert (graph.num_nodes, graph.num_edges, graph.labels.max() + 1) == (nodes, edges, classes)
