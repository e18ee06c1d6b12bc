"""The parameters that the paper's authors published with their code, graph by graph."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from garnet.errors import ParameterError, brief
from garnet.parameters import NonNegative, require_arguments

# What the published configurations share: the r largest singular values, the signed score of U L U^T, an absolute
# gamma, unscaled rows.
_COMMON: dict[str, Any] = {
    "rank": 50,
    "end": "magnitude",
    "features": "propagated",
    "feature_rank": None,
    "feature_weight": 1.0,
    "scaling": "none",
    "support": None,
    "overlap": 0.0,
    "score": "signed",
    "gamma": 3e-4,
    "gamma_unit": "absolute",
    "weight": "score",
}
_HETEROPHILIC: dict[str, Any] = {"normalize": False, "features": "none", "weight": "one"}
_PUBLISHED: dict[tuple[str, str], dict[str, Any]] = {
    ("cora", "gcn"): {"k": 30},
    ("cora", "gprgnn"): {"k": 30},
    ("citeseer", "gcn"): {"k": 50},
    ("citeseer", "gprgnn"): {"k": 20},
    ("pubmed", "gcn"): {"k": 50},
    ("pubmed", "gprgnn"): {"k": 50, "gamma": 0.0},
    ("chameleon", "gprgnn"): {**_HETEROPHILIC, "k": 50},
    ("squirrel", "gprgnn"): {**_HETEROPHILIC, "k": 60, "gamma": 3e-3},
}
# What changes with the attack and its budget: edges per target for Nettack, share of the edges for Metattack.
_EXCEPTIONS: dict[tuple[str, str, str], dict[float, dict[str, Any]]] = {
    ("cora", "gcn", "metattack"): {0.1: {"features": "none"}, 0.2: {"features": "none"}},
    ("cora", "gprgnn", "metattack"): {0.1: {"features": "none"}},
    ("cora", "gcn", "nettack"): {4: {"features": "none"}, 5: {"features": "none"}},
    ("cora", "gprgnn", "nettack"): {4: {"features": "none"}, 5: {"features": "none"}},
    ("citeseer", "gcn", "metattack"): {0: {"k": 30}, 0.1: {"k": 70}, 0.2: {"k": 30}},
    ("citeseer", "gprgnn", "metattack"): {0: {"k": 30}, 0.1: {"k": 30}, 0.2: {"k": 30}},
    ("citeseer", "gcn", "nettack"): {4: {"k": 30}, 5: {"k": 10}},
    ("citeseer", "gprgnn", "nettack"): {0: {"k": 50}, 4: {"k": 10}, 5: {"k": 10}},
    ("pubmed", "gprgnn", "nettack"): {
        **{n: {"scaling": "minmax"} for n in (0, 1)},
        **{n: {"scaling": "standardize"} for n in (2, 3, 4, 5)},
    },
    ("chameleon", "gprgnn", "metattack"): {share: {"scaling": "standardize"} for share in (0, 0.1, 0.2)},
}
_STRONGEST = {"metattack": 0.2, "nettack": 5.0}


def published(dataset: str, backbone: str, attack: str, budget: float | None) -> dict[str, Any]:
    """The constructor arguments of `GARNET` that reproduce one published configuration.

    Half of the published configurations change with the attack, which a defender does not know: they are for
    reproduction. The configuration files are from github.com/cornell-zhang/GARNET. H2GCN has none, and uses those of
    GPRGNN.

    Args:
        dataset: `cora`, `citeseer`, `pubmed`, `chameleon` or `squirrel`.
        backbone: `gcn`, `gprgnn` or `h2gcn`.
        attack: `metattack` or `nettack`.
        budget: share of the edges, or edges per target; 0 is the clean graph, None the largest published.
    """
    require_arguments("paper", dataset=(dataset, str), backbone=(backbone, str), attack=(attack, str))
    require_arguments("paper", budget=(budget, NonNegative | None))
    key = (dataset, "gprgnn" if backbone == "h2gcn" else backbone)
    if key not in _PUBLISHED:
        known = [f"{graph} with {model}" for graph, model in _PUBLISHED]
        wanted = f"{dataset[:40]} with {backbone[:40]}"
        near = get_close_matches(wanted, known, n=2, cutoff=0.3)
        raise ParameterError(f"No parameters were published for {brief(wanted)}; try {' or '.join(near or known)}.")
    if attack not in _STRONGEST:
        raise ParameterError(f"No parameters were published for the attack {brief(attack)}; try metattack or nettack.")
    chosen = _STRONGEST[attack] if budget is None else budget
    return {**_COMMON, **_PUBLISHED[key], **_EXCEPTIONS.get((*key, attack), {}).get(chosen, {})}
