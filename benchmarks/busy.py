"""How much slower everything is on a machine that is not ours alone, beside the usual recipe under the same load.

Each task runs in a process of its own: on the machine as it is (`idle`, which it should be), beside one niced process
that never rests (`busy`), and with a quota of one processor (`quota`), which takes a control group and mostly root.
Loads take turns, task by task. A task is timed some times and its median counts; what comes before it is not timed.
The record is written after each task, and keeps what it has of others.

    python benchmarks/busy.py [--tasks "purify cora" "audit cora" ...] [--loads idle busy quota] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from statistics import median
from typing import Any

from record import data_folder, real_graph, save, so_far

GROUPS = Path("/sys/fs/cgroup")
PERIOD = 100_000  # microseconds, of which a quota of one processor leaves as many in each
LONG = ("arxiv",)


def main() -> None:
    """Run every task under every load and write the record; or one task, for the process that was started for it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    options.add_argument("--loads", nargs="+", choices=list(LOADS), default=list(LOADS))
    options.add_argument("--rounds", type=int, default=5, help="timed runs of a short task; a long one has two")
    options.add_argument("--alone", choices=list(TASKS), help="time one task here and print the seconds")
    chosen = options.parse_args()
    if chosen.alone:
        print(json.dumps(seconds_of(TASKS[chosen.alone], chosen.rounds)))
        return
    known = so_far("busy.json")
    figures: dict[str, Any] = json.loads(known.read_text())["figures"] if known.exists() else {}
    figures["left"] = sorted(os.sched_getaffinity(0))
    for task in chosen.tasks:
        rounds = 2 if any(word in task for word in LONG) else chosen.rounds
        row: dict[str, Any] = {load: under(load, task, rounds) for load in chosen.loads}
        row |= {f"{load} / idle": row[load] / row["idle"] for load in row if load != "idle" and row[load]}
        figures[task] = row
        print(task, {name: round(value, 3) if value else value for name, value in row.items()}, flush=True)
        save("busy", figures)


def under(load: str, task: str, rounds: int) -> float | None:
    """Median seconds of a task under a load; None where the load cannot be had."""
    with LOADS[load]() as enter:
        if enter is None:
            return None
        line = [sys.executable, __file__, "--alone", task, "--rounds", str(rounds)]
        run = subprocess.run(line, stdout=subprocess.PIPE, check=True, preexec_fn=enter)
    return median(json.loads(run.stdout.splitlines()[-1]))


def seconds_of(make: Callable[[], Callable[[], Any]], rounds: int) -> list[float]:
    """Seconds of each run of a task, after one that is not counted where it is short."""
    work = make()
    seconds = []
    for number in range(rounds + 1):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
        if number + 1 >= rounds and sum(seconds) > 10:
            break
    return seconds[-rounds:]


@contextmanager
def busy() -> Iterator[Callable[[], None]]:
    """Beside one process that never rests, as nice as can be, and of another session, as one of another terminal is.

    Linux shares processors among sessions first (`sched_autogroup`): there its niceness counts for nothing.
    """
    line = ["nice", "-n", "19", sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(line, start_new_session=True) as spinning:
        try:
            time.sleep(1.0)
            yield lambda: None
        finally:
            spinning.kill()


@contextmanager
def quota() -> Iterator[Callable[[], None] | None]:
    """In a control group of its own that may use one processor's time."""
    old = (GROUPS / "cpu").is_dir()
    group = (GROUPS / "cpu" if old else GROUPS) / f"garnet-busy-{os.getpid()}"
    try:
        group.mkdir()
        if old:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(PERIOD))
        else:
            (group / "cpu.max").write_text(f"{PERIOD} {PERIOD}")
    except OSError:
        yield None
        return
    try:
        yield lambda: (group / "cgroup.procs").write_text("0") and None
    finally:
        with suppress(OSError):
            group.rmdir()


LOADS: dict[str, Callable[[], Any]] = {"idle": lambda: nullcontext(lambda: None), "busy": busy, "quota": quota}


def purify(name: str) -> Callable[[], Callable[[], Any]]:
    """The default on a graph."""

    def make() -> Callable[[], Any]:
        from garnet import GARNET

        graph = real_or_arxiv(name)
        return lambda: GARNET().purify(graph)

    return make


def stages(name: str, whose: str) -> Callable[[], Callable[[], Any]]:
    """Embedding, neighbours and scores at rank 50: `ours`, or those of the `usual` recipe."""

    def make() -> Callable[[], Any]:
        import recipe

        from garnet.spectral.spectrum import normalized_adjacency

        matrix = normalized_adjacency(real_or_arxiv(name))
        return lambda: getattr(recipe, whose)(matrix, 50, 50)

    return make


def train(name: str, backbone: str) -> Callable[[], Callable[[], Any]]:
    """A model of a hundred epochs."""

    def make() -> Callable[[], Any]:
        from garnet.registry import BACKBONES
        from garnet.training.loop import Training
        from garnet.training.loop import train as fit

        graph = real_or_arxiv(name)
        return lambda: fit(BACKBONES.get(backbone)(), graph, training=Training(epochs=100, patience=None))

    return make


def defend(name: str) -> Callable[[], Callable[[], Any]]:
    """The default defence on a graph, from the file to the logits."""

    def make() -> Callable[[], Any]:
        from garnet.defenses import Committee

        graph = real_or_arxiv(name)
        return lambda: Committee().fit(graph, seed=0).logits()

    return make


def attack(name: str, attacker: str, *, targets: int = 0) -> Callable[[], Callable[[], Any]]:
    """An attack of fifty edges, or of five at each of some targets."""

    def make() -> Callable[[], Any]:
        from garnet.registry import ATTACKS

        graph = real_or_arxiv(name)
        aimed = {"budget": "5/target", "targets": graph.split.test[:targets]} if targets else {"budget": "50"}
        return lambda: ATTACKS.get(attacker)()(graph, seed=0, **aimed)

    return make


def audit(name: str) -> Callable[[], Callable[[], Any]]:
    """The audit of a graph."""

    def make() -> Callable[[], Any]:
        from garnet.audit import audit as audited

        graph = real_or_arxiv(name)
        return lambda: audited(graph)

    return make


def real_or_arxiv(name: str) -> Any:
    """A graph of the catalogue, or the citation graph, whose labels are there but whose features are drawn."""
    if name != "arxiv":
        return real_graph(name)
    from garnet import load_graph

    return load_graph(data_folder() / "ogbn_arxiv" / "ogbn_arxiv.npz", symmetrize=True)


TASKS: dict[str, Callable[[], Callable[[], Any]]] = {
    **{f"purify {name}": purify(name) for name in ("cora", "pubmed", "arxiv")},
    **{f"{whose} {name}": stages(name, whose) for name in ("cora", "pubmed", "arxiv") for whose in ("ours", "usual")},
    "train gcn cora": train("cora", "gcn"),
    "train gprgnn pubmed": train("pubmed", "gprgnn"),
    "defend cora": defend("cora"),
    "attack prbcd cora": attack("cora", "prbcd"),
    "attack metattack cora": attack("cora", "metattack"),
    "attack nettack cora": attack("cora", "nettack", targets=40),
    "audit cora": audit("cora"),
    "audit pubmed": audit("pubmed"),
}


if __name__ == "__main__":
    main()
