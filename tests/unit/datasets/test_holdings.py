"""What is here of the catalogue, and getting what is not."""

import pytest

from garnet.datasets import block_model, load, names
from garnet.datasets.holdings import holding, holdings


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder, and an empty cache."""
    monkeypatch.setenv("GARNET_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("GARNET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "data"


def test_what_is_here_is_what_can_be_loaded_without_a_network(folder):
    (folder / "polblogs").mkdir(parents=True)
    path = folder / "polblogs" / "polblogs.npz"
    block_model(60, classes=2, mean_degree=5, seed=0).save(path)
    (folder / "polblogs" / "polblogs_meta_adj_0.2.npz").touch()
    (folder / "polblogs" / "polblogs_nettack_adj_5.0.npz").touch()
    assert [one.name for one in holdings()] == list(names())
    assert {one.name for one in holdings() if one.is_here} == {"cora", "polblogs"}
    one = holding("polblogs")
    assert (one.path, one.attacks) == (path, {"metattack": "0.2", "nettack": "5"})
    assert one.split.startswith("prognn, not here")


def test_the_catalogue_knows_the_sizes_of_its_graphs(data_folder, monkeypatch, tmp_path):
    monkeypatch.setenv("GARNET_DATA", str(data_folder))
    monkeypatch.setenv("GARNET_CACHE", str(tmp_path))
    for name in ("cora", "citeseer", "chameleon", "polblogs", "acm", "uai", "texas"):
        if holding(name).is_here:
            graph = load(name)
            assert (graph.num_nodes, graph.num_edges) == (holding(name).nodes, holding(name).edges)


def test_the_list_of_graphs(folder, command):
    status, out, _ = command("data", "list")
    assert status == 0
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert set(names()) <= lines.keys()
    assert "19,717" in lines["pubmed"]
    assert "garnet data fetch pubmed" in lines["pubmed"]
    assert "in the library" in lines["cora"]


def test_what_is_not_downloaded_is_one_sentence(folder, command):
    for name, said in (("acm", "github.com"), ("ogbn-arxiv", "ogb.stanford.edu"), ("coro", "Did you mean cora")):
        status, _, err = command("data", "fetch", name)
        assert (status, said in err, len(err.splitlines())) == (1, True, 1)
    status, _, err = command("data", "fetch", "cora")
    assert (status, "cora is here already" in err) == (0, True)
    # A name that is not known stops all of them, before any download.
    assert command("data", "fetch", "pubmed", "coro")[0] == 1
    assert not (folder.parent / "cache").exists()
