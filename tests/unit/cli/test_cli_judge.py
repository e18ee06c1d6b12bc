import csv
import io
import json
import sys

import numpy as np
import pytest

from garnet import as_graph
from garnet.cli import main
from garnet.datasets import block_model


@pytest.fixture(scope="module")
def graph():
    drawn = block_model(200, classes=4, mean_degree=14, homophily=0.97, seed=0)
    return as_graph(drawn, names=[f"n{node}" for node in range(200)])


@pytest.fixture
def folder(graph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph.save("graph.npz")
    rng = np.random.default_rng(0)
    lines = [f"n{one},n{other}" for one, other in rng.integers(200, size=(30, 2))]
    (tmp_path / "new.csv").write_text("\n".join(["source,target", *lines, "n1,stranger"]) + "\n")
    return tmp_path


@pytest.fixture(params=["purify graph.npz -o clean.npz --result result.npz", "audit graph.npz --result result.npz"])
def saved(request, folder, command):
    status, _, told = command(*request.param.split())
    assert status == 0, told
    return folder / "result.npz"


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_it_writes_a_line_for_each_edge_in_their_order(saved, folder, command):
    status, _, told = command("judge", "result.npz", "new.csv", "-o", "scores.csv")
    assert status == 0, told
    asked = rows_of((folder / "new.csv").read_text())
    rows = rows_of((folder / "scores.csv").read_text())
    assert [(row["source"], row["target"]) for row in rows] == [(row["source"], row["target"]) for row in asked]
    assert {row["verdict"] for row in rows} <= {"believe", "doubt", "unknown"}
    assert all((row["score"] == "") == (row["verdict"] == "unknown") for row in rows)
    assert all(0 <= float(row["score"]) <= 1 for row in rows if row["score"])
    assert rows[-1]["verdict"] == "unknown"
    assert "purify again" not in told
    # The same command has nothing left to do, and another asks before it replaces.
    assert "done already" in command("judge", "result.npz", "new.csv", "-o", "scores.csv")[2]
    (folder / "new.csv").write_text("n1,n2\n")
    status, _, told = command("judge", "result.npz", "new.csv", "-o", "scores.csv")
    assert status == 1
    assert "--overwrite" in told


def test_json_and_a_reason_to_purify_again(saved, folder, command):
    rng = np.random.default_rng(0)
    (folder / "many.tsv").write_text("".join(f"n{one}\tn{other}\n" for one, other in rng.integers(200, size=(300, 2))))
    status, out, told = command("judge", "result.npz", "many.tsv", "--json")
    facts = json.loads(out)
    assert status == 0
    assert facts["edges"] == 300 == facts["believe"] + facts["doubt"] + facts["unknown"]
    assert facts["purify_again"]
    assert facts["purify_again"] in told.replace("\n", " ")


def answers(monkeypatch, capsys, text, result="result.npz"):
    monkeypatch.setattr(sys, "argv", ["garnet", "judge", str(result), "-"])
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    with pytest.raises(SystemExit) as stopped:
        main()
    written = capsys.readouterr()
    return stopped.value.code or 0, rows_of(written.out), written.err


def test_lines_of_standard_input_are_answered_as_the_file_is(saved, folder, command, monkeypatch, capsys):
    assert command("judge", "result.npz", "new.csv", "-o", "scores.csv")[0] == 0
    status, rows, _ = answers(monkeypatch, capsys, (folder / "new.csv").read_text())
    wanted = rows_of((folder / "scores.csv").read_text())
    assert status == 0
    assert len(rows) == len(wanted) == 31
    for one, other in zip(rows, wanted, strict=True):
        assert float(one.pop("score") or -1) == pytest.approx(float(other.pop("score") or -1), abs=1e-4)
        assert one == other


def test_a_new_node_is_known_once_enough_of_its_edges_have_come(saved, folder, monkeypatch, capsys):
    text = "# a comment\n\nfrom\tto\nnew\tn1\nnew\tn2\nn3\tnew\nnew\tn4\nn1\tn2\n"
    _, rows, _ = answers(monkeypatch, capsys, text)
    assert [row["verdict"] == "unknown" for row in rows] == [True, True, False, False, False]


@pytest.mark.parametrize(
    "line",
    ["n3", "n3,", "n3," + "x" * 200_000, "n3" + ",x" * 1000, '"n3,n4', "n\udcff,n4"],
    ids=["one cell", "no name", "a cell without end", "many cells", "an open quote", "no letter"],
)
def test_a_line_that_is_no_edge_is_named(saved, folder, monkeypatch, capsys, line):
    status, rows, told = answers(monkeypatch, capsys, f"n1,n2\n{line}\nn4,n5\n")
    assert status == 1
    assert len(rows) == 1
    assert "Line 2" in told


@pytest.mark.parametrize(
    "words",
    [
        "judge missing.npz new.csv",
        "judge graph.npz new.csv",
        "judge new.csv new.csv",
        "judge result.npz missing.csv",
        "judge result.npz graph.npz",
        "judge result.npz empty.csv",
        "judge result.npz broken.csv",
        "judge result.npz new.csv -o scores.xlsx",
        "judge result.npz new.csv -o missing/scores.csv",
        "judge result.npz new.csv -o new.csv",
        "judge result.npz - -o scores.csv",
        "judge result.npz - --json",
    ],
)
def test_what_is_wrong_is_told_in_one_line(words, saved, folder, command):
    before = (folder / "new.csv").read_text()
    (folder / "empty.csv").write_text("")
    (folder / "broken.csv").write_text("a,b\nc\n")
    status, _, told = command(*words.split())
    assert status == 1
    assert told.startswith("error:")
    assert len(told.strip().splitlines()) == 1
    assert (folder / "new.csv").read_text() == before


def test_a_file_of_an_earlier_version_must_be_made_again(saved, folder, command):
    with np.load(saved) as found:
        arrays = {name: found[name] for name in found.files if not name.startswith("judge")}
    np.savez(saved, **arrays)
    status, _, told = command("judge", "result.npz", "new.csv")
    assert status == 1
    assert "make it again" in told


def test_nodes_without_names_are_known_by_their_numbers(folder, command, graph):
    as_graph(graph.adjacency).save("numbered.npz")
    assert command("purify", "numbered.npz", "-o", "clean.npz", "--result", "numbers.npz")[0] == 0
    (folder / "numbers.csv").write_text("0,1\n0,007\n0,9999\n")
    status, out, told = command("judge", "numbers.npz", "numbers.csv", "--json")
    assert status == 0, told
    assert json.loads(out)["with_new_nodes"] == 1
