"""What every attack promises, whoever wrote it; a new name is tested once it is registered."""

import re
from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from garnet import GARNET, Budget, Perturbation, Split, as_graph
from garnet.attacks import Attack, Stop
from garnet.backbones import GCN
from garnet.datasets import contextual_block_model
from garnet.defenses import Purified
from garnet.errors import BudgetError, GarnetError, GraphError, ParameterError
from garnet.registry import ATTACKS
from garnet.training import Training

NAMES = ATTACKS.names()
BUDGET = 6
QUICK = {
    "query-search": {"queries": 12},
    "poisoning-search": {"queries": 8, "trainings": 1},
    "adaptive-search": {"queries": 12},
    "adaptive-features": {"rounds": 3},
    "false-neighbors": {"rounds": 3},
}
"""Of attacks that run a whole defence many times: on sixty nodes, fewer times show as much."""
LIGHT = Purified(GARNET(rank=4, k=2, support=0.3), GCN(hidden=8), Training(epochs=20))
"""What attacks that are built for a defence are built for; their own default is tried in the slow tests."""


def built(name, *, light=True):
    knows = any(field.name == "defense" for field in fields(ATTACKS.get(name)))
    return ATTACKS.build(name, QUICK.get(name, {}) | ({"defense": LIGHT} if knows and light else {}))


def whole_graph(n=60, *, sparse=False, weights=None):
    """Three classes, words that tell of them, every part of a split, and no isolated node but the last."""
    bare = contextual_block_model(n, classes=3, features=10, signal=2.0, mean_degree=5, seed=3)
    ring = np.stack([np.arange(n - 1), (np.arange(n - 1) + 1) % (n - 1)])
    edges = np.concatenate([bare.edges[:, (bare.edges < n - 1).all(axis=0)], ring], axis=1)
    graph = as_graph((edges, n), symmetrize=True)
    if weights is not None:
        graph = graph.with_edges(graph.edges, np.random.default_rng(0).uniform(*weights, graph.num_edges))
    words = (bare.features > 0.3).astype(np.float32)
    order = np.random.default_rng(1).permutation(n - 1)
    split = Split(np.sort(order[:12]), np.sort(order[12:18]), np.sort(order[18:]))
    return as_graph(graph, features=sp.csr_array(words) if sparse else words, labels=bare.labels, split=split)


GRAPH = whole_graph(sparse=True)
TARGETS = GRAPH.split.test[:3]


def ways(name, *, light=True):
    """An attack, and keyword arguments of calls that it allows, by what they are."""
    attack = built(name, light=light)
    calls = {}
    if attack.scope != "local":
        calls["whole graph"] = {"budget": str(BUDGET)}
    if attack.scope != "global":
        calls["targets"] = {"budget": str(BUDGET), "targets": TARGETS}
        calls["each target"] = {"budget": "2/target", "targets": TARGETS}
    return attack, calls


def bytes_of(graph):
    matrix, words, split = graph.adjacency, graph.features, graph.split
    arrays = [matrix.data, matrix.indices, matrix.indptr, graph.labels, split.train, split.val, split.test]
    arrays += [words.data, words.indices, words.indptr] if sp.issparse(words) else [words]
    return [array.tobytes() for array in arrays]


def require_promises(made, graph, attack):
    assert isinstance(made, Perturbation)
    assert 0 < made.num_changes <= BUDGET
    first, second = made.edges
    assert (first < second).all()
    assert (first >= 0).all()
    assert (second < graph.num_nodes).all()
    assert np.unique(made.edges, axis=1).shape == made.edges.shape
    assert np.unique(made.entries.places, axis=1).shape == made.entries.places.shape
    if attack.changes == "entries":
        assert not made.edges.size
    attacked = made.apply(graph)
    assert attacked != graph
    assert made.apply(attacked) == graph
    assert made.fingerprint == graph.fingerprint
    assert made.result == attacked.fingerprint


@pytest.mark.parametrize("light", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["light", "as built"])
@pytest.mark.parametrize("name", NAMES)
def test_promises(name, light, tmp_path):
    attack, calls = ways(name, light=light)
    assert isinstance(attack, Attack)
    before = bytes_of(GRAPH)
    states = torch.get_rng_state(), np.random.get_state()[1].tobytes()  # noqa: NPY002
    for arguments in calls.values():
        made = attack(GRAPH, seed=2, **arguments)
        require_promises(made, GRAPH, attack)
        assert (made.attack, made.seed, made.complete) == (name, 2, True)
        assert made.targets.tolist() == list(arguments.get("targets", []))
        # Same seed, same bytes; and what is saved comes back.
        for file, one in (("one.npz", made), ("other.npz", built(name, light=light)(GRAPH, seed=2, **arguments))):
            one.save(tmp_path / file)
        assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()
        assert Perturbation.load(tmp_path / "one.npz") == made
    assert bytes_of(GRAPH) == before
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tobytes() == states[1]  # noqa: NPY002


@pytest.mark.parametrize("graph", [whole_graph(), whole_graph(weights=(0.1, 5))], ids=["dense words", "weighted"])
@pytest.mark.parametrize("name", NAMES)
def test_promises_on_other_graphs(name, graph):
    attack, calls = ways(name)
    before = bytes_of(graph)
    made = attack(graph, **next(iter(calls.values())))
    require_promises(made, graph, attack)
    assert bytes_of(graph) == before


class StopAfter:
    """A progress callback that ends an attack once it has made so many changes, and does not change its mind."""

    def __init__(self, changes):
        self.changes, self.over = changes, False

    def __call__(self, step):
        self.over |= step.detail in ("edges", "entries") and step.done >= self.changes
        if self.over:
            raise Stop


@pytest.mark.parametrize("name", NAMES)
def test_stopped_it_has_begun_and_it_goes_on_as_if_it_had_not_been(name):
    attack, calls = ways(name)
    for arguments in [call for kind, call in calls.items() if kind != "targets"]:
        whole = attack(GRAPH, seed=1, **arguments)
        if not attack.goes_on:
            with pytest.raises(ParameterError, match="decides at its end and cannot go on"):
                attack(GRAPH, seed=1, resume=whole, **arguments)
            continue
        for changes in {1, whole.num_changes // 2}:
            part = attack(GRAPH, seed=1, progress=StopAfter(changes), **arguments)
            assert not part.complete
            assert 0 < part.num_changes < whole.num_changes
            done, places = part.edges.shape[1], len(part.entries)
            assert part.edges.tolist() == whole.edges[:, :done].tolist()
            assert part.entries.places.tolist() == whole.entries.places[:, :places].tolist()
            assert part.apply(part.apply(GRAPH)) == GRAPH
            assert attack(GRAPH, seed=1, resume=part, **arguments) == whole


@pytest.mark.parametrize("name", NAMES)
def test_stopped_at_once_it_has_done_nothing_or_little(name):
    attack, calls = ways(name)

    def at_once(step):
        assert step.stage == name
        raise Stop

    for arguments in calls.values():
        made = attack(GRAPH, progress=at_once, **arguments)
        assert not made.complete
        assert made.num_changes <= BUDGET
        assert made.apply(made.apply(GRAPH)) == GRAPH


SENTENCE = r"^[A-Z'][^\n]*\.$"


@pytest.mark.parametrize("missing", ["features", "labels", "split"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_is_said(name, missing):
    attack, calls = ways(name)
    graph = replace(GRAPH, **{missing: None})
    for arguments in calls.values():
        if missing in attack.needs:
            with pytest.raises(
                GraphError, match=rf"^The graph has no ({missing}|training nodes), and the attack {name} "
            ):
                attack(graph, **arguments)
            continue
        try:
            made = attack(graph, **arguments)
        except GraphError as error:
            said = str(error)
        else:
            said = "Nothing was missing."
            assert 0 < made.num_changes <= BUDGET
        assert re.match(SENTENCE, said)


@pytest.mark.parametrize("name", NAMES)
def test_budgets_that_are_none_or_too_much(name):
    attack, calls = ways(name)
    n, (rows, columns) = GRAPH.num_nodes, GRAPH.features.shape
    most = n * (n - 1) // 2 if attack.changes == "edges" else rows * columns
    other = Budget.entries(1) if attack.changes == "edges" else Budget.edges(1)
    for arguments in calls.values():
        for budget in ("0", "-1", "0%", "0.0001%", str(most + 1), "1e9", "99999999%", Budget.fraction(1e300), other):
            with pytest.raises(BudgetError, match=SENTENCE):
                attack(GRAPH, **{**arguments, "budget": budget})


@pytest.mark.parametrize("name", NAMES)
def test_targets_that_make_no_sense(name):
    attack = built(name)
    if attack.scope == "global":
        with pytest.raises(ParameterError, match=f"The attack {name} is on the whole graph and takes no targets"):
            attack(GRAPH, budget="2", targets=TARGETS)
        return
    if attack.scope == "local":
        with pytest.raises(ParameterError, match=f"The attack {name} needs targets"):
            attack(GRAPH, budget="2")
    with pytest.raises(ParameterError, match=r"The target 60 does not exist: nodes are 0 to 59\."):
        attack(GRAPH, budget="2", targets=[0, 60])
    with pytest.raises(ParameterError, match="must be node numbers, at least one"):
        attack(GRAPH, budget="2", targets=[])
    if attack.changes == "edges":
        with pytest.raises(ParameterError, match=r"The target 59 has no edges"):
            attack(GRAPH, budget="2", targets=[59])
    if attack.spares_training:
        with pytest.raises(ParameterError, match="is a training node"):
            attack(GRAPH, budget="2", targets=GRAPH.split.train[:1])


def with_edges(pairs, n=12):
    labels = np.arange(n) % 3
    words = np.random.default_rng(n).integers(0, 2, (n, 5))
    split = Split(np.arange(0, n // 2), np.arange(n // 2, n // 2 + 2), np.arange(n // 2 + 2, n))
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return as_graph((edges, n), features=words, labels=labels, split=split, symmetrize=True)


STRANGE = {
    "no edges": with_edges([]),
    "complete": with_edges([(one, other) for one in range(12) for other in range(one)]),
    "star": with_edges([(0, other) for other in range(1, 12)]),
    "one edge": with_edges([(10, 11)]),
    "one class": as_graph(with_edges([(i, i + 1) for i in range(11)]), labels=np.zeros(12, dtype=int)),
    "no words at all": as_graph(with_edges([(i, i + 1) for i in range(11)]), features=np.zeros((12, 5))),
    "few labels": as_graph(with_edges([(i, i + 1) for i in range(11)]), labels=[0, 1, 2, 0, 1, 2, *[-1] * 6]),
}


@pytest.mark.parametrize(
    "kind",
    [kind if kind in ("no edges", "few labels") else pytest.param(kind, marks=pytest.mark.slow) for kind in STRANGE],
)
@pytest.mark.parametrize("name", NAMES)
def test_strange_graphs_give_a_perturbation_or_one_sentence(name, kind):
    attack, graph = built(name), STRANGE[kind]
    targets = None if attack.scope == "global" else [11]
    for given in {None, None if targets is None else tuple(targets)}:
        if given is None and attack.scope == "local":
            continue
        try:
            made = attack(graph, budget="3", targets=given)
        except GarnetError as error:
            said = str(error)
        else:
            said = "All is well."
            assert made.num_changes <= 3
            assert made.apply(made.apply(graph)) == graph
        assert re.match(SENTENCE, said)
