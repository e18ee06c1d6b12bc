"""The sections that every report on something that was made has: what it cost, and how it was made."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from garnet.graph.provenance import Provenance
from garnet.progress import Stage
from garnet.report.charts import Bar, bars
from garnet.report.sections import Section, code, facts

_LEAST = 0.01


def cost_section(stages: Sequence[Stage]) -> list[Section]:
    """Seconds of each stage, and the memory of all; none where nothing was measured."""
    if not stages:
        return []
    entries = [Bar(name=one.name, value=one.seconds, note=_seconds(one.seconds)) for one in stages]
    total, peak = sum(one.seconds for one in stages), max(one.peak_bytes for one in stages)
    text = f"{_seconds(total)} in all; the process held at most {peak / 1e6:,.0f} MB."
    return [Section("Cost", text, bars(entries, title="Seconds of each stage", x="seconds"))]


def made_section(made: Provenance, text: str, python: str = "") -> Section:
    """Command, graphs, versions and machine.

    Args:
        made: all of these.
        text: what is said above.
        python: what does the same as the command, if that is known.
    """
    body = code(shown) if (shown := made.command or python) else Markup()
    body += facts(
        ({"in Python": python} if made.command and python else {})
        | {name if name == "graph" else f"graph {name}": value for name, value in made.fingerprints.items()}
        | {name: value or "not installed" for name, value in made.versions.items()}
        | {name.replace("_gb", ", GB"): value for name, value in made.machine.items() if value is not None}
    )
    return Section("How it was made", text, body)


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= _LEAST else f"under {_LEAST} s"
