"""What a purification is reckoned to take: in tiles, with more workers, and read and written."""

from dataclasses import replace

import pytest

from garnet import GARNET, OnDisk
from garnet.audit.estimate import estimate_audit
from garnet.places.cluster import Capacity
from garnet.places.costs import Sizes
from garnet.places.estimate import estimate
from garnet.places.graph_size import Extent
from garnet.purify.settings import Shape

LARGE = Extent(shape=Shape(nodes=2_000_000, edges=40_000_000, mean_degree=40.0), pairs=40_000_000)
METHOD = GARNET(k=10)


def costs(threads, *, at_once=1):
    """By stage, on workers with so many threads in all."""
    there = Capacity(threads=threads, at_once=at_once, memory=None)
    place = OnDisk(memory="8GB", parts=threads)
    cut = replace(place.cut(METHOD, 0, place.run()), at_once=at_once)
    return {cost.name: cost for cost in Sizes(METHOD.on(LARGE.shape), LARGE, cut, there).costs()}


def test_more_workers_share_what_they_can_and_read_more():
    one, many = costs(1), costs(32)
    assert many["tile"].seconds == pytest.approx(one["tile"].seconds)  # which nobody shares
    for stage in ("neighbours", "prune"):
        assert one[stage].seconds / 32 <= many[stage].seconds < one[stage].seconds / 8
    assert one["embed"].seconds / 32 < many["embed"].seconds < one["embed"].seconds
    assert many["embed"].read > one["embed"].read  # as every part reads the blocks of all


def test_tasks_of_one_process_share_its_memory():
    held = [costs(8, at_once=at_once)["prune"].memory for at_once in (1, 2)]
    assert held[0] < held[1] <= 8 * 10**9


def test_one_process_keeps_in_memory_what_workers_write():
    found = estimate(METHOD, LARGE, OnDisk(memory="32GB")).costs
    assert found[1].written < costs(1)["embed"].written / 10


def test_an_audit_embeds_four_times_and_purifies_as_often_where_labels_count():
    place = OnDisk(memory="8GB")
    found = {cost.name: cost for cost in estimate_audit(LARGE, place).costs}
    assert list(found) == ["tile", "reasons", "plant 1 of 3", "plant 2 of 3", "plant 3 of 3", "doubt"]
    embed = estimate(METHOD, LARGE, place).costs[1]
    assert found["reasons"].seconds > embed.seconds
    taught = replace(LARGE, shape=replace(LARGE.shape, features=20, classes=4), teaches=True)
    assert estimate_audit(taught, place).seconds > 1.1 * estimate_audit(replace(taught, teaches=False), place).seconds
    assert estimate_audit(LARGE).memory > 500 * LARGE.shape.edges
