"""Functions of the template of docs/results/features.md: tables, plots and the numbers inside its sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from privaware.papers._bao_feature_items import METHODS, PUBLISHED5, PUBLISHED10, PUBLISHED16, SOFTMAX
from privaware.papers._crossing_plots import crossing, interval, last_win, plot_by_columns, plot_by_epsilon
from privaware.papers._page import Page, markdown

__all__ = ["functions"]

NONE = 1e9
Score = Sequence[float]
"""Mean and spread, in per cent."""
ITEM5 = "bao/table5"


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    view = View(page)
    return {name: getattr(view, name) for name in dir(view) if not name.startswith("_")}


def shown(score: Score) -> str:
    return f"{score[0]:.2f} ± {score[1]:.2f}"


def spread(values: Sequence[float], ddof: int = 0) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=ddof):.2f}"


def listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


class View:
    """The cells of the page in the form that its tables need."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.breast = page.cell("bao/columns", data="breast_cancer").result
        self.adult = page.cell("bao/columns", data="adult").result
        self._table10 = {c.settings["epsilon"]: c.result for c in page.cells("bao/table10")}
        self._splits = [c.result for c in page.cells("bao/table10/splits")]
        self._prices5 = page.cells("bao/table5/prices")[0].result

    def runs(self) -> str:
        """Where and when each item was measured."""
        rows = []
        for id in self._page.items():
            cell = self._page.cells(id)[0]
            repeats = cell.settings.get("repeats", "")
            machine = "one H200" if "H200" in cell.run["machine"] else "processor"
            rows.append([f"`privaware reproduce {id}`", cell.run["commit"], repeats, machine, cell.run["date"]])
        return markdown(["command", "commit", "repeats", "machine", "date"], rows)

    def table10(self) -> str:
        rows = []
        for epsilon, published in PUBLISHED10.items():
            row = self._table10[epsilon]
            values = [f"{shown(row[name])} ({value:.2f})" for name, value in zip(METHODS, published)]
            rows.append([f"{epsilon:g}", *values, ", ".join(map(str, row["PAFS sizes"]))])
        rows.append(["none", *(shown(self._table10[NONE][name]) for name in METHODS), ""])
        return markdown(["epsilon", *METHODS, "PAFS sizes"], rows)

    def table10_plot(self) -> str:
        curves = {name: {e: self._table10[e][name] for e in PUBLISHED10} for name in METHODS}
        chart = plot_by_epsilon(curves, 100 * self.breast["constant"])
        return self._page.plot("table10", "Table X: accuracy against epsilon", chart)

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

    def figure4_plot(self) -> str:
        points = [
            (c.settings["columns"], e, score) for c in self._page.cells("bao/figure4") for e, score in c.result.items()
        ]
        chart = plot_by_columns(points, 100 * self.breast["constant"])
        return self._page.plot("figure4", "Accuracy against number of columns", chart)

    def figure4(self) -> str:
        head = ["epsilon", "best size", "accuracy there", "one column", "eleven columns", "all columns"]
        return markdown(head, _best_sizes(self._by_columns("bao/figure4"), (1, 11, 43)))

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

    def crossing4_plot(self) -> str:
        sizes = (("best column", 1), ("all 43", 43))
        curves = {name: {e: pair[size] for e, pair in self._pairs4().items()} for name, size in sizes}
        chart = plot_by_epsilon(curves, 100 * self.breast["constant"])
        return self._page.plot("crossing4", "One column and all of them", chart)

    def crossing4(self) -> str:
        rows = [[f"{e:g}", shown(pair[1]), shown(pair[43])] for e, pair in self._pairs4().items()]
        return markdown(["epsilon", "one column", "all columns"], rows)

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

    def _adult_pair(self, item: str) -> tuple[dict[float, Score], dict[float, Score]]:
        result = self._page.cells(item)[0].result
        few, many = ({float(e): score for e, score in result[name].items()} for name in ("few", "all"))
        return few, many

    def table16(self) -> str:
        few, many = self._adult_pair("bao/table16")
        rows = []
        for epsilon in sorted(few):
            values = []
            for at, line in enumerate((few, many)):
                mean, deviation = PUBLISHED16[epsilon][at] if epsilon in PUBLISHED16 else (None, 0)
                brackets = "" if mean is None else f" ({mean:.2f} ± {deviation:.2f})" if deviation else f" ({mean:.2f})"
                values.append(shown(line[epsilon]) + brackets)
            rows.append(["none" if epsilon == NONE else f"{epsilon:g}", *values])
        return markdown(["epsilon", "six columns, no one-hot", "108 columns, one-hot"], rows)

    def table16_plot(self) -> str:
        few, many = self._adult_pair("bao/table16")
        chart = plot_by_epsilon({"six, no one-hot": few, "108, one-hot": many}, 100 * self.adult["constant"])
        return self._page.plot("table16", "One-hot or drop", chart)

    def few_at(self, item: str, epsilon: float) -> str:
        return f"{self._adult_pair(item)[0][epsilon][0]:.1f}"

    def adult_crossing(self, item: str) -> str:
        """Where all columns overtake the few, by the repeats alone and with the sampling of the test rows."""
        [cell] = self._page.cells(item)
        few, many = self._adult_pair(item)

        def gaps(test_rows: float) -> dict[float, tuple[float, float]]:
            errors = {}
            for key, (gap, error) in cell.result["gap"].items():
                if float(key) < NONE:
                    draws = (few[float(key)][1] ** 2 + many[float(key)][1] ** 2) / cell.settings["repeats"]
                    errors[float(key)] = (gap, float(np.sqrt(draws + (test_rows * error) ** 2)))
            return errors

        alone, both = crossing(gaps(0.0), 0.999), crossing(gaps(1.0), 0.95)
        alone_words, both_words = interval(alone), interval(both)
        return (
            f"{alone[0]:.3g} (99.9 % interval for the repeats alone: {alone_words}; 95 % with the sampling of the "
            f"test rows: {both_words})"
        )

    def figure3_plot(self) -> str:
        by = self._by_columns("bao/figure3")
        first = [6, 108, *(n for n in range(1, 109) if n not in (6, 108))]
        points = [(size, e, line[size]) for e, line in by.items() for size in first]
        chart = plot_by_columns(points, 100 * self.adult["constant"])
        return self._page.plot("figure3", "Accuracy against number of columns", chart)

    def figure3(self) -> str:
        head = ["epsilon", "best size", "accuracy there", "one column", "five columns", "all columns"]
        return markdown(head, _best_sizes(self._by_columns("bao/figure3"), (1, 5, 108)))

    def best3(self, epsilon: str) -> int:
        line = self._by_columns("bao/figure3")[epsilon]
        return max(line, key=lambda size: line[size][0])

    def at3(self, epsilon: str, columns: int) -> str:
        return f"{self._by_columns('bao/figure3')[epsilon][columns][0]:.2f}"

    def six_plot(self) -> str:
        six, all_ = self._adult_pair("bao/figure3/six")
        chart = plot_by_epsilon({"best six": six, "all 108": all_}, 100 * self.adult["constant"])
        return self._page.plot("crossing3", "Six columns and all of them", chart)

    def six(self) -> str:
        six, all_ = self._adult_pair("bao/figure3/six")
        rows = [[f"{e:g}", shown(six[e]), shown(all_[e])] for e in sorted(six) if e < NONE]
        return markdown(["epsilon", "six columns", "all columns"], rows)

    def _softmax(self, data: str, epsilon: float | None) -> dict[int, Mapping[str, Any]]:
        cells = self._page.cells("bao/table2" if data == "breast" else "bao/table18")
        return {c.settings["columns"]: c.result for c in cells if c.settings["epsilon"] == epsilon}

    def softmax(self) -> str:
        parts = []
        for data, budgets in SOFTMAX.items():
            for epsilon, published in budgets.items():
                known = self._softmax(data, epsilon)
                rows = []
                for size, value in published.items():
                    row = known[size]
                    rows.append([size, f"{shown(row['score'])} ({value:.2f})", f"{row['lr']:g}", f"{row['noise']:.3g}"])
                head = ["columns", "accuracy (published)", "lr", "noise"]
                parts.append(f"{data}, epsilon {epsilon or 'none'}:\n\n{markdown(head, rows)}")
        return "\n\n".join(parts)

    def softmax_best(self) -> str:
        parts = []
        for data, budgets in SOFTMAX.items():
            for epsilon in budgets:
                scores = {size: row["score"] for size, row in self._softmax(data, epsilon).items()}
                best, every = max(sorted(scores), key=lambda size: scores[size][0]), max(scores)
                error = float(np.hypot(scores[best][1], scores[every][1])) / 10**0.5
                above = scores[best][0] - scores[every][0]
                parts.append(f"{data} at {epsilon or 'no noise'}: {best} columns, {above:.2f} ± {error:.2f} above all")
        return "; ".join(parts)

    def price5(self, inputs: str, name: str) -> float:
        return float(self._prices5[inputs][name])

    def _cell5(self, inputs: str, network: str, training: str) -> Mapping[str, Any] | None:
        for c in self._page.cells(ITEM5):
            if (c.settings["inputs"], c.settings["network"], c.settings["training"]) == (inputs, network, training):
                return c.result
        return None

    def table5(self) -> str:
        rows = []
        for inputs, price in self._prices5.items():
            for network, published in PUBLISHED5["no PCA" if inputs == "no PCA" else "PCA"].items():
                private, plain = (self._cell5(inputs, network, way) for way in ("private", "plain"))
                assert private is not None
                paid = "" if price["pca"] is None else f"{price['pca epsilon']:.3f} (noise {price['pca']:g})"
                rows.append(
                    [
                        inputs,
                        "none: not private" if inputs == "PCA, not private" else paid,
                        network,
                        f"{private['parameters']:,}",
                        spread(private["scores"], 1),
                        f"{max(private['held']):.2f}",
                        f"{private['lr']:g}",
                        "" if plain is None else spread(plain["scores"], 1),
                        f"{published[0]:.2f}, {published[1]:.2f}",
                    ]
                )
        head = ["inputs", "price of the components", "network", "parameters", "private", "validation rows", "lr"]
        return markdown([*head, "plain SGD", "published, private and plain"], rows)

    def gains5(self) -> dict[str, str]:
        """What components gain, not charged and charged, for the standard and the privacy-aware network."""

        def means(inputs: str) -> list[float]:
            networks = PUBLISHED5["no PCA" if inputs == "no PCA" else "PCA"]
            return [float(np.mean((self._cell5(inputs, n, "private") or {})["scores"])) for n in networks]

        without, exact = means("no PCA"), means("PCA, not private")
        paid = [max(pair) for pair in zip(means("PCA, noise 8"), means("PCA, noise 4"))]
        return {
            "uncharged": " and ".join(f"{a - b:+.2f}" for a, b in zip(exact, without)),
            "charged": " and ".join(f"{a - b:+.2f}" for a, b in zip(paid, without)),
        }

    def transfer(self) -> str:
        rows = []
        for epsilon in (1.0, 2.0, 3.0):
            cells = [
                c for c in self._page.cells("tramer_boneh/figure5/efficientnet") if c.settings["epsilon"] == epsilon
            ]
            first = cells[0].result
            score = spread([c.result["score"] for c in cells], 1)
            rows.append([f"{epsilon:g}", score, f"{first['noise']:.2f}", f"{first['lr']:.3g}"])
        return markdown(["epsilon", "accuracy", "noise", "lr"], rows)

    def seconds(self) -> str:
        asked = {"cfs_greedy": "0.1", "cfs_ga, 5,000 x 10": "1", "pafs, 600 x 10": "10"}
        asked["1,000 repeats x 13 epsilons"] = "seconds"
        rows = []
        for cell in self._page.cells("bao/selector_seconds"):
            work, result = cell.settings["work"], cell.result
            rows.append(
                [work, f"{result['wall']:.3f}", f"{result['processor']:.3f}", asked.get(work, ""), result["load"]]
            )
        return markdown(["work", "wall seconds", "processor seconds", "asked", "load"], rows)


def _best_sizes(by: Mapping[str, Mapping[int, Score]], places: tuple[int, ...]) -> list[list[str]]:
    """For each epsilon the best number of columns, its accuracy and those at some other numbers."""
    rows = []
    for epsilon in sorted(by, key=float):
        line = by[epsilon]
        top = max(line, key=lambda size: line[size][0])
        name = "none (1e9)" if float(epsilon) >= NONE else epsilon
        rows.append([name, str(top), *(shown(line[size]) for size in (top, *places))])
    return rows
