"""What a purification gives back is the same wherever it ran."""

import json
import sys
from dataclasses import fields

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from garnet import GARNET, InMemory, OnDisk, Settings, as_graph
from garnet.datasets import block_model, inter_class_edges
from garnet.errors import GarnetError, GraphError, MissingExtra
from garnet.places.to_file import purify_to_file
from garnet.progress import Step
from garnet.purify.result import LedgerBatch

# Of this rank a dense solver finds the eigenvectors in every place, so that all find the same.
METHOD = GARNET(rank=90, k=4, support=0.3)
GRAPH = as_graph(block_model(300, mean_degree=8, seed=1), features=np.random.default_rng(0).random((300, 6)))


def on_disk(parts=3, **options):
    return OnDisk(memory="1GiB", parts=parts, **options)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    output = tmp_path_factory.mktemp("disk") / "out"
    places = {"memory": InMemory(), "held": on_disk(), "tiles": on_disk(output=output, ledger=True)}
    return {name: METHOD.purify(GRAPH, place=place) for name, place in places.items()}


@pytest.fixture(scope="module")
def attacked():
    """Communities with false edges between them, and features that go with the communities."""
    clean = block_model(400, mean_degree=20, homophily=0.95, seed=0)
    edges = np.concatenate([clean.edges, inter_class_edges(clean, clean.num_edges // 5, seed=1)], axis=1)
    features = np.eye(5)[clean.labels] + np.random.default_rng(0).random((400, 5))
    return as_graph(clean.with_edges(edges), features=features)


@pytest.mark.parametrize("options", [{}, {"only_drop": True}, {"k": 0}], ids=str)
@pytest.mark.parametrize("parts", [1, 3])
def test_what_planted_edges_tell_is_the_same_on_disk(attacked, options, parts):
    method = GARNET(rank=110, **options)
    expected, found = (method.purify(attacked, place=place) for place in (InMemory(), on_disk(parts=parts)))
    assert expected.ledger.counts["dropped"] > 0.1 * attacked.num_edges
    assert (expected.ledger.counts["added"] > 0) == (not options)
    np.testing.assert_array_equal(found.graph.edges, expected.graph.edges)
    np.testing.assert_allclose(found.graph.weights, expected.graph.weights, atol=1e-3)
    for ours, theirs in zip(table(found.ledger)[2:], table(expected.ledger)[2:], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for name in ("doubted", "power"):
        assert getattr(found.settings, name) == pytest.approx(getattr(expected.settings, name), rel=1e-3)


def table(ledger):
    """Every edge with its score and what became of it."""
    batches = list(ledger.batches(37))
    assert all(len(batch.scores) <= 37 for batch in batches)
    columns = LedgerBatch(*(np.concatenate(every, axis=-1) for every in zip(*batches, strict=True)))
    order = np.lexsort(columns.edges[::-1])
    return columns.edges[:, order], columns.scores[order], columns.near[order], columns.status[order]


def test_the_ledger_on_disk_is_that_of_the_same_run_in_memory(results):
    for ours, theirs in zip(table(results["tiles"].ledger), table(results["held"].ledger), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_ledger_on_disk_is_that_of_memory(results):
    edges, scores, near, status = table(results["tiles"].ledger)
    others = table(results["memory"].ledger)
    for ours, theirs in zip((edges, near, status), (others[0], *others[2:]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(scores, others[1], atol=1e-5)


@pytest.mark.parametrize("name", ["memory", "held", "tiles"])
def test_a_ledger_answers_the_same_questions_everywhere(results, name):
    result, expected = results[name], results["memory"]
    ledger = result.ledger
    assert ledger.counts == expected.ledger.counts
    assert ledger.base_edges == expected.ledger.base_edges == result.base.shape[1] == len(result.scores)
    for part in ("kept", "dropped", "added"):
        order = np.lexsort(getattr(ledger, part)[::-1])
        np.testing.assert_array_equal(getattr(ledger, part)[:, order], getattr(expected.ledger, part))
        scores = getattr(expected.ledger, f"{part}_scores")
        np.testing.assert_allclose(getattr(ledger, f"{part}_scores")[order], scores, atol=1e-5)
    assert ledger.share_dropped(ledger.dropped) == 1
    assert ledger.share_dropped(ledger.kept) == 0
    statuses = np.concatenate([batch.status for batch in ledger.batches()])
    assert {*statuses} == {"kept", "dropped", "added", "rejected"}
    assert {word: int((statuses == word).sum()) for word in ledger.counts} == ledger.counts


@pytest.mark.parametrize("name", ["memory", "held", "tiles"])
def test_a_ledger_is_written_as_a_table(results, name, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    results[name].ledger.to_parquet(tmp_path / "edges.parquet")
    found = parquet.read_table(tmp_path / "edges.parquet")
    assert found.schema.names == ["source", "target", "status", "score"]
    columns = [column.to_numpy() for column in found.columns]
    order = np.lexsort((columns[1], columns[0]))
    edges, scores, _, status = table(results[name].ledger)
    np.testing.assert_array_equal(np.stack(columns[:2])[:, order], edges)
    np.testing.assert_array_equal(columns[2][order], status)
    np.testing.assert_array_equal(columns[3][order], scores)


def test_without_pyarrow_a_table_is_one_sentence(results, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'pygarnet\[parquet\]'"):
        results["memory"].ledger.to_parquet(tmp_path / "edges.parquet")
    assert not list(tmp_path.iterdir())


def test_a_ledger_that_was_not_kept_has_counts_and_says_so_of_the_rest(results, tmp_path):
    result = METHOD.purify(GRAPH, place=on_disk(output=tmp_path / "out"))
    assert result.ledger.counts == results["tiles"].ledger.counts
    assert result.ledger.base_edges == results["tiles"].ledger.base_edges
    with pytest.raises(GarnetError) as said:
        result.ledger.kept  # noqa: B018
    assert str(said.value) == "What became of single edges was not kept; purify with OnDisk(..., ledger=True)."


def test_a_ledger_is_had_again_by_the_same_call_and_after_a_stop(results, tmp_path):
    def stop(step):
        if (step.stage, step.detail) == ("prune", "write"):
            raise KeyboardInterrupt

    place = on_disk(output=tmp_path / "out", ledger=True)
    with pytest.raises(KeyboardInterrupt):
        METHOD.purify(GRAPH, place=place, progress=stop)
    gone_on, again = METHOD.purify(GRAPH, place=place), METHOD.purify(GRAPH, place=place)
    assert again.done_before
    assert not again.stages
    for result in (gone_on, again):
        for ours, theirs in zip(table(result.ledger), table(results["tiles"].ledger), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    without = METHOD.purify(GRAPH, place=on_disk(output=tmp_path / "out", overwrite=True))
    assert not list((tmp_path / "out").glob("ledger-*"))
    assert without.graph.to_graph() == results["held"].graph


def test_results_say_the_same_of_themselves(results):
    memory, *others = (json.loads(json.dumps(result.summary(), allow_nan=False)) for result in results.values())
    for other in others:
        assert other.keys() == memory.keys()
        for name in ("nodes", "edges_before", "edges_after", "kept", "dropped", "added", "base_edges", "rank"):
            assert other[name] == memory[name]
        assert other["threshold"] == pytest.approx(memory["threshold"], abs=1e-5)
        assert other["parameters"] == memory["parameters"]
        assert [stage["name"] for stage in other["stages"]] == ["tile", *(one["name"] for one in memory["stages"])]
        assert other["parts"] == 3
        assert other["place"].startswith("OnDisk(memory='1GiB'")
    assert memory["place"].startswith("InMemory(device='cpu'")
    np.testing.assert_allclose(others[0]["settings"].pop("feature_weight"), memory["settings"].pop("feature_weight"))
    assert others[0]["settings"] == memory["settings"]


@pytest.mark.parametrize("name", ["memory", "held", "tiles"])
def test_a_result_is_shown_in_a_few_words(results, name):
    result = results[name]
    for shown in (repr(result), result._repr_html_()):
        assert len(shown) < 1200
        assert "tensor" not in shown
        assert "300" in shown
        assert str(result.settings) in shown
        for word, count in result.ledger.counts.items():
            assert word in shown
            assert f"{count:,}" in shown
    assert result._repr_html_().startswith("<table>")
    assert "\n" not in repr(result)


@pytest.mark.parametrize("place", [InMemory(), on_disk()], ids=["memory", "disk"])
def test_a_directed_graph_is_symmetrised_only_when_told(place):
    edges = GRAPH.edges.copy()
    directed = Data(edge_index=torch.from_numpy(edges), num_nodes=300, x=torch.from_numpy(GRAPH.features))
    with pytest.raises(GraphError, match="directed"):
        METHOD.purify(directed, place=place)
    found = METHOD.purify(directed, place=place, symmetrize=True)
    assert found.graph.num_nodes == 300
    assert found.ledger.counts["kept"] + found.ledger.counts["dropped"] == GRAPH.num_edges


def test_a_place_that_reports_is_heard_in_steps_that_print_well(capsys):
    METHOD.purify(GRAPH, place=on_disk(), progress=print)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if ":" not in line] == ["tile", "embed", "neighbours", "prune"]
    assert "prune: score 6/6" in lines
    assert str(Step("prune", "write", 3, 3)) in lines


def test_one_file_is_written_once(results, tmp_path):
    place = on_disk(output=tmp_path / "clean.npz")
    result = purify_to_file(METHOD, GRAPH, place=place)
    assert result.graph == results["held"].graph
    assert as_graph(tmp_path / "clean.npz") == result.graph
    assert purify_to_file(METHOD, GRAPH, place=place) is None
    with pytest.raises(GarnetError, match="exists already"):
        purify_to_file(GARNET(rank=80, k=4), GRAPH, place=place)
    assert {path.name for path in tmp_path.iterdir()} == {"clean.npz"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"memory": "lots"}, "The 'memory' parameter of OnDisk must be a size of 1GiB or more"),
        ({"memory": None}, "The 'memory' parameter of OnDisk must be a size of 1GiB or more"),
        ({"memory": "1GiB", "parts": 0}, "The 'parts' parameter of OnDisk must be an integer >= 1. Got 0 instead."),
        ({"memory": "1GiB", "output": 3}, "The 'output' parameter of OnDisk must be"),
        ({"memory": "1GiB", "solver": "arpack"}, "The 'solver' parameter of OnDisk must be a Chebyshev"),
    ],
)
def test_a_place_that_cannot_be_is_refused_when_it_is_made(options, sentence):
    with pytest.raises(GarnetError) as said:
        OnDisk(**options)
    assert str(said.value).startswith(sentence)


@pytest.mark.parametrize("asked", [{"score": "distortion"}, {"scaling": "minmax"}, {"features": "propagated"}])
def test_what_needs_the_whole_graph_is_refused_on_disk(asked, tmp_path):
    (name,) = asked
    with pytest.raises(GarnetError, match=f"the '{name}' parameter of GARNET must be one of"):
        GARNET(**asked).purify(GRAPH, place=on_disk(output=tmp_path / "out"))
    assert not list(tmp_path.iterdir())


def test_settings_hold_nothing_that_json_does_not_have(results):
    for result in results.values():
        assert {field.name for field in fields(Settings)} == set(result.settings.plain())
        assert Settings.of_plain(json.loads(json.dumps(result.settings.plain()))) == result.settings
