"""Tables of docs/results/convex.md."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from privaware.papers._ours_convex import LENGTHS
from privaware.papers._page import Page, markdown

__all__ = ["functions"]

NAMES = {"norm not squared": "the norm not squared, published constants otherwise (as in one library)"}


def functions(page: Page) -> dict[str, Callable[..., str]]:
    known: tuple[Callable[..., str], ...] = (prices, constants, lengths, speed)
    return {function.__name__: partial(function, page) for function in known}


def prices(page: Page, law: str) -> str:
    cells = [cell for cell in page.cells("ours/convex/prices") if cell.settings["law"] == law]
    names = {"exact 1": "exact, 1", "exact 2": "exact, 2", "played 1": "played, 1", "played 2": "played, 2"}
    names["exact at 0.01"] = "exact"
    head = ["noise", "ridge", *(names.get(name, name) for name in cells[0].result)]
    rows = [[f"{cell.settings[name]:g}" for name in ("noise", "ridge")] + numbers(cell.result) for cell in cells]
    return markdown(head, rows)


def numbers(result: dict[str, Any]) -> list[str]:
    return ["-" if value is None else f"{value:.3f}" for value in result.values()]


def constants(page: Page) -> str:
    cells = page.cells("ours/convex/constants")
    rows = [[NAMES.get(name := cell.settings["constants"], name), *numbers(cell.result)] for cell in cells]
    return markdown(["constants", "exact", "played"], rows)


def lengths(page: Page) -> str:
    cells = page.cells("ours/convex/lengths")
    rows, means = [], []
    for learner in LENGTHS:
        some = [cell for cell in cells if cell.settings["learner"] == learner]
        for cell in some:
            scores = [f"{score:.2f}" for score in cell.result["scores"]]
            rows.append([learner, cell.settings["data"], f"{cell.settings['epsilon']:g}", *scores])
        average = np.mean([cell.result["scores"] for cell in some], axis=0)
        best = [f"**{value:.2f}**" if value == average.max() else f"{value:.2f}" for value in average]
        means.append([learner, "mean of all", "", *best])
    return markdown(["learner", "data", "epsilon", "first", "second", "third", "fourth", "fifth"], [*rows, *means])


def speed(page: Page) -> str:
    cells = page.cells("benchmarks/convex")
    rows = [[c.settings["work"], f"{c.result['seconds']:.1f}", f"{c.result['processor']:.1f}"] for c in cells]
    return markdown(["work", "seconds", "processor seconds"], rows)
