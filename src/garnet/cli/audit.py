"""`garnet audit`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from garnet.cli.console import (
    Json,
    Source,
    Symmetrize,
    named_graph,
    out,
    printable,
    read_graph,
    say_json,
    stages,
    with_split,
)
from garnet.cli.disk import going_on, place_of, say_estimate
from garnet.cli.outputs import Outputs, Overwrite, say_done
from garnet.cli.report import command_line, require_page
from garnet.cli.tables import require_plain_tables
from garnet.errors import ParameterError
from garnet.progress import Step

if TYPE_CHECKING:
    from garnet.audit import Audit, TiledAudit
    from garnet.places.on_disk import OnCluster, OnDisk

_SHOWN = {
    "source": "source",
    "target": "target",
    "suspicion": "doubt",
    "reason": "because",
}

_INSTEAD = {
    "--nodes-out": "the nodes are in the folder of the output",
    "--split": "give the graph a split, or leave it out",
    "--device": "the work is done on CPUs; leave it out",
}


def audit(
    context: typer.Context,
    source: Source,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Where to write all edges, the most suspicious first: .csv or .parquet. With --memory or --cluster: a "
            "folder of such files, for edges and for nodes.",
        ),
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option("--nodes-out", help="Where to write all nodes, the least stable first.")
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option("--groups", help="Where to write the members of groups (dense sets of suspicious edges)."),
    ] = None,
    result: Annotated[
        Path | None, typer.Option("--result", help="Also write the audit to this .npz file, for garnet report.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Where to write a report for the browser: .html.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Shares of the labelled nodes for training and validation, such as 0.1,0.1, so that labels are used; "
            "without it they are used if the graph has a split."
        ),
    ] = None,
    confirmed: Annotated[
        Path | None,
        typer.Option(help="Edges known to be true, to learn from: a .csv or .tsv with columns source and target."),
    ] = None,
    refuted: Annotated[Path | None, typer.Option(help="Edges known to be made up, in the same form.")] = None,
    top: Annotated[int, typer.Option(min=0, help="Edges to show.")] = 10,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    memory: Annotated[
        str | None, typer.Option(help="Memory limit, such as 8GB; the graph is read in pieces, never held whole.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786, to do the work.")
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(help="With --memory or --cluster: folder for intermediate files.  [default: the output's folder]"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    symmetrize: Symmetrize = False,
    overwrite: Overwrite = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Estimate the time and space it needs; write nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Find the edges of a graph that should not be believed, and say why.

    With --memory or --cluster, a stopped run with an output continues where it was when you repeat the command.
    """
    from garnet.audit import audit as run
    from garnet.audit.file import save_audit
    from garnet.audit.judged import read_pairs, require_pairs
    from garnet.audit.tiled_table import require_folder_of_tables
    from garnet.graph.files import require_archive
    from garnet.io.table_file import require_table, save_table

    if memory is not None or cluster is not None:
        asked = {
            "--nodes-out": nodes,
            "--groups": groups,
            "--result": result,
            "--report": report,
            "--split": split,
            "--confirmed": confirmed,
            "--refuted": refuted,
            "--device": None if device == "cpu" else device,
        }
        _require_alone(asked)
        if output is not None:
            require_folder_of_tables(output)
        place = place_of(memory, cluster, output=output, scratch=scratch, overwrite=overwrite)
        if dry_run:
            _say_estimate(source, place, seed=seed, symmetrize=symmetrize, as_json=as_json)
            return
        _audit_in_tiles(source, place, seed=seed, symmetrize=symmetrize, top=top, as_json=as_json)
        return
    if scratch is not None:
        raise ParameterError("An audit in memory has no intermediate files; leave --scratch out, or say --memory.")
    for path in (output, nodes, groups):
        if path is not None:
            require_table(path, "A table of an audit")
    for path in (confirmed, refuted):
        if path is not None:
            require_pairs(path)
    if report is not None:
        require_page(report)
    if result is not None:
        require_archive(result, "An audit")
    if dry_run:
        _say_estimate(source, None, output=output, seed=seed, symmetrize=symmetrize, as_json=as_json)
        return
    outputs = Outputs(
        context, written=["output", "nodes", "groups", "result", "report"], read=["source", "confirmed", "refuted"]
    )
    if outputs.done:
        return
    with outputs, stages() as progress:
        progress(Step("read"))
        graph = read_graph(source, symmetrize)
        if split is not None:
            graph = with_split(graph, split, seed)
        good, bad = (None if path is None else read_pairs(path) for path in (confirmed, refuted))
        found = run(graph, confirmed=good, refuted=bad, seed=seed, device=device, progress=progress)
        progress(Step("write"))
        if output is not None:
            found.save(outputs.staged(output))
        if nodes is not None:
            found.save(outputs.staged(nodes), nodes=True)
        if groups is not None:
            save_table(found.group_table(), outputs.staged(groups))
        if result is not None:
            save_audit(found, outputs.staged(result), command=command_line())
        if report is not None:
            from garnet.report.page import write_report

            title = f"Audit of {source.name}"
            write_report(found, outputs.staged(report), title=title, command=command_line())
    if as_json:
        say_json({"input": str(source), **found.summary()})
        return
    say_audit(found, source, top)


def _require_alone(asked: Mapping[str, object]) -> None:
    """Refuse what needs the whole graph in memory."""
    for option, value in asked.items():
        if value is not None:
            cure = _INSTEAD.get(option, f"leave {option} out")
            raise ParameterError(f"With --memory or --cluster there is no {option}; {cure}.")


def _say_estimate(
    source: Path,
    place: OnDisk | OnCluster | None,
    *,
    seed: int,
    symmetrize: bool,
    as_json: bool,
    output: Path | None = None,
) -> None:
    from garnet.audit.estimate import estimate_audit

    if place is not None:
        require_plain_tables()
        output = None if place.output is None else Path(place.output)
    say_estimate(
        lambda extent: estimate_audit(extent, place, seed=seed),
        source,
        output,
        place,
        symmetrize=symmetrize,
        as_json=as_json,
        settings=False,
    )


def _audit_in_tiles(
    source: Path, place: OnDisk | OnCluster, *, seed: int, symmetrize: bool, top: int, as_json: bool
) -> None:
    from garnet.audit import audit as run

    require_plain_tables()
    with going_on(place) as progress:
        found = run(named_graph(source) or source, place=place, seed=seed, symmetrize=symmetrize, progress=progress)
    if found.done_before and found.folder is not None:
        say_done(found.folder, as_json=as_json)
    elif as_json:
        say_json({"input": str(source), **found.summary()})
    else:
        say_audit(found, source, top)


def say_audit(found: Audit | TiledAudit, source: Path, top: int) -> None:
    """Print the verdict and the most suspicious edges."""
    figures = found.summary()
    out.print(f"{printable(source)}: {_verdict(found)}", soft_wrap=True)
    if not top or not figures["edges"]:
        return
    columns = found.edge_table()
    shown = dict(_SHOWN)
    if "group" in columns and columns["group"].any():
        shown["group"] = "group"
    table = Table(*shown.values())
    for row in zip(*(columns[name][:top].tolist() for name in shown), strict=True):
        table.add_row(*(_cell(name, value) for name, value in zip(shown, row, strict=True)))
    out.print(table)


def _cell(name: str, value: Any) -> str:
    if name == "group":
        return str(value or "")
    return f"{value:.2f}" if isinstance(value, float) else printable(value)


def _verdict(found: Audit | TiledAudit) -> str:
    m, doubted = found.num_edges, found.doubted_edges
    if not len(found.planted):
        return f"no edge was planted to compare with, so nothing can be said of its {m:,} edges.{_told(found)}"
    planted = f"Of edges planted at random, {100 * found.power:.0f} % looked worse than an edge of the graph"
    if found.blind:
        return (
            f"made-up edges can hardly be told from others here. {planted}, where 50 % would be chance.{_told(found)}"
        )
    wrong = f" ({100 * found.false_alarms:.0f} % of them wrongly, by its own estimate)" if doubted else ""
    return (
        f"{doubted:,} of {m:,} edges are more likely made up than not{wrong}; about {100 * found.share:.1f} % in all "
        f"look made up.\n{planted} (50 % would be chance).\n{found.caveat}{_told(found)}\n{_groups(found)}\n"
        f"{found.unstable_nodes:,} nodes rely on doubted edges more than on others."
    )


def _told(found: Audit | TiledAudit) -> str:
    """What the audit used besides the edges, one line each."""
    from garnet.audit.tiled_audit import TiledAudit

    if isinstance(found, TiledAudit):
        return f"\n{found.labels}"
    graph, said = found.graph, found.labels
    if graph.split is None and graph.labels is not None and (graph.labels >= 0).any():
        said += " --split 0.1,0.1 draws one."
    lines = [said]
    if found.judged is not None:
        told = found.summary()
        counts = " and ".join(f"{told[what]:,} {what}" for what in ("confirmed", "refuted") if told[what])
        lines.append(
            f"You judged some of the edges, {counts}; that changed the rest." if counts else "You judged none."
        )
    return "".join(f"\n{line}" for line in lines)


def _groups(found: Audit | TiledAudit) -> str:
    from garnet.audit.tiled_audit import NO_GROUPS, TiledAudit

    if isinstance(found, TiledAudit):
        return NO_GROUPS
    groups = found.groups()
    if not groups:
        return "No group of nodes has more suspicious edges among its members than chance would put there."
    members, largest = sum(len(one.members) for one in groups), max(len(one.members) for one in groups)
    what = "1 group of" if len(groups) == 1 else f"{len(groups):,} groups, in all of"
    return f"{what} {members:,} nodes, with dense suspicious edges among the members; the largest has {largest:,}."
