"""Every learner that trains on a device keeps the contract on a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from privaware.testing import check_learner
from tests.learners.test_every_learner import GAMES, LEARNERS

ON_DEVICES = [name for name, (learner, _) in LEARNERS.items() if hasattr(learner, "device")]


@pytest.mark.cuda
@pytest.mark.parametrize("name", ON_DEVICES)
def test_learner_keeps_the_contract_on_a_gpu(name: str) -> None:
    learner, schema = LEARNERS[name]
    games = min(20, GAMES.get(name, GAMES.get(name.split(",")[0], 20)))
    assert check_learner(replace(learner, device="cuda"), schema=schema, games=games) <= 1.0  # type: ignore[type-var]
