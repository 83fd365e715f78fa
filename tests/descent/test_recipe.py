"""The recipe: its price and what it refuses."""

from __future__ import annotations

import math

import pytest

from privaware.descent import FullBatch, Poisson, automatic, flat, per_layer, quantile
from privaware.descent._recipe import METHODS
from privaware.errors import WrongInput
from privaware.events import Approximate, Gaussian, leaves
from tests.descent.small_training import examples, recipe, train


@pytest.mark.parametrize("sampler", [Poisson(rate=0.25), Poisson(rate=1.0), FullBatch()])
@pytest.mark.parametrize("clip", [flat(1.0), per_layer(1.0), automatic(), quantile(norm=1.0, count_noise=5.0)])
def test_p3_price_depends_on_the_sampler_alone(sampler, clip):
    event = recipe(sampler=sampler, clip=clip, steps=7, microbatch=3).cost(1.5)
    assert list(leaves(event)) == [(sampler.event(Gaussian(noise=1.5)), 7)]


def test_overflow_is_charged():
    event = recipe(overflow=1e-10).cost(1.0)
    assert (Approximate(epsilon=0.0, delta=1e-10), 1) in list(leaves(event))


def test_quantile_needs_count_noise_above_half_the_noise():
    with pytest.raises(WrongInput, match="raise count_noise"):
        recipe(clip=quantile(norm=1.0, count_noise=1.0)).cost(2.0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: flat(0.0),
        lambda: Poisson(rate=0.0),
        lambda: recipe(steps=-1),
        lambda: recipe(precision="float8"),
        *(lambda name=name: recipe(**{name: 0.5}) for name in METHODS),
        lambda: recipe(clip=None),
        lambda: train(recipe(), declared=0),
        lambda: train(recipe(clip=flat(math.inf)), noise=1.0),
        lambda: train(recipe(), data=(examples()[0], examples()[1][:3])),
        lambda: train(recipe(clip=per_layer(1.0, shares=(1.0,)))),
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(WrongInput, match="expected"):
        wrong()
