"""How a graph is cut, and how many cells its points fall into, so that the work stays within the memory."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from garnet.errors import GarnetError
from garnet.places.plan import BASELINE, BYTES_AN_EDGE, COPIES_OF_A_ROW, Cut, most_cells

SIZES = {"nodes": st.integers(1, 10**9), "edges": st.integers(0, 10**10), "at_once": st.integers(1, 64)}


@given(**SIZES, memory=st.integers(12 << 30, 1 << 42), width=st.integers(1, 600), k=st.integers(0, 99))
def test_all_tasks_of_a_process_fit_in_its_memory_and_parts_are_no_more_than_that_takes(
    nodes, edges, at_once, memory, width, k
):
    parts = Cut(memory=memory, width=width, k=k, at_once=at_once).parts(nodes, edges)

    def fits(parts):
        rows, entries = COPIES_OF_A_ROW * 4 * width * nodes, BYTES_AN_EDGE * 2 * (nodes * k + edges)
        return BASELINE + at_once * max(rows, entries) / parts <= memory * (1 + 1e-12)

    assert fits(parts) or parts == nodes  # a part has one node at least
    assert parts == 1 or not fits(parts - 1)


def test_a_process_that_does_too_much_at_once_is_said_before_anything_is_known_of_the_graph():
    Cut(memory=1 << 30, width=100, k=15, at_once=3)
    with pytest.raises(GarnetError, match=r"does 8 tasks at once needs 1.7 GB of memory, but may hold only 1.1 GB"):
        Cut(memory=1 << 30, width=100, k=15, at_once=8)


def test_a_hundred_million_points_have_cells_of_a_size_like_the_root_in_a_few_gigabytes():
    assert most_cells(4 << 30, 134, 256) > 100_000_000 / 2_000
    assert most_cells(1 << 30, 134, 256) < most_cells(2 << 30, 134, 256)


# A number for each pair of cells would take 1 GB.
RANKING = """
import json, torch
from garnet.neighbors.quantizer import _ranked
from garnet.machine import peak_memory
points = torch.randn(16_000, 3, generator=torch.Generator().manual_seed(0))
_ranked(points[:600], torch.arange(600), points[:600], 64)
before = peak_memory()
ranked = _ranked(points, torch.arange(len(points)), points, 64)
print(json.dumps([peak_memory() - before, len(ranked)]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of a process from /proc")
@pytest.mark.slow
def test_ranking_many_cells_takes_no_matrix_of_them():
    done = subprocess.run([sys.executable, "-c", RANKING], capture_output=True, text=True, check=True, timeout=120)
    taken, cells = json.loads(done.stdout)
    assert taken < cells**2
