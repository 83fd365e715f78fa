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
