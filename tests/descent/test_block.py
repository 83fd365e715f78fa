"""A convolution with its activation and pool as one step is the three one after another.

The kernels run on a GPU, or on a CPU in Triton's interpreter where Triton is installed: TRITON_INTERPRET=1 pytest ...
"""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from privaware.descent import _conv_block, clipped_sum, cross_entropy, flat
from privaware.descent._accumulate import Batch, accumulate
from privaware.descent._losses import losing_less
from privaware.descent._precision import matmul_precision
from privaware.descent._rules import stacked
from privaware.kernels import conv_block

INTERPRETED = conv_block.triton is not None and os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
kernel = pytest.mark.skipif(DEVICE == "cpu" and not INTERPRETED, reason="needs a CUDA device, or Triton's interpreter")
pytestmark = pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # first in a thread
ACTIVE = {"tanh": torch.tanh, "relu": torch.relu}
SHAPES = [(3, 32, 8, 8), (2, 16, 7, 9), (1, 48, 5, 2), (2, 16, 1, 1), (1, 64, 10, 10)]


def beside(values):
    return values.contiguous(memory_format=torch.channels_last)


def after(z, bias, kind, pool):
    made = ACTIVE[kind](z if bias is None else z + bias[:, None, None])
    return F.max_pool2d(made, 2) if pool else made


@kernel
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", sorted(ACTIVE))
@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize(("side", "last"), [(True, False), (True, True), (False, True)])
def test_kernels_there_and_back(shape, kind, pool, side, last):
    if pool and min(shape[2:]) < 2:
        pytest.skip("nothing to pool")
    torch.manual_seed(0)
    scale = torch.tensor([0.01, 0.2, 1.0, 8.0])[torch.randint(4, shape)]
    z, bias = torch.randn(shape) * scale, torch.randn(shape[1])
    given = beside(z.to(DEVICE)) if side else z.to(DEVICE)
    made = conv_block.bias_activation_pool(given, bias.to(DEVICE), kind, pool=pool, channels_last=last)
    z.requires_grad_()
    want = after(z, bias, kind, pool)
    torch.testing.assert_close(made.channels_first.cpu(), want, rtol=2e-6, atol=1e-7)
    assert made.channels_first.is_contiguous()
    assert (made.channels_last is None) != last
    y = made.channels_first
    if last:
        assert torch.equal(made.channels_last, made.channels_first)
        y = made.channels_last
        assert y.is_contiguous(memory_format=torch.channels_last)
    g = torch.randn_like(want)
    expected = torch.autograd.grad(want, z, g)[0]
    g = (beside(g) if last else g).to(DEVICE)
    size = z.shape[2:]
    above = conv_block.Above(g, y, made.argmax)
    back = conv_block.bias_activation_pool_backward
    found = back(above, size, kind, channels_last=True, channels_first=True, sums=True)
    for part in found[:2]:
        torch.testing.assert_close(part.cpu(), expected, rtol=1e-5, atol=2e-6)
    assert found[0].is_contiguous(memory_format=torch.channels_last)
    assert found[1].is_contiguous()
    torch.testing.assert_close(found[2].cpu(), expected.sum((2, 3)), rtol=1e-4, atol=1e-4)
    none = back(above, size, kind, channels_last=False, channels_first=False, sums=False)
    assert none == (None, None, None)


@kernel
def test_without_a_bias_and_with_rows_that_are_not_finite():
    z = torch.randn(3, 16, 4, 4)
    z[1, 2, 3, 3] = torch.nan
    made = conv_block.bias_activation_pool(beside(z.to(DEVICE)), None, "tanh", pool=True, channels_last=False)
    want = after(z, None, "tanh", True)
    torch.testing.assert_close(made.channels_first.cpu(), want, rtol=2e-6, atol=1e-7, equal_nan=True)
    assert torch.isnan(made.channels_first.cpu()).sum() == 1
    g = torch.ones_like(want).to(DEVICE)
    above = conv_block.Above(g, made.channels_first, made.argmax)
    back = conv_block.bias_activation_pool_backward(
        above, (4, 4), "tanh", channels_last=False, channels_first=True, sums=True
    )
    assert torch.isfinite(back[1][[0, 2]]).all()
    assert torch.isfinite(back[2][[0, 2]]).all()


def net(kind=nn.Tanh, channels=3):
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        kind(),
        nn.Conv2d(16, 32, 3, stride=2),
        kind(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 16, 2, padding=1, bias=False),
        kind(),
        nn.Flatten(),
        nn.Linear(16 * 16, 3),
    )


def sums_of(module, x, y, device, copies=1, precision="float32"):
    stack = stacked([module], device=device)
    total = torch.zeros_like(stack.theta)
    batch = Batch((x.to(device),), y.to(device), len(x) // copies)
    with matmul_precision(precision):  # PyTorch's convolutions use TF32 unless it is switched off
        squares = accumulate(stack, cross_entropy, batch, flat(0.3), 0.3, total)
    return total.cpu(), squares.cpu()


def joined(monkeypatch):
    """Lets blocks be taken where the kernels can run, and tells how often they are."""
    taken = []
    plain = _conv_block._FusedBlock.apply

    def counted(*given):
        taken.append(given)
        return plain(*given)

    monkeypatch.setattr(_conv_block._FusedBlock, "apply", counted)
    monkeypatch.setattr(_conv_block.convolution_kernels, "fits", lambda x, g, copies: x.ndim == 4)
    if DEVICE == "cpu":  # rows' gradients by PyTorch: their kernel has tests of its own
        monkeypatch.setattr(_conv_block.ConvolutionGradient, "kernel_geometry", lambda self: None)
    return taken


@kernel
@pytest.mark.parametrize("kind", [nn.Tanh, nn.ReLU])
@pytest.mark.parametrize("frozen", [(), ("0.weight",), ("2.bias",), ("0.weight", "0.bias")])
@pytest.mark.parametrize(("copies", "channels"), [(1, 3), (2, 3), (1, 5)])
def test_a_network_of_blocks_has_the_same_clipped_sums(kind, frozen, copies, channels, monkeypatch):
    module = net(kind=kind, channels=channels)
    for name in frozen:
        module.get_parameter(name).requires_grad_(False)
    torch.manual_seed(2)
    x, y = torch.randn(6, channels, 13, 13), torch.arange(6) % 3
    want = sums_of(module, x, y, "cpu", copies=copies)
    taken = joined(monkeypatch)
    found = sums_of(module, x, y, DEVICE, copies=copies)
    assert len(taken) == 3
    for one, other in zip(found, want, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-4, atol=1e-6)


@kernel
def test_a_row_that_is_not_finite_adds_nothing_through_a_block(monkeypatch):
    x, y = torch.randn(6, 3, 13, 13), torch.arange(6) % 3
    want, _ = sums_of(net(), x[1:], y[1:], "cpu")
    x[0, 0, 0, 0] = torch.inf
    joined(monkeypatch)
    found, squares = sums_of(net(), x, y, DEVICE)
    assert not torch.isfinite(squares[0])
    torch.testing.assert_close(found, want, rtol=2e-4, atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_short_products_take_blocks_by_themselves(monkeypatch):
    taken, plain = [], _conv_block._FusedBlock.apply
    monkeypatch.setattr(_conv_block._FusedBlock, "apply", lambda *given: taken.append(given) or plain(*given))
    x, y = torch.randn(6, 3, 13, 13), torch.arange(6) % 3
    want, _ = sums_of(net(), x, y, "cuda")
    assert not taken
    found, _ = sums_of(net(), x, y, "cuda", precision="tf32")
    assert len(taken) == 3
    torch.testing.assert_close(found, want, rtol=0.02, atol=0.01)


def forwards(module, watch=()):
    stack = stacked([module], watch=watch)
    return [name for name, part in stack.module.named_modules() if getattr(part.forward, "__name__", "") == "_identity"]


def test_only_what_nobody_else_looks_at_is_joined():
    assert forwards(net()) == ["1", "3", "4", "6"]
    same = nn.Tanh()
    shared = nn.Sequential(nn.Conv2d(3, 16, 3), same, nn.Conv2d(16, 16, 3), same)
    assert forwards(shared) == []
    hooked = net()
    hooked[3].register_forward_hook(lambda module, given, made: 2 * made)
    hooked[6].register_full_backward_hook(lambda module, given, made: None)
    assert forwards(hooked) == ["1"]
    assert forwards(net(), watch=losing_less(epochs=1).watch) == []

    class Own(nn.Sequential):
        def forward(self, x):
            return self[0](x)

    assert forwards(Own(nn.Conv2d(3, 16, 3), nn.Tanh())) == []


class Apart(nn.Module):
    """Takes a sequence apart: what looks like one step is two."""

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh())
        self.end = nn.Linear(8, 2)

    def forward(self, x):
        z = self.parts[0](x)
        return self.end((z + self.parts[1](z)).flatten(1))


def test_a_sequence_taken_apart_is_handled_whole():
    torch.manual_seed(0)
    module, x, y = Apart(), torch.randn(5, 1, 4, 4), torch.arange(5) % 2
    sums, norms = clipped_sum(module, cross_entropy, x, y, norm=0.2)
    total = {name: torch.zeros_like(p) for name, p in module.named_parameters()}
    for at in range(5):
        loss = cross_entropy(module(x[at : at + 1]), y[at : at + 1]).sum()
        own = dict(zip(total, torch.autograd.grad(loss, list(module.parameters())), strict=True))
        norm = torch.cat([g.flatten() for g in own.values()]).norm()
        assert float(norms[at]) == pytest.approx(float(norm), rel=1e-4)
        for name, g in own.items():
            total[name] += g * min(1.0, 0.2 / float(norm))
    for name, expected in total.items():
        torch.testing.assert_close(sums[name], expected, rtol=1e-4, atol=1e-6)
