"""`garnet purify` and `garnet info`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from garnet.cli.console import Json, Source, Symmetrize, err, number, out, read_graph, stages

if TYPE_CHECKING:
    from garnet.graph import Graph


def purify(
    source: Source,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the purified graph; the ending says how.")
    ],
    rank: Annotated[str | None, typer.Option(help="Eigenpairs, or 'auto'.  [default: 70, or half the nodes]")] = None,
    k: Annotated[
        int | None, typer.Option(help="Nearest neighbours of each node.  [default: what a sparse graph lacks]")
    ] = None,
    support: Annotated[
        str, typer.Option(help="Share of the input's edges, the least supported, to doubt; 'auto', or 'none' for all.")
    ] = "auto",
    gamma: Annotated[float, typer.Option(help="Share of the base graph's edges to prune, the least critical.")] = 0.1,
    features: Annotated[str, typer.Option(help="auto, none, raw, low-rank or propagated.")] = "auto",
    tau: Annotated[str, typer.Option(help="Degree regularisation: a number, or 'mean' for the mean degree.")] = "0",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    symmetrize: Symmetrize = False,
    as_json: Json = False,
) -> None:
    """Purify a graph and write the result, whole or not at all."""
    from garnet.datasets.files import left_out, require_writable
    from garnet.purify import GARNET

    require_writable(output)
    purifier = GARNET(
        rank=None if rank is None else number(rank, "rank", "auto", int),
        k=k,
        support=None if support == "none" else number(support, "support", "auto", float),
        gamma=gamma,
        features=features,  # type: ignore[arg-type]
        tau=number(tau, "tau", "mean", float),
        device=device,
        seed=seed,
    )
    with stages() as progress:
        progress("read")
        graph = read_graph(source, symmetrize)
        result = purifier.purify(graph, progress=progress)
        progress("write")
        result.graph.save(output)
    if missing := left_out(result.graph, output):
        err.print(f"note: {escape(output.name)} cannot hold {' and '.join(missing)}; .npz can", soft_wrap=True)
    if as_json:
        out.print_json(json.dumps({"input": str(source), "output": str(output), **result.summary()}))
        return
    ledger = result.ledger
    table = Table(title=f"{escape(str(source))} -> {escape(str(output))}", title_justify="left", show_header=False)
    table.add_row("edges in", f"{graph.num_edges:,}")
    table.add_row("  kept", f"{ledger.kept.shape[1]:,}")
    table.add_row("  dropped", f"{ledger.dropped.shape[1]:,}")
    table.add_row("new edges", f"{ledger.added.shape[1]:,}")
    table.add_row("edges out", f"{result.graph.num_edges:,}")
    for stage in result.stages:
        table.add_row(f"seconds, {stage.name}", f"{stage.seconds:.2f}")
    table.add_row("peak memory", f"{max(stage.peak_bytes for stage in result.stages) / 1e6:,.0f} MB")
    out.print(table)


def info(source: Source, symmetrize: Symmetrize = False, as_json: Json = False) -> None:
    """Say what a graph file holds."""
    facts = _facts(read_graph(source, symmetrize))
    if as_json:
        out.print_json(json.dumps(facts))
        return
    table = Table(title=escape(str(source)), title_justify="left", show_header=False)
    for name, value in facts.items():
        shown = "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
        table.add_row(name.replace("_", " "), shown)
    out.print(table)


def _facts(graph: Graph) -> dict[str, int | float | None]:
    from scipy.sparse.csgraph import connected_components

    counts = graph.adjacency.indptr[1:] - graph.adjacency.indptr[:-1]
    pieces = connected_components(graph.adjacency, directed=False, return_labels=False) if graph.num_nodes else 0
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "components": int(pieces),
        "isolated_nodes": int((counts == 0).sum()),
        "least_degree": int(counts.min(initial=graph.num_nodes)) if graph.num_nodes else None,
        "mean_degree": float(counts.mean()) if graph.num_nodes else None,
        "largest_degree": int(counts.max(initial=0)),
        "features": None if graph.features is None else int(graph.features.shape[1]),
        "classes": None if graph.labels is None else int(graph.labels.max(initial=-1)) + 1,
        "homophily": graph.homophily,
    }
