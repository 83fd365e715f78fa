"""Tables and plots of Breast Cancer on docs/results/features.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privaware.papers import find
from privaware.papers._crossing_plots import crossing, interval, last_win, plot_by_columns, plot_by_epsilon
from privaware.papers._page import Page, markdown

__all__ = ["NONE", "BreastView", "Score", "best_sizes", "shown", "spread"]

NONE = 1e9
METHODS = ("All", "PAFS", "CFS-Greedy", "CFS-GA", "Random")
PUBLISHED10: dict[float, tuple[float, ...]] = {
    json.loads(epsilon): tuple(row.values()) for epsilon, row in find("bao/table10").published.items()
}
Score = Sequence[float]
"""Mean and spread, in per cent."""


def shown(score: Score) -> str:
    return f"{score[0]:.2f} ± {score[1]:.2f}"


def spread(values: Sequence[float], ddof: int = 0) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=ddof):.2f}"


def listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


class BreastView:
    """The cells of the page as tables, plots and numbers inside sentences: Breast Cancer."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.breast = page.cell("bao/columns", data="breast_cancer").result
        self._table10 = {c.settings["epsilon"]: c.result for c in page.cells("bao/table10")}
        self._splits = [c.result for c in page.cells("bao/table10/splits")]

    def table10(self) -> str:
        rows = []
        for epsilon, published in PUBLISHED10.items():
            row = self._table10[epsilon]
            values = [f"{shown(row[name])} ({value:.2f})" for name, value in zip(METHODS, published)]
            rows.append([f"{epsilon:g}", *values, ", ".join(map(str, row["PAFS sizes"]))])
        rows.append(["none", *(shown(self._table10[NONE][name]) for name in METHODS), ""])
        curves = {name: {e: self._table10[e][name] for e in PUBLISHED10} for name in METHODS}
        chart = plot_by_epsilon(curves, 100 * self.breast["constant"])
        plot = self._page.plot("table10", "Table X: accuracy against epsilon", chart)
        return markdown(["epsilon", *METHODS, "PAFS sizes"], rows) + f"\n\n{plot}"

    def _over_splits(self, name: str, epsilon: float) -> list[float]:
        if name == "PAFS":
            cells = self._page.cells("bao/table10/splits_pafs")
            return [c.result["score"] for c in cells if c.settings["epsilon"] == epsilon]
        return [row[name][f"{epsilon:g}"] for row in self._splits]

    def splits_constant(self) -> str:
        return spread([row["constant"] for row in self._splits])

    def splits(self) -> str:
        """Means over other splits of the rows, with the spread from split to split."""
        rows = []
        for epsilon, published in PUBLISHED10.items():
            values = []
            for name in ("All", "PAFS", "CFS-Greedy", "Random"):
                value = published[METHODS.index(name)]
                values.append(f"{spread(self._over_splits(name, epsilon))} ({value:.2f})")
            rows.append([f"{epsilon:g}", *values, spread(self._over_splits("one", epsilon))])
        return markdown(["epsilon", "All", "PAFS", "CFS-Greedy", "Random", "best column"], rows)

    def claims10(self) -> dict[str, Any]:
        """The numbers behind what the paper claims of Table X."""
        rows = {epsilon: self._table10[epsilon] for epsilon in PUBLISHED10}
        best = {epsilon: max(METHODS, key=lambda name: row[name][0]) for epsilon, row in rows.items()}
        gaps = {epsilon: row["PAFS"][0] - row["All"][0] for epsilon, row in rows.items()}
        widest = max(gaps, key=lambda epsilon: gaps[epsilon])
        constant, everyone = 100 * self.breast["constant"], 100 * 201 / 286
        means = {
            e: {n: float(np.mean(self._over_splits(n, e))) for n in ("All", "PAFS", "CFS-Greedy", "Random")}
            for e in rows
        }
        most = max(rows, key=lambda e: means[e]["PAFS"] - means[e]["All"])
        return {
            "fails": ", ".join(f"{e:g} ({best[e]})" for e in rows if e >= 2 and best[e] != "PAFS"),
            "wins": listed([e for e in rows if best[e] == "PAFS"]),
            "gap": gaps[widest],
            "gap_at": widest,
            "everyone": everyone,
            "theirs": sum(value < everyone for values in PUBLISHED10.values() for value in values),
            "ours": sum(row[name][0] < constant for row in rows.values() for name in METHODS),
            "cells": len(METHODS) * len(rows),
            "constant": constant,
            "random": listed([epsilon for epsilon, row in rows.items() if row["Random"][0] > row["All"][0]]),
            "split_wins": listed([e for e in rows if max(means[e], key=lambda n: means[e][n]) == "PAFS"]),
            "split_gap": means[most]["PAFS"] - means[most]["All"],
            "split_gap_at": most,
        }

    def figure4(self) -> str:
        by = self._by_columns("bao/figure4")
        cells = self._page.cells("bao/figure4")
        points = [(c.settings["columns"], e, score) for c in cells for e, score in c.result.items()]
        chart = plot_by_columns(points, 100 * self.breast["constant"])
        plot = self._page.plot("figure4", "Accuracy against number of columns", chart)
        head = ["epsilon", "best size", "accuracy there", "one column", "eleven columns", "all columns"]
        return f"{plot}\n\n{markdown(head, best_sizes(by, (1, 11, 43)))}"

    def greedy(self, count: int) -> str:
        return ", ".join(self.breast["names"][at] for at in self.breast["order"][:count])

    def _by_columns(self, item: str) -> dict[str, dict[int, Score]]:
        by: dict[str, dict[int, Score]] = {}
        for cell in self._page.cells(item):
            for epsilon, score in cell.result.items():
                by.setdefault(epsilon, {})[cell.settings["columns"]] = score
        return by

    def _pairs4(self) -> dict[float, dict[int, Score]]:
        by = self._by_columns("bao/figure4/crossing")
        return {float(e): by[e] for e in sorted(by, key=float)}

    def crossing4(self) -> str:
        pairs = self._pairs4()
        curves = {name: {e: pairs[e][size] for e in pairs} for name, size in (("best column", 1), ("all 43", 43))}
        chart = plot_by_epsilon(curves, 100 * self.breast["constant"])
        plot = self._page.plot("crossing4", "One column and all of them", chart)
        rows = [[f"{e:g}", shown(pair[1]), shown(pair[43])] for e, pair in pairs.items()]
        return f"{plot}\n\n{markdown(['epsilon', 'one column', 'all columns'], rows)}"

    def crossing4_at(self) -> str:
        repeats = self._page.cells("bao/figure4/crossing")[0].settings["repeats"]
        gaps = {
            e: (pair[1][0] - pair[43][0], float(np.hypot(pair[1][1], pair[43][1])) / repeats**0.5)
            for e, pair in self._pairs4().items()
        }
        place = crossing(gaps)
        return f"{place[0]:.3g} (99.9 % interval for the repeats alone: {interval(place)})"

    def crossing_over_splits(self) -> dict[str, Any]:
        """Where all columns overtake the best one in each of the other splits."""
        rows = self._splits
        epsilons = [e for e in rows[0]["All"] if float(e) >= 0.5]
        gaps = np.array([[row["one"][e] - row["All"][e] for e in epsilons] for row in rows])
        log_epsilons = np.log([float(e) for e in epsilons])
        each = [last_win(log_epsilons, line) for line in gaps]
        error = gaps.std(axis=0) / len(rows) ** 0.5
        mean = crossing({float(e): (gap, err) for e, gap, err in zip(epsilons, gaps.mean(axis=0), error)}, 0.95)
        low, middle, high = np.quantile(each, [0.1, 0.5, 0.9], method="nearest")
        return {
            "count": len(rows),
            "mean": f"{mean[0]:.3g} (95 % interval {interval(mean)})",
            "median": f"{middle:.3g}",
            "tenth": f"{low:.3g}",
            "ninth": "more than 400" if np.isinf(high) else f"{high:.3g} or more",
            "always": sum(map(np.isinf, each)),
            "within": sum(60 <= place <= 70 for place in each),
        }

    def prices(self) -> str:
        [cell] = self._page.cells("bao/table10/prices")
        return markdown(["choice", "epsilon"], [[name, f"{value:.3g}"] for name, value in cell.result.items()])

    def charged(self) -> str:
        cells = sorted(self._page.cells("bao/table10/charged"), key=lambda c: c.settings["epsilon"])
        rows = [
            [
                f"{c.settings['epsilon']:g}",
                c.settings["selector"],
                shown(c.result["score"]),
                f"{c.result['size']:.1f}",
                c.result["choices"],
                f"{c.result['seconds'] / c.result['choices']:.2f}",
            ]
            for c in cells
        ]
        return markdown(["epsilon", "selector", "accuracy", "mean size", "choices made", "seconds a choice"], rows)


def best_sizes(by: Mapping[str, Mapping[int, Score]], places: tuple[int, ...]) -> list[list[str]]:
    """For each epsilon the best number of columns, its accuracy and those at some other numbers."""
    rows = []
    for epsilon in sorted(by, key=float):
        line = by[epsilon]
        top = max(line, key=lambda size: line[size][0])
        name = "none (1e9)" if float(epsilon) >= NONE else epsilon
        rows.append([name, str(top), *(shown(line[size]) for size in (top, *places))])
    return rows
