"""A battery of attacks against one defence on one graph: what is left under the worst of them, and how sure that is."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from garnet.attacks.base import Attack
from garnet.bench.attempt import Attempt, Case, clean_facts, measure_attempt, measure_clean
from garnet.bench.cell import key_of
from garnet.bench.opponents import THREATS, Opponent, opponents
from garnet.bench.outcomes import Battery, as_facts
from garnet.bench.record import Record, append_record, latest, read_to_add
from garnet.bench.verdict import Stress
from garnet.bench.workers import DIED, side_by_side
from garnet.defenses.base import Defense
from garnet.errors import BudgetError, GarnetError, GraphError, ParameterError, brief
from garnet.graph.budget import Budget
from garnet.graph.graph import Graph, as_graph
from garnet.io.identity import digest_of
from garnet.parameters import Count, require_arguments, require_device
from garnet.progress import Progress, Step, Stop
from garnet.registry import DEFENSES
from garnet.training.predictor import Predictor
from garnet.training.supervision import require_trainable

BUDGETS = ("2%", "5%", "10%")


def stress(
    graph: Any,
    defense: Defense,
    *,
    budgets: Sequence[str | Budget] = BUDGETS,
    attacks: Sequence[str | Attack | type[Attack]] | None = None,
    seeds: int = 3,
    unbounded: bool = True,
    path: str | Path | None = None,
    jobs: int = 1,
    device: str = "cpu",
    retry: bool = False,
    graph_name: str = "graph",
    defense_name: str | None = None,
    backbone: str | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> Stress:
    """Attack a defence in many ways, and find what is left of it under the worst attack.

    Every attack is made at every budget with every seed. Each attack's flips are evaluated twice, whatever they were
    made for: on the model trained on the clean graph (evasion), and on one trained on the attacked graph (poisoning).
    What is found within a budget also counts at larger ones.

    Args:
        graph: a graph with labels and a split, or anything that `as_graph` reads.
        defense: the defence, yours or the library's.
        budgets: edges that may be flipped: shares of the edges, or numbers.
        attacks: names, attacks, or classes of attacks; one with a field `defense` is given the defence there. None
            takes all that fit. Random flips are always included, as a control.
        seeds: how often each is repeated, with another attack and another model.
        unbounded: also run attacks that know the defence with as many flips as there are edges; on a large graph, not
            those that consider every pair of nodes.
        path: a file of records: attempts in it are not repeated, new ones are appended; None keeps none. Those made
            when the defence could not be evaded are repeated once it can.
        jobs: processes to run in parallel; 1 runs everything in this one.
        device: where attacks given by name compute; a defence has its own device.
        retry: repeat attempts that failed before.
        graph_name: name of the graph in records.
        defense_name: name of the defence there; None takes its class name.
        backbone: name of its model, for the records.
        command: the command that asked for it, for the records.
        progress: told of each attempt as it begins and as it has ended, then with what came of it; in between, one that
            runs in this process tells what it is doing. If it raises `Stop`, the run ends as by Ctrl-C: what was done
            is kept, and the attempt that was being made is made again by the next one.

    Raises:
        GraphError: the graph lacks labels, a split or test nodes.
        BudgetError: a budget is not valid, or not one of edges.
        ParameterError: an attack is not known, aims at single nodes or is built for another defence; or there is no
            such device.
        GarnetError: the defence cannot be trained on the graph, or the file cannot be read or written; or what it has
            trained says nothing of that graph, although the defence does not learn on one graph only.
    """
    require_arguments("stress", seeds=(seeds, Count), jobs=(jobs, Count), unbounded=(unbounded, bool))
    require_device(device, "stress")
    case = Case(
        graph=_require_graph(graph),
        defense=_require_defense(defense),
        graph_name=graph_name,
        defense_name=defense_name or DEFENSES.name_of(type(defense)) or type(defense).__name__,
        backbone=backbone,
        device=device,
        command=command,
    )
    allowed = _require_budgets(budgets, case.graph)
    chosen = opponents(attacks, case.graph, defense, device)
    if jobs > 1:
        _require_travels(defense, *(one.attack for one in chosen))
    wanted = [Attempt(one, budget, seed) for seed in range(seeds) for budget in allowed for one in chosen]
    if unbounded:
        wanted += list(_unbounded(chosen, case.graph))
    return _Run(case, seeds, wanted, None if path is None else Path(path), jobs, retry, progress).go()


class _Run:
    """Makes what a file of records lacks, and appends it."""

    def __init__(
        self,
        case: Case,
        seeds: int,
        wanted: Sequence[Attempt],
        path: Path | None,
        jobs: int,
        retry: bool,
        progress: Progress | None,
    ) -> None:
        self._case, self._seeds, self._path, self._jobs = case, range(seeds), path, jobs
        self._progress = progress or (lambda step: None)
        before, self._damages = ((), ()) if path is None else read_to_add(path)
        self._known = latest(before)
        self._before = dict(self._known)
        self._attempts = {key_of(one.facts(case)): one for one in wanted}
        self._had = {key for key, one in self._known.items() if one.status == "done" or not retry}
        self._todo = {
            key: one
            for key, one in self._attempts.items()
            if key not in self._had or ("evasion" in one.threats and self._was_not_evaded(key))
        }
        self._ran = 0
        self._stopped = False

    def go(self) -> Stress:
        """Run what is left; an interrupt or a `Stop` ends it, and what was done is kept."""
        try:
            victims = self._train()
            # A defence that still cannot be evaded has nothing to make again.
            self._todo = {
                key: replace(one, victim=victims[one.seed])
                for key, one in self._todo.items()
                if key not in self._had or victims[one.seed] is not None
            }
            with closing(self._made(list(self._todo.values()))) as records:
                for record in records:
                    self._keep(record)
                    self._ran += 1
                    self._tell(str(self._attempts[record.key]), _came_of(record))
        except (KeyboardInterrupt, Stop):
            if not any(key_of(clean_facts(self._case, seed)) in self._known for seed in self._seeds):
                raise
        keys = [*(key_of(clean_facts(self._case, seed)) for seed in self._seeds), *self._attempts]
        missing = sum(self._known.get(key) is self._before.get(key) for key in self._todo)
        found = Stress(
            Battery(tuple(self._known[key] for key in keys if key in self._known), missing), self._ran, self._damages
        )
        if not missing:
            self._conclude(found)
        return found

    def _train(self) -> dict[int, Predictor | None]:
        """The model of each seed that something is left to do for, trained on the clean graph."""
        clean = {seed: key_of(clean_facts(self._case, seed)) for seed in self._seeds}
        needed = {one.seed for one in self._todo.values()}
        needed |= {seed for seed, key in clean.items() if key not in self._known or self._was_not_evaded(key)}
        victims: dict[int, Predictor | None] = {}
        for record, victim in self._trained(sorted(needed)):
            victims[record.seeds[0]] = victim
            if record.key not in self._known or (victim is not None and self._was_not_evaded(record.key)):
                self._keep(record)
            self._tell(_training(record.seeds[0]), f"{record.values['poisoning']:.1f} % where nobody attacks")
        return victims

    def _trained(self, seeds: Sequence[int]) -> Iterable[tuple[Record, Predictor | None]]:
        def lost(seed: int, seconds: float) -> NoReturn:
            raise GarnetError(f"The defence cannot be trained on the clean graph: {DIED}.")

        if self._jobs > 1 and len(seeds) > 1:
            work = partial(measure_clean, case=self._case)
            yield from side_by_side(
                seeds, work, jobs=self._jobs, begins=lambda seed: self._tell(_training(seed)), died=lost
            )
            return
        for seed in seeds:
            self._tell(_training(seed))
            yield measure_clean(seed, self._case, self._within(_training(seed)))

    def _made(self, todo: Sequence[Attempt]) -> Generator[Record, None, None]:
        if self._jobs > 1:
            yield from side_by_side(
                todo,
                partial(measure_attempt, case=self._case),
                jobs=self._jobs,
                begins=lambda attempt: self._tell(str(attempt)),
                died=lambda attempt, seconds: attempt.failed(self._case, DIED, seconds),
            )
            return
        for attempt in todo:
            self._tell(str(attempt))
            record = measure_attempt(attempt, self._case, self._within(str(attempt)))
            if self._stopped:
                raise Stop  # an attack ends where it is, and half of one is no attempt
            yield record

    def _was_not_evaded(self, key: str) -> bool:
        """Whether a record that is known is of a time when the defence could not be evaded, as it perhaps can now."""
        record = self._known.get(key)
        if record is None or record.status != "done" or self._case.defense.learns_one_graph:
            return False
        return record.values["evasion"] is None

    def _keep(self, record: Record) -> None:
        if self._path is not None:
            append_record(self._path, record)
        self._known[record.key] = record

    def _conclude(self, found: Stress) -> None:
        """Add the verdict to the records, unless they have this one."""
        battery = found.battery
        worst = {
            threat: {budget: as_facts(battery.worst(threat, budget)) for budget in battery.budgets}
            for threat in THREATS
        }
        values = {
            "verdict": found.verdict,
            "worst": worst,
            "checks": [asdict(one) for one in found.checks],
            "failures": len(battery.failures),
        }
        facts = self._case.facts("verdict", battery.seeds, settings=digest_of({"keys": list(self._attempts), **values}))
        if key_of(facts) not in self._known:
            self._keep(self._case.record(facts, {}, status="done", values=values))

    def _within(self, stage: str) -> Progress:
        def tell(step: Step) -> None:
            try:
                self._progress(Step(stage, str(step)))
            except Stop:
                self._stopped = True
                raise

        return tell

    def _tell(self, stage: str, detail: str = "") -> None:
        total = len(self._attempts)
        self._progress(Step(stage, detail, total - len(self._todo) + self._ran, total))


def _require_graph(given: Any) -> Graph:
    graph = as_graph(given)
    split, labels, _ = require_trainable(graph)
    if not (labels[split.test] >= 0).any():
        raise GraphError("The split has no test node with a label, so a model's accuracy could not be told.")
    if not graph.num_edges:
        raise GraphError("The graph has no edges, so there is nothing to attack.")
    return graph


def _require_defense(defense: Any) -> Defense:
    if not isinstance(defense, Defense):
        raise ParameterError(
            f"A stress test is of a Defense, such as Committee() or Purified(GARNET()). Got {brief(defense)} instead."
        )
    return defense


def _require_travels(*parts: Any) -> None:
    """Refuse what other processes cannot be given."""
    for part in parts:
        try:
            pickle.dumps(part)
        except Exception as error:  # whatever the parts of it raise
            raise ParameterError(
                f"{type(part).__name__} cannot be given to another process ({error}); put its class into a module, or "
                "leave 'jobs' at 1."
            ) from error


def _require_budgets(budgets: Any, graph: Graph) -> tuple[Budget, ...]:
    """The budgets, each once, the smallest first."""
    if isinstance(budgets, str) or not isinstance(budgets, Sequence) or not budgets:
        raise BudgetError(f"The 'budgets' must be a list, such as ['2%', '5%']. Got {brief(budgets)} instead.")
    parsed = [one if isinstance(one, Budget) else Budget.parse(one) for one in budgets]
    for one in parsed:
        if one.kind not in ("edges", "fraction"):
            raise BudgetError(f"A stress test counts flips of edges, such as 5% or 100. Got a budget of {one} instead.")
    counted = {one.changes(graph, 0, "edges"): one for one in parsed}
    return tuple(counted[count] for count in sorted(counted))


def _unbounded(chosen: Iterable[Opponent], graph: Graph) -> Iterable[Attempt]:
    n = graph.num_nodes
    most = Budget.edges(min(graph.num_edges, n * (n - 1) // 2))
    return (Attempt(one, most, 0, unbounded=True) for one in chosen if one.adaptive and not one.is_for_smaller(graph))


def _training(seed: int) -> str:
    return f"train on the clean graph, seed {seed}"


def _came_of(record: Record) -> str:
    """What came of an attempt, in a few words."""
    if record.status == "failed":
        return f"failed: {record.reason}"
    told = (f"{threat} {record.values[threat]:.1f} %" for threat in THREATS if record.values[threat] is not None)
    return ", ".join(told)
