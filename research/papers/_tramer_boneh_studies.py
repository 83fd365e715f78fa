"""Tramer and Boneh's Figures 3, 6, 7 and 11: epsilon 3 at delta 1e-5, counted as they do (classic conversion)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from privaware.bench import Result, Settings
from privaware.workflow._curves import Point, point
from research.papers import Item
from research.papers._results import table
from research.papers._runner import Bench
from research.papers._training import chart, network, percent, precision, sweep_options
from research.studies import Rows, Setting
from research.studies.batch_noise import curves_by_batch
from research.studies.convergence import convergence

__all__ = ["studies"]

NETWORKS = {
    "mnist": ("cnn.mnist.26010", "scatter_cnn.mnist.33066", 3969),
    "fashion_mnist": ("cnn.mnist.26010", "scatter_cnn.mnist.33066", 3969),
    "cifar10": ("cnn.cifar10.550570", "scatter_cnn.cifar10.187210", 15552),
}
"""The end-to-end CNN, the CNN on scattering features and the width of those."""
ROWS = {"mnist": 60_000, "fashion_mnist": 60_000, "cifar10": 50_000}
EPOCHS = {"mnist": 40, "fashion_mnist": 40, "cifar10": 60}
BASE = {"mnist": 0.5, "fashion_mnist": 1.0, "cifar10": 0.25}
RATES = {"mnist": (0.5, 8.0), "fashion_mnist": (1.0, 16.0), "cifar10": (0.25, 4.0)}


@cache
def pixels(data: str) -> Rows:
    """Pixels as their code has them: raw for the grey images, by ImageNet's constants for CIFAR-10."""
    from privaware import datasets

    loaded = datasets.load(data)
    constants = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)) if data == "cifar10" else ((0.0,), (1.0,))
    mean, deviation = (np.array(values, np.float32)[:, None, None] for values in constants)
    x, x_test = ((part.x.astype(np.float32) - mean) / deviation for part in (loaded.train, loaded.test))
    return Rows(name=f"{data}, pixels", x=x, y=loaded.train.y, x_test=x_test, y_test=loaded.test.y, public=True)


@cache
def scattering(data: str, flat: bool, device: str) -> Rows:
    """Scattering features, each channel standardised by exact statistics of the training rows: an evaluation."""
    import torch

    from privaware.features.scatter import Scatter

    rows, scatter, maps = pixels(data), Scatter(J=2, L=8), []
    for x in (rows.x, rows.x_test):
        parts = [scatter(part.to(device)).cpu() for part in torch.from_numpy(x).split(5000)]
        features = torch.cat(parts).numpy()
        maps.append(features.reshape(len(x), -1, *features.shape[-2:]))
    mean, deviation = maps[0].mean((0, 2, 3), keepdims=True), maps[0].std((0, 2, 3), keepdims=True)
    x, x_test = (((m - mean) / (deviation + 1e-5)).astype(np.float32) for m in maps)
    if flat:
        x, x_test = x.reshape(len(x), -1), x_test.reshape(len(x_test), -1)
    return replace(rows, name=f"{data}, scattering{', flat' if flat else ''}", x=x, x_test=x_test)


def noise(bench: Bench, data: str, batch: int, epochs: int) -> float:
    """Theirs for epsilon 3 after all epochs of floor(rows / batch) steps."""
    return bench.prices.noise(batch / ROWS[data], epochs * (ROWS[data] // batch), 3.0, "classic")


def figure6(bench: Bench, settings: Settings) -> Result:
    """The noise for epsilon 3 after 60 epochs by sampling rate; the claim is a slope of 1/2."""
    batches = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
    rates = [batch / 50_000 for batch in batches]
    points = []
    for name, conversion in (("as they count", "classic"), ("improved conversion", "rdp")):
        noises = [bench.prices.noise(b / 50_000, 60 * (50_000 // b), 3.0, conversion) for b in batches]
        points += [point(name, rate, [value]) for rate, value in zip(rates, noises)]
    theirs = [p.mean for p in points if p.curve == "as they count"]
    ratios = ["", *(f"{b / a:.3f}" for a, b in itertools.pairwise(theirs))]
    lines = [[f"{rate:.5f}", f"{value:.4f}", ratio] for rate, value, ratio in zip(rates, theirs, ratios)]
    slope = np.polyfit(np.log(rates), np.log(theirs), 1)[0]
    return {
        "tables": [table("CIFAR-10, 60 epochs, epsilon 3", ["rate", "noise", "ratio to half the rate"], lines)],
        "charts": [chart("tb_figure6", points, x="sampling rate", y="noise")],
        "words": [
            f"Slope of log noise over log rate: {slope:.3f}; each doubling of the rate multiplies the noise by "
            "less than 1.414, and comes nearer to it as the rate grows: the claim holds in the limit."
        ],
    }


def figure7(bench: Bench, settings: Settings, *, data: str) -> Result:
    """Their CNN with batches 512 to 4096, rates in proportion, epoch by epoch."""
    epochs = settings["epochs"]
    noises = {batch: noise(bench, data, batch, epochs) for batch in (512, 1024, 2048, 4096)}
    if bench.dry:
        return {}
    setting = replace(_setting(bench, network(NETWORKS[data][0])), lr=BASE[data])
    options = {"repeats": settings["repeats"], **sweep_options(bench)}
    study = curves_by_batch(pixels(data), setting, noises, epochs=epochs, **options)
    lines = [[p.curve.removeprefix("batch "), percent(p)] for p in study.points if p.x == epochs]
    return {
        "tables": [table(f"{data}: after {epochs} epochs", ["batch", "accuracy"], lines)],
        "charts": [chart(f"tb_figure7_{data}", study.points, x="epoch", log=False)],
        "words": [f"The batches end {100 * study.apart:.2f} points apart (paper: nearly identical curves)."],
    }


def _setting(bench: Bench, architecture: dict[str, Any], steps: int = 1) -> Setting:
    """Batches of 512, clipping norm 0.1, momentum 0.9."""
    recipe: dict[str, Any] = {"norm": 0.1, "momentum": 0.9, "precision": precision(bench)}
    return Setting(architecture=architecture, batch=512, steps=steps, lr=1.0, **recipe)


def figures3_11(bench: Bench, settings: Settings, *, data: str) -> Result:
    """Linear and CNN on scattering, and CNN on pixels, with and without noise, low and high rate."""
    epochs, (cnn, scatter_cnn, width) = settings["epochs"], NETWORKS[data]
    linear = {"name": "linear", "inputs": width, "outputs": 10}
    networks = {"SN + linear": linear, "SN + CNN": network(scatter_cnn), "CNN": network(cnn)}
    level = noise(bench, data, 512, EPOCHS[data])
    if bench.dry:
        return {}
    curves: list[Point] = []
    lines = []
    for kind in settings["models"]:
        rows = pixels(data) if kind == "CNN" else scattering(data, "linear" in kind, bench.device)
        setting = replace(_setting(bench, networks[kind], epochs * (ROWS[data] // 512)), noise=level)
        options = {"repeats": settings["repeats"], **sweep_options(bench)}
        study = convergence(rows, {kind: setting}, RATES[data], epochs=epochs, **options)
        curves += study.points
        last = {p.curve: percent(p) for p in study.points if p.x == max(q.x for q in study.points)}
        ways = ("with noise", "without")
        lines += [[kind, f"{lr:g}", *(last[f"{kind}, rate {lr:g}, {way}"] for way in ways)] for lr in RATES[data]]
    title = f"{data}: after {epochs} epochs, batch 512, norm 0.1, noise {level:.4g}"
    return {
        "tables": [table(title, ["model", "rate", "with noise", "without"], lines)],
        "charts": [chart(f"tb_convergence_{data}", curves, x="epoch", log=False)],
    }


def studies() -> Iterator[Item]:
    """The items of docs/results/studies.md; those of CIFAR-10 are not run."""
    paper = "Tramer and Boneh"
    yield Item(
        id="tramer_boneh/figure6",
        title=f"{paper}, Figure 6: noise by sampling rate",
        runs=[{}],
        quick=[{}],
        run=figure6,
        page="studies",
    )
    models = ["SN + linear", "SN + CNN", "CNN"]
    for data, epochs in EPOCHS.items():
        figure = 3 if data == "cifar10" else 11
        note = "two seeds" if data == "cifar10" else ""
        yield Item(
            id=f"tramer_boneh/figure{figure}/{data}",
            title=f"{paper}, Figure {figure}: {data}",
            runs=[{"epochs": epochs, "repeats": 2 if data == "cifar10" else 3, "models": models}],
            quick=[{"epochs": epochs // 8, "repeats": 1, "models": models[:1]}],
            run=partial(figures3_11, data=data),
            page="studies",
            note=note,
        )
        yield Item(
            id=f"tramer_boneh/figure7/{data}",
            title=f"{paper}, Figure 7: {data}",
            runs=[{"epochs": epochs, "repeats": 2 if data == "cifar10" else 5}],
            quick=[{"epochs": epochs // 8, "repeats": 1}],
            run=partial(figure7, data=data),
            page="studies",
            note=note,
        )
