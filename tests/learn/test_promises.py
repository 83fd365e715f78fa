"""Every learner keeps the contract: one line each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from privaware import plugins
from privaware.learn.alibi import Alibi
from privaware.learn.linear import Linear
from privaware.learn.majority import Majority
from privaware.learn.mean import Mean
from privaware.learn.pate import Pate
from privaware.schema import Column, Schema
from privaware.testing import check_mechanism, rows_for

COLUMNS = (
    Column(name="age", low=0, high=90, bins=(30, 60), missing="category"),
    Column(name="score", low=-1, high=1),
    Column(name="job", kind="category", categories=("a", "b"), unseen="other"),
)
TABLE = Schema(columns=COLUMNS, classes=("no", "yes"), rows=40)
NUMBER = Schema(columns=COLUMNS, low=-2, high=5, rows=40)
IMAGE = Schema(form="image", shape=(1, 3, 3), classes=("no", "yes"), rows=40)
POOL = rows_for(TABLE, 12, seed=3)

GAMES = {"linear": 40}
"""Runs a side in the canary game, where the default would take long: `descent` has a game of its own."""

LEARNERS = {
    "linear": (Linear(steps=5), TABLE),
    "linear, sampled": (Linear(steps=5, rate=0.3), TABLE),
    "linear, regression": (Linear(steps=5), NUMBER),
    "linear, images": (Linear(steps=5), IMAGE),
    "majority": (Majority(), TABLE),
    "mean": (Mean(), NUMBER),
    "alibi": (Alibi(steps=10), replace(TABLE, unit="label")),
    "pate": (Pate(teachers=4, queries=12, public=POOL), TABLE),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_learner_keeps_the_contract(name: str) -> None:
    learner, schema = LEARNERS[name]
    assert check_mechanism(learner, schema=schema, games=GAMES.get(name.split(",")[0], 300)) <= 1.0


def test_every_learner_is_checked() -> None:
    checked = {type(learner).__module__.rsplit(".", 1)[-1] for learner, _ in LEARNERS.values()}
    assert checked == set(plugins.names("learn"))
