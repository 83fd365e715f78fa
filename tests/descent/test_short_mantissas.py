"""With shortened mantissas, which a CPU imitates here, and with numbers at the edge of their range, bounds hold."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware.descent import Descent, FullBatch, Member, _convolution, _per_example, _probe, cross_entropy, flat, sgd
from privaware.descent._convolution import ConvolutionGradient
from privaware.descent._geometry import Geometry
from privaware.descent._microbatches import Selection
from privaware.descent._per_example import OuterProduct, square_sums
from privaware.descent._precision import TF32_MARGIN, matmul_precision, tf32_allowed
from privaware.descent._training import Training, prepare
from privaware.descent._weight_standardisation import StandardisedGradient
from privaware.errors import Refused
from privaware.noise import Rng

MOST = 1 + 2.0**-10 - 2.0**-23
"""The number of which a shortened mantissa cuts off most."""


def cut(values):
    return (values.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def rounded(values):
    return cut((values.contiguous().view(torch.int32) + 0x1000).view(torch.float32))


@pytest.fixture
def short(monkeypatch):
    """Norms from factors cut off, sums from rounded ones."""
    plain = Geometry.weight_gradient

    def squares(self):
        given = (cut(self.inputs), cut(self.gradients), self.geometry, self.weight, self.count)
        return square_sums(ConvolutionGradient(*given).materialise())

    def summed(self, gradient, inputs, like):
        return plain(self, rounded(gradient), rounded(inputs), like)

    monkeypatch.setattr(ConvolutionGradient, "squared_norms", squares)
    monkeypatch.setattr(Geometry, "weight_gradient", summed)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_norms_cut_off_and_sums_rounded_up_stay_within_the_bound(precision):
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
        settings = training.population.settings(descent, 0, training.total)
        training.accumulate(settings, [Selection(slice(0, 1), None)], capturing=False)
        worst = max(worst, float(training.total.double().norm()) / norm)
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


def sums_of(share):
    """What the kernel adds up of each filter."""
    plain = share.inner.materialise().flatten(2)
    along = (plain * share.centred.flatten(2)).sum(2)
    return plain.square().sum(2), along, plain.sum(2)


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("steps", [0, 3, 10, 40, 200])
def test_a_gradient_that_cancels_when_filters_are_centred_is_clipped_by_what_rounding_leaves(kernel, steps):
    sign = torch.where(torch.arange(36).view(1, 1, 4, 3, 3) % 2 == 0, 1.0, -1.0)
    values = 1.5 + sign * (steps * 2.0**-10 + 2.0**-11 * 1.01)
    share = filters(values.expand(1, 2, 4, 3, 3).contiguous())
    with matmul_precision("tf32"):
        squares = share._from_sums(*sums_of(share)) if kernel else share._materialised_norms()
    share.inner.materialised = rounded(share.inner.materialised)
    assert float(square_sums(share.materialise())) <= float(squares)


def test_a_norm_beyond_the_largest_number_is_never_taken_for_a_small_one():
    for size in torch.logspace(16, 19, 60).tolist():
        share = filters(torch.full((1, 2, 4, 3, 3), size) * torch.linspace(0.9, 1.1, 9).view(3, 3))
        found = share._from_sums(*sums_of(share)).double()
        true = share.materialise().double().square().sum((1, 2, 3, 4))
        assert not torch.isfinite(found).all() or (found >= true * (1 - 1e-5)).all(), size


@pytest.mark.parametrize("places", [2, 7])
def test_a_sum_made_afresh_sees_the_factors_that_the_norm_saw(places, monkeypatch):
    for module in ("_per_example", "_convolution"):
        monkeypatch.setattr(f"privaware.descent.{module}.materialised_limit", lambda device: 0)
    made = torch.Generator().manual_seed(0)
    x, g = torch.rand(3, 8, places, generator=made), torch.rand(3, 8, places, generator=made)
    conv = nn.Conv1d(8, 8, 1)
    wide = ConvolutionGradient(x, g, Geometry(conv), conv.weight.detach()[None], 3)
    outer = OuterProduct(x.transpose(1, 2), g.transpose(1, 2))
    with matmul_precision("tf32"):
        for share in (wide, outer):
            squares = share.squared_norms()
            assert share.materialised is None
            assert torch.equal(cut(share.inputs), rounded(share.inputs))
            assert torch.equal(cut(share.gradients), rounded(share.gradients))
            torch.testing.assert_close(squares, square_sums(share.materialise()), rtol=1e-5, atol=0)


def aligned(kind, steps, places=64):
    """A row whose places nearly cancel: inputs of either sign, output gradients one shortened mantissa apart."""
    sign = torch.where(torch.arange(places) % 2 == 0, 1.0, -1.0)
    g = 1 + steps * 2.0**-10 - (sign < 0) * 2.0**-10
    if kind == "outer":
        return OuterProduct(sign.view(1, places, 1), g.view(1, places, 1))
    conv = nn.Conv1d(1, 1, 1)
    given = (sign.view(1, 1, places), g.view(1, 1, places))
    return ConvolutionGradient(*given, Geometry(conv), conv.weight.detach()[None], 1)


def furthest(kind):
    """The most by which a clipped row passes its bound when products round their factors."""
    worst = 0.0
    for steps in range(1, 900, 37):
        for bound in torch.linspace(0.3, 0.9, 25).tolist():
            share = aligned(kind, steps)
            with matmul_precision("tf32"):
                size = float(share.squared_norms().double().sqrt())
                assert share.materialised is None
                out = torch.zeros(1, 1, 1) if kind == "outer" else torch.zeros(1, 1, 1, 1)
                share.add_sum(torch.tensor([bound]), out)
            worst = max(worst, float(out.double().norm()) / (bound * size))
    return worst


@pytest.mark.parametrize("kind", ["outer", "convolution"])
def test_rounding_that_lines_up_over_places_that_cancel_does_not_pass_the_bound(kind, monkeypatch):
    product, gradient = _per_example.add_product, Geometry.weight_gradient
    monkeypatch.setattr(_convolution, "materialised_limit", lambda device: 0)
    monkeypatch.setattr(_per_example, "materialised_limit", lambda device: 0)
    monkeypatch.setattr(_per_example, "add_product", lambda a, b, out: product(rounded(a), rounded(b), out))
    monkeypatch.setattr(
        Geometry, "weight_gradient", lambda self, g, x, like: gradient(self, rounded(g), rounded(x), like)
    )
    assert furthest(kind) <= 1 / (1 - TF32_MARGIN)
    for module in (_per_example, _convolution):  # a planted bug: weighted gradients added at once
        monkeypatch.setattr(module, "tf32_parts", lambda values: (values,))
    assert furthest(kind) > 1.8


@pytest.mark.parametrize("kind", ["linear", "convolution"])
def test_a_norm_that_cancels_is_not_taken_for_smaller_than_it_is(monkeypatch, kind):
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
        share = OuterProduct(x, g)
    else:
        weight, geometry = torch.zeros(1, 64, 512, 1, 1), Geometry(nn.Conv2d(512, 64, 1))
        images = (t.transpose(1, 2).reshape(4, -1, 4, 4).contiguous() for t in (x, g))
        share = ConvolutionGradient(*images, geometry, weight, 4)
    monkeypatch.setattr(torch, "bmm", cut_off)
    assert (share._ghost_norms() >= want).all()
    # a planted bug: raised as if a product were one sum
    monkeypatch.setattr(_per_example, "rounded_up", lambda squares, saw, sent, _: squares + eps * saw * sent)
    assert not (share._ghost_norms() >= want).all()


def failing(monkeypatch, wrong, short):
    """`wrong` draws of made-up rows fail with `short` or with whole mantissas, for the general way too."""
    plain, seen = _probe._agrees, []

    def agrees(case, *rest, **more):
        inputs = case.inputs[0]
        if tf32_allowed() != short:
            return plain(case, *rest, **more)
        if not any(torch.equal(inputs, other) for other in seen):
            seen.append(inputs)
        return not any(torch.equal(inputs, other) for other in seen[:wrong])

    monkeypatch.setattr(_probe, "_agrees", agrees)
    module, x, y = nn.Linear(4, 2), torch.zeros(5, 4), torch.zeros(5, dtype=torch.long)
    return seen, (module, cross_entropy, (x,), y, "cpu")


@pytest.mark.parametrize(("wrong", "refused"), [(1, False), (_probe.DRAWS, True)])
def test_rounding_that_switches_a_unit_is_not_taken_for_a_wrong_rule(monkeypatch, wrong, refused):
    seen, given = failing(monkeypatch, wrong, short=True)
    with matmul_precision("tf32"):
        if refused:
            with pytest.raises(Refused, match=r"TF32 products .* use precision='float32'"):
                _probe.needs_materialising(*given)
        else:
            assert _probe.needs_materialising(*given) is False
    assert len(seen) == (_probe.DRAWS if refused else 2)


@pytest.mark.parametrize(("wrong", "refused"), [(0, False), (1, False), (2, True)])
def test_with_whole_mantissas_all_other_rows_must_agree(monkeypatch, wrong, refused):
    seen, given = failing(monkeypatch, wrong, short=False)
    if refused:
        with pytest.raises(Refused, match="cannot be computed; build"):
            _probe.needs_materialising(*given)
    else:
        assert _probe.needs_materialising(*given) is False
    assert len(seen) == (_probe.DRAWS if wrong == 1 else wrong + (not refused))
