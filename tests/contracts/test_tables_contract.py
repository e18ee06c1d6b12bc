"""Whatever is wrong with what is said of tables: one sentence, exit status 1 or 2, and nothing is written."""

import pytest

from garnet import GARNET, as_graph
from garnet.backbones import MLP
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Purified
from garnet.report.purification_record import PurificationRecord
from garnet.training import Training

COMMANDS = {
    "purify": "purify {table} -o out.csv --ledger ledger.csv --nodes-out nodes.csv --result out.npz",
    "purify --only-drop": "purify {table} -o out.csv --only-drop",
    "audit": "audit {table} -o out.csv --nodes-out nodes.csv --groups groups.csv --report out.html",
    "attack": "attack {table} -a random -b 5 -o out.npz --graph-output out.csv",
    "train": "train {table} --split 0.2,0.2 --seeds 1 --epochs 1 -o out.npz --predictions out.csv",
    "predict": "predict model.npz {table} -o out.csv",
    "stress": "stress {table} --split 0.2,0.2 --attacks random --budgets 5% --seeds 1 --epochs 1 -o out.jsonl",
    "info": "info {table}",
    "judge": "judge result.npz {table} -o out.csv",
}
ENDS = "--source payer --target payee"
NODES = "--nodes accounts.csv --id account"
OPTIONS = {
    "--source": "payer", "--target": "payee", "--weight": "amount", "--delimiter": ",", "--decimal": ".",
    "--encoding": "utf-8", "--duplicates": "max", "--time": "note",
}  # fmt: skip
OF_NODES = {
    "--nodes": "accounts.csv", "--id": "account", "--label": "fraud", "--features": "age", "--split-column": "part"
}  # fmt: skip
WRONG = [
    "--source nowhere --target payee",
    "--source payer --target nowhere",
    "--source payer --target payer",
    "--source payer --target 1",
    "--source payer",
    "--target payee",
    "--source 0 --target 2",
    "--source 99 --target 2",
    "--source -1 --target 2",
    "--source '' --target payee",
    "--source note --target payee --delimiter |",
    f"{ENDS} --weight nowhere",
    f"{ENDS} --weight payer",
    f"{ENDS} --weight note",
    f"{ENDS} --delimiter ;;",
    f"{ENDS} --delimiter ''",
    f"{ENDS} --delimiter ;",
    f"{ENDS} --decimal x",
    f"{ENDS} --encoding klingon",
    f"{ENDS} --encoding zlib",
    f"{ENDS} --encoding utf-16",
    f"{ENDS} --encoding ''",
    f"{ENDS} --duplicates mean",
    f"{ENDS} --no-header",
    f"{ENDS} --before 2024-01-01",
    f"{ENDS} --time nowhere",
    f"{ENDS} --time payer",
    f"{ENDS} --time ''",
    f"{ENDS} --time note --before soon",
    f"{ENDS} --time note --before 2024-01-01",
    f"{ENDS} --time amount --before 2024-01-01",
    f"{ENDS} --time note --before 7",
]
WRONG_OF_NODES = [
    "--nodes nowhere.csv",
    "--nodes .",
    "--nodes model.npz",
    "--nodes accounts.csv --id nowhere",
    "--nodes accounts.csv --id age",
    "--nodes doubled.csv --id account --label fraud",
    "--nodes repeated.csv --id account --label fraud",
    "--id account",
    "--label fraud",
    "--features age",
    "--split-column part",
    f"{NODES} --label nowhere",
    f"{NODES} --label account",
    f"{NODES} --features nowhere",
    f"{NODES} --features age,,fraud",
    f"{NODES} --features age,age",
    f"{NODES} --features fraud --label fraud",
    f"{NODES} --split-column nowhere",
    f"{NODES} --split-column fraud",
    f"{NODES} --features endless",
]
USUAL = ("purify", "judge", "info")
EVERY = [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS]
"""All commands share the code; those that are not among the usual are slow tests."""
READ_NODES = [name for name in EVERY if name != "judge"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with tables, a model and a result."""
    folder = tmp_path_factory.mktemp("tables")
    drawn = contextual_block_model(40, classes=2, mean_degree=6, features=4, seed=0)
    names = [f"a{node}" for node in range(40)]
    graph = as_graph(drawn, split=random_split(drawn.labels, train=0.2, val=0.2, seed=0), names=names)
    rows = [f"a{u},a{v},{i % 5 + 1},no {i}" for i, (u, v) in enumerate(graph.edges.T)]
    (folder / "payments.csv").write_text("\n".join(["payer,payee,amount,note", *rows, ""]))
    (folder / "twice.csv").write_text("\n".join(["payer,payee,payee,amount", *rows, ""]))
    accounts = [f"a{i},{i},{('yes', 'no')[i % 2]},train,inf" for i in range(40)]
    (folder / "accounts.csv").write_text("\n".join(["account,age,fraud,part,endless", *accounts, ""]))
    (folder / "doubled.csv").write_text("\n".join(["account,fraud,fraud,part,age", *accounts, ""]))
    (folder / "repeated.csv").write_text("\n".join(["account,age,fraud,part,endless", *accounts, accounts[3], ""]))
    Purified(None, MLP(), Training(epochs=1)).fit(graph).save(folder / "model.npz")
    PurificationRecord.of(graph, GARNET(rank=4, k=2).purify(graph)).save(folder / "result.npz")
    return folder


@pytest.fixture
def refused(made, command, monkeypatch):
    """See that a command ends with one sentence, and has written nothing."""
    monkeypatch.chdir(made)

    def run(name, *options, table="payments.csv"):
        before = {path: path.stat().st_mtime_ns for path in made.iterdir()}
        status, _, said = command(*COMMANDS[name].format(table=table).split(), *options)
        assert status in (1, 2), said
        lines = said.strip().splitlines()
        assert lines[-1].startswith(("error: ", "Error: ")), said
        assert sum(line.lower().startswith("error: ") for line in lines) == 1, said
        assert "Traceback" not in said
        assert "exists already" not in said
        assert {path: path.stat().st_mtime_ns for path in made.iterdir()} == before
        return said

    return run


def words(options):
    return [word.strip("'") for word in options.split()]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("options", WRONG)
def test_what_is_wrongly_said_of_edges_is_refused(refused, name, options):
    refused(name, *words(options))


@pytest.mark.parametrize("name", READ_NODES)
@pytest.mark.parametrize("options", WRONG_OF_NODES)
def test_what_is_wrongly_said_of_nodes_is_refused(refused, name, options):
    refused(name, *words(ENDS), *words(options))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("option", OPTIONS | OF_NODES)
def test_an_option_without_its_value_is_refused(refused, name, option):
    refused(name, *words(ENDS), option)


@pytest.mark.parametrize("name", READ_NODES)
@pytest.mark.parametrize("option", OPTIONS | OF_NODES)
def test_an_option_that_is_given_twice_is_refused(refused, name, option):
    value = (OPTIONS | OF_NODES)[option]
    said = refused(name, *words(ENDS), *words(NODES), option, value, option, value)
    assert option in said


@pytest.mark.parametrize("name", EVERY)
def test_a_column_that_is_there_twice_is_refused(refused, name):
    assert "2 columns of the name" in refused(name, *words(ENDS), table="twice.csv")


@pytest.mark.parametrize("option", OPTIONS)
def test_lines_that_come_one_by_one_have_no_columns_to_choose(refused, option, monkeypatch):
    monkeypatch.setitem(COMMANDS, "judge -", "judge result.npz -")
    other = {"--source": ("--target", "payee"), "--target": ("--source", "payer")}.get(option, ())
    value = {"--decimal": ",", "--encoding": "latin-1", "--duplicates": "sum"}.get(option, OPTIONS[option])
    assert "leave" in refused("judge -", option, value, *other)
