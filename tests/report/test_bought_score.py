"""A score is shown where it was bought, with its interval and price, and nowhere else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.report.pages import Reader, card_entries, page

SCORE = {
    "metric": "accuracy",
    "value": 0.8712,
    "low": 0.851,
    "high": 0.89,
    "epsilon": 0.1,
    "rows": 500.4,
    "confusion": [[300.2, 20.1], [-3.5, 183.6]],
}


def scored(**changes: Any) -> dict[str, Any]:
    return card_entries() | {"score": SCORE | changes}


def test_bought_score_shows_interval_price_and_confusion() -> None:
    text = Reader(page(scored())).text
    assert "Accuracy 0.8712, 95% interval 0.851 to 0.89, on about 500 held-out rows" in text
    assert "contains noise for epsilon 0.1" in text
    assert "true class predicted low predicted high low 300 20 high 0 184" in text
    assert "No score is shown" not in text


def test_page_without_a_bought_score_says_so() -> None:
    text = Reader(page(card_entries())).text
    assert "No score is shown" in text
    assert "accuracy" not in text


@pytest.mark.parametrize(
    "wrong",
    [{"metric": "luck"}, {"value": "0.9"}, {"low": None}, {"epsilon": True}, {"rows": float("nan")}, {"metric": []}],
)
def test_score_of_another_form_is_not_shown(wrong: dict[str, Any]) -> None:
    assert "No score is shown" in Reader(page(scored(**wrong))).text


@pytest.mark.parametrize("table", [None, [], [[1.0]], [[1.0, "x"], [1.0, 2.0]], "many"])
def test_confusion_of_another_form_is_left_out(table: Any) -> None:
    text = Reader(page(scored(confusion=table))).text
    assert "Accuracy 0.8712" in text
    assert not re.search("true class predicted", text)


ESTIMATE = {"value": 0.62, "low": 0.6, "high": 0.65}


def test_bought_score_stands_beside_the_constant() -> None:
    text = Reader(page(scored(constant=ESTIMATE))).text
    assert "A constant prediction (the most frequent class) has 0.62, 95% interval 0.6 to 0.65." in text
    assert "may have learned nothing" not in text
    close = Reader(page(scored(constant={"value": 0.84, "low": 0.82, "high": 0.86}))).text
    assert "The two intervals overlap, so the model may have learned nothing." in close
    fixed = Reader(page(scored(metric="auc", constant={"value": 0.5, "low": 0.5, "high": 0.5}))).text
    assert "A constant prediction has 0.5, by definition." in fixed


def test_confusion_matrix_shows_its_intervals() -> None:
    ends = {"confusion_low": [[280.0, 10.0], [-9.0, 170.0]], "confusion_high": [[320.0, 30.0], [4.0, 200.0]]}
    assert "low 300 (280 to 320) 20 (10 to 30) high 0 (0 to 4) 184 (170 to 200)" in Reader(page(scored(**ends))).text


def test_threshold_shows_its_rates() -> None:
    rates = dict.fromkeys(("balanced_accuracy", "at_half", "sensitivity", "specificity"), ESTIMATE)
    text = Reader(page(scored(threshold={"value": 0.3, "low": 0.2, "high": 0.4, **rates}))).text
    assert "predict high if its probability is above 0.3 (95% interval 0.2 to 0.4)" in text
    assert "found of high (sensitivity) 0.62 0.6 to 0.65" in text
    assert "To maximise" not in Reader(page(scored(threshold={"value": 0.3, "low": 0.2, "high": 0.4}))).text


def test_calibration_shows_observed_rates_by_bin() -> None:
    line = {"from": 0.1, "to": 0.2, "rows": 41.3, "observed": 0.14, "low": 0.05, "high": 0.3}
    text = Reader(page(scored(calibration=[line]))).text
    assert "10% to 20% 14% (5% to 30%), about 41 rows" in text
    unknown = line | {"low": 0, "high": 1, "rows": 4.2}
    assert "10% to 20% about 4 rows, too few to tell" in Reader(page(scored(calibration=[unknown]))).text
    needed = Reader(page(scored(calibration=[unknown | {"needed": 117}]))).text
    assert "about 4 rows, too few to tell; a useful interval needs about 117" in needed
    assert "14%" not in Reader(page(scored(calibration=[line | {"low": None}]))).text
