"""Nettack: Zügner, Akbarnejad and Günnemann (KDD 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from garnet.attacks.base import Attack, Change, Task, flips
from garnet.attacks.degree_test import DegreeTest
from garnet.attacks.linear_surrogate import Flip, LinearSurrogate
from garnet.attacks.mutable_graph import Floats
from garnet.backbones.base import require_features
from garnet.backbones.linear_gcn import LinearGCN
from garnet.errors import GraphError, ParameterError
from garnet.graph.graph import Graph
from garnet.parameters import Count, PositiveOrInfinite
from garnet.training.loop import Training, train


@dataclass(frozen=True, kw_only=True)
class Nettack(Attack):
    r"""Greedy flips, one target after the other, each the one that does a linear surrogate most harm.

    Threat model: knows edges, features, the labels of training nodes and, where the graph has them, of the targets; but
    no model of the defender. It trains a linear GCN, :math:`\hat A^2 X W`, on the clean graph, or takes one as victim,
    and lowers the margin of each target: the logit of its label minus the best of the others. Poisoning or evasion,
    targeted. A direct attack flips pairs with the target and words of it; an indirect one leaves the target alone and
    works through some of its neighbours. Training nodes cannot be targets. No node loses its last edge, and nothing is
    flipped twice.

    Every pair of a target is scored in one go, without a matrix of all pairs: a flip changes the logits by terms that
    the two nodes, the row of :math:`\hat A^2` and their neighbours' sums give in closed form. Words are scored exactly
    too, because the surrogate is linear in them.

    Limits: the changes are unnoticeable for each target on its own; those for many targets together may show. A resumed
    attack has to choose its earlier flips again, and needs the same budget.

    Attributes:
        structure: whether to flip edges.
        features: whether to flip words, which are features of zero and one.
        direct: whether changes are made at the target itself.
        influencers: neighbours that an indirect attack works through, those whose best flip hurts most.
        unnoticeable: whether edges have to pass the test of degrees, and new words the test of co-occurrence: a random
            step from a word of the node, among words that occur together in the clean graph, leads to the new one with
            more than half of the probability that it could have.
        cutoff: cutoff of the test of degrees.
        sequential: whether flips for one target are made before the next one is attacked, as in the graphs that the
            field uses. If not, each target is attacked in the clean graph, and a flip that two of them want is made,
            and counted, once; that is for judging each by itself, because targets want the same few partners, who say
            little to all of them together.
    """

    scope: ClassVar[Literal["global", "local", "either"]] = "local"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    spares_training: ClassVar[bool] = True

    structure: bool = True
    features: bool = False
    direct: bool = True
    influencers: Count = 5
    unnoticeable: bool = True
    cutoff: PositiveOrInfinite = 0.004
    sequential: bool = True

    def _run(self, task: Task) -> Iterator[Change]:
        self._require_words(task.graph)
        clean = LinearSurrogate(task.graph, self._weights(task))
        state = clean.copy()
        made = set[Flip]()
        earlier = {"edge": iter(task.done.T.tolist()), "word": iter(task.done_entries.places.T.tolist())}
        share, rest = divmod(task.budget, len(task.targets))
        for place, target in enumerate(task.targets.tolist()):
            state = state if self.sequential else clean.copy()
            label = _label(task, clean, target)
            for flip in self._flips(state, target, label, share + (place < rest)):
                if flip in made:
                    continue
                made.add(flip)
                known = next(earlier[flip.kind], None)
                if known is None:
                    yield flips([flip.pair]) if flip.kind == "edge" else clean.words.entry(*flip.pair)
                elif tuple(known) != flip.pair:
                    raise ParameterError(
                        "What is to go on had another budget for each target, or other labels; begin it anew."
                    )

    def _flips(self, state: LinearSurrogate, target: int, label: int, count: int) -> Iterator[Flip]:
        """Flips for one target, each made in the surrogate when it is chosen."""
        test = DegreeTest.of(state.graph.counts, cutoff=self.cutoff) if self.unnoticeable else None
        attackers = [target]
        if not self.direct:
            attackers = state.graph.row(target)[0].tolist()
            attackers.remove(target)
            if len(attackers) > self.influencers:
                best = [self._best(state, test, target, label, [one])[0] for one in attackers]
                attackers = [attackers[place] for place in np.argsort(best, kind="stable")[: self.influencers]]
        for _ in range(count):
            _, flip = self._best(state, test, target, label, attackers)
            if flip is None:
                return
            if test is not None and flip.kind == "edge":
                first, second = state.graph.counts[list(flip.pair)].tolist()
                test = test.flipped(first, second, -1 if state.graph.weight(*flip.pair) else 1)
            state.make(flip)
            yield flip

    def _best(
        self, state: LinearSurrogate, test: DegreeTest | None, target: int, label: int, attackers: list[int]
    ) -> tuple[float, Flip | None]:
        """The margin that the best flip of the attackers leaves, and that flip; infinity and None if there is none."""
        margin, best = np.inf, None
        for place, one in enumerate(attackers):
            if self.structure:
                barred = attackers[:place] if self.direct else [target, *attackers[:place]]
                others = state.partners(one, barred, test)
                left = _margins(state.after_edges(target, one, others), label)
                if len(left) and left.min() < margin:
                    margin, other = float(left.min()), int(others[left.argmin()])
                    best = Flip("edge", min(one, other), max(one, other))
            if self.features:
                columns = state.columns(one, self.unnoticeable)
                left = _margins(state.after_words(target, one, columns), label)
                if len(left) and left.min() < margin:
                    margin, best = float(left.min()), Flip("word", one, int(columns[left.argmin()]))
        return margin, best

    def _weights(self, task: Task) -> Floats:
        """W, of features times classes."""
        victim = task.victim
        if victim is None:
            task.tell("train the surrogate")
            # To its end: stopped at its best validation accuracy, on Cora after some twenty epochs, it misleads less.
            training = Training(epochs=200, lr=0.01, warmup=199, patience=None)
            victim = train(LinearGCN(), task.graph, seeds=(task.seed,), training=training)[0]
        elif victim.backbone != LinearGCN():
            raise ParameterError(
                "Nettack's closed form needs a linear surrogate of two hops: give a trained LinearGCN as victim, or "
                f"none. Got {victim.backbone!r} instead."
            )
        weights: Floats = victim.on(task.graph).parameters["weight"].double().numpy()
        return weights

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        yield "structure", bool(self.structure or self.features), "True where 'features' is False"

    def _require_words(self, graph: Graph) -> None:
        features = require_features(graph, "the attack reads them")
        values = features.data if sp.issparse(features) else features
        if self.features and not np.isin(values, (0, 1)).all():
            raise GraphError("Nettack flips features of zero and one, and the graph has others; leave 'features' out.")


def _label(task: Task, surrogate: LinearSurrogate, target: int) -> int:
    """What a target is, or, where the graph does not say, what the surrogate takes it for."""
    logits, labels = surrogate.logits(target), task.graph.labels
    if labels is not None and 0 <= labels[target] < len(logits):
        return int(labels[target])
    return int(logits.argmax())


def _margins(logits: Floats, label: int) -> Floats:
    """(m,) by how much the logit of the label leads."""
    others = np.delete(logits, label, axis=1)
    return np.asarray(logits[:, label] - others.max(axis=1, initial=-np.inf))
