"""Prices of replaced rows and changed labels, which are those of two added rows."""

from __future__ import annotations

import pytest

from privaware.accounting import epsilon
from privaware.events import Event, Gaussian, Group, Sampled


@pytest.mark.parametrize("delta", [1e-2, 1e-5])
@pytest.mark.parametrize(("noise", "rate", "steps"), [(0.3, 0.1, 1), (1.0, 0.5, 20), (4.0, 0.01, 100), (20.0, 0.5, 20)])
def test_replaced_row_costs_at_most_two_added_rows(noise: float, rate: float, steps: int, delta: float) -> None:
    def training(relation: str) -> Event:
        return steps * Sampled(event=Gaussian(noise=noise), rate=rate, relation=relation)

    two_added = epsilon(Group(event=training("add_remove"), size=2), delta)
    assert epsilon(training("replace_one"), delta) < two_added
