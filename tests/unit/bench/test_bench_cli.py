import os
import signal
import subprocess
import sys
import time

import pytest

from garnet.bench.record import read_records
from garnet.bench.shipped import STUDIES, shipped
from garnet.cli import main

STUDY = """
title = "A small study"
seeds = 2
[[cells]]
graph = "cora"
defense = "none"
backbone = "gcn"
[cells.training]
epochs = 3
[[cells]]
graph = "cora"
defense = "tsvd"
backbone = "gcn"
[cells.parameters]
most_bytes = 1
"""


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run `garnet bench` in a folder with a study; gives exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(STUDY)

    def bench(*arguments):
        monkeypatch.setattr(sys, "argv", ["garnet", "bench", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        written = capsys.readouterr()
        return stopped.value.code or 0, written.out, written.err

    return bench


def test_run_shows_the_table_and_says_what_failed(command, tmp_path):
    status, out, err = command("run", "small.toml")
    assert status == 1
    assert "A small study" in out
    assert "Failed: cora, clean, gcn, tsvd most_bytes=1: TSVD forms" in out
    assert "1 of 2 cells failed; --retry runs them again" in err
    assert "cora, clean, gcn, none: " in err
    path = tmp_path / "small.jsonl"
    assert len(read_records(path)[0]) == 2

    path.write_bytes(path.read_bytes() + b'{"key"')
    status, out, err = command("run", "small.toml")
    assert (status, len(read_records(path)[0])) == (1, 2)
    assert "small.jsonl, line 3: it is not a whole line of JSON; left out" in err
    status, shown, err = command("show", "small.toml", "--markdown")
    assert (status, "line 3" in err) == (0, True)
    assert "| gcn | none |" in shown
    status, plain, _ = command("show", path)
    assert (status, "small" in plain, "failed" in plain) == (0, True, True)
    assert command("run", "small.toml", "--retry", "-o", path)[0] == 1
    assert len(read_records(path)[0]) == 3


def test_a_damaged_study_is_one_line(command, tmp_path):
    (tmp_path / "bad.toml").write_text(STUDY.replace("gcn", "gnc"))
    status, out, err = command("run", "bad.toml")
    assert (status, out) == (1, "")
    assert err.startswith("error: In the study bad.toml: There is no backbone named 'gnc'. Did you mean gcn")
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.glob("*.jsonl"))


def test_what_is_not_there_is_said(command):
    status, _, err = command("show", "none.jsonl")
    assert (status, "There are no records at none.jsonl" in err) == (1, True)
    status, out, err = command("show", "small.toml")
    assert (status, "has no records yet" in err, "Nothing has been measured yet." in out) == (0, True, True)
    status, _, err = command("run", "small.toml", "-o", "small.toml/records.jsonl")
    assert (status, "Cannot write small.toml/records.jsonl" in err) == (1, True)


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_to_the_same_figures(command, tmp_path):
    study = STUDY.replace("[[cells]]", "[[cells]]\nsplit = ['random', 'random-0.2-0.1', 'random-0.3-0.1']", 1)
    (tmp_path / "killed.toml").write_text(study.replace("epochs = 3", "epochs = 30\npatience = 'none'"))
    path = tmp_path / "killed.jsonl"
    line = [sys.executable, "-m", "garnet", "bench", "run", "killed.toml"]
    options = {"cwd": tmp_path, "env": os.environ | {"OMP_NUM_THREADS": "1"}, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, **options) as process:
        deadline = time.monotonic() + 120
        while not (path.exists() and path.read_bytes().count(b"\n")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    before = path.read_bytes()
    assert 1 <= before.count(b"\n") < 4
    # One of its cells fails for good, so the command says 1.
    assert subprocess.run(line, stdout=subprocess.DEVNULL, check=False, timeout=120, **options).returncode == 1
    assert path.read_bytes().startswith(before)
    resumed, damages = read_records(path)
    assert (len(resumed), len(damages)) == (4, 0)

    code = (
        "from garnet.bench.runner import run; from garnet.bench.study import load_study; "
        "run(load_study('killed.toml'), 'whole.jsonl')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, **options)
    whole, _ = read_records(tmp_path / "whole.jsonl")
    assert [one.key for one in whole] == [one.key for one in resumed]
    assert [one.values for one in whole] == [one.values for one in resumed]


QUICK = """
title = "Quick"
seeds = 2
[[cells]]
graph = "cora"
split = "random"
defense = ["none", "feature-knn"]
backbone = "gcn"
[cells.training]
epochs = 3
"""


def test_what_is_on_record_is_said_to_be_and_measured_again_on_request(command, tmp_path):
    (tmp_path / "quick.toml").write_text(QUICK)
    status, first, err = command("run", "quick.toml")
    assert (status, "2 of 2 cells measured now, 0 read from quick.jsonl" in err) == (0, True)
    status, second, err = command("run", "quick.toml")
    assert (status, second) == (0, first)
    assert "all 2 cells were read from quick.jsonl and none was measured now" in err
    assert "--again" in err
    assert len(read_records(tmp_path / "quick.jsonl")[0]) == 2
    status, _, err = command("run", "quick.toml", "--again")
    assert (status, "2 of 2 cells measured now" in err) == (0, True)
    assert len(read_records(tmp_path / "quick.jsonl")[0]) == 4


def test_records_lie_in_the_folder_results_where_there_is_one(command, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "quick.toml").write_text(QUICK)
    assert command("run", "quick.toml")[0] == 0
    assert (tmp_path / "results" / "quick.jsonl").is_file()
    assert not (tmp_path / "quick.jsonl").exists()
    assert "gcn" in command("show", "quick.toml")[1]


def test_shipped_studies_are_listed_and_found_by_name_from_anywhere(command, tmp_path):
    status, out, _ = command("list")
    listed = [line.split()[0] for line in out.splitlines()[1:]]
    assert (status, listed) == (0, [*shipped(), "unit-test"])
    assert "Table 2: citation graphs" in out
    # A file wins only if it has the ending.
    (tmp_path / "table-2").write_text("no study")
    assert "Table 2: citation graphs" in command("show", "table-2")[1]
    (tmp_path / "table-2.toml").write_text(QUICK)
    assert "Quick" in command("show", "table-2.toml")[1]
    status, _, err = command("run", "tabel-2")
    assert (status, "There is no study named 'tabel-2'" in err, "table-2" in err) == (1, True, True)
    status, _, err = command("run", "nothing-like-it")
    assert (status, "garnet bench list" in err, len(err.splitlines())) == (1, True, 1)


def test_nothing_is_written_into_the_library(command, monkeypatch):
    monkeypatch.chdir(STUDIES)
    before = sorted(STUDIES.iterdir())
    status, _, err = command("run", "quick")
    assert (status, "not kept inside the library" in err) == (1, True)
    assert sorted(STUDIES.iterdir()) == before


def test_missing_graphs_stop_a_run_once_before_anything_is_written(command, tmp_path, monkeypatch):
    for name in ("GARNET_DATA", "GARNET_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "empty"))
    status, out, err = command("run", "polblogs")
    assert (status, out, len(err.splitlines())) == (1, "", 1)
    assert "54 of 54 cells lack a file" in err
    assert "GARNET_DATA" in err
    assert not list(tmp_path.glob("*.jsonl"))

    (tmp_path / "half.toml").write_text(QUICK.replace('"cora"', '["cora", "polblogs"]'))
    status, _, err = command("run", "half.toml")
    assert (status, "2 of 4 cells lack a file" in err, "--skip-missing" in err) == (1, True, True)
    status, out, err = command("run", "half.toml", "--skip-missing")
    assert (status, "2 of 4 cells measured now" in err, "2 cells left out" in err) == (1, True, True)
    assert len(read_records(tmp_path / "half.jsonl")[0]) == 2


def test_a_split_that_stands_in_for_the_usual_one_is_said(command, tmp_path, monkeypatch):
    for name in ("GARNET_DATA", "GARNET_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "empty"))
    (tmp_path / "usual.toml").write_text(QUICK.replace('split = "random"\n', ""))
    assert "usual split of cora is not here" in command("run", "usual.toml")[2]
    (tmp_path / "drawn.toml").write_text(QUICK)
    assert "usual split" not in command("run", "drawn.toml")[2]
