import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))


USUAL = "my_attack"
"""The other examples run with the slow tests."""


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, id=path.stem, marks=() if path.stem == USUAL else pytest.mark.slow) for path in EXAMPLES],
)
def test_example_runs(example):
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
