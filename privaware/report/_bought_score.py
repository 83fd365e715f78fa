"""The score of a model that was paid for: the only one that a page or a card in another format ever shows."""

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
    """A noisy score on held-out rows with its 95% interval, its price and, for two classes, a noisy confusion table."""

    metric: str
    value: float
    low: float
    high: float
    epsilon: float
    rows: float
    confusion: tuple[tuple[float, ...], ...] = ()

    @property
    def name(self) -> str:
        """The metric as a person calls it."""
        return NAMES[self.metric]


def bought_score(card: ModelCard) -> BoughtScore | None:
    """The score on a card, if one was bought; whatever else stands in its place is left out."""
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
    """The score in words, and its confusion table with counts below zero shown as zero."""
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
