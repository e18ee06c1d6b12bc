"""`garnet purify` with --memory and --dry-run."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console

from garnet import GARNET, OnDisk, load_graph
from garnet.cli.console import stages
from garnet.datasets import block_model, cora
from garnet.graph.graph import as_graph
from garnet.places.tiles import TiledGraph
from garnet.progress import Step

distributed = pytest.importorskip("distributed")
LIMIT = ("--memory", "1GiB", "--rank", 8, "--k", 4)


@pytest.fixture(scope="module")
def graph():
    return block_model(90, mean_degree=8, seed=0)


@pytest.fixture
def graph_file(graph, tmp_path):
    graph.save(tmp_path / "graph.npz")
    return tmp_path / "graph.npz"


def names(folder):
    return {path.name for path in folder.iterdir()}


def edge_list(graph):
    upper = sp.triu(graph.adjacency).tocoo()
    return np.stack([upper.row, upper.col], axis=1)


def test_a_limit_on_memory_gives_a_folder_of_tiles(command, graph_file, tmp_path):
    status, out, _ = command("purify", graph_file, "-o", tmp_path / "out", *LIMIT)
    assert status == 0
    for phrase in ("setting, rank", "setting, k", "kept", "dropped", "seconds, tile", "peak memory"):
        assert phrase in out
    expected = GARNET(rank=8, k=4).purify(graph_file, place=OnDisk(memory="1GiB")).graph
    assert (TiledGraph.open(tmp_path / "out").to_graph().adjacency != expected.adjacency).nnz == 0
    assert names(tmp_path) == {"graph.npz", "out"}
    status, out, said = command("purify", graph_file, "-o", tmp_path / "out", *LIMIT, "--json")
    assert status == 0
    assert json.loads(out) == {"done_already": [str(tmp_path / "out")]}
    assert "done already" in said
    other = ("purify", graph_file, "-o", tmp_path / "out", *LIMIT, "--seed", 1)
    status, _, said = command(*other)
    assert status == 1
    assert "holds a finished graph" in said
    (tmp_path / "out" / "notes.txt").write_text("mine")
    assert command(*other, "--overwrite")[0] == 0
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    assert TiledGraph.open(tmp_path / "out", verify=True).num_nodes == 90
    assert names(tmp_path) == {"graph.npz", "out"}


def test_intermediate_files_may_lie_elsewhere(command, graph_file, tmp_path):
    (tmp_path / "fast").mkdir()
    line = ("purify", graph_file, "-o", tmp_path / "out", *LIMIT, "--scratch", tmp_path / "fast")
    assert command(*line)[0] == 0
    assert names(tmp_path) == {"graph.npz", "out", "fast"}
    assert not names(tmp_path / "fast")
    status, _, said = command(*line[:-1], tmp_path / "nowhere")
    assert status == 1
    assert "no folder that can be written into" in said


def test_a_limit_on_memory_gives_a_file_if_one_is_named(command, graph_file, graph, tmp_path):
    status, out, said = command("purify", graph_file, "-o", tmp_path / "clean.npz", "--json", *LIMIT)
    assert status == 0
    assert names(tmp_path) == {"graph.npz", "clean.npz"}
    found, summary = load_graph(tmp_path / "clean.npz"), json.loads(out)
    assert found.num_edges == summary["edges_after"]
    assert summary["edges_before"] == graph.num_edges
    assert summary["parts"] == 1
    np.testing.assert_array_equal(found.labels, graph.labels)
    assert [line.split()[-1] for line in said.splitlines()] == ["tile", "embed", "neighbours", "prune", "write"]
    assert "cannot hold labels" in command("purify", graph_file, "-o", tmp_path / "clean.csv", *LIMIT)[2]
    before = {name: (tmp_path / name).read_bytes() for name in ("clean.npz", "clean.csv")}
    for name in before:
        status, _, said = command("purify", graph_file, "-o", tmp_path / name, *LIMIT)
        assert (status, "done already" in said) == (0, True)
        status, _, said = command("purify", graph_file, "-o", tmp_path / name, *LIMIT, "--seed", 1)
        assert (status, "exists already" in said) == (1, True)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


def test_symmetrize_is_passed_on(command, tmp_path):
    sp.save_npz(tmp_path / "directed.npz", sp.random_array((90, 90), density=0.1, rng=0, format="csr") > 0)
    status, _, said = command("purify", tmp_path / "directed.npz", "-o", tmp_path / "out", *LIMIT)
    assert status == 1
    assert "--symmetrize" in said
    assert command("purify", tmp_path / "directed.npz", "-o", tmp_path / "out2", *LIMIT, "--symmetrize")[0] == 0


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        (("--memory", "2GB", "--device", "cuda"), "leave --device cuda out"),
        (("--memory", "lots"), "'memory' parameter"),
        (("--memory", "2GB", "--rank", 500), "'rank' parameter"),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_what_cannot_be_done_is_one_sentence_before_anything_is_written(
    command, graph_file, tmp_path, options, phrase, dry
):
    status, _, said = command("purify", graph_file, "-o", tmp_path / "out", *options, *dry)
    assert status == 1
    assert phrase in said.splitlines()[-1]
    assert not (tmp_path / "out" / "tiles.json").exists()
    assert not dry or not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [(), ("--memory", "2GB")])
def test_a_dry_run_knows_the_graph_and_writes_nothing(command, graph_file, graph, tmp_path, options):
    status, out, _ = command("purify", graph_file, "-o", tmp_path / "out.npz", "--dry-run", *options)
    assert status == 0
    for phrase in (f"{graph.num_nodes} nodes, {graph.num_edges} edges", "embed", "neighbours", "prune", "memory"):
        assert phrase in out
    assert names(tmp_path) == {"graph.npz"}
    assert json.loads(command("purify", "cora", "-o", tmp_path / "o.npz", "--dry-run", "--json", *options)[1])[
        "extent"
    ]["edges"] == (cora().num_edges)


@pytest.mark.parametrize("options", [(), ("--memory", "2GB")])
def test_a_dry_run_of_an_audit_has_its_stages_and_writes_nothing(command, graph_file, graph, tmp_path, options):
    status, out, said = command("audit", graph_file, "-o", tmp_path / "out.csv", "--dry-run", *options)
    assert (status, said) == (0, "")
    for phrase in (f"{graph.num_nodes} nodes, {graph.num_edges} edges", "reasons", "plant 3 of 3", "doubt"):
        assert phrase in out
    assert names(tmp_path) == {"graph.npz"}
    found = json.loads(command("audit", graph_file, "--dry-run", "--json", *options)[1])
    assert found["output"] is None
    assert (found["read"] > 0) == bool(options)


def test_a_dry_run_asks_a_cluster_for_its_workers_and_does_nothing_else(command, scheduler, graph_file, tmp_path):
    for words in (("purify",), ("audit",)):
        line = (*words, graph_file, "-o", tmp_path / "out", "--cluster", scheduler, "--memory", "2GB", "--dry-run")
        status, out, _ = command(*line)
        assert status == 0
        assert "cluster: 2 workers, 2 threads; 2.0 GB for each process" in out
        assert "2 parts" in out
        assert "written" in out
        found = json.loads(command(*line, "--json")[1])
        assert found["workers"] == {"count": 2, "threads": 2, "at_once": 1, "memory": 2 * 10**9}
        assert found["read"] == sum(stage["read"] for stage in found["costs"]) > 0
        assert all(stage["memory"] <= 2 * 10**9 for stage in found["costs"])
    assert names(tmp_path) == {"graph.npz"}


def test_a_dry_run_counts_the_rows_of_lists(command, graph, tmp_path):
    rows = edge_list(graph)
    text = "".join(f"{u},{v}\n" for u, v in rows.tolist())
    (tmp_path / "list.csv").write_text(text)
    (tmp_path / "list.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("list.csv", "list.csv.gz"):
        found = dry_run(command, tmp_path / name)
        assert (found["nodes"], found["edges"], found["exact"]) == (len(np.unique(rows)), len(rows), True)


def test_a_dry_run_reads_the_headers_of_parquet_and_ogb(command, graph, tmp_path):
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    rows = edge_list(graph)
    parquet.write_table(arrow.table({"source": rows[:, 0], "target": rows[:, 1]}), tmp_path / "list.parquet")
    found = dry_run(command, tmp_path / "list.parquet")
    assert (found["nodes"], found["edges"]) == (len(np.unique(rows)), len(rows))

    raw = tmp_path / "ogb" / "raw"
    raw.mkdir(parents=True)
    for name, table in {"edge": rows, "num-node-list": [[90]], "num-edge-list": [[len(rows)]]}.items():
        with gzip.open(raw / f"{name}.csv.gz", "wt") as stream:
            np.savetxt(stream, table, "%d", ",")
    assert command("purify", tmp_path / "ogb", "-o", tmp_path / "o", "--symmetrize", *LIMIT)[0] == 0
    for found in (dry_run(command, tmp_path / "ogb", "--symmetrize"),):
        assert (found["nodes"], found["edges"], found["exact"]) == (90, len(rows), True)
    (raw / "num-edge-list.csv.gz").unlink()
    assert dry_run(command, tmp_path / "ogb", "--symmetrize")["edges"] == len(rows)


def test_the_size_of_a_long_list_is_told_from_its_beginning(command, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.integers(20_000, size=(700_000, 2))
    text = "\n".join(f"{u}\t{v}" for u, v in rows.tolist()).encode()
    (tmp_path / "long.tsv").write_bytes(text)
    (tmp_path / "long.tsv.gz").write_bytes(gzip.compress(text, 1))
    for name in ("long.tsv", "long.tsv.gz"):
        found = dry_run(command, tmp_path / name)
        assert not found["exact"]
        assert found["edges"] == pytest.approx(700_000, rel=0.05)
        assert found["nodes"] == pytest.approx(20_000, rel=0.05)


def test_a_larger_graph_or_a_higher_rank_is_estimated_to_take_more(command, tmp_path):
    block_model(2000, mean_degree=8, seed=0).save(tmp_path / "small.npz")
    block_model(4000, mean_degree=8, seed=0).save(tmp_path / "large.npz")

    def cost(name, rank):
        line = ("purify", tmp_path / name, "-o", tmp_path / "out", "--memory", "2GB", "--rank", rank, "--dry-run")
        found = json.loads(command(*line, "--json")[1])
        return [found[part] for part in ("seconds", "disk")]

    least = cost("small.npz", 10)
    for more in (cost("large.npz", 10), cost("small.npz", 100)):
        assert all(np.greater(more, least))


def test_a_graph_with_names_has_a_dry_run_in_memory_only(command, tmp_path):
    (tmp_path / "friends.csv").write_text("".join(f"a{u},a{u + 1}\n" for u in range(30)))
    status, out, _ = command("purify", tmp_path / "friends.csv", "-o", tmp_path / "o.csv", "--dry-run", "--rank", 4)
    assert status == 0
    assert "31 nodes, 30 edges" in out
    assert command("purify", tmp_path / "friends.csv", "-o", tmp_path / "o", "--dry-run", *LIMIT)[0] == 1


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_ctrl_c_leaves_a_folder_with_which_the_same_command_goes_on(command, tmp_path):
    features = np.random.default_rng(0).random((3000, 4), dtype=np.float32)
    as_graph(block_model(3000, mean_degree=8, seed=0), features=features).save(tmp_path / "in.npz")
    arguments = ["purify", tmp_path / "in.npz", "-o", tmp_path / "out", "--memory", "1GiB", "--rank", "30"]
    running = subprocess.Popen(
        [sys.executable, "-m", "garnet", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    begun = [running.stderr.readline() for _ in range(2)]
    assert begun[-1].endswith("embed\n")
    running.send_signal(signal.SIGINT)
    out, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert not out
    assert said.strip().splitlines() == ["stopped; the same command goes on where it was"]
    assert not (tmp_path / "out").exists()
    status, _, said = command(*arguments)
    assert status == 0
    lines = said.splitlines()
    assert lines[0] == "going on after tile, done before"
    assert [line.split()[-1] for line in lines[1:]] == ["embed", "neighbours", "prune"]


@pytest.fixture(scope="module")
def scheduler():
    """The address of a scheduler with two workers, each a process."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        yield cluster.scheduler_address


def test_a_cluster_finds_the_edges_that_a_limit_on_memory_does(command, scheduler, graph_file, tmp_path):
    assert command("purify", graph_file, "-o", tmp_path / "alone", *LIMIT)[0] == 0
    status, out, _ = command("purify", graph_file, "-o", tmp_path / "many", *LIMIT, "--cluster", scheduler, "--json")
    assert status == 0
    assert json.loads(out)["parts"] == 2
    alone, many = (TiledGraph.open(tmp_path / name).to_graph() for name in ("alone", "many"))
    np.testing.assert_array_equal(many.edges, alone.edges)
    np.testing.assert_allclose(many.adjacency.data, alone.adjacency.data, rtol=1e-4)
    np.testing.assert_array_equal(many.labels, alone.labels)


def test_a_cluster_writes_a_table(command, scheduler, graph_file, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    arguments = ("purify", graph_file, "-o", tmp_path / "clean.parquet", "--rank", 8, "--k", 4, "--cluster", scheduler)
    status, out, said = command(*arguments)
    assert status == 0
    assert "parts" in out
    assert "neighbours found, about" not in out  # so few points are all compared
    assert "note: clean.parquet cannot hold labels; tiles can" in said
    assert names(tmp_path / "clean.parquet") == {"part-00000.parquet", "part-00001.parquet", "_garnet.json"}
    found = parquet.read_table(tmp_path / "clean.parquet")
    expected = GARNET(rank=8, k=4).purify(graph_file, place=OnDisk(memory="1GiB")).graph
    rows = sorted(zip(found["source"].to_pylist(), found["target"].to_pylist(), strict=True))
    assert rows == sorted(map(tuple, expected.edges.T.tolist()))
    assert command(*arguments)[0] == 0  # done already


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "10.0.0.1", "nonsense://10.0.0.1:8786"])
def test_an_address_without_a_scheduler_is_one_sentence(command, graph_file, tmp_path, monkeypatch, address):
    monkeypatch.setattr("garnet.places.cluster._WAIT", 0.5)
    for dry in ((), ("--dry-run",)):
        status, out, said = command("purify", graph_file, "-o", tmp_path / "out", *LIMIT, "--cluster", address, *dry)
        assert status == 1
        assert not out
        assert len(said.splitlines()) == 1
        assert f"{address!r}, but no Dask scheduler answers there; start one, or correct the address." in said
    assert not (tmp_path / "out").exists()


def test_a_limit_on_memory_writes_a_table_into_a_folder(command, graph_file, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    status, out, _ = command("purify", graph_file, "-o", tmp_path / "clean.parquet", "--json", *LIMIT)
    assert status == 0
    summary = json.loads(out)
    assert names(tmp_path / "clean.parquet") == {"part-00000.parquet", "_garnet.json"}
    assert parquet.read_table(tmp_path / "clean.parquet").num_rows == summary["edges_after"]
    assert summary["probes"] is summary["recall"] is None  # so few points are all compared
    assert summary["settings"]["rank"] == 8
    assert command("purify", graph_file, "-o", tmp_path / "other.parquet", "--rank", 8)[0] == 0
    assert (tmp_path / "other.parquet").is_file()  # in memory it is one table


def test_a_terminal_shows_how_far_a_stage_is(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr("garnet.cli.console.err", Console(file=screen, force_terminal=True, width=80))
    with stages(lasting=True) as progress:
        progress(Step("neighbours"))
        progress(Step("neighbours", "search", 12, 32))
    assert "neighbours: search 12/32 ..." in screen.getvalue()


def dry_run(command, source, *options):
    """What a dry run says of the size of a graph."""
    line = ("purify", source, "-o", source.parent / "none", "--dry-run", "--json", *LIMIT, *options)
    status, out, _ = command(*line)
    assert status == 0
    return json.loads(out)["extent"]
