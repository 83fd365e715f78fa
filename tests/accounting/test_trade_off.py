"""The trade-off of an event is the envelope of all its (epsilon, delta)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from privaware import accounting
from privaware.errors import Refused
from privaware.events import Gaussian, Pure, RandomisedResponse, Unproven

FPRS = np.array([1e-4, 1e-3, 0.01, 0.1, 0.5])


def test_gaussian_has_its_closed_form() -> None:
    curve = accounting.trade_off(4 * Gaussian(noise=2.0))
    exact = norm.cdf(norm.ppf(FPRS) + 1.0)
    assert curve.powers(FPRS) == pytest.approx(exact, rel=2e-3)
    assert (curve.powers(FPRS) >= exact * (1 - 1e-9)).all()


def test_sampled_training_is_no_dearer_than_one_point_of_it() -> None:
    """The curve lies below the two lines of one (epsilon, delta), and well below where that delta is large."""
    event = 10 * Gaussian(noise=1.0).sampled(rate=0.1)
    curve = accounting.trade_off(event)
    epsilon = accounting.epsilon(event, 1e-5)
    alone = accounting.TradeOff(np.array([epsilon]), np.array([1e-5])).powers(FPRS)
    assert (curve.powers(FPRS) <= alone * (1 + 1e-6)).all()
    assert curve.power(0.1) < 0.6 * alone[3]


def test_pure_events_are_two_lines() -> None:
    response = accounting.trade_off(RandomisedResponse(epsilon=1.0, classes=2))
    assert response.powers(FPRS) == pytest.approx(np.minimum(np.e * FPRS, 1 - (1 - FPRS) / np.e), rel=1e-3)
    assert accounting.trade_off(Pure(epsilon=1.0)).power(0.01) == pytest.approx(0.01 * np.e, rel=1e-3)


def test_false_rate_is_the_power_read_backwards() -> None:
    curve = accounting.trade_off(Gaussian(noise=1.5))
    for fpr in (1e-3, 0.05, 0.4):
        assert curve.false_rate(curve.power(fpr)) == pytest.approx(fpr, rel=1e-6)


def test_event_without_a_guarantee_has_no_curve() -> None:
    with pytest.raises(Refused):
        accounting.trade_off(Unproven(reason="nobody knows"))
