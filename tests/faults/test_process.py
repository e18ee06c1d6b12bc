"""The process that calls the library is left as it was found, whether a call succeeds or fails.

Every public entry is run once between two pictures of all that a process has one of. What imports of other packages
change is theirs: they are imported before.
"""

import ctypes
import decimal
import gc
import importlib
import json
import locale
import logging
import multiprocessing
import os
import pkgutil
import platform
import random
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import garnet
from garnet import GARNET, Budget, InMemory, OnDisk, as_graph, load_graph
from garnet.attacks import PGD, PRBCD, Metattack, Random
from garnet.audit import audit
from garnet.backbones import GCN, TorchModule
from garnet.bench.runner import run
from garnet.bench.study import parse_study
from garnet.datasets import contextual_block_model, load, random_split
from garnet.defenses import Jaccard, Purified
from garnet.errors import GarnetError
from garnet.report.page import write_report
from garnet.training.loop import Training, train

pytestmark = pytest.mark.filterwarnings("ignore::garnet.errors.RankWarning")

QUICK = Training(epochs=2)
LINES = "source,target\n0,1\n1,2\n2,3\n"


class Stopped(Exception):
    """What a user's own code raises in the middle of a call."""


@pytest.fixture(scope="module", autouse=True)
def _everything_imported():
    for module in pkgutil.walk_packages(garnet.__path__, "garnet."):
        if module.name not in ("garnet.__main__", "garnet.linalg.triton_kernels"):
            importlib.import_module(module.name)
    for name in ("torch_geometric.data", "torch_geometric.nn", "pyarrow.parquet", "jinja2", "scipy.io", "pandas"):
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)


@pytest.fixture(scope="module")
def graph():
    drawn = contextual_block_model(200, classes=3, features=8, seed=0)
    return replace(drawn, split=random_split(drawn.labels, seed=0))


def picture():
    """All that a process has one of, and that a call could change."""
    gc.collect()
    mask = os.umask(0)
    os.umask(mask)
    return {
        "warnings": ([*warnings.filters], warnings.showwarning),
        "signals": {one: signal.getsignal(one) for one in signal.valid_signals()},
        "threads of torch": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "threads of BLAS": torch.__config__.parallel_info(),
        "torch": (
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.is_grad_enabled(),
            torch.is_anomaly_enabled(),
            torch.get_float32_matmul_precision(),
            torch.backends.cudnn.deterministic,
            torch.backends.cudnn.benchmark,
            torch.backends.mkldnn.enabled,
            repr(torch.full((3,), 1 / 3)),
        ),
        "numpy": (np.geterr(), np.get_printoptions()),
        "random numbers": (
            random.getstate(),
            [part.tobytes() if isinstance(part, np.ndarray) else part for part in np.random.get_state()],  # noqa: NPY002
            torch.get_rng_state().numpy().tobytes(),
            [state.cpu().numpy().tobytes() for state in torch.cuda.get_rng_state_all()]
            if torch.cuda.is_available()
            else [],
        ),
        "environment": dict(os.environ),
        "place": (Path.cwd(), mask, sys.path[:]),
        "locale": locale.setlocale(locale.LC_ALL),
        "logging": (logging.root.level, logging.root.handlers[:], logging.root.manager.disable, handlers_of_ours()),
        "start of processes": multiprocessing.get_start_method(allow_none=True),
        "garbage": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.callbacks[:]),
        "interpreter": (sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace(), sys.getprofile()),
        "hooks": (sys.excepthook, sys.unraisablehook, sys.displayhook, threading.excepthook),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "decimals": repr(decimal.getcontext()),
        "open files": open_files(),
        "threads": set(threading.enumerate()),
        "children": multiprocessing.active_children(),
        "temporary files": sorted(Path(os.environ["TMPDIR"]).iterdir()),
    }


def handlers_of_ours():
    return {name: logging.getLogger(name).handlers[:] for name in logging.root.manager.loggerDict if "garnet" in name}


def open_files():
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        return None
    # What is listed includes the list itself, which is gone when it is looked at.
    return sorted(str(one.readlink()) for one in folder.iterdir() if one.is_symlink())


@pytest.fixture
def unchanged(tmp_path, monkeypatch):
    """Run something, which may raise what it is said to, and compare the process before and after."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", None)

    def check(call, *raised):
        before = picture()
        if raised:
            with pytest.raises(raised):
                call(tmp_path)
        else:
            call(tmp_path)
        after = picture()
        assert {name: (before[name], after[name]) for name in before if before[name] != after[name]} == {}

    return check


def on_disk(**options):
    return OnDisk(memory="1GiB", **options)


def stop_at(stage):
    def progress(step):
        if step.stage == stage:
            raise Stopped

    return progress


def failing_module(*_):
    torch.rand(3)
    raise Stopped


def failing_forward(features, classes):
    class Fails(torch.nn.Linear):
        def forward(self, x, edge_index):
            torch.rand(3)
            raise Stopped

    return Fails(features, classes)


def study():
    cell = {"graph": "cora", "backbone": "gcn", "training": {"epochs": 1}}
    return parse_study({"title": "t", "seeds": 1, "cells": [{**cell, "defense": "none"}]})


CALLS = {
    "purify": lambda graph, _: GARNET().purify(graph),
    "purify with distortion": lambda graph, _: GARNET(score="distortion").purify(graph),
    "purify a larger one": lambda *_: GARNET().purify(load("cora"), place=InMemory(neighbors="cells")),
    "purify on disk": lambda graph, folder: GARNET().purify(graph, place=on_disk(output=folder / "out")),
    "purify on disk into memory": lambda graph, _: GARNET().purify(graph, place=on_disk()),
    "transform": lambda graph, _: GARNET()(graph.to_pyg()),
    "embed": lambda graph, _: GARNET().embed(graph),
    "audit": lambda graph, _: audit(graph),
    "attack at random": lambda graph, _: Random()(graph, budget=Budget.edges(5)),
    "attack by gradients": lambda graph, _: PGD(steps=2)(graph, budget=Budget.edges(5)),
    "attack in blocks": lambda graph, _: PRBCD(steps=2, fine_steps=1)(graph, budget=Budget.edges(5)),
    "poison": lambda graph, _: Metattack()(graph, budget=Budget.edges(1)),
    "defend": lambda graph, _: Purified(Jaccard(), GCN(hidden=4), QUICK).fit(graph, seed=0).logits(),
    "train": lambda graph, _: train(GCN(hidden=4), graph, training=QUICK),
    "train in batches": lambda graph, _: train(GCN(hidden=4), graph, training=replace(QUICK, batch_size=8)),
    "train a module": lambda graph, _: train(TorchModule(Dropped), graph, training=QUICK),
    "report": lambda graph, folder: write_report(audit(graph), folder / "report.html"),
    "report of a model": lambda graph, folder: write_report(
        train(GCN(hidden=4), graph, training=QUICK)[0], folder / "model.html"
    ),
    "bench": lambda _, folder: run(study(), folder / "records.jsonl", jobs=1),
}

FAILING = {
    "rank too large": (lambda graph, _: GARNET(rank=10**6).purify(graph), GarnetError),
    "stopped between stages": (lambda graph, _: GARNET().purify(graph, progress=stop_at("prune")), Stopped),
    "stopped on disk": (
        lambda graph, folder: GARNET().purify(
            graph, place=on_disk(output=folder / "o"), progress=stop_at("neighbours")
        ),
        Stopped,
    ),
    "stopped on disk without a folder": (
        lambda graph, _: GARNET().purify(graph, place=on_disk(), progress=stop_at("prune")),
        Stopped,
    ),
    "not for disk": (lambda graph, _: GARNET(score="distortion").purify(graph, place=on_disk()), GarnetError),
    "no labels": (lambda graph, _: train(GCN(), replace(graph, labels=None)), GarnetError),
    "module that fails": (lambda graph, _: train(TorchModule(failing_module), graph, training=QUICK), Stopped),
    "forward that fails": (lambda graph, _: train(TorchModule(failing_forward), graph, training=QUICK), Stopped),
    "budget that is none": (lambda graph, _: Random()(graph, budget="many"), GarnetError),
    "attack stopped": (
        lambda graph, _: PGD(steps=3)(graph, budget=Budget.edges(5), progress=lambda *_: raise_stopped()),
        Stopped,
    ),
    "report of nothing": (lambda _, folder: write_report(object(), folder / "no.html"), GarnetError),
    "report without a folder": (
        lambda graph, folder: write_report(audit(graph), folder / "no" / "a.html"),
        GarnetError,
    ),
    "bench in no processes": (lambda _, folder: run(study(), folder / "records.jsonl", jobs=0), GarnetError),
}


class Dropped(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.linear = torch.nn.Linear(features, classes)

    def forward(self, x, edge_index):
        return torch.nn.functional.dropout(self.linear(x), training=self.training)


def raise_stopped():
    raise Stopped


@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_the_process_as_it_was(name, graph, unchanged):
    unchanged(lambda folder: CALLS[name](graph, folder))


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.slow
def test_a_call_that_fails_leaves_the_process_as_it_was(name, graph, unchanged):
    call, raised = FAILING[name]
    unchanged(lambda folder: call(graph, folder), raised)


def written(folder, ending):
    path = folder / f"graph{ending}"
    matrix = sp.csr_array(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=np.float32))
    if ending == ".pt":
        from torch_geometric.data import Data

        torch.save(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2), path)
    elif ending == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"source": [0, 1], "target": [1, 2]}), path)
    else:
        as_graph(matrix).save(path)
    return path


RARE = (".csv.gz", ".tsv", ".edges", ".pt")


@pytest.mark.parametrize(
    "ending", [".npz", ".csv", ".mtx", ".parquet", *(pytest.param(one, marks=pytest.mark.slow) for one in RARE)]
)
def test_a_reader_leaves_the_process_as_it_was_also_with_a_broken_file(ending, tmp_path, unchanged):
    path = written(tmp_path, ending)
    unchanged(lambda _: load_graph(path))
    path.write_bytes(path.read_bytes()[:-20] + b"\xff\x00,1.5\n7")
    unchanged(lambda _: load_graph(path), GarnetError)


def test_readers_in_several_threads_leave_the_warnings_as_they_were(tmp_path):
    path = tmp_path / "graph.csv"
    path.write_text(LINES)
    before, interval = [*warnings.filters], sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: load_graph(path), range(400)))
        assert warnings.filters == before
    finally:
        sys.setswitchinterval(interval)
        warnings.filters[:] = before


MALLOC = """
import ctypes, json, sys
from garnet import GARNET, OnDisk
from garnet.datasets import block_model
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd a b c d e".split()]
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
libc.mallinfo2.restype = Info
GARNET().purify(block_model(300, seed=0), place=OnDisk(memory="1GiB"))
size = 24 << 20
libc.free(libc.malloc(size))
mapped = libc.mallinfo2().hblks
libc.malloc(size)
print(json.dumps(libc.mallinfo2().hblks - mapped))
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs mallinfo2 of glibc"
)
def test_malloc_still_learns_which_blocks_to_keep():
    """By default glibc keeps a block of a size that was freed before in its heap; once told a bound, it never does."""
    done = subprocess.run([sys.executable, "-c", MALLOC], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == 0
