"""Attacks on graphs: each a value that, called with a graph and a budget, returns the changes it would make."""

from garnet.attacks.adaptive_evasion import AdaptiveEvasion
from garnet.attacks.adaptive_features import AdaptiveFeatures
from garnet.attacks.adaptive_metattack import AdaptiveMetattack
from garnet.attacks.adaptive_search import AdaptiveSearch
from garnet.attacks.base import Attack, Task
from garnet.attacks.bcd import GRBCD, PRBCD
from garnet.attacks.dice import DICE
from garnet.attacks.false_neighbors import FalseNeighbors
from garnet.attacks.features import FeatureFlip, FeaturePGD
from garnet.attacks.lowblow import LowBlow
from garnet.attacks.metattack import Metattack
from garnet.attacks.nettack import Nettack
from garnet.attacks.pgd import PGD, MinMax
from garnet.attacks.poisoning_search import PoisoningSearch
from garnet.attacks.query_search import QuerySearch
from garnet.attacks.random import Random
from garnet.attacks.sga import SGA
from garnet.graph.budget import Budget
from garnet.progress import Stop

__all__ = [
    "DICE",
    "GRBCD",
    "PGD",
    "PRBCD",
    "SGA",
    "AdaptiveEvasion",
    "AdaptiveFeatures",
    "AdaptiveMetattack",
    "AdaptiveSearch",
    "Attack",
    "Budget",
    "FalseNeighbors",
    "FeatureFlip",
    "FeaturePGD",
    "LowBlow",
    "Metattack",
    "MinMax",
    "Nettack",
    "PoisoningSearch",
    "QuerySearch",
    "Random",
    "Stop",
    "Task",
]
