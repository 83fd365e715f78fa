"""Tables of a benchmark: mean and spread over seeds, utility loss against the baseline, in three formats."""

from __future__ import annotations

import csv
import io

import pytest

from privaware.bench._store import Cell
from privaware.bench._table import bench_table, summary
from privaware.errors import WrongInput


def cell(learner: str, epsilon: float | None, seed: int, score: float, network: str = "cnn") -> Cell:
    settings = {"learner": learner, "network": network, "data": "digits", "epsilon": epsilon, "seed": seed}
    result = {"score": score, "noise": 1.0, "auc threshold": 0.5 + score / 10, "auc lira": 0.5}
    return Cell(item="bench", settings=settings, result=result, run={"seconds": 2.0 + seed})


CELLS = [
    cell("baseline", None, 0, 0.8),
    cell("dp_sgd & co", 1.0, 0, 0.6),
    cell("dp_sgd & co", 1.0, 1, 0.7),
    cell("dp_sgd & co", 8.0, 0, 0.8),
    cell("linear", 1.0, 0, 0.4, network="-"),
    Cell(item="bench", settings=cell("linear", 8.0, 0, 0).settings, result={"failed": "no"}, run={}),
]


def test_seeds_are_averaged_beside_the_baseline() -> None:
    rows = {(row.learner, row.epsilon): row for row in summary(CELLS)}
    row = rows["dp_sgd & co", 1.0]
    assert (row.seeds, row.score, row.seconds) == (2, pytest.approx(0.65), 2.5)
    assert row.spread == pytest.approx(0.0707, abs=1e-4)
    assert row.utility_loss == pytest.approx(1 - 0.65 / 0.8)
    assert row.leakage == pytest.approx(0.565)
    assert rows["linear", 1.0].utility_loss is None  # another network
    assert ("linear", 8.0) not in rows


def test_markdown_has_epsilons_across() -> None:
    lines = bench_table(summary(CELLS), "markdown").splitlines()
    assert lines[0] == "| data | network | learner | epsilon 1 | epsilon 8 | no noise |"
    assert "| digits | cnn | dp_sgd & co | 65.00 ± 7.07 | 80.00 |  |" in lines
    assert "| digits | cnn | baseline |  |  | 80.00 |" in lines


def test_csv_has_one_line_for_each_row() -> None:
    rows = list(csv.DictReader(io.StringIO(bench_table(summary(CELLS), "csv"))))
    assert [row["learner"] for row in rows] == ["baseline", "dp_sgd & co", "dp_sgd & co", "linear"]
    assert float(rows[1]["score"]) == pytest.approx(0.65)
    assert (rows[0]["epsilon"], rows[3]["utility_loss"]) == ("", "")


def test_latex_escapes_what_it_must() -> None:
    text = bench_table(summary(CELLS), "latex")
    assert text.startswith(r"\begin{tabular}{lllrrr}")
    assert r"dp\_sgd \& co & 65.00 $\pm$ 7.07 & 80.00 &  \\" in text
    assert text.count(r"\\") == 1 + 3


def test_unknown_format_is_refused() -> None:
    with pytest.raises(WrongInput, match="format among markdown, csv, latex"):
        bench_table([], "excel")
