"""Calibrated noise is the least that fits, and is remembered; steps of DP-SGD are whole numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware import accounting
from privaware.accounting import _calibrate, _price
from privaware.errors import WrongInput
from privaware.events import Approximate, Disjoint, Event, Gaussian, Laplace, Pure
from tests.accounting.trainings import DELTA, training

few = settings(max_examples=6, deadline=None)


@few
@given(epsilon=st.floats(0.05, 20.0), rate=st.floats(1e-3, 0.3), steps=st.integers(20, 3000))
def test_p9_calibration_returns_the_safe_side(epsilon: float, rate: float, steps: int) -> None:
    noise = accounting.calibrate(lambda noise: training(noise, rate, steps), epsilon, DELTA)
    assert accounting.epsilon(training(noise, rate, steps), DELTA) <= epsilon
    assert accounting.epsilon(training(noise / 1.002, rate, steps), DELTA) > epsilon
    assert _price.quick(training(noise, rate, steps), DELTA) <= epsilon * 1.005


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1e3, 1e6, 1e9])
def test_p9_calibration_works_from_epsilon_0_001_to_1e9(epsilon: float) -> None:
    noise = accounting.calibrate(lambda noise: training(noise, 0.01, 200), epsilon, DELTA)
    assert 0.9 * epsilon < accounting.epsilon(training(noise, 0.01, 200), DELTA) <= epsilon


def test_calibration_with_a_fixed_part() -> None:
    def cost(noise: float) -> Event:
        return Laplace(noise=2.0) + training(noise)

    noise = accounting.calibrate(cost, 1.0, DELTA)
    assert accounting.epsilon(cost(noise), DELTA) <= 1.0
    with pytest.raises(WrongInput, match="some noise can reach"):
        accounting.calibrate(cost, 0.3, DELTA)
    with pytest.raises(WrongInput, match="some noise can reach"):
        accounting.calibrate(lambda n: Gaussian(noise=n) + Approximate(epsilon=0.1, delta=2e-5), 1.0, DELTA)


def test_calibration_with_a_fixed_part_of_the_whole_budget() -> None:
    def cost(noise: float) -> Event:
        return Disjoint(events=(Gaussian(noise=noise), Laplace(noise=1.0)))

    noise = accounting.calibrate(cost, 1.0, DELTA)
    assert accounting.epsilon(cost(noise), DELTA) <= 1.0
    assert noise == pytest.approx(accounting.calibrate(lambda n: Gaussian(noise=n), 1.0, DELTA), rel=5e-3)


def test_calibration_goes_by_the_price_of_a_fixed_part() -> None:
    def cost(noise: float) -> Event:
        return Disjoint(events=(Gaussian(noise=noise), Pure(epsilon=0.600001) + Laplace(noise=1 / 2.4)))

    assert _price.quick(cost(1e9), DELTA) > 3.0
    noise = accounting.calibrate(cost, 3.0, DELTA)
    assert accounting.epsilon(cost(noise), DELTA) <= 3.0
    assert noise == pytest.approx(accounting.calibrate(lambda n: Gaussian(noise=n), 3.0, DELTA), rel=5e-3)


def test_calibration_is_cached_and_survives_a_damaged_cache(
    private_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = accounting.calibrate(training, 2.0, DELTA)
    files = list(private_cache.rglob("*.json"))
    assert len(files) == 1
    priced: list[float] = []
    price = _price.epsilon
    with monkeypatch.context() as blind:
        blind.setattr(_price, "quick", None)
        blind.setattr(_price, "epsilon", lambda *event: priced.append(price(*event)) or priced[-1])
        assert accounting.calibrate(training, 2.0, DELTA) == first
    assert len(priced) == 1
    forged = json.dumps({"noise": first / 2, "event": "forged"})
    for damage in ("not json", "[]", forged, json.dumps({"noise": "1"}), json.dumps({"noise": first * 2})):
        files[0].write_text(damage)
        assert accounting.calibrate(training, 2.0, DELTA) == first
        assert json.loads(files[0].read_text())["noise"] == first


@pytest.mark.parametrize("noise", [0.3, 1e-9, 50.0])
def test_p45_an_edited_cache_entry_is_ignored(private_cache: Path, noise: float) -> None:
    first = accounting.calibrate(training, 2.0, DELTA)
    [file] = private_cache.rglob("*.json")
    entry = {"noise": noise, "event": _calibrate.fingerprint(training(noise))}  # all that an entry ever held
    file.write_text(json.dumps(entry))
    assert accounting.calibrate(training, 2.0, DELTA) == first
    assert accounting.epsilon(training(first), DELTA) <= 2.0


# Steps


def test_p4_steps_are_whole_numbers() -> None:
    for n in range(1, 5001):
        facts = accounting.dpsgd(rows=n, batch=1, epochs=1)
        assert (facts.steps, facts.rate) == (n, 1 / n)
        assert accounting.dpsgd(rows=n, batch=n, epochs=3).steps == 3
    assert accounting.dpsgd(rows=10, batch=3, epochs=1).steps == 4
    assert accounting.dpsgd(rows=1000, batch=10, epochs=0.29).steps == 29


@pytest.mark.parametrize("wrong", [{"batch": 11}, {"rows": 0}, {"epochs": 0}, {"epochs": "many"}, {"batch": 2.5}])
def test_impossible_dpsgd_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(WrongInput, match="expected"):
        accounting.dpsgd(**({"rows": 10, "batch": 5, "epochs": 1} | wrong))  # type: ignore[arg-type]
