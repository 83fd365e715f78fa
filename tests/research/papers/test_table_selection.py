"""What a selection among learners could gain: leads over the rule, at the whole budget and at a part of it."""

from __future__ import annotations

import math

import pytest

from research.papers import _table_selection
from research.papers._table_selection import among


def cell(epsilon: float, **scores: float) -> dict[str, object]:
    return {"table": "t", "half": "choose", "rows": 5000, "epsilon": epsilon, "scores": {"constant": 0.5, **scores}}


def test_candidates_share_the_budget_of_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores rise by 0.1 a decade: half the budget of two candidates, less the scores, costs 0.016 of it."""
    known = [cell(1.0, linear=0.6, boosted=0.7), cell(10.0, linear=0.7, boosted=0.8)]
    monkeypatch.setattr(_table_selection, "evidence", lambda form: known)
    found = among("choose", ("linear", "boosted"))
    assert found.whole == pytest.approx([0.0, 0.0])
    lost = 0.1 * math.log10(math.sqrt(0.95 / 2))
    assert found.shared == pytest.approx([lost, lost])
    assert among("check", ("linear", "boosted")).cells == 0


def test_a_clearly_better_candidate_is_worth_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_table_selection, "evidence", lambda form: [cell(1.0, linear=0.9, boosted=0.6)])
    found = among("choose", ("linear", "boosted"))
    assert found.whole == pytest.approx([0.3])
    assert 0.2 < found.shared[0] < 0.3
