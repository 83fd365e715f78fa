"""Tables of a benchmark: means over seeds with intervals, in columns of one's choice and four formats."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from unittest.mock import ANY

import pytest

from privaware.bench._store import Cell
from privaware.bench._summary import SummaryRow, summary
from privaware.bench._table import bench_table, chosen_columns
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


ROWS = summary(CELLS)


def row(learner: str, epsilon: float | None) -> SummaryRow:
    [found] = [one for one in ROWS if (one.learner, one.epsilon) == (learner, epsilon)]
    return found


def test_seeds_are_averaged_beside_the_baseline() -> None:
    one = row("dp_sgd & co", 1.0)
    assert (one.seeds, one.score, one.mean("seconds")) == (2, pytest.approx(0.65), 2.5)
    assert one.spread == pytest.approx(0.0707, abs=1e-4)
    assert one.mean("utility_loss") == pytest.approx(1 - 0.65 / 0.8)
    assert row("linear", 1.0).mean("utility_loss") is None  # another network
    assert ("linear", 8.0) not in {(one.learner, one.epsilon) for one in ROWS}


def test_area_is_that_of_the_strongest_attack() -> None:
    one = row("dp_sgd & co", 1.0)
    assert one.attack == "threshold"
    assert one.mean("tailored_auc") == one.mean("tailored_auc:threshold") == pytest.approx(0.565)
    assert one.mean("tailored_auc:lira") == 0.5


def test_leakage_is_a_share_of_the_baseline() -> None:
    assert row("dp_sgd & co", 1.0).mean("leakage") == pytest.approx(0.065 / 0.08)
    assert row("dp_sgd & co", 1.0).mean("leakage:lira") is None  # the baseline does not leak by this attack


def test_interval_of_several_seeds_is_over_the_seeds() -> None:
    low, high = row("dp_sgd & co", 1.0).intervals["score"]
    assert (low + high) / 2 == pytest.approx(0.65)
    assert high - low == pytest.approx(2 * 12.706 * 0.05, rel=1e-3)  # Student's t with one degree of freedom


@pytest.mark.parametrize("accuracy", [True, False])
def test_interval_of_an_accuracy_is_between_0_and_1(accuracy: bool) -> None:
    cells = [cell("linear", 1.0, seed, score) for seed, score in enumerate([0.85, 0.99])]
    more = {"accuracy": ANY} if accuracy else {}
    [found] = summary([replace(one, result={**one.result, **more}) for one in cells])
    assert found.intervals["tailored_auc"][1] <= 1
    assert (found.intervals["score"][1] <= 1) is accuracy  # an R2 has no lower end


def test_interval_of_one_seed_is_over_its_rows() -> None:
    one = cell("linear", 1.0, 0, 0.5)
    facts = {"auc": 0.55, "auc_interval": [0.45, 0.65]}
    more = {"accuracy": 50.0, "test_rows": 100, "auc threshold": 0.55, "attacks": {"threshold": facts}}
    [found] = summary([replace(one, result={**one.result, **more})])
    assert found.intervals["score"] == (pytest.approx(0.398, abs=1e-3), pytest.approx(0.602, abs=1e-3))
    assert (found.mean("auc"), found.intervals["auc"]) == (0.55, (0.45, 0.65))
    assert found.intervals["tailored_auc"] == (0.5, 0.65)


def test_json_has_measures_intervals_and_attacks() -> None:
    facts = row("dp_sgd & co", 1.0).json()
    assert facts["score"] == pytest.approx(0.65)
    assert set(facts["intervals"]) == {"score", "utility_loss", "tailored_auc", "leakage"}
    assert facts["attacks"]["lira"] == {"auc": None, "tailored_auc": 0.5, "leakage": None, "intervals": ANY}


def test_one_column_has_epsilons_across() -> None:
    lines = bench_table(ROWS, "markdown", ["score"]).splitlines()
    assert lines[0] == "| data | network | learner | epsilon 1 | epsilon 8 | no noise |"
    assert "| digits | cnn | dp_sgd & co | 65.00 [1.47, 128.53] | 80.00 |  |" in lines
    assert "| digits | cnn | baseline |  |  | 80.00 |" in lines


def test_rounded_zero_has_no_sign() -> None:
    none = replace(row("baseline", None), values={"utility_loss": [-5e-17]}, intervals={"utility_loss": (-0.1, 0.1)})
    assert "| 0.00 [-10.00, 10.00] |" in bench_table([none], "markdown", ["utility_loss"])


def test_several_columns_have_a_line_for_each_epsilon() -> None:
    lines = bench_table(ROWS, "markdown", ["score", "tailored_auc:lira"]).splitlines()
    assert lines[0] == "| data | network | learner | epsilon | score (%) | tailored AUC lira |"
    assert "| digits | cnn | dp_sgd & co | 8 | 80.00 | 0.500 |" in lines
    assert "| digits | cnn | baseline | no noise | 80.00 | 0.500 |" in lines


def test_columns_without_values_are_left_out() -> None:
    assert chosen_columns(None, ROWS) == ["seeds", "score", "utility_loss", "tailored_auc", "leakage", "seconds"]


@pytest.mark.parametrize(
    ("words", "got"), [("score,speed", "'speed'"), ("auc:telepathy", "'auc:telepathy'"), ("", "none")]
)
def test_unknown_column_is_refused(words: str, got: str) -> None:
    with pytest.raises(WrongInput, match=f"expected columns among seeds, score, .*, got {got}"):
        chosen_columns(words, ROWS)


def test_text_has_columns_of_one_width() -> None:
    lines = bench_table(ROWS, "text", ["score", "seeds"]).splitlines()
    assert lines[0] == "data    network  learner      epsilon   score (%)             seeds"
    assert lines[2] == "digits  cnn      baseline     no noise  80.00                 1"


def test_csv_has_fractions_and_ends_of_intervals() -> None:
    rows = list(csv.DictReader(io.StringIO(bench_table(ROWS, "csv"))))
    assert [row["learner"] for row in rows] == ["baseline", "dp_sgd & co", "dp_sgd & co", "linear"]
    assert float(rows[1]["score"]) == pytest.approx(0.65)
    assert float(rows[1]["score_low"]) < 0.65 < float(rows[1]["score_high"])
    assert (rows[0]["epsilon"], rows[3]["utility_loss"], rows[2]["score_low"]) == ("", "", "")


def test_latex_escapes_what_it_must() -> None:
    text = bench_table(ROWS, "latex", ["score"])
    assert text.startswith(r"\begin{tabular}{lllrrr}")
    assert r"dp\_sgd \& co & 65.00 [1.47, 128.53] & 80.00 &  \\" in text
    assert text.count(r"\\") == 1 + 3
    assert r"score (\%)" in bench_table(ROWS, "latex", ["score", "seeds"])


def test_markdown_escapes_what_would_begin_a_column() -> None:
    [one] = summary([cell("linear (a|b)", 1.0, 0, 0.5)])
    for columns in (["score"], ["score", "seeds"]):
        line = bench_table([one], "markdown", columns).splitlines()[-1]
        assert r"| linear (a\|b) |" in line


def test_unknown_format_is_refused() -> None:
    with pytest.raises(WrongInput, match="format among text, markdown, latex, csv"):
        bench_table([], "excel")


def test_no_utility_loss_beside_a_baseline_that_learned_nothing():
    [_, row] = summary([cell("baseline", None, 0, -0.1), cell("linear", 1.0, 0, -0.2)])
    assert row.mean("utility_loss") is None
