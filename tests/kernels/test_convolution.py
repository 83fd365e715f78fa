"""The kernel of per-example gradients by filters agrees with autograd.

It runs on a GPU, or on a CPU in Triton's interpreter where Triton is installed: TRITON_INTERPRET=1 pytest ...
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware.descent._precision import matmul_precision
from privaware.kernels import convolution as convolution_kernels
from privaware.kernels import elementwise
from privaware.kernels.convolution import (
    Conv2dGeometry,
    Tile,
    ghost_norm_sums,
    per_example_gradients,
    weighted_gradient_sum,
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = [
    pytest.mark.cuda(instead="triton"),
    # a warning of the first product in a thread
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]

GEOMETRIES = [
    (3, 5, (7, 6), Conv2dGeometry((3, 3), (1, 1), (1, 1), (1, 1))),
    (32, 17, (8, 8), Conv2dGeometry((3, 3), (1, 1), (1, 1), (1, 1))),
    (27, 16, (5, 5), Conv2dGeometry((3, 3), (2, 2), (1, 1), (1, 1))),
    (5, 4, (9, 7), Conv2dGeometry((3, 2), (2, 1), (0, 1), (1, 2))),
    (4, 3, (1, 9), Conv2dGeometry((1, 3), (1, 2), (0, 2), (1, 1))),
    (32, 20, (6, 6), Conv2dGeometry((1, 1), (2, 2), (0, 0), (1, 1))),
    (2, 70, (4, 4), Conv2dGeometry((4, 4), (1, 1), (0, 0), (1, 1))),
]


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    """Float32, to compare; in the interpreter tensors of a CPU count as a GPU's."""
    monkeypatch.setattr(convolution_kernels, "fits", lambda x, g, copies: len(x) > 0)
    with matmul_precision("float32"):
        yield


def by_autograd(x, g, geometry, count):
    """Per-example gradients with the channels last: (examples, filters, kernel x channels)."""
    actual = []
    for inputs, gradients in zip(x.chunk(count), g.chunk(count), strict=True):
        weight = torch.zeros(g.shape[1], x.shape[1], *geometry.kernel, requires_grad=True)
        outputs = nn.functional.conv2d(inputs, weight, None, *geometry[1:])
        actual.append(torch.autograd.grad(outputs, weight, gradients)[0].permute(0, 2, 3, 1).flatten(1))
    return torch.stack(actual)


@pytest.mark.parametrize(("channels", "filters", "size", "geometry"), GEOMETRIES)
@pytest.mark.parametrize(("tile", "copies", "keep"), [(None, 1, True), (Tile(32, 32, 32, 4, 2), 3, False)])
def test_per_example_gradients_agree_with_autograd(channels, filters, size, geometry, tile, copies, keep):
    torch.manual_seed(copies)
    count = 2
    x = torch.randn(count * copies, channels, *size)
    like = nn.functional.conv2d(x, torch.zeros(filters, channels, *geometry.kernel), None, *geometry[1:])
    g = torch.randn_like(like)
    want = by_autograd(x, g, geometry, count)
    tensors = (x.to(DEVICE), g.to(DEVICE), geometry, count)
    stored, squares = per_example_gradients(*tensors, keep=keep, tile=tile)
    near = {"rtol": 1e-5, "atol": 1e-5 * float(want.square().sum((1, 2)).max())}
    torch.testing.assert_close(squares.cpu(), want.square().sum((1, 2)), **near)
    centred = torch.randn(2, *want.shape[1:])
    again, sums = per_example_gradients(*tensors, keep=keep, tile=tile, centred=centred.to(DEVICE))
    each = centred.repeat_interleave(count // 2, 0)
    expected = torch.stack([want.square().sum(2), (want * each).sum(2), want.sum(2)])
    torch.testing.assert_close(sums.cpu(), expected, **near)
    for gradients in (stored, again):
        assert (gradients is not None) == keep
        if gradients is not None:
            torch.testing.assert_close(gradients.cpu(), want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("count", "models", "copies", "programs"),
    [(12, 1, 1, 24), (4, 3, 2, 24), (29, 1, 1, 24), (5, 3, 1, 6)],  # the last: parts of 3 and 2
)
@pytest.mark.parametrize("at", range(len(GEOMETRIES)))
def test_weighted_sums_of_many_examples_agree_with_autograd(at, count, models, copies, programs, monkeypatch):
    monkeypatch.setattr(convolution_kernels, "PROGRAMS", programs)
    channels, filters, size, geometry = GEOMETRIES[at]
    x = torch.randn(count * models * copies, channels, *size)
    like = nn.functional.conv2d(x, torch.zeros(filters, channels, *geometry.kernel), None, *geometry[1:])
    g, weights = torch.randn_like(like), torch.rand(count * models)
    weights[1::5] = 0
    want = by_autograd(x, g, geometry, count * models) * weights[:, None, None]
    x[copies] = float("nan")  # of the second example, which has no weight
    tensors = (t.to(DEVICE) for t in (x, g, weights))
    actual = weighted_gradient_sum(*tensors, geometry, models)
    want = want.view(models, count, *want.shape[1:]).sum(1)
    torch.testing.assert_close(actual.cpu(), want, rtol=1e-5, atol=1e-4)


def test_weighted_sums_use_the_rounded_factors_of_the_norm():
    """Positions of either sign cancel up to their last bits: a weighted factor cut off would leave another number."""
    sign = torch.where(torch.arange(20).view(1, 1, 5, 4) % 2 == 0, 1.0, -1.0)
    x = sign.expand(12, 3, 5, 4).contiguous()
    g = (1 + 3 * 2.0**-10 - (sign < 0) * 2.0**-10).expand(12, 6, 5, 4).contiguous()
    weights, geometry = torch.full((12,), 0.7), Conv2dGeometry((1, 1), (1, 1), (0, 0), (1, 1))
    with matmul_precision("tf32"):
        actual = weighted_gradient_sum(x.to(DEVICE), g.to(DEVICE), weights.to(DEVICE), geometry, 1)
    want = torch.einsum("n,ncij,nfij->fc", weights.double(), x.double(), g.double())[None]
    torch.testing.assert_close(actual.cpu().double(), want, rtol=1e-5, atol=0)


@pytest.mark.parametrize(("channels", "filters", "size", "geometry"), GEOMETRIES)
@pytest.mark.parametrize("copies", [1, 3])
def test_ghost_norm_sums_agree_with_autograd(channels, filters, size, geometry, copies):
    count = 3
    x = torch.randn(count * copies, channels, *size)
    like = nn.functional.conv2d(x, torch.zeros(filters, channels, *geometry.kernel), None, *geometry[1:])
    g = torch.randn_like(like)
    inputs, gradients = (t.unflatten(0, (count, copies)).transpose(1, 2).flatten(2) for t in (x, g))
    left, right = (torch.bmm(t.transpose(1, 2), t).to(DEVICE) for t in (inputs, gradients))
    actual = ghost_norm_sums(left, right, geometry, x.shape[2:], g.shape[2:]).cpu()
    want = by_autograd(x, g, geometry, count).square().sum((1, 2))
    torch.testing.assert_close(actual[:, 0], want, rtol=1e-4, atol=1e-3)
    columns = nn.functional.unfold(x, geometry.kernel, geometry.dilation, geometry.padding, geometry.stride)
    for at, part in ((1, columns), (2, g)):
        squares_of_part = part.square().flatten(1).sum(1).view(count, copies).sum(1)
        torch.testing.assert_close(actual[:, at], squares_of_part, rtol=1e-4, atol=1e-3)


@pytest.mark.cuda  # only a GPU has TF32
def test_tf32_is_used_only_where_it_is_allowed():
    assert elementwise.ready(torch.zeros(1, device="cuda").device)
    channels, filters, size, geometry = 64, 64, (8, 8), GEOMETRIES[0][3]
    x, g = torch.randn(8, channels, *size), torch.randn(8, filters, *size)
    want = by_autograd(x, g, geometry, 8)
    errors = {}
    for precision in ("float32", "tf32"):
        with matmul_precision(precision):
            stored, _ = per_example_gradients(x.cuda(), g.cuda(), geometry, 8, keep=True)
        errors[precision] = float((stored.cpu() - want).norm() / want.norm())
    assert errors["float32"] < 1e-6
    assert 1e-5 < errors["tf32"] < 2e-3
