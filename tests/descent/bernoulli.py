"""A check of independent Bernoulli draws."""

from __future__ import annotations

import math

import numpy as np


def assert_bernoulli(samples, rate):
    """(trials, examples) of zeros and ones: their rate, no correlation, and the variance of a batch's size."""
    trials, columns = samples.shape
    deviation = math.sqrt(rate * (1 - rate) / trials)
    assert np.abs(samples.mean(0) - rate).max() < 5 * deviation
    centred = (samples - rate) / math.sqrt(rate * (1 - rate))
    between = centred.T @ centred / trials
    assert np.abs(between - np.diag(np.diag(between))).max() < 5 / math.sqrt(trials)
    after = (centred[1:] * centred[:-1]).mean(0)
    assert np.abs(after).max() < 5 / math.sqrt(trials)
    sizes = samples.sum(1)
    assert abs(sizes.var() / (columns * rate * (1 - rate)) - 1) < 0.15
