"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NONE = "—"  # where the paper, or a record, has no number


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], labels: int = 1) -> str:
    """A table in Markdown whose first columns are labels and whose others are numbers."""
    rule = ["---" if number < labels else "---:" for number in range(len(heads))]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (heads, rule, *rows))
