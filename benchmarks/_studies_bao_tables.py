"""The tables of Bao, Bauer and Bindschaedler, and their Appendix E. Each cell gives tables, charts and words."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks._studies import Bench, by_curve, chart, grid_table, network, percent, plain, points, rdp, table
from benchmarks._studies_bao import (
    CNN_EPOCHS,
    CNN_EPSILON,
    CNN_RATES,
    COARSE,
    CONVOLUTIONS,
    FCN_EPOCHS,
    FCN_EPSILON,
    FCN_RATES,
    INPUTS,
    NETWORKS,
    PARTS,
    PLAIN_CNN_RATES,
    PLAIN_RATES,
    PUBLISHED,
    flags,
    last_two,
    scheduled,
    shown,
)
from privaware import models
from privaware.studies._trials import Setting, Trial
from privaware.studies.random_weights import layers


def table1(bench: Bench, kind: str, data: str) -> dict[str, Any]:
    """One data set of Table I: the standard and the privacy-aware network, with and without noise."""
    dense = kind == "FCN"
    rows = bench.images(data, INPUTS[data] if dense else "image")
    epsilon = (FCN_EPSILON if dense else CNN_EPSILON)[data]
    names = dict(zip(("STW", "PAW"), (NETWORKS if dense else CONVOLUTIONS)[data]))
    epochs = (FCN_EPOCHS if dense else CNN_EPOCHS) // (2 if bench.quick else 1)
    tried: tuple[float, ...] = FCN_RATES if dense else CNN_RATES
    bare_rates: tuple[float, ...] = PLAIN_RATES if dense else PLAIN_CNN_RATES
    if bench.quick:
        tried, bare_rates = tried[:2], PLAIN_RATES[1:2]
    noisy = {(name, epsilon): scheduled(bench, network(full), data, epsilon, epochs) for name, full in names.items()}
    made, rates = bench.tuned(rows, noisy, tried)
    free = {(name, 0.0): scheduled(bench, network(full), data, None, epochs) for name, full in names.items()}
    bare, plain_rates = bench.tuned(rows, free, bare_rates)
    noise = next(iter(noisy.values())).noise
    found, without = by_curve(made), by_curve(bare)
    lines = [
        [
            name,
            f"{models.count(network(full)):,}",
            percent(found[name, epsilon]),
            percent(without[name, 0.0]),
            f"{100 * max(found[name, epsilon].scores):.2f}",
            PUBLISHED[kind, data][at],
        ]
        for at, (name, full) in enumerate(names.items())
    ]
    gaps = np.array(found["PAW", epsilon].scores) - np.array(found["STW", epsilon].scores)
    spent = f"noise {noise:.4g}, {epochs} epochs in samples of 1/{PARTS}, epsilon {epsilon:g}"
    return {
        "tables": [
            table(
                f"{kind} on {data}: {spent}",
                ["workflow", "parameters", "DP-SGD", "SGD", "best DP-SGD run", "published DP-SGD / SGD, best runs"],
                lines,
            )
        ],
        "words": [
            "The published numbers are the best of three runs or more, picked by test accuracy; ours are means over "
            "seeds, with the best of them beside. Gap with noise, PAW over STW: "
            f"{100 * gaps.mean():.2f} ± {100 * gaps.std(ddof=1):.2f} points. "
            f"Rates chosen on validation rows: {shown(rates)}; without noise {shown(plain_rates)}."
        ],
    }


def standard_cnn(bench: Bench) -> dict[str, Any]:
    """The standard CNN against the aware FCN at the same epsilon 2.11."""
    conv = {("standard CNN", 2.106): scheduled(bench, network("bao.cnn.mnist.197130"), "mnist", 2.106, CNN_EPOCHS)}
    dense = {("aware FCN", 2.106): scheduled(bench, network("bao.fcn.mnist.9610"), "mnist", 2.106, FCN_EPOCHS)}
    one, _ = bench.tuned(bench.images("mnist", "image"), conv, CNN_RATES)
    two, _ = bench.tuned(bench.images("mnist", "pca64"), dense, FCN_RATES)
    rows = [["standard CNN", "197,130", percent(one[0]), "93.92"], ["aware FCN", "9,610", percent(two[0]), "94.94"]]
    return {"tables": [table("MNIST at epsilon 2.11", ["model", "parameters", "ours", "published"], rows)]}


TABLE4 = [
    (300, 100, 1.0, 4.39, ("96.88 / 99.42", "97.86 / 99.38", "96.30 / 99.48")),
    (150, 100, 1.0, 2.98, ("96.61 / 99.34", "97.40 / 99.28", "95.90 / 99.36")),
    (150, 100, 2.0, 1.09, ("93.92 / 99.34", "96.08 / 99.28", "94.30 / 99.36")),
    (70, 200, 2.0, 1.05, ("94.92 / 99.38", "94.96 / 99.12", "94.72 / 99.32")),
]


def table4(bench: Bench) -> dict[str, Any]:
    """LeNet-5 against the networks of both workflows, at the epsilons of their four settings."""
    names = {"ST": "bao.cnn.mnist.197130", "PAW": "bao.cnn.mnist.56970", "LeNet": "bao.cnn.mnist.61706"}
    epsilons = {}
    for epochs, batch, noise, printed, _ in TABLE4:
        epsilons[printed] = rdp(batch / 60_000, math.ceil(epochs * 60_000 / batch), noise)
    settings = {
        (name, printed): scheduled(bench, network(full), "mnist", round(epsilon, 3), CNN_EPOCHS)
        for name, full in names.items()
        for printed, epsilon in epsilons.items()
    }
    rows = bench.images("mnist", "image")
    made, _ = bench.tuned(rows, settings, CNN_RATES)
    without = {(name, 0.0): scheduled(bench, network(full), "mnist", None, CNN_EPOCHS) for name, full in names.items()}
    free, _ = bench.tuned(rows, without, PLAIN_CNN_RATES)
    found, bare = by_curve(made), by_curve(free)
    lines = [
        [f"{printed:g}", name, percent(found[name, printed]), percent(bare[name, 0.0]), published[at]]
        for _, _, _, printed, published in TABLE4
        for at, name in enumerate(names)
    ]
    head = ["epsilon", "model", "DP-SGD", "SGD", "published DP-SGD / SGD"]
    return {"tables": [table(f"MNIST, {CNN_EPOCHS} epochs in samples of 1/{PARTS}", head, lines)]}


TABLE6 = {
    ("FCN", 2.106): ("90.06", "84.32"),
    ("FCN", 0.3411): ("51.34", "73.06"),
    ("CNN", 5.924): ("97.34", "96.33"),
    ("CNN", 0.3411): ("91.20", "95.20"),
}


def table6(bench: Bench) -> dict[str, Any]:
    """Random weights training of an FCN and a CNN on MNIST; the CNN also with its dense layers frozen."""
    dense, conv = network("bao.fcn.mnist.1362122"), network("bao.cnn.mnist.122442")
    lines = []
    for kind, net, form, epochs in (("FCN", dense, "flat", 20), ("CNN", conv, "image", CNN_EPOCHS)):
        ways = {"normal": None, "last two layers": last_two(net)}
        if kind == "CNN":
            ways["convolutions only"] = flags(net, 2, 3)
        epsilons = [epsilon for name, epsilon in TABLE6 if name == kind]
        settings = {
            (way, epsilon): replace(scheduled(bench, net, "mnist", epsilon, epochs), trainable=trained)
            for way, trained in ways.items()
            for epsilon in epsilons
        }
        made, _ = bench.tuned(bench.images("mnist", form), settings, COARSE)
        found, sizes = by_curve(made), layers(net)
        for epsilon in epsilons:
            for at, (way, trained) in enumerate(ways.items()):
                count = sum(n for n, f in zip(sizes, trained or [True] * len(sizes)) if f)
                published = TABLE6[kind, epsilon][at] if at < 2 else "(their count of 19,328)"
                lines.append([kind, f"{epsilon:.4g}", way, f"{count:,}", percent(found[way, epsilon]), published])
    head = ["network", "epsilon", "trained", "parameters", "ours", "published"]
    return {"tables": [table("MNIST", head, lines)]}


def table7(bench: Bench) -> dict[str, Any]:
    """A complex network trained fully and by its last two layers, and a simple one, at epsilon 0.34."""
    large, small = network("bao.fcn.mnist.1362122"), network("bao.fcn.mnist.435402")
    nets = [
        ("complex, normal", large, None, "49.90"),
        ("complex, last two layers", large, last_two(large), "75.18"),
        ("simple, normal", small, None, "73.04"),
    ]
    settings = {
        (name, 0.3411): replace(scheduled(bench, net, "mnist", 0.3411, 20), trainable=trained)
        for name, net, trained, _ in nets
    }
    made, _ = bench.tuned(bench.images("mnist", "flat"), settings, COARSE)
    found = by_curve(made)
    lines = [[name, percent(found[name, 0.3411]), published] for name, _, _, published in nets]
    return {"tables": [table("MNIST at epsilon 0.34", ["model", "ours", "published"], lines)]}


def table9(bench: Bench) -> dict[str, Any]:
    """The architectures found by RS with frozen layers, at 2.11 and 0.34, with and without noise."""
    nets = {
        ("STW", "674,762 (658,314)"): ("bao.fcn.mnist.674762", (2,)),
        ("PAW", "9,610 (9,610)"): ("bao.fcn.mnist.9610", ()),
        ("PAW", "76,810 (10,250)"): ("bao.fcn.mnist.76810", (0,)),
    }
    published = {
        ("674,762 (658,314)", 2.106): "92.04 / 97.97",
        ("9,610 (9,610)", 2.106): "95.18 / 96.84",
        ("674,762 (658,314)", 0.3411): "72.28 / 97.97",
        ("76,810 (10,250)", 0.3411): "91.61 / 92.70",
    }
    rows = bench.images("mnist", "pca64")
    settings: dict[tuple[str, float], Setting] = {}
    free: dict[tuple[str, float], Setting] = {}
    for (_, size), (name, frozen) in nets.items():
        trained = flags(network(name), *frozen)
        free[size, 0.0] = replace(scheduled(bench, network(name), "mnist", None, 20), trainable=trained)
        for epsilon in (2.106, 0.3411):
            if (size, epsilon) in published:
                settings[size, epsilon] = replace(
                    scheduled(bench, network(name), "mnist", epsilon, 20), trainable=trained
                )
    made, _ = bench.tuned(rows, settings, (0.5, 1.5, 4.0))
    bare, _ = bench.tuned(rows, free, PLAIN_RATES)
    found, without = by_curve(made), by_curve(bare)
    lines = [
        [
            workflow,
            size,
            f"{epsilon:.4g}",
            percent(found[size, epsilon]),
            percent(without[size, 0.0]),
            published[size, epsilon],
        ]
        for epsilon in (2.106, 0.3411)
        for workflow, size in nets
        if (size, epsilon) in published
    ]
    head = ["workflow", "parameters (trained)", "epsilon", "DP-SGD", "SGD", "published DP-SGD / SGD"]
    return {"tables": [table("MNIST, PCA 64, 20 epochs", head, lines)]}


def clipping(bench: Bench) -> dict[str, Any]:
    """The paper's FCN on CIFAR-10: plain descent, clipping only, and noise."""
    setting = scheduled(bench, network("bao.fcn.cifar10.19914"), "cifar10", 2.33, 20)
    ways = {"SGD": plain(setting), "SGD with clipping": replace(setting, noise=0.0), "DP-SGD": setting}
    rates = (0.1, 0.5, 2.0) if bench.quick else (0.02, 0.1, 0.5, 2.0, 8.0)
    trials = [
        Trial(curve=name, x=rate, seed=seed, setting=replace(way, lr=rate))
        for name, way in ways.items()
        for rate in rates
        for seed in bench.seeds
    ]
    made = points(bench.sweep(trials, bench.images("cifar10", "pca300").test))
    best = {name: max(p.mean for p in made if p.curve == name) for name in ways}
    words = [
        ", ".join(f"{name}: best {100 * value:.2f}" for name, value in best.items())
        + " (paper: 45.36 plainly, about 50 at epsilon 1e7 and with clipping only)."
    ]
    return {
        "tables": [grid_table("CIFAR-10, FCN of 19,914, 20 epochs", made, "learning rate")],
        "charts": [chart("clipping", made, x="learning rate")],
        "words": words,
    }
