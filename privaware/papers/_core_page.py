"""The table of docs/results/core.md."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from privaware.papers._page import Page, markdown
from privaware.papers.ours import CORE

__all__ = ["functions"]


def functions(page: Page) -> dict[str, Callable[..., str]]:
    return {"learners": partial(learners, page)}


def learners(page: Page) -> str:
    rows = []
    for (data, epsilon, learner), compared in CORE.items():
        result = page.cell("ours/core", data=data, epsilon=epsilon, learner=learner).result
        error = f" (error {result['mae']:.0f})" if result["mae"] else ""
        score = f"{100 * result['score']:.2f} ± {100 * result['spread']:.2f}{error}"
        took = f"{result['first_seconds']:.2f} / {result['later_seconds']:.2f}"
        row = [data, f"{epsilon:g}", f"{result['epsilon']:.4f}", result["learner"], score]
        rows.append([*row, f"{100 * result['constant']:.2f}", took, compared])
    head = ["data", "epsilon", "charged", "learner", "score, mean ± spread", "best constant", "seconds", "to compare"]
    return markdown(head, rows)
