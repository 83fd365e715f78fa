"""The search as a mechanism: what it finds, what it refuses and what it survives."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from privaware import datasets
from privaware.errors import CheckFailed
from privaware.events import Gaussian
from privaware.learners._fixed_features import feature_for, linear_model, rows_of
from privaware.learners.dpsgd import DpSgd
from privaware.metrics import accuracy
from privaware.models.spaces import Space
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._search import Search
from privaware.strategies.grid import Grid
from privaware.strategies.paas import Paas
from privaware.strategies.racing import Racing
from privaware.strategies.rs import Rs
from privaware.testing import example, rows_for
from tests.strategies.candidates import SCHEMA, SPACE, VOTES, votes


def test_search_finds_the_learning_rate_that_learns() -> None:
    loaded = datasets.load("digits")
    space = replace(SPACE, choices={**SPACE.choices, "lr": (1e-6, 4.0)})
    search = Search(
        space=space,
        strategy=Paas(generations=2, population=6),
        held_out=0.2,
        build=lambda s: DpSgd(**s, steps=60, batch=256),
    )
    result = search.run(loaded.train, 1.5, Rng(seed=1))
    assert result.point["lr"] == 4.0
    assert accuracy(loaded.test.y, result.model.predictions(loaded.test)) > 0.7
    assert result.model.schema == loaded.train.schema


@dataclass(frozen=True, kw_only=True)
class Diverging:
    """A diverged training: infinite weights, and some outputs that are NaN."""

    size: float

    def cost(self, schema: Schema, noise: float) -> Any:
        return Gaussian(noise=noise)

    def run(self, data: Any, noise: float, rng: Rng) -> Any:
        feature = feature_for(data.schema)
        weight = np.full((1, rows_of(data, feature).shape[1]), self.size)
        weight[:, ::2] *= -1
        return linear_model(data.schema, (feature,), weight, np.zeros(1))


@pytest.mark.parametrize("strategy", [Grid(), Rs(trials=40)])
def test_diverged_candidate_gets_a_finite_score_and_loses(strategy: Any) -> None:
    """One row without a number would otherwise decide the score, whose sensitivity is 1."""
    schema = example(rows=400, classes=0)
    space = Space.load({"choices": {"size": [math.inf, 0.01]}, "build": {"size": "$size"}})
    search = Search(space=space, strategy=strategy, held_out=0.5, build=lambda settings: Diverging(**settings))
    for seed in range(3):
        result = search.run(rows_for(schema, 400), 2.0, Rng(seed=seed))
        assert result.point == {"size": 0.01}
        assert result.score is not None
        assert math.isfinite(result.score)


def test_racing_survives_diverged_candidates() -> None:
    """The charge is spent by then, and the same command would fail again."""
    space = Space.load({"choices": {"lr": [1e9]}, "build": {"lr": "$lr"}})
    deep = {"name": "fcn", "hidden": [8] * 6, "dropout": 0.0}
    search = Search(
        space=space,
        strategy=Racing(candidates=4),
        held_out=0.3,
        build=lambda settings: DpSgd(**settings, steps=40, batch=100, architecture=deep),
    )
    result = search.run(rows_for(SCHEMA, 400), 2.0, Rng(seed=0))
    assert result.point == {"lr": 1e9}


class Greedy(Rs):
    def start(self, space: Space, rng: np.random.Generator) -> Any:
        searcher = super().start(space, rng)
        ask = searcher.ask
        searcher.ask = lambda count: ask(count + 1)  # type: ignore[method-assign]
        return searcher


def test_excess_trials_are_refused_without_their_number() -> None:
    search = Search(space=VOTES, strategy=Greedy(trials=40), build=votes)
    with pytest.raises(CheckFailed) as caught:
        search.run(rows_for(SCHEMA, 100), 2.0, Rng(seed=0))
    assert re.findall(r"\d+", str(caught.value)) == ["1"]  # the round
