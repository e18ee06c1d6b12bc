"""Write results/coverage.json from what coverage.py counted: `make coverage` calls this after the tests.

python -m tools.coverage_record .coverage.json "the command that made it"
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from garnet.machine import machine, versions

ROOT = Path(__file__).resolve().parents[1]
LEAST = 15  # modules that are named, those with the most lines that no test reaches
GROUND = "ground"


def figures(report: dict[str, Any]) -> dict[str, Any]:
    """Of a report in coverage's JSON: what is covered in all, room by room, and which modules lack most."""
    lines: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    modules = []
    for file, found in report["files"].items():
        inside = Path(file).parts[Path(file).parts.index("garnet") + 1 :]
        room = inside[0] if len(inside) > 1 else GROUND
        count, lacking = found["summary"]["num_statements"], found["summary"]["missing_lines"]
        lines[room] += count
        missed[room] += lacking
        if lacking:
            modules.append({"module": "/".join(inside), "statements": count, "missed": lacking})
    modules.sort(key=lambda one: (-one["missed"], one["module"]))
    rooms = {room: {"statements": lines[room], "missed": missed[room]} for room in sorted(lines)}
    return {"statements": lines.total(), "missed": missed.total(), "rooms": rooms, "least": modules[:LEAST]}


def main() -> None:
    """Read the report and write the record."""
    report, command = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), sys.argv[2]
    record = {
        "command": command,
        "machine": machine(),
        "versions": versions(("numpy", "scipy", "torch", "pytest", "coverage", "pygarnet")),
        "figures": figures(report),
    }
    path = ROOT / "results" / "coverage.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
