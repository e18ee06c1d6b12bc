"""Rows in files or in memory, and some of their columns."""

import numpy as np
import pytest
import torch

from garnet.errors import GarnetError
from garnet.places.row_files import read, write
from garnet.places.row_store import RowStore, columns_of, grain_of, grains, whole

BOUNDS = (0, 3, 3, 10)
ROWS = torch.arange(50.0).view(10, 5)


def stored(store):
    tall = store.new(5)
    for file, piece in zip(tall.files, torch.split(ROWS, np.diff(BOUNDS).tolist()), strict=True):
        assert write(file, piece) == 5
    return tall


@pytest.mark.parametrize("kind", ["files", "memory"])
def test_columns_are_read_of_any_rows(scratch, kind):
    store = RowStore(scratch, BOUNDS)
    store.hold((kind == "memory") << 20)
    tall = stored(store)
    assert torch.equal(whole(tall), ROWS)
    assert torch.equal(columns_of(tall, 1, 4), ROWS[:, 1:4])
    assert len(list(scratch.glob("*.bin"))) == {"files": 3, "memory": 0}[kind]
    del tall
    assert not list(scratch.glob("*.bin"))


@pytest.mark.parametrize("left", [8, 44])
def test_a_file_that_is_too_short_is_named(scratch, left):
    file = scratch / "rows.bin"
    write(file, ROWS[:3])
    file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(GarnetError, match=r"rows\.bin: it is truncated"):
        read(file, 5)
    file.unlink()
    with pytest.raises(GarnetError, match=r"rows\.bin: No such file"):
        read(file, 5)


def test_grains_are_as_large_as_the_matrix_allows_and_cover_it():
    assert [grain_of(rows) for rows in (0, 1, 3000, 200_000, 2_449_029, 10**9)] == [16, 16, 16, 1024, 8192, 8192]
    assert grains(0, 16) == [slice(0, 16)]
    assert [len(ROWS[some]) for some in grains(10, 4)] == [4, 4, 2]
