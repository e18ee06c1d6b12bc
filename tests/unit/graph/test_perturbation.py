import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from garnet import Perturbation, as_graph
from garnet.attacks import Random
from garnet.datasets import contextual_block_model
from garnet.errors import GraphError
from garnet.graph.perturbation import Entries


@pytest.fixture
def graph():
    """A path 0-1-2-3-4 with weights, and features."""
    bare = as_graph(([[0, 1, 2, 3], [1, 2, 3, 4]], 5), symmetrize=True)
    features = np.array([[0, 1], [2, 0], [0, 0], [5, 5], [0.5, 0]], dtype=np.float32)
    return as_graph(bare.with_edges(bare.edges, [0.5, 2, 3, 0.1]), features=features, labels=[0, 1, 0, 1, 0])


def edges(*pairs):
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def entries(*changes):
    nodes, columns, before, after = zip(*changes, strict=True)
    return Entries(np.array([nodes, columns]), np.array(before, np.float32), np.array(after, np.float32))


MIXED = entries((0, 1, 1, 0), (2, 0, 0, 7), (1, 0, 2, -3))


# --- applying ---------------------------------------------------------------------------------------------------------


def test_present_edges_go_absent_ones_come_with_weight_one(graph):
    made = Perturbation.of(graph, edges((1, 2), (0, 4)))
    expected = graph.adjacency.toarray()
    expected[1, 2] = expected[2, 1] = 0
    expected[0, 4] = expected[4, 0] = 1
    attacked = made.apply(graph)
    np.testing.assert_array_equal(attacked.adjacency.toarray(), expected)
    assert attacked.labels is graph.labels
    assert attacked.fingerprint == made.result
    assert made.apply(attacked) == graph
    np.testing.assert_array_equal(made.weights, np.array([2, 1], dtype=np.float32))
    assert made.added(graph).tolist() == [[0], [4]]
    assert made.dropped(graph).tolist() == [[1], [2]]


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_changed_features_come_and_go(graph, kind):
    graph = as_graph(graph, features=kind(graph.features))
    before = graph.features.copy()
    made = Perturbation.of(graph, edges(), MIXED)
    attacked = made.apply(graph)
    dense = attacked.features.toarray() if sp.issparse(attacked.features) else attacked.features
    np.testing.assert_array_equal(dense, [[0, 0], [-3, 0], [7, 0], [5, 5], [0.5, 0]])
    assert type(attacked.features) is type(graph.features)
    assert attacked.features.dtype == np.float32
    assert not sp.issparse(attacked.features) or (attacked.features.data != 0).all()
    assert made.apply(attacked) == graph
    # The graph it was given still has its own.
    assert not (graph.features != before).sum()


def test_edges_and_features_together(graph):
    made = Perturbation.of(graph, edges((1, 2), (0, 4)), MIXED)
    assert made.num_changes == 5
    attacked = made.apply(graph)
    assert made.apply(attacked) == graph
    with pytest.raises(GraphError, match="in either the edges or the features of the graph, not in both"):
        made.apply(replace(attacked, features=graph.features))
    with pytest.raises(GraphError, match="in either the edges or the features of the graph, not in both"):
        made.apply(replace(graph, features=attacked.features))


def test_it_refuses_another_graph(graph):
    made = Perturbation.of(graph, edges((1, 2)), MIXED)
    other = graph.with_edges(graph.edges[:, 1:])
    with pytest.raises(
        GraphError, match=rf"for a graph with the fingerprint {graph.fingerprint}\. Got one with {other.fingerprint};"
    ):
        made.apply(other)
    with pytest.raises(GraphError, match="changes features, and the graph has none"):
        made.apply(replace(graph, features=None))
    with pytest.raises(GraphError, match="made for other features than those of the graph"):
        made.apply(replace(graph, features=graph.features + 1))
    with pytest.raises(GraphError, match="changes features that the graph does not have"):
        made.apply(replace(graph, features=graph.features[:, :1]))
    with pytest.raises(GraphError, match="flips edges of node 9, which does not exist"):
        Perturbation.of(graph, edges((1, 9)))


def test_the_first_flips_alone(graph):
    made = Random(kind="both")(graph, budget="6", seed=2)
    first = made.first(2, graph)
    assert first.edges.tolist() == made.edges[:, :2].tolist()
    assert (first.attack, first.seed, first.complete) == ("random", 2, False)
    assert first.apply(first.apply(graph)) == graph
    assert first.result != made.result


def test_it_says_what_it_is(graph):
    made = Random()(graph, budget="2", seed=4)
    assert repr(made) == "Perturbation(2 edges, by random, seed 4)"
    assert repr(replace(made, complete=False)) == "Perturbation(2 edges, by random, seed 4, stopped)"
    assert repr(Perturbation.of(graph, edges(), MIXED)) == "Perturbation(3 entries)"
    assert repr(Perturbation.of(graph, edges((0, 1)), MIXED)) == "Perturbation(1 edges, 3 entries)"
    assert repr(Perturbation.of(graph, edges())) == "Perturbation(0 edges)"


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def made(graph):
    provenance = {"attack": "mine", "parameters": {"a": 1, "b": [0.1, None], "c": "ü"}, "budget": "2/target", "seed": 7}
    return Perturbation.of(
        graph, edges((1, 2), (0, 4)), MIXED, targets=np.array([4, 1]), inputs="abc", complete=False, **provenance
    )


@pytest.fixture
def saved(made, tmp_path):
    made.save(tmp_path / "made.npz")
    return tmp_path / "made.npz"


def test_what_is_saved_comes_back_and_the_same_bytes_every_time(made, saved, graph, tmp_path):
    back = Perturbation.load(saved)
    assert back == made
    assert back.edges.dtype == back.targets.dtype == back.entries.places.dtype == np.int64
    assert back.apply(back.apply(graph)) == graph
    back.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == saved.read_bytes()


def test_two_perturbations_are_one_only_if_all_is_alike(made, graph):
    assert made == replace(made)
    for part, value in (
        ("edges", made.edges[:, ::-1]),
        ("seed", 8),
        ("complete", True),
        ("targets", made.targets[:1]),
        ("inputs", ""),
        ("entries", Entries.none()),
        ("parameters", {}),
    ):
        assert made != replace(made, **{part: value})
    assert made != "made"
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)


def test_a_file_is_small(tmp_path):
    graph = contextual_block_model(3000, features=4, seed=0)
    made = Random()(graph, budget="1000")
    made.save(tmp_path / "made.npz")
    # A flip is two numbers of 12 bits and no weight but one.
    assert (tmp_path / "made.npz").stat().st_size < 5 * 1000 + 3000


def test_nodes_beyond_32_bits_keep_their_numbers(made, tmp_path):
    far = replace(made, edges=edges((1, 2**40)), weights=made.weights[:1])
    far.save(tmp_path / "far.npz")
    assert Perturbation.load(tmp_path / "far.npz") == far


def test_where_it_cannot_be_saved(made, tmp_path):
    with pytest.raises(GraphError, match=r"ends in \.npz\. Got .*made\.json"):
        made.save(tmp_path / "made.json")
    assert not list(tmp_path.iterdir())


def test_what_is_no_perturbation(graph, tmp_path):
    with pytest.raises(GraphError, match=r"Cannot read .*nothing\.npz: there is no perturbation in that place\."):
        Perturbation.load(tmp_path / "nothing.npz")
    with pytest.raises(GraphError, match="there is no perturbation in that place"):
        Perturbation.load(tmp_path)
    graph.save(tmp_path / "graph.npz")
    with pytest.raises(GraphError, match=r"an \.npz file of another kind; garnet attack makes perturbations"):
        Perturbation.load(tmp_path / "graph.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(GraphError, match=r"not a whole \.npz"):
        Perturbation.load(tmp_path / "text.npz")


def test_a_file_that_was_cut(saved):
    whole = saved.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        saved.write_bytes(whole[:length])
        with pytest.raises(GraphError, match=r"^Cannot read .*made\.npz: [^\n]*\.$"):
            Perturbation.load(saved)


def rewritten(path, **changes):
    """The same file with some arrays replaced, or left out where they are None."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(path, **{name: value for name, value in (arrays | changes).items() if value is not None})


WRONG_ARRAYS = [
    ({"edges": None}, "it has no array 'edges'"),
    ({"edges": np.zeros((3, 2), int)}, r"its array 'edges' has shape \(3, 2\) but must have two rows"),
    ({"edges": np.zeros(4, int)}, r"'edges' has shape \(4,\) but must have 2 dimension"),
    ({"edges": np.zeros((2, 2))}, "'edges' has dtype float64"),
    ({"edges": np.array([[2, 0], [1, 4]])}, "with the smaller one first"),
    ({"edges": np.array([[1, 0], [1, 4]])}, "with the smaller one first"),
    ({"edges": np.array([[0, 0], [4, 4]])}, "'edges' has negative numbers or the same pair twice"),
    ({"edges": np.array([[-1, 0], [2, 4]])}, "'edges' has negative numbers"),
    ({"edges": np.array([[0, 1], [2**64 - 1, 2]], dtype=np.uint64)}, "'edges' has negative numbers"),
    ({"edges": np.array([[1], [2]])}, "not of the same length"),
    ({"weights": np.ones(3)}, "not of the same length"),
    ({"weights": np.array([1, np.nan])}, "not finite"),
    ({"weights": np.array([1.0, 0.0])}, "not positive"),
    ({"weights": np.array([1, 2])}, "'weights' has dtype int64"),
    ({"places": np.array([[0, 2, -1], [1, 0, 0]])}, "'places' has negative numbers"),
    ({"places": np.array([[0, 0, 1], [1, 1, 0]])}, "'places' has negative numbers or the same pair twice"),
    ({"after": np.array([np.inf, 1, 1])}, "not finite"),
    ({"before": np.zeros(2)}, "not of the same length"),
    ({"targets": np.array([-1])}, "targets are no node numbers"),
    ({"targets": np.array([0.5])}, "'targets' has dtype float64"),
    ({"perturbation": np.zeros(3, np.uint8)}, "its description is damaged"),
    ({"perturbation": np.zeros(1 << 21, np.uint8)}, "its description is absurdly long"),
    ({"perturbation": np.frombuffer(b"[" * 100_000, np.uint8)}, "its description is damaged"),
    ({"perturbation": np.zeros((2, 2), np.uint8)}, "must have 1 dimension"),
    ({"perturbation": np.array("text")}, "has dtype <U4"),
]


@pytest.mark.parametrize(("changes", "sentence"), WRONG_ARRAYS)
def test_arrays_that_no_attack_gives(saved, changes, sentence):
    rewritten(saved, **changes)
    with pytest.raises(GraphError, match=rf"^Cannot read .*made\.npz: [^\n]*{sentence}[^\n]*\.$"):
        Perturbation.load(saved)


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": "7"},
        {"seed": None},
        {"complete": 1},
        {"parameters": []},
        {"attack": None},
        {"inputs": 3},
        {"budget": 5},
    ],
)
def test_descriptions_that_make_no_sense(saved, changes):
    with np.load(saved) as archive:
        described = json.loads(archive["perturbation"].tobytes()) | changes
    rewritten(saved, perturbation=np.frombuffer(json.dumps(described).encode(), np.uint8))
    with pytest.raises(GraphError, match="its description is damaged"):
        Perturbation.load(saved)


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("a file was unpickled",)


def test_nothing_is_unpickled(saved):
    rewritten(saved, weights=np.array([Bomb(), 1], dtype=object))
    with pytest.raises(GraphError, match="'weights' holds Python objects, which can run code when read"):
        Perturbation.load(saved)
    saved.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(GraphError, match=r"not a whole \.npz"):
        Perturbation.load(saved)


def test_what_is_left_of_a_file_that_was_being_replaced(made, saved, monkeypatch):
    before = saved.read_bytes()

    def full(*arguments, **arrays):
        arguments[0].write(b"PK half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(Exception, match="no space left on device"):
        made.save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["made.npz"]


def test_a_notebook_shows_figures_and_no_arrays():
    graph = as_graph((np.array([[0, 1, 1, 2], [1, 0, 2, 1]]), 4))
    made = Perturbation.of(graph, np.array([[0], [3]]), attack="<mine>", budget="1 edges", targets=np.array([3]))
    shown = made._repr_html_()
    assert "&lt;mine&gt;" in shown
    assert "<mine>" not in shown
    assert "array" not in shown
    assert shown.count("<tr>") == 8
