"""Tables in, tables out: what the command reads of a table of payments, and what it gives back."""

import csv
import json

import pytest

from garnet import GARNET, load_graph
from garnet.datasets import block_model

NAMED = ("--source", "payer", "--target", "payee", "--weight", "amount")


@pytest.fixture(scope="module")
def rows():
    graph = block_model(120, seed=0)
    u, v = graph.edges
    days = [f"2024-01-{1 + i % 28:02d}" for i in range(len(u))]
    return [
        {"day": day, "payer": f"a{one}", "payee": f"a{other}", "amount": f"{i % 7 + 0.5}", "note": f"no; {i}"}
        for i, (day, one, other) in enumerate(zip(days, u.tolist(), v.tolist(), strict=True))
    ]


@pytest.fixture
def payments(rows, tmp_path):
    path = tmp_path / "payments.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter=",", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_rows_come_back_as_they_were_but_for_dropped_edges(command, payments, rows, tmp_path):
    call = ("purify", payments, *NAMED, "-o", tmp_path / "clean.csv", "--only-drop", "--support", "0.3")
    status, _, said = command(*call)
    assert status == 0, said
    assert "rows of payments.csv as they were" in said
    graph = load_graph(payments, source="payer", target="payee", weight="amount")
    result = GARNET(only_drop=True, support=0.3).purify(graph)
    gone = {tuple(sorted(pair)) for pair in graph.names[result.ledger.dropped].T.tolist()}
    assert gone
    assert read(tmp_path / "clean.csv") == [
        row for row in rows if tuple(sorted((row["payer"], row["payee"]))) not in gone
    ]
    again = load_graph(tmp_path / "clean.csv", source="payer", target="payee", weight="amount")
    assert again.num_edges == result.graph.num_edges


def test_a_table_says_which_edges_are_new_and_what_they_weighed(command, payments, rows, tmp_path):
    out, ledger, nodes = (tmp_path / name for name in ("clean.csv", "ledger.csv", "nodes.csv"))
    status, said, err = command(
        "purify", payments, *NAMED, "-o", out, "--k", 3, "--support", "0.3", "--json", "--ledger", ledger,
        "--nodes-out", nodes,
    )  # fmt: skip
    assert status == 0, err
    summary = json.loads(said)
    amounts = {tuple(sorted((row["payer"], row["payee"]))): float(row["amount"]) for row in rows}
    clean, fates = read(out), read(ledger)
    assert len(clean) == summary["edges_after"]
    for row in clean:
        pair = tuple(sorted((row["source"], row["target"])))
        assert (row["status"] == "kept") == (pair in amounts)
        assert (float(row["original"]) if row["original"] else None) == amounts.get(pair)
    counts = {status: sum(row["status"] == status for row in fates) for status in ("kept", "dropped", "new")}
    assert counts == {"kept": summary["kept"], "dropped": summary["dropped"], "new": summary["added"]}
    assert all(row["reason"] for row in fates)
    degrees = {row["node"]: int(row["after"]) for row in read(nodes)}
    assert sum(degrees.values()) == 2 * summary["edges_after"]
    assert load_graph(out).num_edges == summary["edges_after"]


@pytest.mark.parametrize("ending", ["parquet", "tsv", "gexf", "graphml"])
def test_what_is_written_is_the_purified_graph(command, payments, tmp_path, ending):
    out = tmp_path / f"clean.{ending}"
    status, said, err = command("purify", payments, *NAMED, "-o", out, "--support", "0.3", "--json")
    assert status == 0, err
    assert load_graph(out).num_edges == json.loads(said)["edges_after"]


def test_what_was_read_is_said_in_a_line(command, payments):
    status, _, said = command("info", payments, *NAMED)
    assert status == 0
    (line,) = (line for line in said.splitlines() if line.startswith("read payments.csv"))
    for words in ("a header", "commas", "payer -> payee", "weights from amount", "not read: day, note"):
        assert words in line


def test_accounts_give_labels_features_and_a_split(command, payments, tmp_path):
    accounts = tmp_path / "accounts.csv"
    parts = ["train", "val", "test"]
    lines = [f"a{i},{i % 50 if i % 9 else ''},{'yes' if i % 2 else 'no'},{parts[i % 3]}" for i in range(120)]
    accounts.write_text("account,age,fraud,part\n" + "\n".join(lines) + "\n")
    status, said, err = command(
        "train", payments, *NAMED, "--nodes", accounts, "--id", "account", "--label", "fraud", "--features", "age",
        "--split-column", "part", "--backbone", "gcn", "--epochs", 5, "--seeds", 1, "--json",
    )  # fmt: skip
    assert status == 0, err
    assert json.loads(said)["nodes"] == {"train": 40, "val": 40, "test": 40}
    assert json.loads(said)["features"] == 2
    assert "0 = no, 1 = yes" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--source", "payer"), "give target"),
        (("--source", "payer", "--target", "payeee"), "did you mean 'payee'"),
        ((*NAMED, "--label", "fraud"), "--label fraud is of a table of nodes; give that with --nodes"),
        ((*NAMED, "--nodes", "missing.csv"), "there is no such file"),
        ((*NAMED, "--memory", "2GB"), "With --memory or --cluster a table is read in pieces"),
        ((*NAMED, "--duplicates", "mean"), "max, sum, count or first"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(command, payments, tmp_path, options, message):
    status, _, said = command("purify", payments, "-o", tmp_path / "clean.npz", *options)
    assert status == 1
    assert message in said
    assert not (tmp_path / "clean.npz").exists()
