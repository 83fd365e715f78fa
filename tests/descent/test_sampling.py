"""Samplers draw what they price."""

from __future__ import annotations

import numpy as np

from privaware.descent import Poisson
from privaware.noise import Rng
from tests.descent.bernoulli import assert_bernoulli


def test_p2_poisson_sampling_is_independent_per_example():
    rng, sampler = Rng(5), Poisson(rate=0.2)
    samples = np.zeros((4000, 30))
    for at in range(4000):
        samples[at, sampler.draw(rng, 30)] = 1
    assert_bernoulli(samples, 0.2)
