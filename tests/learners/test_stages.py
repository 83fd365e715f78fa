"""Learners with a long way to their model say which stage they are in, and how much of it is left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from privaware.learners.pate import Pate
from privaware.noise import Rng
from tests.learners.networks.test_journal import LEARNERS, PUBLIC, ROWS

STAGES = {
    "pate": ["teachers", "training"],
    "pate, ridge": ["teachers"],
    "private_knn": ["votes", "training", "votes", "training"],
    "private_set": ["gradient queries", "training"],
    "dpgen": ["score network", "images", "training"],
}


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_is_reported_to_its_end(name: str) -> None:
    ended: list[str] = []

    def listen(step: int, steps: int, left: float, what: str = "training") -> None:
        assert 1 <= step <= steps
        assert left >= 0
        if step == steps:
            ended.append(what)

    learner = Pate(teachers=3, queries=5, public=PUBLIC) if name == "pate, ridge" else LEARNERS[name]
    replace(learner, progress=listen).run(ROWS, 1.0, Rng(seed=1))
    assert ended == STAGES[name]
