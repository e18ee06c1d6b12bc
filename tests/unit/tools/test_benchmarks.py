"""Every benchmark can be asked what it does, without doing it."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.name not in ("record.py", "families.py"))

# One process for all: each alone would import the same libraries again. As for a script, their folder comes first, so
# that a file there hides a package of the same name. What only some of them compare with need not be installed.
ASK_ALL = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
import torch
for path in sys.argv[2:]:
    sys.argv = [path, "--help"]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if end.code:
            sys.exit(f"{path} ended with {end.code}")
    except ModuleNotFoundError as error:
        if error.name not in ("faiss", "hnswlib"):
            raise
        print("usage:", path.rpartition("/")[2], "needs", error.name)
    else:
        sys.exit(f"{path} did not stop after its help")
"""


def test_every_benchmark_says_how_it_is_used(tmp_path):
    line = [sys.executable, "-c", ASK_ALL, str(FOLDER), *map(str, SCRIPTS)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith("usage: ")]
    assert [line.split()[1] for line in said] == [path.name for path in SCRIPTS]
