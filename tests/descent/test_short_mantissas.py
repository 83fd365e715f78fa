"""With shortened mantissas, which a CPU imitates here, and with numbers at the edge of their range, bounds hold."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware.descent import Descent, FullBatch, _convolution, _probe, _shares, cross_entropy, flat, sgd
from privaware.descent._clip import SHORT
from privaware.descent._convolution import Convolved
from privaware.descent._geometry import Geometry
from privaware.descent._probe import mantissas
from privaware.descent._run import Run
from privaware.descent._shares import Outer, square_sums
from privaware.descent._standardised import Standardised
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
        return square_sums(Convolved(*given).rows())

    def summed(self, gradient, inputs, like):
        return plain(self, rounded(gradient), rounded(inputs), like)

    monkeypatch.setattr(Convolved, "squares", squares)
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
        with mantissas("float32"):
            run = Run(descent, [module], x, y, noise=[1.0], rows=1, rng=Rng(0))
        run.gather(run.now(), [(slice(0, 1), None)], branch=True)
        worst = max(worst, float(run.total.double().norm()) / norm)
    assert 0.995 < worst <= 1


def filters(values):
    """Standardised filters of one model, whose rows' gradients by the used ones are `values` (rows, filters, ...)."""
    weight = torch.randn(1, *values.shape[1:], generator=torch.Generator().manual_seed(1))
    centred = weight - weight.mean((2, 3, 4), keepdim=True)
    size = torch.sqrt(centred.square().sum((2, 3, 4), keepdim=True) + 1e-4)
    none = torch.zeros(len(values), *values.shape[2:])
    geometry = Geometry.of((3, 3), 1, 0)
    inner = Convolved(none, none[:, : values.shape[1]], geometry, weight, len(values))
    inner.kept = values
    return Standardised(inner, centred, size)


def sums_of(share):
    """What the kernel adds up of each filter."""
    plain = share.inner.rows().flatten(2)
    along = (plain * share.centred.flatten(2)).sum(2)
    return plain.square().sum(2), along, plain.sum(2)


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("steps", [0, 3, 10, 40, 200])
def test_a_gradient_that_cancels_when_filters_are_centred_is_clipped_by_what_rounding_leaves(kernel, steps):
    sign = torch.where(torch.arange(36).view(1, 1, 4, 3, 3) % 2 == 0, 1.0, -1.0)
    values = 1.5 + sign * (steps * 2.0**-10 + 2.0**-11 * 1.01)
    share = filters(values.expand(1, 2, 4, 3, 3).contiguous())
    with mantissas("tf32"):
        squares = share._from_sums(*sums_of(share)) if kernel else share._squares_of_rows()
    share.inner.kept = rounded(share.inner.kept)
    assert float(square_sums(share.rows())) <= float(squares)


def test_a_norm_beyond_the_largest_number_is_never_taken_for_a_small_one():
    for size in torch.logspace(16, 19, 60).tolist():
        share = filters(torch.full((1, 2, 4, 3, 3), size) * torch.linspace(0.9, 1.1, 9).view(3, 3))
        found = share._from_sums(*sums_of(share)).double()
        true = share.rows().double().square().sum((1, 2, 3, 4))
        assert not torch.isfinite(found).all() or (found >= true * (1 - 1e-5)).all(), size


@pytest.mark.parametrize("places", [2, 7])
def test_a_sum_made_afresh_sees_the_factors_that_the_norm_saw(places, monkeypatch):
    for module in ("_shares", "_convolution"):
        monkeypatch.setattr(f"privaware.descent.{module}.room", lambda device: 0)
    made = torch.Generator().manual_seed(0)
    x, g = torch.rand(3, 8, places, generator=made), torch.rand(3, 8, places, generator=made)
    conv = nn.Conv1d(8, 8, 1)
    wide = Convolved(x, g, Geometry(conv), conv.weight.detach()[None], 3)
    outer = Outer(x.transpose(1, 2), g.transpose(1, 2))
    with mantissas("tf32"):
        for share in (wide, outer):
            squares = share.squares()
            assert share.kept is None
            assert torch.equal(cut(share.inputs), rounded(share.inputs))
            assert torch.equal(cut(share.gradients), rounded(share.gradients))
            torch.testing.assert_close(squares, square_sums(share.rows()), rtol=1e-5, atol=0)


def aligned(kind, steps, places=64):
    """A row whose places nearly cancel: inputs of either sign, output gradients one shortened mantissa apart."""
    sign = torch.where(torch.arange(places) % 2 == 0, 1.0, -1.0)
    g = 1 + steps * 2.0**-10 - (sign < 0) * 2.0**-10
    if kind == "outer":
        return Outer(sign.view(1, places, 1), g.view(1, places, 1))
    conv = nn.Conv1d(1, 1, 1)
    given = (sign.view(1, 1, places), g.view(1, 1, places))
    return Convolved(*given, Geometry(conv), conv.weight.detach()[None], 1)


def furthest(kind):
    """The most by which a clipped row passes its bound when products round their factors."""
    worst = 0.0
    for steps in range(1, 900, 37):
        for bound in torch.linspace(0.3, 0.9, 25).tolist():
            share = aligned(kind, steps)
            with mantissas("tf32"):
                size = float(share.squares().double().sqrt())
                assert share.kept is None
                out = torch.zeros(1, 1, 1) if kind == "outer" else torch.zeros(1, 1, 1, 1)
                share.add(torch.tensor([bound]), out)
            worst = max(worst, float(out.double().norm()) / (bound * size))
    return worst


@pytest.mark.parametrize("kind", ["outer", "convolution"])
def test_rounding_that_lines_up_over_places_that_cancel_does_not_pass_the_bound(kind, monkeypatch):
    product, gradient = _shares.add_product, Geometry.weight_gradient
    monkeypatch.setattr(_convolution, "room", lambda device: 0)
    monkeypatch.setattr(_shares, "room", lambda device: 0)
    monkeypatch.setattr(_shares, "add_product", lambda a, b, out: product(rounded(a), rounded(b), out))
    monkeypatch.setattr(
        Geometry, "weight_gradient", lambda self, g, x, like: gradient(self, rounded(g), rounded(x), like)
    )
    assert furthest(kind) <= 1 / (1 - SHORT)
    for module in (_shares, _convolution):  # a planted bug: weighted gradients added at once
        monkeypatch.setattr(module, "parted", lambda values: (values,))
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
        share = Outer(x, g)
    else:
        weight, geometry = torch.zeros(1, 64, 512, 1, 1), Geometry(nn.Conv2d(512, 64, 1))
        images = (t.transpose(1, 2).reshape(4, -1, 4, 4).contiguous() for t in (x, g))
        share = Convolved(*images, geometry, weight, 4)
    monkeypatch.setattr(torch, "bmm", cut_off)
    assert (share._from_grams() >= want).all()
    # a planted bug: raised as if a product were one sum
    monkeypatch.setattr(_shares, "raised", lambda squares, saw, sent, _: squares + eps * saw * sent)
    assert not (share._from_grams() >= want).all()


def failing(monkeypatch, wrong, short):
    """`wrong` draws of made-up rows fail with `short` or with whole mantissas, for the general way too."""
    plain, seen = _probe._agrees, []

    def agrees(module, loss, rows, *rest, **more):
        if torch.backends.cuda.matmul.allow_tf32 != short:
            return plain(module, loss, rows, *rest, **more)
        if not any(torch.equal(rows[0], other) for other in seen):
            seen.append(rows[0])
        return not any(torch.equal(rows[0], other) for other in seen[:wrong])

    monkeypatch.setattr(_probe, "_agrees", agrees)
    module, x, y = nn.Linear(4, 2), torch.zeros(5, 4), torch.zeros(5, dtype=torch.long)
    return seen, (module, cross_entropy, (x,), y, "cpu")


@pytest.mark.parametrize(("wrong", "refused"), [(1, False), (_probe.TRIES, True)])
def test_rounding_that_switches_a_unit_is_not_taken_for_a_wrong_rule(monkeypatch, wrong, refused):
    seen, given = failing(monkeypatch, wrong, short=True)
    with mantissas("tf32"):
        if refused:
            with pytest.raises(Refused, match=r"short mantissas .* use precision='float32'"):
                _probe.proven(*given)
        else:
            assert _probe.proven(*given) is False
    assert len(seen) == (_probe.TRIES if refused else 2)


@pytest.mark.parametrize(("wrong", "refused"), [(0, False), (1, False), (2, True)])
def test_with_whole_mantissas_all_other_rows_must_agree(monkeypatch, wrong, refused):
    seen, given = failing(monkeypatch, wrong, short=False)
    if refused:
        with pytest.raises(Refused, match="cannot be had; build"):
            _probe.proven(*given)
    else:
        assert _probe.proven(*given) is False
    assert len(seen) == (_probe.TRIES if wrong == 1 else wrong + (not refused))
