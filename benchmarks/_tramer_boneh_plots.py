"""The plots of docs/results/tramer_boneh_scatter.md."""

from __future__ import annotations

from typing import Any

NAMES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
BLUE, ORANGE, GREY = "#3f7fc1", "#d07a2d", "#8a8f98"


def curve_chart(points: list[dict[str, Any]]) -> Any:
    import altair as alt

    charts = []
    legend = alt.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3, symbolSize=400)
    heads = alt.Scale(domain=["linear", "cnn"], range=[BLUE, ORANGE])
    bounds = alt.Scale(domain=["classic", "ours"], range=[[4, 3], [1, 0]])
    for name in NAMES.values():
        some = [p for p in points if p["data"] == name]
        if not some:
            continue
        base = alt.Chart(alt.InlineData(values=some)).encode(
            x=alt.X("epsilon:Q", title="epsilon (solid ours, dashed classic)"),
            color=alt.Color("head:N", scale=heads, title="head", legend=legend),
        )
        y = alt.Y("accuracy:Q", title="test accuracy, per cent", scale=alt.Scale(zero=False))
        band = base.mark_area(opacity=0.12).encode(
            y=alt.Y("low:Q", scale=alt.Scale(zero=False)), y2="high:Q", detail="bound:N"
        )
        line = base.mark_line(strokeWidth=2, point=True).encode(
            y=y, strokeDash=alt.StrokeDash("bound:N", scale=bounds, legend=None)
        )
        charts.append((band + line).properties(width=260, height=240, title=name))
    return alt.hconcat(*charts)


def noise_chart(points: list[dict[str, Any]], order: list[str]) -> Any:
    import altair as alt

    return (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("epsilon:Q", scale=alt.Scale(type="log"), title="epsilon"),
            y=alt.Y("noise:Q", scale=alt.Scale(type="log"), title="noise multiplier"),
            color=alt.Color("way:N", sort=order, scale=alt.Scale(domain=order, range=[ORANGE, BLUE, GREY]), title=None),
        )
        .properties(width=420, height=280)
    )


def ways_chart(points: list[dict[str, Any]]) -> Any:
    import altair as alt

    scale = alt.Scale(domain=["DP-SGD", "iteration"], range=[BLUE, GREY])
    return (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(strokeWidth=2, point=True)
        .encode(
            x=alt.X("epsilon:Q", title="epsilon"),
            y=alt.Y("accuracy:Q", title="test accuracy, per cent", scale=alt.Scale(zero=False)),
            color=alt.Color("way:N", scale=scale, title=None),
        )
        .properties(width=420, height=260)
    )
