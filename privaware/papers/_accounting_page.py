"""Tables of docs/results/accounting.md."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from privaware.papers._ours_accounting import CLAIMS
from privaware.papers._page import Page, markdown

__all__ = ["functions"]

DPNAS = (
    "cannot be recomputed: noise, batch and epochs of the final training are not given, and the search is not charged"
)


def functions(page: Page) -> dict[str, Callable[..., str]]:
    return {"epsilons": partial(epsilons, page), "seconds": partial(seconds, page)}


def epsilons(page: Page) -> str:
    rows = []
    for paper, claims in CLAIMS.items():
        for claim in claims:
            result = page.cell("ours/accounting/epsilons", paper=paper, entry=claim.entry, printed=claim.printed).result
            known = [f"{result['theirs']:.4g}", f"{result['epsilon']:.4g}", result["method"]]
            rows.append([paper, claim.entry, claim.printed, *known, claim.verdict])
    rows.append(["DPNAS", "all tables", "1, 2, 3, 7.53", "", "", "", DPNAS])
    head = ["paper", "entry", "printed", "Renyi, their conversion", "reported here", "method"]
    return markdown([*head, "does the printed figure hold?"], rows)


def seconds(page: Page) -> str:
    known = page.cell("ours/accounting/seconds").result["seconds"]
    return markdown(["work", "seconds"], [[work, f"{value:.3f}"] for work, value in known.items()])
