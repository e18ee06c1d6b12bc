"""`garnet purify` and `garnet info`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.table import Table

from garnet.cli.console import (
    Json,
    Source,
    Symmetrize,
    err,
    number,
    out,
    printable,
    read_graph,
    say_json,
    stages,
)
from garnet.cli.disk import names_a_file, place_of, purify_on_disk, say_estimate
from garnet.cli.outputs import Outputs, Overwrite, say_done
from garnet.cli.report import command_line
from garnet.cli.tables import require_plain_tables, said_of_tables
from garnet.progress import Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from garnet.graph.graph import Graph
    from garnet.places.on_disk import OnCluster, OnDisk
    from garnet.purify.result import Purification
    from garnet.purify.settings import Features


def purify(
    context: typer.Context,
    source: Source,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Where to write the purified graph; the suffix says how. With --memory or --cluster: a folder for its "
            "tiles, or for a table of edges if it ends in .parquet, or a file if the graph fits in memory.",
        ),
    ],
    rank: Annotated[
        str | None, typer.Option(help="Eigenpairs, 'low' or 'auto'.  [default: 70, or half the nodes]")
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(help="Nearest neighbours per node; 0 adds no edges.  [default: chosen from the graph]"),
    ] = None,
    only_drop: Annotated[
        bool, typer.Option("--only-drop", help="Add no edges; those that stay keep their weights.")
    ] = False,
    support: Annotated[
        str,
        typer.Option(
            help="Share of the input's edges, the least supported, to doubt; 'none' for all; 'auto' learns from edges "
            "planted among them."
        ),
    ] = "auto",
    caution: Annotated[
        float,
        typer.Option(help="With --support auto: how much worse it is to keep a made-up edge than to lose a true one."),
    ] = 7.0,
    gamma: Annotated[float, typer.Option(help="Share of the base graph's edges, the least critical, to prune.")] = 0.1,
    features: Annotated[
        str,
        typer.Option("--features-as", help="How features are used: auto, none, raw, low-rank or propagated."),
    ] = "auto",
    tau: Annotated[str, typer.Option(help="Degree regularisation: a number, or 'mean' for the mean degree.")] = "0",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    memory: Annotated[
        str | None, typer.Option(help="Memory limit, such as 8GB; the graph is read in pieces, never held whole.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786, to do the work.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    symmetrize: Symmetrize = False,
    save_as: Annotated[
        Path | None,
        typer.Option("--result", help="Also write the fate of every edge to this .npz file, for garnet report."),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            help="Also write every edge (kept, dropped or new) with score and reason: .csv or .parquet, or for Gephi "
            ".gexf or .graphml.",
        ),
    ] = None,
    nodes_out: Annotated[
        Path | None,
        typer.Option("--nodes-out", help="Also write every node, with or without edges: .csv or .parquet."),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(help="With --memory or --cluster: folder for intermediate files.  [default: the output's folder]"),
    ] = None,
    overwrite: Overwrite = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Estimate the time and space it needs; write nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Purify a graph and write the result, whole or not at all.

    With --memory or --cluster, a stopped run continues where it was when you repeat the command.
    """
    from garnet.errors import ParameterError
    from garnet.graph.files import left_out, require_archive, require_writable
    from garnet.io.table_file import require_table, save_table
    from garnet.purify.drawing import DRAWINGS, drawing_of, save_drawing
    from garnet.purify.garnet import GARNET
    from garnet.purify.memory import InMemory
    from garnet.purify.tables import ledger_table, node_table

    purifier = GARNET(
        rank=None if rank is None else number(rank, "rank", "auto", int, "low"),
        k=k,
        only_drop=only_drop,
        support=None if support == "none" else number(support, "support", "auto", float),
        caution=caution,
        gamma=gamma,
        features=cast("Features", features),
        tau=number(tau, "tau", "mean", float),
        seed=seed,
    )
    place: InMemory | OnDisk | OnCluster = InMemory(device=device)
    if memory is not None or cluster is not None:
        place = place_of(memory, cluster, output=output, scratch=scratch, overwrite=overwrite)
    if not isinstance(place, InMemory):
        require_plain_tables()
    if not isinstance(place, InMemory) and device != "cpu":
        raise ParameterError(f"With --memory or --cluster the work is done on CPUs; leave --device {device} out.")
    if isinstance(place, InMemory) and output.suffix.lower() == ".parquet":
        require_table(output)
    elif isinstance(place, InMemory) or names_a_file(output):
        require_writable(output)
    for option, table in (("--ledger", ledger), ("--nodes-out", nodes_out)):
        if table is not None and not isinstance(place, InMemory):
            raise ParameterError(f"With --memory or --cluster there is no table for {option}; leave {option} out.")
        if table is not None and table == ledger and table.suffix.lower() in DRAWINGS:
            require_writable(table)
        elif table is not None:
            require_table(table)
    if save_as is not None:
        if not isinstance(place, InMemory):
            raise ParameterError("With --memory or --cluster no edges are kept for a report; leave --result out.")
        require_archive(save_as)
    if isinstance(place, InMemory) and scratch is not None:
        raise ParameterError(
            "A purification in memory has no intermediate files; leave --scratch out, or say --memory."
        )
    if dry_run:
        from garnet.places.estimate import estimate

        say_estimate(
            lambda extent: estimate(purifier, extent, place),
            source,
            output,
            None if isinstance(place, InMemory) else place,
            symmetrize=symmetrize,
            as_json=as_json,
        )
        return
    if not isinstance(place, InMemory):
        summary = purify_on_disk(purifier, source, place, symmetrize=symmetrize)
        if summary is None:
            say_done(output, as_json=as_json)
        else:
            say_result(source, output, summary, as_json=as_json)
        return
    outputs = Outputs(context, written=["output", "save_as", "ledger", "nodes_out"], read=["source"])
    if outputs.done:
        return
    with outputs, stages() as progress:
        progress(Step("read"))
        graph = read_graph(source, symmetrize)
        result = purifier.purify(graph, place=place, progress=progress)
        progress(Step("write"))
        times = _times(source, graph)
        _write(source, graph, result, output, outputs.staged(output), times)
        if ledger is not None and ledger.suffix.lower() in DRAWINGS:
            save_drawing(drawing_of(graph, result.graph, result.ledger), outputs.staged(ledger))
        elif ledger is not None:
            save_table(ledger_table(graph, result, times), outputs.staged(ledger))
        if nodes_out is not None:
            save_table(node_table(graph, result), outputs.staged(nodes_out))
        if save_as is not None:
            from garnet.report.purification_record import PurificationRecord

            PurificationRecord.of(graph, result, command=command_line()).save(outputs.staged(save_as))
    if output.suffix.lower() != ".parquet" and (missing := left_out(result.graph, output)):
        err.print(f"note: {printable(output.name)} cannot hold {' and '.join(missing)}; .npz can", soft_wrap=True)
    say_result(source, output, result.summary() | _pieces(graph, result.graph), as_json=as_json)


def _pieces(before: Graph, after: Graph) -> dict[str, int]:
    """Numbers of components and of nodes without edges, before and after."""
    from garnet.graph.pieces import Pieces

    found = {"before": Pieces.of(before), "after": Pieces.of(after)}
    counts = {f"components_{when}": one.components for when, one in found.items()}
    return counts | {f"isolated_{when}": one.isolated for when, one in found.items()}


def _times(source: Path, graph: Graph) -> NDArray[Any] | None:
    """The times of the edges, if the user named the column of the table that holds them."""
    from garnet.purify.kept_rows import edge_times

    options, _ = said_of_tables()
    return None if options.time is None else edge_times(source, options, graph)


def _write(
    source: Path, graph: Graph, result: Purification, output: Path, staged: Path, times: NDArray[Any] | None
) -> None:
    """Write the purified graph, as a table if the suffix says so.

    If nothing may be added to a table, its rows are written as they were, except those of dropped edges.
    """
    from garnet.io.edge_list import TEXT_MARKS, save_edge_list
    from garnet.io.table_file import save_table
    from garnet.purify.drawing import DRAWINGS, drawing_of, save_drawing
    from garnet.purify.kept_rows import PARQUET, keeps_rows, write_kept_rows
    from garnet.purify.tables import edge_table

    ending = Path(output.name.lower().removesuffix(".gz")).suffix
    if result.parameters.only_drop and keeps_rows(source, output):
        kept, every = write_kept_rows(source, said_of_tables()[0], graph, result, staged)
        err.print(f"wrote {kept:,} of the {every:,} rows of {printable(source.name)} as they were", soft_wrap=True)
    elif ending == PARQUET:
        save_table(edge_table(graph, result, times), staged)
    elif ending in TEXT_MARKS:
        table = edge_table(graph, result, times)
        more = {name: column for name, column in table.items() if name not in ("source", "target", "weight")}
        save_edge_list(result.graph.to_arrays(), staged, more)
    elif ending in DRAWINGS:
        save_drawing(drawing_of(graph, result.graph, result.ledger, dropped=False), staged)
    else:
        result.graph.save(staged)


def say_result(source: Path, output: Path, summary: dict[str, Any], *, as_json: bool) -> None:
    """Print what became of the edges and what it cost."""
    if as_json:
        say_json({"input": str(source), "output": str(output), **summary})
        return
    out.print(f"{printable(source)} -> {printable(output)}", soft_wrap=True)
    table = Table(show_header=False)
    for name in ("rank", "k", "support", "features", "feature_weight", "weight"):
        table.add_row(f"setting, {name.replace('_', ' ')}", _shown(summary["settings"][name]))
    if summary["settings"].get("doubted") is not None:
        table.add_row("made up, about", f"{summary['settings']['doubted']:.1%} of the edges")
        table.add_row("how well it tells", f"{summary['settings']['power']:.2f}, where 0.5 is a guess")
    table.add_row("edges in", f"{summary['edges_before']:,}")
    table.add_row("  kept", f"{summary['kept']:,}")
    table.add_row("  dropped", f"{summary['dropped']:,}")
    table.add_row("new edges", f"{summary['added']:,}")
    table.add_row("edges out", f"{summary['edges_after']:,}")
    for name, words in (("components", "components"), ("isolated", "nodes without edges")):
        was, now = (summary.get(f"{name}_{when}", 0) for when in ("before", "after"))
        if now > was:
            table.add_row(f"more {words}", f"{now:,}, before {was:,}")
    for stage in summary["stages"]:
        table.add_row(f"seconds, {stage['name']}", f"{stage['seconds']:.2f}")
    table.add_row("peak memory", f"{max(stage['peak_bytes'] for stage in summary['stages']) / 1e6:,.0f} MB")
    if summary["parts"] > 1:
        table.add_row("parts", f"{summary['parts']:,}")
    if summary.get("recall") is not None:
        table.add_row("neighbours found, about", f"{summary['recall']:.3f}, with {summary['probes']} probes")
    out.print(table)


def _shown(value: object) -> str:
    return "none" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def info(source: Source, symmetrize: Symmetrize = False, as_json: Json = False) -> None:
    """Show what a graph file holds."""
    facts = _facts(read_graph(source, symmetrize))
    if as_json:
        say_json(facts)
        return
    table = Table(title=printable(source), title_justify="left", show_header=False)
    for name, value in facts.items():
        shown = "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
        table.add_row(name.replace("_", " "), shown)
    out.print(table)


def _facts(graph: Graph) -> dict[str, int | float | None]:
    from garnet.graph.pieces import Pieces

    counts = graph.adjacency.indptr[1:] - graph.adjacency.indptr[:-1]
    pieces = Pieces.of(graph)
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "components": pieces.components,
        "isolated_nodes": pieces.isolated,
        "least_degree": int(counts.min(initial=graph.num_nodes)) if graph.num_nodes else None,
        "mean_degree": float(counts.mean()) if graph.num_nodes else None,
        "largest_degree": int(counts.max(initial=0)),
        "features": None if graph.features is None else int(graph.features.shape[1]),
        "classes": None if graph.labels is None else int(graph.labels.max(initial=-1)) + 1,
        "homophily": graph.homophily,
    }
