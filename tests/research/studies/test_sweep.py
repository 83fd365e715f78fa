"""Sweeps: resumed without training again, charged on private rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import accounting
from privaware.errors import BudgetExceeded, PrivawareError, WrongInput
from privaware.ledger import Ledger
from privaware.noise import Rng
from research.studies._result import points
from research.studies._sweep import Store, sweep
from research.studies._trials import price, synthetic_examples
from tests.research.studies.examples import trials


def test_resumed_sweep_trains_only_missing_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from research.studies import _sweep

    store, trained, real = Store(tmp_path / "s.jsonl"), [], _sweep._train
    monkeypatch.setattr(_sweep, "_train", lambda chosen, *more: trained.extend(chosen) or real(chosen, *more))
    first = sweep(trials(2), synthetic_examples(), store=store)
    with open(store.path, "a") as file:
        file.write('{"key": "cut sho')  # what a kill in the middle of a line leaves
    resumed = sweep(trials(3), synthetic_examples(), store=store)
    assert len(trained) == 3
    assert [outcome.score for outcome in resumed[:2]] == [outcome.score for outcome in first]
    assert sweep(trials(3), synthetic_examples(), store=store) == resumed
    assert len(trained) == 3
    lines = [line for line in store.path.read_text().splitlines() if "cut sho" not in line]
    assert len([json.loads(line)["key"] for line in lines]) == 3


def test_p38_private_rows_pay_for_all_trainings_and_scores(tmp_path: Path) -> None:
    rows = replace(synthetic_examples(), public=False)
    with pytest.raises(WrongInput, match="4 models would be released"):
        sweep(trials(4), rows)
    ledger = Ledger.create(tmp_path / "a.ledger", limit=100.0, delta=1e-5)
    with pytest.raises(WrongInput, match="exact scores"):
        sweep(trials(4), rows, ledger=ledger, store=Store(tmp_path / "s.jsonl"))
    outcomes = sweep(trials(4), rows, ledger=ledger)
    alone = accounting.epsilon(price(trials(1), 300), 1e-5)
    all_ = accounting.epsilon(price(trials(4), 300), 1e-5)
    assert ledger.spent() == pytest.approx(all_, rel=1e-2)
    assert ledger.spent() > 1.5 * alone
    counts = np.array([outcome.score for outcome in outcomes]) * 300
    assert any(abs(count - round(count)) > 1e-9 for count in counts)  # no exact share of 300 rows


def test_score_noise_and_sensitivity_ignore_the_test_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[np.ndarray, float, float]] = []
    gaussian = Rng.gaussian

    def recorded(self: Rng, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        if isinstance(exact, np.ndarray):
            calls.append((exact, noise, sensitivity))
        return gaussian(self, exact, noise=noise, sensitivity=sensitivity)

    monkeypatch.setattr(Rng, "gaussian", recorded)
    monkeypatch.setattr("research.studies._sweep.Rng", lambda: Rng(seed=3))
    rows = replace(synthetic_examples(), public=False)
    for count in (40, 39):
        ledger = Ledger.create(tmp_path / f"{count}.ledger", limit=100.0, delta=1e-5)
        fewer = replace(rows, x_test=rows.x_test[:count], y_test=rows.y_test[:count])
        sweep(trials(4), fewer, ledger=ledger)
    (one, *options), (other, *same) = calls
    assert options == same
    assert np.linalg.norm(one - other) <= options[1] + 1e-9


def test_sweep_past_the_limit_is_refused_without_charge(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "a.ledger", limit=0.5, delta=1e-5)
    rows = replace(synthetic_examples(), public=False)
    with pytest.raises(BudgetExceeded):
        sweep(trials(4), rows, ledger=ledger)
    with pytest.raises(PrivawareError, match="without noise"):
        sweep(trials(1, noise=0.0), rows, ledger=ledger)
    assert ledger.spent() == 0


def test_training_in_a_population_equals_training_alone() -> None:
    """Without noise and on all rows nothing is random but the initial weights, so the other models must not matter."""
    still = {"noise": 0.0, "batch": 300, "norm": float("inf")}
    alone = [sweep([trial], synthetic_examples())[0].score for trial in trials(3, **still)]
    mixed = sweep([*trials(3, **still), *trials(2, **{**still, "norm": 0.1})], synthetic_examples())
    assert [outcome.score for outcome in mixed[:3]] == alone


def test_points_pair_repeats_by_seed() -> None:
    outcomes = points(sweep([*reversed(trials(3))], synthetic_examples()))
    again = points(sweep(trials(3), synthetic_examples()))
    assert len(outcomes[0].scores) == 3
    assert outcomes[0].mean == pytest.approx(np.mean(outcomes[0].scores))
    assert [p.curve for p in outcomes] == [p.curve for p in again]
