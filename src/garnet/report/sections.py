"""What every report is made of: sections, tables, templates, and what something cost and how it was made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from garnet.graph.provenance import Provenance
from garnet.progress import Stage, seconds_of
from garnet.report.charts import Bar, bars

_NOTHING = Markup()
_LEAST_SECONDS = 0.01


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes:
        title: its head; the first section of a report needs none.
        text: one sentence, or a few.
        body: charts and tables, as HTML that is safe.
        wide: whether it takes the whole width of the page.
    """

    title: str
    text: str
    body: Markup = _NOTHING
    wide: bool = False


_MOST_COLUMNS = 11  # more columns of short numbers do not fit on a sheet of paper


_LONG = 20  # letters, from which on a label is broken into lines


def table(heads: Sequence[Any], rows: Iterable[Sequence[Any]], *, labels: int = 1, name: str = "Table") -> Markup:
    """A table whose first columns are labels and whose others are numbers; every cell is text and escaped.

    One with more columns than a page is wide is cut into several, each with the labels.

    Args:
        heads: of the columns.
        rows: as many cells each.
        labels: how many columns are labels.
        name: what the table is called when it is read aloud.
    """
    rows = list(rows)
    step = max(1, _MOST_COLUMNS - labels)
    starts = range(labels, max(len(heads), labels + 1), step)
    parts = ([*range(labels), *range(start, min(start + step, len(heads)))] for start in starts)
    return Markup().join(
        _table([heads[place] for place in part], [[row[place] for place in part] for row in rows], labels, name)
        for part in parts
    )


def _table(heads: Sequence[Any], rows: Sequence[Sequence[Any]], labels: int, name: str) -> Markup:
    top = Markup().join(
        Markup('<th scope="col"{}>{}</th>').format(_styled("", place >= labels), head)
        for place, head in enumerate(heads)
    )
    lines = Markup().join(
        Markup("<tr>{}</tr>").format(
            Markup().join(
                Markup('<th scope="row"{}>{}</th>').format(_styled(cell, False), cell)
                if place == 0
                else Markup("<td{}>{}</td>").format(_styled(cell, place >= labels), cell)
                for place, cell in enumerate(row)
            )
        )
        for row in rows
    )
    return Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="{}"><table><thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format(name, top, lines)


def _styled(cell: Any, number: bool) -> Markup:
    """How a cell is set: numbers to the right, and a text of several words with room for them."""
    if number:
        return Markup(' class="n"')
    text = cell.striptags() if isinstance(cell, Markup) else str(cell)
    return Markup(' class="long"') if len(text) > _LONG else Markup()


def facts(pairs: Mapping[str, Any]) -> Markup:
    """Names and values, a line each."""
    lines = (Markup("<dt>{}</dt><dd>{}</dd>").format(name, value) for name, value in pairs.items())
    return Markup("<dl>{}</dl>").format(Markup().join(lines))


def code(text: str) -> Markup:
    """A command or a program."""
    return Markup('<pre tabindex="0"><code>{}</code></pre>').format(text)


def embedded(data: Any) -> Markup:
    """Data as JSON for a script element, which text such as `</script>` cannot close, as JSON escapes those signs."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def percent(share: float | None, digits: int = 1) -> str:
    """A share in percent, on one line, or a dash."""
    return "–" if share is None else f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"


def plural(count: int, one: str, many: str | None = None) -> str:
    """A number of things."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def fragment(template: str, **values: Any) -> Markup:
    """A template of this package with these values, as HTML that is safe: all text in it is escaped."""
    return Markup(_environment().get_template(template).render(**values))


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(source), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def source(name: str) -> str:
    """The text of a template, a style or a script of this package."""
    return files("garnet.report").joinpath("templates", name).read_text(encoding="utf-8")


def cost_section(stages: Sequence[Stage]) -> list[Section]:
    """Seconds of each stage, and the memory of all; none where nothing was measured."""
    if not stages:
        return []
    entries = [Bar(name=name, value=value, note=_seconds(value)) for name, value in seconds_of(stages).items()]
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
    return f"{seconds:.2f} s" if seconds >= _LEAST_SECONDS else f"under {_LEAST_SECONDS} s"
