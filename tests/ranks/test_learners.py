"""Every learner that ranks train together gives the model of one process, and so do features of networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import features
from privaware.learners._fixed_features import row_features, rows_after
from privaware.learners.linear import Linear
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.testing import rows_for
from privaware.workflow.fit import Fit, fit
from tests.parts import same_tensors
from tests.ranks import models, processes, threads
from tests.ranks.models import FEATURES, ON_RANKS, images

SLOW = ("finetune",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in ON_RANKS]
)
def test_two_ranks_give_the_model_of_one(name: str) -> None:
    hub = threads.Hub(2)
    together = threads.led(2, lambda: models.of(name), hub)
    with processes.leading_alone():
        assert together == models.of(name)
    assert hub.totals > 0


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_processes_give_every_model_and_feature_of_one(size: int, tmp_path: Path) -> None:
    names = [*ON_RANKS, "scatter"]
    together = processes.led(names, size, tmp_path)
    with processes.leading_alone():
        assert together == {name: models.of(name) for name in names}


@pytest.mark.parametrize("count", [1, 130, 400])
def test_ranks_compute_the_features_of_one_process(count: int) -> None:
    chain, data = (features.build(FEATURES["scatter"]),), images(count)
    for compute in (rows_after, row_features):
        hub = threads.Hub(3)
        together: Any = threads.led(3, lambda compute=compute: compute(chain, data), hub)
        assert (together == compute(chain, data)).all()
        assert hub.features == (count > 128)


def test_ranks_compute_the_features_of_a_prior() -> None:
    hub = threads.Hub(2)
    assert threads.led(2, lambda: models.of("prior"), hub) == models.of("prior")
    assert hub.features


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


def test_persons_whose_rows_several_ranks_sum_are_the_same() -> None:
    """A person's rows are clipped one by one and priced as a group, whichever ranks sum them."""
    draw = np.random.default_rng(0)
    table = {"age": draw.uniform(0, 90, 240), "who": np.arange(240) % 60}
    people = pd.DataFrame(table | {"buys": np.where(table["age"] > 40, "yes", "no")})

    def run() -> Fit:
        settings = {"steps": 4, "batch": 60, "architecture": {"name": "fcn", "hidden": [4]}}
        asked: dict[str, Any] = {"target": "buys", "unit": "who", "cap": 4, "epsilon": 3.0, "limit": 9.0, "seed": 1}
        return fit(people, learner="dpsgd", settings=settings, **asked)

    together = threads.led(3, run)
    with processes.leading_alone():
        alone = run()
    assert together.model is not None
    assert alone.model is not None
    assert same_tensors(together.model.tensors, alone.model.tensors)
    assert together.epsilon == alone.epsilon
