"""`garnet attack`."""

from __future__ import annotations

import inspect
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from garnet.cli.console import Json, Symmetrize, err, out, printable, read_graph, say_json, stages, with_split
from garnet.cli.outputs import Outputs, Overwrite
from garnet.errors import ParameterError
from garnet.progress import Progress, Step, Stop

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from garnet.attacks import Attack
    from garnet.graph.graph import Graph
    from garnet.graph.perturbation import Perturbation

_WORDS = {"none": None, "true": True, "false": False}


def attack(
    context: typer.Context,
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="GRAPH", help="A graph: .npz, .csv, .tsv, .txt, .edges, .mtx, .pt, or a name such as cora."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--attack", "-a", help="Name of the attack; --list shows all.")] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", "-b", help="20%, 100 (edges or entries), 50 entries, or 5/target.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the changes, a perturbation (.npz).")
    ] = None,
    graph_output: Annotated[
        Path | None, typer.Option(help="Where to write the attacked graph, too; the suffix says how.")
    ] = None,
    targets: Annotated[
        str | None, typer.Option(help="Nodes to be misclassified: 1,2,3, or a file that lists them.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    surrogate: Annotated[
        str | None, typer.Option(help="Surrogate model that the attack trains, e.g. gcn.  [default: the attack's]")
    ] = None,
    victim: Annotated[
        Path | None, typer.Option(help="Trained model to attack instead (.npz, from garnet train -o).")
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter of the attack; repeatable."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 ...  [default: cpu]")] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Shares for training and validation, such as 0.1,0.1.  [default: the graph's own split]"),
    ] = None,
    split_seed: Annotated[int, typer.Option(min=0, help="Seed of that split.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the output file, if there is one.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List all attacks and exit.")] = False,
    symmetrize: Symmetrize = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Attack a graph and save the changes. Ctrl-C stops and keeps what was done; --resume continues."""
    if listing:
        _list(as_json)
        return
    from garnet.attacks import Budget
    from garnet.graph.perturbation import Perturbation
    from garnet.registry import ATTACKS
    from garnet.training.predictor import Predictor

    if source is None or name is None or budget is None or output is None:
        raise ParameterError(
            "An attack needs a graph, a name, a budget and an output: garnet attack graph.npz --attack metattack "
            "--budget 20% -o poison.npz. 'garnet attack --list' shows the names."
        )
    _require_formats(output, graph_output)
    outputs = Outputs(
        context,
        written=["output", "graph_output"],
        read=["source", "victim", "targets"],
        replaceable=[output] if resume else [],
    )
    if outputs.done:
        return
    given = _parameters(parameters or [], surrogate=surrogate, device=device)
    chosen: Attack = ATTACKS.build(name, given)
    allowed = Budget.parse(budget, chosen.changes)
    with outputs, stages() as progress:
        progress(Step("read"))
        graph = read_graph(source, symmetrize)
        trains = "split" in chosen.needs or (victim is None and hasattr(chosen, "surrogate"))
        if split is not None or (trains and graph.split is None):
            graph = with_split(graph, split, split_seed)
        nodes = None if targets is None else _targets(targets, graph)
        model = None if victim is None else Predictor.load(victim)
        earlier = Perturbation.load(output) if resume and output.exists() else None
        began = time.perf_counter()
        with _stoppable(chosen.name, progress) as listener:
            made = chosen(
                graph, budget=allowed, targets=nodes, victim=model, seed=seed, resume=earlier, progress=listener
            )
        seconds = time.perf_counter() - began
        progress(Step("write"))
        written = made.complete or made.num_changes > 0
        if written:
            made.save(outputs.staged(output, complete=made.complete))
        if graph_output is not None and made.complete:
            made.apply(graph).save(outputs.staged(graph_output))
    facts = _facts(graph, made, allowed.changes(graph, len(made.targets), chosen.changes), seconds)
    if as_json:
        say_json({"input": str(source), "output": str(output) if written else None, **facts})
    else:
        out.print(_table(f"{source} -> {output}" if written else str(source), facts))
    if made.complete:
        _say_written(graph, output, graph_output)
        return
    kept = f"wrote what was done to {printable(output)}" if written else "nothing was done yet, nothing is written"
    hope = "the same command with --resume goes on" if chosen.goes_on else "this attack cannot go on, only begin anew"
    err.print(f"stopped: {kept}; {hope}", soft_wrap=True)
    raise typer.Exit(130)


@contextmanager
def _stoppable(name: str, progress: Progress) -> Iterator[Progress]:
    """Let the first Ctrl-C ask the attack to stop between two steps; a second one aborts as usual."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, before)
        progress(Step(name, "stopping after this step (Ctrl-C again aborts)"))

    def listener(step: Step) -> None:
        if asked:
            raise Stop
        progress(step)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield listener
    finally:
        signal.signal(signal.SIGINT, before)


def _say_written(graph: Graph, output: Path, graph_output: Path | None) -> None:
    from garnet.graph.files import left_out

    if graph_output is not None and (missing := left_out(graph, graph_output)):
        err.print(f"note: {printable(graph_output.name)} cannot hold {' and '.join(missing)}; .npz can", soft_wrap=True)
    err.print(f"wrote {' and '.join(printable(path) for path in (output, graph_output) if path)}", soft_wrap=True)


def _require_formats(output: Path, graph_output: Path | None) -> None:
    """Complain before hours of work, not after, if something could not be written."""
    from garnet.graph.files import require_writable

    if output.suffix.lower() != ".npz":
        raise ParameterError(f"A perturbation is written to an .npz file. Got {str(output)!r} instead.")
    for path in (output, graph_output):
        if path is not None:
            require_writable(path)


def _parameters(texts: list[str], **named: str | None) -> dict[str, Any]:
    """Parameters from --set and from the options for common ones, as Python values."""
    parameters: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals):
            raise ParameterError(f"A parameter is set with NAME=VALUE. Got {text!r} instead.")
        if name in parameters:
            raise ParameterError(f"The parameter '{name}' is given twice.")
        parameters[name] = _value(value)
    return parameters


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _targets(text: str, graph: Graph) -> list[int]:
    """Node numbers from a list on the command line or in a file, which holds names if the nodes have names."""
    from garnet.io.text import read_text, reading

    words = text.split(",")
    if Path(text).is_file():
        with reading(Path(text)):
            lines = read_text(Path(text)).decode("utf-8", "replace").splitlines()
        lines = [line for line in lines if not line.lstrip().startswith("#")]
        named = graph.names is not None and graph.names.dtype.kind == "U"
        words = lines if named else re.split(r"[\s,]+", " ".join(lines))
    words = [word.strip() for word in words if word.strip()]
    if graph.names is not None:
        numbers = {str(name): number for number, name in enumerate(graph.names.tolist())}
        strange = next((word for word in words if word not in numbers), None)
        if strange is not None:
            raise ParameterError(f"The target {strange!r} does not exist: no node of the graph has this name.")
        return [numbers[word] for word in words]
    try:
        return [int(word) for word in words]
    except ValueError:
        raise ParameterError(
            f"Targets are node numbers, such as 1,2,3, or a file that lists them. Got {text!r:.80} instead."
        ) from None


def _facts(graph: Graph, made: Perturbation, allowed: int, seconds: float) -> dict[str, Any]:
    import numpy as np

    train = graph.split.train if graph.split is not None else np.zeros(0, dtype=np.int64)

    def counted(edges: NDArray[np.int64]) -> dict[str, int]:
        facts = {"all": edges.shape[1]}
        if graph.labels is not None:
            first, second = graph.labels[edges]
            known = (first >= 0) & (second >= 0)
            facts["within"] = int((known & (first == second)).sum())
            facts["between"] = int((known & (first != second)).sum())
        if len(train):
            facts["training"] = int(np.isin(edges, train).any(axis=0).sum())
        return facts

    nodes = made.entries.places[0]
    return {
        "attack": made.attack,
        "parameters": made.parameters,
        "budget": made.budget,
        "seed": made.seed,
        "targets": made.targets.tolist(),
        "complete": made.complete,
        "changes": made.num_changes,
        "allowed": allowed,
        "added": counted(made.added(graph)),
        "dropped": counted(made.dropped(graph)),
        "entries": {"all": len(nodes), "nodes": len(np.unique(nodes)), "training": int(np.isin(nodes, train).sum())},
        "fingerprint": made.fingerprint,
        "result": made.result,
        "seconds": seconds,
    }


def _table(title: str, facts: dict[str, Any]) -> Table:
    table = Table(title=printable(title), title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("attack", printable(facts["attack"]))
    table.add_row("budget", facts["budget"])
    table.add_row("seed", str(facts["seed"]))
    table.add_row("changes", f"{facts['changes']:,} of {facts['allowed']:,}")
    words = {"within": "within a class", "between": "between classes", "training": "at training nodes"}
    for kind in ("added", "dropped"):
        if facts["changes"] > facts["entries"]["all"]:
            table.add_row(f"edges {kind}", f"{facts[kind]['all']:,}")
        for name, word in words.items():
            if facts[kind]["all"] and name in facts[kind]:
                table.add_row(f"  {word}", f"{facts[kind][name]:,}")
    if facts["entries"]["all"]:
        table.add_row("features changed", f"{facts['entries']['all']:,}")
        table.add_row("  of so many nodes", f"{facts['entries']['nodes']:,}")
        table.add_row("  at training nodes", f"{facts['entries']['training']:,}")
    table.add_row("seconds", f"{facts['seconds']:.2f}")
    return table


def _list(as_json: bool) -> None:
    """Show every registered attack."""
    from garnet.registry import ATTACKS

    rows = []
    for name in ATTACKS.names():
        try:
            kind = ATTACKS.get(name)
        except ParameterError as error:
            rows.append({"name": name, "scope": "", "changes": "", "needs": [], "summary": str(error)})
            continue
        summary = (inspect.getdoc(kind) or "").partition("\n")[0]
        parts = {"scope": kind.scope, "changes": kind.changes, "needs": list(kind.needs), "summary": summary}
        rows.append({"name": name, **parts})
    if as_json:
        say_json(rows)
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in ("name", "scope", "changes", "needs", "what it does"):
        # Stacking the needs leaves the last column room on a narrow terminal.
        table.add_column(
            column, no_wrap=column in ("name", "scope", "changes"), max_width=9 if column == "needs" else None
        )
    for row in rows:
        table.add_row(*(printable(", ".join(cell) if isinstance(cell, list) else str(cell)) for cell in row.values()))
    out.print(table)
