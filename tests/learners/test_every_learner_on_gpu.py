"""Every learner that trains on a device moves its releases on a GPU by no more than their sensitivity."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from privaware import accounting
from privaware.mechanism import unit
from privaware.testing import replay, rows_for
from privaware.testing._price import spent
from privaware.testing._replay import record
from privaware.testing._rows import neighbours
from tests.learners.test_every_learner import LEARNERS

ON_DEVICES = [
    pytest.param(name, marks=pytest.mark.cuda) for name, (learner, _) in LEARNERS.items() if hasattr(learner, "device")
]
DISJOINT = ("label_mst", "pate", "pate, Laplace", "pate, confident", "pate, networks", "private_knn")
"""Priced by parts of the rows: the calls of a whole run cost more than their claim."""


@pytest.mark.parametrize("name", ON_DEVICES)
def test_replay_on_a_gpu_keeps_the_sensitivity(name: str) -> None:
    learner, schema = LEARNERS[name]
    learner = replace(learner, device="cuda")  # type: ignore[type-var]
    rows = rows_for(schema, 8)
    for _, other in islice(neighbours(rows, unit(learner)), 3):
        assert max(replay(learner, rows, other, 1.0).ratios.values(), default=0.0) <= 1.0


@pytest.mark.parametrize("name", [item for item in ON_DEVICES if item.values[0] not in DISJOINT])
def test_recorded_calls_on_a_gpu_cost_the_claim(name: str) -> None:
    learner, schema = LEARNERS[name]
    learner = replace(learner, device="cuda")  # type: ignore[type-var]
    recorded = accounting.epsilon(spent(record(learner, rows_for(schema, 8), 1.0).calls), 1e-5)
    assert recorded <= accounting.epsilon(learner.cost(schema, 1.0), 1e-5) * (1 + 1e-6)
