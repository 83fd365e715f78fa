"""Functions of the template of docs/results/features.md: tables, plots and the numbers inside its sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from privaware.papers._bao_features_descent import published_softmax
from privaware.papers._crossing_plots import crossing, interval, plot_by_columns, plot_by_epsilon
from privaware.papers._features_breast import NONE, BreastView, Score, best_sizes, shown, spread
from privaware.papers._page import Page, markdown
from privaware.papers._published import tables

__all__ = ["functions"]

ITEM5 = "bao/table5"
PUBLISHED5 = tables("bao")["table5"]
PUBLISHED16 = {float(epsilon): pairs for epsilon, pairs in tables("bao")["table16"].items()}
SOFTMAX = {data: published_softmax(data) for data in ("breast", "adult")}


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    view = View(page)
    return {name: getattr(view, name) for name in dir(view) if not name.startswith("_")}


class View(BreastView):
    """The rest of the page: Adult, noisy descent, components, transfer and seconds."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.adult = page.cell("bao/columns", data="adult").result
        self.few16 = self._adult_pair("bao/table16")[0]
        self.prices5 = page.cells("bao/table5/prices")[0].result

    def runs(self) -> str:
        """Where and when each item was measured."""
        rows = []
        for id in self._page.items():
            cell = self._page.cells(id)[0]
            repeats = cell.settings.get("repeats", "")
            machine = "one H200" if "H200" in cell.run["machine"] else "processor"
            rows.append([f"`privaware reproduce {id}`", cell.run["commit"], repeats, machine, cell.run["date"]])
        return markdown(["command", "commit", "repeats", "machine", "date"], rows)

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
        chart = plot_by_epsilon({"six, no one-hot": few, "108, one-hot": many}, 100 * self.adult["constant"])
        plot = self._page.plot("table16", "One-hot or drop", chart)
        return markdown(["epsilon", "six columns, no one-hot", "108 columns, one-hot"], rows) + f"\n\n{plot}"

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

    def figure3(self) -> str:
        by = self._by_columns("bao/figure3")
        first = [6, 108, *(n for n in range(1, 109) if n not in (6, 108))]
        points = [(size, e, line[size]) for e, line in by.items() for size in first]
        chart = plot_by_columns(points, 100 * self.adult["constant"])
        plot = self._page.plot("figure3", "Accuracy against number of columns", chart)
        head = ["epsilon", "best size", "accuracy there", "one column", "five columns", "all columns"]
        return f"{plot}\n\n{markdown(head, best_sizes(by, (1, 5, 108)))}"

    def at3(self, epsilon: str, columns: int | None = None) -> str:
        """Accuracy of Adult at an epsilon, with the best number of columns where none is named."""
        line = self._by_columns("bao/figure3")[epsilon]
        best = max(line, key=lambda size: line[size][0])
        return f"{best} with {line[best][0]:.2f}" if columns is None else f"{line[columns][0]:.2f}"

    def six(self) -> str:
        six, every = self._adult_pair("bao/figure3/six")
        chart = plot_by_epsilon({"best six": six, "all 108": every}, 100 * self.adult["constant"])
        plot = self._page.plot("crossing3", "Six columns and all of them", chart)
        rows = [[f"{e:g}", shown(six[e]), shown(every[e])] for e in sorted(six) if e < NONE]
        return f"{plot}\n\n{markdown(['epsilon', 'six columns', 'all columns'], rows)}"

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

    def _cell5(self, inputs: str, network: str, training: str) -> Mapping[str, Any] | None:
        for c in self._page.cells(ITEM5):
            if (c.settings["inputs"], c.settings["network"], c.settings["training"]) == (inputs, network, training):
                return c.result
        return None

    def table5(self) -> str:
        rows = []
        for inputs, price in self.prices5.items():
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
