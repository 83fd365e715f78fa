"""Functions of the page of the prior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from privaware.bench._shown import spread
from privaware.workflow._curves import Point, interval, lines
from research.papers._page import Page

__all__ = ["functions"]


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    """What the template calls."""

    def minutes() -> str:
        """Accuracy on CIFAR-10 against minutes on one GPU: three ways, one curve for each epsilon."""
        points = []
        for cell in page.cells("ours/prior/minutes"):
            scores = [100 * score for score in cell.result["scores"]]
            mean, deviation = spread(scores)
            low, high = interval(scores)
            curve = f"epsilon {cell.settings['epsilon']:g}"
            x = cell.result["seconds"] / 60
            points.append(
                Point(curve=curve, x=x, mean=mean, spread=deviation, low=low, high=high, scores=tuple(scores))
            )
        chart = lines(points, x="minutes: one view, several views, fine-tuning", y="accuracy in per cent", log=False)
        return page.plot("minutes", "CIFAR-10: accuracy against minutes on one GPU", chart)

    return {"minutes": minutes}
