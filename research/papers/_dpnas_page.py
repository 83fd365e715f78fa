"""Tables and plots of docs/results/dpnas.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from privaware.bench._store import Cell
from privaware.models import named
from research.papers import dpnas as paper
from research.papers._dpnas_runs import COMPARED, PLAIN_BATCH, PLAIN_EPOCHS
from research.papers._page import Page

__all__ = ["functions"]

TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "digits": "digits"}
SOURCES = {
    "dp": "20 cells, private search",
    "sgd": "20 cells, search with SGD training",
    "random": "20 cells at random",
}

FIGURE1 = {
    "cnn": "table1/cifar10",
    "paper": "table1/cifar10",
    "ResNet-20": "figure1/private",
    "WRN-16-4": "figure1/private",
    **dict.fromkeys(paper.TABLE2, "table2"),
}
"""The networks of Figure 1, and the items with their private trainings."""


def functions(page: Page) -> dict[str, Any]:
    """What the template uses."""
    known: list[Callable[..., Any]] = [accuracies, proposed, search_cells, twenty, ranks, plots]
    bound = {function.__name__: partial(function, page) for function in known}
    facts = {"names": TITLES, "paper": paper, "sources": SOURCES, "figure1": FIGURE1, "plain_epochs": PLAIN_EPOCHS}
    facts["plain_batch"] = PLAIN_BATCH
    return {**bound, **facts, "mean": mean, "average": np.mean, "size": size}


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


def proposed(page: Page, data: str, source: str, seed: int | None) -> list[float]:
    """Accuracies, in per cent, of the cells of one search, or of cells at random (`seed` is None)."""
    if data == "cifar10" and (source, seed) in (("dp", 0), ("random", None)):
        return list(twenty(page, source).values())
    return accuracies(page, f"proposals/{data}", network=source, search_seed=seed)


def size(name: str) -> int:
    """Number of parameters of a network of Table 2."""
    [parameters] = [known.parameters for key, known in named().items() if key.startswith(f"{COMPARED[name]}.")]
    return parameters


def search_cells(page: Page) -> list[tuple[str, Cell]]:
    """The searches, each with its data, in the order of the store."""
    order = ("digits", "fashion_mnist", "mnist", "cifar10")
    return [(data, cell) for data in order for cell in page.cells(f"dpnas/search/{data}")]


def twenty(page: Page, source: str) -> dict[int, float]:
    """Accuracies of Figure 3's cells from one source, by their number."""
    cells = [cell for cell in page.cells("dpnas/figure3") if cell.settings["network"] == source]
    return {cell.settings["cell"]: 100 * cell.result["accuracy"][-1] for cell in cells}


def ranks(page: Page) -> str:
    """Whether scores with shared weights, and short trainings, order cells as trainings from scratch do."""
    from scipy.stats import spearmanr

    scratch = [score for _, score in sorted(twenty(page, "dp").items())]
    search = page.cell("dpnas/search/cifar10", variant="dp", seed=0).result
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
    for data, cell in search_cells(page):
        seed = cell.settings["seed"]
        name = f"{data}_{cell.settings['variant']}" + (f"_{seed}" if seed else "")
        curve = [
            {"epoch": point["epoch"], "cells": key, "accuracy": float(np.mean(point[key]))}
            for point in cell.result["curve"]
            for key in ("controller", "uniform")
        ]
        lines = alt.Chart(pd.DataFrame(curve)).mark_line()
        y = alt.Y("accuracy:Q", axis=percent)
        page.charts[f"{name}_curve"] = lines.encode(x="epoch:Q", y=y, color="cells:N")
        shares = [
            {"operation": operation, "share": share, "kind": kind}
            for kind in ("activations", "pools")
            for operation, share in cell.result["shares"][kind].items()
        ]
        bars = alt.Chart(pd.DataFrame(shares)).mark_bar()
        x, height = alt.X("operation:N", sort=None, title=None), alt.Y("share:Q", axis=percent, title=None)
        faceted = bars.encode(x=x, y=height).facet("kind:N").resolve_scale(x="independent")
        page.charts[f"{name}_shares"] = faceted
    return ""
