"""What became of every edge, as a table."""

import numpy as np
import pytest

from garnet import GARNET, as_graph
from garnet.datasets import block_model
from garnet.defenses import FeatureKNN, Jaccard
from garnet.purify.tables import ledger_table


def test_a_ledger_is_written_as_a_table_of_all_edges(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    result = GARNET(rank=4, k=5).purify(block_model(200, classes=4, seed=0))
    result.ledger.to_parquet(tmp_path / "ledger.parquet")
    table = parquet.read_table(tmp_path / "ledger.parquet")
    status = table["status"].to_pylist()
    counts = result.ledger.counts
    assert {word: status.count(word) for word in counts} == counts
    kept = [word == "kept" for word in status]
    assert table["source"].to_numpy()[kept].tolist() == result.ledger.kept[0].tolist()
    assert table["target"].to_numpy()[kept].tolist() == result.ledger.kept[1].tolist()
    assert table["score"].to_numpy()[kept].tolist() == result.ledger.kept_scores.tolist()


def paid():
    rows = [(f"a{number}", f"a{(number + step) % 30}", 1.0) for number in range(30) for step in (1, 2, 3)]
    return as_graph([*rows, ("a0", "a15", 1.0), ("a4", "<b>lone</b>", 1.0)], symmetrize=True)


def test_a_data_frame_of_the_ledger_calls_nodes_by_their_names():
    pytest.importorskip("pandas")
    graph = paid()
    result = GARNET(rank=6, k=4).purify(graph)
    frame = result.ledger.to_pandas()
    assert frame["status"].value_counts().to_dict() == {
        word: count
        for word, count in zip(("kept", "dropped", "new"), result.ledger.counts.values(), strict=True)
        if count
    }
    table = ledger_table(graph, result)
    for name in frame.columns:
        np.testing.assert_array_equal(frame[name].to_numpy(), table[name])
    assert {"a0", "<b>lone</b>"} <= set(frame["source"]) | set(frame["target"])
    given = frame["status"] != "new"
    assert frame["trust"][~given].isna().all()


@pytest.mark.parametrize("purifier", [Jaccard(), FeatureKNN(k=3)])
def test_the_ledger_of_any_purifier_has_names(purifier):
    graph = as_graph(paid(), features=np.eye(31, dtype=np.float32) + 0.1)
    assert set(purifier.purify(graph).ledger.table()["source"]) <= set(graph.names)


def test_a_ledger_of_unnamed_nodes_has_numbers():
    graph = block_model(60, classes=3, seed=0)
    table = GARNET(rank=4, k=3).purify(graph).ledger.table()
    assert table["source"].dtype.kind == "i"
    assert (table["source"] < table["target"]).all()


def test_without_pandas_the_cure_is_said(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install 'pandas'"):
        GARNET(rank=4, k=3).purify(block_model(60, classes=3, seed=0)).ledger.to_pandas()


def test_a_notebook_shows_graph_result_and_ledger_as_tables():
    graph = as_graph(paid(), names=np.array([f"<i>{number}</i>" for number in range(31)]))
    result = GARNET(rank=6, k=4).purify(graph)
    for shown in (graph._repr_html_(), result._repr_html_(), result.ledger._repr_html_()):
        assert shown.startswith("<table>")
        assert "<i>" not in shown
    assert f"<td>{graph.num_edges}</td>" in graph._repr_html_()
    assert f"<td>{result.ledger.counts['dropped']}</td>" in result.ledger._repr_html_()
