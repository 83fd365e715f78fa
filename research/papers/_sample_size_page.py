"""Functions of the page of the sample-size law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from privaware.bench._shown import markdown
from research.papers._page import Page, percent
from research.papers._size_law import epsilon_at, fit_law

__all__ = ["functions"]

ACCURACIES = {"adult": (0.8, 0.82, 0.84, 0.85), "digits": (0.6, 0.8), "wisconsin": (0.8, 0.9), "sms_spam": (0.86, 0.88)}


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    """What the template calls."""

    def law_table() -> str:
        lines = []
        for data, accuracies in ACCURACIES.items():
            sizes: dict[int, dict[str, list[float]]] = {}
            for cell in page.cells("ours/sample_size"):
                if cell.settings["data"] == data:
                    scores = sizes.setdefault(cell.settings["rows"], {})
                    scores[f"{cell.settings['epsilon']:g}"] = cell.result["scores"]
            for accuracy in accuracies:
                spent = {n: at for n, scores in sizes.items() if (at := epsilon_at(scores, accuracy)) is not None}
                law = fit_law(spent)
                shown = ", ".join(f"{at:.3g} at {n:,}" for n, at in spent.items())
                lines.append([data, f"{100 * accuracy:g}", shown, f"{law.power:.2f}", f"{law.misfit:.2f}"])
        return markdown(["data", "accuracy", "epsilon at rows", "power", "misfit of log epsilon"], lines)

    return {"law_table": law_table, "percent": percent}
