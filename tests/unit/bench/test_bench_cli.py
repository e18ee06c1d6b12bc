import os
import signal
import subprocess
import sys
import time

import pytest

from garnet.bench.record import read_records
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
    path = tmp_path / "results" / "small.jsonl"
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
    assert not (tmp_path / "results").exists()


def test_what_is_not_there_is_said(command):
    status, _, err = command("show", "none.jsonl")
    assert (status, "There are no records at none.jsonl" in err) == (1, True)
    status, out, err = command("show", "small.toml")
    assert (status, "has no records yet" in err, "Nothing has been measured yet." in out) == (0, True, True)
    status, _, err = command("run", "small.toml", "-o", "small.toml/records.jsonl")
    assert (status, "Cannot write small.toml/records.jsonl" in err) == (1, True)


def test_a_run_that_was_killed_goes_on_to_the_same_figures(command, tmp_path):
    study = STUDY.replace("[[cells]]", "[[cells]]\nsplit = ['random', 'random-0.2-0.1', 'random-0.3-0.1']", 1)
    (tmp_path / "killed.toml").write_text(study.replace("epochs = 3", "epochs = 30\npatience = 'none'"))
    path = tmp_path / "results" / "killed.jsonl"
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
