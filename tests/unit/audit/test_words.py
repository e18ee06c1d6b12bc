import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from garnet import as_graph
from garnet.audit import audit
from garnet.audit.file import load_audit, save_audit
from garnet.audit.words import SENTENCES, WORDINGS
from garnet.datasets import block_model, class_features, random_split
from garnet.graph.edges import contains

NOTHING = "nothing speaks against it"
YET = " (not enough to doubt it)"


@pytest.fixture(scope="module")
def poisoned():
    clean = block_model(500, classes=10, mean_degree=12, homophily=0.97, seed=3)
    rng = np.random.default_rng(0)
    first, second = rng.integers(500, size=(2, 400))
    apart = clean.labels[first] != clean.labels[second]
    new = np.sort(np.stack([first[apart], second[apart]])[:, :150], axis=0)
    features = class_features(clean.labels, dim=12, signal=3.0, seed=1)
    graph = as_graph(clean.with_edges(np.concatenate([clean.edges, new], axis=1)), features=features)
    return as_graph(graph, labels=clean.labels), ~contains(clean.edges, graph.edges, 500)


@pytest.fixture(scope="module")
def found(poisoned):
    return audit(poisoned[0])


def test_each_edge_has_a_reason_and_every_word_of_it_is_explained(found):
    assert found.reason.shape == found.suspicion.shape
    for text in set(found.reason.tolist()):
        said = text.removesuffix(YET).split("; ")
        assert len(said) <= 3
        assert len(set(said)) == len(said)
        assert set(said) <= WORDINGS.keys() | SENTENCES.keys()


def test_what_is_doubted_has_something_against_it_and_what_is_not_says_that_it_is_not(found):
    for text, doubted in zip(found.reason.tolist(), found.doubted.tolist(), strict=True):
        assert (text == NOTHING or text.endswith(YET)) == (not doubted)


def test_the_reference_explains_every_word():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "audit.md").read_text()
    assert not [text for text in WORDINGS.keys() | SENTENCES.keys() if f"| {text.strip('()')} |" not in page]


def test_words_are_what_the_columns_say(found):
    words, columns = found.reason.tolist(), found.reasons
    usual = {name: np.median(column) for name, column in columns.items() if name != "because"}
    seen = set()
    for edge, text in enumerate(words):
        if "no shared partners" in text:
            assert columns["shared_neighbors"][edge] == 0
        if "few shared partners" in text:
            assert columns["shared_neighbors"][edge] > 0
        if "profiles differ" in text:
            assert columns["feature_similarity"][edge] <= usual["feature_similarity"]
        if "far apart in the graph" in text:
            assert columns["gradient"][edge] >= usual["gradient"]
        if "unlike each other" in text:
            assert columns["neighborhood_similarity"][edge] <= usual["neighborhood_similarity"]
        seen |= {one for one in WORDINGS if one in text}
    assert {"no shared partners", "profiles differ", "far apart in the graph"} <= seen


def test_the_strongest_reason_comes_first(found):
    first = {"feature_similarity": "profiles differ", "gradient": "far apart in the graph"}
    for text, name in zip(found.reason.tolist(), found.reasons["because"].tolist(), strict=True):
        if name in first and text != NOTHING:
            assert text.startswith(first[name])


def test_made_up_edges_have_more_against_them(poisoned, found):
    false = poisoned[1]
    clear = found.reason == NOTHING
    assert clear[false].mean() < 0.1
    assert clear[~false].mean() > 0.3


def test_an_audit_that_was_saved_has_the_same_words(found, tmp_path):
    save_audit(found, tmp_path / "audit.npz")
    back = load_audit(tmp_path / "audit.npz")
    assert back.reason.tolist() == found.reason.tolist()
    assert back.labels == found.labels
    assert back.summary() == found.summary()
    assert [one.members.tolist() for one in back.groups()] == [one.members.tolist() for one in found.groups()]


def test_an_audit_of_an_earlier_version_is_worded_by_its_strongest_reason(found, tmp_path):
    save_audit(replace(found, against=None), tmp_path / "audit.npz")
    back = load_audit(tmp_path / "audit.npz")
    assert len(set(back.reason.tolist())) > 1
    for text, doubted in zip(back.reason.tolist(), back.doubted.tolist(), strict=True):
        assert text.removesuffix(YET) in WORDINGS
        assert text.endswith(YET) == (not doubted)


def test_tables_have_reasons_groups_and_scores(found, tmp_path):
    found.save(tmp_path / "edges.csv")
    found.save(tmp_path / "nodes.csv", nodes=True)
    with (tmp_path / "edges.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["reason"] for row in rows] == found.reason[found.order].tolist()
    assert {"because", "group"} <= rows[0].keys()
    with (tmp_path / "nodes.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            mine = (found.edges == int(row["node"])).any(axis=0)
            assert float(row["score"]) == pytest.approx(found.suspicion[mine].sum(), rel=1e-5)


def test_parquet_holds_the_reasons(found, tmp_path):
    read = pytest.importorskip("pyarrow.parquet").read_table
    found.save(tmp_path / "edges.parquet")
    assert read(tmp_path / "edges.parquet").to_pydict()["reason"] == found.reason[found.order].tolist()


def test_a_data_frame_holds_what_the_table_does(found):
    pandas = pytest.importorskip("pandas")
    assert isinstance(found.to_pandas(), pandas.DataFrame)
    assert found.to_pandas()["reason"].tolist() == found.reason[found.order].tolist()
    assert found.to_pandas(nodes=True)["stability"].is_monotonic_increasing


def test_without_pandas_a_data_frame_is_refused_with_the_cure(found, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install 'pandas'"):
        found.to_pandas()


def test_labels_are_used_where_there_is_a_split_and_it_is_said(poisoned):
    graph, _ = poisoned
    split = random_split(graph.labels, train=0.2, val=0.1, seed=0)
    seen = audit(as_graph(graph, split=split))
    assert seen.weights["same_class"] > 0
    assert f"{len(split.train)} training nodes" in seen.labels
    assert any("probably of two classes" in text for text in set(seen.reason.tolist()))
    for changed in ({"labels": None}, {"features": None, "split": split}, {"labels": np.full(500, -1)}, {}):
        blind = audit(replace(graph, **changed))
        assert "same_class" not in blind.weights
        assert "not used" in blind.labels


def test_the_command_draws_a_split_and_says_whether_labels_count(poisoned, tmp_path, command):
    poisoned[0].save(tmp_path / "graph.npz")
    status, told, _ = command("audit", tmp_path / "graph.npz", "--top", 0)
    assert (status, "Labels were not used" in told, "--split 0.1,0.1" in told) == (0, True, True)
    status, told, _ = command("audit", tmp_path / "graph.npz", "--split", "0.2,0.1", "--top", 2)
    assert status == 0
    assert re.search(r"Labels of 1\d\d training nodes were used", told)
    status, _, said = command("audit", tmp_path / "graph.npz", "--split", "most")
    assert (status, "'split'" in said) == (1, True)
    block_model(60, seed=0).save(tmp_path / "bare.csv")
    status, _, said = command("audit", tmp_path / "bare.csv", "--split", "0.1,0.1")
    assert (status, "labels" in said) == (1, True)
    assert [line.split()[0] for line in said.strip().splitlines()] == ["read", "error:"]


def test_the_counts_carry_their_caveat(poisoned, found, tmp_path, command):
    poisoned[0].save(tmp_path / "graph.npz")
    assert "estimates" in found.caveat
    assert found.summary()["caveat"] == found.caveat
    _, told, _ = command("audit", tmp_path / "graph.npz", "--top", 0, "--report", tmp_path / "page.html")
    assert found.caveat in " ".join(told.split())
    page = (tmp_path / "page.html").read_text()
    assert found.caveat in page
    assert all(meaning.split("'")[0] in page for meaning in WORDINGS.values())
