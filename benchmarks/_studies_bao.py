"""The cells that redo Bao, Bauer and Bindschaedler. Each gives tables, charts and words for the page.

Epsilon is counted as they do (improved Renyi conversion, orders of TensorFlow Privacy 0.6.2) unless said otherwise.
Their schedules (batch 100; 500 epochs for FCNs, 300 for CNNs) are replaced by shorter ones of equal epsilon: FCNs see
40 epochs in Poisson samples of 1/60 of the rows, CNNs 20, with the noise that brings each to the epsilon told.
Weights are drawn as Keras draws them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks._studies import (
    TUNING,
    Bench,
    Pair,
    by_curve,
    chart,
    grid_table,
    network,
    percent,
    plain,
    points,
    rdp,
    scores_of,
    table,
)  # fmt: skip
from privaware import models
from privaware.study._crossing import crossing
from privaware.study._trials import Setting, Trial
from privaware.study.random_weights import layers

PARTS, FCN_EPOCHS, CNN_EPOCHS = 60, 40, 20
FCN_RATES, CNN_RATES, PLAIN_RATES = (0.5, 1.0, 2.0, 4.0), (0.25, 0.5, 1.0, 2.0), (0.05, 0.2, 0.5)
WIDE = (0.05, 0.2, 1.0, 4.0)
"""Rates for epsilons that span orders of magnitude."""
NETWORKS = {
    "mnist": ("bao.fcn.mnist.66762", "bao.fcn.mnist.9610"),
    "fashion_mnist": ("bao.fcn.fashion_mnist.38410", "bao.fcn.mnist.9610"),
    "svhn": ("bao.fcn.svhn.221066", "bao.fcn.svhn.39818"),
    "cifar10": ("bao.fcn.cifar10.636938", "bao.fcn.cifar10.19914"),
}
CONVOLUTIONS = {
    "mnist": ("bao.cnn.mnist.197130", "bao.cnn.mnist.56970"),
    "svhn": ("bao.cnn.svhn.1817930", "bao.cnn.svhn.600522"),
    "cifar10": ("bao.cnn.cifar10.1820330", "bao.cnn.cifar10.246554"),
}
INPUTS = {"mnist": "pca64", "fashion_mnist": "pca64", "svhn": "pca300", "cifar10": "pca300"}
FCN_EPSILON = {"mnist": 2.106, "fashion_mnist": 2.106, "svhn": 2.573, "cifar10": 2.33}
CNN_EPSILON = {"mnist": 4.387, "svhn": 5.382, "cifar10": 4.873}
PUBLISHED = {
    ("FCN", "mnist"): ("93.10 / 97.54", "94.94 / 96.34"),
    ("FCN", "fashion_mnist"): ("85.00 / 89.62", "86.74 / 87.70"),
    ("FCN", "svhn"): ("72.90 / 85.32", "76.10 / 84.12"),
    ("FCN", "cifar10"): ("40.12 / 57.14", "43.66 / 45.36"),
    ("CNN", "mnist"): ("96.88 / 99.42", "97.86 / 99.38"),
    ("CNN", "svhn"): ("82.72 / 91.68", "84.72 / 90.90"),
    ("CNN", "cifar10"): ("47.76 / 67.54", "50.22 / 61.46"),
}
ROWS = {"mnist": 60_000, "fashion_mnist": 60_000, "svhn": 42_000, "cifar10": 50_000}


def scheduled(
    bench: Bench, architecture: dict[str, Any], data: str, epsilon: float | None, epochs: int, parts: int = PARTS
) -> Setting:  # fmt: skip
    """`epochs` in samples of 1 / parts of the rows, with the noise for epsilon, or plainly."""
    steps, batch = epochs * parts, ROWS[data] // parts
    noise = 0.0 if epsilon is None else bench.noise(1 / parts, steps, epsilon)
    made = Setting(
        architecture=architecture, batch=batch, steps=steps, lr=1.0, noise=noise, initial="glorot"
    )
    return made if noise else plain(made)


def table1(bench: Bench, kind: str, data: str) -> dict[str, Any]:
    """One data set of Table I: the standard and the privacy-aware network, with and without noise."""
    dense = kind == "FCN"
    rows = bench.images(data, INPUTS[data] if dense else "image")
    epsilon = (FCN_EPSILON if dense else CNN_EPSILON)[data]
    names = dict(zip(("STW", "PAW"), (NETWORKS if dense else CONVOLUTIONS)[data]))
    epochs = (FCN_EPOCHS if dense else CNN_EPOCHS) // (2 if bench.quick else 1)
    tried, tuning = (FCN_RATES if dense else CNN_RATES), TUNING
    bare_rates: tuple[float, ...] = PLAIN_RATES
    if bench.quick:
        tried, bare_rates, tuning = tried[1:3], PLAIN_RATES[1:2], range(100, 101)
    noisy = {
        (name, epsilon): scheduled(bench, network(full), data, epsilon, epochs)
        for name, full in names.items()
    }
    made, rates = bench.tuned(rows, noisy, tried, tuning)
    free = {
        (name, 0.0): scheduled(bench, network(full), data, None, epochs)
        for name, full in names.items()
    }
    bare, plain_rates = bench.tuned(rows, free, bare_rates, tuning)
    noise = next(iter(noisy.values())).noise
    found, without = by_curve(made), by_curve(bare)
    lines = [
        [name, f"{models.count(network(full)):,}", percent(found[name, epsilon]), percent(without[name, 0.0]),
         f"{100 * max(found[name, epsilon].scores):.2f}", PUBLISHED[kind, data][at]]
        for at, (name, full) in enumerate(names.items())
    ]  # fmt: skip
    gaps = np.array(found["PAW", epsilon].scores) - np.array(found["STW", epsilon].scores)
    spent = f"noise {noise:.4g}, {epochs} epochs in samples of 1/{PARTS}, epsilon {epsilon:g}"
    return {
        "tables": [
            table(
                f"{kind} on {data}: {spent}",
                ["workflow", "parameters", "DP-SGD", "SGD", "best DP-SGD run", "published DP-SGD / SGD"],
                lines,
            )
        ],
        "words": [
            f"Gap with noise, PAW over STW: {100 * gaps.mean():.2f} ± {100 * gaps.std(ddof=1):.2f} points. "
            f"Rates chosen on validation rows: {_shown(rates)}; without noise {_shown(plain_rates)}.",
        ],
    }  # fmt: skip


def _shown(rates: dict[str, float]) -> str:
    return ", ".join(f"{rate:g} ({place})" for place, rate in rates.items())


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
    made, rates = bench.tuned(bench.images(data, INPUTS[data]), settings, tried, tuning=(100,))
    crossed = crossing(epsilons, scores_of(made, "PAW"), scores_of(made, "STW"))
    ends = sum(rate in (min(tried), max(tried)) for rate in rates.values())
    return {
        "tables": [grid_table(f"{data}: {epochs} epochs in samples of 1/{parts}", made)],
        "charts": [chart(f"figure7_{data}", made)],
        "words": [
            f"Crossover epsilon: {crossed.sentence} (paper: about 1e4).",
            f"Rates, of {tried}: {_shown(rates)}; {ends} of {len(rates)} at an end of what was tried.",
        ],
        "crossover": crossed.json(),
    }


def figure8(bench: Bench) -> dict[str, Any]:
    """Logistic regression, FCN and CNN on MNIST from 0.01 to 2."""
    epsilons = (0.01, 0.05, 0.2, 1.0) if bench.quick else (0.01, 0.03, 0.1, 0.25, 0.5, 1.0, 2.0)
    flat = {"name": "linear", "inputs": 784, "outputs": 10}
    dense = {
        ("FCN", e): scheduled(bench, network("bao.fcn.mnist.9610"), "mnist", e, 10, 30)
        for e in epsilons
    }
    straight = {
        ("logistic regression", e): scheduled(bench, flat, "mnist", e, 10, 30) for e in epsilons
    }
    conv = {
        ("CNN", e): scheduled(bench, network("bao.cnn.mnist.56970"), "mnist", e, 10, 30)
        for e in epsilons
    }
    made: list[Any] = []
    for form, settings in (("flat", straight), ("pca64", dense), ("image", conv)):
        if form == "image" and bench.quick:
            continue
        found, _ = bench.tuned(
            bench.images("mnist", form), settings, (0.1, 0.5, 2.0), tuning=(100,)
        )
        made += found
    straight_scores = scores_of(made, "logistic regression")
    crossed = crossing(epsilons, straight_scores, scores_of(made, "FCN"))
    words = [f"Crossover of logistic regression and FCN: {crossed.sentence}."]
    if not bench.quick:
        crossed = crossing(epsilons, straight_scores, scores_of(made, "CNN"))
        words += [
            f"Crossover of logistic regression and CNN: {crossed.sentence} (paper: from 0.25 to 0.5)."
        ]
    return {
        "tables": [grid_table("MNIST, 10 epochs in samples of 1/30", made)],
        "charts": [chart("figure8", made)],
        "words": words,
    }


def standard_cnn(bench: Bench) -> dict[str, Any]:
    """The standard CNN against the aware FCN at the same epsilon 2.11."""
    conv = {
        ("standard CNN", 2.106): scheduled(
            bench, network("bao.cnn.mnist.197130"), "mnist", 2.106, CNN_EPOCHS
        )
    }
    dense = {
        ("aware FCN", 2.106): scheduled(
            bench, network("bao.fcn.mnist.9610"), "mnist", 2.106, FCN_EPOCHS
        )
    }
    one, _ = bench.tuned(bench.images("mnist", "image"), conv, CNN_RATES)
    two, _ = bench.tuned(bench.images("mnist", "pca64"), dense, FCN_RATES)
    rows = [
        ["standard CNN", "197,130", percent(one[0]), "93.92"],
        ["aware FCN", "9,610", percent(two[0]), "94.94"],
    ]
    return {
        "tables": [
            table("MNIST at epsilon 2.11", ["model", "parameters", "ours", "published"], rows)
        ]
    }


TABLE4 = [
    (300, 100, 1.0, 4.39, ("96.88 / 99.42", "97.86 / 99.38", "96.30 / 99.48")),
    (150, 100, 1.0, 2.98, ("96.61 / 99.34", "97.40 / 99.28", "95.90 / 99.36")),
    (150, 100, 2.0, 1.09, ("93.92 / 99.34", "96.08 / 99.28", "94.30 / 99.36")),
    (70, 200, 2.0, 1.05, ("94.92 / 99.38", "94.96 / 99.12", "94.72 / 99.32")),
]


def table4(bench: Bench) -> dict[str, Any]:
    """LeNet-5 against the networks of both workflows, at the epsilons of their four settings."""
    names = {
        "ST": "bao.cnn.mnist.197130",
        "PAW": "bao.cnn.mnist.56970",
        "LeNet": "bao.cnn.mnist.61706",
    }
    epsilons = {}
    for epochs, batch, noise, printed, _ in TABLE4:
        epsilons[printed] = rdp(batch / 60_000, math.ceil(epochs * 60_000 / batch), noise)
    settings = {
        (name, printed): scheduled(bench, network(full), "mnist", round(epsilon, 4), CNN_EPOCHS)
        for name, full in names.items() for printed, epsilon in epsilons.items()
    }  # fmt: skip
    rows = bench.images("mnist", "image")
    made, _ = bench.tuned(rows, settings, CNN_RATES, tuning=(100,))
    without = {
        (name, 0.0): scheduled(bench, network(full), "mnist", None, CNN_EPOCHS)
        for name, full in names.items()
    }
    free, _ = bench.tuned(rows, without, PLAIN_RATES, tuning=(100,))
    found, bare = by_curve(made), by_curve(free)
    lines = [
        [f"{printed:g}", name, percent(found[name, printed]), percent(bare[name, 0.0]), published[at]]
        for _, _, _, printed, published in TABLE4 for at, name in enumerate(names)
    ]  # fmt: skip
    head = ["epsilon", "model", "DP-SGD", "SGD", "published DP-SGD / SGD"]
    return {"tables": [table(f"MNIST, {CNN_EPOCHS} epochs in samples of 1/{PARTS}", head, lines)]}


def flags(architecture: dict[str, Any], *frozen: int) -> tuple[bool, ...]:
    return tuple(at not in frozen for at in range(len(layers(architecture))))


def last_two(architecture: dict[str, Any]) -> tuple[bool, ...]:
    count = len(layers(architecture))
    return tuple(at >= count - 2 for at in range(count))


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
            for way, trained in ways.items() for epsilon in epsilons
        }  # fmt: skip
        made, _ = bench.tuned(bench.images("mnist", form), settings, CNN_RATES, tuning=(100,))
        found, sizes = by_curve(made), layers(net)
        for epsilon in epsilons:
            for at, (way, trained) in enumerate(ways.items()):
                count = sum(n for n, f in zip(sizes, trained or [True] * len(sizes)) if f)
                published = TABLE6[kind, epsilon][at] if at < 2 else "(their count of 19,328)"
                lines.append(
                    [
                        kind,
                        f"{epsilon:.4g}",
                        way,
                        f"{count:,}",
                        percent(found[way, epsilon]),
                        published,
                    ]
                )
    head = ["network", "epsilon", "trained", "parameters", "ours", "published"]
    return {"tables": [table("MNIST", head, lines)]}


def table7(bench: Bench) -> dict[str, Any]:
    """A complex network trained fully and by its last two layers, and a simple one, at epsilon 0.34."""
    large, small = network("bao.fcn.mnist.1362122"), network("bao.fcn.mnist.435402")
    nets = [("complex, normal", large, None, "49.90"), ("complex, last two layers", large, last_two(large), "75.18"),
            ("simple, normal", small, None, "73.04")]  # fmt: skip
    settings = {
        (name, 0.3411): replace(scheduled(bench, net, "mnist", 0.3411, 20), trainable=trained)
        for name, net, trained, _ in nets
    }
    made, _ = bench.tuned(bench.images("mnist", "flat"), settings, CNN_RATES, tuning=(100,))
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
        ("674,762 (658,314)", 2.106): "92.04 / 97.97", ("9,610 (9,610)", 2.106): "95.18 / 96.84",
        ("674,762 (658,314)", 0.3411): "72.28 / 97.97", ("76,810 (10,250)", 0.3411): "91.61 / 92.70",
    }  # fmt: skip
    rows = bench.images("mnist", "pca64")
    settings: dict[tuple[str, float], Setting] = {}
    free: dict[tuple[str, float], Setting] = {}
    for (_, size), (name, frozen) in nets.items():
        trained = flags(network(name), *frozen)
        free[size, 0.0] = replace(
            scheduled(bench, network(name), "mnist", None, 20), trainable=trained
        )
        for epsilon in (2.106, 0.3411):
            if (size, epsilon) in published:
                settings[size, epsilon] = replace(
                    scheduled(bench, network(name), "mnist", epsilon, 20), trainable=trained
                )
    made, _ = bench.tuned(rows, settings, FCN_RATES, tuning=(100,))
    bare, _ = bench.tuned(rows, free, PLAIN_RATES, tuning=(100,))
    found, without = by_curve(made), by_curve(bare)
    lines = [
        [workflow, size, f"{epsilon:.4g}", percent(found[size, epsilon]), percent(without[size, 0.0]),
         published[size, epsilon]]
        for epsilon in (2.106, 0.3411) for workflow, size in nets if (size, epsilon) in published
    ]  # fmt: skip
    head = [
        "workflow",
        "parameters (trained)",
        "epsilon",
        "DP-SGD",
        "SGD",
        "published DP-SGD / SGD",
    ]
    return {"tables": [table("MNIST, PCA 64, 20 epochs", head, lines)]}


def figure10(bench: Bench) -> dict[str, Any]:
    """Where full training overtakes the last two layers: FCN and CNN on MNIST."""
    epsilons = (0.2, 1.0, 4.0) if bench.quick else (0.1, 0.2, 0.4, 0.6, 1.0, 1.4, 2.0, 4.0)
    dense, conv = network("bao.fcn.mnist.1362122"), network("bao.cnn.mnist.122442")
    made_of: dict[str, Any] = {"tables": [], "charts": [], "words": []}
    cases = (("FCN", dense, "flat", 15, 1.4), ("CNN", conv, "image", 10, 0.6))
    for kind, net, form, epochs, paper in cases[: 1 if bench.quick else 2]:
        settings = {
            (way, e): replace(scheduled(bench, net, "mnist", e, epochs, 30), trainable=trained)
            for way, trained in (("all layers", None), ("last two layers", last_two(net))) for e in epsilons
        }  # fmt: skip
        made, _ = bench.tuned(
            bench.images("mnist", form), settings, (0.25, 1.0, 4.0), tuning=(100,)
        )
        crossed = crossing(
            epsilons, scores_of(made, "last two layers"), scores_of(made, "all layers")
        )
        made_of["tables"].append(grid_table(f"{kind}, {epochs} epochs in samples of 1/30", made))
        made_of["charts"].append(chart(f"figure10_{kind.lower()}", made))
        made_of["words"].append(f"{kind}: crossover {crossed.sentence} (paper: about {paper}).")
    return made_of


def figure9(bench: Bench) -> dict[str, Any]:
    """STW and PAW CNNs on SVHN at shared and at own rates, with the same epsilon."""
    rates = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
    epsilon = CNN_EPSILON["svhn"]
    nets = dict(zip(("STW", "PAW"), CONVOLUTIONS["svhn"]))
    trials = [
        Trial(curve=name, x=rate, seed=seed,
              setting=replace(scheduled(bench, network(full), "svhn", epsilon, 10), lr=rate))
        for name, full in nets.items() for rate in rates for seed in bench.seeds
    ]  # fmt: skip
    made = points(bench.sweep(trials, bench.images("svhn", "image").test))
    found = by_curve(made)
    best = {name: max(rates, key=lambda rate: found[name, rate].mean) for name in nets}
    winners = {rate: max(nets, key=lambda name: found[name, rate].mean) for rate in rates}
    words = [
        "Winner at each shared rate: " + ", ".join(f"{winner} at {rate:g}" for rate, winner in winners.items()) + ".",
        "At its own best rate: " + ", ".join(f"{n} {percent(found[n, r])} at {r:g}" for n, r in best.items()) + ".",
        "Rates are not comparable with the paper's: its batch is 100, ours 700 with a mean gradient.",
    ]  # fmt: skip
    return {
        "tables": [
            grid_table(f"SVHN in grey at epsilon {epsilon:g}, 10 epochs", made, "learning rate")
        ],
        "charts": [chart("figure9", made, x="learning rate")],
        "words": words,
    }


def sizes(bench: Bench, data: str, name: str, deep: bool) -> dict[str, Any]:
    """Figures 1 and 12: accuracy by parameters, wider and deeper, with and without noise."""
    inputs = int(INPUTS[data][3:])
    widths = (
        (4, 16, 64, 256, 1024) if bench.quick else (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
    )
    depths = ((1, 3, 6) if bench.quick else (1, 2, 3, 4, 6, 8, 10, 12)) if deep else ()
    nets = [("wider", [width]) for width in widths] + [
        ("deeper", [128] * count) for count in depths
    ]
    epsilon, epochs = FCN_EPSILON[data], 5 if bench.quick else 15
    rows = bench.images(data, INPUTS[data]).test
    trials = []
    for kind, hidden in nets:
        net = {"name": "fcn", "inputs": inputs, "hidden": hidden, "outputs": 10, "dropout": 0.0}
        for way, level, rate in (("DP-SGD", epsilon, 1.0), ("SGD", None, 0.2)):
            setting = replace(scheduled(bench, net, data, level, epochs), lr=rate)
            trials += [
                Trial(curve=f"{kind}, {way}", x=models.count(net), seed=seed, setting=setting)
                for seed in bench.seeds
            ]
    made = points(bench.sweep(trials, rows))
    return {
        "tables": [grid_table(f"{data} at epsilon {epsilon:g}, {epochs} epochs, rate 1 (0.2 without noise)", made,
                              "parameters")],
        "charts": [chart(name, made, x="parameters")],
    }  # fmt: skip


def figure6(bench: Bench) -> dict[str, Any]:
    """The sample-size law: epsilon spent when 85% of validation rows are right, rows drawn with replacement."""
    from privaware.study.sample_size import _first, sample_size

    sizes = (
        (10_000, 20_000, 40_000, 100_000)
        if bench.quick
        else (10_000, 20_000, 40_000, 100_000, 300_000, 1_000_000)
    )
    batch, noise, repeats = 256, 1.5, 3 if bench.quick else 10
    nets = {"simple (128)": [128], "complex (2048, 256, 64)": [2048, 256, 64]}
    rows: Pair = bench.images("mnist", "pca64")
    tables, words, charts = [], [], []
    for name, hidden in nets.items():
        net = {"name": "fcn", "inputs": 64, "hidden": hidden, "outputs": 10, "dropout": 0.0}
        rate = 0.5 if len(hidden) == 1 else 0.25
        setting = Setting(
            architecture=net, batch=batch, steps=1500, lr=rate, noise=noise, initial="glorot"
        )
        spent: dict[int, list[float]] = {}
        for size in sizes:
            trials = [
                Trial(curve=name, x=size, seed=seed, setting=setting) for seed in range(repeats)
            ]
            drawn = rows.validation if bench.priced_only else rows.validation.resampled(size, 0)
            outcomes = bench.sweep(trials, drawn, every=10, reach=0.85)
            steps = [_first(outcome, 0.85) for outcome in outcomes]
            spent[size] = [rdp(batch / size, step, noise) for step in steps if step]
        known = {n: values for n, values in spent.items() if values}
        tables.append(
            table(
                f"{name}: epsilon spent at 85% (batch {batch}, noise {noise:g}, rate {rate:g}), {repeats} repeats",
                ["rows", "epsilon", "repeats that got there"],
                [
                    [f"{n:,}", f"{np.mean(v):.4f} ± {np.std(v):.4f}" if v else "", len(v)]
                    for n, v in spent.items()
                ],
            )
        )
        if len(known) > 1:
            law = sample_size(known, available=60_000)
            words.append(
                f"{name}: epsilon = ln({law.alpha:.4g} + {law.beta:.5g} / rows), spread {law.alpha_spread:.2g} and "
                f"{law.beta_spread:.2g}, misfit {law.misfit:.3g} (paper, simple: 1.1 and 8922.4); {law.note}."
            )
            charts.append(
                chart(
                    f"figure6_{'simple' if len(hidden) == 1 else 'complex'}",
                    law.points,
                    x="rows",
                    y="epsilon",
                )
            )
    return {"tables": tables, "words": words, "charts": charts}


def clipping(bench: Bench) -> dict[str, Any]:
    """The paper's FCN on CIFAR-10: plain descent, clipping only, and noise."""
    setting = scheduled(bench, network("bao.fcn.cifar10.19914"), "cifar10", 2.33, 20)
    ways = {
        "SGD": plain(setting),
        "SGD with clipping": replace(setting, noise=0.0),
        "DP-SGD": setting,
    }
    rates = (0.1, 0.5, 2.0) if bench.quick else (0.02, 0.1, 0.5, 2.0, 8.0)
    trials = [
        Trial(curve=name, x=rate, seed=seed, setting=replace(way, lr=rate))
        for name, way in ways.items() for rate in rates for seed in bench.seeds
    ]  # fmt: skip
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
