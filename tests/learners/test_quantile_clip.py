"""A clipping norm that follows a quantile stays where the learning rate fits."""

from __future__ import annotations

import pytest

from privaware import accounting, datasets
from privaware.learners._networks.training import Network, _recipes
from privaware.learners.dpsgd import DpSgd
from privaware.learners.quantile_clip import QuantileClip
from privaware.metrics import accuracy
from privaware.noise import Rng


@pytest.mark.parametrize("learner", [QuantileClip(norm=0.2), DpSgd(norm=0.2, clip="quantile")])
def test_the_norm_stays_near_its_start(learner: Network) -> None:
    clip = learner._clip(1.0)
    assert (clip.norm, clip.low, clip.high) == pytest.approx((0.2, 0.1, 0.8))


def test_bounds_that_are_set_are_kept() -> None:
    clip = QuantileClip(norm=4.0, least=0.05, most=10.0)._clip(1.0)
    assert (clip.low, clip.high) == (0.05, 10.0)


def test_members_with_other_norms_have_bounds_of_their_own() -> None:
    learners = [QuantileClip(norm=0.1), QuantileClip(norm=0.3), QuantileClip(norm=0.1, lr=2.0)]
    assert _recipes(learners, [1.0] * 3) == [[0, 2], [1]]
    assert _recipes([DpSgd(norm=0.1), DpSgd(norm=0.3)], [1.0] * 2) == [[0, 1]]


def test_digits_are_learnt_with_the_default_bounds() -> None:
    """Without bounds the clipping norm leaves what the learning rate fits, and accuracy falls to the constant."""
    data, learner = datasets.load("digits"), QuantileClip(epochs=6)
    noise = accounting.calibrate(lambda noise: learner.cost(data.train.schema, noise), 8.0, 1e-5)
    models = learner.run_population([learner] * 3, data.train, noise, Rng(seed=0))
    assert min(accuracy(data.test.y, model.predictions(data.test)) for model in models) > 0.6
