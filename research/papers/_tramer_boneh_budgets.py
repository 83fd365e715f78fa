"""Figures 1 and 2 of Tramer and Boneh: the best accuracy within each privacy budget, with settings chosen for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import groupby
from typing import Any

from privaware.bench import Result, Settings
from privaware.bench._store import Cell, Store, cell_key
from research.papers import Item, grid
from research.papers import _tramer_boneh_prices as prices
from research.papers._runner import Bench
from research.papers._tramer_boneh_runs import BATCHES, EPOCHS, KINDS, RATES, ROWS, TABLE13, noise_of, prepared
from research.papers._tramer_boneh_train import train

__all__ = ["BUDGETS", "budget_items", "within_budgets"]

BUDGETS = (1.0, 1.2, 1.5, 2.0, 2.32, 2.5, 2.7, 2.93, 3.0)
"""Classic epsilons; those of the paper's Table 1 are among them."""
FEW: dict[str, Any] = {"batches": (8192,), "epochs": (30, 60), "rates": (0.125, 0.25, 0.5), "seeds": 5}
"""A part of the grid for the CNN on scattering features of CIFAR-10."""


def budget_items(page: str) -> Iterator[Item]:
    """Yield one item for each head and data set; CNNs are tried on a part of the paper's grid."""
    for (data, head), chosen in TABLE13.items():
        if head == "small pixels":
            continue
        points: dict[str, Any] = {"batches": (1024, 4096), "epochs": EPOCHS[data], "rates": RATES[data], "seeds": 5}
        if head == "linear":
            points["batches"] = BATCHES
        elif data == "cifar10":
            points = FEW if head == "cnn" else {**FEW, "batches": (2048,), "rates": (0.25, 0.5, 1.0), "seeds": 3}
        kinds = KINDS if head == "linear" else (chosen.get("kind", "none"),)
        quick = {"batches": (100,), "epochs": (2,), "rates": (0.5, 1.0), "seeds": 1, "kinds": kinds[:1], "first": 600}
        yield Item(
            id=f"tramer_boneh/figure1/{head}/{data}",
            title=f"Figures 1 and 2: {head} on {data}, settings chosen for each budget",
            runs=[{**points, "kinds": kinds}],
            quick=[{**quick, "noise": 2.0}],
            measured=None,
            run=partial(within_budgets, data=data, head=head),
            note="" if head == "linear" else "a part of the paper's grid of settings",
            page=page,
        )


def within_budgets(bench: Bench, settings: Settings, *, data: str, head: str) -> Result:
    """Choose a point of the grid and an epoch for each budget with seed 0, and score them with further seeds.

    As in the paper, test accuracy chooses, and the search is not charged. The further seeds are not seen by the choice.
    Finished trainings are kept in a file of the folder of the bench until the cell is finished.
    """
    extra = {name: settings[name] for name in ("first", "noise") if name in settings}
    axes = {"batch": settings["batches"], "epochs": settings["epochs"], "kind": settings["kinds"]}
    points: list[Settings] = [{**point, **extra} for point in grid(**axes, base_lr=settings["rates"])]
    if bench.dry:
        return {}
    last = {budget: [_last_epoch(bench, data, point, budget) for point in points] for budget in BUDGETS}
    curves = [curve for _, group in groupby(points, key=_recipe) for curve in _curves(bench, data, head, list(group))]
    best: dict[float, tuple[float, int, int]] = {}
    for budget, allowed in last.items():
        found = [
            (score, at, int(epoch)) for at, curve in enumerate(curves) for epoch, score in curve if epoch <= allowed[at]
        ]
        if found:
            best[budget] = max(found)
    ends: dict[int, int] = {}
    for _, at, epoch in best.values():
        ends[at] = max(epoch, ends.get(at, 0))
    again = {
        (at, seed): _curves(bench, data, head, [{**points[at], "seed": seed}], end)[0]
        for at, end in ends.items()
        for seed in range(1, settings["seeds"] + 1)
    }
    budgets = {}
    for budget, (score, at, epoch) in best.items():
        scores = [again[at, seed][epoch - 1][1] for seed in range(1, settings["seeds"] + 1)]
        budgets[f"{budget:g}"] = {"point": points[at], "epoch": epoch, "first": score, "scores": scores}
    if bench.out is not None:
        _kept(bench, data, head).path.unlink(missing_ok=True)
    return {"budgets": budgets, "points": len(points)}


def _recipe(point: Settings) -> list[tuple[str, Any]]:
    """Return what the models of one population share."""
    return sorted((name, value) for name, value in point.items() if name != "base_lr")


def _curves(bench: Bench, data: str, head: str, points: list[Settings], end: int = 0) -> list[list[list[float]]]:
    """Return epochs and scores of trainings that differ in the learning rate, up to epoch `end` if it is given.

    Trainings that an interrupted run has finished are read from its folder.
    """
    if bench.out is None:
        return _trained_curves(bench, data, head, points, end)
    store, item = _kept(bench, data, head), f"tramer_boneh/figure1/{head}/{data}"
    keyed = [{**point, "end": end} for point in points]
    finished = store.read()
    if not all(cell_key(item, settings) in finished for settings in keyed):
        for settings, curve in zip(keyed, _trained_curves(bench, data, head, points, end), strict=True):
            cell = Cell(item=item, settings=settings, result={"curve": curve})
            store.add(cell)
            finished[cell.key] = cell
    return [finished[cell_key(item, settings)].result["curve"] for settings in keyed]


def _kept(bench: Bench, data: str, head: str) -> Store:
    """Return the file of the trainings that an unfinished cell has finished."""
    assert bench.out is not None
    return Store(bench.out / f"figure1-{head}-{data}.jsonl")


def _trained_curves(bench: Bench, data: str, head: str, points: list[Settings], end: int) -> list[list[list[float]]]:
    """Train a population whose models differ in the learning rate, and return epochs and scores of each."""
    population = [prepared(bench, data, head, {**point, "every": 1}) for point in points]
    batch, rows = points[0]["batch"], points[0].get("first", ROWS[data])
    if end:
        population = [replace(setting, steps=end * max(1, rows // batch)) for setting in population]
    return [result["curve"] for result in train(population, bench.device)]


def _last_epoch(bench: Bench, data: str, point: Settings, budget: float) -> int:
    """Return the last epoch whose classic epsilon is within the budget; 0 if there is none."""
    if "noise" in point:
        return int(point["epochs"])
    how, _, amount = point["kind"].partition(" ")
    norm = int(amount) if how == "private" else 0
    return _epochs_within(budget, noise_of(bench, data, point), ROWS[data], point["batch"], point["epochs"], norm)


@cache
def _epochs_within(budget: float, noise: float, rows: int, batch: int, epochs: int, norm: int) -> int:
    low, high = 0, epochs + 1
    while high - low > 1:
        middle = (low + high) // 2
        spent = prices.classic(noise, rate=batch / rows, steps=middle * (rows // batch), norm=norm)
        low, high = (middle, high) if spent <= budget else (low, middle)
    return low
