"""The page of a benchmark: utility, leakage and time against epsilon, one HTML file that fetches nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaware.bench._run import failed_cells
from privaware.bench._store import Cell
from privaware.bench._table import SummaryRow, summary
from privaware.report import _charts
from privaware.workflow._curves import lines, point

__all__ = ["bench_page"]

TEMPLATE = Path(__file__).with_name("bench.html.j2")


@dataclass(frozen=True)
class Plot:
    """One chart of a section: a title, the words of its axis, and the values that a row has for it."""

    title: str
    axis: str
    values: Callable[[SummaryRow], Sequence[float]]


def _losses(row: SummaryRow) -> list[float]:
    """Utility loss of each seed, by the baseline that the mean has."""
    if row.utility_loss is None or not row.score:
        return []
    base = row.score / (1 - row.utility_loss)
    return [100 * (1 - score / base) for score in row.scores]


PLOTS = (
    Plot("Utility", "test score, per cent", lambda row: [100 * score for score in row.scores]),
    Plot("Utility loss", "loss against the baseline, per cent", _losses),
    Plot("Leakage", "tailored AUC of the best attack", lambda row: row.leakages),
    Plot("Time", "seconds a model", lambda row: [row.seconds]),
)


def bench_page(cells: Sequence[Cell]) -> str:
    """The page of stored cells; static SVG, no script."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    rows = summary(cells)
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE.parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = environment.get_template(TEMPLATE.name)
    places = dict.fromkeys((row.data, row.network) for row in rows)
    sections = [
        _section(data, network, [r for r in rows if (r.data, r.network) == (data, network)]) for data, network in places
    ]
    return page.render(sections=sections, failed=failed_cells(cells), rows=rows, machines=_machines(cells))


def _machines(cells: Sequence[Cell]) -> list[str]:
    return sorted(
        {f"{cell.run['machine']}, commit {cell.run['commit']}, {cell.run['date']}" for cell in cells if cell.run}
    )


def _section(data: str, network: str, rows: Sequence[SummaryRow]) -> dict[str, Any]:
    """The charts of one data set and network: a curve for each learner over epsilon."""
    plots = []
    for plot in PLOTS:
        points = [
            point(row.learner, row.epsilon, values)
            for row in sorted(rows, key=lambda row: (row.learner, row.epsilon or 0.0))
            if row.epsilon is not None and (values := plot.values(row))
        ]
        if points:
            svg = _charts.render(lines(points, x="epsilon", y=plot.axis))
            plots.append({"title": plot.title, "svg": svg})
    return {"data": data, "network": "" if network == "-" else network, "plots": plots}
