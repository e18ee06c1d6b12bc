"""`OnDisk(memory=...)` is a promise: what the process holds at its worst, blocks of the solver too, stays below it."""

import subprocess
import sys

import pytest

PURIFY = """
import sys
from garnet import GARNET, OnDisk
from garnet.datasets import nested_block_model
from garnet.machine import peak_memory
if sys.argv[1] == "draw":
    nested_block_model(60_000, mean_degree=12, seed=0).save(sys.argv[2])
elif sys.argv[1] == "audit":
    from garnet.audit import audit
    audit(sys.argv[2], place=OnDisk(memory="1GiB", output=sys.argv[3]))
    print(peak_memory())
else:
    place = OnDisk(memory="1GiB", output=sys.argv[3])
    GARNET(rank=128, k=10, features="none").purify(sys.argv[2], place=place)
    print(peak_memory())
"""


@pytest.mark.slow
def test_no_more_memory_is_held_than_was_allowed(tmp_path):
    def run(*arguments):
        command = [sys.executable, "-c", PURIFY, *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    run("draw", tmp_path / "in.npz")
    for what in ("purify", "audit"):
        held = int(run(what, tmp_path / "in.npz", tmp_path / what))
        assert 300 << 20 < held < 1 << 30
