"""Which nodes are for training, validation and testing: drawn at random, or read from published files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from garnet.errors import GraphError, ParameterError, brief
from garnet.graph.graph import Split
from garnet.io.archive import Archive, read_npy
from garnet.io.arrays import as_array
from garnet.io.text import read_text, reading
from garnet.parameters import Seed, is_number, require_arguments

_PARTS = ("train", "val", "test")


def random_split(labels: ArrayLike | None, *, train: float = 0.1, val: float = 0.1, seed: int = 0) -> Split:
    """Draw a split in which every part has its share of every class.

    A class of c nodes gives round(c * train) to training, round(c * val) to validation, and the rest to testing; the
    numbers are adjusted so that every part has at least one of its nodes.

    Args:
        labels: (n,) classes, negative if unknown; nodes without a label are in no part.
        train: share of the labelled nodes for training.
        val: share of the labelled nodes for validation; testing has the rest.
        seed: the same seed gives the same split.

    Returns:
        The split, each part in ascending order.

    Raises:
        ParameterError: a share is not positive, nothing is left for testing, or the seed is negative.
        GraphError: there are no labels, or a class has fewer than three nodes.

    Example:
        >>> split = random_split([0, 0, 0, 1, 1, 1, -1])
        >>> len(split.train), len(split.val), len(split.test)
        (2, 2, 2)
    """
    require_split(train, val, seed)
    classes = one_label_a_node([] if labels is None else labels)
    known = np.flatnonzero(classes >= 0)
    if not len(known):
        raise GraphError("No node has a label, so there is nothing to split; give labels or a split of your own.")
    _, own, counts = np.unique(classes[known], return_inverse=True, return_counts=True)
    if counts.min() < 3:
        raise GraphError(
            f"There are too many classes for the split: {np.count_nonzero(counts < 3)} of {len(counts)} have fewer "
            "than three nodes, so not one for every part; join them or drop their labels."
        )
    for_train = np.clip(np.rint(train * counts), 1, counts - 2)
    for_val = np.clip(np.rint(val * counts), 1, counts - for_train - 1)

    shuffled = np.random.default_rng(seed).permutation(len(known))
    order = shuffled[np.argsort(own[shuffled], kind="stable")]
    rank = np.empty(len(known), dtype=np.int64)
    rank[order] = np.arange(len(known)) - np.repeat(np.cumsum(counts) - counts, counts)
    part = (rank >= for_train[own]).astype(np.int8) + (rank >= (for_train + for_val)[own])
    return Split(*(known[part == number] for number in range(3)))


def require_split(train: float, val: float, seed: int) -> None:
    """Refuse, in one sentence, arguments that no random split can be drawn with.

    Raises:
        ParameterError: a share is not positive, nothing is left for testing, or the seed is not valid.
    """
    if not (is_number(train) and is_number(val) and train > 0 and val > 0 and train + val < 1):
        raise ParameterError(
            "The 'train' and 'val' parameters of random_split must be positive and leave something for testing. "
            f"Got {brief(train)} and {brief(val)} instead."
        )
    require_arguments("random_split", seed=(seed, Seed))


def read_node_lists(path: Path) -> Split:
    """The split in a JSON file, as in Pro-GNN: lists of node numbers `idx_train`, `idx_val` and `idx_test`.

    Raises:
        GraphError: the file is missing or holds something else.
    """
    with reading(path):
        found = _read_json(path)
        return Split(*(_node_list(found, f"idx_{part}") for part in _PARTS))


def read_geom_gcn(path: Path) -> Split:
    """The split in a Geom-GCN .npz file: masks `train_mask`, `val_mask` and `test_mask`, one entry per node.

    Raises:
        GraphError: the file is missing or holds something else.
    """
    with reading(path):
        path.stat()  # to report a missing file, which the archive would call damaged
        with Archive(path) as archive:
            masks = [archive.read(f"{part}_mask", "biu", ndim=1) for part in _PARTS]
        if len({len(mask) for mask in masks}) > 1:
            raise GraphError(f"its masks have different lengths, {', '.join(str(len(mask)) for mask in masks)}.")
        if any(((mask != 0) & (mask != 1)).any() for mask in masks):
            raise GraphError("its masks have entries other than 0 and 1.")
        return Split(*(np.flatnonzero(mask) for mask in masks))


def read_targets(path: Path) -> NDArray[np.int64]:
    """The target nodes of an attack, in ascending order.

    They are the list `attacked_test_nodes` of a `.json` file, or the array of integers in an `.npy` file.

    Raises:
        GraphError: the file is missing or holds something else.
    """
    with reading(path):
        listed = path.suffix == ".json"
        targets = (
            _node_list(_read_json(path), "attacked_test_nodes")
            if listed
            else np.sort(read_npy(path, "iu", ndim=1).astype(np.int64))
        )
        if not len(targets) or targets[0] < 0 or len(np.unique(targets)) < len(targets):
            raise GraphError("its targets must be distinct node numbers >= 0, at least one.")
        return targets


def aimed_at(split: Split | None, targets: NDArray[np.int64]) -> Split:
    """The same split with an attack's targets for testing, and none of them in another part."""
    nothing = np.zeros(0, dtype=np.int64)
    train, val = (nothing, nothing) if split is None else (split.train, split.val)
    return Split(train[~np.isin(train, targets)], val[~np.isin(val, targets)], targets)


def one_label_a_node(labels: ArrayLike | None) -> NDArray[np.int64]:
    """Integer labels, one per node.

    Raises:
        GraphError: they are something else.
    """
    array = as_array(labels, "Labels")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise GraphError(f"Labels must be one integer a node. Got shape {array.shape}, dtype {array.dtype} instead.")
    return array.astype(np.int64)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except (RecursionError, ValueError) as error:
        raise error if isinstance(error, GraphError) else GraphError(f"it is not JSON ({error}).") from error


def _node_list(found: Any, key: str) -> NDArray[np.int64]:
    nodes = found.get(key) if isinstance(found, dict) else None
    # The type itself, since Python counts true among the integers.
    if not isinstance(nodes, list) or any(type(node) is not int or not 0 <= node < 2**63 for node in nodes):
        raise GraphError(f"it has no list '{key}' of node numbers.")
    return np.sort(np.array(nodes, dtype=np.int64))
