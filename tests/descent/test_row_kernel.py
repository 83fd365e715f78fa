"""The kernel that makes each row's gradient by filters agrees with autograd, and so do the rules that use it.

It runs on a GPU, or on a CPU in Triton's interpreter where Triton is installed: TRITON_INTERPRET=1 pytest ...
"""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

from privaware.descent import cross_entropy, flat
from privaware.descent._accumulate import Batch, accumulate
from privaware.descent._convolution import ConvolutionGradient
from privaware.descent._geometry import Geometry
from privaware.descent._precision import matmul_precision
from privaware.descent._rules import stacked
from privaware.kernels import convolution as convolution_kernels
from privaware.kernels import elementwise
from privaware.kernels.convolution import (
    Conv2dGeometry,
    Tile,
    ghost_norm_sums,
    per_example_gradients,
    weighted_gradient_sum,
)
from privaware.models import StandardisedConv2d
from tests.descent.slow_reference import slow_sum

INTERPRETED = convolution_kernels.triton is not None and os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = [
    pytest.mark.skipif(DEVICE == "cpu" and not INTERPRETED, reason="needs a CUDA device, or Triton's interpreter"),
    # said by the first product of a thread, by no fault of ours
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
    """Whole mantissas, to compare; in the interpreter tensors of a CPU count as a GPU's."""
    monkeypatch.setattr(convolution_kernels, "fits", lambda x, g, copies: len(x) > 0)
    with matmul_precision("float32"):
        yield


def by_autograd(x, g, geometry, rows):
    """Each row's gradient with the channels last: (rows, filters, kernel x channels)."""
    found = []
    for seen, sent in zip(x.chunk(rows), g.chunk(rows), strict=True):
        weight = torch.zeros(g.shape[1], x.shape[1], *geometry.kernel, requires_grad=True)
        made = nn.functional.conv2d(seen, weight, None, *geometry[1:])
        found.append(torch.autograd.grad(made, weight, sent)[0].permute(0, 2, 3, 1).flatten(1))
    return torch.stack(found)


@pytest.mark.parametrize(("channels", "filters", "size", "geometry"), GEOMETRIES)
@pytest.mark.parametrize(("tile", "copies", "keep"), [(None, 1, True), (Tile(32, 32, 32, 4, 2), 3, False)])
def test_the_kernel_agrees_with_autograd(channels, filters, size, geometry, tile, copies, keep):
    torch.manual_seed(copies)
    rows = 2
    x = torch.randn(rows * copies, channels, *size)
    like = nn.functional.conv2d(x, torch.zeros(filters, channels, *geometry.kernel), None, *geometry[1:])
    g = torch.randn_like(like)
    want = by_autograd(x, g, geometry, rows)
    given = (x.to(DEVICE), g.to(DEVICE), geometry, rows)
    kept, squares = per_example_gradients(*given, keep=keep, tile=tile)
    near = {"rtol": 1e-5, "atol": 1e-5 * float(want.square().sum((1, 2)).max())}
    torch.testing.assert_close(squares.cpu(), want.square().sum((1, 2)), **near)
    centred = torch.randn(2, *want.shape[1:])
    again, sums = per_example_gradients(*given, keep=keep, tile=tile, centred=centred.to(DEVICE))
    each = centred.repeat_interleave(rows // 2, 0)
    expected = torch.stack([want.square().sum(2), (want * each).sum(2), want.sum(2)])
    torch.testing.assert_close(sums.cpu(), expected, **near)
    for made in (kept, again):
        assert (made is not None) == keep
        if made is not None:
            torch.testing.assert_close(made.cpu(), want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "models", "copies", "programs"),
    [(12, 1, 1, 24), (4, 3, 2, 24), (29, 1, 1, 24), (5, 3, 1, 6)],  # the last: parts of 3 and 2
)
@pytest.mark.parametrize("at", range(len(GEOMETRIES)))
def test_weighted_sums_of_many_rows_agree_with_autograd(at, rows, models, copies, programs, monkeypatch):
    monkeypatch.setattr(convolution_kernels, "PROGRAMS", programs)
    channels, filters, size, geometry = GEOMETRIES[at]
    x = torch.randn(rows * models * copies, channels, *size)
    like = nn.functional.conv2d(x, torch.zeros(filters, channels, *geometry.kernel), None, *geometry[1:])
    g, weights = torch.randn_like(like), torch.rand(rows * models)
    weights[1::5] = 0
    want = by_autograd(x, g, geometry, rows * models) * weights[:, None, None]
    x[copies] = float("nan")  # of the second row, which has no weight
    given = (t.to(DEVICE) for t in (x, g, weights))
    found = weighted_gradient_sum(*given, geometry, models)
    want = want.view(models, rows, *want.shape[1:]).sum(1)
    torch.testing.assert_close(found.cpu(), want, rtol=1e-5, atol=1e-4)


def test_sums_round_nothing_that_norms_have_not_seen():
    """Places of either sign cancel up to their last bits: a weighted factor cut off would leave another number."""
    sign = torch.where(torch.arange(20).view(1, 1, 5, 4) % 2 == 0, 1.0, -1.0)
    x = sign.expand(12, 3, 5, 4).contiguous()
    g = (1 + 3 * 2.0**-10 - (sign < 0) * 2.0**-10).expand(12, 6, 5, 4).contiguous()
    weights, geometry = torch.full((12,), 0.7), Conv2dGeometry((1, 1), (1, 1), (0, 0), (1, 1))
    with matmul_precision("tf32"):
        found = weighted_gradient_sum(x.to(DEVICE), g.to(DEVICE), weights.to(DEVICE), geometry, 1)
    want = torch.einsum("n,ncij,nfij->fc", weights.double(), x.double(), g.double())[None]
    torch.testing.assert_close(found.cpu().double(), want, rtol=1e-5, atol=0)


@pytest.mark.parametrize(("channels", "filters", "size", "geometry"), GEOMETRIES)
@pytest.mark.parametrize("copies", [1, 3])
def test_norms_from_overlaps_agree_with_autograd(channels, filters, size, geometry, copies):
    rows = 3
    x = torch.randn(rows * copies, channels, *size)
    like = nn.functional.conv2d(x, torch.zeros(filters, channels, *geometry.kernel), None, *geometry[1:])
    g = torch.randn_like(like)
    seen, sent = (t.unflatten(0, (rows, copies)).transpose(1, 2).flatten(2) for t in (x, g))
    left, right = (torch.bmm(t.transpose(1, 2), t).to(DEVICE) for t in (seen, sent))
    found = ghost_norm_sums(left, right, geometry, x.shape[2:], g.shape[2:]).cpu()
    want = by_autograd(x, g, geometry, rows).square().sum((1, 2))
    torch.testing.assert_close(found[:, 0], want, rtol=1e-4, atol=1e-3)
    columns = nn.functional.unfold(x, geometry.kernel, geometry.dilation, geometry.padding, geometry.stride)
    for at, part in ((1, columns), (2, g)):
        whole = part.square().flatten(1).sum(1).view(rows, copies).sum(1)
        torch.testing.assert_close(found[:, at], whole, rtol=1e-4, atol=1e-3)


def test_norms_from_overlaps_are_never_too_small():
    """What cancels in a row's gradient cancels in sums of much larger products, and norms are raised by that."""
    x, g = torch.ones(4, 64, 4, 4), torch.randn(4, 32, 4, 4)
    g -= g.mean((2, 3), keepdim=True)  # a kernel of one place sees the sum over places: nothing
    g[:, 0, 0, 0] += torch.tensor([0.0, 1e-6, 1e-4, 1e-2])
    share = ConvolutionGradient(x.to(DEVICE), g.to(DEVICE), Geometry(nn.Conv2d(64, 32, 1)), torch.zeros(1, 32, 64, 1, 1), 4)
    want = torch.einsum("ncij,nfij->nfc", x.double(), g.double()).square().sum((1, 2))
    assert (share._overlap_norms(share.kernel_geometry()).cpu() >= want).all()


def net(kind):
    torch.manual_seed(3)
    layers = {
        "plain": lambda: (nn.Conv2d(3, 6, 3, padding=1), nn.Tanh(), nn.Conv2d(6, 5, 3, 2)),
        "line": lambda: (nn.Flatten(2), nn.Conv1d(3, 6, 5, 3, padding=2), nn.Tanh()),
        "reflected": lambda: (nn.Conv2d(3, 6, 3, padding=1, padding_mode="reflect"), nn.Tanh()),
        "few places": lambda: (nn.Conv2d(3, 8, 6), nn.Tanh(), nn.Conv2d(8, 8, 1)),
        "standardised": lambda: (StandardisedConv2d(3, 6, 3, padding=1), nn.Tanh(), StandardisedConv2d(6, 5, 3, 2)),
    }[kind]()
    body = nn.Sequential(*layers, nn.Flatten())
    return nn.Sequential(body, nn.Linear(body(torch.zeros(1, 3, 6, 6)).shape[1], 3))


KINDS = ["plain", "line", "reflected", "few places", "standardised"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("models", "copies"), [(1, 1), (1, 2), (3, 1), (2, 2)])
@pytest.mark.parametrize("way", ["kept", "afresh", "overlaps"])
def test_rules_agree_with_rows_one_by_one(kind, models, copies, way, monkeypatch):
    keep = way == "kept"
    monkeypatch.setattr(ConvolutionGradient, "_keeping_pays", lambda self: keep)
    monkeypatch.setattr(ConvolutionGradient, "_overlaps_pay", lambda self: way == "overlaps")
    monkeypatch.setattr("privaware.descent._geometry.GROUPED_LIMIT", 0 if keep else 2**26)
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
        own = slice(at * rows * copies, (at + 1) * rows * copies)
        expected, norms = slow_sums_of_copies(one, x[own], y[own], copies)
        found = squares[at * rows : (at + 1) * rows, 0].sqrt().cpu()
        raised = 5e-4 if way == "overlaps" else 2e-5
        torch.testing.assert_close(found, norms, rtol=raised, atol=1e-6)
        assert (found >= norms * (1 - 2e-5)).all()
        for slot in stack.slots:
            made = stack.view(total, slot)[at].cpu()
            near = {"rtol": 1e-4, "atol": max(1e-5, 0.3 * raised * rows)}
            torch.testing.assert_close(made, expected[slot.name], **near)


def slow_sums_of_copies(module, x, y, copies):
    """Row by row; a row's loss is the mean of its copies'."""

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
@pytest.mark.parametrize("way", ["kept", "afresh", "overlaps"])
def test_a_row_that_is_not_finite_adds_nothing(kind, way, monkeypatch):
    monkeypatch.setattr(ConvolutionGradient, "_keeping_pays", lambda self: way == "kept")
    monkeypatch.setattr(ConvolutionGradient, "_overlaps_pay", lambda self: way == "overlaps")
    module, x, y = net(kind), torch.randn(4, 3, 6, 6), torch.arange(4) % 3
    found = []
    for bad in (False, True):
        given = x.clone()
        if bad:
            given[1] = float("inf")
        keep_these = [0, 1, 2, 3] if bad else [0, 2, 3]
        stack = stacked([module], device=DEVICE)
        total = torch.zeros_like(stack.theta)
        batch = Batch((given[keep_these].to(DEVICE),), y[keep_these].to(DEVICE), len(keep_these))
        accumulate(stack, cross_entropy, batch, flat(0.3), 0.3, total)
        found.append(total.cpu())
        assert bool(torch.isinf(given[1]).all()) == bad
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(DEVICE == "cpu", reason="only a GPU has shorter mantissas")
def test_shorter_mantissas_are_used_only_where_they_are_allowed():
    assert elementwise.ready(torch.zeros(1, device="cuda").device)
    channels, filters, size, geometry = 64, 64, (8, 8), GEOMETRIES[0][3]
    x, g = torch.randn(8, channels, *size), torch.randn(8, filters, *size)
    want = by_autograd(x, g, geometry, 8)
    errors = {}
    for precision in ("float32", "tf32"):
        with matmul_precision(precision):
            kept, _ = per_example_gradients(x.cuda(), g.cuda(), geometry, 8, keep=True)
        errors[precision] = float((kept.cpu() - want).norm() / want.norm())
    assert errors["float32"] < 1e-6
    assert 1e-5 < errors["tf32"] < 2e-3


@pytest.mark.skipif(DEVICE == "cpu", reason="a CPU always convolves models one after the other")
@pytest.mark.parametrize(("groups", "bias"), [(1, True), (1, False), (2, True)])
def test_models_together_and_apart_convolve_alike(groups, bias, monkeypatch):
    from privaware.descent._geometry import Geometry, convolve

    layer = nn.Conv2d(4, 6, 3, padding=1, groups=groups)
    x = torch.randn(12, 4, 5, 5, device="cuda", requires_grad=True)
    weight = torch.randn(3, *layer.weight.shape, device="cuda")
    shift = torch.randn(3, 6, device="cuda") if bias else None
    found = []
    for most in (0, 2**40):
        monkeypatch.setattr("privaware.descent._geometry.GROUPED_LIMIT", most)
        made = convolve(x, weight, shift, Geometry(layer))
        found.append((made, torch.autograd.grad(made.square().sum(), x)[0]))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
