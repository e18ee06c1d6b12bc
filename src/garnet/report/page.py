"""`write_report`: a subject becomes sections, and the sections one HTML file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from garnet.audit.audit import Audit
from garnet.bench.record import Record
from garnet.bench.verdict import Stress
from garnet.errors import ParameterError
from garnet.graph.graph import as_graph
from garnet.io.atomic import atomic_path
from garnet.machine import __version__
from garnet.purify.result import Purification
from garnet.report.audit import audit_sections
from garnet.report.model import model_sections
from garnet.report.purification import purification_sections
from garnet.report.purification_record import PurificationRecord
from garnet.report.sections import Section, fragment, source
from garnet.report.stress import stress_sections
from garnet.report.study import study_sections
from garnet.training.predictor import Predictor

_SCRIPTS = ("choose.js", "neighbourhood.js", "votes.js", "page.js")

Subject = Purification | PurificationRecord | Audit | Predictor | Stress | Sequence[Record]
"""What a report can be about; records are those of a study."""


def write_report(
    subject: Subject,
    path: str | Path,
    *,
    graph: Any = None,
    title: str | None = None,
    nodes: Sequence[int] | None = None,
    node_names: Sequence[str] | None = None,
    command: str = "",
    cells: int | None = None,
) -> None:
    """Write a report to one self-contained HTML file, whole or not at all.

    The same subject gives the same bytes.

    Args:
        subject: a `Purification` in memory, a `PurificationRecord`, an `Audit`, a `Predictor`, a `Stress`, or the
            records of a study.
        path: the file, replaced if it exists; its folder must exist.
        graph: the graph that was purified, or anything that `as_graph` reads; only a `Purification` needs it.
        title: title of the page; None takes one that names the subject.
        nodes: nodes to show besides those that changed most or, for a committee, that its members disagree on most.
        node_names: n names of the nodes; None takes the graph's own.
        command: the command that made the subject, if any; a subject read from a file knows its own.
        cells: number of cells in the study, if not all of them have records.

    Raises:
        ParameterError: the subject is of an unknown kind, a node does not exist, or names are too few or too many.
        GarnetError: the file cannot be written.

    Example:
        >>> from garnet import GARNET, write_report
        >>> from garnet.datasets import cora
        >>> write_report(GARNET().purify(cora()), "report.html", graph=cora())  # doctest: +SKIP
    """
    if isinstance(subject, Purification) != (graph is not None):
        need = "A report of a Purification needs the graph" if graph is None else "Only a Purification needs a graph"
        raise ParameterError(f"{need}; {'give it as graph' if graph is None else 'leave it out'}.")
    if isinstance(subject, Purification):
        subject = PurificationRecord.of(as_graph(graph), subject, command=command)
    usual, sections = _sections(subject, title, nodes, node_names, command, cells)
    text = _page(title or usual, sections)
    with atomic_path(path) as unfinished:
        # A name may hold half of a pair of surrogates, which is no text that a file could have.
        unfinished.write_text(text, encoding="utf-8", errors="replace", newline="\n")


def _sections(
    subject: Subject,
    title: str | None,
    nodes: Sequence[int] | None,
    node_names: Sequence[str] | None,
    command: str,
    cells: int | None,
) -> tuple[str, list[Section]]:
    """The usual title of a report on a subject, and its sections, the verdict first; see `write_report`."""
    match subject:
        case PurificationRecord():
            _require_names(node_names, subject.num_nodes)
            return "A purified graph", purification_sections(subject, nodes, node_names)
        case Audit():
            _require_names(node_names, subject.graph.num_nodes)
            return "Which edges to doubt", audit_sections(subject, nodes, node_names, command)
        case Predictor() if subject.votes is not None:
            _require_names(node_names, subject.graph.num_nodes)
            return "A committee", model_sections(subject, command, nodes, node_names)
        case _ if nodes is not None or node_names is not None:
            raise ParameterError(
                "Only the report of a purification, an audit or a committee shows nodes; leave them out."
            )
        case Stress():
            return f"A stress test of {subject.battery.defense} on {subject.battery.graph}", stress_sections(subject)
        case Predictor():
            return "A trained model", model_sections(subject, command)
        case [*_] if subject and all(isinstance(one, Record) for one in subject):
            return "A study", study_sections(subject, title or "A study", cells)
    empty = "an empty " if isinstance(subject, Sequence) and not subject else ""
    raise ParameterError(
        "A report is of a Purification or its record, an Audit, a Predictor, a Stress or some records of a study. "
        f"Got {empty}{type(subject).__name__} instead."
    )


def _require_names(names: Sequence[str] | None, n: int) -> None:
    if names is not None and len(names) != n:
        raise ParameterError(f"The 'node_names' must be {n}, one for each node. Got {len(names)} instead.")


def _page(title: str, sections: Sequence[Section]) -> str:
    """The whole page, which may load nothing and run no script but its own."""
    verdict, *others = sections
    style, script = source("page.css"), "".join(map(source, _SCRIPTS))
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    own = {"style": Markup(style), "script": Markup(script), "policy": policy, "version": __version__}
    return fragment("page.html", title=title, verdict=verdict.text, sections=others, **own)


def _hash(text: str) -> str:
    """By this a browser knows that a style or script is the page's own."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
