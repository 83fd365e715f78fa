"""Runs of the tables of Bao et al., and of their Appendix E. Each gives tables, charts and remarks of a section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privaware import models
from privaware.bench import Result, Settings
from research.papers._bao_settings import CNN_EPSILON, CNNS, FCN_EPSILON, FCNS, INPUTS, PARTS, all_but, scheduled, shown
from research.papers._results import Repeats, table
from research.papers._runner import Bench
from research.papers._training import by_place, chart, grid_table, images, network, percent, sweep_options, tuned
from research.studies import Setting
from research.studies.clipping_only import clipping_only

__all__ = ["clipping", "compare", "table1"]


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


def compare(
    bench: Bench,
    settings: Settings,
    *,
    title: str,
    head: Sequence[str],
    rows: Sequence[Settings],
    rates: Sequence[float],
    plain_rates: Sequence[float] = (),
) -> Result:
    """Networks on MNIST: each row at its epsilon and, where `plain_rates` are given, without noise too.

    A row has `labels`, the `network`, the `form` of its inputs, `epsilon` and what layers are `frozen`.
    """
    ways = ((True, rates), (False, plain_rates))[: 2 if plain_rates else 1]

    def place(row: Settings, private: bool) -> tuple[str, float]:
        return (", ".join(row["labels"]), row["epsilon"]) if private else (row["network"], 0.0)

    def setting(row: Settings, private: bool) -> Setting:
        net, epochs = network(f"bao.{row['network']}"), settings[row.get("epochs", "epochs")]
        chosen = scheduled(bench, net, "mnist", row["epsilon"] if private else None, epochs)
        return replace(chosen, trainable=all_but(net, *row["frozen"]) if "frozen" in row else None)

    scores: dict[tuple[str, str, float], Repeats] = {}
    for form in dict.fromkeys(row["form"] for row in rows):
        chosen, examples = [row for row in rows if row["form"] == form], images(bench, "mnist", form)
        for private, tried in ways:
            nets = {place(row, private): setting(row, private) for row in chosen}
            measured, _ = tuned(bench, examples, nets, tried, settings["seeds"])
            scores |= {(form, p.curve, p.x): percent(p) for p in measured}
    lines = [[*row["labels"], *(scores[row["form"], *place(row, private)] for private, _ in ways)] for row in rows]
    return {"tables": [table(title.format(**settings), head, lines)]}


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
