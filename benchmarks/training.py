"""Training against PyTorch Geometric, and seeds together against seeds in a row, side by side in one run.

1. One step (forward, backward, Adam) of a GCN of two layers, 64 wide, on Pubmed poisoned by Metattack and purified with
   the paper's parameters: ours against the same model of PyG's GCNConv with the normalisation cached, on edge_index
   (gather and scatter, as most code does it) and on a sparse CSR tensor. All begin from the same weights, and their
   logits are compared first. PyG multiplies dense features; ours are sparse where that is faster. Repetitions are
   interleaved; medians are printed.
2. Ten GCN seeds trained in one call against ten calls, on Cora and on the purified Pubmed.
3. The whole training of one GCN seed on Cora, in seconds.

With --device cuda only the second is run, and written to results/training-cuda.json.

    python benchmarks/training.py [--rounds 15] [--epochs 10] [--device cuda]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from record import data_folder, save
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.nn import GCNConv
from torch_geometric.utils import to_torch_csr_tensor

from garnet import GARNET, Graph
from garnet.backbones import GCN
from garnet.backbones.base import Noise
from garnet.datasets import load, poisoned
from garnet.training.loop import Training, train

MODEL = GCN(layers=2, hidden=64, dropout=0.5)
LR, WEIGHT_DECAY = 0.01, 5e-4


def main() -> None:
    """Run the three comparisons and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=15, help="timed steps of each model, and of each whole training")
    options.add_argument(
        "--epochs", type=int, default=10, help="epochs of ten seeds on Pubmed; Cora has ten times more"
    )
    options.add_argument("--device", default="cpu", help="cpu, or cuda for the seeds alone")
    chosen = options.parse_args()
    os.environ["GARNET_DATA"] = str(data_folder())

    cora = load("cora", split="random")
    attacked = poisoned("pubmed", attack="metattack", budget=0.2)
    pubmed = GARNET.paper("pubmed", "gcn", attack="metattack", budget=0.2).purify(attacked).graph
    figures: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "ten seeds on cora": seeds(cora, 10 * chosen.epochs, chosen.device),
        "ten seeds on purified pubmed": seeds(pubmed, chosen.epochs, chosen.device),
    }
    if chosen.device == "cpu":
        figures["step on purified pubmed"] = {"graph": repr(pubmed), **steps(pubmed, chosen.rounds)}
        figures["cora, one seed"] = whole(cora, chosen.rounds)
    else:
        figures["device"] = torch.cuda.get_device_name()
    for name, row in figures.items():
        print(name, row)
    save("training" if chosen.device == "cpu" else f"training-{chosen.device}", figures)


def steps(graph: Graph, rounds: int) -> dict[str, Any]:
    """Median seconds of a training step of each model, taking turns."""
    data = graph.to_pyg()
    csr = to_torch_csr_tensor(data.edge_index, data.edge_weight, size=(graph.num_nodes, graph.num_nodes))
    parameters = {n: v[None] for n, v in MODEL.initial(data.num_features, 3, torch.Generator().manual_seed(0)).items()}
    inputs = MODEL.prepare(graph, "cpu")
    theirs = {
        "pyg, edge_index": PygGCN(parameters, (data.edge_index, data.edge_weight)),
        "pyg, sparse CSR": PygGCN(parameters, (csr,)),
    }
    with torch.no_grad():
        expected = MODEL.logits(parameters, inputs, None)[0]
        differences = {name: float((m.eval()(data.x) - expected).abs().max()) for name, m in theirs.items()}

    noise = Noise([torch.Generator().manual_seed(0)])
    weights = {name: value.clone().requires_grad_() for name, value in parameters.items()}
    models: dict[str, Callable[[], None]] = {
        "garnet": step(lambda: MODEL.logits(weights, inputs, noise)[0], list(weights.values()), graph),
        **{name: step(lambda m=m: m.train()(data.x), list(m.parameters()), graph) for name, m in theirs.items()},
    }
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(rounds + 1):
        for name, run in models.items():
            seconds[name].append(timed(run))
    medians = {name: median(times[1:]) for name, times in seconds.items()}  # the first fills the caches
    ratios = {name: medians[name] / medians["garnet"] for name in theirs}
    return {"seconds": medians, "ratio": ratios, "largest_difference_of_logits": differences}


def step(logits: Callable[[], Tensor], parameters: list[Tensor], graph: Graph) -> Callable[[], None]:
    """One step of full-batch training."""
    assert graph.split is not None
    nodes, labels = torch.from_numpy(graph.split.train), torch.from_numpy(graph.labels)[graph.split.train]
    optimizer = torch.optim.Adam(parameters, lr=LR, weight_decay=WEIGHT_DECAY)

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        cross_entropy(logits()[nodes], labels).backward()
        optimizer.step()

    return run


class PygGCN(torch.nn.Module):
    """The same model of PyTorch Geometric's convolutions, with given weights."""

    def __init__(self, weights: dict[str, Tensor], edges: tuple[Tensor, ...]) -> None:
        super().__init__()
        self.edges = edges
        self.convs = torch.nn.ModuleList()
        for layer in range(2):
            weight, bias = weights[f"weight{layer}"][0], weights[f"bias{layer}"][0, 0]
            conv = GCNConv(*weight.shape, cached=True)
            conv.load_state_dict({"lin.weight": weight.T, "bias": bias})
            self.convs.append(conv)

    def forward(self, x: Tensor) -> Tensor:
        """(n, classes) logits."""
        hidden = self.convs[0](x, *self.edges).relu()
        return self.convs[1](dropout(hidden, 0.5, self.training), *self.edges)


def seeds(graph: Graph, epochs: int, device: str) -> dict[str, float]:
    """Seconds of ten seeds in one call and in ten calls; the inputs are prepared before."""
    training = Training(epochs=epochs, patience=None)
    inputs = MODEL.prepare(graph, device)

    def together() -> None:
        train(MODEL, graph, seeds=range(10), training=training, inputs=inputs, device=device)

    def in_a_row() -> None:
        for seed in range(10):
            train(MODEL, graph, seeds=(seed,), training=training, inputs=inputs, device=device)

    runs = [(timed(together), timed(in_a_row)) for _ in range(3)]
    one, other = (median(column) for column in zip(*runs, strict=True))
    return {"epochs": epochs, "together_seconds": one, "in_a_row_seconds": other, "ratio": other / one}


def whole(graph: Graph, rounds: int) -> dict[str, float]:
    """Seconds of one training with the defaults, and what it reaches."""
    results: list[Any] = []
    seconds = [timed(lambda: results.append(train(MODEL, graph)[0])) for _ in range(min(rounds, 5))]
    return {"seconds": median(seconds), "best_epoch": results[0].epoch, "accuracy": results[0].accuracy()}


def timed(run: Callable[[], Any]) -> float:
    """Seconds of one run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
