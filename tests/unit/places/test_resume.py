"""A run that is killed, or that the disk stops, goes on where it was and gives the same graph."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest

from garnet import GARNET, OnCluster, OnDisk
from garnet.datasets import block_model, inter_class_edges, load_graph, random_split
from garnet.errors import GarnetError
from garnet.graph.graph import as_graph
from garnet.io.journal import Journal
from garnet.io.marker import MARKER
from garnet.places import tiled_search
from garnet.places.tiled_place import identity
from garnet.places.tiles import TiledGraph
from garnet.progress import Step

pytest.importorskip("fcntl", reason="locks and signals of POSIX")

STAGES = ["tile", "embed", "neighbours", "prune"]
KILLED = {
    "begin": ("tile", ""),
    "tile": ("tile", "tile-1-*.bin"),
    "embed": ("embed", "points-1.bin"),
    "neighbours": ("neighbours", "pairs-5.json"),
    "plant": ("tile", "planted/tile-1-*.bin"),
    "score": ("prune", "scored-0-1.bin"),
    "trust": ("prune", "trusted-0-1.bin"),
    "uphold": ("prune", "upheld-1-2.bin"),
    "refill": ("prune", "refilled-0-1.bin"),
    "gather": ("prune", "graph/strip-1.json"),
    "end": ("prune", "graph/tiles.json"),
}
# Each case is a process of its own, which kills itself in a stage: at its begin, or once a file of some name is there.
# Those with a limit cannot write longer files from the begin of the stage on, as if the disk were full.
CHILD = """
import json, os, resource, signal, sys
from pathlib import Path
from garnet import GARNET, OnDisk
from garnet.errors import GarnetError
from garnet.places import tiled_search

tiled_search.EXACT_UP_TO = 100
replace, now = Path.replace, []

def run(source, output, stage, name, limit):
    def progress(step):
        begun = "" if step.detail else step.stage
        now[:] = [step.stage]
        if begun == stage and limit:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        elif begun == stage and not name:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(path, target):
        found = replace(path, target)
        if name and now == [stage] and Path(target).match(name):
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    Path.replace = watched
    try:
        GARNET(rank=8, k=4).purify(source, place=OnDisk(memory="1GiB", parts=3, output=output), progress=progress)
    except GarnetError as error:
        Path(output + ".txt").write_text(str(error))

for case in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        run(*case)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def purify(source, output, rank=8, progress=None):
    return GARNET(rank=rank, k=4).purify(source, place=OnDisk(memory="1GiB", parts=3, output=output), progress=progress)


class Begun(list):
    """The stages of which a run says that they begin."""

    def __call__(self, step):
        if not step.detail:
            self.append(step.stage)


def stop(cases):
    """Run the cases to their ends."""
    line = [sys.executable, "-c", CHILD, json.dumps(cases)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert not done.stderr, done.stderr
    return list(map(int, done.stdout.split()))


@pytest.fixture(scope="module", autouse=True)
def _inexact():
    """So few points would be compared at once, all with all; among cells the search goes on where it was stopped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiled_search, "EXACT_UP_TO", 100)
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "graph.npz"
    clean = block_model(400, mean_degree=20, homophily=0.95, seed=0)
    edges = np.concatenate([clean.edges, inter_class_edges(clean, clean.num_edges // 5, seed=1)], axis=1)
    features = np.eye(5, dtype=np.float32)[clean.labels] + np.random.default_rng(0).random((400, 5), dtype=np.float32)
    as_graph(clean.with_edges(edges), features=features).save(path)
    return path


@pytest.fixture(scope="module")
def undisturbed(source, tmp_path_factory):
    result = purify(source, tmp_path_factory.mktemp("whole") / "out")
    assert min(result.ledger.counts.values()) > 0
    return result.graph


@pytest.fixture(scope="module")
def stopped(source, tmp_path_factory):
    """Folders of runs that were killed, by the place where they were."""
    folders = {name: tmp_path_factory.mktemp(name) / "out" for name in KILLED}
    cases = [(str(source), str(folders[name]), *KILLED[name], 0) for name in KILLED]
    assert set(stop(cases)) == {-signal.SIGKILL}
    return folders


@pytest.fixture
def unfinished(stopped, tmp_path):
    """The output of a copy of one of these runs."""

    def copied(name):
        output = tmp_path / "copy" / "out"
        shutil.copytree(stopped[name].parent, output.parent)
        for folder in output.parent.glob(".garnet-*"):
            marker = json.loads((folder / MARKER).read_text())
            (folder / MARKER).write_text(json.dumps({**marker, "output": str(output)}))
        return output

    return copied


def directory(output):
    """Where the intermediate files of the one run for an output are."""
    (folder,) = output.parent.glob(".garnet-*")
    return folder


def require_same(found, expected):
    first, second = found.to_graph(), expected.to_graph()
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(first.adjacency, part), getattr(second.adjacency, part))
    np.testing.assert_array_equal(first.features, second.features)
    np.testing.assert_array_equal(first.labels, second.labels)


@pytest.mark.parametrize("place", KILLED)
def test_killed_anywhere_the_same_call_gives_the_same_graph(source, undisturbed, unfinished, place):
    output, begun = unfinished(place), Begun()
    result = purify(source, output, progress=begun)
    assert begun == STAGES[STAGES.index(KILLED[place][0]) :]
    assert [stage.name for stage in result.stages] == STAGES
    require_same(result.graph, undisturbed)
    assert [path.name for path in output.parent.iterdir()] == ["out"]
    assert purify(source, output).done_before


def test_a_cluster_that_does_not_answer_costs_nothing_of_what_was_done(source, undisturbed, unfinished, monkeypatch):
    pytest.importorskip("distributed")
    output = unfinished("score")
    monkeypatch.setattr("garnet.places.cluster._WAIT", 0.5)
    place = OnCluster(cluster="tcp://127.0.0.1:9", memory="1GiB", parts=3, output=output)
    with pytest.raises(GarnetError, match="no Dask scheduler answers there"):
        GARNET(rank=8, k=4).purify(source, place=place)
    begun = Begun()
    require_same(purify(source, output, progress=begun).graph, undisturbed)
    assert begun == ["prune"]


def test_a_result_that_was_taken_away_is_made_again(source, undisturbed, unfinished, tmp_path):
    output = unfinished("end")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("garnet.io.scratch.Scratch.remove", _interrupted)  # when all is in its place
        with pytest.raises(KeyboardInterrupt):
            purify(source, output)
    output.rename(tmp_path / "mine")
    require_same(purify(source, output).graph, undisturbed)
    assert [path.name for path in output.parent.iterdir()] == ["out"]


def _interrupted(scratch):
    raise KeyboardInterrupt


def test_a_file_of_the_result_that_has_changed_is_noticed(source, tmp_path):
    output = tmp_path / "out"
    purify(source, output)
    victim = output / "tile-0-0.bin"
    victim.write_bytes(bytes(victim.stat().st_size))
    with pytest.raises(GarnetError, match="holds a finished graph"):
        purify(source, output)


def test_what_a_stage_had_done_is_not_done_again(source, unfinished):
    output = unfinished("neighbours")
    work = directory(output)
    kept = [*(work / "tiles").glob("tile-*.bin"), *work.glob("points-?.bin"), *work.glob("pairs-*.json")]
    before, after = {path: path.stat().st_mtime_ns for path in kept}, {}
    assert len(before) > 9 + 3

    def progress(step):
        if step == Step("prune"):
            after.update({path: path.stat().st_mtime_ns for path in kept})

    purify(source, output, progress=progress)
    assert after == before


def test_another_run_for_the_output_is_refused(source, undisturbed, unfinished, tmp_path):
    output, other = unfinished("embed"), tmp_path / "other.npz"
    with pytest.raises(GarnetError, match=r"unfinished run for .*out differs in rank; repeat that one, remove it with"):
        purify(source, output, rank=9)
    graph = load_graph(source)
    as_graph(graph, features=graph.features[::-1]).save(other)
    with pytest.raises(GarnetError, match="differs in source"):
        purify(other, output)
    shutil.copyfile(source, other)
    require_same(purify(other, output).graph, undisturbed)  # a file that was moved is the same source


def test_a_graph_in_memory_is_told_by_its_features_too(source, tmp_path):
    graph = load_graph(source)
    with pytest.raises(KeyboardInterrupt):
        purify(graph, tmp_path / "out", progress=_interrupt_at("embed"))
    with pytest.raises(GarnetError, match="differs in source"):
        purify(as_graph(graph, features=graph.features[::-1]), tmp_path / "out")
    purify(graph, tmp_path / "out", progress=_interrupt_at("nothing"))


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("embed", "tiles/tile-0-1.bin"),
        ("embed", "tiles/tiles.json"),
        ("embed", "planted/tile-0-1.bin"),
        ("neighbours", "planted/tiles.json"),
        ("score", "planted.bin"),
        ("neighbours", "points-0.bin"),
        ("score", "points-2.bin"),
        ("score", "pairs-?.bin"),
        ("gather", "node-features-0.bin"),
    ],
)
@pytest.mark.parametrize("damage", ["gone", "short", "changed"])
def test_a_file_that_is_not_what_it_was_is_named(source, unfinished, place, name, damage):
    output = unfinished(place)
    victim = next(file for file in sorted(directory(output).rglob(name)) if file.stat().st_size)
    contents = bytearray(victim.read_bytes())
    victim.unlink()
    if damage == "short":  # by whole rows of points and whole pairs
        victim.write_bytes(contents[: -8 * 13])
    elif damage == "changed":
        contents[len(contents) // 2] ^= 1
        victim.write_bytes(contents)
    with pytest.raises(GarnetError, match=f"Cannot go on: .*{victim.name}.*'garnet clean .*' to begin again"):
        purify(source, output)
    assert not output.exists()


@pytest.mark.parametrize("stage", ["tile", "embed", "neighbours"])
def test_a_note_in_which_a_bit_has_changed_is_refused(unfinished, stage):
    folder = directory(unfinished("gather"))
    file = folder / f"stage-{stage}.json"
    contents = file.read_bytes()
    for place in range(0, len(contents), max(1, len(contents) // 50)):
        changed = bytearray(contents)
        changed[place] ^= 1 << (place % 8)
        file.write_bytes(changed)
        with pytest.raises(GarnetError, match=rf"{file.name}: it is damaged; remove .* to begin again"):
            Journal(folder).done(stage)


@pytest.mark.parametrize(
    "name",
    ["pairs-0.json", "scored-0-0.bin", "trusted-0-2.bin", "upheld-1-1.bin", "refilled-0-1.bin", "graph/strip-0.json"],
)
def test_a_file_that_can_be_made_again_is(source, undisturbed, unfinished, name):
    output = unfinished("gather")
    (directory(output) / name).unlink(missing_ok=True)
    require_same(purify(source, output).graph, undisturbed)


@pytest.mark.parametrize("limit", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_full_disk_is_one_sentence_and_the_run_goes_on_when_there_is_room(source, undisturbed, tmp_path, limit):
    folders = [tmp_path / stage for stage in STAGES]
    assert stop([(str(source), str(folder), folder.name, "", limit) for folder in folders]) == [0] * 4
    for folder in folders:
        said = folder.with_suffix(".txt").read_text()
        assert said.startswith(f"Cannot write {tmp_path}")
        assert said.count(".\n") == 0
        require_same(purify(source, folder).graph, undisturbed)


# Each run is a process of its own that stands still in the middle, until it is told to go on.
HELD = """
import os, signal, sys
from garnet import GARNET, OnDisk
from garnet.places import tiled_search
from garnet.progress import Step

tiled_search.EXACT_UP_TO = 100

def progress(step):
    if step == Step("embed"):
        os.kill(os.getpid(), signal.SIGSTOP)

children = []
for output in sys.argv[2:]:
    children.append(os.fork())
    if not children[-1]:
        place = OnDisk(memory="1GiB", parts=3, output=output)
        GARNET(rank=8, k=4).purify(sys.argv[1], place=place, progress=progress)
        os._exit(0)
    os.waitpid(children[-1], os.WUNTRACED)
    print(children[-1], flush=True)
for child in children:
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_while_a_run_is_at_work_another_is_refused_and_when_it_was_killed_one_goes_on(source, undisturbed, tmp_path):
    killed, finished = tmp_path / "killed", tmp_path / "finished"
    line = [sys.executable, "-c", HELD, source, killed, finished]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}) as runs:
        pids = [int(runs.stdout.readline()) for _ in (killed, finished)]
        try:
            before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
            for output, rank in ((killed, 8), (killed, 9), (finished, 8)):
                with pytest.raises(GarnetError, match=rf"^Another run is writing {output}; wait .*\.$"):
                    purify(source, output, rank=rank)
            assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
            os.kill(pids[0], signal.SIGKILL)
            os.kill(pids[1], signal.SIGCONT)
            assert runs.stdout.read().split() == [str(-signal.SIGKILL), "0"]
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    require_same(TiledGraph.open(finished), undisturbed)
    require_same(purify(source, killed).graph, undisturbed)


def test_a_run_that_failed_leaves_the_folder_to_the_next_even_if_its_error_is_kept(source, undisturbed, tmp_path):
    with pytest.raises(KeyboardInterrupt) as kept:
        purify(source, tmp_path / "out", progress=_interrupt_at("neighbours"))
    require_same(purify(source, tmp_path / "out").graph, undisturbed)
    assert kept.value.__traceback__ is not None


def _interrupt_at(stage):
    def progress(step):
        if step == Step(stage):
            raise KeyboardInterrupt

    return progress


def test_a_run_is_of_one_graph_with_all_that_belongs_to_its_nodes(tmp_path):
    graph = as_graph(block_model(60, mean_degree=6, seed=0), labels=np.arange(60) % 2)
    others = (
        as_graph(graph, names=np.arange(60) + 1000),
        as_graph(graph, names=np.arange(60) + 5000),
        as_graph(graph, split=random_split(graph.labels, train=0.2, val=0.2, seed=0)),
        as_graph(graph, labels=1 - graph.labels),
        graph,
    )
    assert len({json.dumps(identity(other, tmp_path)) for other in others}) == len(others)
    graph.save(tmp_path / "graph.csv")
    before = identity(tmp_path, tmp_path / "clean")
    (tmp_path / "clean").mkdir()
    (tmp_path / "clean" / "result").write_text("x")
    assert identity(tmp_path, tmp_path / "clean") == before


def test_a_source_of_many_files_makes_no_long_marker(tmp_path):
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    edges = block_model(60, mean_degree=6, seed=0).edges
    (tmp_path / "many").mkdir()
    for number, part in enumerate(np.array_split(edges, 40, axis=1)):
        table = arrow.table({"source": part[0], "target": part[1]})
        parquet.write_table(table, tmp_path / "many" / f"part-{number:05d}.parquet")
    with pytest.raises(KeyboardInterrupt):
        purify(tmp_path / "many", tmp_path / "out", progress=_interrupt_at("embed"))
    assert (directory(tmp_path / "out") / MARKER).stat().st_size < 2000
