"""Rows of a table up to some time: those that came later say nothing."""

import csv
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from garnet import as_graph, load_graph
from garnet.errors import GraphError, ParameterError
from garnet.graph.graph import read_graph
from garnet.io.table_layout import TableOptions
from garnet.io.times import Before

DAYS = ["2024-01-01", "2024-01-02T12:00", "2024-01-03", "2024-02-01", "2024-03-01T00:00:01"]
ROWS = [(day, f"a{i}", f"b{i}", i + 1) for i, day in enumerate(DAYS)]
NAMED = {"source": "payer", "target": "payee", "weight": "amount", "time": "day"}


def frame():
    return pd.DataFrame(ROWS, columns=["day", "payer", "payee", "amount"])


def made(kind, folder):
    """The same table in many forms."""
    if kind == "csv":
        frame().to_csv(folder / "t.csv", index=False)
        return folder / "t.csv"
    if kind == "texts in Parquet":
        frame().to_parquet(folder / "t.parquet")
        return folder / "t.parquet"
    dated = frame().assign(day=lambda table: pd.to_datetime(table.day, format="ISO8601"))
    if kind == "dates in Parquet":
        dated.to_parquet(folder / "d.parquet")
        return folder / "d.parquet"
    zoned = dated.assign(day=dated.day.dt.tz_localize("UTC"))
    return {"texts": frame(), "dates": dated, "zones": zoned, "polars": pl.from_pandas(dated)}[kind]


@pytest.mark.parametrize("kind", ["csv", "texts in Parquet", "dates in Parquet", "texts", "dates", "zones", "polars"])
@pytest.mark.parametrize(
    ("before", "rows"), [("2024-01-03", 2), ("2024-03-01", 4), ("2025-01-01", 5), ("2024-01-02T12:00:01", 2)]
)
def test_rows_from_a_time_on_are_left_out(tmp_path, kind, before, rows):
    graph, report = read_graph(made(kind, tmp_path), TableOptions(**NAMED, before=before))
    assert sorted(graph.weights.tolist()) == list(range(1, rows + 1))
    assert graph.num_nodes == 2 * rows
    assert ("later" in str(report)) == (rows < 5)


@pytest.mark.parametrize("before", [date(2024, 1, 3), datetime(2024, 1, 3), np.datetime64("2024-01-03")])
def test_a_time_may_be_a_date_of_python_or_numpy(before):
    assert as_graph(frame(), **NAMED, before=before).num_edges == 2


def test_zones_count():
    limit = Before("2024-01-01T12:00+02:00")
    assert limit.mask(["2024-01-01T10:00", "2024-01-01T09:59", "2024-01-01T10:59+01:00"]).tolist() == [
        False, True, True,
    ]  # fmt: skip


@given(st.lists(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), min_size=1), st.data())
def test_text_and_numpy_agree_with_comparing_dates(times, data):
    limit = data.draw(st.sampled_from(times))
    expected = [one < limit for one in times]
    assert Before(limit.isoformat()).mask([one.isoformat() for one in times]).tolist() == expected
    assert Before(limit).mask(np.array(times, "datetime64[us]")).tolist() == expected
    stamps = [one.replace(tzinfo=UTC).timestamp() for one in times]
    assert Before(limit.replace(tzinfo=UTC).timestamp()).mask(stamps).tolist() == expected


def test_a_column_of_times_leaves_no_doubt_about_the_others(tmp_path):
    (tmp_path / "t.csv").write_text("when,one,other\n3,a,b\n1,b,c\n2,a,c\n")
    graph = load_graph(tmp_path / "t.csv", time="when", before=3)
    assert graph.names.tolist() == ["a", "b", "c"]
    assert graph.num_edges == 2


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"before": "2024-01-01", "time": None}, ParameterError, "give the column of times"),
        ({"before": "soon"}, ParameterError, "Got 'soon'"),
        ({"before": float("nan")}, ParameterError, "Got nan"),
        ({"before": 7}, GraphError, "'2024-01-01', which is not a number, as 7 is"),
        ({"before": "2024-01-01", "time": "note"}, GraphError, "'', which is not a date"),
        ({"time": "payer"}, GraphError, "cannot be the time"),
        ({"time": "amount"}, GraphError, "cannot be the time"),
    ],
)
def test_what_is_no_time_is_said(tmp_path, options, error, message):
    frame().assign(note="").to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(error, match=message):
        load_graph(tmp_path / "t.csv", **{**NAMED, **options})
    with pytest.raises(error, match=message):
        as_graph(frame().assign(note=""), **{**NAMED, **options})


def test_a_missing_time_is_named_with_its_row():
    table = frame().assign(day=lambda table: pd.to_datetime(table.day, format="ISO8601"))
    table.loc[3, "day"] = None
    with pytest.raises(GraphError, match=r"'day' has the time .* in row 3"):
        as_graph(table, **NAMED, before="2024-02-02")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_written_tables_keep_the_time_of_the_first_row(command, tmp_path, ending):
    rng = np.random.default_rng(0)
    pairs = np.sort(rng.integers(150, size=(400, 2)), axis=1)
    table = pd.DataFrame({"one": pairs[:, 0], "other": pairs[:, 1], "day": pd.date_range("2024-01-01", periods=400)})
    table = table[table.one != table.other]
    path = tmp_path / f"in.{ending}"
    table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
    named = ("--source", "one", "--target", "other", "--time", "day", "--before", "2024-09-01")
    out, ledger = tmp_path / "out.csv", tmp_path / "ledger.csv"
    status, _, said = command("purify", path, *named, "-o", out, "--k", 3, "--support", 0.3, "--ledger", ledger)
    assert status == 0, said
    first = {(row.one, row.other): row.day for row in table[::-1].itertuples()}
    for file in (out, ledger):
        with file.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        assert {row["status"] for row in rows} >= {"kept", "new"}
        for row in rows:
            edge = int(row["source"]), int(row["target"])
            assert (pd.Timestamp(row["time"]) == first[edge]) if row["status"] != "new" else row["time"] == ""


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_that_came_later_are_not_written(command, tmp_path, ending):
    rng = np.random.default_rng(0)
    pairs = np.sort(rng.integers(60, size=(300, 2)), axis=1)
    table = pd.DataFrame({"one": pairs[:, 0], "other": pairs[:, 1] + 60, "at": np.arange(300)})
    table.loc[299, "one"] = 1_000  # a node that is not in the graph
    path, out = tmp_path / f"in.{ending}", tmp_path / f"out.{ending}"
    table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
    named = ("--source", "one", "--target", "other", "--time", "at", "--before", "200")
    status, _, said = command("purify", path, *named, "-o", out, "--only-drop", "--support", 0.3)
    assert status == 0, said
    written = pd.read_csv(out) if ending == "csv" else pd.read_parquet(out)
    assert 0 < len(written) < 200
    assert written["at"].max() < 200
