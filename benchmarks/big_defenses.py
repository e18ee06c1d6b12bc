"""What Soft Median GDC and GNNGuard cost on ogbn-arxiv: preparation, a training step, memory; each in its own process.

The graph is the real one; its features are drawn as in attacks.py. Soft Median GDC has the paper's settings for this
graph (alpha 0.1, 64 neighbours, temperature 5), both are 64 wide. A step is forward, backward and Adam on the whole
graph; an epoch of training is a step and a look at the validation nodes, which is another forward.

    python benchmarks/big_defenses.py [soft-median-gdc gnnguard] [--steps 3] [--device cuda]
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch
from attacks import ARXIV_SIGNAL
from record import data_folder, save

from garnet.backbones.base import BUFFER, Noise
from garnet.datasets import class_features, load
from garnet.defenses.base import Model
from garnet.graph.graph import as_graph
from garnet.machine import peak_memory
from garnet.training.supervision import Supervision

NAMES = ("soft-median-gdc", "gnnguard")


def main() -> None:
    """Measure those asked for, one after another, and write a record of each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", help=f"of {', '.join(NAMES)}; all of them if none is given")
    options.add_argument("--steps", type=int, default=3)
    options.add_argument("--device", default="cpu", help="cpu or cuda")
    chosen = options.parse_args()
    os.environ["GARNET_DATA"] = str(data_folder())
    for name in chosen.names or NAMES:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            figures = fresh.submit(measure, name, chosen.device, chosen.steps).result()
        print(name, figures)
        save(f"big-{name}" + ("" if chosen.device == "cpu" else f"-{chosen.device}"), figures)


def measure(name: str, device: str, steps: int) -> dict[str, Any]:
    """Seconds of each part, and the largest resident memory by its end."""
    model = built(name)
    plain = load("ogbn-arxiv")
    graph = as_graph(plain, features=class_features(plain.labels, dim=128, signal=ARXIV_SIGNAL, seed=0))
    supervision = Supervision.of(graph, 1, device)
    figures: dict[str, Any] = {
        "model": repr(model), "graph": repr(graph), "threads": torch.get_num_threads(),
        "after_reading_gb": peak_memory() / 1e9,
    }  # fmt: skip

    start = now(device)
    inputs = model.prepare(graph, device)
    figures |= {"prepare_seconds": now(device) - start, "prepare_peak_gb": peak_memory() / 1e9}

    generator = torch.Generator(device).manual_seed(0)
    parameters = {key: value[None] for key, value in model.initial(128, supervision.classes, generator).items()}
    learnt = [value.requires_grad_() for key, value in parameters.items() if not key.startswith(BUFFER)]
    optimizer = torch.optim.Adam(learnt, lr=0.01)
    noise, seconds, losses = Noise([generator]), [], []
    for _ in range(steps):
        start = now(device)
        optimizer.zero_grad(set_to_none=True)
        loss = supervision.losses(model.logits(parameters, inputs, noise)).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        seconds.append(now(device) - start)
        losses.append(loss.item())
    start = now(device)
    with torch.no_grad():
        model.logits(parameters, inputs, None)
    figures |= {"step_seconds": seconds, "evaluation_seconds": now(device) - start, "losses": losses}
    figures["peak_gb"] = peak_memory() / 1e9
    if device != "cpu":
        figures |= {"device": torch.cuda.get_device_name(), "device_gb": torch.cuda.max_memory_allocated() / 1e9}
    return figures


def built(name: str) -> Model:
    """The defence with the settings of this graph."""
    if name == "gnnguard":
        from garnet.defenses.gnnguard import GNNGuard

        return GNNGuard()
    from garnet.defenses.soft_median_gdc import SoftMedianGDC

    return SoftMedianGDC(hidden=64, alpha=0.1, k=64, temperature=5.0)


def now(device: str) -> float:
    """The time once the device has nothing left to do."""
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    main()
