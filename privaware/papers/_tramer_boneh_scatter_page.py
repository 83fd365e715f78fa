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


def functions(page: Page) -> dict[str, Callable[..., str]]:
    """What the template calls."""
    known = (table1, curves, table2, table3, figure8, best_epoch, table19, figure4, figure9, figure10)
    return {function.__name__: partial(function, page) for function in known}


def scores(cells: Sequence[Cell], field: str = "score", **settings: Any) -> list[float]:
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
            last, best = (scores(cells, field, kind=kind) for field in ("score", "best"))
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


def table2(page: Page) -> str:
    kinds = {
        "none": "none",
        "groups 9": "groups 9",
        "groups 27": "groups 27",
        "groups 81": "groups 81",
        "exact": "data",
    }
    rows = []
    for data, published in paper.TABLE2.items():
        cells = page.cells(f"tramer_boneh/table2/{data}")
        row = [NAMES[data]]
        for kind in kinds:
            theirs = f" ({paper.shown(published[kind])})" if kind in published else ""
            row.append(percent(scores(cells, kind=kind)) + theirs)
        top: dict[int, float] = {}
        for cell in cells:
            best = max(score for _, score in cell.result["curve"])
            top[cell.settings["seed"]] = max(best, top.get(cell.settings["seed"], 0.0))
        rows.append([*row, f"{percent(list(top.values()))} ({paper.shown(published['maximal'])})"])
    return markdown(["data", *kinds.values(), "best up to epoch 60"], rows)


def table3(page: Page) -> str:
    head = ["data", "head", "points", "minimum", "maximum", "median", "MAD", "seconds in all", "best point"]
    rows = []
    for (data, model), published in paper.TABLE3.items():
        cells = page.cells(f"tramer_boneh/table3/{model}/{data}")
        grid = 72 if model == "pixels" else 360
        best = max(cells, key=lambda cell: cell.result["score"]).settings
        notes = ["", "", median_bounds([cell.result["score"] for cell in cells], grid), ""]
        shown = [f"{ours:.2f}{note} ({theirs})" for ours, note, theirs in zip(summary(cells), notes, published)]
        seconds = sum(cell.run["seconds"] for cell in cells)
        point = f"batch {best['batch']:,}, {best['epochs']} epochs, base lr {best['base_lr']:g}, {best['kind']}"
        rows.append([NAMES[data], model, f"{len(cells)} of {grid}", *shown, f"{seconds:.0f}", point])
    return markdown(head, rows)


def summary(cells: Sequence[Cell], field: str = "score") -> tuple[float, float, float, float]:
    """Minimum, maximum, median and median absolute deviation, in per cent."""
    values = 100 * np.array([cell.result[field] for cell in cells])
    median = float(np.median(values))
    return float(values.min()), float(values.max()), median, float(np.median(np.abs(values - median)))


def median_bounds(values: Sequence[float], grid: int) -> str:
    """Where the median of the full grid lies, if the other points are all the worst or all the best."""
    missing = grid - len(values)
    if not missing:
        return ""
    low, high = (100 * float(np.median([*values, *[end] * missing])) for end in (0.0, 1.0))
    return f" [{low:.2f}, {high:.2f}]"


def figure8(page: Page) -> str:
    """One setting fixed, all others free, where the full grid is run."""
    fields = {"batch": "batch", "epochs": "epochs", "base_lr": "base lr", "kind": "normalisation"}
    rows = []
    for data, model in paper.TABLE3:
        cells = page.cells(f"tramer_boneh/table3/{model}/{data}")
        for field, name in fields.items() if len(cells) == (72 if model == "pixels" else 360) else ():
            values = sorted({cell.settings[field] for cell in cells})
            for value in values if len(values) > 1 else ():
                some = [cell for cell in cells if cell.settings[field] == value]
                shown = [f"{number:.2f}" for number in summary(some)]
                rows.append([NAMES[data], model, f"{name} {value}", len(some), *shown])
    return markdown(["data", "head", "fixed", "points", "minimum", "maximum", "median", "MAD"], rows)


def best_epoch(page: Page) -> str:
    cells = page.cells("tramer_boneh/table3/best_epoch")
    rows: list[list[Any]] = [["published", "", "", *paper.TABLE3["cifar10", "linear"]]]
    for kind in ("", "groups", "private"):
        some = [cell for cell in cells if cell.settings["kind"].startswith(kind)]
        for field, name in (("score", "last"), ("best", "best epoch")):
            rows.append([kind or "all", name, len(some), *(f"{number:.2f}" for number in summary(some, field))])
    return markdown(["normalisation", "which model", "points", "minimum", "maximum", "median", "MAD"], rows)


def table19(page: Page) -> str:
    head = ["data", "model", "Poisson, published", "ours", "shuffled, published", "ours (not private at 3)"]
    cnn = Page("tramer_boneh_cnn", page.results)
    rows = []
    for (data, model), published in paper.TABLE19.items():
        if model == "linear":
            poisson = scores(page.cells(f"tramer_boneh/table1/linear/{data}"), kind=TABLE13[data, "linear"]["kind"])
        else:
            poisson = [cell.result["score"] for cell in cnn.cells(f"tramer_boneh/table13/pixels/{data}")]
        shuffled = scores(page.cells(f"tramer_boneh/table19/{model}/{data}"))
        name = "scattering + linear" if model == "linear" else "CNN from pixels"
        row = [NAMES[data], name, paper.shown(published["Poisson"]), percent(poisson)]
        row += [paper.shown(published["shuffled"]), percent(shuffled), f"{paper.SHUFFLING[data, model]:.2f}"]
        rows.append(row)
    return markdown([*head, "shuffling costs at least"], rows)


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
                percent(scores(cells, rows=count, epochs=epochs, base_lr=lr)),
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
            full = percent(scores(page.cells("tramer_boneh/table1/cnn/cifar10"), kind="floored 8"))
            rows.append(["50,000", "cnn", "60, 0.25", full, "", "", f"{known['figure4 50000 60 epsilon']:.2f}"])
    shuffled = percent(scores(page.cells("tramer_boneh/table19/pixels/cifar10")))
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
            cells = max(groups.values(), key=lambda some: np.mean(scores(some)))
            best.append((cells[0].settings, scores(cells)))
            name = "DP-SGD" if way == "dpsgd" else way
            points.append({"epsilon": epsilon, "way": name, "accuracy": band(scores(cells))[1]})
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
