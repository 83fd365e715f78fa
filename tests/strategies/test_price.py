"""What a search costs: composition, private selection, and candidates of different cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from privaware import accounting
from privaware.errors import WrongInput
from privaware.events import AnyOf, Disjoint, Event, Gaussian, Laplace, Selected, leaves
from privaware.learners.dpsgd import DpSgd
from privaware.learners.majority import Majority
from privaware.models.spaces import Space
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._price import truncated
from privaware.strategies._search import Search
from privaware.strategies._strategy import TrialCount
from privaware.strategies.grid import Grid
from privaware.strategies.mgrs import Mgrs
from privaware.strategies.paas import Paas
from privaware.strategies.racing import Racing
from privaware.strategies.rs import Rs
from privaware.testing import BrokenPromise, check_mechanism, example, rows_for
from tests.strategies.candidates import SCHEMA, SPACE, epsilon, short, votes


def test_cost_is_composition_or_private_selection() -> None:
    open_ = Search(space=SPACE, strategy=Paas(generations=3, population=4), build=short)
    [(both, once)] = leaves(open_.cost(SCHEMA, 2.0))
    assert isinstance(both, Disjoint)
    assert once == 1
    train, scores = both.events
    assert sum(count for _, count in leaves(train)) == 8 * 6  # four, and twice two children
    assert [(type(leaf), count) for leaf, count in leaves(scores)] == [(Laplace, 8)]
    secret = Search(space=SPACE, strategy=Mgrs(generations=(4, 3)), build=short)
    kinds = [leaf for leaf, _ in leaves(secret.cost(SCHEMA, 2.0))]
    assert all(isinstance(leaf, Selected) for leaf in kinds)
    assert [leaf.mean for leaf in kinds] == [4.0, 3.0]  # type: ignore[attr-defined]


class Divided(Majority):
    parts = (Gaussian(noise=3.73), Laplace(noise=1 / 0.85))

    def cost(self, schema: Schema, noise: float) -> Event:
        return Disjoint(events=self.parts)


def test_each_candidate_may_divide_the_rows_anew() -> None:
    search = Search(space=SPACE, strategy=Paas(generations=1, population=2), build=lambda settings: Divided())
    mixed = accounting.epsilon(Divided.parts[0] + Divided.parts[1], 1e-5)
    assert accounting.epsilon(2 * search.model_cost(SCHEMA, 2.0), 1e-5) >= mixed


def test_private_selection_costs_less_than_composition() -> None:
    prices = [
        epsilon(Search(space=SPACE, strategy=Paas(population=4, generations=n), build=short), 2.0) for n in (1, 3, 9)
    ]
    assert prices == sorted(prices)
    assert prices[0] < prices[1] < prices[2]
    hidden = epsilon(Search(space=SPACE, strategy=Rs(trials=36), build=short), 2.0)
    assert hidden < prices[2]


def test_table_viii_of_bao_at_its_real_cost() -> None:
    """Model epsilon 2.11 as they count: 300,000 steps at rate 1/600, noise 2 (accounting.md 2.3)."""
    once = 300_000 * Gaussian(noise=2.0).sampled(rate=1 / 600)
    assert accounting.epsilon(60 * once, 1e-5) == pytest.approx(22.51, rel=0.005)
    assert accounting.epsilon(TrialCount(mean=400.0).selected(once), 1e-5) == pytest.approx(3.753, rel=0.001)
    mgrs = sum((TrialCount(mean=mean).selected(once) for mean in (20.0, 10.0)), TrialCount(mean=40.0).selected(once))
    assert accounting.epsilon(mgrs, 1e-5) <= 7.16


def test_full_training_may_continue_from_earlier_weights() -> None:
    learner = short({"architecture": {"name": "fcn", "hidden": [4]}, "lr": 1.0})
    earlier = learner.run(rows_for(SCHEMA, 400), 2.0, Rng(seed=1))
    again = truncated(learner, SCHEMA, 1.0, earlier)
    assert isinstance(again, DpSgd)
    assert again.initial is earlier
    assert again.cost(SCHEMA, 2.0) == learner.cost(SCHEMA, 2.0)
    assert truncated(learner, SCHEMA, 1.0) is learner
    with pytest.raises(WrongInput, match="expected a learner that can stop and continue"):
        truncated(Majority(), SCHEMA, 1.0, earlier)


def test_racing_pays_for_the_steps_taken() -> None:
    race = Search(space=SPACE, strategy=Racing(candidates=8), build=lambda s: DpSgd(**s, steps=16, batch=100))
    [(both, _)] = leaves(race.cost(SCHEMA, 2.0))
    assert isinstance(both, Disjoint)
    assert sum(count for _, count in leaves(both.events[0])) == 8 * 2 + 4 * 2 + 2 * 4 + 1 * 8


PRICED = Space.load(
    {"choices": {"batch": [50, 200], "lr": [1.0, 4.0]}, "build": {"batch": "$batch", "lr": "$lr"}, "priced": ["batch"]}
)


def test_candidates_of_different_cost_are_balanced() -> None:
    search = Search(
        space=PRICED, strategy=Grid(), build=lambda s: DpSgd(**s, steps=8), reference_epsilon=2.0, held_out=0.2
    )
    event = search.model_cost(SCHEMA, search.price.calibrated_noise(search.train_schema(SCHEMA)))
    assert isinstance(event, AnyOf)
    for part in event.events:
        assert accounting.epsilon(part, 1e-5) == pytest.approx(2.0, rel=0.01)
    assert accounting.epsilon(event, 1e-5) >= max(accounting.epsilon(part, 1e-5) for part in event.events)
    result = search.run(rows_for(SCHEMA, 400), 2.0, Rng(seed=0))
    assert result.point in list(PRICED.points())


def test_search_over_candidates_of_unequal_cost_keeps_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space.load(
        {
            "choices": {"share": [0.25, 1.0], "weight": [1.0, 2.0]},
            "build": {"share": "$share", "weight": "$weight"},
            "priced": ["share"],
        }
    )
    search = Search(space=space, strategy=Grid(), build=votes, held_out=0.3)
    schema = example(rows=60)
    assert any(isinstance(leaf, AnyOf) for leaf, _ in leaves(search.model_cost(schema, 2.0)))
    check_mechanism(search, schema=schema, epsilon=4.0, games=0)
    few = replace(space, priced=(), choices={**space.choices, "share": (1.0, 0.25)})
    assert few.priced_points()[0]["share"] == 0.25  # all are priced as if they were this one
    cheap = replace(search, space=few)
    monkeypatch.setattr("privaware.strategies._trials.Trials._expect_declared", lambda self, job: None)
    with pytest.raises(BrokenPromise, match="cost is too low"):
        check_mechanism(cheap, schema=schema, epsilon=4.0, games=0)


def test_undeclared_cost_is_refused_before_training() -> None:
    hidden = replace(PRICED, priced=())
    search = Search(space=hidden, strategy=Grid(), build=lambda s: DpSgd(**s, steps=8))
    with pytest.raises(WrongInput, match="priced"):
        search.run(rows_for(SCHEMA, 400), 2.0, Rng(seed=0))
