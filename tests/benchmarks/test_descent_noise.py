"""The noise written down for machines without an accountant is what the accountant asks for."""

from __future__ import annotations

import pytest

from benchmarks._features_descent import CASES
from privaware import accounting
from privaware.events import Gaussian


@pytest.mark.parametrize("name", list(CASES))
def test_noise_of_the_tables_costs_the_printed_epsilon(name: str) -> None:
    facts = CASES[name]
    for epsilon, noise in facts["noise"].items():
        event = facts["steps"] * Gaussian(noise=noise).sampled(rate=facts["rate"])
        assert 0.995 * epsilon < accounting.epsilon(event, 1e-5) <= epsilon
