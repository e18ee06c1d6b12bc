import contextlib
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from garnet import Perturbation, as_graph
from garnet.errors import GraphError
from garnet.graph.perturbation import Entries

QUICK = settings(max_examples=100, deadline=None)
WEIGHTS = st.floats(2.0**-126, 2.0**100, width=32)
VALUES = st.floats(-1e6, 1e6, width=32)


@st.composite
def attacked(draw):
    """A weighted graph with features, dense or sparse or none, and changes of it."""
    n = draw(st.integers(2, 8))
    pairs = st.sampled_from([(one, other) for one in range(n) for other in range(one + 1, n)])
    weighted = draw(st.dictionaries(pairs, WEIGHTS, max_size=12))
    rows, cols = np.array(list(weighted), dtype=np.int64).reshape(-1, 2).T
    weights = np.array(list(weighted.values()), dtype=np.float32)
    features = draw(st.none() | nps.arrays(np.float32, (n, 3), elements=VALUES))
    sparse = features is not None and draw(st.booleans())
    graph = as_graph(
        sp.coo_array((weights, (rows, cols)), shape=(n, n)),
        features=sp.csr_array(features) if sparse else features,
        symmetrize=True,
    )
    flips = draw(st.lists(pairs, unique=True, max_size=10))
    entries = Entries.none()
    if features is not None:
        place = st.tuples(st.integers(0, n - 1), st.integers(0, 2))
        chosen = draw(st.dictionaries(place, VALUES, max_size=6))
        chosen = {where: value for where, value in chosen.items() if features[where] != value}
        places = np.array(list(chosen), dtype=np.int64).reshape(-1, 2).T
        before = features[places[0], places[1]]
        entries = Entries(places, before, np.array(list(chosen.values()), dtype=np.float32))
    return graph, Perturbation.of(graph, np.array(flips, dtype=np.int64).reshape(-1, 2).T, entries, attack="drawn")


def dense(features):
    return features.toarray() if sp.issparse(features) else features


@QUICK
@given(attacked())
def test_applied_twice_it_gives_the_graph_back(drawn):
    graph, made = drawn
    once = made.apply(graph)
    assert made.apply(once) == graph
    assert once.fingerprint == made.result


@QUICK
@given(attacked())
def test_it_changes_what_it_says_and_nothing_else(drawn):
    graph, made = drawn
    once = made.apply(graph)
    expected = graph.adjacency.toarray()
    for one, other in made.edges.T.tolist():
        expected[one, other] = expected[other, one] = 0 if expected[one, other] else 1
    np.testing.assert_array_equal(once.adjacency.toarray(), expected)
    if graph.features is not None:
        features = dense(graph.features).copy()
        features[tuple(made.entries.places)] = made.entries.after
        np.testing.assert_array_equal(dense(once.features), features)
    assert made.added(graph).shape[1] + made.dropped(graph).shape[1] == made.edges.shape[1]


@QUICK
@given(attacked())
def test_a_file_loses_nothing(drawn):
    graph, made = drawn
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.npz"
        made.save(path)
        back = Perturbation.load(path)
    assert back == made
    assert back.apply(graph) == made.apply(graph)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=3)), min_size=1, max_size=4),
    st.integers(0, 10**6),
)
def test_damage_anywhere_gives_a_perturbation_or_a_graph_error(patches, length):
    graph = as_graph(([[0, 1, 2], [1, 2, 3]], 5), features=np.eye(5), symmetrize=True)
    changed = Entries(np.array([[0], [1]]), np.zeros(1, np.float32), np.ones(1, np.float32))
    made = Perturbation.of(graph, np.array([[0, 1], [4, 2]]), changed, attack="drawn", targets=np.array([2]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.npz"
        made.save(path)
        content = bytearray(path.read_bytes())
        for place, patch in patches:
            place %= len(content)
            content[place : place + len(patch)] = patch
        path.write_bytes(content[: length % (3 * len(content))])
        # Any other exception, or a warning, fails the test.
        with contextlib.suppress(GraphError):
            assert Perturbation.load(path).apply(graph).num_nodes == 5
