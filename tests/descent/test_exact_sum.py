"""Sums on a lattice: the same in any order, each addition wrong by half a step at most."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.descent._exact_sum import NUMBERS_AT_ONCE, ExactSum, lattice_step
from privaware.descent._rounding import LATTICE


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32), groups=st.integers(1, 30), norm=st.floats(1e-6, 1e6), size=st.floats(1e-9, 200.0))
def test_order_does_not_change_a_bit(seed, groups, norm, size):
    generator = torch.Generator().manual_seed(seed)
    sums = torch.randn(2, groups, 5, generator=generator) * norm * size
    total = ExactSum(torch.tensor([norm, 2 * norm]), 5)
    values = []
    for order in (torch.arange(groups), torch.randperm(groups, generator=generator)):
        total.start()
        total.add(sums[:, order])
        values.append(total.value())
    assert torch.equal(*values)
    step = lattice_step(total.norms, 5)[:, None]
    assert torch.equal(values[0] / step, (values[0] / step).round())
    rounded = (sums.double() / step[:, None]).round() * step[:, None]
    assert torch.equal(values[0], rounded.sum(1))
    assert (step * 5**0.5 <= LATTICE * total.norms[:, None] * (1 + 1e-12)).all()


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_sums_over_blocks_equal_sums_of_rounded_groups(groups):
    width = NUMBERS_AT_ONCE + 1001
    first, second = torch.randn(2, 2, groups, width, generator=torch.Generator().manual_seed(groups))
    total = ExactSum(torch.tensor([0.5, 3.0]), width)
    step = lattice_step(total.norms, width)[:, None, None]
    for sums in ([first], [first, second], [], [second]):
        total.start()
        for part in sums:
            total.add(part)
        expected = torch.cat([*sums, first[:, :1] * 0], 1).double().div(step).round().mul(step).sum(1)
        assert torch.equal(total.value(), expected)


def test_counts_of_halves_are_exact_whatever_the_norm():
    total = ExactSum(torch.tensor([1e6]), 3, counts=True)
    total.start()
    for _ in range(7):
        total.add(torch.tensor([[[0.0, 0.0, 0.0, 0.5]]]))
    assert float(total.value()[0, -1]) == 3.5


def test_without_noise_sums_are_plain():
    total = ExactSum(torch.tensor([float("inf")]), 1, noisy=False)
    total.start()
    total.add(torch.tensor([[[1.0], [2.0**-40]]]))
    assert float(total.value()) == 1 + 2.0**-40


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_rounding_between_lattice_points_ignores_the_sum(kind):
    total = ExactSum(torch.tensor([1.0]), 1)
    step = float(lattice_step(total.norms, 1))
    values = []
    for before in (0, 1):  # an even sum and an odd one
        total.start()
        total.add(torch.tensor([[[before * step]]], dtype=kind))
        for _ in range(4):
            total.add(torch.tensor([[[2.5 * step]]], dtype=kind))
        values.append(float(total.value()) / step - before)
    assert values[0] == values[1]
