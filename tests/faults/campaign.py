"""Run every case of tests/faults, count what was tried and what failed, and write the figure into docs/reliability.md.

    python tests/faults/campaign.py -n 2       all of it, which takes 20 minutes; what follows goes to pytest
    python tests/faults/campaign.py --render   write the page again from results/campaign.json

As root it does not start where the jail cannot be closed.
"""

import importlib
import json
import platform
import re
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIGURES, PAGE = ROOT / "results" / "campaign.json", ROOT / "docs" / "reliability.md"
PLACE = re.compile(r"(<!-- campaign -->\n).*?(<!-- end -->)", re.DOTALL)
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


def table(figures):
    """The figures in Markdown."""
    rows = [(one["kind"], one["tried"], one["failed"]) for one in figures["kinds"]]
    rows.append(("**All**", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    versions = ", ".join(f"{name} {number}" for name, number in figures["versions"].items())
    lines = ["| kind of case | tried | failed |", "|---|---:|---:|"]
    lines += [f"| {kind} | {tried:,} | {failed:,} |" for kind, tried, failed in rows]
    skipped = sum(one["skipped"] for one in figures["kinds"])
    return "\n".join(lines) + (
        f"\n\n`{figures['command']}`, {figures['date']}, {figures['minutes']} minutes; {versions}, Python "
        f"{figures['python']}, {figures['system']}. The jail: {figures['jail']}. {skipped:,} cases do not apply to a "
        "command or to this system, and were skipped.\n"
    )


def render():
    """Write the figures into the page."""
    text = PAGE.read_text()
    figures = json.loads(FIGURES.read_text())
    PAGE.write_text(PLACE.sub(lambda found: f"{found[1]}\n{table(figures)}\n{found[2]}", text))


def main():
    options = sys.argv[1:]
    if options != ["--render"]:
        figures = run(options)
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    render()
    figures = json.loads(FIGURES.read_text())
    sys.stdout.write(table(figures))
    raise SystemExit(any(one["failed"] for one in figures["kinds"]))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
