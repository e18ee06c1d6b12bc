"""What all attacks have in common: they keep the budget, leave the graph untouched, and follow from the seed."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar, final

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from garnet.attacks.collector import Change as Change
from garnet.attacks.collector import Collector
from garnet.errors import AttackError, GraphError, ParameterError
from garnet.graph.budget import Budget
from garnet.graph.graph import Edges, Graph, as_graph
from garnet.graph.perturbation import Entries, Perturbation
from garnet.io.arrays import as_array
from garnet.linalg.threads import sharing
from garnet.parameters import require_device, require_parameters, require_seed
from garnet.progress import Progress, Step, Stop
from garnet.registry import ATTACKS
from garnet.training.predictor import Predictor

Found = TypeVar("Found", bound=Change)


@dataclass(frozen=True, eq=False)
class Task:
    """What an attack is asked to do, with everything checked.

    Attributes:
        graph: the clean graph.
        budget: total number of changes.
        per_target: changes for each target, if the budget was given that way.
        targets: nodes to be misclassified; empty for an attack on the whole graph.
        victim: the trained model to fool; None if the attack has to train a surrogate.
        seed: seed of everything random.
        done: (2, j) flips made by an earlier call that was stopped, in order.
        done_entries: features changed by that call, likewise.
        attack: name of the attack, reported as the stage.
        progress: callback for progress.
    """

    graph: Graph
    budget: int
    per_target: int | None
    targets: NDArray[np.int64]
    victim: Predictor | None
    seed: int
    done: Edges = field(default_factory=lambda: np.zeros((2, 0), dtype=np.int64))
    done_entries: Entries = field(default_factory=Entries.none)
    attack: str = ""
    progress: Progress | None = None

    def tell(self, detail: str = "", done: int = 0, total: int = 0) -> None:
        """Report what the attack does and how far it is, as in `garnet.progress.Step`; raises `Stop` to end it."""
        if self.progress is not None:
            self.progress(Step(self.attack, detail, done, total))

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels of all nodes; they exist if the attack `needs` them."""
        if self.graph.labels is None:
            raise GraphError("The graph has no labels, and the attack needs them; give it some.")
        return self.graph.labels


class Attack(ABC):
    """An attack as a value: a frozen dataclass that stores its parameters and defines `_run`.

    Example:
        >>> from dataclasses import dataclass
        >>> from garnet.datasets import cora
        >>> @dataclass(frozen=True)
        ... class Hub(Attack):
        ...     '''Joins the first node with the next ones.'''
        ...
        ...     def _run(self, task):
        ...         neighbors = set(task.graph.adjacency[[0]].indices)
        ...         for node in range(1, task.graph.num_nodes):
        ...             if node not in neighbors:
        ...                 yield np.array([[0], [node]])
        >>> Hub()(cora(), budget=Budget.edges(3)).edges
        array([[0, 0, 0],
               [1, 2, 3]])

    Attributes:
        scope: whether it attacks targets, the whole graph, or either.
        changes: what it changes and its budget counts.
        needs: parts of the graph without which it cannot work.
        goes_on: whether a stopped attack can be resumed.
        spares_training: whether training nodes may not be targets.
    """

    scope: ClassVar[Literal["global", "local", "either"]] = "global"
    changes: ClassVar[Literal["edges", "entries"]] = "edges"
    needs: ClassVar[tuple[str, ...]] = ()
    goes_on: ClassVar[bool] = True
    spares_training: ClassVar[bool] = False

    @final
    def __post_init__(self) -> None:
        """Refuse what the parameters' annotations and `_rules` do not allow; `@dataclass` calls it."""
        require_parameters(self)

    @abstractmethod
    def _run(self, task: Task) -> Iterator[Change]:
        """Yield the changes, one or many at a time, the most urgent first; no more than the budget are taken.

        Flips of edges are arrays of shape (2, j), in either order of the nodes; changes of features are `Entries`.
        """

    @final
    def __call__(
        self,
        graph: Graph,
        *,
        budget: Budget | str,
        targets: ArrayLike | None = None,
        victim: Predictor | None = None,
        seed: int = 0,
        resume: Perturbation | None = None,
        progress: Progress | None = None,
    ) -> Perturbation:
        """Attack a graph, which itself is not changed.

        Args:
            graph: the clean graph, or anything that `as_graph` reads.
            budget: how much may be changed, or the same as text, such as `20%`.
            targets: nodes to be misclassified, for an attack that takes targets.
            victim: a trained model to fool, for an attack that can use one; without it, attacks that need a model train
                their own on the clean graph.
            seed: the same seed gives the same changes.
            resume: what the same attack had done before it was stopped; it continues from there.
            progress: called now and then with a `Step`, such as `print`; if it raises `Stop`, the attack ends with what
                it has so far.

        Returns:
            The changes, with everything needed to reproduce them.

        Raises:
            BudgetError: the budget is zero, or more than the graph has.
            GraphError: the graph lacks what the attack needs.
            ParameterError: targets, victim or seed make no sense.
            AttackError: the attack broke a rule.
        """
        graph = as_graph(graph)
        budget = budget if isinstance(budget, Budget) else Budget.parse(budget, self.changes)
        self._require_call(victim, seed, resume)
        self._require_graph(graph)
        nodes = self._targets(graph, targets)
        count = budget.changes(graph, len(nodes), self.changes)
        each = int(budget.amount) if budget.kind == "per_target" else None
        task = Task(graph, count, each, nodes, victim, int(seed), attack=self.name, progress=progress)
        fingerprint, provenance = graph.fingerprint, self._provenance(task, budget)
        changes = Collector(graph, task.budget)
        if resume is not None:
            self._require_same(resume, fingerprint, provenance)
            changes.take(resume.edges)
            changes.take(resume.entries)
            task = replace(task, done=changes.edges, done_entries=changes.entries)
        with sharing(graph):
            complete = self._collect(task, changes)
        if (graph.fingerprint, self._digest(task)) != (fingerprint, provenance["inputs"]):
            raise AttackError(f"The attack {self.name} changed the graph or the victim it was given.")
        return Perturbation.of(graph, changes.edges, changes.entries, complete=complete, **provenance)

    @property
    def name(self) -> str:
        """The name under which it is registered, or its class name."""
        return ATTACKS.name_of(type(self)) or type(self).__name__

    @property
    def parameters(self) -> dict[str, Any]:
        """Its parameters as plain values, for the record."""
        own: Any = self
        values = {one.name: getattr(own, one.name) for one in fields(own)} if is_dataclass(own) else {}
        values = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
        plain = (str, int, float, bool, type(None))
        return {name: value if isinstance(value, plain) else repr(value) for name, value in values.items()}

    def _require_call(self, victim: object, seed: object, resume: object) -> None:
        """Refuse what no attack could be called with."""
        require_seed(seed)
        require_device(getattr(self, "device", "cpu"), type(self).__name__)
        _require_kind(victim, Predictor, "A victim must be a trained model, a Predictor.")
        _require_kind(resume, Perturbation, "An attack goes on from a Perturbation.")

    def _require_graph(self, graph: Graph) -> None:
        """Refuse a graph that lacks what the attack needs."""
        if graph.num_nodes < 2:
            raise GraphError(f"An attack needs at least two nodes. Got {graph.num_nodes}.")
        for part in self.needs:
            value = getattr(graph, part)
            columnless = part == "features" and not graph.num_features
            if value is None or columnless or (part == "split" and not len(value.train)):
                what = "training nodes" if part == "split" else part
                raise GraphError(f"The graph has no {what}, and the attack {self.name} needs them; give it some.")

    def _targets(self, graph: Graph, targets: ArrayLike | None) -> NDArray[np.int64]:
        """The targets, each once in the order given."""
        if targets is None:
            if self.scope == "local":
                raise ParameterError(f"The attack {self.name} needs targets: the nodes to be misclassified.")
            return np.zeros(0, dtype=np.int64)
        if self.scope == "global":
            raise ParameterError(f"The attack {self.name} is on the whole graph and takes no targets.")
        nodes = as_array(targets, "Targets").ravel()
        if not nodes.size or nodes.dtype.kind not in "iu":
            raise ParameterError("Targets must be node numbers, at least one.")
        strange = nodes[(nodes < 0) | (nodes >= graph.num_nodes)]
        if len(strange):
            raise ParameterError(f"The target {strange[0]} does not exist: nodes are 0 to {graph.num_nodes - 1}.")
        nodes = np.asarray(list(dict.fromkeys(nodes.tolist())), dtype=np.int64)
        alone = nodes[np.diff(graph.adjacency.indptr)[nodes] == 0]
        if len(alone) and self.changes == "edges":
            raise ParameterError(f"The target {alone[0]} has no edges; an attack on it would be seen at once.")
        if self.spares_training and graph.split is not None:
            known = nodes[np.isin(nodes, graph.split.train)]
            if len(known):
                raise ParameterError(
                    f"The target {known[0]} is a training node, whose label the defender knows; the attack {self.name} "
                    "does not aim at those."
                )
        return nodes

    def _collect(self, task: Task, changes: Collector) -> bool:
        """Take changes until the budget is spent or there are no more; False if the attack was stopped before that."""
        try:
            for change in self._run(task) if not changes.full else ():
                changes.take(change)
                if changes.full:
                    break
                task.tell(self.changes, changes.size, task.budget)
        except Stop:
            return False
        return True

    def _provenance(self, task: Task, budget: Budget) -> dict[str, Any]:
        """All that a perturbation says of how it was made."""
        return {
            "attack": self.name,
            "parameters": self.parameters,
            "budget": str(budget),
            "seed": task.seed,
            "inputs": self._digest(task),
            "targets": task.targets,
        }

    def _digest(self, task: Task) -> str:
        """Sixteen hex digits of all but the edges of the graph, if the attack needs any of it, and of the victim."""
        arrays: list[Any] = []
        for part in ("features", "labels", "split") if self.needs else ():
            value: Any = getattr(task.graph, part)
            if value is not None and part == "split":
                arrays += [value.train, value.val, value.test]
            elif sp.issparse(value):
                arrays += [value.indptr.astype(np.int64), value.indices.astype(np.int64), value.data]
            elif value is not None:
                arrays.append(value)
        if task.victim is not None:
            arrays += [tensor.cpu().numpy() for tensor in (task.victim.scores, *task.victim.parameters.values())]
        digest = hashlib.sha256()
        for array in arrays:
            digest.update(repr((array.dtype.str, array.shape)).encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]

    def _require_same(self, earlier: Perturbation, fingerprint: str, provenance: dict[str, Any]) -> None:
        """Refuse to go on from what another attack had done, or this one with another knowledge or aim."""
        if not self.goes_on:
            raise ParameterError(f"The attack {self.name} decides at its end and cannot go on; begin it anew.")
        if earlier.fingerprint != fingerprint:
            raise ParameterError(
                f"What is to go on was made for a graph with the fingerprint {earlier.fingerprint}. Got one with "
                f"{fingerprint}."
            )
        was = {"attack": earlier.attack, "seed": earlier.seed, **earlier.parameters}
        now = {"attack": self.name, "seed": provenance["seed"], **self.parameters}
        for what in dict.fromkeys([*was, *now]):
            # Where it computes is no part of what it does.
            if was.get(what) != now.get(what) and what != "device":
                raise ParameterError(
                    f"What is to go on had another '{what}', {was.get(what)!r}. Got {now.get(what)!r} instead."
                )
        if not np.array_equal(earlier.targets, provenance["targets"]):
            raise ParameterError("What is to go on was aimed at other targets.")
        if earlier.inputs != provenance["inputs"]:
            raise ParameterError("What is to go on was made with another victim, or other features, labels or split.")
        # A larger budget is what going on is for, but not one that is spent on one target after the other.
        if "/target" in earlier.budget + provenance["budget"] and earlier.budget != provenance["budget"]:
            raise ParameterError(
                f"What is to go on had a budget of {earlier.budget}, not {provenance['budget']}, and the targets' "
                "shares cannot be told apart; begin it anew."
            )


def flips(pairs: Sequence[tuple[int, int]]) -> Edges:
    """Pairs as an array of shape (2, j)."""
    return np.asarray(pairs, dtype=np.int64).reshape(-1, 2).T


def best_so_far(search: Callable[[], None], best: Callable[[], Found]) -> Iterator[Found]:
    """Search, and yield the best that was found; where the search is stopped, the best until then."""
    try:
        search()
    except Stop:
        yield best()
        raise
    yield best()


def _require_kind(value: object, kind: type, rule: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise ParameterError(f"{rule} Got {type(value).__name__} instead.")
