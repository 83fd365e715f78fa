"""The two charts of the page, the bound behind one of them, and how charts become SVG and files."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from privaware.errors import WrongInput

__all__ = ["budget", "power", "render", "risk", "save", "styled"]

# Middle tones, readable on white and on near-black; text and axes take the colour of the page.
BLUE, ORANGE, GREY = "#3f7fc1", "#d07a2d", "#8a8f98"
WIDTH = 420
FORMATS = (".png", ".svg", ".pdf")


def power(epsilon: float, delta: float, fpr: float) -> float:
    """The largest true positive rate of any membership attack at a false positive rate.

    Paper: Kairouz, Oh, Viswanath, "The composition theorem for differential privacy" (2015).

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


def risk(epsilon: float, delta: float) -> Any:
    """The attack-risk curve of a guarantee, next to guessing."""
    import altair as alt

    # The bound is piecewise linear: its ends and corners suffice.
    corner = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    best, guess = "best possible attacker", "guessing"
    rows: list[dict[str, Any]] = [
        {"who": best, "x": x, "y": power(epsilon, delta, x)} for x in sorted({0.0, corner, 1 - delta, 1.0})
    ]
    rows += [{"who": guess, "x": x, "y": x} for x in (0.0, 1.0)]
    scale = alt.Scale(domain=[best, guess], range=[ORANGE, GREY])
    dash = alt.Scale(domain=[best, guess], range=[[1, 0], [6, 4]])
    legend = alt.Legend(title=None, orient="top", symbolStrokeWidth=3, symbolSize=400)
    ticks = alt.Axis(format="%", tickCount=5)
    edge = alt.Scale(domain=[0, 1])
    chart = alt.Chart(alt.InlineData(values=rows)).mark_line(strokeWidth=3, clip=False)
    return styled(
        chart.encode(
            x=alt.X("x:Q", title="false alarms: non-members accused", axis=ticks, scale=edge),
            y=alt.Y("y:Q", title="members found, at most", axis=ticks, scale=edge),
            color=alt.Color("who:N", scale=scale, legend=legend),
            strokeDash=alt.StrokeDash("who:N", scale=dash, legend=legend),
        ).properties(width=WIDTH, height=300)
    )


def budget(parts: Sequence[tuple[str, float, str]], total: tuple[str, float, str]) -> Any:
    """The epsilon of each part alone, and of their composition: (name, epsilon, epsilon as text)."""
    import altair as alt

    rows: list[dict[str, Any]] = [
        {"what": f"{number}. {what}", "epsilon": epsilon, "said": text, "kind": "alone"}
        for number, (what, epsilon, text) in enumerate(parts, 1)
    ]
    rows.append({"what": total[0], "epsilon": total[1], "said": total[2], "kind": "together"})
    top = max(total[1], 1e-9, *(epsilon for _, epsilon, _ in parts))
    bars = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y(
            "what:N",
            sort=[row["what"] for row in rows],
            axis=alt.Axis(title=None, labelLimit=180, ticks=False, domain=False),
        ),
        x=alt.X(
            "epsilon:Q",
            title="epsilon",
            axis=alt.Axis(tickCount=4, format="~g"),
            scale=alt.Scale(domain=[0, 1.18 * top], nice=False),  # room for the last number
        ),
    )
    kinds = alt.Scale(domain=["alone", "together"], range=[BLUE, ORANGE])
    marks = bars.mark_bar(size=18).encode(color=alt.Color("kind:N", scale=kinds, legend=None))
    labels = bars.mark_text(align="left", dx=5, fontSize=13, color="currentColor").encode(text="said:N")
    return styled((marks + labels).properties(width=WIDTH - 130, height=alt.Step(30)))


def styled(chart: Any) -> Any:
    """The look of every chart: transparent, in the colours of the page."""
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
    """A chart as static SVG for a page: no script, no fixed size, nothing to fetch."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg(chart.to_dict(), allowed_base_urls=[])
    head, rest = svg.split(">", 1)
    head = re.sub(r'\s(?:xmlns(?::\w+)?|width|height|version|class)="[^"]*"', "", head)
    return f'{head} aria-hidden="true" focusable="false">{rest}'


def save(chart: Any, path: Path) -> Path:
    """A chart as PNG, SVG or PDF, by the suffix of `path`."""
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
        content = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]).encode("utf-8")
    try:
        path.write_bytes(content)
    except OSError as problem:
        raise WrongInput(f"cannot write the plot {path}: {problem.strerror or problem}") from None
    return path
