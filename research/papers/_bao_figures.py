"""Runs of the figures of Bao et al. Each gives tables, charts and remarks of a section."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from privaware.bench import Result, Settings
from privaware.workflow._crossing import crossing
from research.papers._bao_settings import CNN_EPSILON, CNNS, COARSE, FCN_EPSILON, FCNS, INPUTS, last_two, shown
from research.papers._bao_settings import scheduled as schedule
from research.papers._prices import rdp_epsilon
from research.papers._results import Repeats, table
from research.papers._runner import Bench
from research.papers._training import (
    by_place,
    chart,
    grid_table,
    images,
    network,
    percent,
    scores_of,
    sweep_options,
    swept,
    tuned,
)
from research.studies import Setting
from research.studies._trials import Trial
from research.studies.rate_sensitivity import rate_sensitivity
from research.studies.sample_size import first_step, sample_size
from research.studies.width_depth import width_depth

__all__ = ["figure6", "figure7", "figure8", "figure9", "figure10", "sizes"]


def figure7(bench: Bench, settings: Settings, *, data: str) -> Result:
    """STW and PAW FCNs over eight orders of epsilon, the rate chosen anew at each."""
    epsilons, epochs, parts, rates = (settings[name] for name in ("epsilons", "epochs", "parts", "rates"))
    noisy = {
        (name, epsilon): schedule(bench, network(full), data, epsilon, epochs, parts)
        for name, full in zip(("STW", "PAW"), FCNS[data])
        for epsilon in epsilons
    }
    measured, best = tuned(bench, images(bench, data, INPUTS[data]), noisy, rates, settings["seeds"])
    crossed = crossing(epsilons, scores_of(measured, "PAW"), scores_of(measured, "STW"))
    ends = sum(rate in (min(rates), max(rates)) for rate in best.values())
    return {
        "tables": [grid_table(f"{data}: {epochs} epochs in samples of 1/{parts}", measured)],
        "charts": [chart(f"figure7_{data}", measured)],
        "words": [
            f"{crossed.sentence} The paper reports about 1e4.",
            f"Rates, of {tuple(rates)}: {shown(best)}; {ends} of {len(best)} at an end of what was tried.",
        ],
        "values": {"crossover": crossed.estimate},
    }


def figure8(bench: Bench, settings: Settings) -> Result:
    """Logistic regression, FCN and CNN on MNIST from 0.01 to 2."""
    epsilons, seeds = settings["epsilons"], settings["seeds"]
    nets: dict[str, tuple[str, dict[str, Any]]] = {
        "logistic regression": ("scaled", {"name": "linear", "inputs": 784, "outputs": 10}),
        "FCN": ("pca64", network("bao.fcn.mnist.9610")),
        "CNN": ("image", network("bao.cnn.mnist.56970")),
    }
    measured: list[Any] = []
    best: dict[str, float] = {}
    rates = settings["rates"]
    for name in settings["models"]:
        form, net = nets[name]
        noisy = {(name, e): schedule(bench, net, "mnist", e, settings["epochs"], 30) for e in epsilons}
        scored, chosen = tuned(bench, images(bench, "mnist", form), noisy, rates, seeds)
        measured, best = [*measured, *scored], best | chosen
    ends = sum(rate in (min(rates), max(rates)) for rate in best.values())
    words, values = [], {}
    for name in settings["models"][1:]:
        crossed = crossing(epsilons, scores_of(measured, "logistic regression"), scores_of(measured, name))
        paper = " The paper reports 0.25 to 0.5." if name == "CNN" else ""
        words.append(f"Logistic regression and {name}: {crossed.sentence[:1].lower()}{crossed.sentence[1:]}{paper}")
        values[name] = crossed.estimate
    words.append(f"Rates, of {tuple(rates)}: {shown(best)}; {ends} of {len(best)} at an end of what was tried.")
    return {
        "tables": [grid_table(f"MNIST, {settings['epochs']} epochs in samples of 1/30", measured)],
        "charts": [chart("figure8", measured)],
        "words": words,
        "values": values,
    }


def figure10(bench: Bench, settings: Settings) -> Result:
    """Where full training overtakes the last two layers: FCN and CNN on MNIST."""
    epsilons = settings["epsilons"]
    cases = {"FCN": ("bao.fcn.mnist.1362122", "flat", 1.4), "CNN": ("bao.cnn.mnist.122442", "image", 0.6)}
    section: Result = {"tables": [], "charts": [], "words": [], "values": {}}
    for kind, epochs in settings["epochs"].items():
        name, form, paper = cases[kind]
        noisy = {
            (way, e): replace(schedule(bench, network(name), "mnist", e, epochs, 30), trainable=trained)
            for way, trained in (("all layers", None), ("last two layers", last_two(network(name))))
            for e in epsilons
        }
        measured, _ = tuned(bench, images(bench, "mnist", form), noisy, COARSE, settings["seeds"])
        crossed = crossing(epsilons, scores_of(measured, "last two layers"), scores_of(measured, "all layers"))
        section["tables"].append(grid_table(f"{kind}, {epochs} epochs in samples of 1/30", measured))
        section["charts"].append(chart(f"figure10_{kind.lower()}", measured))
        section["words"].append(
            f"{kind}: {crossed.sentence[:1].lower()}{crossed.sentence[1:]} The paper reports about {paper}."
        )
        section["values"][kind] = crossed.estimate
    return section


def figure9(bench: Bench, settings: Settings) -> Result:
    """STW and PAW CNNs on SVHN at shared and at their own rates, with the same epsilon."""
    epochs, epsilon = settings["epochs"], CNN_EPSILON["svhn"]
    nets = {
        name: schedule(bench, network(full), "svhn", epsilon, epochs)
        for name, full in zip(("STW", "PAW"), CNNS["svhn"])
    }
    if bench.dry:
        return {}
    rows = images(bench, "svhn", "image").test
    study = rate_sensitivity(rows, nets, settings["rates"], repeats=settings["seeds"], **sweep_options(bench))
    known = by_place(study.points)
    winners = ", ".join(f"{winner} at {rate:g}" for rate, winner in study.winners.items())
    best = ", ".join(f"{n} {percent(known[n, r])} at {r:g}" for n, r in study.best.items())
    return {
        "tables": [grid_table(f"SVHN in grey at epsilon {epsilon:g}, {epochs} epochs", study.points, "learning rate")],
        "charts": [chart("figure9", study.points, x="learning rate")],
        "words": [
            f"Winner at each shared rate: {winners}.",
            f"At its own best rate: {best}.",
            "Rates are not comparable with the paper's: its batch is 100, ours 700 with a mean gradient.",
        ],
    }


def sizes(bench: Bench, settings: Settings) -> Result:
    """Figures 1 and 12: accuracy by parameters, wider and deeper, with and without noise."""
    data, epochs = settings["data"], settings["epochs"]
    epsilon = FCN_EPSILON[data]
    setting = schedule(bench, {}, data, epsilon, epochs)
    if bench.dry:
        return {}
    study = width_depth(
        images(bench, data, INPUTS[data]).test,
        setting,
        widths=settings["widths"],
        depths=settings["depths"],
        plain_lr=0.2,
        repeats=settings["seeds"],
        **sweep_options(bench),
    )
    title = f"{data} at epsilon {epsilon:g}, {epochs} epochs, rate 1 (0.2 without noise)"
    return {
        "tables": [grid_table(title, study.points, "parameters")],
        "charts": [chart(settings["figure"], study.points, x="parameters")],
    }


def figure6(bench: Bench, settings: Settings) -> Result:
    """The sample-size law: epsilon spent when 85% of validation rows are right, rows drawn with replacement."""
    batch, noise, repeats = 256, 1.5, settings["seeds"]
    nets = {"simple (128)": ([128], 0.5), "complex (2048, 256, 64)": ([2048, 256, 64], 0.25)}
    rows = images(bench, "mnist", "pca64").validation
    section: Result = {"tables": [], "charts": [], "words": []}
    for name in settings["models"]:
        hidden, rate = nets[name]
        net = {"name": "fcn", "inputs": 64, "hidden": hidden, "outputs": 10, "dropout": 0.0}
        setting = Setting(architecture=net, batch=batch, steps=1500, lr=rate, noise=noise, initial="glorot")
        spent: dict[int, list[float]] = {}
        for size in settings["sizes"]:
            trials = [Trial(curve=name, x=size, seed=seed, setting=setting) for seed in range(repeats)]
            resampled = rows if bench.dry else rows.resampled(size, 0)
            outcomes = swept(bench, trials, resampled, every=10, reach=0.85)
            steps = [first_step(outcome, 0.85) for outcome in outcomes]
            spent[size] = [rdp_epsilon(batch / size, step, noise) for step in steps if step]
        title = f"{name}: epsilon spent at 85% (batch {batch}, noise {noise:g}, rate {rate:g}), {repeats} repeats"
        lines = [[f"{n:,}", Repeats(scores=v, factor=1.0, digits=4) if v else "", len(v)] for n, v in spent.items()]
        section["tables"].append(table(title, ["rows", "epsilon", "repeats that got there"], lines))
        known = {n: values for n, values in spent.items() if values}
        if len(known) > 1:
            fit = sample_size(known, available=60_000)
            section["words"].append(
                f"{name}: epsilon = ln({fit.alpha:.4g} + {fit.beta:.5g} / rows), spread {fit.alpha_spread:.2g} and "
                f"{fit.beta_spread:.2g}, misfit {fit.misfit:.3g} (paper, simple: 1.1 and 8922.4); {fit.note}."
            )
            section["charts"].append(chart(f"figure6_{name.split()[0]}", fit.points, x="rows", y="epsilon"))
    return section
