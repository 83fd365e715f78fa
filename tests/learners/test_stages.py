"""Learners with a long way to their model say which stage they are in, and how much of it is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privaware.data import Data
from privaware.learners import Learner
from privaware.learners.additive import Additive
from privaware.learners.boosted import Boosted
from privaware.learners.fourier import Fourier
from privaware.learners.pate import Pate
from privaware.noise import Rng
from privaware.schema import Column, Schema
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


BOOSTING = {
    "additive": Additive(steps=3),
    "additive with trees": Additive(steps=3, trees=2),
    "boosted": Boosted(steps=2, trees=3),
    "fourier": Fourier(steps=3, count=4),
    "fourier without features": Fourier(steps=3, count=0),
    "fourier without steps": Fourier(steps=0, count=4),
}


@pytest.mark.parametrize("name", BOOSTING)
def test_every_step_of_boosting_is_reported_once(name: str) -> None:
    schema = Schema(columns=(Column(name="x", low=0, high=1),), classes=("no", "yes"), rows=40)
    numbers = np.linspace(0, 1, 40)
    calls: list[tuple[int, int]] = []
    learner: Learner = replace(BOOSTING[name], progress=lambda step, steps, left, what: calls.append((step, steps)))
    learner.run(Data(schema=schema, x=numbers[:, None], y=(numbers > 0.5).astype(int)), 1.0, Rng(seed=1))
    assert calls == [(step, len(calls)) for step in range(1, len(calls) + 1)]
    assert calls
