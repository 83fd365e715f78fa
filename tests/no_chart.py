"""Reports without their chart: drawing it takes longer than the rest of a small run, and `tests/report` checks it."""

from __future__ import annotations

from typing import Any

import pytest

from privaware.report import _charts


@pytest.fixture(autouse=True)
def no_chart_in_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chart of attack rates is left out of the reports of this process; all other charts are drawn."""
    render = _charts.render

    def rendered(chart: Any) -> str:
        return "" if chart is None else render(chart)

    monkeypatch.setattr(_charts, "rates", lambda curves: None)
    monkeypatch.setattr(_charts, "render", rendered)
