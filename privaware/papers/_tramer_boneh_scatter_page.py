"""Tables and plots of docs/results/tramer_boneh_scatter.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from privaware.papers import tramer_boneh as paper
from privaware.papers._page import Page, markdown
from privaware.papers._prices import Prices
from privaware.papers._results import Cell
from privaware.papers._tramer_boneh_runs import TABLE13, TABLE16

__all__ = ["NAMES", "functions", "percent"]

NAMES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
BLUE, ORANGE, GREY = "#3f7fc1", "#d07a2d", "#8a8f98"
RULES = {
    "private 8": "private 8, authors' rule",
    "groups 27": "groups 27",
    "floored 8": "private 8, floor at the noise",
    "exact 8": "exact, **not private**",
}
AIM = 0.4
"""Points of accuracy that a mean may lie below the published one."""


def functions(page: Page) -> dict[str, Any]:
    """What the template uses."""
    cnn = Page("tramer_boneh_cnn", page.results)
    known: list[Callable[..., Any]] = [table1, curves, figure4, figure9, figure10, scores]
    return {
        **{function.__name__: partial(function, page) for function in known},
        "cnn_scores": lambda data: scores(cnn, f"table13/pixels/{data}"),
        "percent": percent,
        "summary": summary,
        "median_bounds": median_bounds,
        "names": NAMES,
        "paper": paper,
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


def table1(page: Page) -> str:
    head = ["data", "head", "batch", "base lr", "epochs", "normalisation", "published", "ours, last model"]
    head += ["ours, best epoch", "each seed", "aim", "seconds a seed"]
    rows = []
    for (data, model), by_epsilon in paper.TABLE1.items():
        published, chosen = list(by_epsilon.values())[-1], TABLE13[data, model]
        cells = page.cells(f"tramer_boneh/table1/{model}/{data}")
        for kind in dict.fromkeys(cell.settings["kind"] for cell in cells):
            last, best = (scores(page, f"table1/{model}/{data}", field, kind=kind) for field in ("score", "best"))
            short = published[0] - AIM - 100 * float(np.mean(last))
            verdict = f"{published[0]} ± {AIM}: {f'**missed by {short:.2f}**' if short > 0 else 'met'}"
            seconds = np.median([cell.run["seconds"] for cell in cells if cell.settings["kind"] == kind])
            row = [NAMES[data], model, f"{chosen['batch']:,}", f"{chosen['base_lr']:g}", chosen["epochs"], RULES[kind]]
            row += [paper.shown(published), percent(last), percent(best), ", ".join(f"{100 * s:.2f}" for s in last)]
            rows.append([*row, "" if kind.startswith("exact") else verdict, f"{seconds:.1f}"])
    return markdown(head, rows)


def curves(page: Page) -> str:
    """The plot of accuracy against epsilon, and the best priced epoch within the budgets of Table 1."""
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
            row = [NAMES[data], model, f"{target:g}", accuracy[0], percent(values), epoch]
            rows.append([*row, f"{classic:.2f}", f"{ours:.2f}"])
    page.charts["curves"] = curve_chart(points)
    head = ["data", "head", "classic epsilon", "published", "ours", "after epoch", "classic there", "ours there"]
    return markdown(head, rows)


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


def figure4(page: Page) -> str:
    head = ["rows", "head", "Table 16: epochs (of 50,000), base lr", "accuracy there", "best point of Table 15"]
    known = Prices("tramer_boneh").known
    rows = []
    for model, chosen in TABLE16.items():
        cells = page.cells(f"tramer_boneh/figure4/{model}")
        for count, (epochs, lr) in chosen.items():
            row = [
                f"{count:,}",
                model,
                f"{epochs}, {lr:g}",
                percent(scores(page, f"figure4/{model}", rows=count, epochs=epochs, base_lr=lr)),
            ]
            best = ["", ""]
            if model == "linear":
                by_point: dict[tuple[int, float], list[float]] = defaultdict(list)
                for cell in cells:
                    if cell.settings["rows"] == count:
                        by_point[cell.settings["epochs"], cell.settings["base_lr"]].append(cell.result["score"])
                top = max(by_point, key=lambda point: np.mean(by_point[point]))
                best = [f"{top[0]}, {top[1]:g}", percent(by_point[top])]
            rows.append([*row, *best, f"{known[f'figure4 {count} {epochs} epsilon']:.2f}"])
        if model == "cnn":
            full = percent(scores(page, "table1/cnn/cifar10", kind="floored 8"))
            rows.append(["50,000", "cnn", "60, 0.25", full, "", "", f"{known['figure4 50000 60 epsilon']:.2f}"])
    shuffled = percent(scores(page, "table19/pixels/cifar10"))
    rows.append(["50,000", "pixels", "30, 0.5, batch 1,024 (Table 13)", shuffled, "", "", "2.37"])
    return markdown([*head, "accuracy there", "epsilon, ours"], rows)


def figure9(page: Page) -> str:
    result = page.cell("tramer_boneh/figure9").result
    names = {"classic": "DP-SGD, their accountant", "ours": "DP-SGD, ours", "iteration": "iteration"}
    points = [
        {"epsilon": line["epsilon"], "noise": line[key], "way": name}
        for line in result["lines"]
        for key, name in names.items()
        if line[key]
    ]
    page.charts["figure9"] = noise_chart(points, list(names.values()))

    def at(name: str) -> str:
        return " and ".join(f"{value:.3g}" for value in result["crossings"][name]) or "nowhere"

    rows = [
        ["classic conversion, their orders 1.1 to 63", at("classic")],
        ["classic conversion, orders up to 8,192", at("more orders")],
        ["ours (privacy loss distribution)", at("ours")],
    ]
    return markdown(["accountant of DP-SGD", "crossings (paper: near 0.2 and 40)"], rows)


def figure10(page: Page) -> str:
    """The best point of each way for each epsilon, by test accuracy, as in the paper."""
    points, rows = [], []
    for epsilon in (0.5, 1.0, 2.0, 3.0):
        best: list[tuple[Mapping[str, Any], list[float]]] = []
        for way in ("iteration", "dpsgd"):
            groups: dict[tuple[Any, ...], list[Cell]] = defaultdict(list)
            for cell in page.cells(f"tramer_boneh/figure10/{way}"):
                if cell.settings["epsilon"] == epsilon:
                    groups[tuple(v for k, v in cell.settings.items() if k != "seed")].append(cell)
            by_point = [(cells[0].settings, [cell.result["score"] for cell in cells]) for cells in groups.values()]
            best.append(max(by_point, key=lambda point: np.mean(point[1])))
            name = "DP-SGD" if way == "dpsgd" else way
            points.append({"epsilon": epsilon, "way": name, "accuracy": band(best[-1][1])[1]})
        (slow, slow_scores), (fast, fast_scores) = best
        at = f"batch {slow['batch']:,}, rows clipped to {slow['length']:g}, base lr {slow['base_lr']:g}"
        rows.append([f"{epsilon:g}", percent(slow_scores), at, percent(fast_scores), f"base lr {fast['base_lr']:g}"])
    page.charts["figure10"] = ways_chart(points)
    return markdown(["epsilon", "iteration", "at", "DP-SGD", "at"], rows)


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


def noise_chart(points: list[dict[str, Any]], order: list[str]) -> Any:
    import altair as alt

    colours = alt.Scale(domain=order, range=[ORANGE, BLUE, GREY])
    return (
        _lines(points)
        .encode(
            x=alt.X("epsilon:Q", scale=alt.Scale(type="log"), title="epsilon"),
            y=alt.Y("noise:Q", scale=alt.Scale(type="log"), title="noise multiplier"),
            color=alt.Color("way:N", sort=order, scale=colours, title=None),
        )
        .properties(width=420, height=280)
    )


def ways_chart(points: list[dict[str, Any]]) -> Any:
    import altair as alt

    colours = alt.Scale(domain=["DP-SGD", "iteration"], range=[BLUE, GREY])
    return (
        _lines(points, point=True)
        .encode(
            x=alt.X("epsilon:Q", title="epsilon"),
            y=alt.Y("accuracy:Q", title="test accuracy, per cent", scale=alt.Scale(zero=False)),
            color=alt.Color("way:N", scale=colours, title=None),
        )
        .properties(width=420, height=260)
    )


def _lines(points: list[dict[str, Any]], **how: Any) -> Any:
    import altair as alt

    return alt.Chart(alt.InlineData(values=points)).mark_line(strokeWidth=2, **how)
