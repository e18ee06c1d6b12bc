import json
import os

import pytest

from garnet.bench.cell import Cell
from garnet.bench.record import Record, append_record, latest, read_records, spread
from garnet.errors import GarnetError


def record(graph="cora", **changes):
    cell = Cell(graph=graph, backbone="gcn", seeds=(0, 1))
    values = {"key": cell.key, "cell": cell.facts(), "status": "done", "mean": 80.0, "seeds": cell.seeds} | changes
    values = {"values": {"accuracy": [79.0, 81.0]}} | values
    return Record(**values)


def test_what_is_appended_is_read(tmp_path):
    path = tmp_path / "r.jsonl"
    for one in (record(), record("pubmed", status="failed", reason="it was “too” large"), record(mean=81.0)):
        append_record(path, one)
    records, damages = read_records(path)
    assert damages == ()
    assert [json.loads(one.line()) for one in records] == [json.loads(line) for line in path.read_text().splitlines()]
    assert records[1].reason == "it was “too” large"
    assert records[0].seeds == (0, 1)
    assert latest(records)[record().key].mean == 81.0


def test_half_a_line_stays_on_a_line_of_its_own(tmp_path):
    path = tmp_path / "r.jsonl"
    append_record(path, record())
    append_record(path, record("pubmed"))
    os.truncate(path, path.stat().st_size - 40)
    append_record(path, record("squirrel"))
    records, damages = read_records(path)
    assert [one.cell["graph"] for one in records] == ["cora", "squirrel"]
    assert [(damage.line, damage.why) for damage in damages] == [(2, "it is not a whole line of JSON")]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"\xff\xfe{", "not a whole line of JSON"),
        (b"[" * 100_000, "not a whole line of JSON"),
        (b"[1]", "not a JSON object"),
        (b"{}", "it lacks 'key'"),
        (record(status="half").line().encode(), "its field 'status' must be one of done, failed, not 'half'"),
        (record(key="0" * 16).line().encode(), "does not belong to its cell"),
        (record(cell={}, key="44136fa355b3678a").line().encode(), "it lacks 'cell.graph'"),
        (record(mean="80").line().encode(), "its field 'mean' must be a number from 0 to 100, not '80'"),
        (record(seeds=("a",)).line().encode(), "its field 'seeds[0]' must be an integer"),
        (record(values={}).line().encode(), "it lacks 'values.accuracy'"),
        (record(values={"accuracy": [None, 80.0]}).line().encode(), "its field 'values.accuracy[0]' must be a number"),
    ],
)
def test_a_damaged_line_is_named_and_the_others_are_read(tmp_path, line, why):
    path = tmp_path / "r.jsonl"
    path.write_bytes(record().line().encode() + b"\n\n" + line + b"\n" + record("pubmed").line().encode())
    records, damages = read_records(path)
    assert len(records) == 2
    assert [damage.line for damage in damages] == [3]
    assert why in damages[0].why


def test_no_file_has_no_records_and_a_folder_is_no_file(tmp_path):
    assert read_records(tmp_path / "none.jsonl") == ((), ())
    with pytest.raises(GarnetError, match="Cannot read the records"):
        read_records(tmp_path)
    with pytest.raises(GarnetError, match="Cannot write"):
        append_record(tmp_path / "none" / "r.jsonl", record())


def test_spread_is_of_a_sample():
    assert spread([1.0, 3.0]) == (2.0, pytest.approx(2**0.5))
    assert spread([1.0]) == (1.0, None)
    assert spread([]) == (None, None)
