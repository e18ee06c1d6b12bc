import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from garnet import Split
from garnet.datasets import random_split
from garnet.datasets.splits import aimed_at, read_geom_gcn, read_node_lists, read_targets
from garnet.errors import GraphError, ParameterError


@st.composite
def labellings(draw):
    counts = draw(st.lists(st.integers(3, 60), min_size=1, max_size=6))
    labels = np.repeat(np.arange(len(counts)), counts)
    labels = np.concatenate([labels, np.full(draw(st.integers(0, 9)), -1)])
    return np.random.default_rng(draw(st.integers(0, 99))).permutation(labels)


@given(labellings(), st.floats(0.01, 0.7), st.floats(0.01, 0.29), st.integers(0, 2**40))
def test_every_part_has_its_share_of_every_class(labels, train, val, seed):
    split = random_split(labels, train=train, val=val, seed=seed)
    parts = [split.train, split.val, split.test]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.flatnonzero(labels >= 0))
    for label in range(labels.max() + 1):
        count = np.count_nonzero(labels == label)
        found = [np.count_nonzero(labels[part] == label) for part in parts]
        assert min(found) >= 1
        for number, share in zip(found, (train, val, 1 - train - val), strict=True):
            # A part may miss its share by rounding twice, or by the nodes that the other two must have.
            assert abs(number - share * count) <= 2
    assert all((np.diff(part) > 0).all() for part in parts)


def test_large_classes_are_split_to_the_nearest_node():
    labels = np.repeat([0, 1, 2], [1000, 10, 101])
    split = random_split(labels, train=0.6, val=0.2)
    assert np.bincount(labels[split.train]).tolist() == [600, 6, 61]
    assert np.bincount(labels[split.val]).tolist() == [200, 2, 20]


def test_a_seed_repeats_itself_and_only_itself():
    labels = np.arange(200) % 4
    assert random_split(labels, seed=3) == random_split(labels, seed=3)
    assert random_split(labels, seed=3) != random_split(labels, seed=4)


def test_nodes_are_drawn_alike():
    labels = np.arange(40) % 2
    counts = sum(np.bincount(random_split(labels, train=0.25, seed=seed).train, minlength=40) for seed in range(800))
    assert counts.sum() == 800 * 10
    # Each is binomial with mean 200 and deviation 12.2.
    assert np.abs(counts - 200).max() < 60


@pytest.mark.parametrize("shares", [(0, 0.1), (0.1, 0), (-0.1, 0.5), (0.5, 0.5), (0.9, 0.2), (float("nan"), 0.1)])
def test_shares_that_leave_a_part_empty_are_refused(shares):
    with pytest.raises(ParameterError, match=r"'train' and 'val' parameters of random_split must be positive"):
        random_split(np.zeros(10, dtype=int), train=shares[0], val=shares[1])


@pytest.mark.parametrize("seed", [-1, 1.5, None, True])
def test_seeds_that_are_none_are_refused(seed):
    with pytest.raises(ParameterError, match=r"'seed' parameter of random_split must be an integer from 0"):
        random_split(np.zeros(10, dtype=int), seed=seed)


@pytest.mark.parametrize(
    ("labels", "phrase"),
    [
        (None, "No node has a label"),
        ([], "No node has a label"),
        ([-1, -1, -1], "No node has a label"),
        ([0, 0, 0, 1, 1, 2], "too many classes for the split: 2 of 3 have fewer than three nodes"),
        ([[0, 0, 0]], "Labels must be one integer a node"),
        ([0.5, 0.5, 0.5], "Labels must be one integer a node"),
    ],
)
def test_labels_that_cannot_be_split(labels, phrase):
    with pytest.raises(GraphError, match=phrase):
        random_split(labels)


def test_prognn_file(tmp_path):
    path = tmp_path / "splits.json"
    path.write_text(json.dumps({"idx_train": [7, 2], "idx_val": [], "idx_test": [5, 0, 1]}))
    assert read_node_lists(path) == Split(np.array([2, 7]), np.zeros(0, int), np.array([0, 1, 5]))


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        (b"", "it is not JSON"),
        (b"{", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b'{"idx_train": "\xff"}', "it is not JSON"),
        (b"[]", "it has no list 'idx_train' of node numbers"),
        (b'{"idx_train": [1], "idx_test": [2]}', "it has no list 'idx_val' of node numbers"),
        (b'{"idx_train": {"0": 1}}', "it has no list 'idx_train'"),
        (b'{"idx_train": [1.5]}', "it has no list 'idx_train'"),
        (b'{"idx_train": [true]}', "it has no list 'idx_train'"),
        (b'{"idx_train": ["1"]}', "it has no list 'idx_train'"),
        (b'{"idx_train": [-1]}', "it has no list 'idx_train'"),
        (b'{"idx_train": [99999999999999999999]}', "it has no list 'idx_train'"),
    ],
)
def test_damaged_prognn_file(tmp_path, content, phrase):
    path = tmp_path / "splits.json"
    path.write_bytes(content)
    with pytest.raises(GraphError, match=rf"Cannot read .*splits\.json: {phrase}"):
        read_node_lists(path)


def test_geom_gcn_file(tmp_path):
    path = tmp_path / "split.npz"
    train = np.array([True, False, False, True])
    np.savez(path, train_mask=train, val_mask=np.array([0, 1, 0, 0]), test_mask=np.zeros(4, bool))
    assert read_geom_gcn(path) == Split(np.array([0, 3]), np.array([1]), np.zeros(0, int))


@pytest.mark.parametrize(
    ("masks", "phrase"),
    [
        ({"train_mask": np.ones(2, bool), "val_mask": np.ones(2, bool)}, "it has no array 'test_mask'"),
        (dict.fromkeys(("train_mask", "val_mask", "test_mask"), np.ones((2, 2), bool)), "must have 1 dimension"),
        (dict.fromkeys(("train_mask", "val_mask", "test_mask"), np.array([{}], object)), "holds Python objects"),
        (dict.fromkeys(("train_mask", "val_mask", "test_mask"), np.array([0, 2])), "entries other than 0 and 1"),
        (
            {"train_mask": np.ones(2, bool), "val_mask": np.ones(2, bool), "test_mask": np.ones(3, bool)},
            "different lengths, 2, 2, 3",
        ),
    ],
)
def test_damaged_geom_gcn_file(tmp_path, masks, phrase):
    path = tmp_path / "split.npz"
    np.savez(path, **masks)
    with pytest.raises(GraphError, match=rf"Cannot read .*split\.npz: .*{phrase}"):
        read_geom_gcn(path)


@pytest.mark.parametrize("reader", [read_node_lists, read_geom_gcn, read_targets])
def test_missing_file(tmp_path, reader):
    with pytest.raises(GraphError, match=r"Cannot read .*split: no such file"):
        reader(tmp_path / "split")


def test_targets_in_either_format(tmp_path):
    (tmp_path / "nodes.json").write_text('{"attacked_test_nodes": [9, 4], "idx_train": "whatever"}')
    np.save(tmp_path / "nodes.npy", np.array([9, 4], dtype=">i4"))
    for name in ("nodes.json", "nodes.npy"):
        targets = read_targets(tmp_path / name)
        assert targets.tolist() == [4, 9]
        assert targets.dtype == np.int64


@pytest.mark.parametrize(
    ("array", "phrase"),
    [
        (np.array([1.0, 2.0]), "makes no sense there"),
        (np.ones((2, 2), int), "makes no sense there"),
        (np.array([{"any": "object"}], object), "holds Python objects"),
        (np.array([3, 3]), "distinct node numbers"),
        (np.array([-1, 3]), "distinct node numbers"),
        (np.zeros(0, int), "distinct node numbers"),
    ],
)
def test_targets_of_the_wrong_kind(tmp_path, array, phrase):
    np.save(tmp_path / "nodes.npy", array)
    with pytest.raises(GraphError, match=rf"Cannot read .*nodes\.npy: .*{phrase}"):
        read_targets(tmp_path / "nodes.npy")


@pytest.mark.parametrize("damage", ["cut", "lying", "text", "empty"])
def test_damaged_targets(tmp_path, damage):
    path = tmp_path / "nodes.npy"
    np.save(path, np.arange(1000))
    whole = path.read_bytes()
    contents = {
        "cut": whole[:-80],
        "lying": whole.replace(b"(1000,)", b"(10**9,)").replace(b"10**9", b"99999999999"),
        "text": b"1 2 3\n",
        "empty": b"",
    }
    path.write_bytes(contents[damage])
    with pytest.raises(GraphError, match=r"Cannot read .*nodes\.npy: it (is not in NumPy's|declares \d+ bytes)"):
        read_targets(path)


def test_targets_leave_the_other_parts():
    split = Split(np.array([0, 1, 2]), np.array([3, 4]), np.array([5, 6, 7]))
    assert aimed_at(split, np.array([1, 4, 6])) == Split(np.array([0, 2]), np.array([3]), np.array([1, 4, 6]))
    assert aimed_at(None, np.array([6])) == Split(np.zeros(0, int), np.zeros(0, int), np.array([6]))
