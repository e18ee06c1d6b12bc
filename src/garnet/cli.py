"""The command `garnet`. Heavy imports wait until a command needs them, so that help answers at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from garnet import __version__
from garnet.bench_cli import bench_app
from garnet.errors import GarnetError, ParameterError

if TYPE_CHECKING:
    from garnet.graph import Graph
    from garnet.purification import Progress, Purification

app = typer.Typer(
    help="Clean a graph that strangers could have written to, then train any GNN on it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(bench_app, name="bench")
_out = Console(highlight=False)
_err = Console(stderr=True, highlight=False)

Source = Annotated[Path, typer.Argument(help="A graph: .npz, .csv, .tsv, .txt, .edges or .mtx (all but npz also .gz).")]
Symmetrize = Annotated[bool, typer.Option("--symmetrize", help="Accept a directed graph; keep each edge both ways.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


def main() -> None:
    """Run the command; an error of the library is one line and exit status 1."""
    try:
        app()
    except GarnetError as error:
        _err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        raise SystemExit(1) from None


def _version(wanted: bool) -> None:
    if wanted:
        _out.print(f"garnet {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(seed: Annotated[int, typer.Option(min=0, help="Seed of the planted edges and of the purifier.")] = 0) -> None:
    """Plant edges between classes of a real citation graph (Cora), purify it, and say what became of them."""
    import numpy as np

    from garnet.datasets import cora, inter_class_edges
    from garnet.purify import GARNET

    clean = cora()
    count = clean.num_edges // 5
    planted = inter_class_edges(clean, count, seed=seed)
    poisoned = clean.with_edges(np.concatenate([clean.edges, planted], axis=1))
    _out.print(
        f"Cora: {clean.num_nodes:,} papers, {clean.num_edges:,} citations, 7 subjects. "
        f"A stranger adds {count:,} edges between subjects (seed {seed})."
    )
    with _stages() as progress:
        result = GARNET(seed=seed).purify(poisoned, progress=progress)

    ledger = result.ledger
    dropped, lost = ledger.share_dropped(planted), ledger.share_dropped(clean.edges)
    table = Table(title="What GARNET made of it", title_justify="left")
    table.add_column("")
    table.add_column("edges", justify="right")
    table.add_column("share", justify="right")
    table.add_row("planted edges dropped", f"{dropped * count:,.0f} of {count:,}", f"{dropped:.1%}")
    table.add_row("true edges kept", f"{(1 - lost) * clean.num_edges:,.0f} of {clean.num_edges:,}", f"{1 - lost:.1%}")
    table.add_row("new edges", f"{ledger.added.shape[1]:,}", "")
    table.add_row("edges that join equal subjects, before", f"{poisoned.num_edges:,}", f"{poisoned.homophily:.1%}")
    table.add_row(
        "edges that join equal subjects, after", f"{result.graph.num_edges:,}", f"{result.graph.homophily:.1%}"
    )
    table.add_row("seconds", f"{result.seconds:.2f}", "")
    _out.print(table)
    _out.print(_histogram(result, planted))
    _out.print("Your own graph: [bold]garnet purify graph.npz -o clean.npz[/]", soft_wrap=True)


@app.command()
def purify(
    source: Source,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the purified graph; the ending says how.")
    ],
    rank: Annotated[str | None, typer.Option(help="Eigenpairs, or 'auto'.  [default: 50, or half the nodes]")] = None,
    k: Annotated[int | None, typer.Option(help="Nearest neighbours of each node.  [default: 15]")] = None,
    support: Annotated[
        float, typer.Option(help="Share of the input's edges, those with the least alike ends, to doubt.")
    ] = 0.4,
    gamma: Annotated[float, typer.Option(help="Share of the base graph's edges to prune, the least critical.")] = 0.1,
    features: Annotated[str, typer.Option(help="auto, none, raw, low-rank or propagated.")] = "auto",
    tau: Annotated[str, typer.Option(help="Degree regularisation: a number, or 'mean' for the mean degree.")] = "0",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    symmetrize: Symmetrize = False,
    as_json: Json = False,
) -> None:
    """Purify a graph and write the result, whole or not at all."""
    from garnet.datasets.files import left_out, load_graph, require_writable
    from garnet.purify import GARNET

    require_writable(output)
    purifier = GARNET(
        rank=None if rank is None else _number(rank, "rank", "auto", int),
        k=k,
        support=support,
        gamma=gamma,
        features=features,  # type: ignore[arg-type]
        tau=_number(tau, "tau", "mean", float),
        device=device,
        seed=seed,
    )
    with _stages() as progress:
        progress("read")
        graph = load_graph(source, symmetrize=symmetrize)
        result = purifier.purify(graph, progress=progress)
        progress("write")
        result.graph.save(output)
    if missing := left_out(result.graph, output):
        _err.print(f"note: {escape(output.name)} cannot hold {' and '.join(missing)}; .npz can", soft_wrap=True)
    if as_json:
        _out.print_json(json.dumps({"input": str(source), "output": str(output), **result.summary()}))
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
    _out.print(table)


@app.command()
def info(source: Source, symmetrize: Symmetrize = False, as_json: Json = False) -> None:
    """Say what a graph file holds."""
    from garnet.datasets.files import load_graph

    facts = _facts(load_graph(source, symmetrize=symmetrize))
    if as_json:
        _out.print_json(json.dumps(facts))
        return
    table = Table(title=escape(str(source)), title_justify="left", show_header=False)
    for name, value in facts.items():
        shown = "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
        table.add_row(name.replace("_", " "), shown)
    _out.print(table)


@app.command()
def doctor() -> None:
    """Say which versions and devices are here, and what is missing."""
    from garnet.diagnosis import diagnose

    table = Table(show_header=False)
    for name, finding in diagnose():
        table.add_row(name, escape(finding))
    _out.print(table)


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


def _number(text: str, name: str, word: str, kind: type) -> Any:
    """A number, or the one word that may stand for it."""
    if text == word:
        return word
    try:
        return kind(text)
    except ValueError:
        raise ParameterError(f"The '{name}' parameter must be a number or '{word}'. Got {text!r} instead.") from None


@contextmanager
def _stages() -> Iterator[Progress]:
    """A line on the terminal that follows the stages as they run."""
    with _err.status("starting") as status:
        yield lambda stage: status.update(f"{stage} ...")


def _histogram(result: Purification, planted: Any, bins: int = 12, width: int = 44) -> str:
    """Scores of true and planted edges as bars of text, the nearest on top."""
    import numpy as np

    from garnet.edges import contains

    ledger = result.ledger
    edges = np.concatenate([ledger.kept, ledger.dropped], axis=1)
    scores = np.concatenate([ledger.kept_scores, ledger.dropped_scores])
    strange = contains(planted, edges, result.graph.num_nodes)
    limits = np.histogram_bin_edges(scores, bins)
    counts = [np.histogram(scores[mask], limits)[0] for mask in (~strange, strange)]
    unit = max(1, int((counts[0] + counts[1]).max() / width))
    full, light = "#:" if _out.options.ascii_only else "█░"
    lines = [f"How near the two ends of an input edge lie: [green]{full} true edges[/], [red]{light} planted edges[/]"]
    for row in reversed(range(bins)):
        bar = f"[green]{full * (counts[0][row] // unit)}[/][red]{light * (counts[1][row] // unit)}[/]"
        lines.append(f"{limits[row]:7.2f}  {bar}")
    return "\n".join(lines)
