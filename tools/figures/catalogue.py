"""All figures by name: what each shows, from which records, and the command that makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.figures import budgets, cost, doubts, leave_it_on, neighbourhoods, refinement, spectra, sweeps
from tools.leave_it_on import COMMAND, RECORD

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """One figure.

    Attributes:
        title: its heading.
        see: one sentence on what to see.
        records: files it is drawn from, in the folder of records.
        command: what makes them.
        draw: reads them in a folder and returns the figure, without its heading and caption.
    """

    title: str
    see: str
    records: tuple[str, ...]
    command: str
    draw: Callable[[Path], Figure]


#: All figures by name, in the order of the page that shows them.
FIGURES: dict[str, Drawing] = {
    "rank": Drawing(
        title="Rank of the adjacency against the attack's budget, Cora",
        see="The attack raises the rank by up to 8 %, truncation keeps 50 of it, and purified graphs have nearly "
        "full rank, counting singular values above a millionth of the largest; the paper has the clean graph's rank "
        "restored, which is not what we see.",
        records=("spectra.json",),
        command=spectra.COMMAND,
        draw=spectra.rank_against_budget,
    ),
    "singular-values": Drawing(
        title="Singular values of the normalised adjacency, Cora",
        see="Purified graphs keep a whole spectrum where truncation keeps 50 values, but it falls faster at first "
        "than the clean graph's and has small values where that has none.",
        records=("spectra.json",),
        command=spectra.COMMAND,
        draw=spectra.singular_values,
    ),
    "tsvd-rank": Drawing(
        title="Accuracy of GCN with TSVD against its rank, Cora",
        see="More rank helps on the clean graph, but for a dip at 200 where seeds differ widely, and it does not "
        "help on the attacked one.",
        records=("figure-1-tsvd.jsonl",),
        command=sweeps.TSVD_COMMAND,
        draw=sweeps.tsvd_rank,
    ),
    "nettack-budget": Drawing(
        title="Accuracy on the targets of Nettack against its budget (table 7)",
        see="With five edges a target the default loses 1 to 5 points on citation graphs (with four, about 10 on "
        "Cora), where no defence loses 14 to 29; on Chameleon and Squirrel, for which the authors' split is not "
        "public, the default is no better than no defence. Axes differ from panel to panel and do not start at zero.",
        records=("citations.jsonl", "heterophilic.jsonl"),
        command=budgets.NETTACK_COMMAND,
        draw=budgets.nettack,
    ),
    "metattack-budget": Drawing(
        title="Accuracy under Metattack against its budget (table 8)",
        see="At 20 % the default is within one point of what it has on the clean graph, everywhere; on Squirrel, for "
        "which the authors' split is not public, and for GPRGNN on Pubmed, no defence is as good or better. Axes "
        "differ from panel to panel and do not start at zero.",
        records=("citations.jsonl", "heterophilic.jsonl"),
        command=budgets.METATTACK_COMMAND,
        draw=budgets.metattack,
    ),
    "runtimes": Drawing(
        title="End-to-end time of other defences beside GARNET's",
        see="Defences that work on dense matrices take many times as long as purifying and training. Each is a "
        "single run with GPRGNN beside GARNET with GPRGNN, but for LFR, which has a GCN of its own and stands beside "
        "GARNET with GCN; the paper has no number but its largest ratio, over TSVD and Pro-GNN on a GPU.",
        records=("defenses.json",),
        command=cost.RUNTIMES_COMMAND,
        draw=cost.runtimes,
    ),
    "refinement": Drawing(
        title="Ablation of refinement",
        see="On Cora pruning changes little, at the authors' threshold next to nothing, and new neighbours alone, "
        "without the input's edges, cost up to a point. On Chameleon the default adds no neighbours, so that there is "
        "nothing to prune; fifteen a node cost 2.5 to 4 points, with the input's edges or alone.",
        records=("ablation-refinement.jsonl",),
        command=refinement.COMMAND,
        draw=refinement.refinement,
    ),
    "neighbourhoods": Drawing(
        title="Neighbourhoods of three targets of Nettack, five edges each, Cora",
        see="Purification drops four of the five edges that the attack gave each of these targets, and most of the "
        "neighbours that it adds have the target's label; of node 1497 it also drops 11 of 15 true edges.",
        records=("neighbourhoods.json",),
        command=neighbourhoods.COMMAND,
        draw=neighbourhoods.neighbourhoods,
    ),
    "k": Drawing(
        title="Accuracy against the neighbours k, Cora under Metattack 20 %",
        see="From ten neighbours on accuracy moves by a few points; it is best at ten or twenty, fewer than the "
        "paper recommends. The grey band, its recommendation, goes on to 80.",
        records=("ablation-k.jsonl",),
        command=sweeps.K_COMMAND,
        draw=sweeps.k_sweep,
    ),
    "gamma": Drawing(
        title="Accuracy against the threshold γ, Cora under Metattack 20 %",
        see="With the authors' parameters GCN loses ten points where γ is too large and GPRGNN none (the paper, under "
        "Nettack with one edge a target, has a loss of 3); as a quantile γ hardly matters.",
        records=("ablation-gamma.jsonl",),
        command=sweeps.GAMMA_COMMAND,
        draw=sweeps.gamma_sweep,
    ),
    "growth": Drawing(
        title="Seconds of a purification against the size of the graph",
        see="Time grows no faster than the nodes over the whole range; the bump at 30,000 nodes is the exact search, "
        "which graphs of more than 50,000 do not use.",
        records=("growth.json",),
        command=cost.GROWTH_COMMAND,
        draw=cost.growth,
    ),
    "products": Drawing(
        title="Where the seconds go on a GPU",
        see="Finding eigenvectors is the larger part for a drawn graph of the size of ogbn-products; the first run "
        "also compiles the kernels, and the default adds no neighbours to so dense a graph. The last bar is the real "
        "ogbn-arxiv.",
        records=("products.json",),
        command=cost.PRODUCTS_COMMAND,
        draw=cost.products,
    ),
    "audit": Drawing(
        title="How well made-up edges are found",
        see="In ROC-AUC, one line an attack: the audit, blue, beside single scores. Left of the "
        "dotted line a score is worse than a guess.",
        records=("audit.json",),
        command=doubts.COMMAND,
        draw=doubts.found_by_audit,
    ),
    "alarms": Drawing(
        title="How suspicious the edges of clean graphs are",
        see="Right of the dotted line an edge is doubted: few of the clean graphs, most of them of Squirrel, many "
        "of an attack. Where all edges are rewired at random, no edge stands out. The first and last steps hold what "
        "lies beyond.",
        records=("audit.json",),
        command=doubts.COMMAND,
        draw=doubts.false_alarms,
    ),
    "leave-it-on": Drawing(
        title="What a defence costs where nobody attacks, and gains where somebody does",
        see="GPRGNN with each defence against GPRGNN with none, one point a graph and attack; in grey, the other "
        "defences. Further left costs less, further up gains more. Under Nettack both are of its targets. The means "
        "are of all clean graphs, and of all attacks that were measured.",
        records=(RECORD,),
        command=COMMAND,
        draw=leave_it_on.cost_and_gain,
    ),
}
