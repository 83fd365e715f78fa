"""Runs of the tables and figures of Bao et al. about feature selection (docs/results/features.md).

The data are public benchmarks: test accuracies are looked at freely, and none of it is a release. Scores are mean and
spread in per cent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from privaware import accounting
from privaware.bench import Result, Settings
from privaware.events import Pure
from privaware.learners.objective_perturbation import fit_many
from privaware.noise import Rng
from privaware.selectors._genetic import Evolution
from privaware.selectors.cfs_ga import CfsGa, merits
from privaware.selectors.cfs_greedy import CfsGreedy, best_first
from privaware.selectors.pafs import Pafs
from privaware.selectors.top import Top
from privaware.selectors.worth import Worth
from research.papers._bao_columns import (
    NUMBERS,
    Columns,
    accuracies,
    adult,
    breast,
    correct,
    exact_uncertainties,
    first_columns,
    greedy_order,
    published_models,
    scored,
    split,
    summary,
    with_constant,
)
from research.papers._runner import Bench, best_seconds

NONE = 1e9
"""The budget that the paper takes for no privacy at all."""
TABLE10 = (0.01, 0.1, 0.5, 1, 1.5, 2, 5, 10, 20, 25, 30, 35, 40)
CROSSING = (10, 20, 22, 25, 27, 30, 40, 50, 60, 70, 80, 100, 150, 200, 400)


def facts(bench: Bench, settings: Settings) -> Result:
    """Columns, their greedy order, and for Breast Cancer what CFS-GA chooses."""
    table, bins = (breast(), 2) if settings["data"] == "breast_cancer" else (adult(), 8)
    order, merit = best_first(exact_uncertainties(table, bins))
    known = {"names": list(table.names), "rows": len(table.y), "constant": table.constant, "order": order}
    if settings["data"] == "breast_cancer":
        known["cfs_ga"] = [table.names[at] for at in np.flatnonzero(_genetic(table))]
    return {**known, "merit": merit}


def _genetic(table: Columns) -> np.ndarray:
    """What CFS-GA chooses on exact uncertainties."""
    width, uncertainties = len(table.names), exact_uncertainties(table)
    search = Evolution(population=5000, generations=10, keep=0.2, crossover=0.7, mutation=0.2, most=width)
    return search.search(width, lambda masks: merits(masks, uncertainties), np.random.default_rng(0))


def table10(bench: Bench, settings: Settings) -> Result:
    """Five ways to choose columns at one epsilon, the choice itself not charged."""
    epsilon, repeats, table, genetic = settings["epsilon"], settings["repeats"], breast(), _genetic(breast())
    width, size, rng = len(genetic), int(genetic.sum()), Rng(seed=round(1e4 * min(epsilon, 1e5)))
    random = np.array([rng.initial.permutation(width) < size for _ in range(repeats)])
    began = time.perf_counter()
    searches = [pafs_as_published(table, epsilon, rng) for _ in range(settings.get("searches", 3))]
    seconds = (time.perf_counter() - began) / len(searches)
    masks = {
        "All": np.ones((repeats, width), dtype=bool),
        "PAFS": np.array([searches[at % len(searches)] for at in range(repeats)]),
        "CFS-Greedy": np.broadcast_to(first_columns(greedy_order(table), size), (repeats, width)),
        "CFS-GA": np.broadcast_to(genetic, (repeats, width)),
        "Random": random,
    }
    scores = {name: summary(accuracies(table, mask, np.full(repeats, epsilon), rng)) for name, mask in masks.items()}
    return {**scores, "PAFS seconds": seconds, "PAFS sizes": [int(mask.sum()) for mask in searches]}


def pafs_as_published(table: Columns, epsilon: float, rng: Rng) -> np.ndarray:
    """Fitness is one private model's accuracy on the test rows: not private, kept to compare with."""
    known: dict[bytes, float] = {}

    def fitness(masks: np.ndarray) -> np.ndarray:
        keys = [line.tobytes() for line in np.packbits(masks, axis=1)]
        new = list({key: at for at, key in enumerate(keys) if key not in known}.values())
        if new:
            scores = accuracies(table, masks[new], np.full(len(new), epsilon), rng)
            known.update((keys[at], float(score)) for at, score in zip(new, scores, strict=True))
        return np.array([known[key] for key in keys])

    width = len(table.names)
    search = Evolution(population=600, generations=10, keep=0.2, crossover=0.7, mutation=0.2, most=width)
    return search.search(width, fitness, rng.initial)


def best_columns(bench: Bench, settings: Settings) -> Result:
    """Breast Cancer with the best columns by CFS-Greedy, at several epsilons (Figure 4 and the crossing)."""
    table = breast()
    mask = first_columns(greedy_order(table), settings["columns"])
    counts = {epsilon: 1 if epsilon == NONE else settings["repeats"] for epsilon in settings["epsilons"]}
    epsilons = np.repeat(list(counts), list(counts.values()))
    scores = accuracies(table, np.broadcast_to(mask, (len(epsilons), len(mask))), epsilons, Rng(seed=int(mask.sum())))
    return {f"{epsilon:g}": summary(scores[epsilons == epsilon]) for epsilon in counts}


def splits(bench: Bench, settings: Settings) -> Result:
    """Breast Cancer in another random split: mean accuracies of the models on four sets of columns."""
    seed, repeats, epsilons = settings["seed"], settings["repeats"], sorted({*TABLE10, *CROSSING})
    table, rng, size = split(breast(), seed), Rng(seed=seed), 9
    order = greedy_order(table)
    masks = {name: first_columns(order, n) for name, n in (("one", 1), ("CFS-Greedy", size), ("All", len(order)))}
    masks["Random"] = rng.initial.permutation(len(order)) < size
    each = np.repeat(np.array(epsilons, dtype=float), repeats)
    means: Result = {"constant": round(100 * table.constant, 2)}
    for name, mask in masks.items():
        scores = accuracies(table, np.broadcast_to(mask, (len(each), len(order))), each, rng)
        mean = scores.reshape(len(epsilons), repeats).mean(axis=1)
        means[name] = dict(zip(map("{:g}".format, epsilons), (100 * mean).round(2).tolist(), strict=True))
    return means


def splits_pafs(bench: Bench, settings: Settings) -> Result:
    """PAFS as published on another split."""
    epsilon, rng = settings["epsilon"], Rng(seed=1000 + settings["seed"])
    table = split(breast(), settings["seed"])
    mask = pafs_as_published(table, epsilon, rng)
    scores = accuracies(table, np.tile(mask, (200, 1)), np.full(200, epsilon), rng)
    return {"score": round(100 * float(scores.mean()), 2)}


SELECTORS: dict[str, tuple[Callable[[], Any] | None, int]] = {
    "all": (None, 200),
    "cfs_greedy": (lambda: CfsGreedy(bins=2), 200),
    "cfs_ga": (lambda: CfsGa(bins=2), 20),
    "top (3)": (lambda: Top(columns=3, bins=2), 200),
    "worth": (lambda: Worth(bins=2), 100),
    "pafs": (Pafs, 5),
    "pafs, drawn alike": (lambda: Pafs(models=300, adaptive=False), 20),
}
"""Each with the number of choices that are made."""


def charged(bench: Bench, settings: Settings) -> Result:
    """Half of the budget chooses, half trains; one row added or removed, the tight analysis."""
    epsilon, repeats, table = settings["epsilon"], settings["repeats"], breast()
    build, choices = SELECTORS[settings["selector"]]
    data, choices = table.data(), min(choices, repeats)
    masks = np.ones((repeats, len(table.names)), dtype=bool)
    began = time.perf_counter()
    if build is not None:
        selector = build()
        noise = accounting.calibrate(lambda z: selector.cost(data.schema, z), epsilon / 2, 1e-5)
        for at in range(choices):
            masks[at::choices] = np.isin(table.names, selector.run(data, noise, Rng(seed=at)))
    seconds = time.perf_counter() - began
    weights = fit_many(
        with_constant(table.x),
        table.y,
        masks=with_constant(masks).astype(bool),
        rng=Rng(seed=1),
        epsilons=np.full(repeats, epsilon if build is None else epsilon / 2),
        norm=table.norms(masks),
    )
    size = float(masks.sum(axis=1).mean())
    return {"score": summary(scored(table, weights)), "size": size, "choices": choices, "seconds": seconds}


def selection_prices(bench: Bench, settings: Settings) -> Result:
    """What choosing costs at the paper's settings: every model of PAFS at 0.1, and CFS at its printed 2.31."""
    schema = breast().data().schema
    independent = Pafs(models=2315, adaptive=False)
    events = {
        "2,315 models at 0.1, as the paper counts them": (2315 * Pure(epsilon=0.1), 1e-6),
        "6,000 models at 0.1, a number fixed in advance (`pafs`)": (Pafs().cost(schema, 10.0), 1e-6),
        "best of 2,315 on average, drawn alike (`pafs`, not adaptive)": (independent.cost(schema, 10.0), 1e-6),
        "1,936 entropies at 0.01, as the paper's CFS": (1936 * Pure(epsilon=0.01), 1e-5),
        "all pairs of columns counted once, noise 1.75 (`cfs_greedy`, `cfs_ga`)": (
            CfsGreedy(bins=2).cost(schema, 1.75),
            1e-5,
        ),
    }
    return {name: accounting.epsilon(event, delta) for name, (event, delta) in events.items()}


TIMED: dict[str, tuple[Callable[[], Any], float]] = {
    "cfs_greedy": (lambda: CfsGreedy(bins=2), 1.75),
    "cfs_ga, 5,000 x 10": (lambda: CfsGa(bins=2), 1.75),
    "top": (lambda: Top(bins=2), 1.75),
    "worth": (lambda: Worth(bins=2), 1.75),
    "pafs, 600 x 10": (Pafs, 10.0),
}
"""Selectors at the noise of about epsilon 2.31 (and 0.1 for each model of PAFS)."""
REPEATED = "1,000 repeats x 13 epsilons"


def seconds(bench: Bench, settings: Settings) -> Result:
    """The best of several runs of a selector, or of 13,000 models, on the 43 columns."""
    table = breast()
    data, everything = table.data(), np.ones((1000 * len(TABLE10), len(table.names)), dtype=bool)

    def work(seed: int) -> None:
        if settings["work"] == REPEATED:
            accuracies(table, everything, np.repeat(np.array(TABLE10, dtype=float), 1000), Rng(seed=seed))
        else:
            build, noise = TIMED[settings["work"]]
            build().run(data, noise, Rng(seed=seed))

    wall, processor = best_seconds(work, settings["repeats"])
    return {"wall": wall, "processor": processor, "load": round(os.getloadavg()[0], 2)}


def adult_pair(bench: Bench, settings: Settings) -> Result:
    """Few columns of Adult against all 108: Table XVI (those without one-hot) or the best six."""
    table = adult()
    few = _without_one_hot(table) if settings["few"] == "no one-hot" else first_columns(greedy_order(table, bins=8), 6)
    lines = [_adult_line(table, mask, settings) for mask in (few, np.ones(len(table.names), dtype=bool))]
    (few_scores, few_rows), (all_scores, all_rows) = lines
    gaps = {e: _gap(few_rows[e], all_rows[e]) for e in few_scores}
    return {"few": few_scores, "all": all_scores, "gap": gaps}


def adult_seven(bench: Bench, settings: Settings) -> Result:
    """Adult without one-hot and with a seventh column, which the paper does not name."""
    table = adult()
    seven = _without_one_hot(table) | np.array([name == settings["seventh"] for name in table.names])
    return _adult_line(table, seven, settings)[0]


def _without_one_hot(table: Columns) -> np.ndarray:
    """Five numbers and the sex: what is left when "fnlwgt" and the other categories are dropped."""
    return np.array([(name in NUMBERS and name != "fnlwgt") or name == "sex=Male" for name in table.names])


def figure3(bench: Bench, settings: Settings) -> Result:
    """Adult with the best columns by CFS-Greedy, at several epsilons."""
    table = adult()
    return _adult_line(table, first_columns(greedy_order(table, bins=8), settings["columns"]), settings)[0]


def _adult_line(
    table: Columns, mask: np.ndarray, settings: Settings
) -> tuple[dict[str, list[float]], dict[str, np.ndarray]]:
    """Scores at each epsilon, and how often each test row is classified correctly."""
    scores, rows = {}, {}
    for epsilon in settings["epsilons"]:
        repeats = 1 if epsilon == NONE else settings["repeats"]
        masks = np.broadcast_to(mask, (repeats, len(mask)))
        models = published_models(table, masks, np.full(repeats, epsilon), Rng(seed=round(1e4 * min(epsilon, 1e5))))
        hits = correct(table, models)
        scores[f"{epsilon:g}"], rows[f"{epsilon:g}"] = summary(hits.mean(axis=0)), hits.mean(axis=1)
    return scores, rows


def _gap(few: np.ndarray, many: np.ndarray) -> list[float]:
    """How much better few columns are, in points, and its standard error over test rows."""
    difference = 100 * (few - many)
    return [round(float(difference.mean()), 3), round(float(difference.std() / len(difference) ** 0.5), 3)]
