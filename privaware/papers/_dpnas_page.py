"""Tables and plots of docs/results/dpnas.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from privaware.papers import dpnas as paper
from privaware.papers._page import Page, markdown
from privaware.papers._results import Cell

__all__ = ["functions"]

TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "digits": "digits"}
AIMS = {"mnist": 98.5, "fashion_mnist": 87.5, "cifar10": 67.5}
SOURCES = {
    "dp": "20 cells, private search",
    "sgd": "20 cells, search with SGD training",
    "random": "20 cells at random",
}


def functions(page: Page) -> dict[str, Callable[..., str]]:
    """What the template calls."""
    known: list[Callable[..., str]] = [searches, derived, table1, last_models, table3, table4, figure3, ranks, figure5]
    known += [plots, digits_trained, digits_charged, digits_curve]
    return {function.__name__: partial(function, page) for function in known}


def percentages(cells: Sequence[Cell], mark: int = -1, field: str = "accuracy", **settings: Any) -> list[float]:
    """Accuracies of all seeds at one mark."""
    chosen = [cell for cell in cells if all(cell.settings.get(name) == value for name, value in settings.items())]
    return [100 * cell.result[field][mark] for cell in chosen]


def mean(values: Sequence[float]) -> str:
    if not values:
        return "not run"
    if len(values) == 1:
        return f"{values[0]:.2f} (1 seed)"
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f} ({len(values)})"


def search_cells(page: Page) -> dict[tuple[str, str], Cell]:
    """The searches by data and variant, in the order of the store."""
    order = ("digits", "fashion_mnist", "mnist", "cifar10")
    return {(data, cell.settings["variant"]): cell for data in order for cell in page.cells(f"dpnas/search/{data}")}


def searches(page: Page, digits: bool = False) -> str:
    rows = []
    for (data, variant), cell in search_cells(page).items():
        if (data == "digits") == digits:
            result, last = cell.result, cell.result["curve"][-1]
            ends = [f"{100 * np.mean(last[key]):.1f}" for key in ("controller", "uniform")]
            row = [TITLES[data], variant, " ".join(result["cell"]), f"{100 * result['score']:.1f}", *ends]
            rows.append([*row, f"{last['entropy']:.1f}", f"{cell.run['seconds']:.0f}"])
    head = ["data", "search", "cell found (edges in order)", "its score", "10 cells proposed, last epoch"]
    return markdown([*head, "10 cells at random, last epoch", "entropy", "seconds"], rows)


def derived(page: Page) -> str:
    rows = []
    for data in paper.DATA:
        result = page.cell(f"dpnas/derive/{data}").result
        tried = ", ".join(f"{100 * one['score']:.2f} ({one['lr']:g})" for one in result["tried"])
        rows.append([TITLES[data], tried, " ".join(result["cell"]), f"{result['lr']:g}"])
    each = "held-out accuracy of each (its rate), best score of the search first"
    return markdown(["data", each, "cell taken", "rate taken"], rows)


def table1(page: Page) -> str:
    """Published before ours; the found cell as the paper trains it (last parameters) and averaged."""
    names = {
        "cnn": "CNN-Tanh",
        "small": "found, small form",
        "found": "found, parameters averaged",
        "mirrored": "found, averaged, trained on each image and its mirror image",
        "paper": "the paper's cell, averaged",
    }
    rows = []
    for data, published in paper.TABLE1.items():
        cells = page.cells(f"dpnas/table1/{data}")
        lines = [(name, words, "accuracy") for name, words in names.items()]
        lines.insert(2, ("found", "found, last parameters, as the paper trains", "last"))
        for name, words, field in lines:
            some = [cell for cell in cells if cell.settings["network"] == name]
            if not some:
                continue
            known = published.get(name if name in ("cnn", "small") else "found")
            row = [TITLES[data], words, f"{some[0].result['parameters']:,}"]
            for at in range(3):
                theirs = f"{known[at]:.2f}" if known else "-"
                row.append(f"{theirs} / {mean(percentages(some, at, field))}")
            rows.append([*row, f"{AIMS[data]}" if name in ("found", "mirrored") else ""])
    return markdown(["data", "network", "parameters", *(f"{e}: published / ours" for e in (1, 2, 3)), "aim at 3"], rows)


def last_models(page: Page) -> str:
    rows = []
    for data in paper.DATA:
        cells = [cell for cell in page.cells(f"dpnas/table1/{data}") if cell.settings["network"] == "found"]
        averaged = percentages(cells)
        each = ", ".join(f"{score:.2f}" for score in averaged)
        rate = f"{cells[0].result['lr']:g}"
        rows.append([TITLES[data], rate, mean(percentages(cells, field="last")), mean(averaged), each])
    return markdown(["data", "learning rate", "last", "averaged", "each seed, averaged"], rows)


def table3(page: Page) -> str:
    rows = []
    for source, known in paper.TABLE3.items():
        row = [TITLES[source]]
        for at, data in enumerate(paper.DATA):
            if data == source:
                ours = percentages(page.cells(f"dpnas/table1/{data}"), network="found")
            else:
                ours = percentages(page.cells(f"dpnas/table3/{data}"), searched_on=source)
            row.append(f"{known[at]:.2f} / {mean(ours)}")
        rows.append(row)
    return markdown(["", *(TITLES[data] for data in paper.DATA)], rows)


def table4(page: Page) -> str:
    cells, rows = page.cells("dpnas/table4"), []
    for name, known in paper.TABLE4.items():
        ours = percentages(cells, activation=name)
        if name == "tanh":
            ours = percentages(page.cells("dpnas/table1/cifar10"), network="cnn")
        rows.append([name, f"{known:.2f}", mean(ours)])
    rows.append(["tanh, average pooling (Figure 5 d)", "-", mean(percentages(cells, pooling="average"))])
    return markdown(["activation", "published", "ours"], rows)


def twenty(page: Page, source: str) -> dict[int, float]:
    """Accuracies of Figure 3's cells from one source, by their number."""
    cells = [cell for cell in page.cells("dpnas/figure3") if cell.settings["network"] == source]
    return {cell.settings["cell"]: 100 * cell.result["accuracy"][-1] for cell in cells}


def figure3(page: Page) -> str:
    small = percentages(page.cells("dpnas/table1/cifar10"), network="small")
    rows = [["the cell derived", mean(small), ""]]
    for source, words in SOURCES.items():
        scores = list(twenty(page, source).values())
        rows.append([words, mean(scores), f"{max(scores):.2f}"])
    return markdown(["cells", "mean ± deviation (number)", "best"], rows)


def ranks(page: Page) -> str:
    """Whether scores with shared weights, and short trainings, order cells as trainings from scratch do."""
    from scipy.stats import spearmanr

    scratch = [score for _, score in sorted(twenty(page, "dp").items())]
    search = page.cell("dpnas/search/cifar10", variant="dp").result
    tried = page.cell("dpnas/derive/cifar10").result["tried"]
    short = {tuple(one["cell"]): one["score"] for one in tried if one["lr"] == tried[0]["lr"]}
    out = []
    for words, values in (
        ("scores with shared weights", search["scores"]),
        ("short trainings", [short[tuple(cell)] for cell in search["cells"]]),
    ):
        rank = spearmanr(values, scratch)
        value = f"{rank.statistic:.2f} (p = {rank.pvalue:.1g})"
        out.append(f"Of the proposed cells, {words} and these accuracies have a rank correlation of {value}.")
    return "\n\n".join(out)


def figure5(page: Page) -> str:
    """Shares among 1,000 cells that the controller proposes."""
    kept = {data: cell.result["shares"] for (data, variant), cell in search_cells(page).items() if variant == "dp"}
    kept.pop("digits")
    operations = [*kept["mnist"]["activations"], *kept["mnist"]["pools"]]
    rows = [
        [TITLES[data], *(f"{100 * (shares['activations'] | shares['pools'])[name]:.0f}" for name in operations)]
        for data, shares in kept.items()
    ]
    return markdown(["searched on", *operations], rows)


def digits_trained(page: Page) -> str:
    cells = page.cells("dpnas/digits/trained")
    names = {"found": "found", "random": "cells at random, one seed each", "cnn": "hand-made CNN"}
    rows = [[words, *(mean(percentages(cells, at, network=name)) for at in (0, 1))] for name, words in names.items()]
    return markdown(["network", "60 steps", "200 steps"], rows)


def digits_charged(page: Page) -> str:
    cells, rows = page.cells("dpnas/digits/charged"), []
    for what, words in (("search", "search and training"), ("random", "a cell at random")):
        row = [words]
        for epsilon in (4.0, 8.0):
            some = [cell for cell in cells if cell.settings["what"] == what and cell.settings["epsilon"] == epsilon]
            row.append(mean([100 * cell.result["score"] for cell in some]))
        rows.append(row)
    return markdown(["", "epsilon 4", "epsilon 8"], rows)


def digits_curve(page: Page, variant: str) -> str:
    curve = page.cell("dpnas/search/digits", variant=variant).result["curve"]
    rows = [
        [str(point["epoch"]), *(f"{100 * np.mean(point[key]):.1f}" for key in ("uniform", "controller"))]
        for point in curve[:: max(1, len(curve) // 8)]
    ]
    return markdown(["epoch", "at random", "proposed"], rows)


def plots(page: Page) -> str:
    """Adds the points of Figure 3 (b), the curves of Figure 3 (c) and the bars of Figure 5 (a) and (b)."""
    import altair as alt
    import pandas as pd

    percent = alt.Axis(format="%")
    points = [
        {"cells": words, "accuracy": score / 100}
        for source, words in SOURCES.items()
        for score in twenty(page, source).values()
    ]
    across = alt.X("accuracy:Q", scale=alt.Scale(zero=False), axis=percent)
    names = alt.Y("cells:N", title=None, axis=alt.Axis(labelLimit=0))
    ticks = alt.Chart(pd.DataFrame(points), width=240).mark_tick(thickness=2)
    page.charts["cifar10_figure3b"] = ticks.encode(x=across, y=names)
    for (data, variant), cell in search_cells(page).items():
        curve = [
            {"epoch": point["epoch"], "cells": key, "accuracy": float(np.mean(point[key]))}
            for point in cell.result["curve"]
            for key in ("controller", "uniform")
        ]
        lines = alt.Chart(pd.DataFrame(curve)).mark_line()
        y = alt.Y("accuracy:Q", axis=percent)
        page.charts[f"{data}_{variant}_curve"] = lines.encode(x="epoch:Q", y=y, color="cells:N")
        shares = [
            {"operation": operation, "share": share, "kind": kind}
            for kind in ("activations", "pools")
            for operation, share in cell.result["shares"][kind].items()
        ]
        bars = alt.Chart(pd.DataFrame(shares)).mark_bar()
        x, height = alt.X("operation:N", sort=None, title=None), alt.Y("share:Q", axis=percent, title=None)
        faceted = bars.encode(x=x, y=height).facet("kind:N").resolve_scale(x="independent")
        page.charts[f"{data}_{variant}_shares"] = faceted
    return ""
