"""Trust a node's features first, and its neighbours as far as they have earned it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from garnet.backbones.base import BUFFER, Features, Parameters
from garnet.defenses.messages import believed, compatibility, message
from garnet.defenses.student import Reading, Students
from garnet.graph.graph import Graph
from garnet.purify.result import Ledger, Purification
from garnet.training.calibration import likeliest_temperature

STRENGTHS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.7, 1.0)
_NAMES = ("own", "around", "mean", "sureness", "ratio", "unit", "strength", "temperature")


@dataclass(frozen=True, eq=False)
class Evidence:
    """What beliefs about a graph are made from.

    Attributes:
        reading: what is known of the nodes without edges.
        edges: (2, m) edges of the graph.
        weights: (m,) their weights.
        trust: (m,) how far each is trusted.
    """

    reading: Reading
    edges: Tensor
    weights: Tensor
    trust: Tensor

    @classmethod
    def of(cls, graph: Graph, near: Graph, purified: Purification | None, device: str) -> Self:
        """From a graph, the graph of similar features, and a purification of the former with planted edges, if any."""
        return cls.of_edges(Reading.of(graph, near, device), graph, purified, device)

    @classmethod
    def of_edges(cls, reading: Reading, graph: Graph, purified: Purification | None, device: str) -> Self:
        """From a graph whose features have already been read."""
        edges, weights = (torch.from_numpy(one).to(device) for one in (graph.edges, graph.weights))
        ledger, trust = None if purified is None else purified.ledger, torch.ones_like(weights)
        if isinstance(ledger, Ledger) and ledger.trust is not None:
            trust = ledger.trust[ledger.given].to(weights)
        return cls(reading, edges, weights, trust)

    def with_features(self, features: Features) -> Self:
        """The same for students that read other features."""
        return replace(self, reading=self.reading.with_features(features))


class Lessons:
    """A graph on which beliefs can be learnt from any number of teachers.

    Attributes:
        evidence: what beliefs are made from.
        students: the students that can be taught about the nodes.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.students = evidence, Students(evidence.reading)


@dataclass(frozen=True, eq=False)
class Beliefs:
    r"""Beliefs about nodes: from their features, and from messages of neighbours along trusted edges.

    A student that reads no edges (`Students`) learns from a teacher that reads them all, and never judges a node by
    what it was taught about that node. Its predictions travel along the edges as messages (`believed`), each trusted as
    far as planted edges suggest. The teacher's predictions show which classes edges join.

    So whatever happens to a node's edges after training, its features say the same, and an edge can add no more than
    the logarithm of a learnt ratio, times its trust and the strength of all messages.

    Attributes:
        learnt: `own`, `around` and `mean` of the students; `sureness`, by which their answers are multiplied; `ratio`,
            `strength` and `unit`, the weight from which an edge counts in full; `temperature` of the result. With a
            leading dimension of S.
    """

    learnt: Parameters

    @classmethod
    def found(cls, parameters: Parameters) -> Self | None:
        """The beliefs among the parameters of a model, if it has any."""
        names = {name: f"{BUFFER}beliefs.{name}" for name in _NAMES}
        if names["strength"] not in parameters:
            return None
        return cls({name: parameters[stored] for name, stored in names.items()})

    @classmethod
    def learn(
        cls, lessons: Lessons, taught: Tensor, nodes: Tensor, labels: Tensor, *, leeway: float, caution: float
    ) -> Self | None:
        """Learn from a teacher, and from labelled nodes how far to believe edges; None if beliefs are not good enough.

        Args:
            lessons: the graph.
            taught: (n, classes) probabilities that the teacher gives.
            nodes: nodes whose labels the teacher did not learn from.
            labels: their labels.
            leeway: see `Committee`.
            caution: likewise.
        """
        evidence = lessons.evidence
        learnt = {name: value[None] for name, value in lessons.students.learnt(taught).items()}
        answers, labels = evidence.reading.answers(learnt), labels.to(evidence.edges.device)
        nodes, taught = nodes.to(labels.device), taught.to(answers)
        unit = evidence.weights.mean() if len(evidence.weights) else evidence.weights.new_ones(())
        learnt |= {
            "sureness": torch.tensor([_sureness(answers[0, nodes], labels)]).to(answers),
            "ratio": compatibility(evidence.edges, evidence.trust, taught)[None],
            "unit": unit[None],
        }
        one = torch.ones(1).to(answers)
        tried = [cls({**learnt, "strength": strength * one, "temperature": one}) for strength in STRENGTHS]
        said = [beliefs.logits(evidence)[0, nodes] for beliefs in tried]
        temperatures = [likeliest_temperature(logits, labels) for logits in said]
        given = [
            (logits / temperature).log_softmax(dim=1).gather(1, labels[:, None])[:, 0]
            for logits, temperature in zip(said, temperatures, strict=True)
        ]
        right = torch.stack([logits.argmax(dim=1) == labels for logits in said]).double()
        theirs = (taught[nodes].argmax(dim=1) == labels).double()
        likely = torch.stack(given).double()
        fit = _as_good(likely, likely[likely.mean(dim=1).argmax()], caution) & _as_good(right, theirs, leeway)
        if not fit.any():
            return None
        place = int(fit.nonzero()[0, 0])
        return cls({**tried[place].learnt, "temperature": temperatures[place] * one})

    @property
    def strength(self) -> float:
        """Weight of a message, for one model."""
        return float(self.learnt["strength"][0])

    def stored(self) -> Parameters:
        """The beliefs as parameters of one model."""
        return {f"{BUFFER}beliefs.{name}": value[0].cpu() for name, value in self.learnt.items()}

    def own(self, reading: Reading) -> Tensor:
        """(S, n, classes) log-probabilities from the features alone."""
        return (reading.answers(self.learnt) * self.learnt["sureness"][:, None, None]).log_softmax(dim=2)

    def logits(self, evidence: Evidence) -> Tensor:
        """(S, n, classes) logits of the nodes of a graph."""
        return self.after(self.own(evidence.reading), evidence.edges, evidence.weights, evidence.trust)

    def after(self, own: Tensor, edges: Tensor, weights: Tensor, trust: Tensor) -> Tensor:
        """(S, n, classes) logits, from what nodes believe of themselves and edges of any weight."""
        said = believed(own, edges, self._counted(weights, trust), self.learnt["ratio"], self.learnt["strength"])
        return said / self.learnt["temperature"][:, None, None]

    def heard(self, said: Tensor, weights: Tensor, trust: Tensor) -> Tensor:
        """(m, classes) what m edges add to the logits at one end, given (m, classes) logits at the other; one model."""
        learnt, counted = self.learnt, self._counted(weights, trust)
        speaks = (said * learnt["temperature"]).softmax(dim=1)
        return message(speaks, counted, learnt["ratio"], learnt["strength"])[0] / learnt["temperature"]

    def _counted(self, weights: Tensor, trust: Tensor) -> Tensor:
        """(m,) how far edges are trusted, which is less if they weigh less than usual."""
        return trust * (weights / self.learnt["unit"][0].clamp_min(1e-9)).clamp_max(1.0)


def _sureness(answers: Tensor, labels: Tensor) -> float:
    """The factor on answers that makes labels likeliest: from 1 to 64, as answers are no longer than one."""
    return 8.0 / likeliest_temperature(8.0 * answers, labels)


def _as_good(found: Tensor, best: Tensor, errors: float) -> Tensor:
    """Which of several choices, (choices, k) scores of k nodes, are about as good as the best one, (k,).

    That is, their mean is lower by no more than this many standard errors of the difference. Taking the simplest of
    these is the rule of Breiman et al. (1984).
    """
    behind = best - found
    error = behind.std(dim=1) / math.sqrt(behind.shape[1]) if behind.shape[1] > 1 else torch.zeros(len(found)).to(found)
    return behind.mean(dim=1) <= errors * error + 1e-12
