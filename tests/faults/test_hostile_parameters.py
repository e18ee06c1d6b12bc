"""Whatever is given as a parameter, it works or is refused in one sentence that names it."""

from __future__ import annotations

import inspect
import pickle
import warnings
from dataclasses import MISSING, dataclass, fields, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from garnet import GARNET, InMemory, OnCluster, OnDisk
from garnet.attacks import DICE, Attack, Budget
from garnet.audit import audit
from garnet.backbones import GCN, GPRGNN, LinearGCN, TorchModule
from garnet.datasets import load, poisoned, random_split
from garnet.datasets.synthetic import (
    block_model,
    class_features,
    contextual_block_model,
    inter_class_edges,
    nested_block_model,
)
from garnet.defenses import Purified
from garnet.errors import ConvergenceWarning, GarnetError, ParameterError, RankWarning, RecallWarning
from garnet.graph.graph import as_graph
from garnet.neighbors.search import Cells
from garnet.registry import ATTACKS, BACKBONES, DEFENSES, PURIFIERS
from garnet.spectral import Arpack, Chebyshev
from garnet.training.loop import Training, train


class Hostile:
    """Raises whatever is asked of it."""

    def _refuse(self, *_):
        raise ZeroDivisionError

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __len__ = __iter__ = __repr__ = __str__ = _refuse
    __float__ = __int__ = __index__ = __getattr__ = __hash__ = __array__ = _refuse


class Liar:
    """Says that it is an integer."""

    __class__ = property(lambda self: int)


VALUES = {
    "None": None, "true": True, "false": False, "zero": 0, "one": 1, "two": 2, "minus one": -1, "a half": 0.5,
    "negative zero": -0.0, "tiny": 5e-324, "huge": 1e300, "nan": float("nan"), "inf": float("inf"),
    "minus inf": -float("inf"), "2^31": 2**31, "2^63": 2**63, "10^30": 10**30, "10^400": 10**400, "10^5000": 10**5000,
    "no text": "", "auto": "auto", "number in text": "3", "long text": "x" * 5000, "lone surrogate": "\ud800",
    "nul": "cpu\0", "lines": "a\nb", "gcn": "gcn", "bytes": b"cpu", "list": [1], "empty list": [], "tuple": (1, 2),
    "empty tuple": (), "tuple of text": ("a",), "dict": {}, "set": {1}, "array": np.zeros(2), "0-d array": np.array(1),
    "empty array": np.zeros(0), "np integer": np.int64(2), "np float": np.float32(0.5), "np nan": np.float32("nan"),
    "np bool": np.bool_(True), "np text": np.str_("auto"), "tensor": torch.ones(1), "complex": 1j,
    "decimal": Decimal(1), "fraction": Fraction(1, 2), "object": object(), "hostile": Hostile(), "liar": Liar(),
    "class": GCN, "hostile class": Hostile, "model": GCN(), "training": Training(), "device": torch.device("cpu"),
    "function": lambda *_, **__: None,
}  # fmt: skip

REGISTERED = [registry.get(name) for registry in (ATTACKS, DEFENSES, PURIFIERS, BACKBONES) for name in registry.names()]
KINDS = list(
    dict.fromkeys(
        [*REGISTERED, GARNET, InMemory, OnDisk, OnCluster, Purified, TorchModule, Training, Arpack, Chebyshev, Cells]
    )
)
NEEDED = {"build": torch.nn.Linear, "memory": "1GiB", "cluster": "tcp://127.0.0.1:9"}
FIELDS = [(kind, field) for kind in KINDS for field in fields(kind) if field.init]


def attempt(call, *arguments, **named):
    """What comes of a call, and the sentence if it is refused; any other error is one."""
    try:
        return call(*arguments, **named), ""
    except GarnetError as error:
        return None, sentence(error)


def sentence(error):
    """What a refusal says: one line that can be printed."""
    text = str(error)
    assert "\n" not in text
    assert len(text) < 500
    return text.encode().decode()


def needed_by(kind):
    """The parameters without which there is none of the kind."""
    return {one.name: NEEDED[one.name] for one in fields(kind) if one.default is one.default_factory is MISSING}


def made(kind, field, value):
    """An object with this parameter; None if it was refused, by its name."""
    one, said = attempt(kind, **needed_by(kind) | {field.name: value})
    assert one is not None or f"'{field.name}'" in said
    return one


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_parameter_is_taken_or_refused_by_its_name(value):
    for kind, field in FIELDS:
        one = made(kind, field, value)
        if one is not None:
            assert type(replace(one)) is kind


NEVER = ("nan", "np nan", "10^400", "10^5000", "bytes", "dict", "set", "array", "0-d array", "tensor", "complex",
         "decimal", "fraction", "object", "hostile", "liar")  # fmt: skip


@pytest.mark.parametrize("name", NEVER)
def test_what_no_parameter_can_be_is_refused_by_all(name):
    assert [(kind, field.name) for kind, field in FIELDS if made(kind, field, VALUES[name]) is not None] == []


def tiny_graph():
    graph = block_model(40, classes=2, mean_degree=4, seed=1)
    words = np.random.default_rng(0).random((40, 12)) < 0.3
    return as_graph(graph, features=words.astype(np.float32), split=random_split(graph.labels, seed=0))


GRAPH = tiny_graph()
TARGET = int(GRAPH.split.test[0])
QUICK = {"epochs": 2, "steps": 2, "fine_steps": 1, "rounds": 2, "outer_steps": 1, "inner_steps": 1, "queries": 4}
BRIEF = Training(epochs=2, lr=0.01)


def quick(one):
    """The same with fewer steps."""
    given = {field.name: getattr(one, field.name) for field in fields(one)}
    few = {name: most for name, most in QUICK.items() if name in given and given[name] > most}
    return replace(one, **few, **({"training": BRIEF} if "training" in given else {}))


def put_to_work(one, victim=None):
    """Have it do on a small graph what it is for."""
    one = quick(one)
    if isinstance(one, Attack):
        one(GRAPH, budget="2", targets=[TARGET] if one.scope == "local" else None, victim=victim)
    elif isinstance(one, Training):
        train(GPRGNN(hidden=4, hops=2), GRAPH, training=one)
    elif isinstance(one, Arpack | Chebyshev):
        GARNET(rank=3).purify(GRAPH, place=InMemory(solver=one))
    elif isinstance(one, Cells):
        GARNET(rank=3, k=3).purify(GRAPH, place=InMemory(neighbors=one))
    elif isinstance(one, InMemory | OnDisk):
        GARNET(rank=3, k=3).purify(GRAPH, place=one)
    elif hasattr(one, "purify"):
        one.purify(GRAPH)
    elif hasattr(one, "fit"):
        one.fit(GRAPH)
    else:
        train(one, GRAPH, training=BRIEF)


def require_work(cases, victim=None):
    """What was taken works, or is refused for the sake of the graph; with a victim, no surrogate is trained."""
    with warnings.catch_warnings():
        for warning in (ConvergenceWarning, RankWarning, RecallWarning, DeprecationWarning):
            warnings.simplefilter("ignore", warning)
        for one in cases:
            attempt(put_to_work, one, victim)


def taken(kind):
    """For each parameter, the objects that could be made; a function or a class of somebody's own may do anything."""
    # Nor is anything written to where a test does not look.
    others = ("build", "memory", "cluster", "output", "scratch")
    names = [field for field in fields(kind) if field.init and field.name not in others]
    values = [value for value in VALUES.values() if not inspect.isroutine(value)]
    found = [[one for value in values if (one := made(kind, field, value)) is not None] for field in names]
    return [objects for objects in found if objects]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_what_is_taken_works(kind):
    (victim,) = train(LinearGCN(), GRAPH, training=BRIEF)
    require_work((objects[place % len(objects)] for place, objects in enumerate(taken(kind))), victim)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_everything_that_is_taken_works(kind):
    require_work(one for objects in taken(kind) for one in objects)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not TorchModule])
def test_they_are_values(kind):
    one = kind(**needed_by(kind))
    assert replace(one) == one == pickle.loads(pickle.dumps(one))


FUNCTIONS = [
    (block_model, {"n": 20, "mean_degree": 4}),
    (nested_block_model, {"n": 60, "classes": 3, "branching": 2, "depth": 1, "mean_degree": 4}),
    (contextual_block_model, {"n": 20, "mean_degree": 4, "features": 3}),
    (partial(class_features, [0, 1, -1]), {"dim": 3, "signal": 1.0, "seed": 0}),
    (partial(inter_class_edges, GRAPH), {"count": 2, "seed": 0}),
    (partial(random_split, GRAPH.labels), {"train": 0.1, "val": 0.1, "seed": 0}),
    (partial(audit, GRAPH), {"seed": 0, "device": "cpu"}),
    (partial(train, graph=GRAPH), {"backbone": GCN(hidden=2), "seeds": [0], "training": BRIEF, "device": "cpu"}),
    (load, {"name": "cora", "split": "random", "seed": 0}),
    (poisoned, {"name": "cora", "attack": "metattack", "budget": 0.0, "split": "random", "seed": 0}),
    (GARNET.paper, {"dataset": "cora", "backbone": "gcn", "attack": "metattack", "budget": 0.2}),
    (Budget, {"kind": "edges", "amount": 3}),
    (Budget.parse, {"text": "3"}),
    (partial(DICE(), GRAPH), {"budget": "2", "seed": 0, "victim": None}),
]


@pytest.mark.parametrize(("function", "arguments"), FUNCTIONS)
def test_arguments_are_taken_or_refused(function, arguments):
    for name in arguments:
        for value in VALUES.values():
            if name != "training" or not isinstance(value, Training):
                attempt(function, **arguments | {name: value})


def numbers_of_garnet():
    return st.sampled_from(["rank", "k", "tau", "gamma", "support", "overlap", "sigma2", "feature_weight", "seed"])


@given(name=numbers_of_garnet(), value=st.floats() | st.integers() | st.integers(-(10**40), 10**40))
def test_any_number_is_stored_or_refused(name, value):
    one, said = attempt(GARNET, **{name: value})
    if one is None:
        assert said.startswith(f"The '{name}' parameter of GARNET must be ")
    else:  # an integer that no float is near to becomes the nearest
        assert getattr(one, name) in (value, float(value))


def test_numbers_of_numpy_become_those_of_python():
    one = GARNET(k=np.int64(3), support=np.float32(0.5), normalize=np.bool_(False), tau=1)
    assert [type(value) for value in (one.k, one.support, one.normalize, one.tau)] == [int, float, bool, float]
    assert type(Training(lr=[1, np.float64(0.1)]).lr) is tuple
    put_to_work(GPRGNN(alpha=1))


@pytest.mark.parametrize("size", ["9" * 25, "9" * 400, "1e9", "-8GB", "0", "", "8 parsecs", -1, 0, np.inf, 2**60, True])
def test_what_is_no_size_of_memory(size):
    with pytest.raises(ParameterError, match=r"^The 'memory' parameter of OnDisk must be a size of 1GiB or more"):
        OnDisk(memory=size)


def test_more_memory_than_a_machine_has_is_fine():
    assert OnDisk(memory="900TB").memory == "900TB"


@pytest.mark.parametrize(
    ("kind", "parameters", "wanted"),
    [
        (GARNET, {"rank": -3}, "an integer >= 1 or one of 'auto', 'low'. Got -3 instead."),
        (GARNET, {"k": -1}, "an integer >= 0. Got -1 instead."),
        (GARNET, {"support": np.zeros(2)}, "between 0 and 1, 'auto' or None. Got array([0., 0.]) instead."),
        (InMemory, {"solver": Chebyshev}, "a solver. Got <class "),
        (Chebyshev, {"growth": 0.5}, "a number above 1. Got 0.5 instead."),
        (Chebyshev, {"block": -4}, "an integer >= 1. Got -4 instead."),
        (Arpack, {"tol": -1}, "a number >= 0. Got -1 instead."),
        (Cells, {"recall": 7}, "above 0 and at most 1. Got 7 instead."),
        (Training, {"batch_size": 10**30}, f"an integer <= {2**31 - 1}. Got {10**30} instead."),
        (Purified, {"backbone": GCN}, "a backbone or a defense. Got <class "),
    ],
)
def test_sentences(kind, parameters, wanted):
    with pytest.raises(ParameterError) as refused:
        kind(**parameters)
    (name,) = parameters
    assert str(refused.value).startswith(f"The '{name}' parameter of {kind.__name__} must be {wanted}")


@pytest.mark.parametrize(
    ("purifier", "place"),
    [
        (GARNET(k=40), InMemory()),
        (GARNET(rank=40), InMemory()),
        (GARNET(features="raw"), InMemory()),
        (GARNET(), InMemory(device="meta")),
    ],
    ids=["k", "rank", "features", "device"],
)
def test_what_the_graph_does_not_allow_is_said_before_work_begins(purifier, place):
    begun = []
    with pytest.raises(ParameterError, match=r"parameter of (GARNET|InMemory)"):
        purifier.purify(as_graph(GRAPH.adjacency), place=place, progress=begun.append)
    assert not begun


def test_an_attack_of_ones_own_cannot_forget_to_look():
    @dataclass(frozen=True)
    class Mine(Attack):
        steps: int = 3
        rate: float = 0.1

        def _run(self, task):
            yield from ()

    assert Mine(rate=1).rate == 1.0
    for parameters in ({"steps": "many"}, {"steps": 2.5}, {"rate": np.nan}, {"rate": None}):
        with pytest.raises(ParameterError, match="parameter of Mine must be"):
            Mine(**parameters)
