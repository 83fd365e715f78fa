"""Charts of `docs/results/features.md`, and where two lines cross."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from privaware.report import plot

Lines = dict[str, dict[float, list[float]]]
"""By name: epsilon (or size) to mean and spread."""


def crossing(gaps: dict[float, tuple[float, float]], level: float = 0.999) -> tuple[float, float, float]:
    """The largest epsilon at which few columns win, with an interval for errors of the gaps.

    `gaps` are points by which few columns are better, and their standard errors; between budgets the gap
    is taken to be straight in log epsilon. 0 where few never win, infinity where they still do at the end.

    >>> middle, low, high = crossing({1.0: (2.0, 0.1), 10.0: (-2.0, 0.1)})
    >>> round(middle, 2), low < middle < high
    (3.16, True)
    """
    at = np.log(np.array(sorted(gaps)))
    mean, error = np.array([gaps[epsilon] for epsilon in sorted(gaps)]).T
    drawn = mean + error * np.random.default_rng(0).standard_normal((4000, len(mean)))
    ends = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile([last_win(at, line) for line in drawn], ends, method="nearest")
    return last_win(at, mean), float(low), float(high)


def last_win(at: np.ndarray, gap: np.ndarray) -> float:
    """Where a gap falls to 0 for good; `at` are logs of epsilon, and so is the way between them."""
    wins = np.flatnonzero(gap > 0)
    if not len(wins):
        return 0.0
    last = wins[-1]
    if last == len(gap) - 1:
        return float("inf")
    share = gap[last] / (gap[last] - gap[last + 1])
    return float(np.exp(at[last] + share * (at[last + 1] - at[last])))


def told(found: tuple[float, float, float]) -> str:
    """An interval in words."""
    low, high = (f"{value:.3g}" for value in found[1:])
    return f"beyond {low}" if np.isinf(found[2]) else f"{low} to {high}"


def by_size(points: list[tuple[int, str, list[float]]], path: Path, constant: float) -> None:
    """Accuracy against the number of columns, best first, one line an epsilon."""
    import altair as alt

    values = [
        {
            "columns": size,
            "epsilon": "none" if float(e) >= 1e9 else f"{float(e):g}",
            "accuracy": score[0],
            "low": score[0] - score[1],
            "high": score[0] + score[1],
        }
        for size, e, score in points
    ]
    order = sorted({v["epsilon"] for v in values}, key=lambda e: float("inf") if e == "none" else float(e))
    colour = alt.Color(
        "epsilon:N",
        sort=order,
        scale=alt.Scale(scheme="viridis"),
        legend=alt.Legend(symbolOpacity=1, symbolType="stroke"),
    )
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("columns:Q", title="columns, best first"), color=colour
    )
    y = alt.Y("accuracy:Q", title="test accuracy, per cent", scale=alt.Scale(zero=False))
    band = base.mark_area(opacity=0.05).encode(y=alt.Y("low:Q"), y2="high:Q")
    chart = band + base.mark_line(strokeWidth=2).encode(y=y) + _rule(constant)
    plot(chart.properties(width=520, height=340), path)


def by_epsilon(lines: Lines, path: Path, constant: float | None = None) -> None:
    """Accuracy against epsilon, one line a set of columns, with bands of one spread."""
    import altair as alt

    values = [
        {
            "epsilon": epsilon,
            "columns": name,
            "accuracy": score[0],
            "low": score[0] - score[1],
            "high": score[0] + score[1],
        }
        for name, line in lines.items()
        for epsilon, score in sorted(line.items())
        if epsilon < 1e9
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("epsilon:Q", scale=alt.Scale(type="log"), title="epsilon"),
        color=alt.Color("columns:N", sort=list(lines), legend=alt.Legend(symbolOpacity=1, symbolType="stroke")),
    )
    y = alt.Y("accuracy:Q", title="test accuracy, per cent", scale=alt.Scale(zero=False))
    band = base.mark_area(opacity=0.1).encode(y=alt.Y("low:Q"), y2="high:Q")
    chart: Any = band + base.mark_line(strokeWidth=2, point=True).encode(y=y)
    if constant is not None:
        chart = chart + _rule(constant)
    plot(chart.properties(width=520, height=300), path)


def _rule(constant: float) -> Any:
    """The accuracy of a constant."""
    import altair as alt

    data = alt.InlineData(values=[{"constant": constant}])
    return alt.Chart(data).mark_rule(strokeDash=[4, 4], color="grey").encode(y="constant:Q")
