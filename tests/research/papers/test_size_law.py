"""The sample-size law predicts a number of rows that it was not fitted to."""

from __future__ import annotations

import pytest

from research.papers._page import Page
from research.papers._size_law import epsilon_at, fit_law


@pytest.mark.parametrize("left_out", [3000, 10_000])
@pytest.mark.parametrize("accuracy", [0.84, 0.85])
def test_law_predicts_a_size_of_adult_that_was_left_out(left_out: int, accuracy: float) -> None:
    sizes: dict[int, dict[str, list[float]]] = {}
    for cell in Page("sample_size").cells("ours/sample_size"):
        if cell.settings["data"] == "adult":
            sizes.setdefault(cell.settings["rows"], {})[f"{cell.settings['epsilon']:g}"] = cell.result["scores"]
    spent = {rows: at for rows, scores in sizes.items() if (at := epsilon_at(scores, accuracy)) is not None}
    measured = spent.pop(left_out)
    assert fit_law(spent).epsilon(left_out) == pytest.approx(measured, rel=0.35)
