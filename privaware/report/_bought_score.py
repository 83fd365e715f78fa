"""The charged score of a model: the only score that a report or an exported card shows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privaware.card import ModelCard
from privaware.report._words import number, rounded_up

NAMES = {"accuracy": "accuracy", "auc": "AUC", "r2": "R2", "mae": "mean absolute error"}


CONSTANTS = {"accuracy": "the most frequent class", "r2": "the mean", "mae": "the private median"}
"""The constant prediction that a score is compared with, by metric."""


@dataclass(frozen=True, kw_only=True)
class BoughtScore:
    """A noisy score on held-out rows with its 95% interval (`low`, `high`) and its cost `epsilon`.

    `metric` is a key of `NAMES`. `rows` is the noisy number of held-out rows. `constant` has the score of a constant
    prediction and the ends of its interval, or is None if this score is not known. `confusion` has the noisy confusion
    matrix, with value, low and high for each true class (rows) and predicted class; it is empty if the card has none.
    """

    metric: str
    value: float
    low: float
    high: float
    epsilon: float
    rows: float
    constant: tuple[float, float, float] | None = None
    confusion: tuple[tuple[tuple[float, float, float], ...], ...] = ()

    @property
    def name(self) -> str:
        """The name of the metric in words."""
        return NAMES[self.metric]

    @property
    def constant_sentence(self) -> str:
        """A sentence with the score of a constant prediction, and a second one if the model is not clearly better.

        The text is empty if `constant` is None.
        """
        if self.constant is None:
            return ""
        compared = compared_words(self.metric, (self.low, self.high), self.constant[1:])
        return f"{constant_words(self.metric, *self.constant)}{compared}"


def constant_words(metric: str, value: float, low: float, high: float) -> str:
    """Return the score of a constant prediction for `metric` in one sentence, with its 95% interval (low, high).

    If `low >= high`, the sentence says "by definition" instead of the interval.

    >>> constant_words("accuracy", 0.6, 0.55, 0.65)
    'A constant prediction (the most frequent class) has 0.6, 95% interval 0.55 to 0.65.'
    """
    what = f" ({CONSTANTS[metric]})" if metric in CONSTANTS else ""
    ends = _between(low, high) if low < high else ", by definition"
    return f"A constant prediction{what} has {number(value, 4)}{ends}."


def compared_words(metric: str, score: tuple[float, float], constant: tuple[float, float]) -> str:
    """Return a sentence, after a blank, if a model is not clearly better than a constant prediction; else empty text.

    `score` and `constant` are the intervals (low, high) of the score of the model and of the constant prediction. The
    model is clearly better if the intervals do not overlap and its score is smaller (`metric` "mae") or larger (all
    other metrics). Otherwise the sentence says that the intervals overlap, or that the model is worse.

    >>> compared_words("mae", (1.0, 2.0), (3.0, 4.0)), compared_words("accuracy", (0.5, 0.6), (0.7, 0.8))
    ('', ' The model is worse than this constant prediction.')
    """
    if score[0] <= constant[1] and constant[0] <= score[1]:
        return " The two intervals overlap, so the model may have learned nothing."
    larger = score[0] > constant[1]
    return " The model is worse than this constant prediction." if larger == (metric == "mae") else ""


def bought_score(card: ModelCard) -> BoughtScore | None:
    """Return the charged score on a card, or None if the card has no score or an invalid one."""
    entries = card.score
    numbers = {name: entries.get(name) for name in ("value", "low", "high", "epsilon", "rows")}
    if str(entries.get("metric")) not in NAMES or not all(_is_number(value) for value in numbers.values()):
        return None
    return BoughtScore(
        metric=str(entries["metric"]),
        constant=_estimate(entries.get("constant")),
        confusion=_confusion(card),
        **{name: float(value) for name, value in numbers.items() if value is not None},
    )


def score_view(card: ModelCard) -> dict[str, Any] | None:
    """Return what a page shows about the charged score, as text; None if the card has no valid score.

    The entries are the score with its interval (`sentence`), the score of a constant prediction (`constant`),
    `epsilon`, the confusion matrix (`table`, with a line for each true class), `threshold` and `calibration`. Negative
    counts are shown as zero.
    """
    score = bought_score(card)
    if score is None:
        return None
    name = score.name[:1].upper() + score.name[1:]
    ends = _between(score.low, score.high)
    return {
        "sentence": f"{name} {number(score.value, 4)}{ends}, on about {number(round(score.rows))} held-out rows",
        "constant": score.constant_sentence,
        "epsilon": rounded_up(score.epsilon),
        "table": [
            (name, [_count(*cell) for cell in line])
            for name, line in zip(card.schema.classes, score.confusion, strict=False)
        ],
        "threshold": _threshold(card),
        "calibration": _calibration(card),
    }


def _threshold(card: ModelCard) -> dict[str, Any] | None:
    """Return the released threshold of the probability as a `sentence`, and the `rates` at it with their intervals.

    The rates are balanced accuracy, sensitivity and specificity, and the balanced accuracy at a threshold of 0.5. Each
    is a tuple of texts: name, rate and interval. Return None without two classes, and if there is no threshold or it is
    not valid.
    """
    entries = card.score.get("threshold")
    if not isinstance(entries, dict) or len(card.schema.classes) != 2:
        return None
    names = ("balanced_accuracy", "at_half", "sensitivity", "specificity")
    estimates = [_estimate(entries), *(_estimate(entries.get(name)) for name in names)]
    value, best, at_half, sensitivity, specificity = estimates
    if value is None or best is None or at_half is None or sensitivity is None or specificity is None:
        return None
    rates = [
        ("balanced accuracy", best),
        (f"found of {card.schema.classes[1]} (sensitivity)", sensitivity),
        (f"found of {card.schema.classes[0]} (specificity)", specificity),
        ("balanced accuracy at 0.5", at_half),
    ]
    sentence = (
        f"To maximise balanced accuracy, predict {card.schema.classes[1]} if its probability is above "
        f"{number(value[0], 4)} (95% interval {number(value[1], 4)} to {number(value[2], 4)})."
    )
    return {"sentence": sentence, "rates": [(name, number(rate[0], 4), _ends(rate)) for name, rate in rates]}


def _calibration(card: ModelCard) -> dict[str, Any] | None:
    """Return `bars`, one for each bin of predicted probability: the 95% interval of the observed frequency of a class.

    With two classes, the frequency is of the second class; with more, of the predicted class. `of` and `observed` name
    this class in words. The start (`left`) and the `width` of a bar, which is drawn from 0 to 1, are in per cent. A bar
    whose interval is 0 to 1 has the width 0, because it tells nothing. Return None if the card has no bins or an
    invalid bin.
    """
    bins = card.score.get("calibration")
    if not isinstance(bins, list) or not bins:
        return None
    lines = []
    for entry in bins:
        observed = _estimate({**entry, "value": entry.get("observed")} if isinstance(entry, dict) else None)
        if observed is None or not all(_is_number(entry.get(name)) for name in ("from", "to", "rows")):
            return None
        low, high = (max(0.0, min(1.0, end)) for end in observed[1:])
        known = high - low < 1
        rows = f"about {number(max(0, round(entry['rows'])))} rows"
        shown = f"{100 * observed[0]:.0f}% ({100 * low:.0f}% to {100 * high:.0f}%)"
        lines.append(
            {
                "name": f"{100 * entry['from']:.0f}% to {100 * entry['to']:.0f}%",
                "left": f"{100 * low:.2f}",
                "width": f"{100 * (high - low) * known:.2f}",
                "value": f"{shown}, {rows}" if known else f"{rows}, too few to tell{_needed(entry)}",
            }
        )
    two = len(card.schema.classes) == 2
    what = f"the class {card.schema.classes[1]}" if two else "the predicted class"
    return {"of": what, "observed": "are of this class" if two else "are of the class predicted", "bars": lines}


def _needed(entry: dict[str, Any]) -> str:
    """Return how many rows a useful interval of a calibration bin needs, in words, from its number `needed`.

    The text is empty if the bin `entry` has no such number, as in cards of earlier versions.
    """
    return f"; a useful interval needs about {number(entry['needed'])}" if _is_number(entry.get("needed")) else ""


def _confusion(card: ModelCard) -> tuple[tuple[tuple[float, float, float], ...], ...]:
    """Return the noisy confusion matrix, a line for each true class and an entry for each predicted class.

    An entry is (value, low, high). For a card of an earlier version, which has no intervals, low and high are the value
    itself. The matrix is empty if the card has no valid one.
    """
    tables = [card.score.get(name) for name in ("confusion", "confusion_low", "confusion_high")]
    size = len(card.schema.classes)
    if not _is_square(tables[0], size):
        return ()
    counts = [table if _is_square(table, size) else tables[0] for table in tables]
    return tuple(
        tuple((float(value), float(low), float(high)) for value, low, high in zip(*lines, strict=True))
        for lines in zip(*counts, strict=True)
    )


def _estimate(entry: Any) -> tuple[float, float, float] | None:
    """Return the entries "value", "low" and "high" of the dict `entry`.

    Return None if it is no dict, or if one of the entries is missing or is no finite number.
    """
    ends: list[Any] = [entry.get(name) for name in ("value", "low", "high")] if isinstance(entry, dict) else []
    if len(ends) != 3 or not all(_is_number(end) for end in ends):
        return None
    return float(ends[0]), float(ends[1]), float(ends[2])


def _between(low: float, high: float) -> str:
    return f", 95% interval {number(low, 4)} to {number(high, 4)}"


def _ends(estimate: tuple[float, float, float]) -> str:
    return f"{number(estimate[1], 4)} to {number(estimate[2], 4)}"


def _count(value: float, low: float, high: float) -> str:
    """Format a count, with its interval unless both ends round to the same number; negative numbers become zero."""
    value, low, high = (max(0, round(end)) for end in (value, low, high))
    return number(value) if low == high else f"{number(value)} ({number(low)} to {number(high)})"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_square(table: Any, size: int) -> bool:
    return isinstance(table, list) and len(table) == size and all(_is_line(line, size) for line in table)


def _is_line(line: Any, size: int) -> bool:
    return isinstance(line, list) and len(line) == size and all(_is_number(count) for count in line)
