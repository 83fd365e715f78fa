"""Games against all that was noised: exact losses, for samples too, and refusals where they are not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.learners.objective_perturbation import ObjectivePerturbation
from privaware.noise import Rng
from privaware.testing import example, privacy_losses, redrawn_losses, rows_for, transcript_game
from tests.testing import planted_descent, planted_releases

ROWS = rows_for(example(), 4)
FEWER = ROWS.take(np.arange(3))


class SampledCount:
    """How many rows are in a Poisson sample, with noise."""

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        sample = rng.poisson(len(data), 0.25)
        return rng.gaussian(float(sample.sum()), noise=noise, sensitivity=1.0)


class Chain:
    """A second release of what the first one says."""

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        first = rng.gaussian(float(len(data)), noise=noise, sensitivity=1.0)
        return rng.gaussian(first * len(data), noise=noise, sensitivity=100.0)


@pytest.mark.parametrize("ran", ["data", "neighbour"])
def test_loss_of_a_sampled_row_is_that_of_the_mixture(ran: str) -> None:
    """exp(loss) has mean 1 without the row, and its inverse mean 1 with it: true of exact likelihoods only."""
    losses = [privacy_losses(SampledCount(), FEWER, ROWS, 1.0, seed=seed, ran=ran)[0] for seed in range(500)]
    sign = 1 if ran == "data" else -1
    ratios = np.exp(sign * np.concatenate(losses))
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / np.sqrt(len(ratios))
    assert ratios.std() > 0.1


def test_later_losses_are_taken_at_the_values_released_before() -> None:
    for seed in range(5):
        first, second = privacy_losses(Chain(), FEWER, ROWS, 2.0, seed=seed, ran="data")
        noisy = 3.5 + 4.0 * float(first)  # the first release, from its loss
        assert np.isfinite(second)
        released = Rng(seed=seed)
        drawn = released.gaussian(3.0, noise=2.0, sensitivity=1.0)
        assert drawn == pytest.approx(noisy)
        again = released.gaussian(drawn * 3.0, noise=2.0, sensitivity=100.0)
        expected = ((again - 3 * drawn) ** 2 - (again - 4 * drawn) ** 2) / (2 * 200.0**2)
        assert float(second) == pytest.approx(expected)


def test_objective_perturbation_has_exact_losses() -> None:
    """exp(loss) has mean 1 without the row, the volume of the way back included."""
    learner = ObjectivePerturbation(distribution="gamma")
    losses = [
        sum(float(each.sum()) for each in privacy_losses(learner, FEWER, ROWS, 1.0, seed=seed, ran="data"))
        for seed in range(150)
    ]
    ratios = np.exp(losses)
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / np.sqrt(len(ratios))
    assert ratios.std() > 0.05


def test_row_outside_the_sample_that_still_counts_is_proved() -> None:
    """Priced as sampled at a rate of 0.1, a step that uses every row proves more; the honest one does not."""
    noise, delta = 0.25, 0.1
    honest, broken = planted_descent.Slope(steps=1, rate=0.1), planted_descent.SampleIgnored(steps=1, rate=0.1)
    claim = accounting.epsilon(honest.cost(example(), noise), delta)
    assert transcript_game(honest, FEWER, ROWS, noise, delta=delta, games=200) <= claim
    assert transcript_game(broken, FEWER, ROWS, noise, delta=delta, games=200) > claim


def test_exact_values_that_depend_on_noise_are_not_noised_again() -> None:
    with pytest.raises(WrongInput, match="depend on the rows alone"):
        redrawn_losses(Chain(), FEWER, ROWS, 1.0)
    with pytest.raises(WrongInput, match="depend on the rows alone"):
        redrawn_losses(ObjectivePerturbation(), FEWER, ROWS, 1.0)


def test_releases_with_a_sample_each_are_not_noised_again() -> None:
    """Four counts of one row, each on a sample of its own, in one call."""

    class Counts:
        def run(self, data: Data, noise: float, rng: Rng) -> np.ndarray:
            exact = np.array([float(rng.poisson(len(data), 0.5).sum()) for _ in range(4)])
            return rng.gaussian(exact, noise=np.full(4, noise), sensitivity=1.0)

    with pytest.raises(WrongInput, match="one Poisson sample"):
        redrawn_losses(Counts(), ROWS.take(slice(0)), ROWS.take(slice(1)), 1.0)


def test_redrawn_losses_are_as_many_as_memory_allows() -> None:
    inside, outside = redrawn_losses(planted_releases.Sums(), FEWER, ROWS, 1.0)
    assert len(inside) == len(outside) == 10_000
    assert inside.mean() > outside.mean()


def test_neighbour_must_have_the_row() -> None:
    with pytest.raises(WrongInput, match="one row more or one changed, got one row less"):
        privacy_losses(SampledCount(), ROWS, FEWER, 1.0, seed=0, ran="data")
    with pytest.raises(WrongInput, match="one row more or one changed, got one row less"):
        redrawn_losses(planted_releases.Sums(), ROWS, FEWER, 1.0)
    changed = ROWS.take(np.arange(4))
    changed.y[0] = 1 - changed.y[0]
    with pytest.raises(WrongInput, match="a neighbour with one row more"):
        privacy_losses(SampledCount(), ROWS, changed, 1.0, seed=0, ran="data")
