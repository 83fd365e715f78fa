"""Every learner that ranks train together gives the model of one process, and so do features of networks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privaware import features
from privaware.data import Data
from privaware.learners._fixed_features import row_features, rows_after
from privaware.learners.linear import Linear
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.testing import rows_for
from tests.learners.test_every_learner import IMAGE, LEARNERS
from tests.ranks import processes, threads

ON_RANKS = [name for name, (learner, _) in LEARNERS.items() if getattr(learner, "on_ranks", False)]
SLOW = ("finetune",)


def model(name: str) -> dict[str, bytes]:
    learner, schema = LEARNERS[name]
    released = learner.run(rows_for(schema, 40, seed=1), 1.0, Rng(5))
    return {key: np.asarray(value).tobytes() for key, value in released.tensors.items()}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in ON_RANKS]
)
def test_two_ranks_give_the_model_of_one(name: str) -> None:
    hub = threads.Hub(2)
    together = threads.led(2, lambda: model(name), hub)
    with processes.leading_alone():
        assert together == model(name)
    assert hub.totals > 0


def images(count: int) -> Data:
    return rows_for(replace(IMAGE, rows=count), count, seed=2)


@pytest.mark.parametrize("count", [1, 130, 400])
def test_ranks_compute_the_features_of_one_process(count: int) -> None:
    chain, data = (features.build({"name": "scatter", "J": 1, "L": 2}),), images(count)
    for compute in (rows_after, row_features):
        hub = threads.Hub(3)
        together: Any = threads.led(3, lambda compute=compute: compute(chain, data), hub)
        assert (together == compute(chain, data)).all()
        assert hub.features == (count > 128)


def test_ranks_compute_features_of_texts() -> None:
    schema = Schema(form="text", classes=("no", "yes"), rows=300)
    data = rows_for(schema, 300, seed=2)
    chain = (features.build({"name": "hashed", "slots": 64}),)
    hub = threads.Hub(2)
    together = threads.led(2, lambda: rows_after(chain, data), hub)
    assert (together == rows_after(chain, data)).all()
    assert hub.features


def test_a_linear_model_on_shared_features_is_the_same() -> None:
    learner = Linear(steps=3, features=[{"name": "scatter", "J": 1, "L": 2}])
    run = lambda: learner.run(images(300), 1.0, Rng(5)).tensors  # noqa: E731
    together, alone = threads.led(2, run), run()
    assert all((np.asarray(together[name]) == np.asarray(alone[name])).all() for name in alone)
