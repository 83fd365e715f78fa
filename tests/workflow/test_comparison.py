"""Two contenders as one mechanism: its cost is that of all trainings, and a held-out row only moves noisy scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privaware import accounting
from privaware.events import Disjoint, Event, Gaussian, Laplace
from privaware.learners._fixed_features import feature_for, linear_model, rows_of
from privaware.learners.dpsgd import DpSgd
from privaware.learners.linear import Linear
from privaware.learners.majority import Majority
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import check_mechanism, rows_for
from privaware.workflow._comparison import Comparison, Side, correct
from privaware.workflow.crossover import crossover

COLUMNS = (Column(name="a", low=-1, high=1), Column(name="b", low=0, high=5))
TABLE = Schema(columns=COLUMNS, classes=("no", "yes"), rows=40)
BOTH = ("a", "b")
SMALL = {"name": "fcn", "hidden": [3], "dropout": 0.0}


def comparison(**changed: Any) -> Comparison:
    sides = (
        Side(mechanism=Linear(steps=2), columns=("a",), noises=(3.0, 1.5)),
        Side(mechanism=Linear(steps=2), columns=BOTH, noises=(3.0, 1.5)),
    )
    return Comparison(**{"sides": sides, "repeats": 2, "held_out": 0.25, "score_noise": 2.0, **changed})


class Divided(Majority):
    """Parts of which neither dominates the other: a row in one part of one training and in the other of the next."""

    parts = (Gaussian(noise=3.73), Laplace(noise=1 / 0.85))

    def cost(self, schema: Schema, noise: float) -> Event:
        return Disjoint(events=self.parts)


def test_each_training_divides_the_rows_anew() -> None:
    sides = (Side(mechanism=Divided(), columns=BOTH, noises=(1.0,)),)
    mixed = accounting.epsilon(Divided.parts[0] + Divided.parts[1], 1e-5)
    assert accounting.epsilon(comparison(sides=sides).trainings(TABLE), 1e-5) >= mixed
    repeated = accounting.epsilon(2 * Disjoint(events=Divided.parts), 1e-5)
    assert repeated < mixed


def test_comparison_passes_the_mechanism_checks() -> None:
    sides = tuple(Side(mechanism=Linear(steps=2), columns=columns, noises=(1.0,)) for columns in (("a",), BOTH))
    check_mechanism(comparison(sides=sides, repeats=1), schema=TABLE, games=15)


def test_comparison_of_networks_passes_the_mechanism_checks() -> None:
    # every row in every step: the recorder cannot tell apart the samples of a population's models
    network = DpSgd(architecture=SMALL, steps=2, batch=30)
    sides = (Side(mechanism=network, columns=BOTH, noises=(2.0,)),)
    check_mechanism(comparison(sides=sides), schema=TABLE, games=8)


def test_cost_composes_trainings_and_takes_the_larger_part() -> None:
    result = comparison()
    one = accounting.epsilon(Linear(steps=2).cost(replace(TABLE, rows=30), 1.5), 1e-5)
    cost = result.cost(TABLE, 1.0)
    assert isinstance(cost, Disjoint)
    total = accounting.epsilon(cost, 1e-5)
    assert total > 2 * one  # 8 trainings, half of them at this noise
    assert total == pytest.approx(max(accounting.epsilon(part, 1e-5) for part in cost.events), rel=1e-6)
    more = accounting.epsilon(replace(result, repeats=4).cost(TABLE, 1.0), 1e-5)
    assert more > total
    people = replace(TABLE, unit="person", cap=3)
    assert not isinstance(result.cost(people, 1.0), Disjoint)  # a person may be in both parts


def test_scores_are_noisy_fractions_of_held_out_rows() -> None:
    table = replace(TABLE, rows=800)
    data = rows_for(table, 400)  # fewer than declared, as where a person's rows are capped
    quiet = comparison(score_noise=1e-6).run(data, 1e-4, Rng(seed=1)).scores
    assert quiet is not None
    assert quiet.shape == (2, 2, 2)
    assert quiet.min() > 0.9
    loud = [comparison(score_noise=5.0).run(data, 1.0, Rng(seed=at)).scores for at in range(12)]
    far = np.std([table_[0, 0, 0] for table_ in loud if table_ is not None])
    assert far > 5.0 * np.sqrt(9) / 100 / 2


def test_regression_is_scored_within_the_declared_range() -> None:
    numbers = Schema(columns=COLUMNS, low=-2.0, high=6.0, rows=40)
    data = rows_for(numbers, 40)
    model = Linear(steps=3).run(data, 1.0, Rng(seed=0))
    wild = replace(data, y=data.y * 1e9)
    assert 0 <= correct(model, wild) <= 40
    rows = [correct(model, data.take(np.arange(at, at + 1))) for at in range(40)]
    assert all(0 <= one <= 1 for one in rows)
    assert correct(model, data) == sum(rows) == sum(rows[::-1])  # exact in any order


def test_sets_of_columns_are_compared_on_public_rows() -> None:
    result = crossover(
        "wisconsin",
        simple="linear:columns=mean radius,steps=30",
        complex="linear:steps=30",
        epsilons=[0.05, 10.0],
        repeats=3,
        seed=4,
    )
    assert result.evaluation
    assert result.crossover is not None
    assert [p.x for p in result.curves["simple"]] == [0.05, 10.0]
    assert result.curves["complex"][1].mean > result.curves["simple"][1].mean
    assert result.epsilon > 10


def test_label_learners_are_priced_as_such() -> None:
    sides = (Side(mechanism=Majority(), columns=(), noises=(1.0,)),) * 2
    assert comparison(sides=sides).unit == "row"


def test_nan_predictions_count_as_wrong_per_row() -> None:
    schema = replace(TABLE, classes=(), low=0.0, high=1.0)
    data = rows_for(schema, 40)
    data.x[:20, 0] = 0.0
    feature = feature_for(schema)
    weight = np.full((1, rows_of(data, feature).shape[1]), np.inf)
    model = linear_model(schema, (feature,), weight, np.zeros(1))
    assert not np.isfinite(model.predictions(data)).all()
    rows = [correct(model, data.take(np.arange(at, at + 1))) for at in range(40)]
    assert all(0 <= row <= 1 for row in rows)
    assert correct(model, data) == pytest.approx(sum(rows))
