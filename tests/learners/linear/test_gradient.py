"""Clipped gradient sums of linear models: exact, of one row's own making, and those of the textbook."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.exact_sums import MARGIN, clip_rows
from privaware.learners._linear import gradient as _linear_gradient
from privaware.learners._linear.gradient import ROWS, LinearGradient


def gradient_of(
    count: int, *, classes: int = 3, width: int = 5, norm: float = 0.5, constant: float = 1.0, seed: int = 0
) -> LinearGradient:
    """Similar rows of one class, mostly: their sums grow, cross powers of two and lose bits."""
    rng = np.random.default_rng(seed)
    rows = rng.random((count, width)) * 0.1 + 0.9
    targets = np.where(rng.random(count) < 0.01, max(classes - 1, 0), 0)
    return LinearGradient(
        rows=torch.from_numpy(clip_rows(rows, 1.0, ROWS, np.float32)),
        targets=torch.from_numpy(targets if classes else rng.uniform(-1, 1, count).astype(np.float32)),
        classes=classes,
        constant=constant,
        norm=norm,
    )


def part(gradient: LinearGradient, chosen: Any) -> LinearGradient:
    rows, targets = gradient.rows[chosen], gradient.targets[chosen]
    return LinearGradient(
        rows=rows, targets=targets, classes=gradient.classes, constant=gradient.constant, norm=gradient.norm
    )


def weights_of(gradient: LinearGradient, size: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    shape = (max(gradient.classes, 1), gradient.rows.shape[1] + 1)
    return size * torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("classes", [0, 2, 3, 10])
def test_p39_order_of_rows_does_not_change_a_bit_of_the_sum(classes: int) -> None:
    gradient = gradient_of(20_011, classes=classes, width=9)
    weights = weights_of(gradient)
    total = gradient.clipped_sum(weights)
    order = torch.from_numpy(np.random.default_rng(3).permutation(20_011))
    assert torch.equal(part(gradient, order).clipped_sum(weights), total)
    assert torch.equal(gradient.clipped_sum(weights, order), total)


@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("missing", [0, 700, 1_999])
def test_p39_a_missing_row_moves_the_sum_by_its_own_term_alone(classes: int, missing: int) -> None:
    gradient = gradient_of(2_000, classes=classes)
    weights = weights_of(gradient, 3.0)
    others = torch.arange(2_000) != missing
    change = gradient.clipped_sum(weights) - part(gradient, others).clipped_sum(weights)
    assert torch.equal(change, part(gradient, [missing]).clipped_sum(weights))


@given(
    seed=st.integers(0, 10**6),
    classes=st.sampled_from([0, 2, 3, 40]),
    norm=st.floats(-6, 3),
    size=st.floats(-3, 8),
    constant=st.sampled_from([1.0, 0.1, 7.0]),
)
@settings(max_examples=60, deadline=None)
def test_gradient_of_one_row_is_within_the_norm(
    seed: int, classes: int, norm: float, size: float, constant: float
) -> None:
    gradient = gradient_of(3, classes=classes, norm=10.0**norm, constant=constant, seed=seed)
    one = part(gradient, [0]).clipped_sum(weights_of(gradient, 10.0**size))
    assert float(one.norm()) <= 10.0**norm * (1 - MARGIN / 2)


@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("norm", [0.1, 0.5, 10.0])
def test_sum_is_that_of_clipped_gradients_of_the_textbook(classes: int, norm: float) -> None:
    gradient = gradient_of(500, classes=classes, norm=norm, constant=0.5)
    weights = weights_of(gradient, 2.0)
    rows = torch.cat([gradient.rows.double(), torch.full((500, 1), 0.5, dtype=torch.float64)], 1)
    logits = rows @ weights.T
    if classes:
        residuals = logits.softmax(1) - torch.nn.functional.one_hot(gradient.targets, classes)
    else:
        residuals = logits - gradient.targets[:, None]
    factors = (norm / (residuals.norm(dim=1) * rows.norm(dim=1))).clip(max=1.0)
    expected = (residuals * factors[:, None]).T @ rows
    assert float((gradient.clipped_sum(weights) - expected).norm()) < 500 * 2 * gradient._residual_step


@pytest.mark.parametrize("batch", [None, torch.randperm(1_000)[:700]], ids=["full", "sampled"])
def test_float32_chunks_have_the_bits_of_float64(batch: Any, monkeypatch: Any) -> None:
    used = []
    bmm = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda *factors: used.append(factors[0].shape[1]) or bmm(*factors))
    rng = np.random.default_rng(0)
    rows = torch.from_numpy(clip_rows(rng.random((1_000, 400)), 1.0, ROWS, np.float32))
    targets = torch.from_numpy(rng.integers(0, 10, 1_000))
    sums = []
    for exact in (True, False):
        gradient = LinearGradient(rows=rows, targets=targets, classes=10, constant=1.0, norm=0.5)
        gradient.__dict__["_float32_is_exact"] = exact
        sums.append(gradient.clipped_sum(weights_of(gradient, 0.1), batch))
    assert used == [10]
    assert torch.equal(*sums)


@pytest.mark.parametrize("batch", [None, torch.arange(1_000)], ids=["full", "sampled"])
def test_chunks_too_large_for_float32_are_added_in_two_parts(batch: Any, monkeypatch: Any) -> None:
    """All rows alike and wrong: a chunk's sum exceeds 2^24 steps."""
    outputs, bmm = [], torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda *factors: outputs.append(factors[0].shape[1]) or bmm(*factors))
    gradient = gradient_of(1_000, classes=2, width=1)
    weights = 50.0 * torch.tensor([[-1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    sums = [gradient.clipped_sum(weights, batch)]
    assert outputs == [2]
    gradient.__dict__["_float32_is_exact"] = False
    sums.append(gradient.clipped_sum(weights, batch))
    assert outputs == [2]
    assert torch.equal(*sums)


def test_products_that_round_to_fewer_bits_are_noticed() -> None:
    gradient = gradient_of(3)
    assert gradient._float32_is_exact
    with pytest.MonkeyPatch.context() as patch:
        matmul = torch.Tensor.__matmul__
        patch.setattr(torch.Tensor, "__matmul__", lambda a, b: matmul(a.bfloat16(), b.bfloat16()).float())
        assert not gradient_of(3)._float32_is_exact


def test_p39_planted_float32_sum_is_caught(monkeypatch: Any) -> None:
    def in_single_precision(self: Any, sums: Any, residuals: Any, rows: Any, chosen: Any) -> None:
        before = 0 if sums._high is None else sums._high.float()
        sums._high, sums._low = (before + residuals @ rows).double(), torch.zeros(())

    monkeypatch.setattr(LinearGradient, "_add_products", in_single_precision)
    monkeypatch.setattr(_linear_gradient, "MAX_ROWS_PER_BLOCK", 256)
    gradient = gradient_of(20_011, classes=2)
    weights = weights_of(gradient)
    assert not torch.equal(gradient.clipped_sum(weights), backwards(gradient, weights))


def backwards(gradient: LinearGradient, weights: torch.Tensor) -> torch.Tensor:
    return part(gradient, torch.arange(len(gradient.rows) - 1, -1, -1)).clipped_sum(weights)


def test_no_row_is_a_sum_of_zeros() -> None:
    for classes in (0, 2, 3):
        gradient = part(gradient_of(4, classes=classes), slice(0, 0))
        assert not gradient.clipped_sum(weights_of(gradient)).any()
        assert not gradient_of(4, classes=classes).clipped_sum(weights_of(gradient), torch.arange(0)).any()


@pytest.mark.cuda
@pytest.mark.parametrize("classes", [0, 2, 10])
def test_p39_order_of_rows_does_not_change_a_bit_on_cuda(classes: int) -> None:
    on_cpu = gradient_of(50_021, classes=classes, width=33)
    gradient = LinearGradient(
        rows=on_cpu.rows.cuda(), targets=on_cpu.targets.cuda(), classes=classes, constant=1.0, norm=0.5
    )
    weights = weights_of(on_cpu)
    total = gradient.clipped_sum(weights.cuda())
    order = torch.from_numpy(np.random.default_rng(3).permutation(50_021)).cuda()
    assert torch.equal(part(gradient, order).clipped_sum(weights.cuda()), total)
    others = torch.arange(50_021, device="cuda") != 5
    change = total - part(gradient, others).clipped_sum(weights.cuda())
    assert torch.equal(change, part(gradient, [5]).clipped_sum(weights.cuda()))
    assert float((total.cpu() - on_cpu.clipped_sum(weights)).norm()) <= 1e-3 * float(total.norm())


@pytest.mark.parametrize("own", [7, 8])
def test_no_row_makes_the_sum_infinite_or_nan(own: int) -> None:
    """With so many classes and so small a norm the bound of a row, less its rounding, is 0; so may be its residual."""
    rows = torch.from_numpy(clip_rows(np.eye(4)[[0, 1, 2]], 1.0, ROWS, np.float32))
    gradient = LinearGradient(rows=rows, targets=torch.tensor([own, 1, 2]), classes=500, constant=0.01, norm=0.01)
    certain = torch.zeros(500, 5, dtype=torch.float64)
    certain[7, 0] = 60.0
    assert torch.isfinite(gradient.clipped_sum(certain)).all()
