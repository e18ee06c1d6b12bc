"""`garnet predict`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from garnet.cli.console import Json, Source, Symmetrize, err, out, printable, read_graph, say_json, stages, warn
from garnet.cli.figures import figures, lines
from garnet.cli.outputs import Outputs, Overwrite
from garnet.cli.tables import said_of_tables
from garnet.progress import Step

if TYPE_CHECKING:
    from garnet.training.predictor import Predictor

_MOST_CLASSES = 20


def predict(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model saved by garnet train -o (.npz).")],
    source: Source,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Where to write the prediction for each node: .csv or .parquet."),
    ],
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    symmetrize: Symmetrize = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Predict classes with a saved model, on a graph with the features of the one it was trained on.

    A committee (garnet train --purify) cleans the graph itself; any other model reads it as it is. If the graph has
    labels, the predictions are compared with them.
    """
    from garnet.errors import ParameterError
    from garnet.io.table_file import require_table, save_table
    from garnet.training.predictor import Predictor
    from garnet.training.verdict import never_found

    require_table(output, "A table of predictions")
    nodes = said_of_tables()[1]
    if nodes is not None and nodes.features:
        raise ParameterError(
            "Features of a table are scaled by that table, and the model has learnt those of another; put the nodes of "
            "both graphs into one table, save each graph with it in Python, "
            f"as_graph({source.name!r}, nodes=..., features=...).save('graph.npz'), and give the .npz files to garnet "
            "train and garnet predict."
        )
    outputs = Outputs(context, written=["output"], read=["model", "source"])
    if outputs.done:
        return
    with outputs, stages() as progress:
        progress(Step("read"))
        trained, graph = Predictor.load(model), read_graph(source, symmetrize)
        progress(Step("predict"))
        answers = trained.on(graph, device=device)
        progress(Step("write"))
        save_table(answers.table(), outputs.staged(output))
    facts = _facts(answers)
    verdict = None if facts["judged_on"] is None else answers.verdict(_judged(answers)[1], warn=False)
    if verdict is not None:
        facts |= figures([verdict])
        warn(never_found([verdict], "a model that was trained with --class-weights balanced"))
    if as_json:
        say_json({"model": str(model), "input": str(source), "output": str(output), **facts})
        return
    for table in _tables(f"{printable(source)}, {printable(model)}", facts):
        out.print(table)
    err.print(f"wrote {printable(output)}: {facts['nodes']:,} nodes, a line each", soft_wrap=True)


def _judged(answers: Predictor) -> tuple[str | None, Any]:
    """Nodes whose predictions can be compared with labels, in words and by number: test nodes, or all labelled ones."""
    import numpy as np

    labels, split = answers.graph.labels, answers.graph.split
    if labels is None or labels.max(initial=-1) < 0:
        return None, None
    if split is not None and (labels[split.test] >= 0).any():
        return "test nodes", split.test
    return "all nodes with a label", np.flatnonzero(labels >= 0)


def _facts(answers: Predictor) -> dict[str, Any]:
    import numpy as np

    counts = np.bincount(answers.predictions(), minlength=answers.scores.shape[1])
    return {
        "nodes": len(answers.scores),
        "classes": answers.class_names.tolist(),
        "predicted": {str(answers.class_names[one]): count for one, count in enumerate(counts.tolist())},
        "judged_on": _judged(answers)[0],
    }


def _tables(title: str, facts: dict[str, Any]) -> list[Table]:
    counted = Table("class", Column("nodes", justify="right"), Column("share", justify="right"), title=title)
    counted.title_justify = "left"
    said = sorted(facts["predicted"].items(), key=lambda item: -item[1])
    for one, count in said[:_MOST_CLASSES]:
        counted.add_row(printable(one), f"{count:,}", f"{count / max(facts['nodes'], 1):.1%}")
    if len(said) > _MOST_CLASSES:
        counted.add_row(
            f"{len(said) - _MOST_CLASSES} others", f"{sum(count for _, count in said[_MOST_CLASSES:]):,}", ""
        )
    if facts["judged_on"] is None:
        return [counted]
    judged = sum(facts["judged"])
    compared = Table(title=f"Compared with the labels of {facts['judged_on']}, {judged:,}", show_header=False)
    compared.title_justify = "left"
    for name, words in lines(facts, test=False):
        compared.add_row(name, words)
    return [counted, compared]
