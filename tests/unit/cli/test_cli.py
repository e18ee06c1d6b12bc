import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from garnet import as_graph, load_graph
from garnet.datasets import block_model, cora


@pytest.fixture
def graph_file(tmp_path):
    graph = block_model(300, mean_degree=8, seed=0)
    graph.save(tmp_path / "graph.npz")
    return tmp_path / "graph.npz"


def names(folder):
    return {path.name for path in folder.iterdir()}


def garnet(*arguments, **options):
    line = [sys.executable, "-m", "garnet", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, **options)


def test_help_needs_none_of_the_heavy_packages():
    code = (
        "import sys, garnet.cli\n"
        "sys.argv = ['garnet', '--help']\n"
        "try:\n    garnet.cli.main()\n"
        "except SystemExit:\n    pass\n"
        "print(sorted({'torch', 'scipy', 'numpy', 'torch_geometric'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.rstrip().endswith("[]")
    assert "purify" in done.stdout


def test_import_needs_no_optional_package():
    code = (
        "import sys\n"
        "for name in ('torch_geometric', 'networkx', 'typer', 'rich'):\n    sys.modules[name] = None\n"
        "import numpy as np\nfrom garnet import GARNET, as_graph\n"
        "graph = as_graph(np.ones((9, 9)) - np.eye(9))\n"
        "print(GARNET().purify(graph).graph.num_nodes)\n"
        "try:\n    graph.to_networkx()\nexcept ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [
        "9",
        "A NetworkX graph needs the package 'networkx': pip install 'pygarnet[networkx]'.",
    ]


def test_version_and_no_arguments(command):
    status, out, _ = command("--version")
    assert status == 0
    assert out.startswith("garnet 0.")
    assert "Usage" in "".join(map(str, command()))


def test_demo_says_what_happened_and_writes_a_report(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, _ = command("demo")
    assert status == 0
    for phrase in ("Metattack", "edges of the attack dropped", "true edges kept", "new edges", "░ the attack's"):
        assert phrase in out
    assert "open garnet-demo.html in a browser" in out
    page = (tmp_path / "garnet-demo.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "nodes that every model had wrong before and has right after" in page


def test_a_graph_of_the_catalogue_is_found_by_its_name(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, _ = command("info", "cora", "--json")
    assert status == 0
    assert json.loads(out)["nodes"] == 2485
    status, _, told = command("info", "coraa")
    assert status == 1
    assert "coraa" in told


def test_purify_writes_a_graph_and_a_summary(command, graph_file, tmp_path):
    status, out, _ = command("purify", graph_file, "-o", tmp_path / "clean.npz", "--rank", 10, "--k", 5)
    assert status == 0
    assert "dropped" in out
    purified = load_graph(tmp_path / "clean.npz")
    assert purified.num_nodes == 300
    np.testing.assert_array_equal(purified.labels, load_graph(graph_file).labels)


def test_purify_only_drop_adds_nothing(command, graph_file, tmp_path):
    status, out, _ = command("purify", graph_file, "-o", tmp_path / "clean.npz", "--only-drop", "--json")
    assert status == 0
    assert json.loads(out)["added"] == 0
    left = load_graph(tmp_path / "clean.npz").adjacency
    assert (left != load_graph(graph_file).adjacency.multiply(left != 0)).nnz == 0


def test_a_graph_that_falls_into_pieces_is_said_to(command, graph_file, tmp_path):
    options = ("purify", graph_file, "--only-drop", "--support", 0.9, "--rank", 10)
    made = tmp_path / "result.npz"
    _, out, _ = command(*options, "-o", tmp_path / "clean.npz", "--result", made)
    before, after = (command("info", one, "--json")[1] for one in (graph_file, tmp_path / "clean.npz"))
    before, after = json.loads(before), json.loads(after)
    assert after["components"] > before["components"]
    assert f"{after['components']:,}, before {before['components']}" in out
    assert f"{after['isolated_nodes']:,}, before {before['isolated_nodes']}" in out
    _, out, _ = command(*options, "-o", tmp_path / "again.npz", "--json")
    assert json.loads(out)["components_after"] == after["components"]
    command("report", made, "-o", tmp_path / "report.html")
    assert f"The graph fell into {after['components']:,} components" in (tmp_path / "report.html").read_text()


def test_purify_as_json_is_one_object_and_agrees_with_the_file(command, graph_file, tmp_path):
    out_file = tmp_path / "clean.csv.gz"
    status, out, _ = command(
        "purify", graph_file, "-o", out_file, "--json", "--seed", 7, "--rank", "auto", "--tau", "mean"
    )
    assert status == 0
    summary = json.loads(out)
    assert summary["parameters"]["seed"] == 7
    assert summary["rank"] == 50
    assert load_graph(out_file).num_edges == summary["edges_after"]
    assert summary["edges_before"] == load_graph(graph_file).num_edges


def test_purify_says_what_the_format_cannot_hold(command, graph_file, tmp_path):
    assert "out.csv cannot hold labels" in command("purify", graph_file, "-o", tmp_path / "out.csv")[2]
    assert not command("purify", graph_file, "-o", tmp_path / "out.npz")[2]


def test_purify_works_on_names(command, tmp_path):
    rows = ["source,target"] + [f"node{u},node{v}" for u in range(12) for v in range(u) if (u + v) % 3]
    (tmp_path / "friends.csv").write_text("\n".join(rows) + "\n")
    status, _, _ = command("purify", tmp_path / "friends.csv", "-o", tmp_path / "clean.csv", "--k", 3)
    assert status == 0
    assert set(load_graph(tmp_path / "clean.csv").names) <= {f"node{i}" for i in range(12)}


def test_info(command, graph_file):
    status, out, _ = command("info", graph_file, "--json")
    assert status == 0
    facts = json.loads(out)
    graph = load_graph(graph_file)
    assert facts["nodes"] == 300
    assert facts["edges"] == graph.num_edges
    assert facts["classes"] == 5
    assert facts["homophily"] == pytest.approx(graph.homophily)
    assert facts["mean_degree"] == pytest.approx(2 * graph.num_edges / 300)
    assert "isolated nodes" in command("info", graph_file)[1]


def test_info_of_a_graph_without_nodes(command, tmp_path):
    as_graph(np.zeros((0, 0))).save(tmp_path / "empty.npz")
    status, out, _ = command("info", tmp_path / "empty.npz", "--json")
    assert status == 0
    assert json.loads(out)["nodes"] == 0


def test_doctor_names_versions_and_devices(command):
    status, out, _ = command("doctor")
    assert status == 0
    for name in ("torch", "processors", "threads", "CUDA"):
        assert name in out


def directed(folder):
    (folder / "in.csv").write_text("0,1\n1,0\n1,2\n")


def no_edges(folder):
    as_graph(np.zeros((4, 4))).save(folder / "in.npz")


def small(folder):
    as_graph(np.ones((5, 5)) - np.eye(5)).save(folder / "in.npz")


def text(folder):
    (folder / "in.csv").write_text("a,b,heavy\nb,c,light\n")


def binary(folder):
    (folder / "in.npz").write_bytes(b"PK\x03\x04 not really")


REFUSED = [
    ("missing", lambda folder: None, ["in.npz"], "there is no such file"),
    ("unknown ending", lambda folder: (folder / "in.xls").write_text("1"), ["in.xls"], "must end in .npz"),
    ("directed", directed, ["in.csv"], "The graph is directed"),
    ("not a number", text, ["in.csv"], "heavy"),
    ("not a zip", binary, ["in.npz"], "in.npz"),
    ("no edges", no_edges, ["in.npz"], "no edges between them; there is nothing to purify"),
    ("k too large", small, ["in.npz", "--k", "5"], "'k' parameter of GARNET must be below the number of nodes, 5"),
    ("rank too large", small, ["in.npz", "--rank", "5"], "'rank' parameter of GARNET must be below 5"),
    ("rank in words", small, ["in.npz", "--rank", "ten"], "must be a number, 'low' or 'auto'. Got 'ten' instead"),
    ("gamma out of range", small, ["in.npz", "--gamma", "2"], "'gamma' parameter of GARNET must be between 0 and 1"),
    ("unknown features", small, ["in.npz", "--features-as", "bag"], "must be one of 'auto', 'none', 'raw'"),
    ("no features", small, ["in.npz", "--features-as", "raw"], "the graph has no features"),
    ("no such device", small, ["in.npz", "--device", "cuda:9"], "must be a device that torch has here"),
]


@pytest.mark.parametrize(
    ("write", "arguments", "phrase"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_bad_input_is_one_line_a_status_and_no_file(command, tmp_path, monkeypatch, write, arguments, phrase):
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    before = names(tmp_path)
    status, out, err = command("purify", *arguments, "-o", "out.npz")
    assert status == 1
    assert phrase.lower() in err.lower()
    assert len(err.strip().splitlines()) == 1
    assert not out
    assert names(tmp_path) == before


@pytest.mark.parametrize(
    ("target", "phrase"), [("nowhere/out.npz", "nowhere does not exist"), ("out.doc", "end in .npz")]
)
def test_an_output_that_cannot_be_written_is_said_before_any_work(command, graph_file, tmp_path, target, phrase):
    status, _, err = command("purify", graph_file, "-o", tmp_path / target)
    assert status == 1
    assert phrase in err


def test_symmetrize_is_the_cure_for_a_directed_file(command, tmp_path):
    directed(tmp_path)
    status, _, _ = command("purify", tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--symmetrize")
    assert status == 0


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
@pytest.mark.parametrize("delay", [0.3, 1.5, 2.5])
def test_ctrl_c_leaves_no_half_written_file(tmp_path, delay):
    cora().save(tmp_path / "in.npz")
    line = [sys.executable, "-m", "garnet", "purify", "in.npz", "-o", "out.npz"]
    running = subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(delay)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert names(tmp_path) <= {"in.npz", "out.npz"}
    if "out.npz" in names(tmp_path):
        assert load_graph(tmp_path / "out.npz").num_nodes == 2485
        assert running.returncode in (0, 1, 130, -signal.SIGINT)
    else:
        assert running.returncode != 0


def test_the_module_runs_as_a_command(tmp_path):
    done = garnet("info", tmp_path / "none.npz")
    assert done.returncode == 1
    assert done.stderr.startswith("error: Cannot read")
