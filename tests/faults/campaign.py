"""Run every case of tests/faults, count what was tried and what failed, and write that into docs/reliability.md.

    python tests/faults/campaign.py -n 2       all of it, which takes 20 minutes; what follows goes to pytest

As root it does not start where the jail cannot be closed.
"""

import importlib
import json
import platform
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "results" / "campaign.json"
PACKAGES = ["pygarnet", "numpy", "scipy", "torch", "pyarrow", "distributed"]


class Tally:
    """A plugin of pytest that counts the cases of each file."""

    def __init__(self):
        self.cases = {}

    def pytest_runtest_logreport(self, report):
        counts = self.cases.setdefault(Path(report.nodeid.partition("::")[0]).name, Counter())
        if report.when == "call":
            counts["tried" if report.outcome != "skipped" else "skipped"] += 1
            counts["failed"] += report.outcome == "failed"
        elif report.outcome == "failed":  # what it needs could not be made, or not be taken down
            counts.update(tried=report.when == "setup", failed=1)
        elif report.outcome == "skipped" and report.when == "setup":
            counts["skipped"] += 1


def run(options):
    """Run the campaign; gives the figures."""
    from jail import Jailer, Refused

    try:
        jailer = Jailer()
    except Refused as why:
        raise SystemExit(f"The campaign does not start: {why}.") from None
    closed = jailer.mounts
    jailer.close()
    tally, began = Tally(), time.monotonic()
    chosen = ["-m", "slow or not slow", "--tb=line", "-p", "no:cacheprovider", "-p", "no:doctest"]
    pytest.main([str(Path(__file__).parent), "-o", "addopts=--strict-markers", *chosen, *options], plugins=[tally])
    return {
        "command": "make campaign",
        "date": datetime.now(UTC).date().isoformat(),
        "minutes": round((time.monotonic() - began) / 60),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "versions": {name: version(name) for name in PACKAGES},
        "jail": "all else read-only, without privileges" if closed else "an ordinary user",
        "kinds": [
            {"file": name, "kind": _kind(name), **{key: counts[key] for key in ("tried", "failed", "skipped")}}
            for name, counts in sorted(tally.cases.items())
        ],
    }


def _kind(name):
    """The first sentence of what a file says of itself."""
    text = importlib.import_module(name.removesuffix(".py")).__doc__ or name
    return " ".join(text.split("\n\n")[0].split()).rstrip(".")


def main():
    figures = run(sys.argv[1:])
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    subprocess.run([sys.executable, "-m", "tools.tables"], cwd=ROOT, check=True)
    tried, failed = (sum(one[key] for one in figures["kinds"]) for key in ("tried", "failed"))
    sys.stdout.write(f"{tried:,} cases, {failed:,} failed; docs/reliability.md has them by kind\n")
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
