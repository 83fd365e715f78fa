"""Amplification by iteration: published numbers, noise of the last iterate, and planted bugs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware import accounting
from privaware.errors import WrongInput
from privaware.events import ZCDP
from privaware.learners import iteration_amplification
from privaware.learners._convex import bounded_rows
from privaware.learners._convex.bounded_rows import NORM, slope_bounds
from privaware.learners.iteration_amplification import IterationAmplification, percentile_epsilon, position_rho
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import BrokenPromise, check_mechanism, rows_for

COLUMNS = (Column(name="score", low=-1, high=1), Column(name="age", low=0, high=9))
TABLE = Schema(columns=COLUMNS, classes=("no", "yes"), rows=40)
THREE = Schema(columns=COLUMNS, classes=("a", "b", "c"), rows=40)
NUMBER = Schema(columns=COLUMNS, low=-2, high=5, rows=40)


def test_percentile_epsilons_equal_the_reference() -> None:
    """Ten epochs, batch 512 of 50,000, 99 per cent of the rows, classic conversion."""
    for noise, epsilon in ((1, 12.22), (2, 5.56), (4, 2.65), (8, 1.29)):
        percentile = percentile_epsilon(noise, rows=50_000, batch=512, epochs=10, delta=1e-5)
        assert percentile == pytest.approx(epsilon, abs=0.01)


def needed(epsilon: float) -> float:
    """The noise at which iteration meets epsilon for 99 per cent of the rows."""
    low, high = 1e-3, 1e4
    for _ in range(60):
        middle = (low * high) ** 0.5
        spent = percentile_epsilon(middle, rows=50_000, batch=512, epochs=10, delta=1e-5)
        low, high = (low, middle) if spent <= epsilon else (middle, high)
    return high


@pytest.mark.parametrize(("epsilon", "less"), [(1.0, True), (10.0, True), (200.0, False)])
def test_dpsgd_needs_less_noise_except_at_extreme_epsilons(epsilon: float, less: bool) -> None:
    """Tramer and Boneh's figure 9, with the Renyi accountant of the time."""
    steps, rate = 980, 512 / 50_000
    event = steps * accounting.DpSgdRun(rate=rate, steps=1).event(needed(epsilon))
    spent = accounting.bounds(event, 1e-5, orders=accounting.OPACUS_ORDERS)["rdp_classic"]
    assert (spent < epsilon) == less


def test_earlier_rows_have_smaller_rho() -> None:
    rhos = [position_rho(2.0, 5, at, tail=1) for at in range(1, 6)]
    assert rhos == sorted(rhos)
    assert rhos[-1] == IterationAmplification(steps=5, tail=1).cost(TABLE, 2.0).rho == 1 / 16
    with pytest.raises(WrongInput, match="expected position"):
        position_rho(2.0, 5, 6)


def test_last_iterate_has_the_noise_of_all_steps_and_the_tail() -> None:
    """Identity maps: the deviation at the end is that of steps + tail draws."""
    rng, many = Rng(seed=5), np.zeros(20_000)
    last = rng.iterate(many, [lambda w: w] * 3, noise=2.0, sensitivity=0.5, tail=6)
    assert last.std() == pytest.approx(3.0, rel=0.03)


@pytest.mark.parametrize("schema", [TABLE, THREE, NUMBER], ids=["two", "three", "number"])
@given(seed=st.integers(0, 10**6), share=st.floats(0.01, 1))
@settings(max_examples=25, deadline=None)
def test_slots_are_nonexpansive_and_sensitivity_holds(schema: Schema, seed: int, share: float) -> None:
    rng, width = np.random.default_rng(seed), 3
    rows = rng.standard_normal((5, width))
    rows *= NORM / np.linalg.norm(rows, axis=1, keepdims=True)
    many = 3 if len(schema.classes) == 3 else 1
    goal = np.where(np.arange(many)[:, None] == rng.integers(0, max(many, 2), 5), 1.0, -1.0)
    slope, bend = slope_bounds(schema)
    lr = share * 2 / (bend * NORM**2)

    def visited(weights: np.ndarray, part: slice) -> np.ndarray:
        return iteration_amplification._steps(weights, rows=rows[part], goal=goal[:, part], lr=lr, schema=schema)

    one, two = rng.standard_normal((2, many, width)) * 10.0 ** rng.uniform(-1, 1)
    every = slice(0, 5)
    between = np.linalg.norm(visited(one, every) - visited(two, every))
    assert between <= np.linalg.norm(one - two) * (1 + 1e-9)
    distance = np.linalg.norm(visited(one, slice(0, 4)) - visited(one, every))
    assert distance <= lr * slope * NORM * (1 + 1e-9)


def test_expansive_learning_rate_is_refused_and_caught(monkeypatch: Any) -> None:
    with pytest.raises(WrongInput, match="beyond which a step may move two points apart"):
        IterationAmplification(lr=7.0).cost(TABLE, 1.0)
    with pytest.raises(WrongInput, match="at most 4194304 declared rows"):
        IterationAmplification().cost(replace(TABLE, rows=2**23), 1.0)
    monkeypatch.setattr(IterationAmplification, "_longest_step", lambda self, schema: 100.0)
    with pytest.raises(BrokenPromise, match="moves two points apart"):
        check_mechanism(IterationAmplification(lr=60.0), schema=TABLE, games=0)


def test_slots_by_position_and_halved_noise_are_caught(monkeypatch: Any) -> None:
    """Slots by position move every row behind the new one; the noise must be the one priced."""
    by_place = "sensitivity exceeded|control flow"
    usual = IterationAmplification.run
    with monkeypatch.context() as patch:
        patch.setattr(IterationAmplification, "run", lambda self, data, noise, rng: usual(self, data, noise / 2, rng))
        with pytest.raises(BrokenPromise, match="the stated cost is too low"):
            check_mechanism(IterationAmplification(), schema=TABLE, games=0)
    with monkeypatch.context() as patch:
        patch.setattr(bounded_rows, "with_constant", lambda rows, usual=bounded_rows.with_constant: 2 * usual(rows))
        with pytest.raises(BrokenPromise, match=r"sensitivity exceeded|moves two points"):
            check_mechanism(IterationAmplification(lr=2.0), schema=TABLE, games=0)
    placed = _Placed(steps=4, tail=3)
    with pytest.raises(BrokenPromise, match=by_place):
        check_mechanism(placed, schema=TABLE, games=0)


class _Placed(IterationAmplification):
    def run(self, data: Any, noise: float, rng: Rng) -> Any:
        class Fixed:
            def __getattr__(self, name: str) -> Any:
                return getattr(rng, name)

            def shards(self, rows: int, shares: tuple[float, ...]) -> np.ndarray:
                return np.arange(rows) * len(shares) // max(rows, 1)

        return IterationAmplification.run(self, data, noise, Fixed())


def test_one_pass_learns_at_small_noise() -> None:
    data = rows_for(TABLE, 400)
    model = IterationAmplification(lr=2.0).run(data, 1e-4, Rng(seed=1))
    assert (model.predictions(data) == data.y).mean() > 0.8
    assert IterationAmplification(tail=1).cost(TABLE, 1.0) == ZCDP(rho=0.25)
