"""The table of docs/results/tramer_boneh_cnn.md."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from privaware.papers import tramer_boneh as paper
from privaware.papers._page import Page, markdown, percent
from privaware.papers._prices import Prices
from privaware.papers._results import Cell
from privaware.papers._tramer_boneh_runs import ROWS, TABLE13
from privaware.papers._tramer_boneh_scatter_page import NAMES

__all__ = ["functions"]

PARAMETERS = {"mnist": "26,010", "fashion_mnist": "26,010", "cifar10": "550,570"}
AIM = {"mnist": "0.2", "fashion_mnist": "0.4", "cifar10": "1"}
"""Points of accuracy that a mean may lie away from the published one."""


def functions(page: Page) -> dict[str, Callable[..., str]]:
    return {"networks": partial(networks, page)}


def networks(page: Page) -> str:
    head = ["data", "network", "batch", "epochs", "noise", "published", "ours", "each seed", "aim", "seconds for five"]
    rows = [row(data, "pixels", page.cells(f"tramer_boneh/table13/pixels/{data}")) for data in PARAMETERS]
    small = page.cells("tramer_boneh/table13/small_pixels/cifar10")
    rows.append(row("cifar10", "small pixels", [cell for cell in small if "batch" in cell.settings]))
    chosen = [cell for cell in small if "batch" not in cell.settings and cell.settings["seed"] >= 2]
    rows.append(row("cifar10", "small pixels", chosen))
    return markdown(head, rows)


def row(data: str, head: str, cells: list[Cell]) -> list[Any]:
    accuracy = paper.TABLE20["167642"] if head == "small pixels" else paper.TABLE19[data, "pixels"]["shuffled"]
    setting = {**TABLE13[data, head], **cells[0].settings}
    batch, epochs = setting["batch"], setting["epochs"]
    noise = Prices("tramer_boneh").known[f"table12 {ROWS[data]} {batch} {epochs} 0"]
    last = [cell.result["score"] for cell in cells]
    ours, each = percent(last), ", ".join(f"{100 * score:.2f}" for score in last)
    aim, short = AIM[data], accuracy[0] - 100 * float(np.mean(last))
    verdict = f"{accuracy[0]} ± {aim}: {'met' if abs(short) <= float(aim) else 'missed'}"
    if head == "small pixels" and "best" not in cells[0].result:
        verdict = "not their settings: see below"
    elif head == "small pixels":
        best = [cell.result["best"] for cell in cells]
        each = f"last {each}; best {', '.join(f'{100 * score:.2f}' for score in best)}"
        ours, verdict = f"{ours} last, **{percent(best)} best epoch**", f"{verdict} by both"
    size = PARAMETERS[data] if head == "pixels" else "167,642"
    seconds = sum(cell.run["seconds"] for cell in cells)
    published = paper.shown(accuracy)
    return [NAMES[data], size, f"{batch:,}", epochs, f"{noise:.3f}", published, ours, each, verdict, f"{seconds:.0f}"]
