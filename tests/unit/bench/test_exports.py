"""Records as LaTeX, as CSV and as flat rows."""

import csv
import io
import sys

import numpy as np
import pytest
from scipy import stats

from garnet.bench import as_rows, load_records
from garnet.bench.entry import Entry
from garnet.bench.latex import as_latex
from garnet.bench.record import Record, append_record, spread
from garnet.bench.significance import best_and_ties, p_value
from garnet.bench.study import parse_study
from garnet.bench.table import make_tables
from garnet.errors import GarnetError, MissingExtra

RANDOM = np.random.default_rng(0)


def cells(*groups, seeds=5):
    return parse_study({"title": "t & <u> 5 %", "seeds": seeds, "cells": list(groups)}).cells


def done(cell, *accuracies):
    mean, sd = spread(list(accuracies))
    return Record(
        key=cell.key, cell=cell.facts(), status="done", values={"accuracy": list(accuracies)}, mean=mean, sd=sd,
        seeds=cell.seeds, seconds={"total": 1.5},
    )  # fmt: skip


def entry(values, names=None):
    return Entry(drawn=tuple(zip(names or map(str, range(len(values))), map(float, values), strict=True)))


@pytest.mark.parametrize("shift", [0.0, 0.5, 3.0])
def test_p_values_are_scipys(shift):
    one, other = RANDOM.normal(80, 1, 8), RANDOM.normal(80 + shift, 2, 8)
    assert p_value(entry(one), entry(other)) == pytest.approx(stats.ttest_rel(one, other).pvalue)
    names = [f"other {number}" for number in range(8)]
    assert p_value(entry(one), entry(other, names)) == pytest.approx(
        stats.ttest_ind(one, other, equal_var=False).pvalue
    )
    assert p_value(entry(one), entry(other[:5])) == pytest.approx(
        stats.ttest_ind(one, other[:5], equal_var=False).pvalue
    )


def test_what_cannot_vary_is_told_apart_by_any_difference():
    assert p_value(entry([80.0] * 3), entry([80.0] * 3)) == 1
    assert p_value(entry([80.0] * 3), entry([81.0] * 3)) == 0
    assert best_and_ties([entry([80.0]), entry([80.1]), Entry()]) == (frozenset({1}), frozenset())
    assert best_and_ties([entry([80.0]), entry([80.0])])[0] == frozenset({0, 1})
    assert best_and_ties([Entry(), Entry("failed")]) == (frozenset(), frozenset())


def test_latex_has_the_best_in_bold_and_a_star_on_what_ties():
    group = {"graph": "cora", "split": "random", "backbone": "gcn", "defense": ["none", "garnet", "jaccard", "tsvd"]}
    none, garnet, jaccard, tsvd = cells(group)
    best = [82.0, 83.0, 84.0, 83.5, 82.5]
    records = [
        done(none, 60.0, 61.0, 62.0, 61.5, 60.5),
        done(garnet, *best),
        done(jaccard, *[one - shift for one, shift in zip(best, [1, -1, 0.5, -0.2, 0.3], strict=True)]),
    ]
    wanted = [cell.facts() for cell in (none, garnet, jaccard, tsvd)]
    (table,) = make_tables("t & <u> 5 %", records, cells=wanted)
    lines = as_latex(table).splitlines()
    rows = {line.split(" & ")[1]: line for line in lines if line.startswith("gcn &")}
    assert rows["garnet"] == r"gcn & garnet & \textbf{83.0} $\pm$ 0.8 \\"
    assert rows["jaccard"].endswith(r"$^{\ast}$ \\")
    assert r"\ast" not in rows["none"]
    assert rows["tsvd"] == r"gcn & tsvd & -- \\"
    assert r"\caption{t \& $<$u$>$ 5 \%. Bold" in as_latex(table)
    assert next(line for line in lines if not line.startswith("%")) == r"\begin{table}"
    assert "booktabs" not in as_latex(table)
    assert as_latex(table).count("{") == as_latex(table).count("}")


@pytest.fixture
def path(tmp_path):
    sweep = {"graph": "cora", "split": "random", "backbone": "gcn", "defense": "garnet", "parameters": {"k": [10, 20]}}
    for number, cell in enumerate(cells(sweep, seeds=2)):
        append_record(tmp_path / "r.jsonl", done(cell, 1.0, 2.0))
        append_record(tmp_path / "r.jsonl", done(cell, 80.0 + number, 82.0 + number))
    return tmp_path / "r.jsonl"


def test_rows_are_flat_and_the_last_record_of_a_cell_counts(path):
    rows = as_rows(path)
    assert [(row["graph"], row["defense"], row["parameters.k"], row["mean"], row["models"]) for row in rows] == [
        ("cora", "garnet", 10, 81.0, 2), ("cora", "garnet", 20, 82.0, 2),
    ]  # fmt: skip
    assert not any(isinstance(value, dict | list | tuple) for row in rows for value in row.values())
    seeds = as_rows(path, per_seed=True)
    assert [(row["parameters.k"], row["seed"], row["accuracy"]) for row in seeds] == [
        (10, 0, 80.0), (10, 1, 82.0), (20, 0, 81.0), (20, 1, 83.0),
    ]  # fmt: skip


def test_csv_says_the_same(path, command):
    status, out, _ = command("bench", "show", path, "--csv")
    read = list(csv.DictReader(io.StringIO(out)))
    assert status == 0
    assert [{name: str("" if value is None else value) for name, value in row.items()} for row in as_rows(path)] == read
    assert "tabular" in command("bench", "show", path, "--latex")[1]
    status, _, err = command("bench", "show", path, "--csv", "--latex")
    assert (status, "one way at a time" in err) == (1, True)


def test_a_frame_has_the_rows(path):
    pandas = pytest.importorskip("pandas")
    frame = load_records(path)
    assert isinstance(frame, pandas.DataFrame)
    assert frame.to_dict("records") == pandas.DataFrame(as_rows(path)).to_dict("records")
    assert frame["mean"].tolist() == [81.0, 82.0]


def test_without_pandas_the_cure_is_said(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match="pip install 'pandas'"):
        load_records(path)


def test_records_that_are_not_there_or_damaged_are_one_sentence(path, tmp_path):
    with pytest.raises(GarnetError, match="There are no records at"):
        as_rows(tmp_path / "none.jsonl")
    path.write_text(path.read_text() + "nonsense\n")
    with pytest.raises(GarnetError, match="Line 5 of the records"):
        as_rows(path)
