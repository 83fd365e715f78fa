"""Plots of accuracy against epsilon or columns, and where two curves cross (docs/results/features.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["Curves", "crossing", "interval", "last_win", "line_chart", "plot_by_columns", "plot_by_epsilon"]

Curves = Mapping[str, Mapping[float, Sequence[float]]]
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
    samples = mean + error * np.random.default_rng(0).standard_normal((4000, len(mean)))
    ends = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile([last_win(at, line) for line in samples], ends, method="nearest")
    return last_win(at, mean), float(low), float(high)


def last_win(at: np.ndarray, gap: np.ndarray) -> float:
    """The epsilon at which a gap falls to 0 for good; `at` are logarithms of epsilon, between which it is linear."""
    wins = np.flatnonzero(gap > 0)
    if not len(wins):
        return 0.0
    last = wins[-1]
    if last == len(gap) - 1:
        return float("inf")
    share = gap[last] / (gap[last] - gap[last + 1])
    return float(np.exp(at[last] + share * (at[last + 1] - at[last])))


def interval(place: tuple[float, float, float]) -> str:
    """An interval in words."""
    low, high = (f"{value:.3g}" for value in place[1:])
    return f"beyond {low}" if np.isinf(place[2]) else f"{low} to {high}"


def line_chart(values: list[dict[str, Any]], x: Any, y: Any, colour: Any, *, band: float = 0.0, **mark: Any) -> Any:
    """Lines, and where `band` is an opacity, areas from `low` to `high` behind them."""
    import altair as alt

    base = alt.Chart(alt.InlineData(values=values)).encode(x=x, color=colour)
    lines = base.mark_line(strokeWidth=2, **mark).encode(y=y)
    return base.mark_area(opacity=band).encode(y=alt.Y("low:Q"), y2="high:Q") + lines if band else lines


def plot_by_columns(points: Sequence[tuple[int, str, Sequence[float]]], constant: float) -> Any:
    """Accuracy against the number of columns, best first, one line an epsilon."""
    import altair as alt

    values = [
        {"columns": size, "epsilon": "none" if float(e) >= 1e9 else f"{float(e):g}", **_band(score)}
        for size, e, score in points
    ]
    order = sorted({str(v["epsilon"]) for v in values}, key=lambda e: float("inf") if e == "none" else float(e))
    legend = alt.Legend(symbolOpacity=1, symbolType="stroke")
    colour = alt.Color("epsilon:N", sort=order, scale=alt.Scale(scheme="viridis"), legend=legend)
    x = alt.X("columns:Q", title="columns, best first")
    chart = line_chart(values, x, _accuracy(), colour, band=0.05) + _rule(constant)
    return chart.properties(width=520, height=340)


def plot_by_epsilon(lines: Curves, constant: float) -> Any:
    """Accuracy against epsilon, one line a set of columns, with bands of one spread."""
    import altair as alt

    values = [
        {"epsilon": epsilon, "columns": name, **_band(score)}
        for name, line in lines.items()
        for epsilon, score in sorted(line.items())
        if epsilon < 1e9
    ]
    x = alt.X("epsilon:Q", scale=alt.Scale(type="log"), title="epsilon")
    colour = alt.Color("columns:N", sort=list(lines), legend=alt.Legend(symbolOpacity=1, symbolType="stroke"))
    chart = line_chart(values, x, _accuracy(), colour, band=0.1, point=True) + _rule(constant)
    return chart.properties(width=520, height=300)


def _band(score: Sequence[float]) -> dict[str, float]:
    return {"accuracy": score[0], "low": score[0] - score[1], "high": score[0] + score[1]}


def _accuracy() -> Any:
    import altair as alt

    return alt.Y("accuracy:Q", title="test accuracy, per cent", scale=alt.Scale(zero=False))


def _rule(constant: float) -> Any:
    """The accuracy of a constant."""
    import altair as alt

    data = alt.InlineData(values=[{"constant": constant}])
    return alt.Chart(data).mark_rule(strokeDash=[4, 4], color="grey").encode(y="constant:Q")
