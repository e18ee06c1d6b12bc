"""Records and studies in which anything may be anything: one sentence each, and never more than that."""

import json
import os
import resource
import subprocess
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import pytest

from garnet.bench.cell import Cell, key_of
from garnet.bench.record import Record, append_record, latest, read_records
from garnet.bench.study import load_study
from garnet.bench.table import as_markdown, make_tables
from garnet.errors import GarnetError, ParameterError
from garnet.report.page import write_report
from garnet.report.study import study_sections

RESULTS = Path(__file__).resolve().parents[2] / "results"
SAMPLES = {
    "sweep": ("ablation-k", 0),
    "own attack": ("our-attacks", -1),
    "homophily": ("table-11", -1),
    "recovery": ("table-12", -1),
    "rank": ("figure-1", -1),
}
HOSTILE = [
    None, True, -1, 0.5, 10**40, float("inf"), float("nan"), 1e308, "", "x" * 10**6, "[red]", "[/]", "\ud800",
    "\x1b]0;x\x07", "2020-01-01", [], {}, [[]], [None, "a"], {"a": {"b": [1]}},
]  # fmt: skip


def sample(name):
    file, line = SAMPLES[name]
    lines = (RESULTS / f"{file}.jsonl").read_text().splitlines()
    return json.loads(lines[line]), [json.loads(lines[number]) for number in (0, 1)]


def failed(name="sweep"):
    record, _ = sample(name)
    return record | {"status": "failed", "reason": "it was too large", "values": {}, "mean": None, "sd": None}


def places(value, at=()):
    """The path of every field, however deep; of a list only its ends."""
    if at:
        yield at
    if isinstance(value, dict):
        for name, part in value.items():
            yield from places(part, (*at, name))
    elif isinstance(value, list) and value:
        for number in sorted({0, len(value) - 1}):
            yield from places(value[number], (*at, number))


def with_value(record, at, value):
    """The record with another value at a path and, if that is in its cell, with the key that then belongs to it."""
    changed = deepcopy(record)
    holder = changed
    for step in at[:-1]:
        holder = holder[step]
    holder[at[-1]] = value
    if at[0] == "cell":
        changed["key"] = key_of(changed["cell"])
    return changed


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def is_safe(text):
    return not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text if letter != "\n")


@pytest.mark.parametrize("name", [*SAMPLES, "failed"])
def test_any_value_in_any_field_is_shown_or_named(tmp_path, name):
    record, others = (failed(), sample("sweep")[1]) if name == "failed" else sample(name)
    path, everything = tmp_path / "r.jsonl", []
    for at in places(record):
        write_lines(path, [*others, *(with_value(record, at, value) for value in HOSTILE)])
        records, damages = read_records(path)
        assert {one["key"] for one in others} <= latest(records).keys()
        assert all(damage.line > 2 for damage in damages)
        tables = make_tables("t", latest(records).values(), note="n")
        assert all(as_markdown(table) for table in tables)
        assert study_sections(records, "t")
        everything += records
    write_report(everything, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def shows_safely(command, path, page):
    """Run what shows a file of records; gives what `bench show` printed, of which all must be fit for a terminal."""
    printed = []
    for arguments in (
        ("bench", "show", path),
        ("bench", "show", "--markdown", path),
        ("report", path, "-o", page),
    ):
        status, out, err = command(*arguments)
        assert status in (0, 1), arguments
        assert is_safe(out + err), arguments
        printed += [out, err]
    return "".join(printed)


@pytest.mark.parametrize("at", [("cell", "graph"), ("reason",), ("machine", "processor"), ("cell", "attack"), ("key",)])
def test_commands_print_any_value_so_that_no_terminal_minds(tmp_path, command, at):
    path = tmp_path / "[red]r\x1b[2J.jsonl"
    write_lines(path, [*sample("sweep")[1], *(with_value(failed(), at, value) for value in HOSTILE)])
    printed = shows_safely(command, path, tmp_path / "page.html")
    assert "\\x1b[2J.jsonl, line " in printed
    assert "; left out" in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SAMPLES, "failed"])
def test_commands_print_any_value_of_any_field(tmp_path, command, name):
    record, others = (failed(), sample("sweep")[1]) if name == "failed" else sample(name)
    path = tmp_path / "r.jsonl"
    for at in places(record):
        write_lines(path, [*others, *(with_value(record, at, value) for value in HOSTILE)])
        shows_safely(command, path, tmp_path / "page.html")


def test_what_is_wrong_is_said_with_file_line_and_field(tmp_path, command):
    path = tmp_path / "r.jsonl"
    good = sample("sweep")[1]
    write_lines(path, [good[0], with_value(good[1], ("cell", "seeds"), "many"), good[1]])
    status, out, err = command("bench", "show", path)
    assert status == 0
    assert f"{path}, line 2: its field 'cell.seeds' must be a list" in err
    assert err.strip().endswith("not 'many'; left out")
    assert all(f"k = {record['cell']['parameters']['k']}" in out for record in good)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"key": "' + b"x" * (2 << 20) + b"\n", "line 1: it is longer than 1,024 KiB; left out"),
        (b"\0" * (65 << 20), "it is larger than 65,536 KiB"),
        (b"\n" * 200_000, "more than 100,000 lines"),
        (bytes(range(256)) * 40, "21 more lines are no records"),
        (b"x\n" * 40, "20 more lines are no records"),
    ],
)
def test_a_file_that_is_huge_or_no_text_is_one_sentence(tmp_path, command, content, said):
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    status, _, err = command("bench", "show", path)
    assert status in (0, 1)
    assert said in err
    assert len(err) < 5000


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_what_never_ends_is_no_file_of_records(tmp_path, command, kind):
    path = Path("/dev/full")
    if kind == "pipe":
        path = tmp_path / "pipe.jsonl"
        os.mkfifo(path)
    (tmp_path / "s.toml").write_text(STUDY)
    for arguments in (("show", path), ("run", tmp_path / "s.toml", "-o", path)):
        status, out, err = command("bench", *arguments)
        assert (status, out) == (1, "")
        assert "is not a regular file" in err


def test_records_that_would_make_an_endless_table_are_one_sentence(tmp_path, command):
    record, path = sample("sweep")[0], tmp_path / "r.jsonl"
    apart = ({"graph": f"g{number}", "defense": f"d{number}"} for number in range(400))
    write_lines(path, [with_value(record, ("cell",), record["cell"] | facts) for facts in apart])
    status, _, err = command("bench", "show", path)
    assert (status, "400 rows and 400 columns is too large" in err) == (1, True)


STUDY = """
title = "t"
seeds = 1
[[cells]]
graph = "cora"
defense = "none"
backbone = "gcn"
[cells.training]
epochs = 1
"""
SWEEP = """
title = "t"
note = "n"
record = "r"
seeds = 2
[[cells]]
graph = "cora"
attack = "metattack"
budget = 0.2
defense = "garnet"
backbone = "gcn"
model = "paper"
split = "random"
measure = "accuracy"
parameters.k = 1
training.lr = 0.1
"""
TOML = [
    "true", "-1", "0.5", "1e30", "inf", "-inf", "nan", "1" + "0" * 400, "0x" + "f" * 5000, "1" * 5000, "''", "'[red]'",
    f"'{'x' * 200_000}'", r'"\u001b]0;x\u0007"', r'"\u0000"', "'../..'", "2020-01-01", "07:32:00", "[]", "{}", "[[]]",
    "[[1], [2]]", "[{}]", "[inf]", "[nan, 1]", "[2020-01-01]", "{a = {b = [1]}}", "['cora', 3, 1.5]", "[" * 5000,
    f"'{'a-' * 50_000}.npz'", "'cora-a-" + "9" * 200 + ".npz'", "[" + "1," * 20_000 + "]", "{" + "a." * 400 + "a = 1}",
]  # fmt: skip


@pytest.mark.parametrize("value", TOML, ids=lambda value: value[:20])
def test_any_value_in_any_field_of_a_study_is_taken_or_refused(tmp_path, value):
    path = tmp_path / "s.toml"
    for line in SWEEP.strip().splitlines():
        if "=" in line:
            path.write_text(SWEEP.replace(line, f"{line.partition('=')[0]}= {value}"))
            cells, said = taken_or_refused(path)
            # What a study takes, a record of it must be able to say.
            assert all(json.dumps(cell.facts(), allow_nan=False) for cell in cells)
            assert cells or ("s.toml" in said and "\n" not in said and len(said) < 1000)


def taken_or_refused(path):
    try:
        return load_study(path).cells, ""
    except ParameterError as error:
        return (), str(error)


def test_a_study_of_more_cells_than_anybody_could_run_is_one_sentence(tmp_path):
    path = tmp_path / "s.toml"
    swept = "".join(f"{name} = {list(range(900))}\n" for name in ("k", "rank", "feature_rank", "gamma", "tau"))
    path.write_text(SWEEP.replace("parameters.k = 1", "").replace("training.lr = 0.1", f"[cells.parameters]\n{swept}"))
    with pytest.raises(ParameterError, match="more than 10,000 cells"):
        load_study(path)
    path.write_text("title = 't'\n" + "#" * (1 << 20))
    with pytest.raises(ParameterError, match="larger than 256 KiB"):
        load_study(path)
    path.write_text("title = 't'\n" + "a." * 100_000 + "a = 1")
    with pytest.raises(ParameterError, match="more than 500 dots"):
        load_study(path)


def test_a_title_cannot_drive_the_terminal(tmp_path, command):
    path = tmp_path / "s.toml"
    title = r'"[/][red]\u001b]0;x\u0007\u009b2J:bell:"'
    path.write_text(STUDY.replace('"t"', f'{title}\nnote = "one\\ntwo"'))
    status, out, err = command("bench", "show", path)
    assert (status, is_safe(out + err)) == (0, True)
    assert r"[/][red]\x1b]0;x\x07\x9b2J:bell:" in out
    assert "one\ntwo\n" in out


@pytest.mark.parametrize("name", ["[bold]a[/", "a\x1b[2Jb", "\udcff", "line\nbreak", "b]", ":bell:"])
def test_a_path_of_any_letters_is_printed_safely(tmp_path, command, name):
    for arguments in (
        ("info", tmp_path / name),
        ("bench", "show", tmp_path / f"{name}.jsonl"),
        ("report", tmp_path / f"{name}.jsonl", "-o", tmp_path / "page.html"),
        ("purify", tmp_path / name, "-o", tmp_path / "clean.npz"),
    ):
        status, _, err = command(*arguments)
        assert status == 1
        assert err.startswith("error: ")
        assert len(err.splitlines()) == 1
        assert is_safe(err)


def test_json_has_no_letters_that_a_terminal_minds(tmp_path, command):
    path = tmp_path / "g\udcff\x9b2J.csv"
    path.write_text("source,target\n0,1\n1,2\n2,0\n2,3\n3,4\n4,5\n5,3\n0,3\n1,4\n")
    status, out, err = command("audit", path, "--json")
    assert (status, is_safe(out + err)) == (0, True)
    assert json.loads(out)["input"] == str(path)


@contextmanager
def room_for(size):
    """No file may grow beyond this size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def a_record(**changes):
    cell = Cell(graph="cora")
    return Record(**{"key": cell.key, "cell": cell.facts(), "status": "failed", "reason": "why"} | changes)


@pytest.mark.parametrize("end", ["", "half a line"])
@pytest.mark.parametrize("room", [0, 10])
def test_a_record_that_meets_a_limit_leaves_the_file_as_it_was(tmp_path, room, end):
    path = tmp_path / "r.jsonl"
    append_record(path, a_record())
    path.write_text(path.read_text() + end)
    before = path.read_bytes()
    with room_for(len(before) + room), pytest.raises(GarnetError, match=r"Cannot write .*r.jsonl: file too large."):
        append_record(path, a_record())
    assert path.read_bytes() == before
    append_record(path, a_record())
    assert len(read_records(path)[0]) == 2


def test_a_full_disk_is_one_sentence():
    with pytest.raises(GarnetError, match=r"Cannot write /dev/full: no space left on device."):
        append_record("/dev/full", a_record())


def test_a_limit_does_not_end_a_process_that_would_mind_its_signal(tmp_path):
    path = tmp_path / "r.jsonl"
    append_record(path, a_record())
    before = path.read_bytes()
    code = """
import resource, signal, sys
from garnet.bench.record import append_record, read_records
from garnet.errors import GarnetError
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
(record,), _ = read_records(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))
try:
    append_record(sys.argv[1], record)
except GarnetError:
    sys.exit(3 if signal.getsignal(signal.SIGXFSZ) is signal.SIG_DFL and not signal.pthread_sigmask(0, ()) else 4)
"""
    ran = subprocess.run([sys.executable, "-c", code, path, str(len(before))], check=False, timeout=120)
    assert ran.returncode == 3
    assert path.read_bytes() == before


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_run_that_meets_a_limit_is_one_sentence_and_goes_on_without_it(tmp_path, command, jobs):
    study, path = tmp_path / "s.toml", tmp_path / "r.jsonl"
    study.write_text(STUDY)
    with room_for(1000):
        status, out, err = command("bench", "run", study, "-o", path, "--jobs", jobs)
    assert (status, out) == (1, "")
    assert err == f"error: Cannot write {path}: file too large.\n"
    assert path.read_bytes() == b""
    assert command("bench", "run", study, "-o", path, "--jobs", jobs)[0] == 0
    assert len(read_records(path)[0]) == 1


def test_processes_that_cannot_begin_are_one_sentence(tmp_path, command):
    (tmp_path / "s.toml").write_text(STUDY)
    with room_for(0):
        status, out, err = command("bench", "run", tmp_path / "s.toml", "-o", tmp_path / "r.jsonl", "--jobs", 2)
    assert (status, out) == (1, "")
    assert "error: Cannot start 2 processes: file too large." in err


@pytest.mark.parametrize("content", [b"My thesis, of ten years.\n", b'{"mine": 1}\n', bytes(range(256)), b"\n\nx"])
def test_records_are_not_added_to_a_file_of_somebody_elses(tmp_path, command, content):
    (tmp_path / "s.toml").write_text(STUDY)
    path = tmp_path / "mine.txt"
    path.write_bytes(content)
    status, out, err = command("bench", "run", tmp_path / "s.toml", "-o", path)
    assert (status, out) == (1, "")
    assert f"Cannot add records to {path}: it has something else in it" in err
    assert path.read_bytes() == content
    status, _, err = command("bench", "run", tmp_path / "s.toml", "-o", tmp_path / "s.toml")
    assert (status, (tmp_path / "s.toml").read_text()) == (1, STUDY)


@pytest.mark.parametrize("length", [300, 5000])
def test_a_path_that_is_too_long_is_one_sentence(tmp_path, command, length):
    (tmp_path / "s.toml").write_text(STUDY)
    name = tmp_path / ("x" * length)
    for arguments in (
        ("show", f"{name}.jsonl"),
        ("show", f"{name}.toml"),
        ("run", f"{name}.toml"),
        ("run", tmp_path / "s.toml", "-o", name),
        ("run", tmp_path / "s.toml", "-o", name / "r.jsonl"),
    ):
        status, out, err = command("bench", *arguments)
        assert (status, out, len(err.splitlines())) == (1, "", 1)
        assert err.startswith("error: ")
    status, _, err = command("report", RESULTS / "table-11.jsonl", "-o", f"{name}.html")
    assert (status, err.startswith("error: Cannot write")) == (1, True)


def test_half_a_record_is_our_own_and_the_run_goes_on(tmp_path, command):
    (tmp_path / "s.toml").write_text(STUDY)
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(sample("sweep")[0])[:300])
    status, _, _ = command("bench", "run", tmp_path / "s.toml", "-o", path)
    assert (status, len(read_records(path)[0])) == (0, 1)


def test_runs_that_write_at_once_do_not_mix_their_lines(tmp_path):
    path = tmp_path / "r.jsonl"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: append_record(path, a_record(reason="x" * 9000)), range(60)))
    records, damages = read_records(path)
    assert (len(records), damages) == (60, ())


def test_a_reason_of_any_letters_is_written_and_read_again(tmp_path):
    path, reason = tmp_path / "r.jsonl", "\ud800 \x1b \n “why”"
    append_record(path, a_record(reason=reason))
    (record,), damages = read_records(path)
    assert (record.reason, damages) == (reason, ())
