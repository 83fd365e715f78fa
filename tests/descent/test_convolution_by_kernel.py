"""The convolution rules by their kernel agree with one backward pass an example.

It runs on a GPU, or on a CPU in Triton's interpreter where Triton is installed: TRITON_INTERPRET=1 pytest ...
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware.descent import cross_entropy, flat
from privaware.descent._accumulate import Batch, accumulate
from privaware.descent._layers.convolution import ConvolutionGradient
from privaware.descent._layers.geometry import Geometry, convolve
from privaware.descent._layers.rules import stacked
from privaware.descent._precision import matmul_precision
from privaware.kernels import convolution as convolution_kernels
from privaware.models import StandardisedConv2d
from tests.descent.one_at_a_time import slow_sum

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = [
    pytest.mark.cuda(instead="triton"),
    # a warning of the first product in a thread
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    """Float32, to compare; in the interpreter tensors of a CPU count as a GPU's."""
    monkeypatch.setattr(convolution_kernels, "fits", lambda x, g, copies: len(x) > 0)
    with matmul_precision("float32"):
        yield


def test_ghost_norms_from_overlaps_are_not_underestimated():
    """What cancels in a per-example gradient cancels in sums of much larger products, and norms are raised by that."""
    x, g = torch.ones(4, 64, 4, 4), torch.randn(4, 32, 4, 4)
    g -= g.mean((2, 3), keepdim=True)  # a 1 x 1 kernel sees the sum over positions: nothing
    g[:, 0, 0, 0] += torch.tensor([0.0, 1e-6, 1e-4, 1e-2])
    gradients = ConvolutionGradient(
        x.to(DEVICE), g.to(DEVICE), Geometry(nn.Conv2d(64, 32, 1)), torch.zeros(1, 32, 64, 1, 1), 4
    )
    want = torch.einsum("ncij,nfij->nfc", x.double(), g.double()).square().sum((1, 2))
    assert (gradients._overlap_norms(gradients.kernel_geometry()).cpu() >= want).all()


def net(kind):
    torch.manual_seed(3)
    layers = {
        "plain": lambda: (nn.Conv2d(3, 6, 3, padding=1), nn.Tanh(), nn.Conv2d(6, 5, 3, 2)),
        "line": lambda: (nn.Flatten(2), nn.Conv1d(3, 6, 5, 3, padding=2), nn.Tanh()),
        "reflected": lambda: (nn.Conv2d(3, 6, 3, padding=1, padding_mode="reflect"), nn.Tanh()),
        "few positions": lambda: (nn.Conv2d(3, 8, 6), nn.Tanh(), nn.Conv2d(8, 8, 1)),
        "standardised": lambda: (StandardisedConv2d(3, 6, 3, padding=1), nn.Tanh(), StandardisedConv2d(6, 5, 3, 2)),
    }[kind]()
    body = nn.Sequential(*layers, nn.Flatten())
    return nn.Sequential(body, nn.Linear(body(torch.zeros(1, 3, 6, 6)).shape[1], 3))


KINDS = ["plain", "line", "reflected", "few positions", "standardised"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("models", "copies"), [(1, 1), (1, 2), (3, 1), (2, 2)])
@pytest.mark.parametrize("way", ["kept", "recomputed", "overlaps"])
def test_rules_agree_with_autograd(kind, models, copies, way, monkeypatch):
    keep = way == "kept"
    monkeypatch.setattr(ConvolutionGradient, "_keeping_pays", lambda self: keep)
    monkeypatch.setattr(ConvolutionGradient, "_overlaps_pay", lambda self: way == "overlaps")
    monkeypatch.setattr("privaware.descent._layers.geometry.GROUPED_LIMIT", 0 if keep else 2**26)
    nets = [net(kind) for _ in range(models)]
    for at, one in enumerate(nets):
        for parameter in one.parameters():
            parameter.data += 0.1 * at
    rows = 3
    x = torch.randn(models * rows * copies, 3, 6, 6)
    y = torch.arange(rows).remainder(3).repeat(models).repeat_interleave(copies)
    stack = stacked(nets, device=DEVICE)
    total = torch.zeros_like(stack.theta)
    batch = Batch((x.to(DEVICE),), y.to(DEVICE), rows * models)
    squares = accumulate(stack, cross_entropy, batch, flat(0.3), 0.3, total)
    for at, one in enumerate(nets):
        of_model = slice(at * rows * copies, (at + 1) * rows * copies)
        expected, norms = slow_sums_of_copies(one, x[of_model], y[of_model], copies)
        actual = squares[at * rows : (at + 1) * rows, 0].sqrt().cpu()
        raised = 5e-4 if way == "overlaps" else 2e-5
        torch.testing.assert_close(actual, norms, rtol=raised, atol=1e-6)
        assert (actual >= norms * (1 - 2e-5)).all()
        for segment in stack.segments:
            outputs = stack.view(total, segment)[at].cpu()
            near = {"rtol": 1e-4, "atol": max(1e-5, 0.3 * raised * rows)}
            torch.testing.assert_close(outputs, expected[segment.name], **near)


def slow_sums_of_copies(module, x, y, copies):
    """Example by example; an example's loss is the mean of its copies'."""

    def loss(outputs, goals):
        return cross_entropy(outputs[0], goals[0]).mean()[None]

    def spread(inputs):
        return module(inputs[0])[None]

    spread_module = nn.Module()
    spread_module.inner, spread_module.forward = module, spread
    sizes = (len(x) // copies, copies)
    sums, norms = slow_sum(spread_module, loss, x.view(*sizes, *x.shape[1:]), y.view(sizes), norm=0.3)
    return {name.removeprefix("inner."): value for name, value in sums.items()}, norms


@pytest.mark.parametrize("kind", ["plain", "standardised"])
@pytest.mark.parametrize("way", ["kept", "recomputed", "overlaps"])
def test_a_nonfinite_example_adds_nothing(kind, way, monkeypatch):
    monkeypatch.setattr(ConvolutionGradient, "_keeping_pays", lambda self: way == "kept")
    monkeypatch.setattr(ConvolutionGradient, "_overlaps_pay", lambda self: way == "overlaps")
    module, x, y = net(kind), torch.randn(4, 3, 6, 6), torch.arange(4) % 3
    actual = []
    for bad in (False, True):
        inputs = x.clone()
        if bad:
            inputs[1] = float("inf")
        keep_these = [0, 1, 2, 3] if bad else [0, 2, 3]
        stack = stacked([module], device=DEVICE)
        total = torch.zeros_like(stack.theta)
        batch = Batch((inputs[keep_these].to(DEVICE),), y[keep_these].to(DEVICE), len(keep_these))
        accumulate(stack, cross_entropy, batch, flat(0.3), 0.3, total)
        actual.append(total.cpu())
        assert bool(torch.isinf(inputs[1]).all()) == bad
    torch.testing.assert_close(*actual, rtol=1e-4, atol=1e-5)


@pytest.mark.cuda  # a CPU always convolves models one after the other
@pytest.mark.parametrize(("groups", "bias"), [(1, True), (1, False), (2, True)])
def test_grouped_and_separate_convolutions_of_models_agree(groups, bias, monkeypatch):
    from privaware.descent._layers.geometry import Geometry

    layer = nn.Conv2d(4, 6, 3, padding=1, groups=groups)
    x = torch.randn(12, 4, 5, 5, device="cuda", requires_grad=True)
    weight = torch.randn(3, *layer.weight.shape, device="cuda")
    shift = torch.randn(3, 6, device="cuda") if bias else None
    actual = []
    for most in (0, 2**40):
        monkeypatch.setattr("privaware.descent._layers.geometry.GROUPED_LIMIT", most)
        outputs = convolve(x, weight, shift, Geometry(layer))
        actual.append((outputs, torch.autograd.grad(outputs.square().sum(), x)[0]))
    torch.testing.assert_close(*actual, rtol=1e-4, atol=1e-4)
