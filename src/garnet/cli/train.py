"""`garnet train`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from garnet.cli.console import (
    Json,
    Source,
    Symmetrize,
    err,
    out,
    printable,
    read_graph,
    say_json,
    stages,
    warn,
    with_split,
)
from garnet.cli.figures import figures, lines
from garnet.cli.outputs import Outputs, Overwrite
from garnet.cli.report import command_line, require_page
from garnet.progress import Step, seconds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from garnet.graph.graph import Graph, Split
    from garnet.progress import Progress
    from garnet.training.predictor import Predictor
    from garnet.training.verdict import Verdict


def train(
    context: typer.Context,
    source: Source,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the best model, with its graph (.npz).")
    ] = None,
    purify: Annotated[
        bool,
        typer.Option(
            "--purify",
            help="Do not trust the graph: train a committee on several views of it (same as --defense committee).",
        ),
    ] = False,
    defense: Annotated[
        str | None,
        typer.Option(help="A purifier or another defence, such as committee, garnet, gnnguard, rung.  [default: none]"),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="gcn, gprgnn, h2gcn, linkx, mlp, or a defence that is a model.  "
            "[default: gprgnn, or the defence's own]"
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of models, trained together.")] = 10,
    split: Annotated[
        str | None,
        typer.Option(help="Shares for training and validation, such as 0.1,0.1.  [default: the graph's own split]"),
    ] = None,
    split_seed: Annotated[int, typer.Option(min=0, help="Seed of that split.")] = 0,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Training steps at most.  [default: 300, or the defence's own]")
    ] = None,
    lr: Annotated[
        list[float] | None,
        typer.Option(
            help="Learning rate; of several, the best on validation is used.  [default: 0.01 and 0.05, or the "
            "defence's own]"
        ),
    ] = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="Weight decay.  [default: 0.00005, or the defence's own]")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Nodes per mini-batch, with sampled neighbours.  [default: all at once]")
    ] = None,
    class_weights: Annotated[
        str | None,
        typer.Option(
            help="balanced, so that rare classes count as much as others, or a number for each class, such as 1,20.  "
            "[default: every node counts the same]"
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option("--predictions", help="Where to write the best model's predictions: .csv or .parquet."),
    ] = None,
    save_as: Annotated[
        Path | None,
        typer.Option(
            "--result",
            help="With --purify: also train on the graph as it is, and write what GARNET does to its edges and the "
            "accuracy before and after to this .npz file, for garnet report.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", help="Where to write a report on the best model for the browser: .html."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    symmetrize: Symmetrize = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Train models on a labelled graph, and show how well they do on its test nodes.

    Without features they read one-hot node numbers.
    """
    from garnet.backbones.base import ONE_HOT
    from garnet.defenses.lookup import gives_model, named_defense, takes_training
    from garnet.errors import ParameterError
    from garnet.graph.files import require_archive
    from garnet.io.table_file import require_table, save_table
    from garnet.training.supervision import require_trainable
    from garnet.training.verdict import never_found

    for path, what in ((output, "A model"), (save_as, "A result")):
        if path is not None:
            require_archive(path, what)
    if report is not None:
        require_page(report)
    if predictions is not None:
        require_table(predictions, "A table of predictions")
    chosen = chosen_defense(defense, purify, backbone)
    if save_as is not None and chosen not in ("committee", "garnet"):
        raise ParameterError("A result says what purifying did; give --purify along with --result, or leave it out.")
    given: dict[str, Any] = {"epochs": epochs, "lr": tuple(lr) if lr else None, "weight_decay": weight_decay}
    given |= {"batch_size": batch_size, "class_weights": class_weights and chosen_weights(class_weights)}
    training = {name: value for name, value in given.items() if value is not None}
    if training and not takes_training(chosen):
        raise ParameterError(f"The defence {chosen!r} trains in its own way; leave {', '.join(training)} out.")
    if output is not None and not gives_model(chosen):
        raise ParameterError(f"What {chosen!r} learns fits its graph alone and cannot be saved; leave --output out.")
    fitted = named_defense(chosen, backbone=backbone, training=training, device=device)
    outputs = Outputs(context, written=["output", "predictions", "save_as", "report"], read=["source"])
    if outputs.done:
        return
    with outputs, stages() as progress:
        progress(Step("read"))
        graph = with_split(read_graph(source, symmetrize), split, split_seed)
        if save_as is None:
            predictors = fitted.fit_seeds(graph, range(seeds), progress=progress)
        else:
            predictors = _compare(fitted, graph, range(seeds), outputs.staged(save_as), progress)
        parts = require_trainable(graph)[0]
        best = max(predictors, key=lambda one: one.val_accuracy) if len(parts.val) else predictors[0]
        if output is not None:
            progress(Step("write"))
            best.save(outputs.staged(output), command=command_line())
        if predictions is not None:
            progress(Step("write"))
            save_table(best.table(), outputs.staged(predictions))
        if report is not None:
            from garnet.report.page import write_report

            progress(Step("report"))
            title = f"{'A committee' if best.votes is not None else 'A model'} of {source.name}"
            write_report(best, outputs.staged(report), title=title, command=command_line())
    verdicts = [one.verdict(warn=False) for one in predictors]
    weighable = takes_training(chosen) and class_weights is None
    cure = "--class-weights balanced" if weighable else "another model, or more training nodes of it"
    warn(never_found(verdicts, cure))
    facts = _facts(parts, predictors, best, verdicts)
    facts["features"] = graph.num_features or ONE_HOT
    if as_json:
        say_json({"input": str(source), "output": output and str(output), **facts})
        return
    for table in _tables(", ".join(filter(None, [str(source), chosen if chosen != "none" else "", backbone])), facts):
        out.print(table)
    if output is not None:
        why = ", best on validation" if len(parts.val) else ""
        err.print(f"wrote {printable(output)}: the model of seed {best.seed}{why}", soft_wrap=True)
    if predictions is not None:
        err.print(
            f"wrote {printable(predictions)}: what the model of seed {best.seed} says of each node", soft_wrap=True
        )
    if save_as is not None:
        err.print(f"wrote {printable(save_as)}, for garnet report", soft_wrap=True)
    if report is not None:
        err.print(f"wrote {printable(report)}; open it in a browser", soft_wrap=True)


def chosen_defense(defense: str | None, purify: bool, backbone: str | None) -> str:
    """The name of the defence that the options ask for."""
    from garnet.defenses.lookup import defense_names, takes_backbone
    from garnet.errors import ParameterError
    from garnet.registry import known_name

    chosen = known_name(defense or ("committee" if purify else "none"), defense_names(), "defence")
    if purify and chosen != "committee":
        raise ParameterError(
            f"--purify is short for --defense committee, and --defense says {defense!r}; leave one out."
        )
    if backbone is not None and not takes_backbone(chosen):
        raise ParameterError(f"The defence {chosen!r} is a model of its own; leave --backbone out.")
    return chosen


def chosen_weights(text: str) -> str | tuple[float, ...]:
    """Class weights from the text of the option."""
    from garnet.errors import ParameterError

    if text == "balanced":
        return text
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(
            f"The 'class_weights' parameter must be balanced, or a number for each class, such as 1,20. Got {text!r}."
        ) from None


def _compare(fitted: Any, graph: Graph, seeds: Sequence[int], path: Path, progress: Progress) -> tuple[Predictor, ...]:
    """Models of `fitted`, a `Purified` or a `Committee`; saves what GARNET did to the graph and to accuracy."""
    from garnet.defenses import Purified
    from garnet.purify.garnet import GARNET
    from garnet.report.purification_record import Accuracy, PurificationRecord

    alone = isinstance(fitted, Purified)
    plain = Purified(None, fitted.backbone, fitted.training, fitted.device)
    before = plain.fit_seeds(graph, seeds, progress=progress)
    purifier = fitted.purifier if alone else GARNET()
    result = purifier.purify(graph, device=fitted.device or "cpu", progress=progress)
    if alone:
        after = plain.fit_seeds(result.graph, seeds, progress=progress)
        after = tuple(replace(one, stages=(*result.stages, *one.stages)) for one in after)
    else:
        after = fitted.fit_seeds(graph, seeds, progress=progress)
    shares = [tuple(one.accuracy() for one in models) for models in (before, after)]
    name = type(fitted.backbone).__name__
    accuracy = Accuracy(before=shares[0], after=shares[1], model=name if alone else f"{name}, after: a committee")
    PurificationRecord.of(graph, result, accuracy=accuracy, command=command_line()).save(path)
    return after


def _facts(
    split: Split, predictors: tuple[Predictor, ...], best: Predictor, verdicts: Sequence[Verdict]
) -> dict[str, Any]:
    import numpy as np

    confusion = sum(one.confusion() for one in predictors) / len(predictors)
    return {
        "nodes": {part: len(getattr(split, part)) for part in ("train", "val", "test")},
        **figures(verdicts),
        "val_accuracy": [one.val_accuracy if math.isfinite(one.val_accuracy) else None for one in predictors],
        "epochs": [one.epoch for one in predictors],
        "classes": best.class_names.tolist(),
        "confusion": np.asarray(confusion).round(2).tolist(),
        "calibration_error": float(np.mean([one.calibration_error() for one in predictors])),
        **_members(best),
        "seconds": seconds_of(best.stages),
        "best_seed": best.seed,
    }


def _members(best: Predictor) -> dict[str, Any]:
    """Each committee member's weight, where it decided, and trust in the edges; nothing for other models."""
    if (votes := best.votes) is None:
        return {"members": {}, "decided": {}, "strength": None}
    return {
        "strength": votes.strength,
        **{
            name: dict(zip(votes.members, shares.tolist(), strict=True))
            for name, shares in (("members", votes.weights), ("decided", votes.decided_shares))
        },
    }


def _tables(title: str, facts: dict[str, Any]) -> list[Table]:
    first = Table(title=printable(title), title_justify="left", show_header=False)
    for name, words in lines(facts):
        first.add_row(name, words)
    first.add_row("train, validation, test nodes", ", ".join(f"{count:,}" for count in facts["nodes"].values()))
    first.add_row("calibration error", f"{facts['calibration_error']:.1%}, how sure less how right")
    if facts["strength"] is not None:
        first.add_row("edges are believed", f"{facts['strength']:.0%}, and the features in full")
    if isinstance(facts["features"], str):
        first.add_row("features", f"{facts['features']}, since it has none")
    for name, seconds in facts["seconds"].items():
        first.add_row(f"seconds, {name}", f"{seconds:.2f}")
    tables = [first]
    if facts["members"]:
        columns = (Column(name, justify="right") for name in ("weight", "decided"))
        members = Table("member", *columns, title=f"Who decided, seed {facts['best_seed']}", title_justify="left")
        for name, weight in facts["members"].items():
            members.add_row(printable(name), f"{weight:.2f}", f"{facts['decided'][name]:.1%}")
        tables.append(members)
    classes = range(len(facts["confusion"]))
    called = [printable(name) for name in facts["classes"]]
    second = Table(title="True classes in rows, predicted in columns, mean over seeds", title_justify="left")
    second.add_column("class")
    for one in classes:
        second.add_column(called[one], justify="right")
    second.add_column("found", justify="right")
    for one in classes:
        row = facts["confusion"][one]
        share = f"{row[one] / sum(row):.0%}" if sum(row) else "-"
        second.add_row(called[one], *(f"{count:.0f}" if count else "·" for count in row), share)
    return [*tables, second] if len(classes) <= 20 else tables
