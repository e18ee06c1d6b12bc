"""`garnet report`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from garnet.cli.console import err, printable
from garnet.cli.outputs import Outputs, Overwrite

if TYPE_CHECKING:
    from garnet.audit.audit import Audit
    from garnet.bench.record import Record
    from garnet.bench.verdict import Stress
    from garnet.report.page import Subject
    from garnet.report.purification_record import PurificationRecord
    from garnet.training.predictor import Predictor


def report(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RESULT",
            help="A result of purify or audit --result or a saved model (.npz), a study (.toml), or records (.jsonl).",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the report, one .html file.")],
    node: Annotated[
        list[str] | None,
        typer.Option(
            help="Number or name of a node to show, besides those that changed or that a committee disagrees on "
            "most; repeatable."
        ),
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Option(
            help="The attack on the graph before it was purified (.npz, from garnet attack -o), to show what "
            "became of its edges."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a report that opens in any browser, without a network."""
    from garnet.report.page import write_report

    require_page(output)
    outputs = Outputs(context, written=["output"], read=["source", "truth"], also=_records(source))
    if outputs.done:
        return
    subject, usual, cells = _subject(source)
    if truth is not None:
        subject = _with_truth(subject, truth)
    nodes = None if not node else [_node(text, subject) for text in node]
    with outputs:
        write_report(subject, outputs.staged(output), title=title or usual, nodes=nodes, cells=cells)
    err.print(f"wrote {printable(output)}; open it in a browser", soft_wrap=True)


def command_line() -> str:
    """The command that is running, as one would type it."""
    return shlex.join(["garnet", *sys.argv[1:]])


def require_page(output: Path) -> None:
    """Refuse, before any work is done, a file that is not a page or could not be written."""
    from garnet.errors import ParameterError
    from garnet.io.targets import require_file

    if output.suffix.lower() not in (".html", ".htm"):
        raise ParameterError(f"A report is written to an .html file. Got {str(output)!r} instead.")
    require_file(output)


def _records(source: Path) -> list[Path]:
    """The records that a report on a study reads besides the study itself."""
    from garnet.bench.shipped import is_study, records_of, study_file
    from garnet.bench.study import load_study

    if not is_study(source):
        return []
    return [records_of(study_file(source), load_study(study_file(source)))]


def _subject(source: Path) -> tuple[Subject, str | None, int | None]:
    """What a file holds, its title, if any, and the number of cells if it is a study."""
    from garnet.bench.schema import STRESS
    from garnet.bench.shipped import is_study
    from garnet.cli.bench_records import read_recorded
    from garnet.errors import GarnetError

    ending = source.suffix.lower()
    if ending == ".npz":
        return _saved(source), None, None
    if ending != ".jsonl" and not is_study(source):
        raise GarnetError(f"Cannot tell what {source} is; a report is of a file that ends in .npz, .toml or .jsonl.")
    found = read_recorded(source)
    chosen = found.chosen
    if not chosen:
        raise GarnetError(f"There are no records of {source} in {found.path}; garnet bench run makes some.")
    if found.cells is None and all(record.cell["measure"] == STRESS for record in chosen):
        return _stress(source, chosen), None, None
    chosen = tuple(record for record in chosen if record.cell["measure"] != STRESS)
    return chosen, found.title, None if found.cells is None else len(found.cells)


def _stress(source: Path, records: tuple[Record, ...]) -> Stress:
    """The only stress test in a file of records."""
    from garnet.bench.outcomes import batteries
    from garnet.bench.verdict import Stress
    from garnet.errors import GarnetError

    found = batteries(records)
    if len(found) != 1:
        what = "no whole stress test" if not found else f"stress tests of {len(found)} defences or graphs"
        raise GarnetError(f"{source} has {what}; a report is of one, so give each a file of its own.")
    return Stress(found[0])


def _saved(source: Path) -> PurificationRecord | Audit | Predictor:
    """What a command's `--result` or a model's `save` wrote."""
    from garnet.audit.file import load_audit
    from garnet.errors import GraphError
    from garnet.io.archive import Archive
    from garnet.io.text import reading
    from garnet.report.purification_record import PurificationRecord
    from garnet.training.predictor import Predictor

    with reading(source):
        if not source.is_file():
            raise GraphError("there is no such file.")
        with Archive(source) as archive:
            is_model, is_audit = "model" in archive, "audit" in archive
    if is_model:
        return Predictor.load(source)
    return load_audit(source) if is_audit else PurificationRecord.load(source)


def _with_truth(subject: Subject, path: Path) -> PurificationRecord:
    """The record of a purification, with the edges that an attack had added marked."""
    from dataclasses import replace

    from garnet.errors import GraphError, ParameterError
    from garnet.graph.edges import canonical
    from garnet.graph.perturbation import Perturbation
    from garnet.report.purification_record import PurificationRecord

    if not isinstance(subject, PurificationRecord):
        raise ParameterError("Only the report of a purification says what became of an attack; leave --truth out.")
    made = Perturbation.load(path)
    if made.result != subject.before.fingerprint:
        raise GraphError(f"The graph that was purified is not the one that {path} makes; give its own perturbation.")
    # Of the flipped edges, those in the attacked graph were added.
    added = made.dropped(subject.before)
    if not added.shape[1]:
        raise GraphError(f"{path} adds no edges, so there is nothing to show of them; leave --truth out.")
    return replace(subject, truth=canonical(added[0], added[1], subject.num_nodes))


def _node(text: str, subject: Subject) -> int:
    """The node of that name or, failing that, of that number."""
    from garnet.errors import ParameterError

    holder = getattr(subject, "graph", subject)  # a record of a purification has what it needs of its graphs
    names = getattr(holder, "names", None)
    if names is not None:
        found = [number for number, name in enumerate(names) if str(name) == text]
        if found:
            return found[0]
    try:
        return int(text)
    except ValueError:
        raise ParameterError(f"The graph has no node called {text!r}; give a name or number of one.") from None
