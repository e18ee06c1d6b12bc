"""`garnet demo`."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from garnet.cli.console import out, printable, stages
from garnet.cli.outputs import Outputs, Overwrite
from garnet.cli.report import command_line, require_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from garnet.graph.graph import Graph
    from garnet.purify.result import Purification
    from garnet.training.predictor import Predictor

_MODELS = 3
_TITLE = "Cora under Metattack, purified"


def demo(
    context: typer.Context,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the purifier, the models and a live attack.")] = 0,
    live: Annotated[
        bool, typer.Option("--live", help="Attack the graph anew (minutes) instead of using a stored attack.")
    ] = False,
    report: Annotated[Path, typer.Option(help="Where to write the report, an .html file.")] = Path("garnet-demo.html"),
    overwrite: Overwrite = False,
) -> None:
    """Let Metattack poison a real citation graph (Cora), purify it, train one GCN and a committee, write a report."""
    from garnet.attacks import Metattack
    from garnet.backbones import GCN
    from garnet.datasets import cora_metattack, load
    from garnet.defenses import Purified
    from garnet.defenses.committee import Committee
    from garnet.graph.edges import canonical, contains
    from garnet.purify.garnet import GARNET
    from garnet.report.page import write_report
    from garnet.report.purification_record import Accuracy, PurificationRecord
    from garnet.training.loop import Training

    require_page(report)
    # A demonstration is meant to be repeated, so it may replace its own page.
    outputs = Outputs(context, written=["report"], replaceable=[report] if _is_ours(report) else [])
    clean = load("cora", split="random")
    seeds = range(seed, seed + _MODELS)
    with stages() as progress:
        attack = Metattack()(clean, budget="20%", seed=seed, progress=progress) if live else cora_metattack()
        poisoned, added = attack.apply(clean), attack.added(clean)
        planted = canonical(added[0], added[1], clean.num_nodes)
        count = planted.shape[1]
        out.print(
            f"Cora: {clean.num_nodes:,} papers, {clean.num_edges:,} citations, 7 subjects. An attacker who knows the "
            f"subjects of a tenth adds {count:,} edges and drops {attack.edges.shape[1] - count:,} (Metattack, "
            f"seed {attack.seed})."
        )
        quick = Training(epochs=100, lr=0.02, patience=20)
        before = Purified(None, GCN(), training=quick).fit_seeds(poisoned, seeds, progress=progress)
        result = GARNET(seed=seed).purify(poisoned, progress=progress)
        after = Committee(backbone=GCN(), training=quick).fit_seeds(poisoned, seeds, progress=progress)

    ledger = result.ledger
    true = poisoned.edges[:, ~contains(planted, poisoned.edges, clean.num_nodes)]
    dropped, lost = ledger.share_dropped(planted), ledger.share_dropped(true)
    table = Table(title="What GARNET made of it", title_justify="left")
    table.add_column("")
    table.add_column("edges", justify="right")
    table.add_column("share", justify="right")
    table.add_row("edges of the attack dropped", f"{dropped * count:,.0f} of {count:,}", f"{dropped:.1%}")
    table.add_row("true edges kept", f"{(1 - lost) * true.shape[1]:,.0f} of {true.shape[1]:,}", f"{1 - lost:.1%}")
    table.add_row("new edges", f"{ledger.added.shape[1]:,}", "")
    table.add_row("edges that join equal subjects, before", f"{poisoned.num_edges:,}", f"{poisoned.homophily:.1%}")
    table.add_row(
        "edges that join equal subjects, after", f"{result.graph.num_edges:,}", f"{result.graph.homophily:.1%}"
    )
    table.add_row("seconds", f"{result.seconds:.2f}", "")
    out.print(table)
    out.print(_histogram(result, planted), markup=True)
    right = [tuple(one.accuracy() for one in models) for models in (before, after)]
    told = [_spread([100 * share for share in shares]) for shares in right]
    out.print(
        f"A GCN that knows the subjects of a tenth finds those of [red]{told[0]} %[/] of the test papers; a committee "
        f"of GCNs, on the graph as it is and purified, [green]{told[1]} %[/] ({_MODELS} times each; ± is the standard "
        "deviation).",
        markup=True,
    )
    accuracy = Accuracy(
        before=right[0],
        after=right[1],
        model="a GCN before and a committee of GCNs after",
        mended=_mended(clean, before, after),
    )
    subject = PurificationRecord.of(poisoned, result, truth=planted, accuracy=accuracy, command=command_line())
    with outputs:
        write_report(subject, outputs.staged(report), title=_TITLE)
    out.print(
        "Every edge and its neighbourhood: open",
        Text(printable(report), style="bold"),
        "in a browser (it needs no network).",
        soft_wrap=True,
    )
    out.print(
        "Your own graph: [bold]garnet purify graph.npz -o clean.npz[/] or [bold]garnet train graph.npz --purify[/]",
        soft_wrap=True,
        markup=True,
    )


def _mended(graph: Graph, before: Sequence[Predictor], after: Sequence[Predictor]) -> tuple[int, ...]:
    """The test nodes that all models got wrong before and all get right after."""
    import numpy as np

    wrong, right = (
        np.all([(one.predictions() == graph.labels) == said for one in models], axis=0)
        for models, said in ((before, False), (after, True))
    )
    test = np.zeros(0, np.int64) if graph.split is None else graph.split.test
    return tuple(test[(wrong & right)[test]].tolist())


def _is_ours(report: Path) -> bool:
    """Whether an earlier demonstration wrote the page and nobody has changed it since."""
    from garnet.io.stamp import stamp_of

    return stamp_of(report) is not None and f"<title>{_TITLE}</title>" in report.read_text("utf-8", "replace")


def _spread(values: list[float]) -> str:
    return f"{mean(values):.1f} ± {stdev(values):.1f}"


def _histogram(result: Purification, planted: Any, bins: int = 12, width: int = 44) -> str:
    """Text histograms of the scores of true edges and of the attack's, the nearest on top."""
    import numpy as np

    from garnet.graph.edges import contains

    ledger = result.ledger
    edges = np.concatenate([ledger.kept, ledger.dropped], axis=1)
    scores = np.concatenate([ledger.kept_scores, ledger.dropped_scores])
    strange = contains(planted, edges, result.graph.num_nodes)
    known = np.isfinite(scores)  # nothing is known of a node without neighbours
    scores, strange = scores[known], strange[known]
    limits = np.histogram_bin_edges(scores, bins)
    counts = [np.histogram(scores[mask], limits)[0] for mask in (~strange, strange)]
    unit = max(1, int((counts[0] + counts[1]).max() / width))
    full, light = "#:" if out.options.ascii_only else "█░"
    lines = [f"How near the two ends of an input edge lie: [green]{full} true edges[/], [red]{light} the attack's[/]"]
    for row in reversed(range(bins)):
        bar = f"[green]{full * (counts[0][row] // unit)}[/][red]{light * (counts[1][row] // unit)}[/]"
        lines.append(f"{limits[row]:7.2f}  {bar}")
    return "\n".join(lines)
