"""Rows in files, whole columns of them, and matrices that lie in files by columns."""

import numpy as np
import pytest
import torch

from garnet.errors import GarnetError
from garnet.places.row_files import Both, read, read_columns, write, write_array
from garnet.places.row_store import RowStore, columns_of, grain_of, grains, whole

BOUNDS = (0, 3, 3, 10)
ROWS = torch.arange(50.0).view(10, 5)


def stored(store, **options):
    tall = store.new(5, **options)
    for file, piece in zip(tall.files, torch.split(ROWS, np.diff(BOUNDS).tolist()), strict=True):
        assert write(file, piece) == 5
    return tall


@pytest.mark.parametrize("kind", ["rows", "both", "memory"])
def test_columns_are_read_of_any_rows(scratch, kind):
    store = RowStore(scratch, BOUNDS)
    store.hold((kind == "memory") << 20)
    tall = stored(store, columns=kind == "both")
    assert torch.equal(whole(tall), ROWS)
    assert torch.equal(columns_of(tall, 1, 4), ROWS[:, 1:4])
    assert len(list(scratch.glob("*.bin"))) == {"rows": 3, "both": 6, "memory": 0}[kind]
    del tall
    assert not list(scratch.glob("*.bin"))


def test_a_matrix_that_lies_in_files_by_columns_is_read_by_rows(scratch):
    store = RowStore(scratch, BOUNDS)
    files, tall = store.by_columns([2, 1, 2])
    for file, piece in zip(files, torch.split(ROWS, [2, 1, 2], dim=1), strict=True):
        write_array(file, piece.T.numpy())
    assert tall.shape == (10, 5)
    assert torch.equal(whole(tall), ROWS)
    assert torch.equal(tall.part(2), ROWS[3:])
    assert torch.equal(columns_of(tall, 1, 4), ROWS[:, 1:4])
    torch.testing.assert_close(whole(store.map(lambda x: x + 1, tall)), ROWS + 1)
    with pytest.raises(TypeError, match="by columns"):
        write(tall.files[0], ROWS[:3])
    del tall
    assert not list(scratch.glob("*.bin"))


@pytest.mark.parametrize("left", [0, 8, 44])
def test_a_file_of_columns_that_is_too_short_is_named(scratch, left):
    both = Both(scratch / "rows.bin", scratch / "columns.bin")
    write(both, ROWS[:3])
    assert torch.equal(read_columns(both, 5, 4, 5, 3), ROWS[:3, 4:])
    both.columns.write_bytes(both.columns.read_bytes()[:left])
    with pytest.raises(GarnetError, match=r"columns\.bin: it is truncated"):
        read_columns(both, 5, 4, 5, 3)
    both.columns.unlink()
    with pytest.raises(GarnetError, match=r"columns\.bin: No such file"):
        read_columns(both, 5, 0, 1, 3)
    assert torch.equal(read(both, 5), ROWS[:3])


def test_grains_are_as_large_as_the_matrix_allows_and_cover_it():
    assert [grain_of(rows) for rows in (0, 1, 3000, 200_000, 2_449_029, 10**9)] == [16, 16, 16, 1024, 8192, 8192]
    assert grains(0, 16) == [slice(0, 16)]
    assert [len(ROWS[some]) for some in grains(10, 4)] == [4, 4, 2]
