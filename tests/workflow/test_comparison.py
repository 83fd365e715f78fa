"""Two contenders as one mechanism: its price is all trainings, and a held-out row only moves noised scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privaware import accounting
from privaware.errors import WrongInput
from privaware.events import Disjoint
from privaware.learners._rows import feature_for, linear_model, rows_of
from privaware.learners.dpsgd import DpSgd
from privaware.learners.linear import Linear
from privaware.learners.majority import Majority
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import check_mechanism, rows_for
from privaware.workflow._comparison import Comparison, Side, correct
from privaware.workflow._contenders import contender
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


def test_a_comparison_keeps_the_contract() -> None:
    sides = tuple(Side(mechanism=Linear(steps=2), columns=columns, noises=(1.0,)) for columns in (("a",), BOTH))
    check_mechanism(comparison(sides=sides, repeats=1), schema=TABLE, games=15)


def test_networks_are_compared_as_populations_within_the_contract() -> None:
    # every row in every step: the recorder cannot tell apart the samples of a population's models
    network = DpSgd(architecture=SMALL, steps=2, batch=30)
    sides = (Side(mechanism=network, columns=BOTH, noises=(2.0,)),)
    check_mechanism(comparison(sides=sides), schema=TABLE, games=15)


def test_the_price_is_every_training_and_the_dearer_part_counts() -> None:
    made = comparison()
    one = accounting.epsilon(Linear(steps=2).cost(replace(TABLE, rows=30), 1.5), 1e-5)
    cost = made.cost(TABLE, 1.0)
    assert isinstance(cost, Disjoint)
    whole = accounting.epsilon(cost, 1e-5)
    assert whole > 2 * one  # 8 trainings, half of them at this noise
    assert whole == pytest.approx(max(accounting.epsilon(part, 1e-5) for part in cost.events), rel=1e-6)
    more = accounting.epsilon(replace(made, repeats=4).cost(TABLE, 1.0), 1e-5)
    assert more > whole
    people = replace(TABLE, unit="person", cap=3)
    assert not isinstance(made.cost(people, 1.0), Disjoint)  # a person may be in both parts


def test_scores_are_shares_of_the_held_out_rows_and_noised() -> None:
    table = replace(TABLE, rows=4000)
    data = rows_for(table, 2000)  # fewer than declared, as where a person's rows are capped
    quiet = comparison(score_noise=1e-6).run(data, 1e-4, Rng(seed=1)).scores
    assert quiet is not None
    assert quiet.shape == (2, 2, 2)
    assert quiet.min() > 0.9
    loud = [comparison(score_noise=5.0).run(data, 1.0, Rng(seed=at)).scores for at in range(20)]
    far = np.std([table_[0, 0, 0] for table_ in loud if table_ is not None])
    assert far > 5.0 * np.sqrt(9) / 500 / 2


def test_regression_is_scored_within_the_declared_range() -> None:
    numbers = Schema(columns=COLUMNS, low=-2.0, high=6.0, rows=40)
    data = rows_for(numbers, 40)
    model = Linear(steps=3).run(data, 1.0, Rng(seed=0))
    wild = replace(data, y=data.y * 1e9)
    assert 0 <= correct(model, wild) <= 40
    rows = [correct(model, data.take(np.arange(at, at + 1))) for at in range(40)]
    assert all(0 <= one <= 1 for one in rows)
    assert correct(model, data) == pytest.approx(sum(rows))


@pytest.mark.parametrize(
    "text",
    [
        "magic",
        "linear:columns",
        "{",
        '{"learner": "linear", "wings": 2}',
        "linear:columns=nose",
        '{"learner": "linear", "columns": "a"}',
        "",
        "linear:steps=many",
        '{"name": "fcn"}',
        '{"name": "nonsense"}',
    ],
)
def test_a_wrong_contender_is_one_sentence(text: str) -> None:
    with pytest.raises(WrongInput) as told:
        crossover("wisconsin", simple="majority", complex=text, epsilons=[1.0], repeats=1)
    assert "\n" not in str(told.value)


def test_a_published_network_takes_the_inputs_of_the_data() -> None:
    made = contender("bao.fcn.mnist.9610:lr=2.0")
    assert made.learner == "dpsgd"
    assert made.settings["architecture"]["hidden"] == [128]
    assert "inputs" not in made.settings["architecture"]
    assert made.settings["lr"] == 2.0


def test_sets_of_columns_are_compared_on_public_rows() -> None:
    made = crossover(
        "wisconsin",
        simple="linear:columns=mean radius,steps=30",
        complex="linear:steps=30",
        epsilons=[0.05, 10.0],
        repeats=3,
        seed=4,
    )
    assert made.evaluation
    assert made.crossover is not None
    assert [p.x for p in made.curves["simple"]] == [0.05, 10.0]
    assert made.curves["complex"][1].mean > made.curves["simple"][1].mean
    assert made.epsilon > 10


def test_label_learners_are_priced_as_such() -> None:
    sides = (Side(mechanism=Majority(), columns=(), noises=(1.0,)),) * 2
    assert comparison(sides=sides).unit == "row"


def test_a_model_that_diverged_gets_rows_wrong_one_by_one() -> None:
    schema = replace(TABLE, classes=(), low=0.0, high=1.0)
    data = rows_for(schema, 40)
    data.x[:20, 0] = 0.0
    feature = feature_for(schema)
    weight = np.full((1, rows_of(data, feature).shape[1]), np.inf)
    model = linear_model(schema, feature, weight, np.zeros(1))
    assert not np.isfinite(model.predictions(data)).all()
    rows = [correct(model, data.take(np.arange(at, at + 1))) for at in range(40)]
    assert all(0 <= row <= 1 for row in rows)
    assert correct(model, data) == pytest.approx(sum(rows))
