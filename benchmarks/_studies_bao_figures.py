"""The figures of Bao, Bauer and Bindschaedler. Each cell gives tables, charts and words for the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks._studies import (
    Bench,
    Pair,
    by_curve,
    chart,
    grid_table,
    network,
    percent,
    points,
    rdp,
    scores_of,
    table,
)
from benchmarks._studies_bao import (
    CNN_EPSILON,
    COARSE,
    CONVOLUTIONS,
    FCN_EPSILON,
    INPUTS,
    NETWORKS,
    PARTS,
    WIDE,
    last_two,
    scheduled,
    shown,
)
from privaware import models
from privaware.studies._trials import Setting, Trial
from privaware.workflow._crossing import crossing

EPSILONS7 = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)


def figure7(bench: Bench, data: str) -> dict[str, Any]:
    """STW and PAW FCNs over eight orders of epsilon, the rate chosen anew at each."""
    epsilons = (0.3, 10.0, 1e3, 1e5) if bench.quick else EPSILONS7
    epochs, parts = (10, 30) if bench.quick else (20, PARTS)
    tried = (0.5, 2.0) if bench.quick else WIDE
    settings = {
        (name, epsilon): scheduled(bench, network(full), data, epsilon, epochs, parts)
        for name, full in zip(("STW", "PAW"), NETWORKS[data])
        for epsilon in epsilons
    }
    made, rates = bench.tuned(bench.images(data, INPUTS[data]), settings, tried)
    crossed = crossing(epsilons, scores_of(made, "PAW"), scores_of(made, "STW"))
    ends = sum(rate in (min(tried), max(tried)) for rate in rates.values())
    return {
        "tables": [grid_table(f"{data}: {epochs} epochs in samples of 1/{parts}", made)],
        "charts": [chart(f"figure7_{data}", made)],
        "words": [
            f"Crossover epsilon: {crossed.sentence} (paper: about 1e4).",
            f"Rates, of {tried}: {shown(rates)}; {ends} of {len(rates)} at an end of what was tried.",
        ],
        "crossover": crossed.json(),
    }


def figure8(bench: Bench) -> dict[str, Any]:
    """Logistic regression, FCN and CNN on MNIST from 0.01 to 2."""
    epsilons = (0.01, 0.05, 0.2, 1.0) if bench.quick else (0.01, 0.03, 0.1, 0.25, 0.5, 1.0, 2.0)
    flat = {"name": "linear", "inputs": 784, "outputs": 10}
    dense = {("FCN", e): scheduled(bench, network("bao.fcn.mnist.9610"), "mnist", e, 10, 30) for e in epsilons}
    straight = {("logistic regression", e): scheduled(bench, flat, "mnist", e, 10, 30) for e in epsilons}
    conv = {("CNN", e): scheduled(bench, network("bao.cnn.mnist.56970"), "mnist", e, 10, 30) for e in epsilons}
    made: list[Any] = []
    for form, settings in (("flat", straight), ("pca64", dense), ("image", conv)):
        if form == "image" and bench.quick:
            continue
        found, _ = bench.tuned(bench.images("mnist", form), settings, (0.1, 0.5, 2.0, 6.0))
        made += found
    straight_scores = scores_of(made, "logistic regression")
    crossed = crossing(epsilons, straight_scores, scores_of(made, "FCN"))
    words = [f"Crossover of logistic regression and FCN: {crossed.sentence}."]
    if not bench.quick:
        crossed = crossing(epsilons, straight_scores, scores_of(made, "CNN"))
        words += [f"Crossover of logistic regression and CNN: {crossed.sentence} (paper: from 0.25 to 0.5)."]
    return {
        "tables": [grid_table("MNIST, 10 epochs in samples of 1/30", made)],
        "charts": [chart("figure8", made)],
        "words": words,
    }


def figure10(bench: Bench) -> dict[str, Any]:
    """Where full training overtakes the last two layers: FCN and CNN on MNIST."""
    epsilons = (0.2, 1.0, 4.0) if bench.quick else (0.1, 0.2, 0.4, 0.8, 1.5, 4.0)
    dense, conv = network("bao.fcn.mnist.1362122"), network("bao.cnn.mnist.122442")
    made_of: dict[str, Any] = {"tables": [], "charts": [], "words": []}
    cases = (("FCN", dense, "flat", 15, 1.4), ("CNN", conv, "image", 10, 0.6))
    for kind, net, form, epochs, paper in cases[: 1 if bench.quick else 2]:
        settings = {
            (way, e): replace(scheduled(bench, net, "mnist", e, epochs, 30), trainable=trained)
            for way, trained in (("all layers", None), ("last two layers", last_two(net)))
            for e in epsilons
        }
        made, _ = bench.tuned(bench.images("mnist", form), settings, COARSE)
        crossed = crossing(epsilons, scores_of(made, "last two layers"), scores_of(made, "all layers"))
        made_of["tables"].append(grid_table(f"{kind}, {epochs} epochs in samples of 1/30", made))
        made_of["charts"].append(chart(f"figure10_{kind.lower()}", made))
        made_of["words"].append(f"{kind}: crossover {crossed.sentence} (paper: about {paper}).")
    return made_of


def figure9(bench: Bench) -> dict[str, Any]:
    """STW and PAW CNNs on SVHN at shared and at own rates, with the same epsilon."""
    rates = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    epsilon = CNN_EPSILON["svhn"]
    nets = dict(zip(("STW", "PAW"), CONVOLUTIONS["svhn"]))
    trials = [
        Trial(
            curve=name,
            x=rate,
            seed=seed,
            setting=replace(scheduled(bench, network(full), "svhn", epsilon, 10), lr=rate),
        )
        for name, full in nets.items()
        for rate in rates
        for seed in bench.seeds
    ]
    made = points(bench.sweep(trials, bench.images("svhn", "image").test))
    found = by_curve(made)
    best = {name: max(rates, key=lambda rate: found[name, rate].mean) for name in nets}
    winners = {rate: max(nets, key=lambda name: found[name, rate].mean) for rate in rates}
    words = [
        "Winner at each shared rate: " + ", ".join(f"{winner} at {rate:g}" for rate, winner in winners.items()) + ".",
        "At its own best rate: " + ", ".join(f"{n} {percent(found[n, r])} at {r:g}" for n, r in best.items()) + ".",
        "Rates are not comparable with the paper's: its batch is 100, ours 700 with a mean gradient.",
    ]
    return {
        "tables": [grid_table(f"SVHN in grey at epsilon {epsilon:g}, 10 epochs", made, "learning rate")],
        "charts": [chart("figure9", made, x="learning rate")],
        "words": words,
    }


def sizes(bench: Bench, data: str, name: str, deep: bool) -> dict[str, Any]:
    """Figures 1 and 12: accuracy by parameters, wider and deeper, with and without noise."""
    inputs = int(INPUTS[data][3:])
    widths = (4, 16, 64, 256, 1024) if bench.quick else (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
    depths = ((1, 3, 6) if bench.quick else (1, 2, 3, 4, 6, 8, 10, 12)) if deep else ()
    nets = [("wider", [width]) for width in widths] + [("deeper", [128] * count) for count in depths]
    epsilon, epochs = FCN_EPSILON[data], 5 if bench.quick else 15
    rows = bench.images(data, INPUTS[data]).test
    trials = []
    for kind, hidden in nets:
        net = {"name": "fcn", "inputs": inputs, "hidden": hidden, "outputs": 10, "dropout": 0.0}
        for way, level, rate in (("DP-SGD", epsilon, 1.0), ("SGD", None, 0.2)):
            setting = replace(scheduled(bench, net, data, level, epochs), lr=rate)
            trials += [
                Trial(curve=f"{kind}, {way}", x=models.count(net), seed=seed, setting=setting) for seed in bench.seeds
            ]
    made = points(bench.sweep(trials, rows))
    return {
        "tables": [
            grid_table(
                f"{data} at epsilon {epsilon:g}, {epochs} epochs, rate 1 (0.2 without noise)", made, "parameters"
            )
        ],
        "charts": [chart(name, made, x="parameters")],
    }


def figure6(bench: Bench) -> dict[str, Any]:
    """The sample-size law: epsilon spent when 85% of validation rows are right, rows drawn with replacement."""
    from privaware.studies.sample_size import _first, sample_size

    sizes = (10_000, 20_000, 40_000, 100_000) if bench.quick else (10_000, 20_000, 40_000, 100_000, 300_000, 1_000_000)
    batch, noise, repeats = 256, 1.5, 3 if bench.quick else 10
    nets = {"simple (128)": [128], "complex (2048, 256, 64)": [2048, 256, 64]}
    rows: Pair = bench.images("mnist", "pca64")
    tables, words, charts = [], [], []
    for name, hidden in nets.items():
        net = {"name": "fcn", "inputs": 64, "hidden": hidden, "outputs": 10, "dropout": 0.0}
        rate = 0.5 if len(hidden) == 1 else 0.25
        setting = Setting(architecture=net, batch=batch, steps=1500, lr=rate, noise=noise, initial="glorot")
        spent: dict[int, list[float]] = {}
        for size in sizes:
            trials = [Trial(curve=name, x=size, seed=seed, setting=setting) for seed in range(repeats)]
            drawn = rows.validation if bench.dry else rows.validation.resampled(size, 0)
            outcomes = bench.sweep(trials, drawn, every=10, reach=0.85)
            steps = [_first(outcome, 0.85) for outcome in outcomes]
            spent[size] = [rdp(batch / size, step, noise) for step in steps if step]
        known = {n: values for n, values in spent.items() if values}
        tables.append(
            table(
                f"{name}: epsilon spent at 85% (batch {batch}, noise {noise:g}, rate {rate:g}), {repeats} repeats",
                ["rows", "epsilon", "repeats that got there"],
                [[f"{n:,}", f"{np.mean(v):.4f} ± {np.std(v):.4f}" if v else "", len(v)] for n, v in spent.items()],
            )
        )
        if len(known) > 1:
            law = sample_size(known, available=60_000)
            words.append(
                f"{name}: epsilon = ln({law.alpha:.4g} + {law.beta:.5g} / rows), spread {law.alpha_spread:.2g} and "
                f"{law.beta_spread:.2g}, misfit {law.misfit:.3g} (paper, simple: 1.1 and 8922.4); {law.note}."
            )
            charts.append(
                chart(f"figure6_{'simple' if len(hidden) == 1 else 'complex'}", law.points, x="rows", y="epsilon")
            )
    return {"tables": tables, "words": words, "charts": charts}
