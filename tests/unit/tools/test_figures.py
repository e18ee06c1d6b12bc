"""Figures are drawn from committed records: what they show is what the records have, and the same each time."""

import fnmatch
import json
import math
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from garnet.bench.shipped import shipped
from garnet.errors import GarnetError, MissingExtra, ParameterError
from tools.figures import FIGURES, draw, measured, write
from tools.figures.neighbourhoods import View, places

mpl = pytest.importorskip("matplotlib", reason="figures are drawn with matplotlib; pip install 'pygarnet[figures]'")

ROOT = Path(__file__).resolve().parents[3]
RECORDS = ROOT / "results"
MEASURED = {name: FIGURES[name] for name in measured(RECORDS)}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """All figures and their page."""
    folder = tmp_path_factory.mktemp("figures") / "here"
    write(folder, records=RECORDS)
    return folder


@pytest.fixture
def records(tmp_path):
    """A copy of the records, to be damaged."""
    return Path(shutil.copytree(RECORDS, tmp_path / "records"))


def cells(name):
    """The cells of a file and their mean accuracies, read without the library; later lines replace earlier ones."""
    lines = [json.loads(line) for line in (RECORDS / name).read_text().splitlines()]
    return list({line["key"]: line for line in lines}.values())


def line_labelled(axes, label):
    """The points of a line, or of the line of an error bar."""
    for container in axes.containers:
        if container.get_label() == label:
            return container.lines[0].get_xydata().tolist()
    return next(line.get_xydata().tolist() for line in axes.lines if line.get_label() == label)


def words(figure):
    return [text.get_text() for text in figure.texts]


def test_every_figure_is_there_as_svg_and_png_and_on_the_page(drawn):
    expected = {f"{name}.{kind}" for name in MEASURED for kind in ("svg", "png")} | {"index.md"}
    assert {path.name for path in drawn.iterdir()} == expected
    page = (drawn / "index.md").read_text()
    for name, figure in MEASURED.items():
        vector = ElementTree.parse(drawn / f"{name}.svg").getroot()
        pixels = (drawn / f"{name}.png").read_bytes()
        assert vector.tag.endswith("svg")
        assert pixels.startswith(b"\x89PNG")
        # Fine enough to be read: 130 pixels an inch, of 72 points.
        inches = float(vector.attrib["width"].removesuffix("pt")) / 72
        assert int.from_bytes(pixels[16:20], "big") == pytest.approx(130 * inches, abs=1)
        assert f"![{figure.title}]({name}.svg)" in page
        assert figure.see in page
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert {Path(link).name for link in links} >= expected - {"index.md"} | {"spectra.json", "ablation-k.jsonl"}
    assert all((drawn / link).is_file() for link in links)


def test_a_figure_is_dark_where_the_screen_is(drawn):
    for path in drawn.glob("*.svg"):
        style = "".join(one.text or "" for one in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}style"))
        dark = style.partition("(prefers-color-scheme: dark)")[2]
        for colour in set(re.findall(r"(?:fill|stroke): #(?:ffffff|000000|dddddd)", path.read_text())):
            assert f'"{colour}"' in dark, path.name


def test_the_same_records_give_the_same_bytes(drawn, tmp_path):
    # One of each kind: lines, error bars, bars with hatches, a graph.
    again = write(tmp_path, records=RECORDS, only=["rank", "refinement", "products", "neighbourhoods"])
    assert len(again) == 8
    for path in again:
        assert path.read_bytes() == (drawn / path.name).read_bytes(), path.name


def test_the_command_draws_what_is_named_and_says_where(tmp_path):
    line = [sys.executable, "-m", "tools.figures", "growth", "k", "-o", tmp_path / "new", "--records", RECORDS]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"growth.svg", "growth.png", "k.svg", "k.png"}
    assert [Path(name).name for name in done.stdout.split()] == ["growth.svg", "k.svg"]


def test_records_and_commands_of_the_figures_exist():
    for figure in FIGURES.values():
        for record in figure.records:
            if record.endswith(".json"):
                assert json.loads((RECORDS / record).read_text())["command"] == figure.command
        words = figure.command.replace(";", "").split()
        for before, word in pairwise(words):
            if word.startswith("benchmarks/"):
                assert (ROOT / word).is_file(), word
            if before == "run":
                assert fnmatch.filter(shipped(), word.replace("$g", "*")), word


@pytest.mark.parametrize("name", ["k", "gamma", "tsvd-rank"])
def test_a_sweep_shows_the_means_of_its_record(name):
    parameter, file, label, wanted = {
        "k": ("k", "ablation-k.jsonl", "GPRGNN, 30 % doubted", {"defense": "garnet"}),
        "gamma": ("gamma", "ablation-gamma.jsonl", "GPRGNN, 30 % doubted", {"defense": "garnet"}),
        "tsvd-rank": ("rank", "figure-1-tsvd.jsonl", "Metattack 20 %", {"budget": 0.2}),
    }[name]
    expected = sorted(
        [line["cell"]["parameters"][parameter], line["mean"]]
        for line in cells(file)
        if wanted.items() <= line["cell"].items()
    )
    axes = draw(name, RECORDS).axes[-1]
    assert len(expected) > 3
    assert line_labelled(axes, label) == expected


def test_accuracy_against_budget_has_ours_and_the_papers():
    axes = draw("nettack-budget", RECORDS).axes[0]
    assert axes.get_title(loc="left") == "Cora, GCN"
    wanted = {"graph": "cora", "attack": "nettack", "backbone": "gcn", "defense": "garnet"}
    ours = sorted(
        [line["cell"]["budget"], line["mean"]]
        for line in cells("citations.jsonl")
        if wanted.items() <= line["cell"].items()
    )
    assert line_labelled(axes, "GARNET, default") == ours
    # Table 7 of the paper, GCN without defence on Cora-0 to Cora-5.
    papers = [80.96, 70.06, 68.6, 65.04, 61.69, 55.66]
    assert line_labelled(axes, "the paper, no defence") == [[budget, mean] for budget, mean in enumerate(papers)]


def test_ranks_and_seconds_are_those_of_the_record():
    spectra = json.loads((RECORDS / "spectra.json").read_text())["figures"]
    whole = draw("rank", RECORDS).axes[0]
    assert line_labelled(whole, "as attacked") == [[100 * row["budget"], row["none"]] for row in spectra["ranks"]]
    assert whole.get_ylim()[0] == 0
    growth = json.loads((RECORDS / "growth.json").read_text())["figures"]["growth"]
    assert line_labelled(draw("growth", RECORDS).axes[0], "embed") == [[row["nodes"], row["embed"]] for row in growth]


def test_neighbours_alone_are_shown_where_there_are_some():
    """The default adds none to Chameleon; without the edges of the input, the graph would have none at all."""
    axes = draw("refinement", RECORDS).axes[1]
    labels = [text.get_text() for text in axes.get_yticklabels()]
    wanted = {"graph": "chameleon", "budget": 0.2, "parameters": {"k": 15, "support": None}}
    (alone,) = [line["mean"] for line in cells("ablation-refinement.jsonl") if wanted.items() <= line["cell"].items()]
    shown = line_labelled(axes, "Metattack 20 %")
    assert len(shown) == len(labels)
    assert shown[labels.index("… these neighbours alone")][0] == alone
    features_alone = min(
        line["mean"]
        for line in cells("ablation-refinement.jsonl")
        if line["cell"]["graph"] == "chameleon" and line["cell"]["parameters"] == {"support": None}
    )
    assert min(mean for mean, _ in shown) > features_alone


def test_an_attack_that_comes_into_the_record_of_the_audit_is_drawn(records):
    path = records / "audit.json"
    record = json.loads(path.read_text())
    record["figures"]["cora by hand, a few edges"] = record["figures"]["cora metattack 0.2"]
    path.write_text(json.dumps(record))
    figure = draw("audit", records)
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == [name for name, entry in record["figures"].items() if "scores" in entry]
    assert len(line_labelled(figure.axes[0], "the audit")) == len(names)
    assert next(text.get_text() for text in figure.legends[0].get_texts()) == "the audit"


def test_the_caption_has_the_record_and_the_command_that_made_it(records):
    assert any("ablation-k.jsonl" in text and "bench run ablation-k" in text for text in words(draw("k", RECORDS)))
    path = records / "growth.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"command": "python benchmarks/growth.py --sizes 10"}))
    assert any("growth.json" in text and "--sizes 10" in text for text in words(draw("growth", records)))


def test_a_figure_that_was_not_measured_is_left_out_unless_none_was(records, tmp_path):
    for path in records.iterdir():
        if path.name != "products.json":
            path.unlink()
    written = write(tmp_path / "out", records=records)
    assert {path.stem for path in written} == {"index", "products"}
    assert "growth.svg" not in (tmp_path / "out" / "index.md").read_text()
    with pytest.raises(GarnetError, match="There is no record"):
        write(tmp_path / "none", records=tmp_path / "nowhere")


@pytest.mark.parametrize("name", FIGURES)
def test_a_missing_record_is_told_with_its_cure(name, tmp_path):
    with pytest.raises(GarnetError) as error:
        write(tmp_path / "out", records=tmp_path, only=[name])
    figure = FIGURES[name]
    assert str(error.value) == f"There is no record {tmp_path / figure.records[0]}. To make it: {figure.command}"
    assert not (tmp_path / "out").exists()


DAMAGES = {
    "half a line": ("k", "ablation-k.jsonl", lambda text: text[:-40], "damaged"),
    "a line of another kind": ("k", "ablation-k.jsonl", lambda text: text + "[]\n", "damaged"),
    "no lines": ("gamma", "ablation-gamma.jsonl", lambda text: "", "no cell with"),
    "cells of another study": (
        "tsvd-rank", "figure-1-tsvd.jsonl", lambda text: (RECORDS / "ablation-k.jsonl").read_text(), "no cell with"
    ),
    "half a file": ("growth", "growth.json", lambda text: text[: len(text) // 2], "it is not JSON"),
    "not a number": ("growth", "growth.json", lambda text: text.replace("10000,", "NaN,"), "it is not JSON"),
    "no figures": ("growth", "growth.json", lambda text: '{"command": "x"}', "it has no 'figures'"),
    "a list": ("growth", "growth.json", lambda text: "[]", "it has no 'figures'"),
    "a stage less": ("products", "products.json", lambda text: text.replace('"embed"', '"embedding"'), "lacks 'embed'"),
    "a word for a number": ("rank", "spectra.json", lambda text: text.replace(": 2193", ': "many"'), "wrong kind"),
    "a node out of reach": (
        "neighbourhoods", "neighbourhoods.json", lambda text: text.replace('"edges": [', '"edges": [], "x": ['),
        "wrong kind",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_told_in_one_sentence(damage, records, tmp_path):
    name, file, harm, said = DAMAGES[damage]
    path = records / file
    path.write_text(harm(path.read_text()))
    with pytest.raises(GarnetError) as error:
        write(tmp_path / "out", records=records, only=[name])
    message = str(error.value)
    assert str(path) in message
    assert said in message
    assert message.endswith(f"To make it: {FIGURES[name].command}")
    assert "\n" not in message
    assert not (tmp_path / "out").exists()


def test_a_name_that_is_almost_right_is_guessed_at(tmp_path):
    with pytest.raises(ParameterError, match=r"no figure named 'ranks'\. Did you mean rank"):
        write(tmp_path, records=RECORDS, only=["ranks"])


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GarnetError, match="it is a file, and the result is a folder"):
        write(tmp_path / "file", records=RECORDS, only=["growth"])


def test_without_matplotlib_the_cure_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'pygarnet\[figures\]'"):
        draw("growth", RECORDS)


def test_the_settings_of_the_caller_neither_change_nor_matter(drawn, tmp_path):
    with mpl.rc_context({"font.size": 31.0, "svg.hashsalt": "other", "lines.linewidth": 9.0}):
        write(tmp_path, records=RECORDS, only=["growth"])
        assert mpl.rcParams["font.size"] == 31.0
    assert (tmp_path / "growth.svg").read_bytes() == (drawn / "growth.svg").read_bytes()


@st.composite
def views(draw_from):
    """A node with neighbours, and nodes further out that each have at least one of these as neighbour."""
    near = list(range(1, 1 + draw_from(st.integers(1, 8))))
    far = list(range(100, 100 + draw_from(st.integers(0, 20))))
    edges = [(0, node, "clean") for node in near]
    for node in far:
        for other in draw_from(st.sets(st.sampled_from(near), min_size=1)):
            edges.append((other, node, "new"))
    hops = {0: 0} | dict.fromkeys(near, 1) | dict.fromkeys(far, 2)
    alike = {node: draw_from(st.booleans()) for node in hops}
    return View(0, hops, alike, tuple(edges))


@given(views())
def test_each_node_has_a_place_of_its_own_the_further_out_the_more_edges_away(view):
    where = places(view)
    assert where.keys() == view.hops.keys()
    radius = {node: math.hypot(*place) for node, place in where.items()}
    for first in where:
        for second in where:
            if view.hops[first] < view.hops[second]:
                assert radius[first] < radius[second]
            if first < second:
                assert math.dist(where[first], where[second]) > 1e-3


@given(views())
def test_the_neighbours_of_its_label_lie_side_by_side(view):
    where = places(view)
    around = sorted(view.around, key=lambda node: math.atan2(where[node][1], where[node][0]) % (2 * math.pi))
    changes = sum(view.alike[a] != view.alike[b] for a, b in zip(around, around[1:] + around[:1], strict=True))
    assert changes <= 2
