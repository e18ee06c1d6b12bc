"""Several models, each on a different view of the graph, and one answer: a defence to leave on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from garnet.attacks.models import EdgeFunction, EdgeModel
from garnet.backbones import GPRGNN
from garnet.backbones.base import BUFFER, Backbone, Noise, Parameters
from garnet.defenses.base import Defense
from garnet.defenses.beliefs import Beliefs, Evidence, Lessons
from garnet.defenses.feature_knn import FeatureKNN
from garnet.defenses.relaxed import RelaxedBeliefs, RelaxedCommittee, doubted
from garnet.defenses.student import Reading
from garnet.defenses.views import CommitteeWarning, called, views_of
from garnet.defenses.weighting import Suspects, chances, doubts, likeliest_weights, say_at_nodes, trusts
from garnet.errors import GarnetError, GraphError
from garnet.graph.graph import Graph
from garnet.parameters import Device, NonNegative
from garnet.progress import Clock, Progress, Stage, Step
from garnet.purify.base import Purifier
from garnet.purify.garnet import GARNET
from garnet.purify.relaxed import Relaxed, View, Way, as_it_is
from garnet.purify.relaxed_garnet import RelaxedGarnet
from garnet.purify.result import Purification
from garnet.training.calibration import likeliest_temperature
from garnet.training.loop import Training, require_batches, train
from garnet.training.predictor import Predictor
from garnet.training.supervision import counts_of, require_trainable
from garnet.training.votes import Votes

MEMBERS: tuple[Purifier | None, ...] = (
    None,
    GARNET(),
    GARNET(support=0.3),
    GARNET(support=0.3, k=0, rank="low"),
    FeatureKNN(),
)
"""The graph as it is, purified where suspicious, always purified, of low rank, and of features alone."""
# Chosen on cora, citeseer, chameleon, polblogs, acm and texas, clean and attacked, in trials of three seeds; the study
# # leave-it-on confirms them on other graphs.
DOUBT = 30.0
"""How fast a member loses weight where its edges are doubted."""
SHRINKAGE = 5.0
"""Number of pseudo-nodes in favour of equal weights."""
LEEWAY = 2.0
"""Standard errors by which beliefs may be worse on validation nodes: less cannot be distinguished from chance."""
CAUTION = 1.0
"""Standard errors by which edges must help before they are believed more."""

_WEIGHTS = f"{BUFFER}weights"
_TEMPERATURE, _TEMPERATURES = f"{BUFFER}temperature", f"{BUFFER}temperatures"


@dataclass(frozen=True, eq=False)
class CommitteeInputs:
    """What a committee needs of a graph.

    Attributes:
        views: what the backbone prepared from each member's graph, by the member's index.
        doubt: (members, n) share of each member's input at a node that is probably made up.
        evidence: what beliefs are made from; None without features.
    """

    views: dict[int, Any]
    doubt: Tensor
    evidence: Evidence | None

    def known(self) -> Evidence:
        """What beliefs are made from.

        Raises:
            GraphError: there is none.
        """
        if self.evidence is None:
            raise GraphError("Beliefs were learnt of features, and the graph's say nothing; give it those of training.")
        return self.evidence


@dataclass(frozen=True, kw_only=True)
class Committee(Defense):
    r"""Trains a model on each of several views of the graph, and mixes their predictions.

    With :math:`p_m(i)` the probabilities of member m for node i, calibrated on validation nodes, the answer is
    :math:`\sum_m w_m(i) p_m(i)`, where :math:`w_m(i) \propto w_m \exp(-\beta d_m(i))`. The weights :math:`w_m` make the
    labels of the validation nodes likeliest, shrunk towards equal ones if these nodes are few. The doubt :math:`d_m(i)`
    is the share of the member's input at the node that is probably made up, judging by planted edges and relative to
    the edge that the node can trust most: validation nodes do not see an attack aimed at other nodes, but the edges of
    those show it. Without an attack, the unchanged view has most weight, and several models together are rarely worse
    than one of them.

    All these models read edges, so an edge flipped after training changes what they predict. So they teach: a student
    that reads no edges learns from them, and its predictions pass from node to node along trusted edges
    (`garnet.defenses.beliefs`). If there are features and validation nodes, these beliefs are the answer, unless they
    do worse on the validation nodes, as happens when neighbours differ in class without any pattern.

    Attributes:
        members: the purifier of each view; None is the graph as it is. One that needs features is left out if there are
            none, and one that the graph does not allow is left out with a `CommitteeWarning`.
        backbone: the model.
        doubt: :math:`\beta`; with 0 no edge is doubted.
        shrinkage: number of pseudo-nodes in favour of equal weights.
        leeway: beliefs are the answer unless, however far edges are believed, they get fewer validation nodes right by
            more than this many standard errors of the difference. With None the members always give the answer.
        caution: edges get the least weight whose validation likelihood is within this many standard errors of the best.
        training: how each is trained. With class weights, which also apply to the validation nodes, the members give
            the answer: the few validation nodes of a rare class cannot show whether beliefs would find it.
        device: where it is trained.

    Example:
        >>> from garnet.backbones import GCN
        >>> from garnet.datasets import load
        >>> quick = Committee(members=(None, GARNET()), backbone=GCN(hidden=8), training=Training(epochs=5))
        >>> quick.fit(load("cora", split="random")).logits().shape
        torch.Size([2485, 7])
    """

    members: tuple[Purifier | None, ...] = MEMBERS
    backbone: Backbone[Any] = field(default_factory=GPRGNN)
    doubt: NonNegative = DOUBT
    shrinkage: NonNegative = SHRINKAGE
    leeway: NonNegative | None = LEEWAY
    caution: NonNegative = CAUTION
    training: Training = field(default_factory=Training)
    device: Device = "cpu"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_batches(self.backbone, self.training)

    def _rules(self) -> Any:
        yield "members", len(self.members) > 0, "at least one purifier, or None for the graph as it is"

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names, made from the parameters that differ from their defaults."""
        return tuple(map(called, self.members))

    @property
    def _may_believe(self) -> bool:
        """Whether the validation nodes can show if beliefs are as good as the members."""
        return self.leeway is not None and self.training.class_weights is None

    @property
    def _planter(self) -> GARNET | None:
        """The purifier that learns from planted edges which others to trust, if possible a member; None if unneeded."""
        if GARNET() in self.members:
            return GARNET()
        return GARNET(only_drop=True) if self.doubt or self.leeway is not None else None

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """The parameters of all members before training, with equal weights."""
        parameters = {_WEIGHTS: torch.zeros(len(self.members)), _TEMPERATURE: torch.ones(())}
        parameters[_TEMPERATURES] = torch.ones(len(self.members))
        for number in range(len(self.members)):
            of_one = self.backbone.initial(features, classes, generator)
            parameters |= {_name(number, name): value for name, value in of_one.items()}
        return parameters

    def prepare(self, graph: Graph, device: str) -> CommitteeInputs:
        """Every member's view of the graph, and how much of it is doubted."""
        views, doubt, evidence, _ = self._views(graph, device, None)
        return CommitteeInputs({i: self.backbone.prepare(view, device) for i, view in views.items()}, doubt, evidence)

    def logits(self, parameters: Parameters, inputs: CommitteeInputs, noise: Noise | None) -> Tensor:
        """(S, n, classes) logits: the beliefs, or the logarithms of the members' mixed probabilities."""
        if (beliefs := Beliefs.found(parameters)) is not None:
            return beliefs.logits(inputs.known())
        said, say, _ = self._said(parameters, inputs, noise)
        return _mixed(said, say, parameters[_TEMPERATURE])

    def decide(self, parameters: Parameters, inputs: CommitteeInputs) -> tuple[Tensor, Votes]:
        """(n, classes) logits of one committee, and which members decided."""
        said, say, rows = self._said(parameters, inputs, None)
        (scores,) = _mixed(said, say, parameters[_TEMPERATURE])
        if (beliefs := Beliefs.found(parameters)) is not None:
            (scores,) = beliefs.logits(inputs.known())
        names, weights = [self.names[i] for i in rows], parameters[_WEIGHTS][0, list(rows)]
        doubt = inputs.doubt[list(rows.values())]
        votes = Votes.of(names, weights, said=said[0], say=say[0], doubt=doubt, chosen=scores.argmax(dim=1))
        return scores, replace(votes, strength=None if beliefs is None else beliefs.strength)

    def weights(self, predictor: Predictor) -> dict[str, float]:
        """The weight of each member of a trained committee where no edge is doubted, by name.

        Raises:
            GraphError: the predictor is not from a committee.
        """
        votes = self.votes(predictor)
        return dict(zip(votes.members, votes.weights.tolist(), strict=True))

    def votes(self, predictor: Predictor) -> Votes:
        """Which members decided, for every node of the predictor's graph.

        Raises:
            GraphError: the predictor is not from a committee.
        """
        if predictor.votes is None:
            raise GraphError(
                "These predictions are those of one model, and no members of a Committee had a say in them."
            )
        return predictor.votes

    def relaxed(self, predictor: Predictor, graph: Graph, *, way: Way = "still") -> EdgeFunction:
        """See `Defense.relaxed`: every member's view, and its weight at a node, follow the edges."""
        votes, spied = predictor.parameters, self._spied(graph, way)
        if (beliefs := self._beliefs(predictor)) is not None:
            trusted = None if spied is None else trusts(spied)
            return RelaxedBeliefs(beliefs, beliefs.own(self._reading(graph)), trusted, self.device)
        reads = self._relaxed(graph, way, spied)
        inputs, views = self.backbone.prepare(graph, self.device), {}
        for i, view in reads.items():
            own = {name.removeprefix(_name(i, "")): value for name, value in votes.items() if _of(i, name)}
            if own:
                stacked = {name: value[None].to(self.device) for name, value in own.items()}
                views[i] = view, EdgeModel(self.backbone, stacked, inputs, graph.num_nodes, self.device)
        if not views:
            raise GraphError("No member of the committee that was trained can read the graph.")
        places = list(views)
        chance = None if spied is None or not self.doubt else chances(spied, GARNET().caution)
        weigh, temper, temperature = (votes[name].to(self.device) for name in (_WEIGHTS, _TEMPERATURES, _TEMPERATURE))
        return RelaxedCommittee(tuple(views.values()), temper[places], weigh[places], temperature, self.doubt, chance)

    def views(self, graph: Graph) -> tuple[View, ...]:
        """See `Defense.views`: equal weights, reduced at nodes where a member's edges are doubted."""
        spied = self._spied(graph, "still")
        reads = self._relaxed(graph, "still", spied)
        if not reads:
            raise GraphError("No member of the committee can read the graph; give it one that can, such as None.")
        against = torch.zeros(len(reads), graph.num_nodes, device=self.device)
        if spied is not None and self.doubt:
            edges, weights = (torch.from_numpy(one).to(self.device) for one in (graph.edges, graph.weights))
            chance = chances(spied, GARNET().caution)(edges)
            read = [doubted(*view(edges, weights), chance, graph.num_nodes) for view in reads.values()]
            against = self.doubt * torch.stack(read)
        say = say_at_nodes(torch.zeros(1, len(reads), device=self.device), against)[0].exp()
        return tuple(View(view, share) for view, share in zip(reads.values(), say, strict=True))

    def answers(self, predictor: Predictor) -> Callable[[Graph], Tensor]:
        """See `Defense.answers`: beliefs do not need the members, and students read the features once."""
        beliefs = self._beliefs(predictor)
        if beliefs is None:
            return super().answers(predictor)
        features: Any = None
        reading: Reading | None = None

        def answer(graph: Graph) -> Tensor:
            nonlocal features, reading
            if reading is None or graph.features is not features:
                features, reading = graph.features, self._reading(graph)
            found = self._planted(graph, self.device, Clock(None))
            return beliefs.logits(Evidence.of_edges(reading, graph, found, self.device))[0].cpu()

        return answer

    def _beliefs(self, predictor: Predictor) -> Beliefs | None:
        return Beliefs.found({name: value[None].to(self.device) for name, value in predictor.parameters.items()})

    def _reading(self, graph: Graph) -> Reading:
        return Reading.of(graph, FeatureKNN().purify(graph, device=self.device).graph, self.device)

    def _planted(self, graph: Graph, device: str, clock: Clock) -> Purification | None:
        """What planted edges show about the others, if anything."""
        if graph.num_edges and self._planter is not None:
            with clock("purify"), suppress(GarnetError):  # the refused member reports it
                return self._planter.purify(graph, device=device)
        return None

    def _spied(self, graph: Graph, way: Way) -> RelaxedGarnet | None:
        """The same as a function of the weights of edges."""
        if graph.num_edges and self._planter is not None:
            with suppress(GarnetError):
                return self._planter.relaxed(graph, device=self.device, way=way)
        return None

    def _relaxed(self, graph: Graph, way: Way, spied: RelaxedGarnet | None) -> dict[int, Relaxed]:
        """The views of all members that can read the graph, by index."""
        reads = dict[int, Relaxed]()
        for i, purifier in enumerate(self.members):
            with suppress(GarnetError):
                if purifier is None:
                    reads[i] = as_it_is
                elif spied is not None and purifier == GARNET():
                    reads[i] = spied
                else:
                    reads[i] = purifier.relaxed(graph, device=self.device, way=way)
        return reads

    def _fit(self, graph: Graph, seeds: Sequence[int], progress: Progress | None) -> tuple[Predictor, ...]:
        if not len(require_trainable(graph)[0].val):
            warnings.warn(
                "No validation node has a label, so all members of the committee count the same and its probabilities "
                "are not calibrated; give the split such nodes.",
                CommitteeWarning,
                stacklevel=4,
            )
        views, doubt, evidence, stages = self._views(graph, self.device, progress)
        (first, view), *others = views.items()
        tell = [partial(_tell, progress, name) for name in self.names]
        fit = partial(train, self.backbone, device=self.device)
        tried = {
            rate: fit(view, seeds=seeds, training=self._at(rate), progress=tell[first]) for rate in self.training.rates
        }
        stages += tuple(stage for models in tried.values() for stage in models[0].stages)
        # The learning rate that suits one view suits the others: trying all on each would double the cost.
        best, trained = [], {}
        for seed, models in zip(seeds, zip(*tried.values(), strict=True), strict=True):
            accuracies = np.nan_to_num([one.val_accuracy for one in models])
            best.append(self.training.rates[int(accuracies.argmax())])
            trained[seed] = {first: models[int(accuracies.argmax())]}
        for rate in dict.fromkeys(best):
            some = [seed for seed, own in zip(seeds, best, strict=True) if own == rate]
            for place, other in others:
                models = fit(other, seeds=some, training=self._at(rate), progress=tell[place])
                stages += models[0].stages
                for seed, model in zip(some, models, strict=True):
                    trained[seed][place] = model
        clock = Clock(progress)
        with clock("beliefs"):
            lessons = None if evidence is None else Lessons(evidence)
            joined = [self._joined(graph, trained[seed], doubt.cpu(), lessons) for seed in seeds]
        return tuple(replace(one, stages=stages + tuple(clock.stages)) for one in joined)

    def _at(self, rate: float) -> Training:
        """The training with one learning rate."""
        return replace(self.training, lr=rate)

    def _joined(self, graph: Graph, members: dict[int, Predictor], doubt: Tensor, lessons: Lessons | None) -> Predictor:
        """One predictor from several, by index, with weights and temperature from the validation nodes."""
        split, known, _ = require_trainable(graph)
        nodes, labels = torch.from_numpy(split.val), torch.from_numpy(known[split.val])
        counts = counts_of(self.training.class_weights, graph)
        # An overconfident member would outvote those that are right.
        logits = [one.logits().float() for one in members.values()]
        temperatures = torch.tensor([likeliest_temperature(one[nodes], labels, counts) for one in logits])
        said = (torch.stack(logits) / temperatures[:, None, None]).log_softmax(dim=2)
        given = said[:, nodes, labels]
        against = self.doubt * doubt
        weights = likeliest_weights(given, against[:, nodes], self.shrinkage, counts)
        say = say_at_nodes(weights[None], against)[0]
        mixed = torch.logsumexp(said + say[..., None], dim=0)
        temperature = likeliest_temperature(mixed[nodes], labels, counts)
        parameters = {_WEIGHTS: torch.full((len(self.members),), -torch.inf), _TEMPERATURE: torch.tensor(temperature)}
        parameters[_TEMPERATURES] = torch.ones(len(self.members))
        parameters[_WEIGHTS][list(members)], parameters[_TEMPERATURES][list(members)] = weights, temperatures
        for place, one in members.items():
            parameters |= {_name(place, name): value for name, value in one.parameters.items()}
        scores, beliefs = mixed / temperature, None
        if lessons is not None and len(nodes):
            taught = scores.softmax(dim=1)
            taught[split.train] = torch.eye(taught.shape[1])[known[split.train]]
            beliefs = Beliefs.learn(lessons, taught, nodes, labels, leeway=self.leeway or 0.0, caution=self.caution)
            if beliefs is not None:
                scores, parameters = beliefs.logits(lessons.evidence)[0].cpu(), parameters | beliefs.stored()
        chosen = scores.argmax(dim=1)
        right = (chosen[nodes] == labels).double()
        right = (right if counts is None else right * counts).mean()
        votes = Votes.of([self.names[i] for i in members], weights, said=said, say=say, doubt=doubt, chosen=chosen)
        return Predictor(
            graph=graph,
            scores=scores,
            seed=next(iter(members.values())).seed,
            backbone=self,
            parameters=parameters,
            epoch=max(one.epoch for one in members.values()),
            val_accuracy=float(right),
            votes=replace(votes, strength=None if beliefs is None else beliefs.strength),
        )

    def _views(
        self, graph: Graph, device: str, progress: Progress | None
    ) -> tuple[dict[int, Graph], Tensor, Evidence | None, tuple[Stage, ...]]:
        """The graph of each member that can read it, (members, n) doubts, the evidence for beliefs, and the cost."""
        clock = Clock(progress)
        found = self._planted(graph, device, clock)
        views = views_of(self.members, graph, found, device=device, clock=clock)
        if not views:
            raise GraphError("No member of the committee can read the graph; give it one that can, such as None.")
        doubt = torch.zeros(len(views), graph.num_nodes)
        if found is not None:
            doubt = doubts(Suspects.of(found), list(views.values()))
        evidence = None
        if graph.num_features and self._may_believe:
            with clock("purify"), suppress(GarnetError):
                place = self.members.index(FeatureKNN()) if FeatureKNN() in self.members else -1
                near = views[place] if place in views else FeatureKNN().purify(graph).graph
                evidence = Evidence.of(graph, near, found, device)
        return views, doubt.to(device), evidence, tuple(clock.stages)

    def _said(
        self, parameters: Parameters, inputs: CommitteeInputs, noise: Noise | None
    ) -> tuple[Tensor, Tensor, dict[int, int]]:
        """For trained members that can read the graph: log-probabilities, log-weights at nodes, rows by index.

        The rows are those of `CommitteeInputs.doubt`.
        """
        said, rows = [], {}
        for row, (i, view) in enumerate(inputs.views.items()):
            own = {name.removeprefix(_name(i, "")): value for name, value in parameters.items() if _of(i, name)}
            if own:
                rows[i] = row
                temperature = parameters[_TEMPERATURES][:, i, None, None]
                said.append((self.backbone.logits(own, view, noise) / temperature).log_softmax(dim=2))
        if not said:
            raise GraphError("No member of the committee that was trained can read the graph.")
        against = self.doubt * inputs.doubt[list(rows.values())]
        return torch.stack(said, dim=1), say_at_nodes(parameters[_WEIGHTS][:, list(rows)], against), rows


def _mixed(said: Tensor, say: Tensor, temperature: Tensor) -> Tensor:
    """(S, n, classes) logits, from members' logits, (S, members, n, classes), and weights, (S, members, n)."""
    return torch.logsumexp(said + say[..., None], dim=1) / temperature[:, None, None]


def _tell(progress: Progress | None, member: str, step: Step) -> None:
    """Report a step with the name of its member."""
    if progress is not None:
        progress(replace(step, detail=", ".join(filter(None, [member, step.detail]))))


def _name(place: int, name: str) -> str:
    return f"{place}.{name}"


def _of(place: int, name: str) -> bool:
    return name.startswith(_name(place, ""))
