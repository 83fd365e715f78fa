"""Recorded noise multipliers are those that the accountants compute."""

from __future__ import annotations

import pytest

from privaware import accounting
from privaware.events import Gaussian
from research.papers._bao_features_descent import SOFTMAX
from research.papers._prices import PaperPrices, rdp_epsilon


@pytest.mark.parametrize(
    ("data", "epsilon"), [("breast", 0.236), ("breast", 0.014), ("adult", 0.0196), ("adult", 0.00817)]
)
def test_recorded_noise_of_softmax_meets_its_epsilon(data: str, epsilon: float) -> None:
    rate, steps = SOFTMAX[data]
    noise = PaperPrices("bao").known[f"{data} softmax at {epsilon}"]
    spent = accounting.epsilon(steps * Gaussian(noise=noise).sampled(rate=rate), 1e-5)
    assert 0.995 * epsilon < spent <= epsilon


def test_recorded_noise_of_schedules_meets_its_epsilon() -> None:
    recorded = {key: noise for key, noise in PaperPrices("bao").known.items() if key.endswith(" by rdp")}
    for key in sorted(recorded)[:: max(1, len(recorded) // 5)]:
        schedule, _, rest = key.partition(": ")
        rate, steps = schedule.split(" x ")
        epsilon = float(rest.split(" by ")[0])
        # rates are rounded to six digits in the key
        assert rdp_epsilon(float(rate), int(steps), recorded[key]) == pytest.approx(epsilon, rel=1e-3)


def test_printed_epsilon_of_a_published_schedule() -> None:
    assert rdp_epsilon(100 / 60_000, 300 * 600, 1.0) == pytest.approx(4.387, abs=1e-3)
