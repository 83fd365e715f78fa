"""`privaware bench`: a grid is run and resumed, its tables and its page are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.grids import install
from tests.cli.people import Run

GRID = """
data = {digits = {train = 60, test = 40}}
epsilons = [1.0, 50.0]
seeds = 2
attacks = ["threshold"]
[learners.majority]
[learners.counted]
"""


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(monkeypatch)
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return path


def test_own_learner_is_compared_by_one_command(run: Run, grid: Path) -> None:
    answer = run("bench", "run", grid, "--store", "cells.jsonl", "--json")
    assert answer.code == 0
    assert {name: answer.json[name] for name in ("cells", "done", "failed")} == {"cells": 8, "done": 8, "failed": 0}
    assert "8 of 8 cells" in answer.err
    again = run("bench", "run", grid, "--store", "cells.jsonl")
    assert "8 of 8 cells were finished before" in again.err
    table = run("bench", "table", "--store", "cells.jsonl", "--json").json
    assert {row["learner"] for row in table["rows"]} == {"majority", "counted"}
    assert all(row["tailored_auc"] >= 0.5 for row in table["rows"])
    assert (table["cells"], table["done"], table["failed"]) == (8, 8, 0)
    assert run("bench", "table", "--store", "cells.jsonl", "--format", "latex", "--out", "t.tex").code == 0
    assert Path("t.tex").read_text().startswith(r"\begin{tabular}")
    page = run("bench", "report", "--store", "cells.jsonl", "--out", "b.html", "--json")
    assert (page.code, page.json["out"]) == (0, "b.html")
    assert "<svg" in Path("b.html").read_text()


def test_columns_of_table_and_page_are_chosen(run: Run, grid: Path) -> None:
    run("bench", "run", grid)
    assert run("bench", "table", "--columns", "auc").out.startswith("| data | network | learner | epsilon 1 | epsilon ")
    assert run("bench", "report", "--columns", "seeds,auc:threshold").code == 0
    assert "<th>AUC threshold</th>" in Path("bench.html").read_text()
    answer = run("bench", "table", "--columns", "speed", "--json")
    assert (answer.code, "expected columns among seeds, score" in answer.json["error"]) == (2, True)


def test_failed_cells_make_exit_code_one(run: Run, grid: Path) -> None:
    grid.write_text(GRID + "breaks = true\n")
    answer = run("bench", "run", grid, "--json")
    assert answer.code == 1
    assert answer.json["failed"] == 2
    assert answer.json["failures"][0]["reason"] == "ZeroDivisionError: the noise is too loud"
    assert run("bench", "table", "--json").json["failed"] == 2


IMPOSSIBLE = GRID + "[learners.mean]\n[learners.median]\n"


def test_impossible_grid_is_refused_with_every_reason(run: Run, grid: Path) -> None:
    grid.write_text(IMPOSSIBLE)
    answer = run("bench", "run", grid, "--json")
    assert answer.code == 2
    assert answer.json["error"].startswith(
        "2 of 4 combinations of the grid are impossible; the first is mean on digits"
    )
    assert "impossible: median on digits: expected data for regression" in answer.err
    assert not Path("bench.jsonl").exists()


def test_impossible_combinations_are_skipped_on_request(run: Run, grid: Path) -> None:
    grid.write_text(IMPOSSIBLE)
    answer = run("bench", "run", grid, "--skip-impossible", "--json")
    assert (answer.code, answer.json["cells"], answer.json["done"]) == (0, 8, 8)
    assert [one["combination"] for one in answer.json["skipped"]] == ["mean on digits", "median on digits"]


def test_one_seed_replaces_those_of_the_grid(run: Run, grid: Path) -> None:
    assert run("bench", "run", grid, "--seed", 7, "--json").json["cells"] == 4


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["run", "none.toml"], "cannot read the grid"),
        (["run", "grid.toml", "--workers", "0"], "workers as a whole number >= 1"),
        (["run", "grid.toml", "--device", "abacus"], "expected --device as cpu, or cuda"),
        (["table", "--store", "none.jsonl"], "got none; run `privaware bench run GRID.toml`"),
        (["report", "--out", "page.pdf"], "ending in .html"),
        (["run", "grid.toml", "--ray", "127.0.0.1:1"], "no Ray cluster answers"),
    ],
)
def test_wrong_call_is_one_sentence(run: Run, grid: Path, words: list[str], reason: str) -> None:
    answer = run("bench", *words)
    assert answer.code == 2
    assert reason in answer.err
