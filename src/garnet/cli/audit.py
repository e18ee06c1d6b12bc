"""`garnet audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from garnet.cli.console import Json, Source, Symmetrize, out, printable, read_graph, say_json, stages
from garnet.cli.outputs import Outputs, Overwrite
from garnet.cli.report import command_line, require_page
from garnet.progress import Step

if TYPE_CHECKING:
    from garnet.audit import Audit

_SHOWN = {
    "source": "source",
    "target": "target",
    "suspicion": "doubt",
    "because": "because of",
    "spectral_distance": "apart",
    "shared_neighbors": "shared",
    "feature_similarity": "features",
    "same_class": "class",
}


def audit(
    context: typer.Context,
    source: Source,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write all edges, the most suspicious first: .csv or .parquet."),
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option("--nodes-out", help="Where to write all nodes, the least stable first.")
    ] = None,
    result: Annotated[
        Path | None, typer.Option("--result", help="Also write the audit to this .npz file, for garnet report.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Where to write a report that opens in a browser: .html.")
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="Edges to show.")] = 10,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    symmetrize: Symmetrize = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Say which edges of a graph should not be believed, and why."""
    from garnet.audit import audit as run
    from garnet.audit.file import save_audit
    from garnet.graph.files import require_archive
    from garnet.io.table_file import require_table

    for path in (output, nodes):
        if path is not None:
            require_table(path, "A table of an audit")
    if report is not None:
        require_page(report)
    if result is not None:
        require_archive(result, "An audit")
    outputs = Outputs(context, written=["output", "nodes", "result", "report"], read=["source"])
    if outputs.done:
        return
    with outputs, stages() as progress:
        progress(Step("read"))
        graph = read_graph(source, symmetrize)
        found = run(graph, seed=seed, device=device, progress=progress)
        progress(Step("write"))
        if output is not None:
            found.save(outputs.staged(output))
        if nodes is not None:
            found.save(outputs.staged(nodes), nodes=True)
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


def say_audit(found: Audit, source: Path, top: int) -> None:
    """Print the verdict and the most suspicious edges."""
    figures = found.summary()
    out.print(f"{printable(source)}: {_verdict(found)}", soft_wrap=True)
    if not top or not figures["edges"]:
        return
    columns = found.edge_table()
    shown = {name: title for name, title in _SHOWN.items() if name in columns}
    table = Table(*shown.values())
    for row in zip(*(columns[name][:top].tolist() for name in shown), strict=True):
        table.add_row(*(f"{value:.2f}" if isinstance(value, float) else printable(value) for value in row))
    out.print(table)


def _verdict(found: Audit) -> str:
    m, doubted, unstable = len(found.suspicion), int(found.doubted.sum()), int((found.nodes < 0.5).sum())
    if not len(found.planted):
        return f"no edge was planted to compare with, so nothing can be said of its {m:,} edges."
    planted = f"Of edges planted at random, {100 * found.power:.0f} % looked worse than an edge of the graph"
    if found.blind:
        return f"made-up edges can hardly be told from others here. {planted}, where 50 % would be chance."
    wrong = f" ({100 * found.false_alarms:.0f} % of them wrongly, by its own estimate)" if doubted else ""
    return (
        f"{doubted:,} of {m:,} edges are more likely made up than not{wrong}; about {100 * found.share:.1f} % in all "
        f"look made up.\n{planted} (50 % would be chance). "
        f"{unstable:,} nodes rely on doubted edges more than on others."
    )
