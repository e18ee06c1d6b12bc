import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from garnet import GARNET, OnDisk, as_graph
from garnet.datasets import block_model, contextual_block_model
from garnet.errors import GraphError, ParameterError
from garnet.linalg.device_graph import Resident
from garnet.purify.features import scale
from garnet.purify.joining import Joining
from garnet.purify.judge_file import load_judge
from garnet.purify.newcomers import ENOUGH_EDGES, Newcomers
from garnet.purify.verdicts import apart
from garnet.report.purification_record import PurificationRecord


def communities(seed, nodes=400):
    return block_model(nodes, classes=8, mean_degree=14, homophily=0.97, seed=seed)


def described(seed, nodes=400):
    return contextual_block_model(nodes, classes=8, mean_degree=12, features=16, signal=4.0, seed=seed)


def ledger_trust(result):
    ledger = result.ledger
    return ledger.edges[:, ledger.given].numpy(), ledger.trust[ledger.given].numpy()


def area(good, bad):
    """How often a good edge has the larger score, ties counting half."""
    return float(((good[:, None] > bad) + 0.5 * (good[:, None] == bad)).mean())


@pytest.fixture(scope="module")
def named():
    graph = described(0)
    return as_graph(graph, names=[f"account-{node:03d}" for node in range(graph.num_nodes)])


@pytest.fixture(scope="module")
def result(named):
    return GARNET().purify(named)


@pytest.mark.parametrize("make", [communities, described])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("only_drop", [False, True])
def test_an_edge_of_the_graph_is_trusted_as_it_was(make, seed, only_drop):
    result = GARNET(only_drop=only_drop).purify(make(seed))
    edges, trust = ledger_trust(result)
    found = result.judge(edges)
    assert found.known.all()
    told = found.verdict != "unknown"
    assert told.mean() > 0.9
    assert np.allclose(found.score[told], trust[told], atol=1e-4)
    assert (trust[~told] == 1).all()  # nothing speaks against an edge of an end of which nothing is known
    clear = told & (np.abs(trust - 0.25) > 1e-4)
    assert ((found.verdict == "believe") == (trust >= 0.25))[clear].all()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_order_direction_and_copies_do_not_count(result, named, seed):
    rng = np.random.default_rng(seed)
    names = np.append(named.names, ["new-1", "new-2", "new-3"])
    edges = names[rng.integers(len(names), size=(2, 60))]
    once = result.judge(edges)
    order, turned = rng.permutation(120) % 60, rng.random(120) < 0.5
    mixed = edges[:, order]
    again = result.judge(np.where(turned, mixed[::-1], mixed))
    for name in ("score", "verdict", "reason", "new", "known"):
        assert np.array_equal(getattr(once, name)[order], getattr(again, name), equal_nan=name == "score")
    known = ~once.new & (once.verdict != "unknown")
    assert ((once.score >= 0) & (once.score <= 1))[~np.isnan(once.score)].all()
    # And each edge between known nodes is judged alone.
    for row in np.flatnonzero(known)[:3]:
        assert np.isclose(result.judge(edges[:, row : row + 1]).score[0], once.score[row], atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_planted_edges_score_worse_than_true_ones_that_were_held_out(seed):
    graph, rng = communities(seed), np.random.default_rng(seed)
    hidden = np.zeros(graph.num_edges, dtype=bool)
    hidden[rng.choice(graph.num_edges, 100, replace=False)] = True
    pairs = rng.integers(graph.num_nodes, size=(2, 400))
    far = pairs[:, graph.labels[pairs[0]] != graph.labels[pairs[1]]][:, :100]
    result = GARNET().purify(graph.with_edges(graph.edges[:, ~hidden]))
    true, made_up = result.judge(graph.edges[:, hidden]), result.judge(far)
    # Of a hundred against a hundred, chance gives more than 0.62 once in a thousand times.
    assert area(np.nan_to_num(true.score, nan=0.5), np.nan_to_num(made_up.score, nan=0.5)) > 0.62
    assert true.counts["doubt"] < made_up.counts["doubt"]


@pytest.mark.parametrize("seed", range(3))
def test_new_nodes_come_to_lie_where_a_new_decomposition_puts_them(seed):
    graph, rng, rank = block_model(300, classes=6, mean_degree=12, homophily=0.95, seed=seed), None, 6
    rng = np.random.default_rng(seed)
    dense = graph.adjacency.toarray().astype(np.float64)
    new = rng.choice(np.flatnonzero(dense.sum(axis=0) >= 6), 5, replace=False)
    old = np.setdiff1d(np.arange(300), new)
    old = old[dense[np.ix_(old, old)].sum(axis=0) > 0]
    dense = dense[np.ix_(np.r_[old, new], np.r_[old, new])]
    n = len(old)

    def embedded(matrix):
        degrees = matrix.sum(axis=0)
        values, vectors = np.linalg.eigh(matrix / np.sqrt(np.outer(degrees, degrees)))
        lead = np.argsort(-values)[:rank]
        return values[lead], vectors[:, lead] * np.sqrt(np.abs(values[lead]))

    values, bare = embedded(dense[:n, :n])
    _, whole = embedded(dense)
    points = torch.from_numpy(bare).float()
    unit = scale(points, "unit")
    joining = Joining(Resident.of(as_graph(dense[:n, :n])), unit, points, torch.from_numpy(values), "unit")
    ends = np.stack(np.nonzero(np.triu(dense, 1)))
    found = Newcomers.beside(joining, torch.from_numpy(ends[:, ends[1] >= n]), torch.zeros(5, 0))
    is_new = found.nodes >= n
    assert found.placed[is_new].all()
    # Cosines with the nodes that were there: the same however the eigenvectors are turned.
    ours = (found.points[is_new] @ unit.T).numpy()
    whole /= np.linalg.norm(whole, axis=1, keepdims=True)
    truth = whole[n:] @ whole[:n].T
    # No worse than within a tenth of what a cosine usually is, though the eigenvectors of the others turned, too.
    assert np.abs(ours - truth).mean() < 0.1 * np.abs(truth).mean()
    assert (ours.argmax(axis=1) < n).all()


def test_a_new_node_is_unknown_until_it_has_enough_edges(result, named):
    friends = named.names[named.labels == 0][: ENOUGH_EDGES + 2]
    for count in range(1, len(friends) + 1):
        found = result.judge([["new"] * count, friends[:count]])
        assert found.new.all()
        assert (found.verdict == "unknown").all() == (count < ENOUGH_EDGES)
        assert np.isnan(found.score).all() == (count < ENOUGH_EDGES)
    strangers = result.judge([["new-1", "new-2"], ["new-2", "new-3"]])
    assert strangers.counts == {"believe": 0, "doubt": 0, "unknown": 2}


def test_a_new_node_with_features_is_judged_by_them(result, named):
    by_class = [np.flatnonzero(named.labels == label) for label in range(8)]
    # A new node for each edge, so that features are all there is.
    rows, scores = {}, {}
    for shift in (0, 1):
        friends = [node for label in range(8) for node in by_class[(label + shift) % 8][:20]]
        means = [named.features[nodes].mean(axis=0) for nodes in by_class for _ in nodes[:20]]
        rows = {f"new-{number:03d}": row for number, row in enumerate(means)}
        scores[shift] = result.judge([list(rows), named.names[friends]], features=rows).score
    assert area(scores[0], scores[1]) > 0.62


def test_the_scale_of_low_rank_features_says_nothing(named):
    result = GARNET().purify(named)
    pairs = list(zip(range(40), range(40, 80), strict=True))
    rows = {f"copy-{node}": named.features[node] for node, _ in pairs}
    copies = result.judge([[f"copy-{node}" for node, _ in pairs], named.names[40:80]], features=rows)
    same = result.judge(
        [[f"copy-{node}" for node, _ in pairs], named.names[40:80]],
        features={name: 3.0 * row for name, row in rows.items()},
    )
    assert not np.isnan(copies.score).any()
    assert np.allclose(copies.score, same.score, atol=1e-6)


def test_names_are_those_of_the_graph(result, named):
    edges = named.edges[:, :5]
    by_name, by_number = result.judge(named.names[edges]), result.judge(edges, numbers=True)
    assert np.array_equal(by_name.score, by_number.score)
    assert by_name.known.all()
    with pytest.raises(GraphError, match="names that are texts"):
        result.judge(edges)
    numbered = GARNET(rank=8).purify(communities(0, nodes=120))
    beyond = numbered.judge([[0, 5000], [1, 2]])
    assert beyond.new.tolist() == [False, True]
    # A text that spells a number is that number.
    assert numbered.judge([["0"], ["1"]]).score[0] == beyond.score[0]


@pytest.mark.parametrize(
    "edges",
    [
        [[1, 2, 3]],
        [[1, 2], [3]],
        np.zeros((3, 2), dtype=int),
        np.zeros((2, 2)),
        [["a", "b"], [1, 2]],
        [["a", None], ["b", "c"]],
        7,
        None,
        "ab",
        [[True, False], [False, True]],
    ],
    ids=str,
)
def test_what_is_no_edges_is_refused(result, edges):
    with pytest.raises(GraphError) as told:
        result.judge(edges)
    assert len(str(told.value).splitlines()) == 1


@pytest.mark.parametrize("features", [{"new": [1.0]}, {"new": "text"}, {"new": [np.nan] * 16}, [1.0], {"new": None}])
def test_features_that_do_not_fit_are_refused(result, features):
    with pytest.raises(GraphError):
        result.judge([["new"], ["account-000"]], features=features)


def test_features_are_refused_where_the_graph_has_none():
    result = GARNET(rank=8).purify(communities(0, nodes=120))
    with pytest.raises(GraphError, match="Features"):
        result.judge([[500], [1]], features={500: [1.0]})


def test_no_edges_give_no_verdicts(result):
    found = result.judge(np.zeros((2, 0), dtype=str))
    assert len(found) == 0
    assert found.purify_again is None
    assert found.summary()["edges"] == 0


def test_a_loop_is_unknown(result):
    found = result.judge([["account-001", "new"], ["account-001", "new"]])
    assert found.verdict.tolist() == ["unknown"] * 2


def test_where_planted_edges_look_like_others_all_is_unknown():
    rng = np.random.default_rng(0)
    dense = np.triu(rng.random((300, 300)) < 0.03, 1)
    result = GARNET().purify(as_graph((dense + dense.T).astype(float)))
    assert result.settings.power < 0.65
    found = result.judge(rng.integers(300, size=(2, 50)))
    assert (found.verdict == "unknown").all()
    assert found.purify_again is not None


class TestPurifyAgain:
    def test_after_a_twentieth_of_new_edges(self, result, named):
        edges, _ = ledger_trust(result)
        assert result.judge(edges, numbers=True).purify_again is None  # all of them are known
        rng, n = np.random.default_rng(0), named.num_nodes
        some = rng.integers(n, size=(2, 2))
        assert result.judge(some, numbers=True).purify_again is None
        most = int(0.05 * named.num_edges)
        copies = np.repeat(some, most, axis=1)
        assert result.judge(copies, numbers=True).purify_again is None  # one edge, however often it comes
        assert "twentieth" in result.judge(rng.integers(n, size=(2, 2 * most)), numbers=True).purify_again

    def test_after_many_of_which_nothing_can_be_said(self):
        graph = communities(1)
        new = np.arange(1000, 1040)
        assert "nothing can be said of 40" in GARNET().purify(graph).judge([new, np.arange(40)]).purify_again

    def test_after_edges_of_another_kind(self):
        graph, rng = communities(2, nodes=600), np.random.default_rng(0)
        hidden = np.zeros(graph.num_edges, dtype=bool)
        hidden[rng.choice(graph.num_edges, 120, replace=False)] = True
        result = GARNET().purify(graph.with_edges(graph.edges[:, ~hidden]))
        pairs = rng.integers(600, size=(2, 400))
        far = pairs[:, graph.labels[pairs[0]] != graph.labels[pairs[1]]][:, :120]
        assert result.judge(graph.edges[:, hidden]).purify_again is None
        assert "distributed" in result.judge(far).purify_again


@given(
    one=st.lists(st.floats(0, 1), min_size=1, max_size=30),
    other=st.lists(st.floats(0, 1), min_size=1, max_size=30),
)
def test_the_gap_is_that_of_kolmogorov_and_smirnov(one, other):
    one, other = np.array(one), np.array(other)
    gaps = [abs((one <= value).mean() - (other <= value).mean()) for value in (*one, *other)]
    assert np.isclose(apart(one, other), max(gaps))


class TestSaved:
    @pytest.fixture
    def saved(self, tmp_path, named, result):
        path = tmp_path / "result.npz"
        PurificationRecord.of(named, result).save(path)
        return path

    @staticmethod
    def without(path, *parts, **changed):
        with np.load(path) as found:
            arrays = {name: found[name] for name in found.files if not name.startswith(parts)}
        np.savez(path, **(arrays | changed))

    @pytest.mark.parametrize("make", [communities, described])
    def test_it_judges_as_before(self, make, tmp_path):
        graph = make(3)
        result, path, rng = GARNET().purify(graph), tmp_path / "one.npz", np.random.default_rng(0)
        PurificationRecord.of(graph, result).save(path)
        edges = rng.integers(graph.num_nodes + 20, size=(2, 500))
        before, after = result.judge(edges), load_judge(path)(edges)
        assert np.allclose(before.score, after.score, atol=1e-6, equal_nan=True)
        assert (before.verdict == after.verdict).all()
        assert before.purify_again == after.purify_again

    def test_a_report_still_reads_it(self, saved, result):
        assert PurificationRecord.load(saved).summary == result.summary()

    def test_a_file_of_an_earlier_version_must_be_made_again(self, saved):
        self.without(saved, "judge")
        assert PurificationRecord.load(saved).num_nodes == 400
        with pytest.raises(GraphError, match="make it again"):
            load_judge(saved)

    def test_damage_is_told(self, saved, tmp_path):
        whole = saved.read_bytes()
        with np.load(saved) as found:
            parts = [name for name in found.files if name.startswith("judge")]
            shapes = {name: found[name] for name in parts}
        assert len(parts) > 10
        for name in parts:
            for wrong in (None, shapes[name][:-1], shapes[name].astype("U8")):
                saved.write_bytes(whole)
                if wrong is None:
                    self.without(saved, name + "\0", **{name: np.full(shapes[name].shape, np.nan)})
                else:
                    self.without(saved, name + "\0", **{name: wrong})
                if wrong is not None and wrong.dtype.kind == "f" and name in ("judge_usual",):
                    continue  # one quantile less is as good
                with pytest.raises(GraphError):
                    load_judge(saved)

    def test_facts_that_are_wrong_are_told(self, saved):
        with np.load(saved) as found:
            facts = json.loads(found["judge"].tobytes())
        for wrong in ({}, {**facts, "settings": {}}, {**facts, "suspicion": None}, {**facts, "edges": "x"}, []):
            self.without(saved, "judge\0", judge=np.frombuffer(json.dumps(wrong).encode(), np.uint8))
            with pytest.raises(GraphError):
                load_judge(saved)


@pytest.mark.parametrize("wrong", [{"support": 0.3}, {"support": None}, {"scaling": "minmax"}, {"normalize": False}])
def test_a_purification_that_tells_nothing_of_new_edges_says_so(wrong, tmp_path):
    graph = described(1, nodes=120)
    result = GARNET(rank=8, **wrong).purify(graph)
    with pytest.raises(ParameterError):
        result.judge([[0], [1]])
    path = tmp_path / "result.npz"
    PurificationRecord.of(graph, result).save(path)
    with pytest.raises(GraphError):
        load_judge(path)


def test_a_purification_on_disk_says_so(tmp_path):
    described(1, nodes=120).save(tmp_path / "graph.npz")
    place = OnDisk(memory="1GiB", output=tmp_path / "out")
    with pytest.raises(GraphError, match="in memory"):
        GARNET(rank=8).purify(tmp_path / "graph.npz", place=place).judge([[0], [1]])
