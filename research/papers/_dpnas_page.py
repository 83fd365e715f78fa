"""Tables and plots of docs/results/dpnas.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from privaware.bench._store import Cell
from research.papers import dpnas as paper
from research.papers._page import Page

__all__ = ["functions"]

TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "digits": "digits"}
SOURCES = {
    "dp": "20 cells, private search",
    "sgd": "20 cells, search with SGD training",
    "random": "20 cells at random",
}


def functions(page: Page) -> dict[str, Any]:
    """What the template uses."""
    known: list[Callable[..., Any]] = [accuracies, search_cells, twenty, ranks, plots]
    named = {function.__name__: partial(function, page) for function in known}
    return {**named, "mean": mean, "average": np.mean, "names": TITLES, "paper": paper, "sources": SOURCES}


def accuracies(page: Page, item: str, mark: int = -1, field: str = "accuracy", **settings: Any) -> list[float]:
    """Of all seeds at one mark, in per cent."""
    cells = page.cells(f"dpnas/{item}")
    chosen = [cell for cell in cells if all(cell.settings.get(name) == value for name, value in settings.items())]
    return [100 * (cell.result[field][mark] if field != "score" else cell.result[field]) for cell in chosen]


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


def twenty(page: Page, source: str) -> dict[int, float]:
    """Accuracies of Figure 3's cells from one source, by their number."""
    cells = [cell for cell in page.cells("dpnas/figure3") if cell.settings["network"] == source]
    return {cell.settings["cell"]: 100 * cell.result["accuracy"][-1] for cell in cells}


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
