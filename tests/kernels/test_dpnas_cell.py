"""The kernels of a cell agree with its layers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from privaware.kernels import dpnas_cell
from privaware.models._dpnas import cell_graph as _dpnas_cell
from tests.kernels.cell_reference import by_layers, per_example_gradients_by_autograd

SHAPES = [(3, 48, 32, 32, 8), (5, 96, 16, 16, 8), (4, 192, 8, 8, 8), (3, 32, 28, 28, 8)]
SHAPES += [(3, 32, 14, 14, 8), (3, 64, 7, 7, 8), (2, 6, 5, 9, 1), (2, 10, 3, 1, 5)]


@pytest.mark.cuda
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", range(6))
def test_convolution_kernels_agree_with_layers(shape: tuple[int, ...], kind: int) -> None:
    check_convolution(shape, kind, torch.float32, 1e-5)


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[5], SHAPES[6]])
def test_convolution_kernels_store_bf16(shape: tuple[int, ...]) -> None:
    check_convolution(shape, 2, torch.bfloat16, 0.03)


def check_convolution(shape: tuple[int, ...], kind: int, stored: torch.dtype, slack: float) -> None:
    count, channels, high, wide, groups = shape
    torch.manual_seed(kind)
    many = 2
    wide_x = (torch.randn(many * count, 3 * channels, high, wide) + 3).cuda().to(stored)
    x = wide_x[:, channels : 2 * channels]
    weight = torch.randn(many, channels, 1, 3, 3).cuda()
    g, base = torch.randn(2, *x.shape).cuda().to(stored)
    y = base.clone()
    assert dpnas_cell.fits(x)
    assert dpnas_cell.fits_groups(x, groups)
    saved = dpnas_cell.conv_norm_activation(x, weight, y, groups, 1e-5, kind, add=True, keep=True)
    assert saved is not None
    double = [t.double().cpu() for t in (x, weight, g)]
    close(y.double() - base, by_layers(double[0], double[1], groups, 1e-5, kind), slack)
    back, by_weights = per_example_gradients_by_autograd(*double, groups, kind)
    dx = torch.full_like(base, float("nan"))
    dw = dpnas_cell.conv_norm_activation_backward(x, weight, g, saved, base, dx, groups, kind)
    close(dx.double() - base, back, slack)
    close(dw.view_as(by_weights), by_weights, slack)
    dpnas_cell.conv_norm_activation_backward(x, weight, g, saved, None, dx, groups, kind)
    close(dx, back, slack)


def close(actual: Tensor, true: Tensor, slack: float) -> None:
    """Whole tensors to about the rounding of what is stored."""
    apart = (actual.double().cpu() - true.detach()).norm() / true.detach().norm()
    assert float(apart) < slack


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [(4, 6, 32, 32), (3, 5, 7, 7), (2, 40, 9, 4)])
def test_pooling_kernels_agree_with_layers(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape).mul(8).round().cuda().requires_grad_()  # with ties
    true = F.max_pool2d(x, 2)
    g = torch.randn_like(true)
    actual = _dpnas_cell.MaxPool2x2()(x)
    assert torch.equal(actual, true)
    torch.testing.assert_close(*(torch.autograd.grad(t, x, g)[0] for t in (actual, true)))
    base, g, y, dx = (torch.randn(shape).cuda() for _ in range(4))
    true, start = F.max_pool2d(x, 3, 1, 1), y.clone()
    index = dpnas_cell.max_pool_3x3(x.detach(), y, add=True)
    torch.testing.assert_close(y, start + true)
    dpnas_cell.max_pool_3x3_backward(g, index, base, dx)
    torch.testing.assert_close(dx, base + torch.autograd.grad(true, x, g)[0])
    dpnas_cell.avg_pool_3x3(x.detach(), base, y)
    torch.testing.assert_close(y, base + F.avg_pool2d(x.detach(), 3, 1, 1))


@pytest.mark.cuda
@pytest.mark.parametrize(("shape", "groups"), [((3, 48, 32, 32), 8), ((2, 5, 3, 3), 1)])
def test_group_norm_kernels_agree_with_layers(shape: tuple[int, ...], groups: int) -> None:
    torch.manual_seed(0)
    x = (torch.randn(shape) + 4).cuda().requires_grad_()
    true, actual = F.group_norm(x, groups), _dpnas_cell.PlainGroupNorm(groups, shape[1])(x)
    assert "_PlainGroupNorm" in type(actual.grad_fn).__name__
    torch.testing.assert_close(actual, true, rtol=1e-4, atol=1e-5)
    g = torch.randn_like(true)
    both = [torch.autograd.grad(t, x, g)[0] for t in (actual, true)]
    torch.testing.assert_close(*both, rtol=1e-3, atol=1e-5)
