"""Functions of one row: near those of libraries, and the same bits wherever a row stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from privaware.learners._row_functions import LOG2E, cosine, exp2, softmax_numerators, tanh

VALUES = np.random.default_rng(0).uniform(-90, 90, 10_007)


def probabilities(values: np.ndarray) -> np.ndarray:
    numerators = softmax_numerators(np.stack([values, values / 2, -values])).astype(float)
    return np.asarray((numerators / numerators.sum(axis=0))[0])


@pytest.mark.parametrize("function", [exp2, tanh, probabilities, cosine])
def test_bits_do_not_depend_on_position_or_length(function: Callable[[Any], Any]) -> None:
    at_once = function(VALUES)
    order = np.random.default_rng(1).permutation(len(VALUES))
    assert np.array_equal(function(VALUES[order]), at_once[order])
    for first, last in ((1, 9), (2, 17), (3, 1000), (7, 8), (5, 10_007)):
        assert np.array_equal(function(VALUES[first:last].copy()), at_once[first:last])
        assert np.array_equal(function(VALUES[first:last]), at_once[first:last])
    assert np.array_equal(function(VALUES[::3]), at_once[::3])


def test_arrays_and_tensors_have_the_same_bits() -> None:
    assert np.array_equal(exp2(torch.from_numpy(VALUES)).numpy(), exp2(VALUES))
    matrix = VALUES[:9000].reshape(3, 3000)
    assert np.array_equal(softmax_numerators(torch.from_numpy(matrix)).numpy(), softmax_numerators(matrix))


def test_values_are_those_of_libraries() -> None:
    assert np.abs(exp2(VALUES) / np.exp2(VALUES) - 1).max() < 1e-5
    assert np.abs(tanh(VALUES / 20) - np.tanh(VALUES / 20)).max() < 1e-5
    turns = (VALUES / 20).astype(np.float32)
    assert np.abs(cosine(turns) - np.cos(2 * np.pi * turns.astype(float))).max() < 1e-5
    logits = VALUES[:9000].reshape(3, 3000) / 20
    numerators = softmax_numerators(LOG2E * logits).astype(float)
    exact = np.exp(logits) / np.exp(logits).sum(axis=0)
    assert np.abs(numerators / numerators.sum(axis=0) - exact).max() < 1e-5


def test_numerators_are_whole_numbers_with_exact_sums() -> None:
    for classes in (2, 3, 10, 100):
        numerators = softmax_numerators(np.random.default_rng(2).standard_normal((classes, 50)))
        assert np.array_equal(numerators, np.trunc(numerators))
        assert numerators.astype(float).sum(axis=0).max() <= 2**24
        equal = softmax_numerators(np.zeros((classes, 1)))  # the largest sum
        assert np.array_equal(equal.sum(axis=0), equal[::-1].astype(float).sum(axis=0))
