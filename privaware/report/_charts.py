"""A chart of true against false positive rates of attacks, a bound on them, and charts as SVG and as files."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from privaware.errors import WrongInput

# Mid tones that are readable on white and on near-black; text and axes take the colour of the page.
BLUE = "#3f7fc1"
ORANGE = "#d07a2d"
GREY = "#8a8f98"

WIDTH = 300
"""Width of a chart in pixels, small enough to keep letters readable on a phone."""

HEIGHT = 240
"""Height of a chart in pixels."""

LEAST_RATE = 1e-4
"""Smallest rate on the axes of the chart."""
FORMATS = (".png", ".svg", ".pdf")


def power(epsilon: float, delta: float, fpr: float) -> float:
    """Return the largest true positive rate of any membership attack at a false positive rate.

    Paper: Kairouz, Oh, Viswanath, "The composition theorem for differential privacy" (2015).

    Parameters
    ----------
    epsilon, delta
        The guarantee.
    fpr
        The false positive rate.

    Returns
    -------
    float
        The largest true positive rate; 1 for an infinite `epsilon`. A negative `epsilon`, or `delta` or `fpr` outside
        [0, 1], raises `WrongInput`.

    Examples
    --------
    >>> power(0.0, 0.0, 0.01), round(power(1.0, 1e-5, 0.01), 5)
    (0.01, 0.02719)
    """
    if not (epsilon >= 0 and 0 <= delta <= 1 and 0 <= fpr <= 1):
        raise WrongInput(f"power: expected epsilon >= 0 and delta and fpr in [0, 1], got {(epsilon, delta, fpr)}")
    if math.isinf(epsilon):
        return 1.0
    low = math.exp(min(epsilon, 700.0)) * fpr + delta  # e^700 is near the largest float
    high = 1 - math.exp(-epsilon) * (1 - delta - fpr)
    return min(low, high, 1.0)


def rates(curves: Mapping[str, Sequence[tuple[float, float]]]) -> Any:
    """Return an Altair chart of true against false positive rates on logarithmic axes; the last curve is dashed.

    `curves` has the points (false positive rate, true positive rate) of each curve by name, three curves at most.
    Points with a false positive rate below `LEAST_RATE` are left out, and lower true positive rates are raised to it.
    """
    import altair as alt

    names = list(curves)
    rows = [
        {"who": who, "x": x, "y": max(y, LEAST_RATE)}
        for who, points in curves.items()
        for x, y in points
        if x >= LEAST_RATE
    ]
    scale = alt.Scale(domain=names, range=[*(ORANGE, BLUE)[: len(names) - 1], GREY])
    dash = alt.Scale(domain=names, range=[[1, 0]] * (len(names) - 1) + [[6, 4]])
    legend = alt.Legend(title=None, orient="top", symbolStrokeWidth=3, symbolSize=400, columns=2, labelLimit=0)
    axis = alt.Axis(format="~%", values=[1e-4, 1e-3, 1e-2, 0.1, 1.0], labelFlush=False)
    edge = alt.Scale(type="log", domain=[LEAST_RATE, 1])
    chart = alt.Chart(alt.InlineData(values=rows)).mark_line(strokeWidth=3)
    return styled(
        chart.encode(
            x=alt.X("x:Q", title="false positive rate", axis=axis, scale=edge),
            y=alt.Y("y:Q", title="true positive rate", axis=axis, scale=edge),
            color=alt.Color("who:N", scale=scale, legend=legend),
            strokeDash=alt.StrokeDash("who:N", scale=dash, legend=legend),
        ).properties(width=WIDTH, height=HEIGHT)
    )


def styled(chart: Any) -> Any:
    """Return a chart in the style of all charts: no background; axes and legend in the text colour of the page."""
    axis = {f"{part}Color": "currentColor" for part in ("label", "title", "domain", "tick", "grid")}
    return (
        chart.configure(font="sans-serif", background="transparent")
        .configure_view(stroke=None)
        .configure_axis(
            labelFontSize=13,
            titleFontSize=13,
            titleFontWeight="normal",
            titlePadding=10,
            gridOpacity=0.15,
            domainOpacity=0.5,
            tickOpacity=0.5,
            **axis,
        )
        .configure_legend(labelFontSize=13, labelColor="currentColor")
    )


def render(chart: Any) -> str:
    """Return a chart as static SVG for a page: no script, no fixed size, nothing to fetch."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg(chart.to_dict(), allowed_base_urls=[])
    head, rest = svg.split(">", 1)
    head = re.sub(r'\s(?:xmlns(?::\w+)?|width|height|version|class)="[^"]*"', "", head)
    return f'{head} aria-hidden="true" focusable="false">{rest}'


def svg(chart: Any) -> bytes:
    """Return a chart as the content of an SVG file."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_svg(chart.to_dict(), allowed_base_urls=[]).encode("utf-8"))


def save(chart: Any, path: Path) -> Path:
    """Save an Altair chart as PNG, SVG or PDF, by the suffix of `path`, and return `path`.

    An existing file is replaced. Raise `WrongInput` for any other suffix, and if the file cannot be written.
    """
    import vl_convert

    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise WrongInput(f"expected a plot's name ending in .png, .svg or .pdf, got {path.name!r}")
    spec = chart.to_dict()
    if kind == ".png":
        content = vl_convert.vegalite_to_png(spec, scale=2, allowed_base_urls=[])
    elif kind == ".pdf":
        content = vl_convert.vegalite_to_pdf(spec, allowed_base_urls=[])
    else:
        content = svg(chart)
    try:
        path.write_bytes(content)
    except OSError as problem:
        raise WrongInput(f"cannot write the plot {path}: {problem.strerror or problem}") from None
    return path
