"""What the DPNAS benchmark does: settings of each data set, one training, one search."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.tramer_boneh import CHANNELS
from privaware import datasets, models
from privaware.data import Data
from privaware.descent import Checkpoint, Descent, Poisson, clipped_sum, cross_entropy, ema, flat, momentum
from privaware.learners import _networks
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._dpnas_cells import Cell, cells_from_indices, operation_shares, uniform_cells
from privaware.strategies._dpnas_weights import tensors_of
from privaware.strategies._strategy import Runtime
from privaware.strategies.dpnas import DpNas

AWARE = 0.8
HELD = 0.4
PROPOSED = 20
LOOKED = 10
AGAIN = 4
"""The best cells are tried with a doubled learning rate too."""
SGD_RATES = (0.1, 0.03, 0.01, 0.003)
WORTH = 0.005
"""What the doubled rate must gain."""


@dataclass(frozen=True)
class Case:
    """Evaluation settings (`marks`: the steps at which the classic epsilon is 1, 2 and 3), and those of the search.

    The hand-made network has the learning rate of Tramer and Boneh's Table 13 for a batch of this size; `tried` cells
    of a search get a short training. `mirrored`: what the images show may be mirrored (digits may not).
    """

    network: dict[str, Any]
    small: dict[str, Any]
    cnn: dict[str, Any]
    batch: int
    noise: float
    lr: float
    marks: tuple[int, ...]
    search: dict[str, Any]
    cnn_lr: float = 2.0
    tried: int = 1
    mirrored: bool = False


def cnn(name: str) -> dict[str, Any]:
    """The hand-made network of Papernot et al. that Table 1 compares with."""
    return models.named()[f"tramer_boneh.cnn.{name}"].description


WIDE = {"channels": [48, 96, 192], "activation": "selu"}
NARROW = {"channels": [32, 32, 64], "activation": "tanh"}
SMALL = {"channels": [16, 16, 32], "squeeze": 16}
SEARCH = {
    "rate": 0.04,
    "lr": 2.0,
    "aware": AWARE,
    "held_rate": 0.1,
    "updates": 4,
    "physical": 2048,
    "precision": "tf32",
}
GREY = {"batch": 2048, "noise": 2.15, "lr": 2.0, "marks": (118, 514, 1157), "search": SEARCH}
CASES = {
    "mnist": Case(NARROW, SMALL, cnn("mnist.26010"), **GREY),
    "fashion_mnist": Case(NARROW, SMALL, cnn("mnist.26010"), **GREY, cnn_lr=4.0),
    "cifar10": Case(
        WIDE,
        {**SMALL, "activation": "selu"},
        cnn("cifar10.550570"),
        batch=2048,
        noise=2.0664,
        lr=2.0,
        marks=(69, 316, 721),
        search=SEARCH,
        tried=20,
        mirrored=True,
    ),
    # Small enough for a CPU, and far from private: it shows that the parts work together.
    "digits": Case(
        {"channels": [8, 16], "squeeze": 16, "hidden": 32, "groups": 4, "activation": "selu"},
        {"channels": [4, 8], "squeeze": 8, "hidden": 16, "groups": 4, "activation": "selu"},
        {
            "name": "simple_cnn",
            "inputs": [1, 8, 8],
            "outputs": 10,
            "filters": [16, 32],
            "hidden": [32],
            "activation": "tanh",
        },
        batch=144,
        noise=0.6,
        lr=4.0,
        cnn_lr=4.0,
        marks=(60, 200),
        search={
            "epochs": 40,
            "warm_up": 20,
            "rate": 0.1,
            "lr": 4.0,
            "aware": 0.3,
            "updates": 2,
            "held_rate": 0.5,
            "controller_lr": 0.01,
        },
    ),
}


@cache
def parts(data: str) -> tuple[Data, Data]:
    loaded = datasets.load(data)
    return loaded.train, loaded.test


def scaled(rows: Data, data: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images standardised by public constants, and their classes."""
    if data not in CHANNELS:
        return tensors_of(rows, device)
    mean, deviation = (torch.tensor(v, device=device)[:, None, None] for v in CHANNELS[data])
    x = (torch.from_numpy(rows.x).to(device) - mean) / deviation
    return x, torch.from_numpy(rows.y).to(device)


def described(data: str, cell: Cell | list[Any], **more: Any) -> dict[str, Any]:
    """The network of a cell in the form of a data set."""
    shape = parts(data)[0].schema.shape
    ends = {"inputs": list(shape), "outputs": 10, "cell": list(cell)}
    return {"name": "dpnas", **ends, **CASES[data].network, **more}


@dataclass(frozen=True)
class Marks(Checkpoint):
    """Keeps no file: at the marks it scores on test rows the model with averaged parameters, and that with the last."""

    tested: Any = None
    truth: Any = None
    at: tuple[int, ...] = ()
    scores: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)

    def load(self, run: Any) -> None:
        """Runs begin at their beginning."""

    def maybe(self, run: Any) -> None:
        if run.step in self.at:
            last = run.stack.released(run.modules, run.stack.theta)
            for networks, scores in ((run.released(), self.scores), (last, self.last)):
                network = networks[0].to(self.tested.device).eval()
                scores.append(accuracy(network, self.tested, self.truth))


@torch.no_grad()
def accuracy(network: Any, inputs: torch.Tensor, truth: torch.Tensor) -> float:
    right = [network(x).argmax(1) == y for x, y in zip(inputs.split(2000), truth.split(2000))]
    return float(torch.cat(right).float().mean())


def train(
    data: str,
    description: dict[str, Any],
    seed: int,
    device: str,
    precision: str = "float32",
    lr: float | None = None,
    on: tuple[Data, Data] | None = None,
    marks: tuple[int, ...] = (),
    mirrored: bool = False,
) -> dict[str, Any]:
    """One network from scratch with the evaluation settings; accuracy on the second part of `on` at each mark.

    If `mirrored`, the mean gradient of each image and its mirror image is clipped.
    """
    case, (rows, test) = CASES[data], on or parts(data)
    lr, marks = lr or case.lr, marks or case.marks
    inputs, targets = scaled(rows, data, device)
    descent = Descent(
        steps=marks[-1],
        sampler=Poisson(rate=case.batch / len(rows)),
        clip=flat(0.1),
        update=momentum(lr, 0.9),
        average=ema(),
        copies=2 if mirrored else 1,
        augment=_networks.mirrored if mirrored else None,
        precision=precision,
        # A whole sample at once, almost always.
        physical=2208 if device.startswith("cuda") else None,
    )
    seen = Marks("", 1, *scaled(test, data, device), marks)
    network = models.build(description, np.random.default_rng(seed))
    began = time.perf_counter()
    given = {"noise": case.noise, "rows": len(rows), "rng": Rng(seed=seed), "device": device}
    descent.run(network, inputs, targets, checkpoint=seen, **given)
    return {
        "data": data,
        "seed": seed,
        "accuracy": seen.scores,
        "last": seen.last,
        "lr": lr,
        "parameters": models.count(description),
        "cell": description.get("cell"),
        "precision": precision,
        "seconds": round(time.perf_counter() - began, 1),
    }


def derive(data: str, found: dict[str, Any], device: str, precision: str) -> dict[str, Any]:
    """Which of the cells that a search proposes, and which learning rate, by short private trainings.

    They have the small form, the rows that trained the search, the steps up to epsilon 2, and are scored on the rows
    that scored the search: test rows have no part in it.
    """
    case, on = CASES[data], halves(data, found["seed"])
    tried: list[dict[str, Any]] = []

    def add(cell: list[str], lr: float) -> None:
        small = described(data, cell, **case.small)
        made = train(data, small, found["seed"], device, precision, lr, on, case.marks[1:2])
        tried.append({"cell": cell, "lr": lr, "score": made["accuracy"][-1]})

    for at in np.argsort(found["scores"])[::-1][: case.tried]:
        add(found["cells"][at], case.lr)
    ranked = sorted(tried, key=_score, reverse=True)
    for one in ranked[:AGAIN]:
        add(one["cell"], 2 * case.lr)
    best, faster = ranked[0], max(tried[len(ranked) :], key=_score)
    if faster["score"] > best["score"] + WORTH:
        best = faster
    return {"data": data, "seed": found["seed"], **best, "tried": tried}


def long_rate(data: str, short: float) -> float:
    """The learning rate of all steps from that of the short training: noise adds up with the root of their number."""
    marks = CASES[data].marks
    return round(short * float(marks[1] / marks[-1]) ** 0.5, 3)


def _score(tried: dict[str, Any]) -> float:
    return float(tried["score"])


def strategy(data: str, variant: str, own: dict[str, Any] | None = None) -> DpNas:
    """The search as it is, with cells at random throughout, or with plain gradient descent."""
    case = CASES[data]
    made = DpNas(**case.search | (own or {}), network=case.network)
    if variant == "uniform":
        return replace(made, policy="uniform")
    if variant == "sgd":
        return replace(made, norm=float("inf"), aware=0.0)
    return made


def sgd_rate(made: DpNas, on: tuple[Data, Data], seed: int, device: str) -> dict[float, float]:
    """Held accuracy of cells at random after a few epochs of plain gradient descent, by learning rate.

    What is clipped can bear a rate of 2; without clipping the shared weights run away at 0.1.
    """
    short = replace(made, epochs=12, warm_up=12, policy="uniform")
    runtime = Runtime(device=device)
    found = {
        lr: replace(short, lr=lr).search(*on, 0.0, Rng(seed=seed), public=True, runtime=runtime) for lr in SGD_RATES
    }
    return {lr: round(float(np.mean(one.scores)), 4) for lr, one in found.items()}


def halves(data: str, seed: int) -> tuple[Data, Data]:
    """Rows that train and rows that score, 0.6 to 0.4 as in the paper."""
    rows = parts(data)[0]
    order = np.random.default_rng(seed).permutation(len(rows))
    cut = round((1 - HELD) * len(rows))
    return tuple(
        replace(part, schema=replace(part.schema, rows=len(part)))
        for part in (rows.take(np.sort(order[:cut])), rows.take(np.sort(order[cut:])))
    )  # type: ignore[return-value]


class Looks:
    """Figure 3 (c): after epochs, test accuracy with the shared weights of cells proposed and of cells at random."""

    def __init__(self, data: str, device: str, every: int) -> None:
        test = parts(data)[1]
        self.rows = tensors_of(test.take(np.arange(min(2000, len(test)))), device)
        self.every, self.curve = every, list[dict[str, Any]]()

    def __call__(self, epoch: int, shared: Any, controller: Any) -> None:
        if (epoch + 1) % self.every and epoch:
            return
        with torch.no_grad():
            proposed = controller(LOOKED, torch.Generator().manual_seed(epoch))
        entropy = float(proposed.entropies.sum(1).mean())
        seen = {"epoch": epoch + 1, "entropy": round(entropy, 2)}
        at_random = uniform_cells(LOOKED, controller.nodes, np.random.default_rng(epoch))
        for name, cells in (("controller", cells_from_indices(proposed.cells)), ("uniform", at_random)):
            scores = shared.count_correct(cells, *self.rows) / len(self.rows[1])
            seen[name] = [round(float(score), 4) for score in scores]
        self.curve.append(seen)


def search(
    data: str, variant: str, own: dict[str, Any], seed: int, device: str, saved: Path, tell: Callable[..., None]
) -> dict[str, Any]:
    """One search on benchmark rows as public ones, and what its controller proposes."""
    chosen = strategy(data, variant, own)
    looks = Looks(data, device, every=max(1, chosen.epochs // 50))
    on, rates = halves(data, seed), dict[float, float]()
    began = time.perf_counter()
    if variant == "sgd" and "lr" not in own:
        rates = sgd_rate(chosen, on, seed, device)
        chosen = replace(chosen, lr=max(rates, key=lambda lr: rates[lr]))
    runtime = Runtime(device=device, progress=tell, checkpoint=saved, on_epoch=looks)
    found = chosen.search(*on, chosen.aware, Rng(seed=seed), public=True, runtime=runtime)
    seconds = time.perf_counter() - began
    drawn = np.random.default_rng(seed)
    at_random = variant == "uniform"
    thousand = uniform_cells(1000, chosen.nodes, drawn) if at_random else found.proposals(1000, drawn)
    saved.unlink(missing_ok=True)
    return {
        "data": data,
        "variant": variant,
        "seed": seed,
        "cell": list(found.cell),
        "score": found.score,
        "cells": [list(cell) for cell in found.cells[:PROPOSED]],
        "scores": list(found.scores),
        "shares": operation_shares(thousand),
        "curve": looks.curve,
        "rates": rates,
        "settings": repr(chosen),
        "seconds": round(seconds, 1),
    }


def check(device: str) -> dict[str, Any]:
    """Whether the device finds the same clipped sums as a CPU, and how long steps take there."""
    torch.backends.cudnn.allow_tf32 = False
    cell = CELLS["cifar10"]
    network = models.build(
        {"name": "dpnas", "inputs": [3, 32, 32], "outputs": 10, "cell": cell, **WIDE}, np.random.default_rng(0)
    )
    rows, truth = torch.rand(6, 3, 32, 32), torch.arange(6)
    slow, _ = clipped_sum(network, cross_entropy, rows, truth, norm=0.1)
    fast, _ = clipped_sum(network.to(device), cross_entropy, rows.to(device), truth.to(device), norm=0.1)
    apart = max(float((fast[name].cpu() - value).abs().max()) for name, value in slow.items())
    if apart > 1e-4:
        raise SystemExit(f"clipped sums on {device} are {apart:.2g} away from those on a CPU")
    return {"apart": apart, **{f"search step {data}": pace(data, device) for data in ("mnist", "cifar10")}}


def pace(data: str, device: str, steps: int = 20) -> float:
    """Seconds of one step on shared weights, on made-up rows."""
    shape = (3, 32, 32) if data == "cifar10" else (1, 28, 28)
    schema = Schema(form="image", shape=shape, classes=tuple("0123456789"), rows=30_000)
    drawn = np.random.default_rng(0)
    x = drawn.random((30_000, *shape), dtype=np.float32)
    rows = Data(schema=schema, x=x, y=drawn.integers(10, size=30_000))
    shared = strategy(data, "dp")._shared(rows, AWARE, Rng(seed=0), device)
    cells = uniform_cells(steps + 5, 5, drawn)
    for at, cell in enumerate(cells):
        if at == 5:
            _wait(device)
            began = time.perf_counter()
        shared.step(cell)
    _wait(device)
    return round((time.perf_counter() - began) / steps, 4)


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


CELLS = {
    "cifar10": [5, 1, 5, 6, 1, 0, 5, 0, 0, 3, 5, 5, 6, 1, 6],
    "mnist": [5, 6, 3, 0, 5, 4, 0, 6, 0, 3, 1, 0, 1, 1, 4],
    "fashion_mnist": [3, 0, 5, 4, 5, 3, 0, 0, 6, 3, 5, 6, 1, 4, 1],
}
"""The cells that the authors found, as numbers of operations."""
