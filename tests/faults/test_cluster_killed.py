"""A worker of a Dask cluster, or its scheduler, is killed in every stage of a purification."""

import random
import signal
import socket
import time
from contextlib import ExitStack

import pytest
from commands import contents
from jail import require_done, require_refused

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow
STAGES = ["tile", "embed", "neighbours", "prune"]
SCHEDULER = (
    "import sys, dask; dask.config.set({'temporary-directory': sys.argv[1]}); "
    "from distributed.cli.dask_scheduler import main; main(sys.argv[2:])"
)
WORKER = "import sys; from distributed.cli.dask_worker import main; main(sys.argv[1:])"
OUTPUTS = {"tiles": "out", "table": "out.parquet"}


class Cluster:
    """A scheduler and two workers in the jail, each a process that can be killed."""

    def __init__(self, jail, stack):
        self.jail, self.stack = jail, stack
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        place = "--host", "127.0.0.1", "--no-dashboard"
        own = self.jail.jailer.root / "dask"
        self.scheduler = self._process(SCHEDULER, own, *place, "--port", self.port)
        self.scheduler.reaches("Scheduler at:")
        own = "--no-nanny", "--nthreads", "1", "--local-directory", own
        self.workers = [self._process(WORKER, self.address, *place, *own) for _ in range(2)]
        for worker in self.workers:
            worker.reaches("Registered to:")

    def _process(self, program, *arguments):
        run = self.jail.start(*arguments, program=program)

        def end():
            run.kill(signal.SIGKILL)  # one that has ended is there until it is waited for
            run.wait()

        self.stack.callback(end)
        return run

    def purify(self, output):
        return ["purify", "data/graph.npz", "--rank", "8", "--k", "4", "--cluster", self.address, "-o", output]


@pytest.fixture
def cluster(furnished):
    (furnished.jailer.root / "dask").mkdir(exist_ok=True)
    (furnished.jailer.root / "dask").chmod(0o777)
    with ExitStack() as stack:
        yield Cluster(furnished, stack)


@pytest.fixture(scope="module")
def expected():
    """What the first run of this kind wrote that nobody disturbed."""
    return {}


def undisturbed(expected, jail, cluster, kind):
    if kind not in expected:
        require_done(jail.run(*cluster.purify(f"first-{OUTPUTS[kind]}"), outputs=[f"first-{OUTPUTS[kind]}"]))
        expected[kind] = contents(jail.work / f"first-{OUTPUTS[kind]}")
    return expected[kind]


def stop_in(run, stage, victim, seed):
    """Kill a process some milliseconds after a stage has begun; in a stage of many steps, anywhere among them."""
    run.reaches(f" {stage}\n")
    time.sleep(random.Random(seed).uniform(0, 1.0 if stage == "embed" else 0.05))
    victim.kill(signal.SIGKILL)


@pytest.mark.parametrize("kind", OUTPUTS)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("number", range(3))
def test_a_worker_killed_in_any_stage_changes_nothing(furnished, cluster, expected, kind, stage, number):
    wanted = undisturbed(expected, furnished, cluster, kind)
    before = furnished.fingerprint()
    run = furnished.start(*cluster.purify(OUTPUTS[kind]))
    stop_in(run, stage, cluster.workers[number % 2], f"{kind} {stage} {number}")
    require_done(run.wait())
    furnished.require_unchanged(before, [OUTPUTS[kind]])
    assert contents(furnished.work / OUTPUTS[kind]) == wanted


@pytest.mark.parametrize("kind", OUTPUTS)
@pytest.mark.parametrize("stage", STAGES)
def test_a_scheduler_killed_in_any_stage_is_one_sentence_and_the_run_goes_on(furnished, cluster, expected, kind, stage):
    wanted = undisturbed(expected, furnished, cluster, kind)
    before = furnished.fingerprint()
    run = furnished.start(*cluster.purify(OUTPUTS[kind]))
    stop_in(run, stage, cluster.scheduler, f"{kind} {stage}")
    done = run.wait(300)
    if done.status != 0:  # it may have been all but done
        require_refused(done)
    furnished.require_unchanged(before, [OUTPUTS[kind]], leftover=True)
    cluster.start()
    require_done(furnished.start(*cluster.purify(OUTPUTS[kind])).wait(300))
    furnished.require_unchanged(before, [OUTPUTS[kind]])
    assert contents(furnished.work / OUTPUTS[kind]) == wanted
