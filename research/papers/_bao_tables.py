"""Runs of the tables of Bao et al., and of their Appendix E. Each gives tables, charts and remarks of a section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from privaware import models
from privaware.bench import Result, Settings
from privaware.workflow._curves import Point
from research.papers._bao_settings import CNN_EPSILON, CNNS, FCN_EPSILON, FCNS, all_but, scheduled
from research.papers._results import Repeats, table
from research.papers._runner import Bench
from research.papers._training import (
    chart,
    grid_table,
    images,
    network,
    percent,
    sweep_options,
    tested,
    tuned,
    validated,
)
from research.studies import Setting
from research.studies.clipping_only import clipping_only

__all__ = ["clipping", "compare", "table1"]


def table1(bench: Bench, settings: Settings) -> Result:
    """One data set of Table I: the standard and the privacy-aware network, with and without noise.

    Each network has the recipe (form of the inputs, schedule, learning rate) that is best on validation rows.
    """
    kind, data, seeds = (settings[name] for name in ("network", "data", "seeds"))
    dense = kind == "FCN"
    epsilon = (FCN_EPSILON if dense else CNN_EPSILON)[data]
    names = dict(zip(("STW", "PAW"), (FCNS if dense else CNNS)[data]))
    private, chosen = _by_recipe(bench, settings, names, epsilon)
    without, plainly = _by_recipe(bench, settings, names, None)
    lines = [
        [
            name,
            f"{models.count(network(full)):,}",
            percent(private[name]),
            percent(without[name]),
            f"{100 * max(private[name].scores):.2f}",
        ]
        for name, full in names.items()
    ]
    gaps = np.array(private["PAW"].scores) - np.array(private["STW"].scores)
    head = ["workflow", "parameters", "DP-SGD", "SGD", "best DP-SGD run"]
    return {
        "tables": [table(f"{kind} on {data} at epsilon {epsilon:g}", head, lines)],
        "words": [
            "The published numbers are the best of three runs or more, picked by test accuracy. Ours are means over "
            f"{seeds} seeds, with the best of them beside. Gap with noise, PAW over STW: "
            f"{100 * gaps.mean():.2f} ± {100 * gaps.std(ddof=1) if len(gaps) > 1 else 0:.2f} points.",
            f"Chosen on validation rows; recipes tried: {len(settings['recipes'])}. With noise: {'; '.join(chosen)}. "
            f"Without noise: {'; '.join(plainly)}.",
        ],
    }


def _by_recipe(
    bench: Bench, settings: Settings, names: Mapping[str, str], epsilon: float | None
) -> tuple[dict[str, Point], list[str]]:
    """Return the test scores of each network with its best recipe, and these recipes in words."""
    data, x = settings["data"], epsilon or 0.0
    best: dict[str, tuple[float, Settings, Setting]] = {}
    for recipe in settings["recipes"]:
        nets = {
            (name, x): replace(
                scheduled(bench, network(full), data, epsilon, recipe["epochs"], recipe["parts"]),
                momentum=recipe["momentum"],
            )
            for name, full in names.items()
        }
        rates = recipe["plain_rates" if epsilon is None else "rates"]
        for (name, _), scores in validated(bench, images(bench, data, recipe["form"]), nets, rates).items():
            rate, score = max(scores.items(), key=lambda pair: pair[1])
            if name not in best or score > best[name][0]:
                best[name] = score, recipe, replace(nets[name, x], lr=rate)
    measured, words = {}, []
    for name, (_, recipe, setting) in best.items():
        rows = images(bench, data, recipe["form"])
        [measured[name]] = tested(bench, rows, {(name, x): setting}, settings["seeds"])
        words.append(
            f"{name} {recipe['form']}, {recipe['epochs']} epochs in samples of 1/{recipe['parts']}, "
            f"momentum {recipe['momentum']:g}, rate {setting.lr:g}, noise {setting.noise:.4g}"
        )
    return measured, words


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
