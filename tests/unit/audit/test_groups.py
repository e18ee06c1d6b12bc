import csv
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from garnet import as_graph
from garnet.audit import audit
from garnet.audit.groups import dense_groups
from garnet.datasets import block_model, class_features, cora


def ringed(seed, sides, *, rings=2, exponent=3.5):
    """A graph of circles of people whose profiles are known, with rings of strangers in it, and their members."""
    drawn = block_model(600, classes=30, mean_degree=12, homophily=0.95, exponent=exponent, seed=seed)
    chosen = np.random.default_rng(seed + 100).permutation(600)[: rings * sum(sides)].reshape(rings, -1)
    new = []
    for members in chosen:
        if len(sides) == 1:
            new.append(members[np.array(np.triu_indices(len(members), 1))])
        else:
            new.append(np.array([(one, other) for one in members[: sides[0]] for other in members[sides[0] :]]).T)
    edges = np.sort(np.concatenate([drawn.edges, *new], axis=1), axis=0)
    features = class_features(drawn.labels, dim=8, signal=4.0, seed=seed)
    return as_graph(drawn.with_edges(edges), features=features), chosen


def members_of(found):
    return {int(node) for one in found.groups() for node in one.members}


@pytest.mark.parametrize("sides", [(10,), (6, 6), (10, 10)])
def test_rings_of_strangers_are_found_and_little_else(sides):
    caught = wanted = named = 0
    for seed in range(3):
        graph, chosen = ringed(seed, sides)
        named_now, ring = members_of(audit(graph)), set(chosen.ravel().tolist())
        caught, wanted, named = caught + len(ring & named_now), wanted + len(ring), named + len(named_now)
    assert caught / wanted > 0.9
    assert caught / named > 0.9


@pytest.mark.parametrize("exponent", [2.2, 3.5])
def test_of_a_graph_without_rings_hardly_anybody_is_in_a_group(exponent):
    named = 0
    for seed in range(3):
        graph, _ = ringed(seed, (0,), rings=1, exponent=exponent)
        named += len(members_of(audit(graph))) + len(members_of(audit(replace(graph, features=None))))
    assert named / (6 * 600) < 0.01


def test_cora_which_nobody_attacked_has_none():
    assert audit(cora()).groups() == ()


@pytest.fixture(scope="module")
def found():
    graph, _ = ringed(1, (12,))
    return audit(as_graph(graph, names=[f"<b>{number}" for number in range(600)]))


def test_a_group_is_what_it_says(found):
    assert found.groups()
    seen = set()
    for one in found.groups():
        assert not seen & set(one.members.tolist())
        seen |= set(one.members.tolist())
        inside = np.isin(found.edges, one.members).all(axis=0)
        assert sorted(one.edges.tolist()) == np.flatnonzero(inside).tolist()
        assert (np.diff(found.group_suspicion[one.edges]) <= 0).all()
        assert one.names.tolist() == found.graph.names[one.members].tolist()
        usual = found.group_suspicion.mean()
        above = np.clip((found.group_suspicion[one.edges] - usual) / (1 - usual), 0, None)
        assert one.score == pytest.approx(above.sum() / len(one.members))
    scores = [one.score for one in found.groups()]
    assert scores == sorted(scores, reverse=True)


def test_a_ring_that_nobody_judged_is_still_one_when_another_was_refuted():
    graph, chosen = ringed(1, (12,))
    rings = [np.isin(graph.edges, ring).all(axis=0) for ring in chosen]
    true = np.flatnonzero(~rings[0] & ~rings[1])[:30]
    told = audit(graph, refuted=graph.edges.T[rings[0]], confirmed=graph.edges.T[true])
    assert {frozenset(one.members.tolist()) for one in told.groups()} == {frozenset(ring.tolist()) for ring in chosen}


def test_tables_say_who_is_in_which_group(found, tmp_path):
    nodes, edges = found.node_table(), found.edge_table()
    for number, one in enumerate(found.groups(), start=1):
        assert set(nodes["node"][nodes["group"] == number]) == set(one.names)
        assert (edges["group"] == number).sum() == len(one.edges)
    assert (nodes["group"] == 0).sum() == 600 - len(members_of(found))


def test_the_command_writes_the_members_and_the_report_draws_them(found, command, tmp_path):
    found.graph.save(tmp_path / "graph.npz")
    line = ("--groups", tmp_path / "groups.csv", "--report", tmp_path / "page.html")
    status, told, _ = command("audit", tmp_path / "graph.npz", *line, "--top", 0)
    assert status == 0
    assert f"{len(members_of(found))} nodes" in told
    with (tmp_path / "groups.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["node"] for row in rows} == {name for one in found.groups() for name in one.names}
    assert sum(int(row["edges"]) for row in rows) == 2 * sum(len(one.edges) for one in found.groups())
    page = (tmp_path / "page.html").read_text()
    assert page.count('<svg class="ring"') == len(found.groups())
    pictures = page.split('<div class="rings">')[1].split("</section>")[0]
    assert pictures.count("<line") == sum(len(one.edges) for one in found.groups())
    assert "<b>" not in pictures


def test_where_there_are_no_groups_their_table_is_empty(command, tmp_path):
    block_model(80, seed=0).save(tmp_path / "graph.npz")
    assert command("audit", tmp_path / "graph.npz", "--groups", tmp_path / "groups.csv")[0] == 0
    assert (tmp_path / "groups.csv").read_text().split() == ["group,score,node,edges"]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(8, 16), st.integers(1, 4))
def test_rings_among_edges_that_are_suspicious_by_chance(seed, size, count):
    rng = np.random.default_rng(seed)
    graph = block_model(1000, mean_degree=10, seed=7)
    rings = rng.permutation(1000)[: size * count].reshape(count, size)
    pairs = np.concatenate([one[np.array(np.triu_indices(size, 1))] for one in rings], axis=1)
    whole = graph.with_edges(np.concatenate([graph.edges, np.sort(pairs, axis=0)], axis=1))
    where = np.full(1000, -1)
    for number, one in enumerate(rings):
        where[one] = number
    ends = where[whole.edges]
    inside = (ends[0] == ends[1]) & (ends[0] >= 0)
    suspicion = np.where(inside | (rng.random(whole.num_edges) < 0.05), 0.9, 0.02)
    found = dense_groups(whole.edges, suspicion, 1000, usual=float(suspicion.mean()))
    assert {frozenset(members.tolist()) for members, _ in found} == {frozenset(one.tolist()) for one in rings}
    again = dense_groups(whole.edges, suspicion, 1000, usual=float(suspicion.mean()))
    assert [members.tolist() for members, _ in again] == [members.tolist() for members, _ in found]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.3))
def test_suspicion_that_lies_anywhere_makes_few_groups(seed, share):
    rng = np.random.default_rng(seed)
    graph = block_model(400, mean_degree=10, seed=3)
    suspicion = np.where(rng.random(graph.num_edges) < share, 0.9, 0.05)
    assert len(dense_groups(graph.edges, suspicion, 400, usual=float(suspicion.mean()))) <= 1
