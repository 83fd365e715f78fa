"""The charged score of a model: the only score that a report or an exported card shows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privaware.card import ModelCard
from privaware.report._words import number, rounded_up

__all__ = ["BoughtScore", "bought_score", "score_view"]

NAMES = {"accuracy": "accuracy", "auc": "AUC", "r2": "R2", "mae": "mean absolute error"}


@dataclass(frozen=True, kw_only=True)
class BoughtScore:
    """A noisy score on held-out rows with its 95% interval and its cost.

    For two classes there is also a noisy confusion matrix.
    """

    metric: str
    value: float
    low: float
    high: float
    epsilon: float
    rows: float
    confusion: tuple[tuple[float, ...], ...] = ()

    @property
    def name(self) -> str:
        """The name of the metric in words."""
        return NAMES[self.metric]


def bought_score(card: ModelCard) -> BoughtScore | None:
    """Return the charged score on a card; None if there is none or its entries are not valid."""
    entries = card.score
    numbers = {name: entries.get(name) for name in ("value", "low", "high", "epsilon", "rows")}
    if str(entries.get("metric")) not in NAMES or not all(_is_number(value) for value in numbers.values()):
        return None
    table = entries.get("confusion")
    size = len(card.schema.classes)
    square = isinstance(table, list) and len(table) == size and all(_is_line(line, size) for line in table)
    return BoughtScore(
        metric=str(entries["metric"]),
        confusion=tuple(tuple(map(float, line)) for line in table) if square and table is not None else (),
        **{name: float(value) for name, value in numbers.items() if value is not None},
    )


def score_view(card: ModelCard) -> dict[str, Any] | None:
    """Return the score in words, and its confusion matrix with negative counts shown as zero."""
    score = bought_score(card)
    if score is None:
        return None
    name = score.name[:1].upper() + score.name[1:]
    return {
        "sentence": (
            f"{name} {number(score.value, 4)}, 95% interval {number(score.low, 4)} to {number(score.high, 4)}, "
            f"on about {number(round(score.rows))} held-out rows"
        ),
        "epsilon": rounded_up(score.epsilon),
        "table": [
            (name, [number(max(0, round(count))) for count in line])
            for name, line in zip(card.schema.classes, score.confusion, strict=False)
        ],
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_line(line: Any, size: int) -> bool:
    return isinstance(line, list) and len(line) == size and all(_is_number(count) for count in line)
