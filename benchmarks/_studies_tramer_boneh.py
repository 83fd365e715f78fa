"""Tramer and Boneh's Figures 3, 6, 7 and 11: epsilon 3, delta 1e-5, counted as they do (classic conversion)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from benchmarks._studies import STUB, Bench, chart, network, percent, point, table
from privaware import datasets
from privaware.studies._trials import Rows, Setting, Trial
from privaware.studies.convergence import by_epoch
from privaware.workflow._curves import Point

CHANNELS = {"cifar10": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}
CNN = {"mnist": "cnn.mnist.26010", "fashion_mnist": "cnn.mnist.26010", "cifar10": "cnn.cifar10.550570"}
HEAD = {
    "mnist": "scatter_cnn.mnist.33066",
    "fashion_mnist": "scatter_cnn.mnist.33066",
    "cifar10": "scatter_cnn.cifar10.187210",
}
ROWS = {"mnist": 60_000, "fashion_mnist": 60_000, "cifar10": 50_000}
EPOCHS = {"mnist": 40, "fashion_mnist": 40, "cifar10": 60}
BASE = {"mnist": 0.5, "fashion_mnist": 1.0, "cifar10": 0.25}
RATES = {"mnist": (0.5, 8.0), "fashion_mnist": (1.0, 16.0), "cifar10": (0.25, 4.0)}
NORM, MOMENTUM = 0.1, 0.9


@cache
def pixels(name: str) -> Rows:
    """Pixels as their code has them: raw for the digits and clothes, by ImageNet's constants for CIFAR-10."""
    loaded = datasets.load(name)
    mean, deviation = (np.array(v, np.float32)[:, None, None] for v in CHANNELS.get(name, ((0.0,), (1.0,))))
    x, tested = ((part.x.astype(np.float32) - mean) / deviation for part in (loaded.train, loaded.test))
    y, truth = loaded.train.y, loaded.test.y
    return Rows(name=f"{name}, pixels", x=x, y=y, tested=tested, truth=truth, public=True)


@cache
def scattered(name: str, flat: bool, device: str) -> Rows:
    """Scattering maps, each channel standardised by exact statistics of the training rows: an evaluation."""
    import torch

    from privaware.features.scatter import Scatter

    rows = pixels(name)
    made = Scatter(J=2, L=8)
    maps = []
    for x in (rows.x, rows.tested):
        parts = torch.from_numpy(x).split(5000)
        whole = torch.cat([made(part.to(device)).cpu() for part in parts]).numpy()
        maps.append(whole.reshape(len(x), -1, *whole.shape[-2:]))
    mean, deviation = maps[0].mean((0, 2, 3), keepdims=True), maps[0].std((0, 2, 3), keepdims=True)
    x, tested = (((m - mean) / (deviation + 1e-5)).astype(np.float32) for m in maps)
    if flat:
        x, tested = x.reshape(len(x), -1), tested.reshape(len(tested), -1)
    return replace(rows, name=f"{name}, scattering{', flat' if flat else ''}", x=x, tested=tested)


def noise(bench: Bench, name: str, batch: int, epochs: int) -> float:
    """Theirs for epsilon 3: floor(rows / batch) steps an epoch, classic conversion."""
    steps = epochs * (ROWS[name] // batch)
    return bench.noise(batch / ROWS[name], steps, 3.0, "classic")


def setting(bench: Bench, name: str, net: dict[str, Any], batch: int, epochs: int, base: float) -> Setting:
    return Setting(
        architecture=net,
        batch=batch,
        steps=epochs * (ROWS[name] // batch),
        lr=base * batch / 512,
        noise=noise(bench, name, batch, epochs),
        norm=NORM,
        momentum=MOMENTUM,
    )


def figure6(bench: Bench) -> dict[str, Any]:
    """The noise for epsilon 3 after 60 epochs by sampling rate; the claim is a slope of 1/2."""
    batches = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
    rates = [batch / 50_000 for batch in batches]
    made = []
    for name, counting in (("as they count", "classic"), ("improved conversion", "rdp")):
        levels = [bench.noise(b / 50_000, 60 * (50_000 // b), 3.0, counting) for b in batches]
        made += [point(name, rate, [level]) for rate, level in zip(rates, levels)]
    own = [p for p in made if p.curve == "as they count"]
    doublings = [b.mean / a.mean for a, b in itertools.pairwise(own)]
    lines = [
        [f"{rate:.5f}", f"{p.mean:.4f}", "" if at == 0 else f"{doublings[at - 1]:.3f}"]
        for at, (rate, p) in enumerate(zip(rates, own))
    ]
    slope = np.polyfit(np.log(rates), np.log([p.mean for p in own]), 1)[0]
    return {
        "tables": [table("CIFAR-10, 60 epochs, epsilon 3", ["rate", "noise", "ratio to half the rate"], lines)],
        "charts": [chart("tb_figure6", made, x="sampling rate", y="noise")],
        "words": [
            f"Slope of log noise over log rate: {slope:.3f}; each doubling of the rate multiplies the noise by "
            "less than 1.414, and comes nearer to it as the rate grows: the claim holds in the limit."
        ],
    }


def figure7(bench: Bench, name: str) -> dict[str, Any]:
    """Their CNN with batches 512 to 4096, rates in proportion, epoch by epoch."""
    epochs = EPOCHS[name] // (8 if bench.quick else 1)
    found: list[Point] = []
    ends = []
    for batch in (512, 1024, 2048, 4096):
        one = setting(bench, name, network(CNN[name]), batch, epochs, BASE[name])
        trials = [Trial(curve=f"batch {batch}", x=batch, seed=seed, setting=one) for seed in bench.seeds]
        rows = STUB.test if bench.dry else pixels(name)
        outcomes = bench.sweep(trials, rows, every=ROWS[name] // batch)
        found += by_epoch(outcomes)
        ends.append(point(f"batch {batch}", batch, [o.score for o in outcomes], share=True))
    lines = [[int(p.x), percent(p)] for p in ends]
    apart = max(p.mean for p in ends) - min(p.mean for p in ends)
    return {
        "tables": [table(f"{name}: after {epochs} epochs", ["batch", "accuracy"], lines)],
        "charts": [chart(f"tb_figure7_{name}", found, x="epoch", log=False)],
        "words": [f"The batches end {100 * apart:.2f} points apart (paper: nearly identical curves)."],
    }


def convergence(bench: Bench, name: str) -> dict[str, Any]:
    """Figures 3 and 11: linear and CNN on scattering, and CNN on pixels, with and without noise, low and high rate."""
    epochs, batch = EPOCHS[name] // (8 if bench.quick else 1), 512
    width = {"mnist": 3969, "fashion_mnist": 3969, "cifar10": 15552}[name]
    nets = {
        "SN + linear": {"name": "linear", "inputs": width, "outputs": 10},
        "SN + CNN": network(HEAD[name]),
        "CNN": network(CNN[name]),
    }
    if bench.quick and not bench.dry:
        nets = {"SN + linear": nets["SN + linear"]}
    level = noise(bench, name, batch, EPOCHS[name])
    found: list[Point] = []
    lines = []
    for kind, net in nets.items():
        if bench.dry:
            rows = STUB.test
        else:
            rows = pixels(name) if kind == "CNN" else scattered(name, "linear" in kind, bench.device)
        one = Setting(
            architecture=net, batch=batch, steps=epochs * (ROWS[name] // batch), lr=1.0, norm=NORM, momentum=MOMENTUM
        )
        trials = [
            Trial(
                curve=f"{kind}, rate {rate:g}, {'noise' if n else 'no noise'}",
                x=rate,
                seed=seed,
                setting=replace(one, lr=rate, noise=n),
            )
            for rate in RATES[name]
            for n in (level, 0.0)
            for seed in list(bench.seeds)[:3]
        ]
        made = by_epoch(bench.sweep(trials, rows, every=ROWS[name] // batch))
        found += made
        ends = {p.curve: percent(p) for p in made if p.x == max(q.x for q in made)}
        lines += [
            [kind, f"{rate:g}", *(ends[f"{kind}, rate {rate:g}, {way}"] for way in ("noise", "no noise"))]
            for rate in RATES[name]
        ]
    head = ["model", "rate", "with noise", "without"]
    return {
        "tables": [table(f"{name}: after {epochs} epochs, batch 512, norm 0.1, noise {level:.4g}", head, lines)],
        "charts": [chart(f"tb_convergence_{name}", found, x="epoch", log=False)],
    }
