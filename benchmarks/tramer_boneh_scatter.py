"""Tramer and Boneh on scattering features: Tables 1, 2, 3 and 19 and Figures 1, 2, 4 and 10, one command.

    python -m benchmarks.tramer_boneh_scatter --device cuda --out FOLDER --limit 300
    python -m benchmarks.tramer_boneh_scatter --page FOLDER

Every finished cell is a line of FOLDER/cells.jsonl and is not run again; the most important cells come
first, and none is begun after `--limit` seconds. Noise comes from `tramer_boneh_prices.json` (made by
`benchmarks.tramer_boneh_prices`), so no accountant is needed here. Settings are those of the paper's
Tables 10, 12, 13, 15 and 16: clipping norm 0.1, momentum 0.9, learning rate base x B / 512, floor(N / B)
steps an epoch. Pixels of CIFAR-10 are standardised by the usual constants before scattering, as in the
authors' code. `--quick` is a look at every kind of cell on a few rows. Data come from $PRIVAWARE_DATA.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks import tramer_boneh
from benchmarks._stacked import Stacked, accuracies, poisson, shuffled
from privaware import datasets, models
from privaware.descent import Descent, Poisson, Sampler, flat, momentum
from privaware.descent._run import Run
from privaware.errors import Refused
from privaware.events import Event
from privaware.features.scatter import Scatter
from privaware.noise import Rng

PRICES: dict[str, Any] = json.loads(
    Path(__file__).with_name("tramer_boneh_prices.json").read_text()
)
PIXELS = {"cifar10": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}
"""Public constants; the grey data sets stay in [0, 1]."""
LENGTHS = {"mnist": (0.2, 0.05), "fashion_mnist": (0.3, 0.15), "cifar10": (1.0, 1.5)}
"""Table 12: what a row's channel means and mean squares are cut to."""
FLOOR = 1e-5
NORM = 0.1
SEEDS = range(5)
BATCHES = (512, 1024, 2048, 4096, 8192, 16384)
RATES = {"mnist": (0.25, 0.5, 1, 2), "fashion_mnist": (0.25, 0.5, 1, 2)}
RATES["cifar10"] = (0.125, 0.25, 0.5, 1)
EPOCHS = {"mnist": (15, 25, 40), "fashion_mnist": (15, 25, 40), "cifar10": (30, 60, 120)}
KINDS = ("groups 9", "groups 27", "groups 81", "private 6", "private 8")
NETWORKS = {
    ("linear", 81): "tramer_boneh.linear.mnist.39700",
    ("linear", 243): "tramer_boneh.linear.cifar10.155530",
    ("cnn", 81): "tramer_boneh.scatter_cnn.mnist.33066",
    ("cnn", 243): "tramer_boneh.scatter_cnn.cifar10.187210",
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One model and how it is trained."""

    data: str
    head: str
    batch: int
    base_lr: float
    epochs: int
    kind: str
    noise: float | None = None
    rows: int = 0
    steps: int = 0


BEST = [
    Setting(data="mnist", head="linear", batch=4096, base_lr=1, epochs=40, kind="private 8"),
    Setting(
        data="fashion_mnist", head="linear", batch=8192, base_lr=1, epochs=40, kind="groups 27"
    ),
    Setting(data="cifar10", head="linear", batch=8192, base_lr=0.25, epochs=60, kind="private 8"),
    Setting(data="mnist", head="cnn", batch=1024, base_lr=0.5, epochs=25, kind="private 8"),
    Setting(data="fashion_mnist", head="cnn", batch=2048, base_lr=1, epochs=40, kind="groups 27"),
    Setting(data="cifar10", head="cnn", batch=8192, base_lr=0.25, epochs=60, kind="private 8"),
]
"""Table 13."""


class Shuffled:
    """Batches of a shuffled order, as the authors' code draws them. Nothing is known that they would be worth."""

    def __init__(self, batch: int, rows: int, seed: int) -> None:
        self.batch, self.rate, self.order = batch, batch / rows, np.empty(0, np.int64)
        self.draws = np.random.default_rng(seed)

    def event(self, inner: Event) -> Event:
        raise Refused("shuffled batches have no such guarantee: use Poisson samples")

    def draw(self, rng: Rng, rows: int) -> np.ndarray:
        if len(self.order) < self.batch:
            self.order = self.draws.permutation(rows)
        now, self.order = self.order[: self.batch], self.order[self.batch :]
        return np.sort(now)


@dataclass(frozen=True)
class Features:
    """Scattering features (rows, channels, height, width) on the device."""

    x: Tensor
    y: Tensor
    test: Tensor
    truth: Tensor


class Bench:
    """What the cells share: device, sizes of a quick look, and features made once for each data set."""

    def __init__(self, device: str, quick: bool) -> None:
        self.device, self.quick = device, quick
        self.features = cache(self._features)

    def _features(self, name: str) -> Features:
        found = datasets.load(name)
        most = 600 if self.quick else None
        parts = []
        for part in (found.train, found.test):
            x = torch.from_numpy(part.x[:most]).to(self.device)
            if name in PIXELS:
                mean, deviation = (x.new_tensor(v)[:, None, None] for v in PIXELS[name])
                x = (x - mean) / deviation
            made = Scatter()(x)
            parts += [made.flatten(1, 2), torch.from_numpy(part.y[:most]).to(self.device)]
        return Features(*parts)

    def batch(self, batch: int, rows: int) -> int:
        return min(batch, rows // 6) if self.quick else batch

    def epochs(self, epochs: int) -> int:
        return 1 if self.quick else epochs


def normalised(features: Features, kind: str, name: str, rng: Rng) -> Features:
    """The features in one of the paper's normalisations; "private" and "floored" ones pay two Gaussian releases.

    What is made of the released variances is free. "private" is the authors' code: channels whose variance came out
    negative are left out, 1e-5 is added to the others. "floored" believes no variance below its own noise. "exact" is
    not private.
    """
    how, _, amount = kind.partition(" ")
    if how == "none":
        return features
    if how == "groups":
        parts = [_grouped(part, int(amount)) for part in (features.x, features.test)]
        return replace(features, x=parts[0], test=parts[1])
    noise = 0.0 if how == "exact" else float(amount)
    mean, variance, level = statistics(features.x, LENGTHS[name], noise, rng)
    if how == "floored":
        scale = variance.clamp_min(level).rsqrt()
    else:
        scale = (variance > 0) / (variance.clamp_min(0) + FLOOR).sqrt()
    parts = [(part - mean) * scale for part in (features.x, features.test)]
    return replace(features, x=parts[0], test=parts[1])


def _grouped(x: Tensor, groups: int) -> Tensor:
    return torch.cat([functional.group_norm(part, groups, eps=FLOOR) for part in x.split(5000)])


def statistics(
    x: Tensor, lengths: tuple[float, float], noise: float, rng: Rng
) -> tuple[Tensor, Tensor, float]:
    """Mean and variance of each channel as `privaware.select.normalise` releases them, and the deviation of the
    noise in the mean square; exact at noise 0."""
    sums = [torch.zeros(x.shape[1], dtype=torch.float64, device=x.device) for _ in range(2)]
    for part in x.split(5000):
        places = part.flatten(2).double()
        for total, each, length in zip(sums, (places, places.square()), lengths):
            each = each.mean(2)
            if noise:
                each = each * (length / each.norm(dim=1, keepdim=True)).clamp_max(1)
            total += each.sum(0)
    found = []
    for total, length in zip(sums, lengths):
        exact = total.cpu().numpy()
        released = rng.gaussian(exact, noise=noise, sensitivity=length) if noise else exact
        found.append(released / len(x))
    mean, variance = (
        torch.from_numpy(v.astype(np.float32)).to(x.device)[:, None, None]
        for v in (found[0], found[1] - found[0] ** 2)
    )
    return mean, variance, noise * lengths[1] / len(x)


def noise_of(setting: Setting, rows: int) -> float:
    """Table 12's noise, for the published number of rows."""
    if setting.noise is not None:
        return setting.noise
    how, _, amount = setting.kind.partition(" ")
    norm = "0" if how == "groups" else amount
    published = 50_000 if setting.data == "cifar10" else 60_000
    return float(PRICES["grid"][f"{published} {setting.batch} {setting.epochs} {norm}"])


def trained(
    bench: Bench, setting: Setting, seed: int, sampler: str = "poisson", every: int = 1
) -> dict[str, Any]:
    """One seed by the engine: normalisation, samples, noise and initial weights its own; a curve over epochs."""
    rng = Rng(seed=seed)
    features = bench.features(setting.data)
    if setting.rows:
        chosen = torch.from_numpy(np.random.default_rng(seed).permutation(len(features.x)))
        chosen = chosen[: setting.rows].to(features.x.device)
        features = replace(features, x=features.x[chosen], y=features.y[chosen])
    features = normalised(features, setting.kind, setting.data, rng)
    rows, cnn = len(features.x), setting.head == "cnn"
    batch = bench.batch(setting.batch, rows)
    each = max(1, rows // batch)
    steps = setting.steps or bench.epochs(setting.epochs) * each
    steps = min(steps, 3) if bench.quick else steps
    description = models.named()[NETWORKS[setting.head, features.x.shape[1]]].description
    network = models.build(description, np.random.default_rng(seed))
    draws: Sampler = (
        Poisson(rate=batch / rows) if sampler == "poisson" else Shuffled(batch, rows, seed)
    )
    descent = Descent(
        steps=steps,
        sampler=draws,
        clip=flat(NORM),
        update=momentum(setting.base_lr * batch / 512, 0.9),
        precision="tf32" if cnn else "float32",
        physical=4000 if cnn and features.x.shape[1] == 243 else None,
        overflow=1e-10,
    )
    _tf32(cnn)
    run = Run(
        descent,
        [network],
        features.x,
        features.y,
        noise=[noise_of(setting, rows)],
        rows=rows,
        rng=rng,
        device=bench.device,
    )
    curve: list[tuple[float, float]] = []

    def look(step: int, steps: int, left: float) -> None:
        if step % (every * each) == 0 or step == steps:
            curve.append((step / each, right(run.released()[0], features, bench.device)))

    run.to_end(progress=look)
    _tf32(False)
    return {
        "setting": asdict(setting),
        "score": curve[-1][1],
        "best": max(score for _, score in curve),
        "curve": curve,
    }


def _tf32(allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed


@torch.no_grad()
def right(network: torch.nn.Module, features: Features, device: str) -> float:
    network = network.to(device).eval()
    found = [network(part).argmax(1) for part in features.test.split(5000)]
    return float((torch.cat(found) == features.truth).float().mean())


def started(features: Features, seed: int) -> tuple[Tensor, Tensor]:
    """The initial linear model that the engine's seeds have."""
    description = models.named()[NETWORKS["linear", features.x.shape[1]]].description
    network = models.build(description, np.random.default_rng(seed)).to(features.x.device)
    weight, bias = (p.detach() for p in network.parameters())
    return weight, bias


def gathered(bench: Bench, name: str, kinds: tuple[str, ...], seed: int) -> Features:
    """Several normalisations of one data set: (kinds, rows, width)."""
    features = bench.features(name)
    made = [normalised(features, kind, name, Rng(seed=1000 * seed + at)) for at, kind in enumerate(kinds)]  # fmt: skip
    x, test = (torch.stack([getattr(f, part).flatten(1) for f in made]) for part in ("x", "test"))
    return replace(features, x=x, test=test)


def grid(bench: Bench, name: str, batch: int) -> dict[str, Any]:
    """All of Table 12 at one batch size: five normalisations, four learning rates, three lengths."""
    features = gathered(bench, name, KINDS, seed=0)
    rows = features.x.shape[1]
    members = list(product(EPOCHS[name], RATES[name]))
    made = bench.batch(batch, rows)
    steps = tuple(bench.epochs(epochs) * (rows // made) for epochs, _ in members)
    settings = [
        [
            Setting(data=name, head="linear", batch=batch, base_lr=lr, epochs=epochs, kind=kind)
            for epochs, lr in members
        ]
        for kind in KINDS
    ]
    noise, lr = (
        torch.tensor([[of(s) for s in line] for line in settings], device=bench.device)
        for of in (lambda s: noise_of(s, rows), lambda s: s.base_lr * made / 512)
    )
    stack = Stacked(steps=steps, lr=lr, noise=noise, divisor=made, norm=NORM, bound=NORM)
    rng = Rng(seed=batch)
    _tf32(True)
    batches = poisson(rows, made / rows, rng, bench.device)
    start = started(bench.features(name), 0)
    model = stack.run(features.x, features.y, batches, rng, start)
    scores = accuracies(*model, features.test, features.truth).tolist()
    _tf32(False)
    return {
        "points": [
            {"batch": batch, "epochs": s.epochs, "base_lr": s.base_lr, "kind": s.kind, "score": score}
            for line, found in zip(settings, scores)
            for s, score in zip(line, found)
        ]
    }  # fmt: skip


def table2(bench: Bench, name: str, seed: int, epochs: int = 60) -> dict[str, Any]:
    """Without noise: Table 10's settings, and what the same runs reach later on."""
    kinds = ("none", "groups 9", "groups 27", "groups 81", "exact")
    features = gathered(bench, name, kinds, seed)
    rows = features.x.shape[1]
    batch = bench.batch(512, rows)
    each, base = rows // batch, 4.0 if name == "fashion_mnist" else 2.0
    lr = torch.full((5, 1), base * batch / 512, device=bench.device)
    stack = Stacked(
        steps=(bench.epochs(epochs) * each,), lr=lr, noise=torch.zeros_like(lr), divisor=batch
    )
    seen: list[list[float]] = []

    def look(step: int, weights: Tensor, biases: Tensor) -> None:
        if step % (each * 2) == 0 or bench.quick:
            found = accuracies(weights, biases, features.test, features.truth)
            seen.append([step / each, *found[:, 0].tolist()])

    rng = Rng(seed=seed)
    batches = shuffled(rows, batch, rng, bench.device)
    _tf32(True)
    stack.run(features.x, features.y, batches, rng, started(bench.features(name), seed), look, each)
    _tf32(False)
    return {"kinds": kinds, "curve": seen}


def sizes(bench: Bench, rows: int, seed: int) -> dict[str, Any]:
    """Table 15's grid for linear models on a random part of CIFAR-10."""
    whole = bench.features("cifar10")
    rows = min(rows, len(whole.x))
    chosen = torch.from_numpy(np.random.default_rng(seed).permutation(len(whole.x))[:rows])
    chosen = chosen.to(whole.x.device)
    part = replace(whole, x=whole.x[chosen], y=whole.y[chosen])
    rng = Rng(seed=seed)
    features = normalised(part, "floored 8", "cifar10", rng)
    members = list(product((15, 30, 60, 120), (0.125, 0.25, 0.5, 1.0, 2.0)))
    published = max(10_000, rows)
    prices = [PRICES["sizes"][f"{published} {epochs}"] for epochs, _ in members]
    batch = bench.batch(8192, rows)
    noise = torch.tensor([[p["noise"] for p in prices]], device=bench.device)
    lr = torch.tensor([[lr * batch / 512 for _, lr in members]], device=bench.device)
    steps = tuple(2 if bench.quick else p["steps"] for p in prices)
    stack = Stacked(steps=steps, lr=lr, noise=noise, divisor=batch)
    batches = poisson(rows, batch / rows, rng, bench.device)
    x, test = (t.flatten(1)[None] for t in (features.x, features.test))
    _tf32(True)
    model = stack.run(x, features.y, batches, rng, started(whole, seed))
    scores = accuracies(*model, test, features.truth)[0].tolist()
    _tf32(False)
    return {
        "points": [{"epochs": e, "base_lr": lr, "score": s} for (e, lr), s in zip(members, scores)]
    }


def iterated(bench: Bench, batch: int, seed: int) -> dict[str, Any]:
    """Amplification by iteration: rows (not gradients) cut to a length, no momentum, shuffled order, last model only.

    A step of more than 2 / smoothness = 4 / C^2 may move two models apart and has no price: such points are left out.
    """
    free = normalised(bench.features("cifar10"), "groups 27", "cifar10", Rng(seed=seed))
    lengths, epsilons = (0.1, 1.0, 10.0), ("0.5", "1", "2", "3")
    x, test = (
        torch.stack([_cut(part.flatten(1), length) for length in lengths])
        for part in (free.x, free.test)
    )
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
    _tf32(True)
    batches = shuffled(rows, made, rng, bench.device)
    model = stack.run(x, free.y, batches, rng, start)
    scores = accuracies(*model, test, free.truth).tolist()
    _tf32(False)
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
    x, test = (t.flatten(1)[None] for t in (free.x, free.test))
    rows = x.shape[1]
    batch = bench.batch(2048, rows)
    members = list(product(("0.5", "1", "2", "3"), (0.125, 0.25, 0.5, 1.0)))
    noise = torch.tensor([[PRICES["figure10"][e]["descent"] for e, _ in members]])
    lr = torch.tensor([[base * batch / 512 for _, base in members]], device=bench.device)
    steps = (bench.epochs(30) * (rows // batch),) * len(members)
    stack = Stacked(steps=steps, lr=lr, noise=noise.to(bench.device), divisor=batch)
    rng = Rng(seed=seed)
    start = started(bench.features("cifar10"), seed)
    _tf32(True)
    model = stack.run(x, free.y, poisson(rows, batch / rows, rng, bench.device), rng, start)
    scores = accuracies(*model, test, free.truth)[0].tolist()
    _tf32(False)
    return {
        "points": [{"epsilon": e, "base_lr": lr, "score": s} for (e, lr), s in zip(members, scores)]
    }


def from_pixels(bench: Bench, name: str, seed: int) -> dict[str, Any]:
    """The end-to-end CNN of `benchmarks.tramer_boneh` with shuffled batches."""
    case = next(c for c in tramer_boneh.CASES if c.data == name)
    loaded = datasets.load(name)
    most = 600 if bench.quick else None
    x, test = (
        tramer_boneh.normalised(part.x[:most], name, bench.device)
        for part in (loaded.train, loaded.test)
    )
    y, truth = (torch.from_numpy(p.y[:most]).to(bench.device) for p in (loaded.train, loaded.test))
    rows = len(x)
    batch = bench.batch(case.batch, rows)
    descent = Descent(
        steps=3 if bench.quick else case.epochs * (rows // batch),
        sampler=Shuffled(batch, rows, seed),
        clip=flat(NORM),
        update=momentum(case.base_lr * batch / 512, 0.9),
        precision="tf32",
    )
    network = models.build(models.named()[case.network].description, np.random.default_rng(seed))
    made = descent.run(
        network, x, y, noise=case.noise, rows=rows, rng=Rng(seed=seed), device=bench.device
    )
    return {"score": right(made, Features(x, y, test, truth), bench.device)}


def scatter_check(bench: Bench) -> dict[str, Any]:
    """Scattering here against the same on a processor, and how long 60,000 images take."""
    made = {}
    for shape, transform in (
        ((64, 1, 28, 28), Scatter()),
        ((64, 3, 32, 32), Scatter()),
        ((8, 2, 45, 61), Scatter(J=3, L=6)),
        ((4, 1, 160, 128), Scatter(J=3, L=8)),
    ):
        x = torch.rand(shape, generator=torch.Generator().manual_seed(1))
        want, got = transform(x), transform(x.to(bench.device)).cpu()
        key = " x ".join(map(str, shape)) + f", J={transform.J}, L={transform.L}"
        made[key] = float((got - want).norm() / want.norm())
    count = 600 if bench.quick else 60_000
    x = torch.rand((count, 1, 28, 28), device=bench.device)
    times = []
    for _ in range(2):
        _synchronised(bench.device)
        began = time.perf_counter()
        Scatter()(x)
        _synchronised(bench.device)
        times.append(time.perf_counter() - began)
    return {"relative errors": made, "images": count, "seconds of 28 x 28": times}


def _synchronised(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


Cell = tuple[str, Callable[[], dict[str, Any]]]


def cells(bench: Bench) -> Iterator[Cell]:
    """Everything, the most important and cheapest first."""
    yield "scatter", partial(scatter_check, bench)
    for setting in BEST[:5]:
        yield from seeds(bench, "best", setting)
    yield from seeds(bench, "best", BEST[5], every=5)
    for setting in (BEST[2], BEST[0], BEST[5], BEST[3]):
        yield from seeds(bench, "floored 8", replace(setting, kind="floored 8"), every=5)
    for setting in (BEST[2], BEST[0]):
        yield from seeds(bench, "exact 8", replace(setting, kind="exact 8"), every=5)
    for name, batch in product(RATES, reversed(BATCHES)):
        yield f"grid {name} {batch}", partial(grid, bench, name, batch)
    for setting in BEST[:3]:
        yield from seeds(bench, "shuffled", setting, sampler="shuffled", every=5)
    for rows, seed in product((10_000, 25_000, 50_000), SEEDS):
        yield f"sizes {rows} {seed}", partial(sizes, bench, rows, seed)
    for name, seed in product(RATES, SEEDS):
        yield f"table2 {name} {seed}", partial(table2, bench, name, seed)
    for seed in range(2):
        yield f"beside {seed}", partial(beside, bench, seed)
        for batch in (2048, 512, 128):
            yield f"iterated {batch} {seed}", partial(iterated, bench, batch, seed)
    for rows, seed in product((10_000, 25_000), range(2)):
        price = PRICES["sizes"][f"{rows} 60"]
        small = replace(
            BEST[5],
            kind="floored 8",
            rows=rows,
            base_lr=0.125,
            noise=price["noise"],
            steps=price["steps"],
        )
        yield f"sizes cnn {rows} {seed}", partial(trained, bench, small, seed, every=50)
    for name, seed in product(("mnist", "fashion_mnist"), SEEDS):
        yield f"pixels {name} {seed}", partial(from_pixels, bench, name, seed)
    yield from part_of_grid(bench)
    for seed in SEEDS:
        yield f"pixels cifar10 {seed}", partial(from_pixels, bench, "cifar10", seed)


def seeds(bench: Bench, what: str, setting: Setting, **more: Any) -> Iterator[Cell]:
    for seed in SEEDS:
        name = f"{what} {setting.data} {setting.head} {seed}"
        yield name, partial(trained, bench, setting, seed, **more)


def part_of_grid(bench: Bench) -> Iterator[Cell]:
    """Points of Table 12 for the CNN in a fixed random order, the data sets in turn; the limit ends them."""
    orders = []
    for name in RATES:
        points = list(product(BATCHES, EPOCHS[name], RATES[name], KINDS))
        random.Random(f"grid {name}").shuffle(points)
        orders.append([(name, *point) for point in points])
    for some in zip(*orders):
        for name, batch, epochs, lr, kind in some:
            setting = Setting(
                data=name, head="cnn", batch=batch, base_lr=lr, epochs=epochs, kind=kind
            )
            key = f"point {name} {batch} {epochs} {lr:g} {kind}"
            yield key, partial(trained, bench, setting, 0, every=1000)


def main() -> None:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--device", default="cpu")
    made.add_argument("--out", type=Path)
    made.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    made.add_argument("--only", nargs="*", default=[""], help="beginnings of cells' names")
    made.add_argument("--most", type=int, default=10**6, help="at most so many cells")
    made.add_argument("--quick", action="store_true")
    made.add_argument(
        "--page", type=Path, help="write docs/results from a folder of finished cells"
    )
    given = made.parse_args()
    if given.page:
        from benchmarks._tramer_boneh_page import write

        write(given.page)
        return
    began, bench = time.perf_counter(), Bench(given.device, given.quick)
    store = given.out / "cells.jsonl"
    given.out.mkdir(parents=True, exist_ok=True)
    lines = store.read_text().splitlines() if store.exists() else []
    done = {json.loads(line)["cell"] for line in lines}
    for key, run in cells(bench):
        wanted = key not in done and any(key.startswith(start) for start in given.only)
        if not wanted or given.most <= 0:
            continue
        start = time.perf_counter()
        if start - began > given.limit:
            print(f"stopped at {start - began:.0f} s before {key}", flush=True)
            break
        found = run()
        given.most -= 1
        gc.collect()  # a stack and its graph refer to each other, and hold memory until they are found
        if given.device.startswith("cuda"):
            torch.cuda.empty_cache()
        seconds = time.perf_counter() - start
        with store.open("a") as file:
            line = {"cell": key, "seconds": seconds, "device": given.device, **found}
            file.write(json.dumps(line) + "\n")
        print(f"{start - began:6.1f} s + {seconds:5.1f}: {key}: {told(found)}", flush=True)


def told(found: dict[str, Any]) -> str:
    if "points" in found:
        scores = [100 * point["score"] for point in found["points"]]
        return f"{min(scores):.2f} to {max(scores):.2f}, median {np.median(scores):.2f}"
    if "kinds" in found:
        last = found["curve"][-1]
        return ", ".join(f"{k} {100 * s:.2f}" for k, s in zip(found["kinds"], last[1:]))
    if "score" in found:
        return f"{100 * found['score']:.2f}, best {100 * found.get('best', found['score']):.2f}"
    return str(found)


if __name__ == "__main__":
    main()
