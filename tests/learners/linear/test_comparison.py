"""A linear regression that is compared with the mean of its target: what it costs, and what is left of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Gaussian
from privaware.learners import linear
from privaware.learners._linear import parts as _linear_parts
from privaware.learners._linear.comparison import is_better, noisy_mean
from privaware.learners.linear import Linear
from privaware.mechanism import run
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for
from tests.learners.linear.test_gradient import gradient_of, part, weights_of
from tests.parts import cut, same_tensors

SCHEMA = Schema(
    columns=(Column(name="a", low=-1, high=1), Column(name="b", low=-1, high=1)), low=-1.0, high=1.0, rows=2_000
)


def with_slope(slope: float) -> Data:
    """Targets of mean 0.2 that follow the first column by so much, with noise beside it."""
    data, noise = rows_for(SCHEMA, SCHEMA.rows), np.random.default_rng(4).normal(size=SCHEMA.rows)
    return replace(data, y=np.clip(0.2 + slope * data.x[:, 0] + 0.2 * noise, -1, 1))


def fitted(slope: float, *, seed: int = 1) -> Any:
    learner = Linear(check=0.25)
    noise = accounting.calibrate(lambda noise: learner.cost(SCHEMA, noise), 0.3, 1e-5)
    return learner.run(with_slope(slope), noise, Rng(seed=seed))


def test_what_has_learned_nothing_is_the_mean() -> None:
    for seed in range(5):
        model = fitted(0.0, seed=seed)
        assert not model.tensors["output.weight"].any()
        assert model.predictions(with_slope(0.0)).mean() == pytest.approx(0.2, abs=0.05)


def test_what_has_learned_stays() -> None:
    assert fitted(0.5).tensors["output.weight"].any()


def test_check_takes_less_of_the_budget_where_rows_are_many() -> None:
    few = replace(SCHEMA, rows=200)
    plain, checked = (
        accounting.calibrate(lambda noise, of=each: of.cost(few, noise), 1.0, 1e-5)
        for each in (Linear(), Linear(check=0.25))
    )
    assert (plain / checked) ** 2 == pytest.approx(0.75, abs=0.01)
    cost = Linear(check=0.25).cost(replace(SCHEMA, rows=10**6), 10.0)
    strengths = [count / event.noise**2 for event, count in _gaussians(cost)]
    assert sum(strengths[1:]) / sum(strengths) == pytest.approx((150 / 10**6) ** 2, rel=0.01)


def test_p39_gains_are_sums_of_each_row_alone() -> None:
    gradient = gradient_of(5_000, classes=0, width=9)
    weights = 0.3 * weights_of(gradient)
    total = gradient.gains(weights, 0.1).value
    order = torch.from_numpy(np.random.default_rng(3).permutation(5_000))
    assert torch.equal(part(gradient, order).gains(weights, 0.1).value, total)
    for missing in (0, 17, 4_999):
        without = part(gradient, [row for row in range(5_000) if row != missing]).gains(weights, 0.1).value
        alone = part(gradient, [missing]).gains(weights, 0.1).value
        assert torch.equal(without + alone, total)
        assert bool((alone.abs() <= 1).all())


def test_gains_are_those_of_clipped_differences_of_squares() -> None:
    gradient = gradient_of(300, classes=0)
    weights = 0.3 * weights_of(gradient)
    outputs = (gradient.rows.double() @ weights[0, :-1] + weights[0, -1]).clip(-1, 1)
    targets = gradient.targets.double()
    expected = (((targets - 0.1) ** 2 - (targets - outputs) ** 2) * 9).clip(-1, 1).sum(), targets.sum()
    assert gradient.gains(weights, 0.1).value.tolist() == pytest.approx([float(each) for each in expected], abs=0.3)


def test_more_than_noise_and_little_is_better() -> None:
    assert is_better(900.0, 1_000, 10.0, Rng(seed=1))
    assert not is_better(10.0, 1_000, 0.1, Rng(seed=1))  # a hundredth of the variance
    assert not is_better(60.0, 1_000, 100.0, Rng(seed=1))
    assert noisy_mean(300.0, 1_000, 10.0, Rng(seed=1)) == pytest.approx(0.3, abs=0.05)
    assert noisy_mean(3_000.0, 1_000, 10.0, Rng(seed=1)) == 1.0


def test_parts_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_linear_parts, "ROWS_PER_BLOCK", 64)
    learner, gains = Linear(steps=4, check=0.25), []
    monkeypatch.setattr(linear, "is_better", lambda gain, *rest: gains.append(gain) or is_better(gain, *rest))
    data = with_slope(0.3)
    expected = run(learner, data, 0.7, Rng(seed=3)).tensors
    assert same_tensors(run(learner, cut(data, 1), 0.7, Rng(seed=3)).tensors, expected)
    assert gains[0] == gains[1] != 0


def test_parts_of_the_budget_that_leave_too_little_are_refused() -> None:
    with pytest.raises(WrongInput, match="of the budget for releases beside steps"):
        Linear(centre=0.3, base=0.3, check=0.35)


def test_more_noise_never_costs_more() -> None:
    with pytest.raises(WrongInput, match="half"):
        Linear(centre=0.45, check=0.3)
    for centre, base, check in ((0.45, 0.0, 0.275), (0.0, 0.0, 0.4), (0.2, 0.1, 0.35)):
        learner = Linear(centre=centre, base=base, check=check)
        noises = np.geomspace(10, 200, 60)
        strengths = [
            sum(count / event.noise**2 for event, count in _gaussians(learner.cost(replace(SCHEMA, rows=1_000), noise)))
            for noise in noises.tolist()
        ]
        assert (np.diff(strengths) < 0).all()


def _gaussians(event: Any) -> list[tuple[Gaussian, int]]:
    from privaware.events import leaves

    return [(leaf, count) for leaf, count in leaves(event) if isinstance(leaf, Gaussian)]
