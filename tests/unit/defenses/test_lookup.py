"""Defences by name, and purifiers before them."""

from dataclasses import dataclass

import pytest
import torch

from garnet import GARNET
from garnet.backbones import GCN, GPRGNN
from garnet.datasets import load
from garnet.defenses import TSVD, Defense, Purified
from garnet.defenses.lookup import defense_names, named_defense, takes_backbone, takes_training
from garnet.errors import ParameterError
from garnet.registry import DEFENSES
from garnet.training.loop import Training


def test_a_purifier_comes_before_a_backbone():
    assert named_defense("garnet", backbone="gcn", parameters={"k": 3}) == Purified(
        GARNET(k=3), GCN(), Training(), "cpu"
    )
    assert named_defense("none", backbone=GCN(hidden=5)).backbone == GCN(hidden=5)
    assert named_defense("none").backbone == GPRGNN()


def test_training_is_changed_or_replaced():
    own = TSVD().training
    assert named_defense("tsvd").training == own
    assert named_defense("tsvd", training={"epochs": 3}).training == Training(epochs=3)
    assert named_defense("tsvd", training=Training(lr=0.5)).training == Training(lr=0.5)
    assert named_defense("garnet", training={"epochs": 3}).training == Training(epochs=3)


@pytest.mark.parametrize("name", DEFENSES.names())
def test_what_a_defence_does_without_is_not_given_to_it(name):
    built = named_defense(name, backbone="gcn", training={})
    assert type(built) is DEFENSES.get(name)
    if takes_backbone(name):
        own = DEFENSES.build(name, {}).backbone
        assert built.backbone == (own if isinstance(own, GCN) else GCN())
        assert named_defense(name, backbone=GCN(hidden=3)).backbone == GCN(hidden=3)
    if takes_training(name):
        assert built.training == DEFENSES.build(name, {}).training


def test_unknown_names():
    assert {"none", "garnet", "tsvd"} <= set(defense_names())
    with pytest.raises(ParameterError, match=r"There is no defence named 'tvsd'\. Did you mean tsvd\?"):
        named_defense("tvsd")
    with pytest.raises(ParameterError, match=r"There is no parameter of defence 'tsvd' named 'ranks'\."):
        named_defense("tsvd", parameters={"ranks": 3})


def test_the_training_of_purified_is_that_of_the_defence_after_it():
    graph = load("cora", split="random")
    inner = TSVD(rank=5, training=Training(epochs=2))
    kept = Purified(None, inner).fit(graph)
    assert torch.equal(kept.logits(), inner.fit(graph).logits())
    changed = Purified(None, inner, Training(epochs=4)).fit(graph)
    assert torch.equal(changed.logits(), TSVD(rank=5, training=Training(epochs=4)).fit(graph).logits())


def test_a_training_for_a_defence_without_one_is_refused():
    @dataclass(frozen=True)
    class Constant(Defense):
        def _fit(self, graph, seeds, progress):
            raise NotImplementedError

    with pytest.raises(ParameterError, match=r"^Constant has no 'training' of its own; leave that of Purified out\.$"):
        Purified(None, Constant(), Training()).fit(load("cora", split="random"))
