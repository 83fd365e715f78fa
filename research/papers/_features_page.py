"""What the template of docs/results/features.md computes: curves, crossings and the numbers inside its sentences."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from research.papers import find
from research.papers._bao_features_descent import published_softmax
from research.papers._crossing_plots import Curves, crossing, interval, last_win, plot_by_columns, plot_by_epsilon
from research.papers._page import Page
from research.papers._published import tables

__all__ = ["functions"]

NONE = 1e9
"""The epsilon that stands for no privacy."""
METHODS = ("All", "PAFS", "CFS-Greedy", "CFS-GA", "Random")
PUBLISHED10: dict[float, tuple[float, ...]] = {
    json.loads(epsilon): tuple(row.values()) for epsilon, row in find("bao/table10").published.items()
}
Score = Sequence[float]
"""Mean and spread, in per cent."""


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    view = View(page)
    return {name: getattr(view, name) for name in dir(view) if not name.startswith("_")}


def listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


class View:
    """The cells of the page as its template takes them."""

    NONE, methods, published10 = NONE, METHODS, PUBLISHED10
    published5 = tables("bao")["table5"]
    published16 = {float(epsilon): pairs for epsilon, pairs in tables("bao")["table16"].items()}
    published_softmax = {data: published_softmax(data) for data in ("breast", "adult")}

    def __init__(self, page: Page) -> None:
        self._page = page
        self.breast, self.adult = (page.cell("bao/columns", data=data).result for data in ("breast_cancer", "adult"))
        self.table10 = {c.settings["epsilon"]: c.result for c in page.cells("bao/table10")}
        self.curves10 = {name: {e: self.table10[e][name] for e in PUBLISHED10} for name in METHODS}
        self.splits = [c.result for c in page.cells("bao/table10/splits")]
        self.table16, self.six = self._few_and_all("bao/table16"), self._few_and_all("bao/figure3/six")
        self.seven = {
            c.settings["seventh"]: {float(e): score for e, score in c.result.items()}
            for c in page.cells("bao/table16/seven")
        }
        self.figure3, self.figure4, crossing4 = map(
            self._by_columns, ("bao/figure3", "bao/figure4", "bao/figure4/crossing")
        )
        self.crossing4 = {float(e): crossing4[e] for e in sorted(crossing4, key=float)}
        self.prices5 = page.cells("bao/table5/prices")[0].result

    @staticmethod
    def shown(score: Score) -> str:
        return f"{score[0]:.2f} ± {score[1]:.2f}"

    @staticmethod
    def spread(values: Sequence[float], ddof: int = 0) -> str:
        return f"{np.mean(values):.2f} ± {np.std(values, ddof=ddof):.2f}"

    @staticmethod
    def rising(by: Mapping[str, Any]) -> list[str]:
        return sorted(by, key=float)

    @staticmethod
    def only(pairs: Mapping[float, Mapping[int, Score]], size: int) -> dict[float, Score]:
        """The curve of one number of columns."""
        return {epsilon: line[size] for epsilon, line in pairs.items()}

    @staticmethod
    def best_size(line: Mapping[int, Score]) -> int:
        return max(sorted(line), key=lambda size: line[size][0])

    def _by_columns(self, item: str) -> dict[str, dict[int, Score]]:
        by: dict[str, dict[int, Score]] = {}
        for cell in self._page.cells(item):
            for epsilon, score in cell.result.items():
                by.setdefault(epsilon, {})[cell.settings["columns"]] = score
        return by

    def _few_and_all(self, item: str) -> list[dict[float, Score]]:
        result = self._page.cells(item)[0].result
        return [{float(e): score for e, score in result[name].items()} for name in ("few", "all")]

    def plot(self, name: str, title: str, curves: Curves, constant: float) -> str:
        """Accuracy against epsilon, one line a set of columns."""
        return self._page.plot(name, title, plot_by_epsilon(curves, 100 * constant))

    def plot_sizes(self, name: str, by: Mapping[str, Mapping[int, Score]], constant: float, first: list[int]) -> str:
        """Accuracy against the number of columns; `first` are drawn before the others."""
        sizes = sorted(by["1"], key=lambda size: (size not in first, size))
        order = [(size, e) for e in by for size in sizes] if first else [(size, e) for size in sizes for e in by]
        chart = plot_by_columns([(size, e, by[e][size]) for size, e in order], 100 * constant)
        return self._page.plot(name, "Accuracy against number of columns", chart)

    def over_splits(self, name: str, epsilon: float) -> list[float]:
        """Accuracies over other splits of the rows."""
        if name == "PAFS":
            cells = self._page.cells("bao/table10/splits_pafs")
            return [c.result["score"] for c in cells if c.settings["epsilon"] == epsilon]
        return [row[name][f"{epsilon:g}"] for row in self.splits]

    def claims10(self) -> dict[str, Any]:
        """The numbers behind what the paper claims of Table X."""
        rows = {epsilon: self.table10[epsilon] for epsilon in PUBLISHED10}
        best = {epsilon: max(METHODS, key=lambda name: row[name][0]) for epsilon, row in rows.items()}
        gaps = {epsilon: row["PAFS"][0] - row["All"][0] for epsilon, row in rows.items()}
        widest = max(gaps, key=lambda epsilon: gaps[epsilon])
        constant, everyone = 100 * self.breast["constant"], 100 * 201 / 286
        means = {
            e: {n: float(np.mean(self.over_splits(n, e))) for n in ("All", "PAFS", "CFS-Greedy", "Random")}
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

    def crossing4_at(self) -> str:
        repeats = self._page.cells("bao/figure4/crossing")[0].settings["repeats"]
        gaps = {
            e: (pair[1][0] - pair[43][0], float(np.hypot(pair[1][1], pair[43][1])) / repeats**0.5)
            for e, pair in self.crossing4.items()
        }
        place = crossing(gaps)
        return f"{place[0]:.3g} (99.9 % interval for the repeats alone: {interval(place)})"

    def crossing_over_splits(self) -> dict[str, Any]:
        """Where all columns overtake the best one in each of the other splits."""
        rows = self.splits
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

    def adult_crossing(self, item: str) -> str:
        """Where all columns overtake the few, by the repeats alone and with the sampling of the test rows."""
        [cell], (few, many) = self._page.cells(item), self._few_and_all(item)

        def gaps(test_rows: float) -> dict[float, tuple[float, float]]:
            errors = {}
            for key, (gap, error) in cell.result["gap"].items():
                if float(key) < NONE:
                    draws = (few[float(key)][1] ** 2 + many[float(key)][1] ** 2) / cell.settings["repeats"]
                    errors[float(key)] = (gap, float(np.sqrt(draws + (test_rows * error) ** 2)))
            return errors

        alone, both = crossing(gaps(0.0), 0.999), crossing(gaps(1.0), 0.95)
        return (
            f"{alone[0]:.3g} (99.9 % interval for the repeats alone: {interval(alone)}; 95 % with the sampling of the "
            f"test rows: {interval(both)})"
        )

    def softmax(self, data: str, epsilon: float | None) -> dict[int, Mapping[str, Any]]:
        cells = self._page.cells("bao/table2" if data == "breast" else "bao/table18")
        return {c.settings["columns"]: c.result for c in cells if c.settings["epsilon"] == epsilon}

    def softmax_best(self, data: str, epsilon: float | None) -> str:
        """The best number of columns, and how far above all of them."""
        scores = {size: row["score"] for size, row in self.softmax(data, epsilon).items()}
        best, every = self.best_size(scores), max(scores)
        error = float(np.hypot(scores[best][1], scores[every][1])) / 10**0.5
        return f"{best} columns, {scores[best][0] - scores[every][0]:.2f} ± {error:.2f} above all"

    def result5(self, inputs: str, network: str, training: str) -> Mapping[str, Any] | None:
        wanted = {"inputs": inputs, "network": network, "training": training}
        return next((c.result for c in self._page.cells("bao/table5") if wanted.items() <= c.settings.items()), None)

    def networks5(self, inputs: str) -> Mapping[str, Any]:
        """Published accuracies of the networks for one kind of inputs."""
        return dict(self.published5["no PCA" if inputs == "no PCA" else "PCA"])

    def gains5(self) -> dict[str, str]:
        """What components gain, not charged and charged, for the standard and the privacy-aware network."""

        def means(inputs: str) -> list[float]:
            return [
                float(np.mean((self.result5(inputs, n, "private") or {})["scores"])) for n in self.networks5(inputs)
            ]

        without, exact = means("no PCA"), means("PCA, not private")
        paid = [max(pair) for pair in zip(means("PCA, noise 8"), means("PCA, noise 4"))]
        return {
            "uncharged": " and ".join(f"{a - b:+.2f}" for a, b in zip(exact, without)),
            "charged": " and ".join(f"{a - b:+.2f}" for a, b in zip(paid, without)),
        }
