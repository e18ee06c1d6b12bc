"""What became of every edge, as a table."""

import pytest

from garnet import GARNET
from garnet.datasets import block_model


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
