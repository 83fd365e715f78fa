"""The page of a benchmark: utility, leakage and time against epsilon, one HTML file that fetches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaware.bench._run import failed_attacks, failed_cells
from privaware.bench._store import Cell
from privaware.bench._summary import SummaryRow, summary
from privaware.bench._table import chosen_columns, column_title, entry
from privaware.report import _charts
from privaware.workflow._curves import lines, point

TEMPLATE = Path(__file__).with_name("bench.html.j2")


@dataclass(frozen=True)
class Plot:
    """One chart: its title, the label of its y axis, the name of the measure it shows, and the factor on its values."""

    title: str
    axis: str
    measure: str
    scale: float = 1.0

    def values(self, row: SummaryRow) -> list[float]:
        """Return the value of the measure for each seed of `row`, times `scale`; none if it was not measured."""
        return [self.scale * value for value in row.values.get(self.measure, ())]


PLOTS = (
    Plot("Utility", "test score, per cent", "score", 100.0),
    Plot("Utility loss", "loss against the baseline, per cent", "utility_loss", 100.0),
    Plot("Membership inference", "tailored AUC of the strongest attack", "tailored_auc"),
    Plot("Time", "seconds of training a model", "seconds"),
)


def bench_page(cells: Sequence[Cell], columns: str | None = None) -> str:
    """Return the HTML page of stored cells: charts against epsilon, a table, and the cells and attacks that failed.

    `columns` names the columns of the table (see `chosen_columns`), separated by commas; None means its default. The
    charts are static SVG, and the page has no script.
    """
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
    shown = chosen_columns(columns, rows)
    return page.render(
        sections=sections,
        failed=failed_cells(cells),
        failed_attacks=failed_attacks(cells),
        titles=[column_title(column) for column in shown],
        rows=[(row, [entry(row, column) for column in shown]) for row in rows],
        machines=_machines(cells),
    )


def _machines(cells: Sequence[Cell]) -> list[str]:
    return sorted(
        {f"{cell.run['machine']}, commit {cell.run['commit']}, {cell.run['date']}" for cell in cells if cell.run}
    )


def _section(data: str, network: str, rows: Sequence[SummaryRow]) -> dict[str, Any]:
    """Return a dict with the charts of one data set and network: `data`, `network` (empty for "-") and `plots`.

    `rows` are its rows of the summary. Each of `plots` is a dict with `title` and `svg`. A chart has a curve over
    epsilon for each learner; models without noise are left out. A measure that no row has gets no chart.
    """
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
