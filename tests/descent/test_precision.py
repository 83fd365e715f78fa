"""With TF32 rounding, which a CPU imitates here, and near overflow, clipped gradients keep their norm."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware.descent import Descent, FullBatch, Member, _example_sums, _per_example, flat, sgd
from privaware.descent._example_sums import square_sums
from privaware.descent._layers import convolution as _convolution
from privaware.descent._layers.convolution import ConvolutionGradient
from privaware.descent._layers.geometry import Geometry
from privaware.descent._layers.weight_standardisation import StandardisedGradient
from privaware.descent._microbatches import Microbatch
from privaware.descent._per_example import OuterProduct
from privaware.descent._precision import TF32_MARGIN, matmul_precision
from privaware.descent._training import Training, prepare
from privaware.noise import Rng

MOST = 1 + 2.0**-10 - 2.0**-23
"""The number of which TF32 truncates most."""


def cut(values):
    return (values.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def rounded(values):
    return cut((values.contiguous().view(torch.int32) + 0x1000).view(torch.float32))


@pytest.fixture
def tf32(monkeypatch):
    """Norms from factors cut off, sums from rounded ones."""
    plain = ConvolutionGradient.materialise

    def with_factors(self, change):
        return plain(
            ConvolutionGradient(change(self.inputs), change(self.gradients), self.geometry, self.weight, self.count)
        )

    monkeypatch.setattr(ConvolutionGradient, "squared_norms", lambda self: square_sums(with_factors(self, cut)))
    monkeypatch.setattr(ConvolutionGradient, "materialise", lambda self: with_factors(self, rounded))


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_truncated_norms_and_rounded_sums_keep_the_clipping_norm(precision):
    def steep(outputs, targets):
        return outputs.flatten(1).sum(1) * MOST

    module = nn.Conv2d(1, 1, 1, bias=False)
    worst = 0.0
    for norm in torch.linspace(0.5, 1.0, 101).tolist():
        descent = Descent(
            steps=1, sampler=FullBatch(), clip=flat(norm), update=sgd(0.1), loss=steep, precision=precision
        )
        x, y = torch.full((1, 1, 1, 1), MOST), torch.zeros(1)
        with matmul_precision("float32"):
            prepared = prepare([module], descent.loss, x, y, "cpu")
            training = Training(descent, [Member(module, 1.0)], prepared, rows=1, rng=Rng(0))
        settings = training.population.settings(descent, 0, training.state.theta)
        training.exact_sum.start()
        training.accumulate(settings, [Microbatch(slice(0, 1), None)], capturing=False)
        worst = max(worst, float(training.exact_sum.value().norm()) / norm)
    assert 0.995 < worst <= 1


def filters(values):
    """Standardised filters of one model, whose rows' gradients by the used ones are `values` (rows, filters, ...)."""
    weight = torch.randn(1, *values.shape[1:], generator=torch.Generator().manual_seed(1))
    centred = weight - weight.mean((2, 3, 4), keepdim=True)
    size = torch.sqrt(centred.square().sum((2, 3, 4), keepdim=True) + 1e-4)
    none = torch.zeros(len(values), *values.shape[2:])
    geometry = Geometry.uniform((3, 3), 1, 0)
    inner = ConvolutionGradient(none, none[:, : values.shape[1]], geometry, weight, len(values))
    inner.materialised = values
    return StandardisedGradient(inner, centred, size)


def sums_of(gradients):
    """What the kernel adds up of each filter."""
    plain = gradients.inner.materialise().flatten(2)
    along = (plain * gradients.centred.flatten(2)).sum(2)
    return plain.square().sum(2), along, plain.sum(2)


@pytest.mark.parametrize("steps", [0, 3, 10, 40, 200])
def test_standardised_norms_bound_rounded_cancelled_gradients(steps):
    sign = torch.where(torch.arange(36).view(1, 1, 4, 3, 3) % 2 == 0, 1.0, -1.0)
    values = 1.5 + sign * (steps * 2.0**-10 + 2.0**-11 * 1.01)
    gradients = filters(values.expand(1, 2, 4, 3, 3).contiguous())
    with matmul_precision("tf32"):
        squares = gradients._from_sums(*sums_of(gradients))
    gradients.inner.materialised = rounded(gradients.inner.materialised)
    assert float(square_sums(gradients.materialise())) <= float(squares)


def test_an_overflowing_norm_is_not_underestimated():
    for size in torch.logspace(16, 19, 60).tolist():
        gradients = filters(torch.full((1, 2, 4, 3, 3), size) * torch.linspace(0.9, 1.1, 9).view(3, 3))
        actual = gradients._from_sums(*sums_of(gradients)).double()
        true = gradients.materialise().double().square().sum((1, 2, 3, 4))
        assert not torch.isfinite(actual).all() or (actual >= true * (1 - 1e-5)).all(), size


@pytest.mark.parametrize("positions", [2, 7])
def test_recomputed_sums_use_the_truncated_factors_of_the_norm(positions, monkeypatch):
    for module in ("_example_sums", "_per_example", "_layers.convolution"):
        monkeypatch.setattr(f"privaware.descent.{module}.materialised_limit", lambda device: 0)
    generator = torch.Generator().manual_seed(0)
    x, g = torch.rand(3, 8, positions, generator=generator), torch.rand(3, 8, positions, generator=generator)
    conv = nn.Conv1d(8, 8, 1)
    wide = ConvolutionGradient(x, g, Geometry(conv), conv.weight.detach()[None], 3)
    outer = OuterProduct(x.transpose(1, 2), g.transpose(1, 2))
    with matmul_precision("tf32"):
        for gradients in (wide, outer):
            squares = gradients.squared_norms()
            assert gradients.materialised is None
            assert torch.equal(cut(gradients.inputs), rounded(gradients.inputs))
            assert torch.equal(cut(gradients.gradients), rounded(gradients.gradients))
            torch.testing.assert_close(squares, square_sums(gradients.materialise()), rtol=1e-5, atol=0)


def aligned(kind, steps, positions=64):
    """An example whose positions nearly cancel: inputs of either sign, output gradients one TF32 step apart."""
    sign = torch.where(torch.arange(positions) % 2 == 0, 1.0, -1.0)
    g = 1 + steps * 2.0**-10 - (sign < 0) * 2.0**-10
    if kind == "outer":
        return OuterProduct(sign.view(1, positions, 1), g.view(1, positions, 1))
    conv = nn.Conv1d(1, 1, 1)
    tensors = (sign.view(1, 1, positions), g.view(1, 1, positions))
    return ConvolutionGradient(*tensors, Geometry(conv), conv.weight.detach()[None], 1)


def furthest(kind):
    """The most by which a clipped row passes its bound when products round their factors."""
    worst = 0.0
    for steps in range(1, 900, 37):
        for bound in torch.linspace(0.3, 0.9, 25).tolist():
            gradients = aligned(kind, steps)
            with matmul_precision("tf32"):
                size = float(gradients.squared_norms().double().sqrt())
                assert gradients.materialised is None
                out = torch.zeros(1, 1, 1) if kind == "outer" else torch.zeros(1, 1, 1, 1)
                gradients.add_sum(torch.tensor([bound]), out)
            worst = max(worst, float(out.double().norm()) / (bound * size))
    return worst


@pytest.mark.parametrize("kind", ["outer", "convolution"])
def test_aligned_rounding_of_cancelling_positions_keeps_the_norm(kind, monkeypatch):
    product = torch.bmm
    monkeypatch.setattr(_convolution, "materialised_limit", lambda device: 0)
    monkeypatch.setattr(_per_example, "materialised_limit", lambda device: 0)
    monkeypatch.setattr(_example_sums, "materialised_limit", lambda device: 0)
    monkeypatch.setattr(torch, "bmm", lambda a, b: product(rounded(a), rounded(b)))
    assert furthest(kind) <= 1 / (1 - TF32_MARGIN)

    def scaled_first(self, factors, out):  # a planted bug: scaled gradients are rounded once more by their product
        g, x = self.gradients * factors.view(-1, 1, 1), self.inputs
        summed = torch.bmm(g.transpose(1, 2), x) if kind == "outer" else torch.bmm(g, x.transpose(1, 2))
        out.add_(summed.view_as(out))

    for form in (OuterProduct, ConvolutionGradient):
        monkeypatch.setattr(form, "add_sum", scaled_first)
    assert furthest(kind) > 1.8


@pytest.mark.parametrize("kind", ["linear", "convolution"])
def test_ghost_norms_of_cancelling_positions_are_large_enough(monkeypatch, kind):
    """Products that cut off every sum of eight terms, all to one side, of positions whose signs cancel."""
    plain, eps = torch.bmm, torch.finfo(torch.float32).eps

    def cut_off(left, right):
        sizes = left.norm(dim=2)[:, :, None] * right.norm(dim=1)[:, None, :]
        return plain(left, right) - eps * left.shape[2] / 8 * sizes

    generator = torch.Generator().manual_seed(0)
    signs = torch.tensor([1.0, -1.0]).repeat(8)
    x = torch.randn(4, 1, 512, generator=generator) * signs[:, None]
    g = torch.randn(4, 1, 64, generator=generator).repeat(1, 16, 1)
    g[:, 0] += torch.tensor([0.0, 1e-4, 1e-3, 1e-2])[:, None]
    want = torch.bmm(g.double().transpose(1, 2), x.double()).square().sum((1, 2))
    if kind == "linear":
        gradients = OuterProduct(x, g)
    else:
        weight, geometry = torch.zeros(1, 64, 512, 1, 1), Geometry(nn.Conv2d(512, 64, 1))
        images = (t.transpose(1, 2).reshape(4, -1, 4, 4).contiguous() for t in (x, g))
        gradients = ConvolutionGradient(*images, geometry, weight, 4)
    monkeypatch.setattr(torch, "bmm", cut_off)
    assert (gradients._ghost_norms() >= want).all()
    # a planted bug: raised as if a product were one sum
    monkeypatch.setattr(_example_sums, "rounded_up", lambda squares, saw, sent, *_: squares + eps * saw * sent)
    assert not (gradients._ghost_norms() >= want).all()
