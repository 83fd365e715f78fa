"""Scores along a curve with their confidence intervals, as plain values and as a chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

COLOURS = ("#3f7fc1", "#d07a2d", "#4b9a5f", "#a5568f", "#8a8f98", "#b5a12e", "#6b62b8", "#c1504f")
WIDTH = 480
"""Width of a chart in pixels."""

HEIGHT = 300
"""Height of a chart in pixels."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """The scores of one curve at one x: their mean, standard deviation, and the ends of a t-interval of the mean.

    `spread` is the sample standard deviation. With one score, `spread` is 0, and `low` and `high` are the score.
    """

    curve: str
    x: float
    mean: float
    spread: float
    low: float
    high: float
    scores: tuple[float, ...]


def interval(scores: Sequence[float], confidence: float = 0.95, *, share: bool = False) -> tuple[float, float]:
    """Return the ends of the t-interval of the mean of `scores`; both ends are the score if there is only one.

    The interval has this `confidence`, between 0 and 1. `share=True` limits it to [0, 1].

    >>> [round(end, 3) for end in interval([0.9, 0.92, 0.94])]
    [0.87, 0.97]
    """
    values = np.asarray(scores, dtype=float)
    mean = float(values.mean())
    if len(values) < 2:
        return mean, mean
    from scipy import stats

    reach = float(stats.t.ppf((1 + confidence) / 2, len(values) - 1) * values.std(ddof=1)) / math.sqrt(len(values))
    low, high = mean - reach, mean + reach
    return (max(low, 0.0), min(high, 1.0)) if share else (low, high)


def point(curve: str, x: float, scores: Sequence[float], confidence: float = 0.95, *, share: bool = False) -> Point:
    """Build the point at `x` of the curve called `curve`: the mean of `scores`, their spread and a t-interval.

    The t-interval of the mean has the level `confidence`; `share=True` limits it to [0, 1].
    """
    low, high = interval(scores, confidence, share=share)
    spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0
    return Point(
        curve=curve,
        x=float(x),
        mean=float(np.mean(scores)),
        spread=spread,
        low=low,
        high=high,
        scores=tuple(float(score) for score in scores),
    )


def lines(points: Sequence[Point], *, x: str = "epsilon", y: str = "accuracy", log: bool = True) -> Any:
    """Return a chart of the curves through `points`, with their intervals as shaded bands.

    `x` and `y` are the titles of the axes. With `log`, the x axis is logarithmic.
    """
    import altair as alt

    rows = [{"curve": p.curve, "x": p.x, "y": p.mean, "low": p.low, "high": p.high} for p in points]
    names = list(dict.fromkeys(p.curve for p in points))
    colours = [COLOURS[at % len(COLOURS)] for at in range(len(names))]
    dashes = [[1, 0] if at < len(COLOURS) else [5, 3] for at in range(len(names))]
    scale = alt.Scale(type="log") if log else alt.Scale(zero=False)
    legend = alt.Legend(title=None, orient="top", columns=2, labelLimit=260, symbolOpacity=1, symbolType="stroke")
    colour = alt.Color("curve:N", scale=alt.Scale(domain=names, range=colours), legend=legend)
    dash = alt.StrokeDash("curve:N", scale=alt.Scale(domain=names, range=dashes), legend=legend)
    axis = alt.Axis(format="~g", tickCount=8) if not log else alt.Axis(format="~g")
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=alt.X("x:Q", title=x, scale=scale, axis=axis), color=colour)
    band = base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", title=y, scale=alt.Scale(zero=False)), y2="high:Q")
    line = base.mark_line(strokeWidth=2.5).encode(y="y:Q", strokeDash=dash)
    dots = base.mark_point(size=30, filled=True, opacity=1).encode(y="y:Q")
    return _styled((band + line + dots).properties(width=WIDTH, height=HEIGHT))


def _styled(chart: Any) -> Any:
    """Style a chart as the charts of the report are styled, but on a white background, because it is its own file."""
    return (
        chart.configure(font="sans-serif", background="white")
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=13, titleFontSize=13, titleFontWeight="normal", gridOpacity=0.4)
        .configure_legend(labelFontSize=13)
    )
