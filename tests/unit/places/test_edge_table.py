"""The purified graph as a folder of Parquet files: the edges that the tiles have, each once, also after a stop."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from garnet import GARNET, OnDisk, as_graph
from garnet.datasets import block_model, load_graph
from garnet.errors import GarnetError, MissingExtra

arrow, dataset = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.dataset")
pytest.importorskip("pyarrow.parquet")
# Of this rank a dense solver finds the eigenvectors, which is quicker.
METHOD = GARNET(rank=90, k=4)
# The last two nodes have no edge, and nothing else is known of them.
GRAPH = as_graph((block_model(300, mean_degree=8, seed=1).edges, 302), symmetrize=True)
OTHER = block_model(280, mean_degree=8, seed=2)


def purify(output, graph=GRAPH, *, overwrite=False, progress=None):
    place = OnDisk(memory="1GiB", parts=3, output=output, overwrite=overwrite)
    return METHOD.purify(graph, place=place, progress=progress)


@pytest.fixture(scope="module")
def expected():
    return purify(None).graph


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return purify(tmp_path_factory.mktemp("table") / "clean.parquet").graph


def read(folder):
    return dataset.dataset(folder, format="parquet").to_table()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def as_dictionary(table):
    pairs = zip(table["source"].to_pylist(), table["target"].to_pylist(), strict=True)
    return dict(zip(pairs, table["weight"].to_pylist(), strict=True))


def test_a_table_has_every_edge_of_the_graph_once(table, expected):
    found = read(table.folder)
    assert found.schema.names == ["source", "target", "weight"]
    assert found.schema.types == [arrow.int64(), arrow.int64(), arrow.float32()]
    edges = as_dictionary(found)
    assert len(edges) == found.num_rows == table.num_edges == expected.num_edges
    weights = np.asarray(expected.adjacency[expected.edges[0], expected.edges[1]]).ravel()
    assert edges == dict(zip(map(tuple, expected.edges.T.tolist()), weights.tolist(), strict=True))


def test_the_files_are_written_part_by_part_and_nothing_else_is_left(table):
    parts = {f"part-0000{i}.parquet" for i in range(3)}
    assert {path.name for path in table.folder.iterdir()} == {*parts, "_garnet.json"}
    assert {path.name for path in table.folder.parent.iterdir()} == {table.folder.name}


def test_nodes_without_edges_are_not_lost(table, expected):
    assert not expected.degrees[-2:].any()
    assert read(table.folder).schema.metadata[b"garnet:num_nodes"] == b"302"
    assert table.num_nodes == table.to_graph().num_nodes == 302
    assert (table.to_graph().adjacency != expected.adjacency).nnz == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what one of them says of the other
@pytest.mark.parametrize("library", ["pandas", "dask.dataframe"])
def test_other_libraries_read_the_folder_as_one_table(table, library):
    found = pytest.importorskip(library).read_parquet(table.folder)
    found = found.compute() if library.startswith("dask") else found
    edges = dict(zip(zip(found["source"], found["target"], strict=True), found["weight"], strict=True))
    assert edges == as_dictionary(read(table.folder))


@pytest.mark.parametrize("named", [lambda node: 10**12 + 7 * node, lambda node: f"node {node}"], ids=["number", "text"])
def test_nodes_keep_the_names_that_they_have(named, expected, tmp_path):
    names = np.array([named(node) for node in range(302)])
    table = purify(tmp_path / "named.parquet", as_graph(GRAPH, names=names)).graph
    found = read(table.folder)
    assert set(as_dictionary(found)) == {(named(u), named(v)) for u, v in expected.edges.T.tolist()}
    assert b"garnet:num_nodes" not in (found.schema.metadata or {})
    known = table.to_graph()
    assert {frozenset(known.names[edge]) for edge in known.edges.T} == set(map(frozenset, as_dictionary(found)))


def stop(detail, done):
    """Stops a run as a key does, when some tasks of a step are done."""

    def progress(step):
        if (step.detail, step.done) == (detail, done):
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("at", [("search", 2), ("score", 2), ("write", 2)])
def test_a_run_that_was_stopped_shows_no_table_and_goes_on_to_the_same_bytes(table, tmp_path, at):
    output = tmp_path / "clean.parquet"
    with pytest.raises(KeyboardInterrupt):
        purify(output, progress=stop(*at))
    assert not output.exists()
    purify(output)
    assert contents(output) == contents(table.folder)


def test_a_run_that_was_stopped_while_files_were_moved_to_their_place_goes_on(table, tmp_path, monkeypatch):
    output, link = tmp_path / "clean.parquet", os.link
    purify(output, OTHER)
    (output / "notes.txt").write_text("mine")  # so that files are exchanged one by one

    def stopped(source, target):
        if Path(target) == output / "part-00001.parquet":
            raise KeyboardInterrupt
        return link(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", stopped)
        with pytest.raises(KeyboardInterrupt):
            purify(output, overwrite=True)
    assert (output / "part-00000.parquet").exists()
    purify(output, overwrite=True)
    assert contents(output) == {**contents(table.folder), "notes.txt": b"mine"}
    assert {path.name for path in tmp_path.iterdir()} == {"clean.parquet"}


def test_a_finished_table_is_had_again_by_the_same_call_and_replaced_only_when_told(table, tmp_path):
    output = tmp_path / "clean.parquet"
    purify(output)
    before, begun = contents(output), []
    again = purify(output, progress=begun.append)
    assert again.done_before
    assert not begun
    assert (again.ledger.counts, again.graph.num_edges) == (purify(None).ledger.counts, table.num_edges)
    with pytest.raises(GarnetError, match=r"clean.parquet holds a finished graph; choose another"):
        purify(output, OTHER)
    assert contents(output) == before
    purify(output, OTHER, overwrite=True)
    assert contents(output) != before


def test_a_file_in_the_place_of_a_table_is_not_overwritten(tmp_path):
    (tmp_path / "one.parquet").write_text("mine")
    with pytest.raises(GarnetError, match=r"one.parquet: it is a file, and the result is a folder"):
        purify(tmp_path / "one.parquet")
    assert (tmp_path / "one.parquet").read_text() == "mine"


def test_what_a_table_cannot_hold_is_said(tmp_path):
    graph = as_graph(GRAPH, features=np.ones((302, 2)), labels=np.zeros(302, int))
    assert purify(tmp_path / "clean.parquet", graph).graph.left_out == ("features", "labels")


def test_without_pyarrow_nothing_is_begun(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'pygarnet\[parquet\]'"):
        purify(tmp_path / "clean.parquet")
    assert not (tmp_path / "clean.parquet").exists()


def written(path, **columns):
    arrow.parquet.write_table(arrow.table(columns), path)
    return path


def test_the_index_that_pandas_writes_is_no_weight(tmp_path):
    path = written(tmp_path / "list.parquet", source=[5, 6, 7], target=[6, 7, 8], __index_level_0__=[0, 4, 9])
    graph = load_graph(path)
    assert graph.num_edges == 3
    assert (graph.weights == 1).all()


def test_names_that_are_texts_stay_texts(tmp_path):
    path = written(tmp_path / "list.parquet", source=["01", "1", "3"], target=["2", "2", "1"])
    graph = load_graph(path)
    assert graph.names.tolist() == ["01", "1", "2", "3"]
    assert graph.num_edges == 3
