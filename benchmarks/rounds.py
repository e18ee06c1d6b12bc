"""Both rounds of an answer to attackers who know: a committee before, after the first and after the second.

    python benchmarks/rounds.py --leeway none      # before: its members alone
    python benchmarks/rounds.py --caution 0        # the first round
    python benchmarks/rounds.py                    # the second, as it is by default

Everything is that of `garnet stress`, with all attacks that fit; it goes on where it stopped. The records
rounds-cora-0.jsonl and rounds-cora-1.jsonl are of the committee as it was by default before, and after the first round.
"""

import argparse
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from record import folder, portable, real_graph, so_far

from garnet.attacks import AdaptiveSearch, Attack
from garnet.bench.stress import stress
from garnet.defenses import Committee, Defense
from garnet.registry import defense_named


@dataclass(frozen=True)
class Round:
    """What is to be stressed, and where that is recorded.

    Attributes:
        given: what was asked for.
        defense: the defence.
        name: what it is called in records.
        output: the file of records.
        command: that asks for the same.
    """

    given: argparse.Namespace
    defense: Defense
    name: str
    output: Path
    command: str

    @property
    def attacks(self) -> list[str | Attack] | None:
        """What it is attacked with; None for all that fit."""
        if self.given.attacks is None:
            return None
        patient = [AdaptiveSearch(queries=self.given.queries)] if self.given.queries else []
        return [*self.given.attacks.split(","), *patient]


def main() -> None:
    """Stress one defence on one of the benchmark graphs and print the verdict."""
    chosen = asked()
    given = chosen.given
    found = stress(
        real_graph(given.graph),
        chosen.defense,
        budgets=given.budgets.split(","),
        attacks=chosen.attacks,
        seeds=given.seeds,
        unbounded=given.unbounded,
        path=given.output or so_far(chosen.output.name),
        jobs=given.jobs,
        graph_name=given.graph,
        defense_name=chosen.name,
        command=chosen.command,
        progress=lambda step: print(step, flush=True) if os.environ.get("VERBOSE") else None,
    )
    print(found.verdict)
    print(f"records in {chosen.output}")


def asked(arguments: Sequence[str] | None = None) -> Round:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="cora")
    parser.add_argument("--defense", default="committee")
    parser.add_argument("--caution", type=float, default=argparse.SUPPRESS, help="of the committee; its own by default")
    parser.add_argument("--leeway", type=_number_or_none, default=argparse.SUPPRESS, help="likewise; may be none")
    parser.add_argument("--attacks", help="by default all that fit")
    parser.add_argument("--queries", type=int, help="of one more adaptive-search; needs --attacks")
    parser.add_argument("--budgets", default="1%,5%,10%,20%")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--unbounded", action="store_true", help="attack with as many flips as edges, too")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, help="by default the file in results/ that is named after it")
    given = parser.parse_args(arguments)
    if given.queries and not given.attacks:
        parser.error("--queries adds an adaptive-search to --attacks; name some there")
    changed = {name: vars(given)[name] for name in ("caution", "leeway") if name in vars(given)}
    if changed and given.defense != "committee":
        parser.error(f"{given.defense} has no {' or '.join(changed)}, which only the committee has; leave that out")
    told = {name: _shown(value) for name, value in changed.items()}
    words = [f"{name} {value}" for name, value in told.items()]
    # Only what is named stress-... is a row of the leaderboard, and a changed committee is none.
    file = "-".join(["rounds" if changed else "stress", given.graph, *(words or [given.defense])]).replace(" ", "-")
    command = ["python", "benchmarks/rounds.py", "--graph", given.graph, "--defense", given.defense]
    command += ["--budgets", given.budgets, *(["--attacks", given.attacks] if given.attacks else [])]
    command += ["--queries", str(given.queries)] if given.queries else []
    command += [part for name, value in told.items() for part in (f"--{name}", value)]
    command += ["--seeds", str(given.seeds)] if given.seeds != 1 else []
    command += ["--unbounded"] if given.unbounded else []
    command += ["-o", portable(str(given.output))] if given.output else []
    return Round(
        given,
        Committee(**changed) if changed else defense_named(given.defense),
        ", ".join([given.defense, *words]),
        given.output or folder() / f"{file}.jsonl",
        shlex.join(command),
    )


def _shown(value: float | None) -> str:
    """A number so that it is read as the same one, and no longer than it needs to be."""
    if value is None:
        return "none"
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _number_or_none(text: str) -> float | None:
    return None if text == "none" else float(text)


if __name__ == "__main__":
    main()
