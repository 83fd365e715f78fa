"""The page of a benchmark: plots of utility, leakage and time, offline, without a script."""

from __future__ import annotations

from dataclasses import replace

from privaware.bench._report import bench_page
from privaware.report import page_text
from tests.bench.test_table import CELLS

FACTS = {"machine": "CPU (test)", "commit": "abc", "date": "2026-01-01", "seconds": 1.0}


def test_page_has_the_four_plots_and_fetches_nothing() -> None:
    cells = [replace(cell, run={**FACTS, **cell.run}) for cell in CELLS]
    page = bench_page(cells)
    assert page.count("<svg") == 4 + 3  # of the network; without one there is no baseline
    text = page_text(page)
    for words in (
        "Utility loss",
        "Membership inference",
        "Time",
        "linear, cnn, digits, epsilon 8, seed 0: no",
        "commit abc",
    ):
        assert words in text
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_names_of_a_user_are_escaped() -> None:
    named = replace(CELLS[1], settings={**CELLS[1].settings, "data": "<b>"}, run=FACTS)
    assert "<b>" not in bench_page([named])
