"""`garnet stress`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from garnet.cli.bench import live
from garnet.cli.bench_records import say_damages
from garnet.cli.console import Json, Source, Symmetrize, err, printable, read_graph, say_json, with_split
from garnet.cli.outputs import Outputs, Overwrite
from garnet.cli.report import command_line, require_page
from garnet.cli.stress_table import draw_stress
from garnet.cli.train import chosen_defense

if TYPE_CHECKING:
    from garnet.bench.verdict import Stress
    from garnet.defenses import Defense


def stress(
    context: typer.Context,
    source: Source,
    defense: Annotated[
        str,
        typer.Option(
            help="What to attack: none, a purifier or a defence, such as committee, garnet, rung, or one of yours."
        ),
    ] = "committee",
    budgets: Annotated[
        str, typer.Option("--budgets", "-b", help="Flips allowed: shares of the edges, or numbers of edges.")
    ] = "2%,5%,10%",
    attacks: Annotated[
        str | None,
        typer.Option(help="Names, such as prbcd,metattack; garnet attack --list shows them.  [default: all that fit]"),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions of each attack, each on another model.")] = 3,
    backbone: Annotated[
        str | None, typer.Option(help="gcn, gprgnn, h2gcn, linkx, mlp.  [default: gprgnn, or the defence's own]")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Training steps at most.  [default: 300, or the defence's own]")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Shares for training and validation, such as 0.1,0.1.  [default: the graph's own split]"),
    ] = None,
    split_seed: Annotated[int, typer.Option(min=0, help="Seed of that split.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Where records are appended (.jsonl); recorded attacks are not rerun, so a stopped run continues.",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Where to write a report for the browser: .html.")
    ] = None,
    unbounded: Annotated[
        bool,
        typer.Option(
            "--unbounded/--no-unbounded", help="Also run attacks that know the defence with as many flips as edges."
        ),
    ] = True,
    retry: Annotated[bool, typer.Option("--retry", help="Rerun attempts that failed before.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes to run in parallel.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    symmetrize: Symmetrize = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Attack a defence on a labelled graph in every way, and show what is left of it under the worst attack.

    The figures come with checks that distinguish a strong defence from a weak attack.
    """
    from garnet.bench.stress import stress as run
    from garnet.graph.budget import Budget

    _require_places(source, output, report)
    allowed = [Budget.parse(one) for one in budgets.split(",")]
    chosen = chosen_defense(defense, False, backbone)
    defended = _defended(chosen, backbone, epochs, device)
    outputs = Outputs(context, written=["report"], read=["source"])
    graph = with_split(read_graph(source, symmetrize), split, split_seed)
    with outputs:
        with live() as progress:
            found = run(
                graph,
                defended,
                budgets=allowed,
                attacks=None if attacks is None else [name.strip() for name in attacks.split(",")],
                seeds=seeds,
                unbounded=unbounded,
                path=output,
                jobs=jobs,
                device=device,
                retry=retry,
                graph_name=str(source),
                defense_name=chosen,
                backbone=backbone,
                command=command_line(),
                progress=progress,
            )
        if report is not None and not found.battery.missing:
            from garnet.report.page import write_report

            write_report(found, outputs.staged(report))
    if output is not None:
        say_damages(output, found.damages)
    if as_json:
        say_json(_facts(found))
    else:
        draw_stress(found)
    _end(found, output, report)


def _require_places(source: Path, output: Path | None, report: Path | None) -> None:
    """Refuse paths to which the records or the report cannot be written."""
    from garnet.errors import ParameterError
    from garnet.io.targets import require_apart, require_file, require_other

    if report is not None:
        require_page(report)
    if output is not None:
        if output.suffix.lower() != ".jsonl":
            raise ParameterError(f"Records are appended to a .jsonl file. Got {str(output)!r} instead.")
        require_file(output)
        require_other(output, source)
        require_apart(output, report)


def _defended(name: str, backbone: str | None, epochs: int | None, device: str) -> Defense:
    """The named defence, with the options applied."""
    from garnet.defenses.lookup import named_defense, takes_training
    from garnet.errors import ParameterError

    if epochs is not None and not takes_training(name):
        raise ParameterError(f"The defence {name!r} trains in its own way; leave epochs out.")
    training: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    return named_defense(name, backbone=backbone, training=training, device=device)


def _facts(found: Stress) -> dict[str, Any]:
    from garnet.bench.opponents import THREATS
    from garnet.bench.outcomes import as_facts

    battery = found.battery
    return {
        "graph": battery.graph,
        "defense": battery.defense,
        "clean": battery.clean.mean,
        "worst": {
            threat: {budget: as_facts(battery.worst(threat, budget)) for budget in battery.budgets}
            for threat in THREATS
        },
        "outcomes": [asdict(one) for one in battery.outcomes],
        "checks": [asdict(one) for one in found.checks],
        "failed": len(battery.failures),
        "missing": battery.missing,
        "verdict": found.verdict,
    }


def _end(found: Stress, output: Path | None, report: Path | None) -> None:
    """Print what was written and what went wrong; checks and attempts set the exit status."""
    battery = found.battery
    if battery.missing:
        hope = "the same command goes on" if output is not None else "with -o the same command would go on"
        err.print(f"stopped with {_attempts(battery.missing)} left; {hope}")
        raise typer.Exit(130)
    if report is not None:
        err.print(f"wrote {printable(report)}; open it in a browser", soft_wrap=True)
    if battery.failures:
        again = "it" if len(battery.failures) == 1 else "them"
        err.print(f"{_attempts(len(battery.failures))} failed; --retry repeats {again}, --attacks leaves some out")
    if found.failed or battery.failures:
        raise typer.Exit(1)


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"
