import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset
from torch_geometric.transforms import Compose, NormalizeFeatures

import garnet
from garnet import GARNET, InMemory, as_graph
from garnet.bench.paper import published_model
from garnet.datasets import block_model, cora, inter_class_edges
from garnet.errors import GraphError, ParameterError, RankWarning
from garnet.graph.edges import contains
from garnet.neighbors.search import Exact
from garnet.progress import Step
from garnet.spectral import Arpack, Chebyshev


@pytest.fixture(scope="module")
def poisoned():
    clean = cora()
    planted = inter_class_edges(clean, 1013, seed=1)
    return clean, planted, clean.with_edges(np.concatenate([clean.edges, planted], axis=1))


@pytest.fixture(scope="module")
def result(poisoned):
    return GARNET().purify(poisoned[2])


@pytest.fixture(scope="module")
def classic(poisoned):
    """The method of the paper, where the least supported edges are doubted."""
    return GARNET(support=0.3).purify(poisoned[2])


def test_false_edges_go_and_true_edges_stay(poisoned, result):
    clean, planted, attacked = poisoned
    gone, lost = map(result.ledger.share_dropped, (planted, clean.edges))
    assert gone > 0.5
    assert gone > 3 * lost
    assert result.graph.homophily > attacked.homophily


def test_where_a_share_is_doubted_false_edges_go_and_true_edges_stay(poisoned, classic):
    clean, planted, attacked = poisoned
    assert classic.ledger.share_dropped(planted) > 0.6
    assert classic.ledger.share_dropped(clean.edges) < 0.3
    assert classic.graph.homophily > attacked.homophily


@pytest.mark.parametrize(("purifier", "gone", "stay"), [(GARNET(), 0.6, 0.7), (GARNET(support=0.3), 0.80, 0.65)])
def test_published_metattack_on_cora(data_folder, purifier, gone, stay):
    clean = cora()
    attacked = as_graph(data_folder / "cora" / "cora_meta_adj_0.2.npz", features=clean.features, labels=clean.labels)
    added = attacked.edges[:, ~contains(clean.edges, attacked.edges, 2485)]
    true = attacked.edges[:, contains(clean.edges, attacked.edges, 2485)]
    ledger = purifier.purify(attacked).ledger
    assert ledger.share_dropped(added) >= gone
    assert 1 - ledger.share_dropped(true) >= stay


@pytest.mark.parametrize("name", ["result", "classic"])
def test_the_ledger_accounts_for_every_edge(poisoned, name, request):
    result = request.getfixturevalue(name)
    before, after, ledger = poisoned[2], result.graph, result.ledger
    n = before.num_nodes
    assert ledger.kept.shape[1] + ledger.dropped.shape[1] == before.num_edges
    assert ledger.kept.shape[1] + ledger.added.shape[1] == after.num_edges
    parts = {"kept": ledger.kept, "dropped": ledger.dropped, "added": ledger.added}
    assert ledger.counts == {name: part.shape[1] for name, part in parts.items()}
    for edges, in_input, in_output in (
        (ledger.kept, True, True),
        (ledger.dropped, True, False),
        (ledger.added, False, True),
    ):
        assert (contains(before.edges, edges, n) == in_input).all()
        assert (contains(after.edges, edges, n) == in_output).all()
    for edges, scores in (
        (ledger.kept, ledger.kept_scores),
        (ledger.dropped, ledger.dropped_scores),
        (ledger.added, ledger.added_scores),
    ):
        assert scores.shape == (edges.shape[1],)
    assert ledger.added_scores.min() >= result.threshold


def test_the_result_is_the_base_edges_at_or_above_gamma_and_the_supported_input_edges(poisoned, classic):
    result, n = classic, classic.graph.num_nodes
    critical = result.base[:, result.scores >= result.threshold]
    assert contains(result.graph.edges, critical, n).all()
    others = result.graph.edges[:, ~contains(critical, result.graph.edges, n)]
    assert contains(poisoned[2].edges, others, n).all()
    assert contains(poisoned[2].edges, result.graph.edges, n).sum() >= 0.7 * poisoned[2].num_edges - 1
    assert (result.scores < result.threshold).mean() == pytest.approx(0.1, abs=0.001)


def test_the_nodes_keep_what_is_theirs_and_the_input_is_untouched(poisoned):
    graph = poisoned[2]
    copy = as_graph(graph.adjacency.copy(), features=graph.features.copy(), labels=graph.labels.copy())
    result = GARNET(seed=3).purify(graph)
    assert graph == copy
    assert result.graph.features is graph.features
    assert result.graph.labels is graph.labels


def test_same_seed_same_bytes(poisoned, result):
    again = GARNET().purify(poisoned[2])
    assert again.graph == result.graph
    assert again.graph.adjacency.data.tobytes() == result.graph.adjacency.data.tobytes()


@pytest.mark.parametrize("solver", [Arpack(), Chebyshev(tol=1e-5)], ids=["arpack", "chebyshev"])
def test_permuting_the_nodes_permutes_the_result(poisoned, solver):
    graph = poisoned[2]
    order = np.random.default_rng(5).permutation(graph.num_nodes)
    permuted = as_graph(graph.adjacency[order][:, order], features=graph.features[order])
    place = InMemory(solver=solver)
    plain = as_graph(graph.adjacency, features=graph.features)
    purifier = GARNET(support=0.3)
    expected = purifier.purify(plain, place=place).graph.adjacency[order][:, order].astype(bool)
    found = purifier.purify(permuted, place=place).graph.adjacency.astype(bool)
    assert (expected != found).nnz <= 0.002 * expected.nnz  # binary features have ties


def test_stages_and_summary_say_what_it_cost(result):
    assert [stage.name for stage in result.stages] == ["embed", "neighbours", "prune"]
    assert all(stage.seconds >= 0 and stage.peak_bytes > 0 for stage in result.stages)
    summary = json.loads(json.dumps(result.summary(), allow_nan=False))
    assert summary["kept"] + summary["dropped"] == summary["edges_before"] == 6082
    assert summary["parameters"]["gamma"] == 0.1
    assert summary["rank"] == 70


def test_progress_hears_each_stage_once():
    heard = []
    GARNET().purify(block_model(200, seed=0), progress=heard.append)
    assert heard == [Step("embed"), Step("neighbours"), Step("prune")]


# --- any graph -------------------------------------------------------------------------------------------------------

CLIQUE = np.ones((6, 6)) - np.eye(6)
TINY = {
    "one edge": as_graph(np.array([[0.0, 1], [1, 0]])),
    "triangle": as_graph(np.ones((3, 3)) - np.eye(3)),
    "star": as_graph((np.array([[0] * 9, range(1, 10)]), 10), symmetrize=True),
    "path": as_graph(sp.diags_array([np.ones(20), np.ones(20)], offsets=[-1, 1])),
    "two cliques": as_graph(sp.kron(sp.eye_array(2), CLIQUE)),
    "isolated nodes": as_graph(sp.block_diag([sp.csr_array(CLIQUE), sp.csr_array((3, 3))])),
    "weighted": as_graph(CLIQUE * np.arange(1, 7) * np.arange(1, 7)[:, None]),
    "many pieces": as_graph(sp.kron(sp.eye_array(80), CLIQUE)),
    "with features": as_graph(CLIQUE, features=np.random.default_rng(0).standard_normal((6, 4))),
    "constant features": as_graph(CLIQUE, features=np.ones((6, 4))),
    "zero features": as_graph(CLIQUE, features=np.zeros((6, 4))),
}


@pytest.mark.parametrize("graph", TINY.values(), ids=TINY)
@pytest.mark.parametrize(
    "purifier",
    [
        GARNET(),
        GARNET(rank="auto"),
        GARNET(support=0.3),
        GARNET(only_drop=True),
        GARNET(score="distortion", support=None),
        GARNET(score="signed", weight="score"),
        GARNET(tau="mean", end="magnitude", weight="one", scaling="standardize"),
    ],
    ids=["default", "auto rank", "classic", "only drop", "distortion", "signed", "regularised"],
)
def test_any_graph_purifies_to_a_graph(graph, purifier):
    purified = purifier.purify(graph).graph
    checked = as_graph(purified.adjacency)  # symmetric, positive, finite, no loops
    assert checked.num_edges == purified.num_edges
    assert purified.num_nodes == graph.num_nodes


def with_pairs(graph, pieces):
    """A graph without features beside so many pieces of two nodes, and the edges of these."""
    pairs = sp.kron(sp.eye_array(pieces), np.array([[0, 1], [1, 0]])) if pieces else sp.csr_array((0, 0))
    first = graph.num_nodes + 2 * np.arange(pieces)
    return as_graph(sp.block_diag([graph.adjacency, pairs])), np.stack([first, first + 1])


@pytest.mark.parametrize("pieces", [0, 60, 300])
def test_small_pieces_do_not_blind_it_to_the_large_one(poisoned, pieces):
    clean, planted, graph = poisoned
    result = GARNET(support=0.3).purify(with_pairs(graph, pieces)[0])
    assert result.ledger.share_dropped(planted) > 0.4
    assert result.ledger.share_dropped(clean.edges) < 0.25
    assert np.median(result.graph.weights) > 0.5


@pytest.mark.parametrize("purifier", [GARNET(), GARNET(support=0.3)], ids=["planted", "classic"])
def test_pairs_of_which_nothing_is_known_but_that_they_are_pairs_stay(poisoned, purifier):
    graph, pairs = with_pairs(poisoned[2], 300)
    assert purifier.purify(graph).ledger.share_dropped(pairs) == 0


def test_more_large_pieces_than_the_rank_is_said():
    graph = as_graph(sp.kron(sp.eye_array(20), np.ones((12, 12)) - np.eye(12)))
    with pytest.warns(RankWarning, match="20 components of more than 8 nodes"):
        GARNET(rank=8, support=0.3).purify(graph)


def test_nodes_of_which_nothing_is_known_stay_alone():
    purified = GARNET().purify(TINY["isolated nodes"]).graph
    assert purified.degrees[6:].tolist() == [0, 0, 0]
    assert (purified.degrees[:6] > 0).all()


def test_isolated_nodes_with_features_find_their_like():
    features = np.eye(3)[np.arange(9) % 3]
    purified = GARNET(k=2, support=0.3).purify(as_graph(TINY["isolated nodes"], features=features)).graph
    assert (purified.degrees[6:] > 0).all()


def test_pieces_are_not_joined_when_the_spectrum_tells_them_apart():
    purified = GARNET(rank=2, k=4, support=None).purify(TINY["two cliques"]).graph
    assert purified.adjacency[:6, 6:].nnz == 0


def test_a_graph_without_edges_is_refused():
    with pytest.raises(GraphError, match="The graph has 4 nodes and no edges between them"):
        GARNET().purify(as_graph(np.zeros((4, 4))))


BAD_PARAMETERS = [
    ({"k": -1}, "The 'k' parameter of GARNET must be an integer >= 0. Got -1 instead."),
    ({"k": 2.5}, "The 'k' parameter of GARNET must be an integer >= 0. Got 2.5 instead."),
    ({"k": 0, "support": None}, "must be at least 1 where 'support' is None, or no edge would stay. Got 0 instead."),
    ({"k": 300}, "The 'k' parameter of GARNET must be below the number of nodes, 300. Got 300 instead."),
    ({"rank": 300}, "The 'rank' parameter of GARNET must be below 300, the node count. Got 300 instead."),
    ({"rank": 0}, "The 'rank' parameter of GARNET must be an integer >= 1 or one of 'auto', 'low'. Got 0 instead."),
    ({"gamma": 1.5}, "The 'gamma' parameter of GARNET must be between 0 and 1 as a quantile. Got 1.5 instead."),
    ({"support": -0.1}, "The 'support' parameter of GARNET must be between 0 and 1, 'auto' or None. Got -0.1 instead."),
    ({"tau": -1.0}, "The 'tau' parameter of GARNET must be a number >= 0 or 'mean'. Got -1.0 instead."),
    ({"tau": math.nan}, "The 'tau' parameter of GARNET must be a number >= 0 or 'mean'. Got nan instead."),
    ({"sigma2": 0.0}, "The 'sigma2' parameter of GARNET must be a positive number. Got 0.0 instead."),
    ({"feature_rank": 0}, "The 'feature_rank' parameter of GARNET must be an integer >= 1 or None. Got 0 instead."),
    (
        {"feature_weight": -1.0},
        "The 'feature_weight' parameter of GARNET must be a number >= 0 or 'auto'. Got -1.0 instead.",
    ),
    ({"gamma": math.nan}, "The 'gamma' parameter of GARNET must be a number. Got nan instead."),
    ({"seed": 0.5}, "The 'seed' parameter of GARNET must be an integer from 0 to 2^63 - 1. Got 0.5 instead."),
    ({"seed": -1}, "The 'seed' parameter of GARNET must be an integer from 0 to 2^63 - 1. Got -1 instead."),
    ({"k": "5"}, "The 'k' parameter of GARNET must be an integer >= 0. Got '5' instead."),
    ({"gamma": None}, "The 'gamma' parameter of GARNET must be a number. Got None instead."),
    ({"score": "cosine"}, "must be one of 'distance', 'signed', 'distortion'. Got 'cosine' instead."),
    ({"weight": "score"}, "must be 'similarity' or 'one' with score 'distance'. Got 'score' instead."),
    ({"end": "left"}, "must be one of 'algebraic', 'magnitude'. Got 'left' instead."),
    ({"caution": 0.0}, "The 'caution' parameter of GARNET must be a positive number. Got 0.0 instead."),
    ({"refill": -1.0}, "The 'refill' parameter of GARNET must be a number >= 0 or 'auto'. Got -1.0 instead."),
    (
        {"weight": "trust", "support": 0.3},
        "must be 'auto', 'similarity', 'score' or 'one' where 'support' is not 'auto'. Got 'trust' instead.",
    ),
    ({"features": "raw"}, "The 'features' parameter of GARNET is 'raw', but the graph has no features."),
]


@pytest.mark.parametrize(("parameters", "sentence"), BAD_PARAMETERS, ids=[str(p) for p, _ in BAD_PARAMETERS])
def test_parameters_out_of_range_get_one_sentence(parameters, sentence):
    with pytest.raises(ParameterError) as caught:
        GARNET(**parameters).purify(block_model(300, seed=0))
    assert sentence in str(caught.value)


BAD_PLACES = [
    ({"solver": 3}, "The 'solver' parameter of InMemory must be a solver. Got 3 instead."),
    ({"solver": Arpack}, "The 'solver' parameter of InMemory must be a solver. Got "),
    ({"neighbors": "near"}, "must be one of 'exact', 'cells' or a search. Got 'near' instead."),
    ({"neighbors": Exact}, "The 'neighbors' parameter of InMemory must be one of 'exact', 'cells' or a search. Got "),
    ({"device": "meta"}, "The 'device' parameter of InMemory must be a device that torch has here"),
    ({"device": "quantum"}, "The 'device' parameter of InMemory must be a device that torch has here"),
    ({"device": "cuda:77"}, "The 'device' parameter of InMemory must be a device that torch has here"),
]


@pytest.mark.parametrize(("place", "sentence"), BAD_PLACES, ids=[str(place) for place, _ in BAD_PLACES])
def test_a_place_that_cannot_be_gets_one_sentence(place, sentence):
    with pytest.raises(ParameterError) as caught:
        GARNET().purify(block_model(300, seed=0), place=InMemory(**place))
    assert sentence in str(caught.value)


# --- what planted edges tell ---------------------------------------------------------------------------------------


def communities(attacked=False):
    """Clear ones, as they are or with a fifth as many false edges between them; and these."""
    clean = block_model(1000, mean_degree=20, homophily=0.95, seed=0)
    false = inter_class_edges(clean, clean.num_edges // 5, seed=1)
    return clean, false, clean.with_edges(np.concatenate([clean.edges, false], axis=1)) if attacked else clean


def weighted_like(graph, seed=0):
    return graph.with_edges(graph.edges, np.random.default_rng(seed).uniform(0.5, 2, graph.num_edges))


def edges_of(pairs):
    return set(map(tuple, pairs.T.tolist()))


def test_clear_communities_come_back_almost_as_they_were():
    result = GARNET().purify(communities()[2])
    assert result.ledger.dropped.shape[1] < 0.05 * result.ledger.kept.shape[1]
    assert result.ledger.added.shape[1] == 0
    assert np.median(result.graph.weights) > 0.8


def test_false_edges_between_communities_go_and_weigh_little_if_they_stay():
    clean, false, graph = communities(attacked=True)
    result = GARNET().purify(graph)
    assert result.ledger.share_dropped(false) > 0.6
    assert result.ledger.share_dropped(clean.edges) < 0.2
    mean_true, mean_false = (result.graph.adjacency[tuple(edges)].mean() for edges in (clean.edges, false))
    assert mean_false < 0.25 * mean_true


def test_edges_that_nothing_tells_from_planted_ones_all_stay_as_they_are():
    graph = weighted_like(as_graph(sp.random_array((300, 300), density=0.02, rng=0), symmetrize=True))
    result = GARNET().purify(graph)
    assert result.graph == graph
    assert result.settings.doubted == 0


def test_more_is_doubted_where_more_is_made_up(poisoned, result):
    clean = GARNET().purify(poisoned[0])
    assert 0 < clean.settings.doubted < result.settings.doubted < 0.5
    assert 0.5 < result.settings.power <= 1
    assert clean.ledger.dropped.shape[1] < 0.1 * poisoned[0].num_edges


def test_without_features_nothing_is_added_unless_it_is_asked_for(poisoned):
    graph = as_graph(poisoned[2].adjacency)
    added = [GARNET(**said).purify(graph).ledger.added.shape[1] for said in ({}, {"k": 5}, {"refill": 1.0})]
    assert added[0] == 0
    assert min(added[1:]) > 0


def test_what_nodes_have_lost_is_given_back_as_far_as_is_said(poisoned):
    purified = [GARNET(refill=refill).purify(poisoned[2]) for refill in (0.0, 0.5, 2.0)]
    assert purified[0].ledger.added.shape[1] == 0
    totals = [one.graph.weights.sum() for one in purified]
    assert totals[0] < totals[1] < totals[2]
    assert totals[0] < poisoned[2].num_edges


def test_without_neighbours_and_with_only_drop_the_same_edges_stay(poisoned):
    graph = weighted_like(poisoned[2])
    alone, only = (GARNET(**said).purify(graph) for said in ({"k": 0}, {"only_drop": True}))
    assert alone.ledger.added.shape[1] == only.ledger.added.shape[1] == 0
    assert edges_of(alone.graph.edges) == edges_of(only.graph.edges) < edges_of(graph.edges)
    kept = only.graph.adjacency
    assert (kept != graph.adjacency.multiply(kept != 0)).nnz == 0
    share = alone.graph.weights / kept[tuple(alone.graph.edges)]
    assert share.min() >= 0.25 - 1e-6
    assert share.max() <= 1 + 1e-6


@pytest.mark.parametrize("purifier", [GARNET(), GARNET(k=0), GARNET(only_drop=True), GARNET(caution=1000.0)], ids=str)
def test_no_node_loses_all_of_its_edges(poisoned, purifier):
    for graph in (poisoned[2], weighted_like(poisoned[2]), *TINY.values()):
        assert (purifier.purify(graph).graph.degrees[graph.degrees > 0] > 0).all()


def test_who_is_more_cautious_drops_the_same_edges_and_others(poisoned):
    graph = poisoned[2]
    little, usual, much = (
        edges_of(GARNET(k=0, caution=caution).purify(graph).ledger.dropped) for caution in (2.0, 7.0, 30.0)
    )
    assert little < usual < much


def test_the_unit_of_weights_does_not_matter(poisoned):
    graph = weighted_like(poisoned[2])
    once, fourfold = (GARNET().purify(graph.with_edges(graph.edges, unit * graph.weights)).graph for unit in (1, 4))
    np.testing.assert_array_equal(once.edges, fourfold.edges)
    np.testing.assert_allclose(4 * once.weights, fourfold.weights, rtol=1e-4)


def test_the_embedding_is_of_the_graph_without_what_was_planted(poisoned, result, classic):
    alone = GARNET().embed(poisoned[2])
    np.testing.assert_array_equal(alone.values, classic.spectrum.values)
    np.testing.assert_array_equal(alone.vectors, classic.spectrum.vectors)
    assert not np.allclose(alone.values, result.spectrum.values, atol=1e-3)


# --- the method's options --------------------------------------------------------------------------------------------


def test_gamma_as_an_absolute_value():
    graph = block_model(300, seed=1)
    result = GARNET(gamma=-0.5, gamma_unit="absolute", support=None).purify(graph)
    assert result.threshold == -0.5
    assert 0 < result.graph.num_edges < result.base.shape[1]
    assert result.ledger.kept_scores.min() >= -0.5


def test_weights():
    graph = block_model(300, seed=1)
    assert set(GARNET(weight="one").purify(graph).graph.weights) == {1.0}
    by_score = GARNET(weight="score", score="signed", gamma=0.0, gamma_unit="absolute").purify(graph)
    strong = by_score.scores > 0.1
    np.testing.assert_allclose(
        by_score.graph.adjacency[tuple(by_score.base[:, strong])], by_score.scores[strong], rtol=1e-6
    )
    similar = GARNET(support=0.3).purify(graph).graph.weights
    assert similar.max() <= 1 + 1e-6


def test_support_lets_input_edges_in():
    graph = block_model(300, mean_degree=40, seed=1)
    kept = [GARNET(k=5, gamma=0.0, support=s).purify(graph).ledger.kept.shape[1] for s in (None, 0.8, 0.4, 0.0)]
    assert kept == sorted(kept)
    assert kept[-1] == graph.num_edges


@pytest.mark.parametrize(("mean_degree", "k"), [(3.0, 12), (8.0, 7), (40.0, 0)])
def test_where_a_share_is_doubted_new_neighbours_make_up_for_what_a_sparse_graph_lacks(mean_degree, k):
    graph = block_model(400, mean_degree=mean_degree, exponent=50.0, seed=1)
    result = GARNET(support=0.3).purify(graph)
    assert 400 * k / 2 <= result.base.shape[1] <= 400 * k
    if not k:
        assert result.ledger.added.shape[1] == 0
        assert result.ledger.dropped.shape[1] == pytest.approx(0.3 * graph.num_edges, abs=2)


def test_distortion_of_a_dense_graph_that_gets_no_neighbours():
    graph = block_model(300, mean_degree=40, seed=1)
    result = GARNET(score="distortion", rank=10, support=0.3).purify(graph)
    assert result.ledger.added.shape[1] == 0
    assert np.isfinite(result.ledger.kept_scores).all()
    assert (result.ledger.kept_scores > 0).all()


def test_overlap_tells_edges_of_cliques_from_one_between_them():
    cliques = sp.kron(sp.eye_array(3), np.ones((20, 20)) - np.eye(20)).tolil()
    cliques[0, 25] = cliques[25, 0] = cliques[3, 50] = cliques[50, 3] = 1
    graph = as_graph(sp.csr_array(cliques))
    dropped = GARNET(rank=3, k=None, support=2 / graph.num_edges).purify(graph).ledger.dropped
    assert {(0, 25), (3, 50)} >= set(map(tuple, dropped.T.tolist())) != set()


def test_without_support_and_gamma_the_result_is_the_neighbour_graph():
    graph = block_model(300, mean_degree=20, seed=1)
    result = GARNET(support=None, gamma=0.0, k=6, rank=10).purify(graph)
    rows = result.spectrum.embedding.numpy()
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    away = np.square(rows[:, None] - rows[None]).sum(axis=2)
    np.fill_diagonal(away, np.inf)
    nearest = np.argsort(away, axis=1)[:, :6]
    expected = np.zeros((300, 300), dtype=bool)
    expected[np.arange(300)[:, None], nearest] = True
    np.testing.assert_array_equal(result.graph.adjacency.toarray() > 0, expected | expected.T)


def test_feature_weight_moves_the_balance():
    graph = block_model(300, homophily=0.9, seed=1)
    features = np.eye(5)[np.random.default_rng(0).integers(5, size=300)].astype(np.float32)  # nothing to do with labels
    groups = features.argmax(axis=1)

    def agreement(weight):
        purified = GARNET(feature_weight=weight, support=None).purify(as_graph(graph, features=features)).graph
        return (groups[purified.edges[0]] == groups[purified.edges[1]]).mean()

    assert agreement(0.0) < 0.4 < agreement(4.0)


def test_custom_solver_and_search_are_any_callables():
    calls = []

    def solver(matrix, rank, *, end, seed, device):
        calls.append("solver")
        return Arpack()(matrix, rank, end=end, seed=seed, device=device)

    def search(points, k, *, seed):
        calls.append("search")
        return Exact()(points, k, seed=seed)

    graph = block_model(300, seed=1)
    place = InMemory(solver=solver, neighbors=search)
    purifier = GARNET(support=0.3)
    assert purifier.purify(graph, place=place).graph == purifier.purify(graph).graph
    assert calls == ["solver", "search"]


def test_a_spectrum_that_is_known_is_cut_to_the_rank(poisoned):
    known = GARNET(rank=12).embed(poisoned[0])
    for rank in (12, 5):
        purifier = GARNET(rank=rank, k=5, support=0.3)
        ours, anew = (purifier.purify(poisoned[0], place=place) for place in (InMemory(spectrum=known), InMemory()))
        assert ours.spectrum.values == pytest.approx(anew.spectrum.values, abs=1e-5)
        shared = set(map(tuple, ours.graph.edges.T.tolist())) & set(map(tuple, anew.graph.edges.T.tolist()))
        assert len(shared) > 0.99 * anew.graph.num_edges


@pytest.mark.parametrize(("graph", "rank"), [(block_model(300, seed=0), 13), (block_model(200, seed=0), 12)])
def test_a_spectrum_of_too_few_pairs_or_other_nodes_is_refused(graph, rank):
    known = GARNET(rank=12).embed(block_model(300, seed=0))
    with pytest.raises(ParameterError, match="12 eigenpairs of 300 nodes"):
        GARNET(rank=rank, support=0.3).purify(graph, place=InMemory(spectrum=known))


def test_a_device_beside_a_place_is_refused():
    with pytest.raises(ParameterError, match=r"'cuda' is said beside a place"):
        GARNET().purify(block_model(60, seed=0), place=InMemory(), device="cuda")


def test_a_purifier_is_a_value():
    assert GARNET(k=3) == GARNET(k=3) != GARNET(k=4)
    assert len({GARNET(k=3), GARNET(k=3), GARNET()}) == 2
    assert InMemory(neighbors="exact") == InMemory(neighbors="exact") != InMemory()


# --- PyTorch Geometric -----------------------------------------------------------------------------------------------


def pyg_cora():
    data = cora().to_pyg()
    data.train_mask = torch.arange(2485) < 140
    data.note = "kept"
    return data


def test_a_data_comes_back_as_a_data():
    data = pyg_cora()
    edges = data.edge_index.clone()
    purified = GARNET()(data)
    assert isinstance(purified, Data)
    assert torch.equal(data.edge_index, edges)
    assert purified.x is data.x
    assert torch.equal(purified.train_mask, data.train_mask)
    assert purified.note == "kept"
    assert purified.validate()
    assert purified.is_undirected()
    assert not purified.has_self_loops()
    assert purified.edge_weight.shape == (purified.num_edges,)
    assert as_graph(purified).adjacency.nnz == GARNET().purify(as_graph(data)).graph.adjacency.nnz


def test_a_transform_in_a_compose():
    purified = Compose([NormalizeFeatures(), GARNET(k=5)])(pyg_cora())
    assert purified.edge_weight.min() > 0
    np.testing.assert_allclose(purified.x.sum(dim=1), 1, atol=1e-5)


def test_a_dataset_s_transform():
    dataset = FakeDataset(num_graphs=2, avg_num_nodes=60, transform=GARNET(k=4))
    assert all(data.edge_weight.shape == (data.num_edges,) for data in dataset)


@pytest.mark.filterwarnings("ignore:Unable to accurately infer:UserWarning")
def test_what_else_a_data_may_be_like():
    graph = block_model(60, seed=0)
    data = Data(edge_index=graph.to_pyg().edge_index)
    data.adj_t = "the old edges"
    purified = GARNET(gamma=0.9)(data)
    assert purified.num_nodes == data.num_nodes
    assert "adj_t" not in purified
    data.y = torch.full((data.num_nodes,), 1_700_000_000)
    data.train_mask = [True] * data.num_nodes
    data.x = np.ones((data.num_nodes, 3))
    assert GARNET()(data).y is data.y


def test_other_graphs_than_data_come_back_as_graphs():
    graph = block_model(60, seed=0)
    assert GARNET()(graph.adjacency) == GARNET().purify(as_graph(graph.adjacency)).graph
    assert GARNET()(graph.to_networkx()).num_nodes == 60


def test_numbers_of_numpy_are_numbers():
    graph = block_model(60, seed=0)
    numbers = GARNET(k=np.int64(5), rank=np.int64(5), seed=np.int64(1), gamma=np.float32(0.5))
    assert numbers.purify(graph).graph == GARNET(k=5, rank=5, seed=1, gamma=0.5).purify(graph).graph


def test_data_without_features_labels_or_integer_labels():
    graph = block_model(100, seed=0)
    data = graph.to_pyg()
    data.y = torch.randn(100, 2)
    del data.edge_weight
    assert GARNET()(data).y is data.y


# --- presets ---------------------------------------------------------------------------------------------------------


def test_presets_follow_the_published_configurations():
    plain = GARNET.paper("cora", "gcn", budget=0)
    assert (plain.rank, plain.k, plain.gamma, plain.features) == (50, 30, 3e-4, "propagated")
    assert GARNET.paper("cora", "gcn").features == "none"
    assert GARNET.paper("cora", "gprgnn").features == "propagated"
    assert GARNET.paper("citeseer", "gcn", attack="nettack", budget=5).k == 10
    assert GARNET.paper("chameleon", "gprgnn").scaling == "standardize"
    assert GARNET.paper("chameleon", "h2gcn", attack="nettack").scaling == "none"
    assert not GARNET.paper("squirrel", "gprgnn").normalize
    with pytest.raises(ParameterError, match="No parameters were published for 'coral with gcn'; try cora with gcn"):
        GARNET.paper("coral", "gcn")
    with pytest.raises(ParameterError, match="try metattack or nettack"):
        GARNET.paper("cora", "gcn", attack="dice")


def test_published_training_follows_the_configurations_and_the_text():
    backbone, training = published_model("pubmed", "gcn", "metattack", 0.2)
    assert (backbone.layers, backbone.dropout, training.epochs, training.weight_decay) == (3, 0.9, 150, 5e-4)
    backbone, training = published_model("pubmed", "gcn", "metattack", 0.2, defended=False)
    assert (backbone.layers, backbone.hidden, training.epochs) == (2, 16, 200)
    backbone, training = published_model("pubmed", "gprgnn", "nettack", 1)
    assert (backbone.alpha, backbone.dropout, training.lr, training.warmup) == (0.5, 0.1, 0.003, 281)
    assert published_model("pubmed", "gprgnn", "nettack", 5)[1].lr == 0.009
    assert published_model("chameleon", "h2gcn", "metattack", 0.2)[1].lr == 0.01
    assert published_model("citeseer", "gcn", "nettack", 3)[1].epochs == 20
    with pytest.raises(ParameterError, match="No training was published for ogbn-arxiv; try chameleon, citeseer"):
        published_model("ogbn-arxiv", "gcn", "metattack", 0.2)


def test_a_preset_purifies():
    result = GARNET.paper("cora", "gcn").purify(cora())
    assert result.graph.weights.min() >= 3e-4
    assert result.threshold == 3e-4


def test_public_names():
    assert set(garnet.__all__) <= set(dir(garnet))
    assert all(getattr(garnet, name) for name in garnet.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Garnet'"):
        garnet.Garnet  # noqa: B018


@pytest.mark.parametrize("support", [0.05, 0.2])
def test_without_neighbours_edges_are_dropped_and_nothing_else_is_changed(support):
    rng = np.random.default_rng(0)
    graph = cora()
    weighted = graph.with_edges(graph.edges, rng.uniform(0.5, 2, graph.num_edges))
    result = GARNET(k=0, support=support).purify(weighted)
    assert result.ledger.added.shape[1] == 0
    assert result.ledger.dropped.shape[1] == pytest.approx(support * graph.num_edges, rel=0.02)
    kept = result.graph.adjacency
    assert (kept != weighted.adjacency.multiply(kept != 0)).nnz == 0


def test_only_drop_adds_nothing_and_keeps_doubted_edges_between_near_neighbours():
    rng = np.random.default_rng(0)
    graph = cora()
    weighted = graph.with_edges(graph.edges, rng.uniform(0.5, 2, graph.num_edges))
    result, usual, alone = (
        GARNET(support=0.3, **other).purify(weighted) for other in ({"only_drop": True}, {}, {"k": 0})
    )
    assert result.ledger.added.shape[1] == 0
    kept = result.graph.adjacency
    assert (kept != weighted.adjacency.multiply(kept != 0)).nnz == 0
    assert alone.graph.num_edges < result.graph.num_edges < graph.num_edges
    # Of the input nothing is lost that the purifier would have kept, but where near neighbours are few.
    assert result.ledger.share_dropped(usual.ledger.kept) < 0.02


def test_only_drop_with_other_weights_is_refused():
    with pytest.raises(ParameterError, match="'auto' with only_drop"):
        GARNET(only_drop=True, weight="one")
