"""`write_report`: a subject becomes sections, and the sections one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from garnet.audit.audit import Audit
from garnet.bench.record import Record
from garnet.errors import ParameterError
from garnet.io.atomic import atomic_path
from garnet.machine import __version__
from garnet.report.audited import audit_sections
from garnet.report.purification_record import Result
from garnet.report.purified import purification_sections
from garnet.report.rendering import page
from garnet.report.sections import Section
from garnet.report.studied import study_sections
from garnet.report.trained import model_sections
from garnet.training.predictor import Predictor


def write_report(
    subject: Any,
    path: str | Path,
    *,
    title: str | None = None,
    nodes: Sequence[int] | None = None,
    node_names: Sequence[str] | None = None,
    command: str = "",
    cells: int | None = None,
) -> None:
    """Write a report to one HTML file that needs nothing else, whole or not at all.

    The same subject gives the same bytes.

    Args:
        subject: a `Result`, an `Audit`, a sequence of study records, or a `Predictor`.
        path: the file, replaced if it exists; its folder must exist.
        title: of the page; None takes one that says what the subject is.
        nodes: whose neighbourhoods to show, besides those that changed most.
        node_names: n texts to call the nodes by; None takes the graph's own.
        command: that made an audit or a model, if it was one; a subject that was read from a file knows its own.
        cells: how many a study has, if not all of them have records.

    Raises:
        ParameterError: nothing can be said of such a subject, a node is not there, or the names are too few or many.
        GarnetError: the file cannot be written.
    """
    usual, sections = _sections(subject, title, nodes, node_names, command, cells)
    verdict, *others = sections
    text = page(title=title or usual, verdict=verdict.text, sections=others, version=__version__)
    with atomic_path(path) as unfinished:
        # A name may hold half of a pair of surrogates, which is no text that a file could have.
        unfinished.write_text(text, encoding="utf-8", errors="replace", newline="\n")


def _sections(
    subject: Any,
    title: str | None,
    nodes: Sequence[int] | None,
    node_names: Sequence[str] | None,
    command: str,
    cells: int | None,
) -> tuple[str, list[Section]]:
    """The usual title of a report on a subject, and its sections, the verdict first; see `write_report`."""
    if isinstance(subject, Result):
        _require_names(node_names, subject.num_nodes)
        return "A purified graph", purification_sections(subject, nodes, node_names)
    if isinstance(subject, Audit):
        _require_names(node_names, subject.graph.num_nodes)
        return "Which edges to doubt", audit_sections(subject, nodes, node_names, command)
    if nodes is not None or node_names is not None:
        raise ParameterError("Only the report of a purification or an audit shows nodes; leave them out.")
    if isinstance(subject, Predictor):
        return "A trained model", model_sections(subject, command)
    if isinstance(subject, Sequence) and subject and all(isinstance(one, Record) for one in subject):
        return "A study", study_sections(subject, title or "A study", cells)
    raise ParameterError(
        f"A report is of a Result, an Audit, some records of a study or a Predictor. Got {_said(subject)} instead."
    )


def _require_names(names: Sequence[str] | None, n: int) -> None:
    if names is not None and len(names) != n:
        raise ParameterError(f"The 'node_names' must be {n}, one for each node. Got {len(names)} instead.")


def _said(subject: Any) -> str:
    empty = isinstance(subject, Sequence) and not subject
    return f"an empty {type(subject).__name__}" if empty else type(subject).__name__
