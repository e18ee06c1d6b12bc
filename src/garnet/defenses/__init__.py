"""Defences: a purifier before any model, and methods in their own right."""

from garnet.defenses.adversarial_training import AdversarialTraining
from garnet.defenses.audited import Audited
from garnet.defenses.base import Defense, Model
from garnet.defenses.committee import Committee
from garnet.defenses.elastic_gnn import ElasticGNN
from garnet.defenses.feature_knn import FeatureKNN
from garnet.defenses.gnnguard import GNNGuard
from garnet.defenses.jaccard import Jaccard
from garnet.defenses.lfr import LFR
from garnet.defenses.linear_floor import LinearFloor
from garnet.defenses.prognn import ProGNN
from garnet.defenses.purified import Purified
from garnet.defenses.rgcn import RGCN
from garnet.defenses.rsgnn import RSGNN
from garnet.defenses.rung import RUNG
from garnet.defenses.simp_gcn import SimPGCN
from garnet.defenses.soft_median_gdc import SoftMedianGDC
from garnet.defenses.tsvd import TSVD
from garnet.defenses.views import CommitteeWarning
from garnet.purify.base import Purifier
from garnet.training.votes import Votes

__all__ = [
    "LFR", "RGCN", "RSGNN", "RUNG", "TSVD", "AdversarialTraining", "Audited", "Committee", "CommitteeWarning",
    "Defense", "ElasticGNN", "FeatureKNN", "GNNGuard", "Jaccard", "LinearFloor", "Model", "ProGNN", "Purified",
    "Purifier", "SimPGCN", "SoftMedianGDC", "Votes",
]  # fmt: skip
