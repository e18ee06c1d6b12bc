"""A benchmark writes to a scratch folder, and to the committed records only when it is told to."""

import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "benchmarks" / "record.py"
BENCHMARK = """
import json
from record import save, so_far
path = so_far("figures.json")
before = json.loads(path.read_text())["figures"] if path.exists() else {}
save("figures", {**before, "new": 1})
"""


@pytest.fixture
def checkout(tmp_path):
    """A checkout with a benchmark that adds to its record, and a committed record."""
    for name in ("benchmarks", "results"):
        (tmp_path / name).mkdir()
    shutil.copy(SOURCE, tmp_path / "benchmarks")
    (tmp_path / "benchmarks" / "adds.py").write_text(BENCHMARK)
    (tmp_path / "results" / "figures.json").write_text(json.dumps({"figures": {"old": 0}}))
    return tmp_path


def figures(checkout, folder):
    return json.loads((checkout / folder / "figures.json").read_text())["figures"]


def test_records_are_committed_only_on_request(checkout, monkeypatch, capsys):
    line = checkout / "benchmarks" / "adds.py"
    monkeypatch.setattr(sys, "argv", [str(line)])
    monkeypatch.syspath_prepend(line.parent)
    for name in ("record", "adds"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delenv("GARNET_COMMIT_RECORDS", raising=False)
    runpy.run_path(str(line))
    said = capsys.readouterr().out
    assert f"wrote {Path('.results') / 'figures.json'}" in said
    assert "GARNET_COMMIT_RECORDS=1" in said
    assert figures(checkout, "results") == {"old": 0}
    assert figures(checkout, ".results") == {"old": 0, "new": 1}
    monkeypatch.setenv("GARNET_COMMIT_RECORDS", "1")
    runpy.run_path(str(line))
    assert f"wrote {Path('results') / 'figures.json'}" in capsys.readouterr().out
    assert figures(checkout, "results") == {"old": 0, "new": 1}
    assert json.loads((checkout / "results" / "figures.json").read_text())["command"] == "python benchmarks/adds.py"
    monkeypatch.delitem(sys.modules, "record")
