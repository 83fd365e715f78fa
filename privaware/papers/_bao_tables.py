"""Runs of the tables of Bao et al., and of their Appendix E. Each gives tables, charts and remarks of a section."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from privaware import models
from privaware.papers import Result, Settings
from privaware.papers._bao_settings import (
    CNN_EPSILON,
    CNNS,
    COARSE,
    FCN_EPSILON,
    FCNS,
    INPUTS,
    PARTS,
    PLAIN_CNN_RATES,
    PLAIN_RATES,
    RATES,
    all_but,
    last_two,
    scheduled,
    shown,
)
from privaware.papers._prices import rdp_epsilon
from privaware.papers._results import table
from privaware.papers._runner import Bench
from privaware.papers._training import by_place, chart, grid_table, images, network, percent, sweep_options, tuned
from privaware.studies import Setting
from privaware.studies.clipping_only import clipping_only
from privaware.studies.random_weights import layers

__all__ = ["clipping", "standard_cnn", "table1", "table4", "table6", "table7", "table9"]


def table1(bench: Bench, settings: Settings) -> Result:
    """One data set of Table I: the standard and the privacy-aware network, with and without noise."""
    kind, data, epochs, seeds = (settings[name] for name in ("network", "data", "epochs", "seeds"))
    dense = kind == "FCN"
    rows = images(bench, data, INPUTS[data] if dense else "image")
    epsilon = (FCN_EPSILON if dense else CNN_EPSILON)[data]
    names = dict(zip(("STW", "PAW"), (FCNS if dense else CNNS)[data]))
    noisy = {(name, epsilon): scheduled(bench, network(full), data, epsilon, epochs) for name, full in names.items()}
    free = {(name, 0.0): scheduled(bench, network(full), data, None, epochs) for name, full in names.items()}
    private_points, rates = tuned(bench, rows, noisy, settings["rates"], seeds)
    plain_points, plain_rates = tuned(bench, rows, free, settings["plain_rates"], seeds)
    private, without = by_place(private_points), by_place(plain_points)
    lines = [
        [
            name,
            f"{models.count(network(full)):,}",
            percent(private[name, epsilon]),
            percent(without[name, 0.0]),
            f"{100 * max(private[name, epsilon].scores):.2f}",
        ]
        for name, full in names.items()
    ]
    gaps = np.array(private["PAW", epsilon].scores) - np.array(private["STW", epsilon].scores)
    noise = noisy["STW", epsilon].noise
    title = f"{kind} on {data}: noise {noise:.4g}, {epochs} epochs in samples of 1/{PARTS}, epsilon {epsilon:g}"
    return {
        "tables": [table(title, ["workflow", "parameters", "DP-SGD", "SGD", "best DP-SGD run"], lines)],
        "words": [
            "The published numbers are the best of three runs or more, picked by test accuracy; ours are means over "
            "seeds, with the best of them beside. Gap with noise, PAW over STW: "
            f"{100 * gaps.mean():.2f} ± {100 * gaps.std(ddof=1) if len(gaps) > 1 else 0:.2f} points. "
            f"Rates chosen on validation rows: {shown(rates)}; without noise {shown(plain_rates)}."
        ],
    }


def standard_cnn(bench: Bench, settings: Settings) -> Result:
    """The standard CNN against the aware FCN at the same epsilon 2.11."""
    cnn_epochs, fcn_epochs, seeds = settings["cnn_epochs"], settings["fcn_epochs"], settings["seeds"]
    conv = {("standard CNN", 2.106): scheduled(bench, network("bao.cnn.mnist.197130"), "mnist", 2.106, cnn_epochs)}
    dense = {("aware FCN", 2.106): scheduled(bench, network("bao.fcn.mnist.9610"), "mnist", 2.106, fcn_epochs)}
    [cnn], _ = tuned(bench, images(bench, "mnist", "image"), conv, RATES, seeds)
    [fcn], _ = tuned(bench, images(bench, "mnist", "pca64"), dense, RATES, seeds)
    lines = [["standard CNN", "197,130", percent(cnn)], ["aware FCN", "9,610", percent(fcn)]]
    return {"tables": [table("MNIST at epsilon 2.11", ["model", "parameters", "ours"], lines)]}


TABLE4 = {4.39: (300, 100, 1.0), 2.98: (150, 100, 1.0), 1.09: (150, 100, 2.0), 1.05: (70, 200, 2.0)}
"""Epochs, batch and noise multiplier of each printed epsilon."""


def table4(bench: Bench, settings: Settings) -> Result:
    """LeNet-5 against the networks of both workflows, at the epsilons of their four settings."""
    names = {"ST": "bao.cnn.mnist.197130", "PAW": "bao.cnn.mnist.56970", "LeNet": "bao.cnn.mnist.61706"}
    epochs, seeds = settings["epochs"], settings["seeds"]

    def exact(printed: float) -> float:
        passes, batch, noise = TABLE4[printed]
        steps = math.ceil(passes * 60_000 / batch)
        return round(rdp_epsilon(batch / 60_000, steps, noise), 3)

    noisy = {
        (name, printed): scheduled(bench, network(full), "mnist", exact(printed), epochs)
        for name, full in names.items()
        for printed in TABLE4
    }
    free = {(name, 0.0): scheduled(bench, network(full), "mnist", None, epochs) for name, full in names.items()}
    rows = images(bench, "mnist", "image")
    private = by_place(tuned(bench, rows, noisy, RATES, seeds)[0])
    without = by_place(tuned(bench, rows, free, PLAIN_CNN_RATES, seeds)[0])
    lines = [
        [f"{printed:g}", name, percent(private[name, printed]), percent(without[name, 0.0])]
        for printed in TABLE4
        for name in names
    ]
    title = f"MNIST, {epochs} epochs in samples of 1/{PARTS}"
    return {"tables": [table(title, ["epsilon", "model", "DP-SGD", "SGD"], lines)]}


def table6(bench: Bench, settings: Settings) -> Result:
    """Random weights training of an FCN and a CNN on MNIST; the CNN also with its dense layers frozen."""
    dense, conv = network("bao.fcn.mnist.1362122"), network("bao.cnn.mnist.122442")
    lines = []
    for kind, net, form, epsilons in (("FCN", dense, "flat", (2.106, 0.3411)), ("CNN", conv, "image", (5.924, 0.3411))):
        ways: dict[str, tuple[bool, ...] | None] = {"normal": None, "last two layers": last_two(net)}
        if kind == "CNN":
            ways["convolutions only"] = tuple(not flag for flag in last_two(net))
        noisy = {
            (way, epsilon): replace(scheduled(bench, net, "mnist", epsilon, settings["epochs"]), trainable=trained)
            for way, trained in ways.items()
            for epsilon in epsilons
        }
        private = by_place(tuned(bench, images(bench, "mnist", form), noisy, COARSE, settings["seeds"])[0])
        sizes = layers(net)
        for epsilon in epsilons:
            for way, trained in ways.items():
                count = sum(size for size, flag in zip(sizes, trained or [True] * len(sizes)) if flag)
                lines.append([kind, f"{epsilon:.4g}", way, f"{count:,}", percent(private[way, epsilon])])
    return {"tables": [table("MNIST", ["network", "epsilon", "trained", "parameters", "ours"], lines)]}


def table7(bench: Bench, settings: Settings) -> Result:
    """A complex network trained fully and by its last two layers, and a simple one, at epsilon 0.34."""
    large, small = network("bao.fcn.mnist.1362122"), network("bao.fcn.mnist.435402")
    nets: dict[str, tuple[dict[str, Any], tuple[bool, ...] | None]] = {
        "complex, normal": (large, None),
        "complex, last two layers": (large, last_two(large)),
        "simple, normal": (small, None),
    }
    noisy = {
        (name, 0.3411): replace(scheduled(bench, net, "mnist", 0.3411, settings["epochs"]), trainable=trained)
        for name, (net, trained) in nets.items()
    }
    private = by_place(tuned(bench, images(bench, "mnist", "flat"), noisy, COARSE, settings["seeds"])[0])
    lines = [[name, percent(private[name, 0.3411])] for name in nets]
    return {"tables": [table("MNIST at epsilon 0.34", ["model", "ours"], lines)]}


TABLE9 = {
    ("STW", "674,762 (658,314)", 2.106): ("bao.fcn.mnist.674762", (2,)),
    ("PAW", "9,610 (9,610)", 2.106): ("bao.fcn.mnist.9610", ()),
    ("STW", "674,762 (658,314)", 0.3411): ("bao.fcn.mnist.674762", (2,)),
    ("PAW", "76,810 (10,250)", 0.3411): ("bao.fcn.mnist.76810", (0,)),
}
"""Workflow, parameters (trained) and epsilon: the network and its frozen layers."""


def table9(bench: Bench, settings: Settings) -> Result:
    """The architectures found by RS with frozen layers, at 2.11 and 0.34, with and without noise."""
    noisy: dict[tuple[str, float], Setting] = {}
    free: dict[tuple[str, float], Setting] = {}
    for (_, size, epsilon), (name, frozen) in TABLE9.items():
        trained = all_but(network(name), *frozen)
        for places, at in ((noisy, epsilon), (free, None)):
            setting = scheduled(bench, network(name), "mnist", at, settings["epochs"])
            places[size, at or 0.0] = replace(setting, trainable=trained)
    rows, seeds = images(bench, "mnist", "pca64"), settings["seeds"]
    private = by_place(tuned(bench, rows, noisy, (0.5, 1.5, 4.0), seeds)[0])
    without = by_place(tuned(bench, rows, free, PLAIN_RATES, seeds)[0])
    lines = [
        [workflow, size, f"{epsilon:.4g}", percent(private[size, epsilon]), percent(without[size, 0.0])]
        for workflow, size, epsilon in TABLE9
    ]
    head = ["workflow", "parameters (trained)", "epsilon", "DP-SGD", "SGD"]
    return {"tables": [table(f"MNIST, PCA 64, {settings['epochs']} epochs", head, lines)]}


def clipping(bench: Bench, settings: Settings) -> Result:
    """The paper's FCN on CIFAR-10: plain descent, clipping only, and noise."""
    epochs = settings["epochs"]
    setting = scheduled(bench, network("bao.fcn.cifar10.19914"), "cifar10", 2.33, epochs)
    if bench.dry:
        return {}
    rows = images(bench, "cifar10", "pca300").test
    study = clipping_only(rows, setting, settings["rates"], repeats=settings["seeds"], **sweep_options(bench))
    words = ", ".join(f"{name}: best {100 * value:.2f}" for name, value in study.best.items())
    return {
        "tables": [grid_table(f"CIFAR-10, FCN of 19,914, {epochs} epochs", study.points, "learning rate")],
        "charts": [chart("clipping", study.points, x="learning rate")],
        "words": [f"{words} (paper: 45.36 plainly, about 50 at epsilon 1e7 and with clipping only)."],
    }
