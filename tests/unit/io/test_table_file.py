import csv

import numpy as np
import pytest

from garnet.errors import GarnetError
from garnet.io.table_file import save_table


def columns(n):
    rng = np.random.default_rng(0)
    label = np.ma.masked_less(rng.integers(-1, 3, n), 0)
    return {"node": np.array([f'a "{i}", b' for i in range(n)]), "share": rng.random(n), "label": label}


@pytest.mark.parametrize("n", [0, 1, 40_000])
def test_a_file_has_every_row_and_nothing_where_nothing_is_known(tmp_path, n):
    given = columns(n)
    save_table(given, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head == list(given)
    assert [row[0] for row in rows] == given["node"].tolist()
    np.testing.assert_allclose([float(row[1]) for row in rows], given["share"], rtol=1e-5)
    assert [int(row[2]) if row[2] else None for row in rows] == given["label"].tolist()


def test_parquet_has_the_same(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    given = columns(1000)
    save_table(given, tmp_path / "table.parquet")
    read = parquet.read_table(tmp_path / "table.parquet").to_pydict()
    assert read == {name: column.tolist() for name, column in given.items()}


def test_columns_of_two_lengths_leave_no_file_behind(tmp_path):
    with pytest.raises(ValueError, match="shorter"):
        save_table({"a": np.arange(3), "b": np.arange(2)}, tmp_path / "table.csv")
    assert list(tmp_path.iterdir()) == []


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(GarnetError, match=r"a \.csv or a \.parquet file\. Got 'table\.xlsx'"):
        save_table({}, tmp_path / "table.xlsx")
