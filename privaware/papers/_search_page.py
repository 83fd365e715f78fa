"""Functions of the template of docs/results/search.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from privaware.papers import find
from privaware.papers._page import Page, markdown
from privaware.papers._studies_page import item_list

__all__ = ["functions"]


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    studies = Page("studies", results=page.results)
    return {
        "table8": lambda: table8(page),
        "price": lambda *of: price(page, *of),
        "studies": lambda: item_list(studies),
    }


def price(page: Page, search: str, budget: str) -> float:
    """The total epsilon of a search."""
    return float(page.cell("bao/table8/prices", search=search, budget=budget).result["total"])


def table8(page: Page) -> str:
    """Table VIII: ours beside theirs."""
    rows = []
    for priced in page.cells("bao/table8/prices"):
        search, budget = priced.settings["search"], priced.settings["budget"]
        runs = [c for c in page.cells("bao/table8") if (c.settings["search"], c.settings["budget"]) == (search, budget)]
        printed = f"{search if search != 'paas20' else 'paas'} {budget}"
        accuracy, overall = (find(id).published.get(printed, "") for id in ("bao/table8", "bao/table8/prices"))
        score, seconds, machine = "not run yet", "", ""
        if runs:
            values = [c.result["accuracy"] for c in runs]
            score = f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f} ({len(values)} searches)"
            seconds = f"{np.mean([c.result['search seconds'] for c in runs]):.0f}"
            machine = f"{'cuda' if 'H200' in runs[0].run['machine'] else 'cpu'}, {runs[0].settings['features']}"
        result = priced.result
        models = f"{result['model_rdp']:.2f} / {result['model_pld']:.2f}"
        total = f"{result['total']:.2f}"
        rows.append(
            [search, budget, f"{result['trials']:.4g}", models, total, overall, score, accuracy, seconds, machine]
        )
    head = ["search", "budget", "trials", "one model, RDP / PLD", "overall, ours", "overall, printed"]
    return markdown([*head, "accuracy, ours", "printed", "seconds", "machine"], rows)
