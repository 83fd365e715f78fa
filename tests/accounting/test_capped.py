"""Capped batches: the price with `rows` declared holds for every smaller number of rows."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from privaware import accounting
from privaware.accounting import _capped
from privaware.events import Event, Gaussian, Group, Sampled, Selected

DELTA = 1e-5


def steps(rows: int, count: int = 500, cap: int = 20, **more: object) -> Event:
    return count * Sampled(event=Gaussian(noise=2.0), rate=0.05, rows=rows, cap=cap, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_p42_capped_batches_of_more_declared_rows_cost_no_less(relation: str) -> None:
    """Without all smaller counts: 4.21 at 1,000 rows and 8.11 at 500."""
    epsilons = [accounting.epsilon(steps(rows, relation=relation), DELTA) for rows in (400, 500, 1000, 10**6)]
    for fewer, more in pairwise(epsilons):
        assert fewer <= more * (1 + 1e-9)
    assert epsilons[-1] > 8.11


@pytest.mark.parametrize(
    ("wrap", "of_500"),
    [pytest.param("selected", 2.2796, marks=pytest.mark.slow), ("group", 1.7505), ("beside", 1.8832)],
)
def test_p42_declared_rows_are_an_upper_bound_in_nested_events(wrap: str, of_500: float) -> None:
    """`of_500` is the price of exactly 500 rows; that of exactly 1,000 is lower."""
    run = steps(1000, 20)
    events = {
        "selected": Selected(event=run, distribution="logarithmic", mean=5.0),
        "group": Group(event=run, size=1),
        "beside": run + Gaussian(noise=5.0),
    }
    assert of_500 * 0.999 <= accounting.epsilon(events[wrap], DELTA) <= of_500 * 1.05


def batch(others: int, present: bool, rate: float, cap: int, value: float) -> dict[float, float]:
    """Exact probabilities of the sum of a truncated batch: every other row is `value`, the row itself 1."""
    out: dict[float, float] = {}

    def add(total: float, chance: float) -> None:
        out[total] = out.get(total, 0.0) + chance

    for j in range(others + 1):
        chance = float(stats.binom.pmf(j, others, rate))
        base = min(j, cap) * value
        add(base, chance * (1 - rate) if present else chance)
        if present and j + 1 <= cap:
            add(j * value + 1, chance * rate)
        elif present:
            keep = cap / (j + 1)
            add((cap - 1) * value + 1, chance * rate * keep)
            add(cap * value, chance * rate * (1 - keep))
    return out


@pytest.mark.parametrize("noise", [0.7, 1.5])
@pytest.mark.parametrize(("rate", "rows", "cap"), [(0.5, 12, 3), (0.9, 30, 3), (0.1, 12, 2)])
def test_p42_truncated_batches_of_any_count_stay_below_the_price(
    noise: float, rate: float, rows: int, cap: int
) -> None:
    y = np.linspace(-60, 60, 60_001)
    priced = {
        e: accounting.delta(Sampled(event=Gaussian(noise=noise), rate=rate, rows=rows, cap=cap), e)
        for e in (0.0, 1.0, 2.0)
    }
    for true_rows in range(1, rows + 1):
        for value in (-1.0, 0.0, 1.0):
            p, q = (
                sum(w * stats.norm.pdf(y, m, noise) for m, w in batch(true_rows - 1, there, rate, cap, value).items())
                for there in (True, False)
            )
            for e, delta in priced.items():
                exact = max(np.maximum(a - math.exp(e) * b, 0).sum() for a, b in ((p, q), (q, p))) * (y[1] - y[0])
                assert exact <= delta * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize(("rate", "rows", "cap"), [(0.05, 1000, 20), (0.5, 40, 3), (0.3, 200, 1)])
def test_no_true_count_costs_more_than_the_candidates(rate: float, rows: int, cap: int) -> None:
    pairs = _capped.candidates(2.0, rate, rows, cap, False)
    largest = np.max([_capped._profile(pair) for pair in pairs], axis=0)
    for n in range(cap, rows + 1, max(1, rows // 100)):
        overflow = _capped._overflow(n, rate, cap)
        pushed = min(1.0, float(stats.binom.sf(cap, n, rate)) * cap / n / overflow) if overflow else 0.0
        exact = _capped._profile(
            _capped.CappedGaussian(noise=2.0, rate=rate, overflow=overflow, pushed=pushed or rate, replace=False)
        )
        assert np.all(exact <= largest * (1 + 1e-8) + 1e-15)
