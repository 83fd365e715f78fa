"""What the template of docs/results/tramer_boneh_scatter.md computes: summaries, best points and plots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from privaware.bench._store import Cell
from research.papers import tramer_boneh as paper
from research.papers._crossing_plots import line_chart
from research.papers._page import Page
from research.papers._prices import PaperPrices
from research.papers._tramer_boneh_runs import TABLE13, TABLE16

__all__ = ["functions"]

NAMES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
BLUE, ORANGE, GREY = "#3f7fc1", "#d07a2d", "#8a8f98"
WAYS = {"classic": "DP-SGD, their accountant", "ours": "DP-SGD, ours", "iteration": "iteration"}


def functions(page: Page) -> dict[str, Any]:
    """What the template uses."""
    cnn = Page("tramer_boneh_cnn", page.results)
    known: list[Callable[..., Any]] = [budgets, curves, best_point, plot_noise, plot_ways, scores]
    return {
        **{function.__name__: partial(function, page) for function in known},
        "cnn_scores": lambda data: scores(cnn, f"table13/pixels/{data}"),
        "percent": percent,
        "summary": summary,
        "median": np.median,
        "median_bounds": median_bounds,
        "names": NAMES,
        "paper": paper,
        "prices": PaperPrices("tramer_boneh").known,
        "table13": TABLE13,
        "table16": TABLE16,
    }


def scores(page: Page, item: str, field: str = "score", **settings: Any) -> list[float]:
    """The results of an item's cells with these settings."""
    cells = page.cells(f"tramer_boneh/{item}")
    chosen = [cell for cell in cells if all(cell.settings[name] == value for name, value in settings.items())]
    return [cell.result[field] for cell in chosen]


def percent(values: Sequence[float]) -> str:
    """Mean and standard deviation in per cent, and the number of seeds if it is not five."""
    if not values:
        return "not run"
    if len(values) == 1:
        return f"{100 * values[0]:.2f} (one seed)"
    low, mean, _ = band(values)
    return f"{mean:.2f} ± {mean - low:.2f}" + ("" if len(values) == 5 else f" ({len(values)} seeds)")


def band(values: Sequence[float]) -> tuple[float, float, float]:
    percentages = 100 * np.asarray(values)
    spread = percentages.std(ddof=1) if len(percentages) > 1 else 0.0
    return float(percentages.mean() - spread), float(percentages.mean()), float(percentages.mean() + spread)


def summary(values: Sequence[float]) -> list[str]:
    """Minimum, maximum, median and median absolute deviation, in per cent."""
    percentages = 100 * np.array(values)
    median = np.median(percentages)
    numbers = (percentages.min(), percentages.max(), median, np.median(np.abs(percentages - median)))
    return [f"{number:.2f}" for number in numbers]


def median_bounds(values: Sequence[float], grid: int) -> str:
    """Where the median of the full grid lies, if the other points are all the worst or all the best."""
    missing = grid - len(values)
    if not missing:
        return ""
    low, high = (100 * float(np.median([*values, *[end] * missing])) for end in (0.0, 1.0))
    return f" [{low:.2f}, {high:.2f}]"


def curves(page: Page) -> list[dict[str, Any]]:
    """The best priced epoch within the budgets of Table 1; adds the plot of accuracy against epsilon."""
    points: list[dict[str, Any]] = []
    rows = []
    for (data, model), published in paper.TABLE1.items():
        kind = "floored 8" if (data, model) == ("cifar10", "cnn") else TABLE13[data, model]["kind"]
        by_epoch: dict[int, list[float]] = defaultdict(list)
        for cell in page.cells(f"tramer_boneh/table1/{model}/{data}"):
            for epoch, score in cell.result["curve"] if cell.settings["kind"] == kind else ():
                by_epoch[int(epoch)].append(score)
        prices = page.cell("tramer_boneh/figure1", data=data, head=model).result["curve"]
        known = [(epoch, classic, ours, by_epoch[epoch]) for epoch, classic, ours in prices if epoch in by_epoch]
        for epoch, classic, ours, values in known:
            low, mean, high = band(values)
            common = {"data": NAMES[data], "head": model, "accuracy": mean, "low": low, "high": high, "epoch": epoch}
            points += [{**common, "epsilon": classic, "bound": "classic"}, {**common, "epsilon": ours, "bound": "ours"}]
        for target, accuracy in published.items():
            within = [entry for entry in known if entry[1] <= target]
            epoch, classic, ours, values = max(within, key=lambda entry: np.mean(entry[3]))
            row = {"data": data, "head": model, "target": target, "published": accuracy[0], "values": values}
            rows.append({**row, "epoch": epoch, "classic": classic, "ours": ours})
    page.charts["curves"] = curve_chart(points)
    return rows


def budgets(page: Page) -> list[dict[str, Any]]:
    """Return the best accuracy within each budget, and add its plot; empty if no such item is run."""
    import altair as alt

    rows: list[dict[str, Any]] = []
    for data, head in TABLE13:
        published = {epsilon: value[0] for epsilon, value in paper.TABLE1.get((data, head), {}).items()}
        for cell in page.cells(f"tramer_boneh/figure1/{head}/{data}"):
            for budget, chosen in cell.result["budgets"].items():
                known = {"data": data, "head": head, "budget": float(budget)}
                rows.append({**known, "published": published.get(float(budget), ""), **chosen})
    if rows:
        points = [
            {"epsilon": row["budget"], "head": row["head"], "data": NAMES[row["data"]]}
            | {"accuracy": band(row["scores"])[1]}
            for row in rows
        ]
        heads = alt.Scale(domain=["linear", "cnn", "pixels"], range=[BLUE, ORANGE, GREY])
        page.charts["figure1"] = alt.hconcat(
            *(
                line_chart(
                    [point for point in points if point["data"] == name],
                    alt.X("epsilon:Q", title="classic epsilon"),
                    alt.Y("accuracy:Q", title="test accuracy, per cent", scale=alt.Scale(zero=False)),
                    alt.Color("head:N", scale=heads, title=None),
                    point=True,
                ).properties(width=240, height=220, title=name)
                for name in NAMES.values()
            )
        )
    return rows


def best_point(page: Page, item: str, **settings: Any) -> tuple[Mapping[str, Any], list[float]]:
    """Settings and scores of the point of an item whose mean over the seeds is best."""
    groups: dict[tuple[Any, ...], list[Cell]] = defaultdict(list)
    for cell in page.cells(f"tramer_boneh/{item}"):
        if settings.items() <= cell.settings.items():
            groups[tuple(v for k, v in cell.settings.items() if k != "seed")].append(cell)
    points = [(cells[0].settings, [cell.result["score"] for cell in cells]) for cells in groups.values()]
    return max(points, key=lambda point: np.mean(point[1]))


def plot_noise(page: Page) -> str:
    """Adds the plot of Figure 9."""
    import altair as alt

    lines = page.cell("tramer_boneh/figure9").result["lines"]
    points = [
        {"epsilon": line["epsilon"], "noise": line[key], "way": name}
        for line in lines
        for key, name in WAYS.items()
        if line[key]
    ]
    names = list(WAYS.values())
    colours = alt.Scale(domain=names, range=[ORANGE, BLUE, GREY])
    page.charts["figure9"] = line_chart(
        points,
        alt.X("epsilon:Q", scale=alt.Scale(type="log"), title="epsilon"),
        alt.Y("noise:Q", scale=alt.Scale(type="log"), title="noise multiplier"),
        alt.Color("way:N", sort=names, scale=colours, title=None),
    ).properties(width=420, height=280)
    return ""


def plot_ways(page: Page) -> str:
    """Adds the plot of Figure 10."""
    import altair as alt

    points = [
        {"epsilon": epsilon, "way": name, "accuracy": band(best_point(page, f"figure10/{way}", epsilon=epsilon)[1])[1]}
        for epsilon in (0.5, 1.0, 2.0, 3.0)
        for way, name in (("iteration", "iteration"), ("dpsgd", "DP-SGD"))
    ]
    colours = alt.Scale(domain=["DP-SGD", "iteration"], range=[BLUE, GREY])
    page.charts["figure10"] = line_chart(
        points,
        alt.X("epsilon:Q", title="epsilon"),
        alt.Y("accuracy:Q", title="test accuracy, per cent", scale=alt.Scale(zero=False)),
        alt.Color("way:N", scale=colours, title=None),
        point=True,
    ).properties(width=420, height=260)
    return ""


def curve_chart(points: list[dict[str, Any]]) -> Any:
    import altair as alt

    legend = alt.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3, symbolSize=400)
    heads = alt.Scale(domain=["linear", "cnn"], range=[BLUE, ORANGE])
    bounds = alt.Scale(domain=["classic", "ours"], range=[[4, 3], [1, 0]])
    charts = []
    for name in NAMES.values():
        base = alt.Chart(alt.InlineData(values=[p for p in points if p["data"] == name])).encode(
            x=alt.X("epsilon:Q", title="epsilon (solid ours, dashed classic)"),
            color=alt.Color("head:N", scale=heads, title="head", legend=legend),
        )
        low = alt.Y("low:Q", scale=alt.Scale(zero=False))
        y = alt.Y("accuracy:Q", title="test accuracy, per cent", scale=alt.Scale(zero=False))
        area = base.mark_area(opacity=0.12).encode(y=low, y2="high:Q", detail="bound:N")
        dash = alt.StrokeDash("bound:N", scale=bounds, legend=None)
        line = base.mark_line(strokeWidth=2, point=True).encode(y=y, strokeDash=dash)
        charts.append((area + line).properties(width=260, height=240, title=name))
    return alt.hconcat(*charts)
