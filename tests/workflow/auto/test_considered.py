"""A plan says which learners were considered, and why each of them was taken or not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import fit, load
from privaware.datasets import schema
from privaware.report import page_text
from privaware.schema import Column, Schema
from privaware.workflow.auto import CHECKED, SEARCHED, Policy, choose, considered, settled
from privaware.workflow.auto._considered import unmet
from privaware.workflow.run.training_plan import training_plan

TABLE = Schema(columns=(Column(name="a", low=0, high=9),), classes=("no", "yes"), rows=500)


def reasons(rows: Any) -> dict[tuple[str, str], tuple[bool | None, str]]:
    return {(row["learner"], row["rule"]): (row["taken"], row["reason"]) for row in rows}


def test_each_rule_has_the_reason_why_it_was_not_taken() -> None:
    rows = reasons(choose(TABLE, 1.0).considered)
    assert rows["fourier", "table"][0] is True
    assert "because the table has at most 20,000 rows" in rows["fourier", "table"][1]
    needed = "It needs two columns or more, all of them declared categories, with at most"
    assert rows["linear", "table of categories"][1].startswith(needed)
    assert rows["boosted", "large table"][1].startswith("Its conditions hold, but an earlier rule was taken.")
    assert " of 17" in reasons(choose(schema("wisconsin"), 1.0).considered)["boosted", "large table"][1]
    large = reasons(choose(replace(TABLE, rows=50_000), 1.0).considered)
    assert large["fourier", "table"] == (False, large["fourier", "table"][1])
    assert "It needs the number of rows to be at most 20,000; here it is 50,000." in large["fourier", "table"][1]


def test_rules_for_other_kinds_of_data_are_left_out() -> None:
    assert not {rule for _, rule in reasons(choose(TABLE, 1.0).considered)} & {"texts", "images", "tiny images"}


@pytest.mark.parametrize(
    ("fact", "condition", "value", "words"),
    [
        ("rows", "<= 20000", 50_000, "it needs the number of rows to be at most 20,000; here it is 50,000"),
        ("rows_epsilon", [">= 9", "< 40"], 5.0, "it needs rows x epsilon to be at least 9 and below 40; here it is 5"),
        ("rows_per_cross", ">= 2", 1, "it needs rows x epsilon for each pair of levels to be at least 2; here it is 1"),
        ("device", "gpu", "cpu", "it needs the device to be gpu; here it is cpu"),
        ("channels", 3, 1, "it needs the number of colour channels to be 3; here it is 1"),
    ],
)
def test_unmet_condition_is_said_in_words(fact: str, condition: Any, value: Any, words: str) -> None:
    assert unmet(fact, condition, value) == words


def test_slow_or_missing_rules_say_so() -> None:
    slow = {"name": "slow", "use": {"learner": "linear"}, "why": "slow.", "cost": {"seconds": 10.0}}
    large = {**slow, "name": "large", "cost": {"width": 10**9}}
    last = {"name": "last", "use": {"learner": "additive"}, "why": "last."}
    rows = reasons(choose(TABLE, 1.0, policy=Policy.read({"rule": [slow, large, last]})).considered)
    assert rows["linear", "slow"] == (False, "It takes about 83 minutes, and the limit is 10 minutes.")
    assert rows["linear", "large"] == (False, "Its features do not fit into the memory that the policy allows.")
    assert rows["additive", "last"] == (True, "Last.")


def test_constant_is_considered_beside_the_model() -> None:
    few, many = (training_plan(TABLE, epsilon=epsilon, delta=1e-5).considered for epsilon in (0.01, 10.0))
    assert [row["learner"] for row in few if row["taken"]] == ["majority"]
    assert "; a model needs 8." in reasons(few)["linear", "small table"][1]
    assert [row["learner"] for row in many if row["taken"]] == ["fourier"]
    assert "a constant is trained if it is below 8" in reasons(many)["majority", ""][1]


def test_paid_comparison_is_settled_by_the_released_model() -> None:
    rows = [considered("linear", "it matches", taken=True), considered("mean", CHECKED, taken=None)]
    kept = settled(rows, {"output.weight": np.ones((1, 2)), "output.bias": np.ones(1)}, None)
    lost = settled(rows, {"output.weight": np.zeros((1, 2)), "output.bias": np.ones(1)}, None)
    assert [row["taken"] for row in kept] == [True, False]
    assert [row["taken"] for row in lost] == [False, True]
    assert "found no clear gain" in lost[1]["reason"]


def test_search_says_which_candidate_was_best() -> None:
    rows = [considered(name, SEARCHED, taken=None) for name in ("linear", "boosted")]
    assert [row["taken"] for row in settled(rows, {}, "boosted")] == [False, True]
    assert [row["taken"] for row in settled(rows, {}, None)] == [None, None]


def test_result_report_and_loaded_model_show_the_same_table(tmp_path: Path) -> None:
    result = fit("wisconsin", epsilon=0.01, out=tmp_path / "m")
    assert [row["learner"] for row in result.considered if row["taken"]] == ["majority"]
    assert list(load(tmp_path / "m").card.considered) == result.considered
    text = page_text((tmp_path / "m" / "report.html").read_text())
    assert "Learners that were considered" in text
    assert all(row["reason"] in text for row in result.considered)
