"""A convolution with its activation and pool as one step is the three one after another.

The kernels run on a GPU, or on a CPU in Triton's interpreter where Triton is installed: TRITON_INTERPRET=1 pytest ...
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware.descent import clipped_sum, cross_entropy, flat, losing_less
from privaware.descent._accumulate import Batch, accumulate
from privaware.descent._layers import conv_block as _conv_block
from privaware.descent._layers.rules import stacked
from privaware.descent._precision import matmul_precision

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
kernel = pytest.mark.cuda(instead="triton")
pytestmark = pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # first in a thread


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


def sums_of(module, x, y, device, copies=1, precision="float32", bf16=False):
    stack = stacked([module], device=device)
    total = torch.zeros_like(stack.theta)
    batch = Batch((x.to(device),), y.to(device), len(x) // copies)
    with matmul_precision(precision):  # PyTorch's convolutions use TF32 unless it is switched off
        squares = accumulate(stack, cross_entropy, batch, flat(0.3), 0.3, total, bf16=bf16)
    return total.cpu(), squares.cpu()


def fused(monkeypatch):
    """Uses fused blocks where the kernels can run, and records the calls."""
    taken = []
    plain = _conv_block._FusedBlock.apply

    def counted(*arguments):
        taken.append(arguments)
        return plain(*arguments)

    monkeypatch.setattr(_conv_block._FusedBlock, "apply", counted)
    monkeypatch.setattr(_conv_block.convolution_kernels, "fits", lambda x, g, copies: x.ndim == 4)
    if DEVICE == "cpu":  # per-example gradients by PyTorch: their kernel has tests of its own
        monkeypatch.setattr(_conv_block.ConvolutionGradient, "kernel_geometry", lambda self: None)
    return taken


@kernel
@pytest.mark.parametrize("kind", [nn.Tanh, nn.ReLU])
@pytest.mark.parametrize("frozen", [(), ("0.weight",), ("2.bias",), ("0.weight", "0.bias")])
@pytest.mark.parametrize(("copies", "channels"), [(1, 3), (2, 3), (1, 5)])
def test_fused_blocks_have_the_same_clipped_sums(kind, frozen, copies, channels, monkeypatch):
    module = net(kind=kind, channels=channels)
    for name in frozen:
        module.get_parameter(name).requires_grad_(False)
    torch.manual_seed(2)
    x, y = torch.randn(6, channels, 13, 13), torch.arange(6) % 3
    want = sums_of(module, x, y, "cpu", copies=copies)
    taken = fused(monkeypatch)
    actual = sums_of(module, x, y, DEVICE, copies=copies)
    assert len(taken) == 3
    for one, other in zip(actual, want, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-4, atol=1e-6)


@kernel
def test_a_nonfinite_example_adds_nothing_through_a_fused_block(monkeypatch):
    x, y = torch.randn(6, 3, 13, 13), torch.arange(6) % 3
    want, _ = sums_of(net(), x[1:], y[1:], "cpu")
    x[0, 0, 0, 0] = torch.inf
    fused(monkeypatch)
    actual, squares = sums_of(net(), x, y, DEVICE)
    assert not torch.isfinite(squares[0])
    torch.testing.assert_close(actual, want, rtol=2e-4, atol=1e-6)


@pytest.mark.cuda
def test_tf32_products_use_fused_blocks(monkeypatch):
    taken, plain = [], _conv_block._FusedBlock.apply
    monkeypatch.setattr(
        _conv_block._FusedBlock, "apply", lambda *arguments: taken.append(arguments) or plain(*arguments)
    )
    x, y = torch.randn(6, 3, 13, 13), torch.arange(6) % 3
    want, _ = sums_of(net(), x, y, "cuda")
    assert not taken
    actual, _ = sums_of(net(), x, y, "cuda", precision="tf32")
    assert len(taken) == 3
    torch.testing.assert_close(actual, want, rtol=0.02, atol=0.01)


@pytest.mark.cuda
@pytest.mark.parametrize("kind", [nn.Tanh, nn.ReLU])
def test_fused_blocks_behind_a_norm_train_in_bf16(kind, monkeypatch):
    """A norm returns float32 images, so the block behind it is fused and passes a gradient on to the norm."""
    taken, plain = [], _conv_block._FusedBlock.apply
    monkeypatch.setattr(
        _conv_block._FusedBlock, "apply", lambda *arguments: taken.append(arguments) or plain(*arguments)
    )
    torch.manual_seed(1)
    first = [nn.Conv2d(3, 16, 3), nn.GroupNorm(4, 16), nn.Conv2d(16, 16, 3), kind()]
    module = nn.Sequential(*first, nn.Flatten(), nn.Linear(16 * 9 * 9, 3))
    x, y = torch.randn(6, 3, 13, 13), torch.arange(6) % 3
    want, _ = sums_of(module, x, y, "cpu")
    actual, _ = sums_of(module, x, y, "cuda", precision="tf32", bf16=True)
    assert len(taken) == 1
    torch.testing.assert_close(actual, want, rtol=0.1, atol=0.03)


def fused_layers(module, watch=()):
    stack = stacked([module], watch=watch)
    return [name for name, part in stack.module.named_modules() if getattr(part.forward, "__name__", "") == "_identity"]


def test_only_unobserved_layers_are_fused():
    assert fused_layers(net()) == ["1", "3", "4", "6"]
    same = nn.Tanh()
    shared = nn.Sequential(nn.Conv2d(3, 16, 3), same, nn.Conv2d(16, 16, 3), same)
    assert fused_layers(shared) == []
    hooked = net()
    hooked[3].register_forward_hook(lambda module, inputs, outputs: 2 * outputs)
    hooked[6].register_full_backward_hook(lambda module, inputs, outputs: None)
    assert fused_layers(hooked) == ["1"]
    assert fused_layers(net(), watch=losing_less(epochs=1).watch) == []

    class Own(nn.Sequential):
        def forward(self, x):
            return self[0](x)

    assert fused_layers(Own(nn.Conv2d(3, 16, 3), nn.Tanh())) == []


class Apart(nn.Module):
    """Takes a sequence apart: what looks like one step is two."""

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh())
        self.end = nn.Linear(8, 2)

    def forward(self, x):
        z = self.parts[0](x)
        return self.end((z + self.parts[1](z)).flatten(1))


def test_a_sequence_called_in_parts_is_materialised():
    torch.manual_seed(0)
    module, x, y = Apart(), torch.randn(5, 1, 4, 4), torch.arange(5) % 2
    sums, norms = clipped_sum(module, cross_entropy, x, y, clipping_norm=0.2)
    total = {name: torch.zeros_like(p) for name, p in module.named_parameters()}
    for at in range(5):
        loss = cross_entropy(module(x[at : at + 1]), y[at : at + 1]).sum()
        gradients = dict(zip(total, torch.autograd.grad(loss, list(module.parameters())), strict=True))
        norm = torch.cat([g.flatten() for g in gradients.values()]).norm()
        assert float(norms[at]) == pytest.approx(float(norm), rel=1e-4)
        for name, g in gradients.items():
            total[name] += g * min(1.0, 0.2 / float(norm))
    for name, expected in total.items():
        torch.testing.assert_close(sums[name], expected, rtol=1e-4, atol=1e-6)
