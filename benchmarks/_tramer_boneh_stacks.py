"""Many linear models at once, stacked: grids of settings, and amplification by iteration beside DP-SGD."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks._stacked import Stacked, accuracies, poisson, shuffled
from benchmarks._tramer_boneh_engine import tf32
from benchmarks._tramer_boneh_features import Bench, Features, normalised, some
from benchmarks._tramer_boneh_settings import EPOCHS, KINDS, NETWORKS, NORM, PRICES, RATES, Setting, noise_of
from privaware import models
from privaware.noise import Rng


def started(features: Features, seed: int) -> tuple[Tensor, Tensor]:
    """The initial linear model that the engine's seeds have."""
    description = models.named()[NETWORKS["linear", features.x.shape[1]]].description
    network = models.build(description, np.random.default_rng(seed)).to(features.x.device)
    weight, bias = (p.detach() for p in network.parameters())
    return weight, bias


def gathered(bench: Bench, name: str, kinds: tuple[str, ...], seed: int) -> Features:
    """Several normalisations of one data set: (kinds, rows, width)."""
    features = bench.features(name)
    made = [normalised(features, kind, name, Rng(seed=1000 * seed + at)) for at, kind in enumerate(kinds)]
    x, test = (torch.stack([getattr(f, part).flatten(1) for f in made]) for part in ("x", "test"))
    return replace(features, x=x, test=test)


def scored(
    stack: Stacked, features: Features, batches: Iterator[Tensor], rng: Rng, start: tuple[Tensor, Tensor], *look: Any
) -> list[list[float]]:
    """Accuracies by kind of features and by member of the stack; rows are (kinds, rows, width)."""
    with tf32(True):
        model = stack.run(features.x, features.y, batches, rng, start, *look)
        found: list[list[float]] = accuracies(*model, features.test, features.truth).tolist()
    return found


def one_kind(features: Features) -> Features:
    """Flat rows of one normalisation, as a stack takes them."""
    return replace(features, x=features.x.flatten(1)[None], test=features.test.flatten(1)[None])


def grid(bench: Bench, name: str, batch: int, kinds: tuple[str, ...] = KINDS, seen: bool = False) -> dict[str, Any]:
    """All of Table 12 at one batch size: five normalisations, four learning rates, three lengths.

    With `seen` each model is also scored after every epoch, and the best of these scores is told beside the last.
    """
    features = gathered(bench, name, kinds, seed=0)
    rows = features.x.shape[1]
    members = list(product(EPOCHS[name], RATES[name]))
    made = bench.batch(batch, rows)
    steps = tuple(bench.epochs(epochs) * (rows // made) for epochs, _ in members)
    settings = [
        [Setting(data=name, head="linear", batch=batch, base_lr=lr, epochs=epochs, kind=kind) for epochs, lr in members]
        for kind in kinds
    ]
    noise, lr = (
        torch.tensor([[of(s) for s in line] for line in settings], device=bench.device)
        for of in (lambda s: noise_of(s), lambda s: s.base_lr * made / 512)
    )
    stack = Stacked(steps=steps, lr=lr, noise=noise, divisor=made, norm=NORM, bound=NORM)
    rng = Rng(seed=batch)
    batches = poisson(rows, made / rows, rng, bench.device)
    best = torch.zeros(len(kinds), len(members))

    def look(step: int, weights: Tensor, biases: Tensor) -> None:
        left = best[:, -weights.shape[1] :]
        found = accuracies(weights, biases, features.test, features.truth)
        torch.maximum(left, found.cpu(), out=left)

    start = started(bench.features(name), 0)
    looking = (look, rows // made) if seen else ()
    scores = scored(stack, features, batches, rng, start, *looking)
    points = [
        {"batch": batch, "epochs": s.epochs, "base_lr": s.base_lr, "kind": s.kind, "score": score}
        for line, found in zip(settings, scores)
        for s, score in zip(line, found)
    ]
    if seen:
        points = [point | {"best": top} for point, top in zip(points, best.flatten().tolist())]
    return {"points": points}


def table2(bench: Bench, name: str, seed: int, epochs: int = 60) -> dict[str, Any]:
    """Without noise: Table 10's settings, and what the same runs reach later on."""
    kinds = ("none", "groups 9", "groups 27", "groups 81", "exact")
    features = gathered(bench, name, kinds, seed)
    rows = features.x.shape[1]
    batch = bench.batch(512, rows)
    each, base = rows // batch, 4.0 if name == "fashion_mnist" else 2.0
    lr = torch.full((5, 1), base * batch / 512, device=bench.device)
    stack = Stacked(steps=(bench.epochs(epochs) * each,), lr=lr, noise=torch.zeros_like(lr), divisor=batch)
    seen: list[list[float]] = []

    def look(step: int, weights: Tensor, biases: Tensor) -> None:
        if step % (each * 2) == 0 or bench.quick:
            found = accuracies(weights, biases, features.test, features.truth)
            seen.append([step / each, *found[:, 0].tolist()])

    rng = Rng(seed=seed)
    batches = shuffled(rows, batch, rng, bench.device)
    start = started(bench.features(name), seed)
    with tf32(True):
        stack.run(features.x, features.y, batches, rng, start, look, each)
    return {"kinds": kinds, "curve": seen}


def sizes(bench: Bench, rows: int, seed: int) -> dict[str, Any]:
    """Table 15's grid for linear models on a random part of CIFAR-10."""
    whole = bench.features("cifar10")
    rows = min(rows, len(whole.x))
    rng = Rng(seed=seed)
    features = one_kind(normalised(some(whole, rows, seed), "floored 8", "cifar10", rng))
    members = list(product((15, 30, 60, 120), (0.125, 0.25, 0.5, 1.0, 2.0)))
    published = max(10_000, rows)
    prices = [PRICES["sizes"][f"{published} {epochs}"] for epochs, _ in members]
    batch = bench.batch(8192, rows)
    noise = torch.tensor([[p["noise"] for p in prices]], device=bench.device)
    lr = torch.tensor([[lr * batch / 512 for _, lr in members]], device=bench.device)
    steps = tuple(2 if bench.quick else p["steps"] for p in prices)
    stack = Stacked(steps=steps, lr=lr, noise=noise, divisor=batch)
    batches = poisson(rows, batch / rows, rng, bench.device)
    scores = scored(stack, features, batches, rng, started(whole, seed))[0]
    return {"points": [{"epochs": e, "base_lr": lr, "score": s} for (e, lr), s in zip(members, scores)]}


def iterated(bench: Bench, batch: int, seed: int) -> dict[str, Any]:
    """Amplification by iteration: rows (not gradients) cut to a length, no momentum, shuffled order, last model only.

    A step of more than 2 / smoothness = 4 / C^2 may move two models apart and has no price: such points are left out.
    """
    free = normalised(bench.features("cifar10"), "groups 27", "cifar10", Rng(seed=seed))
    lengths, epsilons = (0.1, 1.0, 10.0), ("0.5", "1", "2", "3")
    x, test = (torch.stack([_cut(part.flatten(1), length) for length in lengths]) for part in (free.x, free.test))
    features = replace(free, x=x, test=test)
    rows = x.shape[1]
    made = bench.batch(batch, rows)
    members = list(product(epsilons, [2.0**k for k in range(-3, 4)]))
    noise = torch.tensor([[PRICES["figure10"][e][f"iteration {batch}"] for e, _ in members]] * 3)
    lr = torch.tensor([[base * made / 512 for _, base in members]] * 3)
    stack = Stacked(
        steps=((1 if bench.quick else 10) * (rows // made),) * len(members),
        lr=lr.to(bench.device),
        noise=noise.to(bench.device),
        divisor=made,
        norm=None,
        bound=torch.tensor([[2**0.5 * length] for length in lengths], device=bench.device),
        beta=0.0,
        bias=False,
    )
    rng = Rng(seed=seed)
    weight, bias = started(bench.features("cifar10"), seed)
    start = (torch.zeros_like(weight), torch.zeros_like(bias))
    scores = scored(stack, features, shuffled(rows, made, rng, bench.device), rng, start)
    return {
        "points": [
            {"epsilon": e, "length": length, "base_lr": base, "score": score}
            for length, line in zip(lengths, scores)
            for (e, base), score in zip(members, line)
            if base * made / 512 <= 4 / length**2
        ]
    }


def _cut(rows: Tensor, length: float) -> Tensor:
    return rows * (length / rows.norm(dim=1, keepdim=True)).clamp_max(1)


def beside(bench: Bench, seed: int) -> dict[str, Any]:
    """DP-SGD on the same features as `iterated`: batches of 2,048, thirty epochs, four learning rates."""
    free = normalised(bench.features("cifar10"), "groups 27", "cifar10", Rng(seed=seed))
    features = one_kind(free)
    rows = features.x.shape[1]
    batch = bench.batch(2048, rows)
    members = list(product(("0.5", "1", "2", "3"), (0.125, 0.25, 0.5, 1.0)))
    noise = torch.tensor([[PRICES["figure10"][e]["descent"] for e, _ in members]])
    lr = torch.tensor([[base * batch / 512 for _, base in members]], device=bench.device)
    steps = (bench.epochs(30) * (rows // batch),) * len(members)
    stack = Stacked(steps=steps, lr=lr, noise=noise.to(bench.device), divisor=batch)
    rng = Rng(seed=seed)
    start = started(bench.features("cifar10"), seed)
    scores = scored(stack, features, poisson(rows, batch / rows, rng, bench.device), rng, start)[0]
    return {"points": [{"epsilon": e, "base_lr": lr, "score": s} for (e, lr), s in zip(members, scores)]}
