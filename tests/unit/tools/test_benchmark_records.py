"""A benchmark writes to a scratch folder, and to the committed records only when it is told to."""

import json
import os
import shutil
import subprocess
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


def test_records_are_committed_only_on_request(checkout):
    line = [sys.executable, checkout / "benchmarks" / "adds.py"]
    run = {"capture_output": True, "text": True, "check": True}
    alone = {name: value for name, value in os.environ.items() if name != "GARNET_COMMIT_RECORDS"}
    said = subprocess.run(line, env=alone, **run).stdout
    assert f"wrote {Path('.results') / 'figures.json'}" in said
    assert "GARNET_COMMIT_RECORDS=1" in said
    assert figures(checkout, "results") == {"old": 0}
    assert figures(checkout, ".results") == {"old": 0, "new": 1}
    said = subprocess.run(line, env=alone | {"GARNET_COMMIT_RECORDS": "1"}, **run).stdout
    assert f"wrote {Path('results') / 'figures.json'}" in said
    assert figures(checkout, "results") == {"old": 0, "new": 1}
    assert json.loads((checkout / "results" / "figures.json").read_text())["command"] == "python benchmarks/adds.py"
