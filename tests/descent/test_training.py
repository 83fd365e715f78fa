"""A step: what is released, with which noise, divided by what."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from privaware.descent import (
    FullBatch,
    Poisson,
    constant,
    cosine,
    cross_entropy,
    exponential,
    flat,
    linear,
    members,
    piecewise,
    sgd,
    squared,
    warm_up,
)
from privaware.descent._rounding import ROUNDING
from privaware.errors import WrongInput
from privaware.events import leaves
from privaware.noise import Rng
from tests.descent.small_training import ROWS, RecordingRng, examples, flat_of, net, recipe, train


def test_training_does_not_change_the_given_module():
    module = net()
    before = flat_of(module)
    train(recipe(), module=module)
    assert torch.equal(flat_of(module), before)
    assert all(p.requires_grad for p in module.parameters())


def test_p1_neighbouring_sums_differ_by_one_clipped_gradient():
    x, y = examples(ROWS + 1)
    masks = [np.arange(ROWS + 1) % 2 == 0]
    releases = []
    for count in (ROWS, ROWS + 1):
        rng = RecordingRng(masks=masks)
        recipe(steps=1, clip=flat(0.1)).run(net(), 100 * x[:count], y[:count], noise=2.0, rows=ROWS, rng=rng)
        releases.append(rng.calls)
    (one, noise, bound), (two, *again) = releases[0][0], releases[1][0]
    assert (noise, bound) == tuple(again) == (2.0, 0.1 * (1 + ROUNDING))
    assert 0 < float((one - two).norm()) <= bound


def test_p1_sums_are_divided_by_the_declared_number_of_rows():
    x, y = examples()
    descent = recipe(steps=1, sampler=FullBatch(), clip=flat(math.inf))
    steps = [
        flat_of(train(descent, noise=0.0, data=(x, y), declared=declared)) - flat_of(net())
        for declared in (ROWS, 2 * ROWS)
    ]
    torch.testing.assert_close(steps[0], 2 * steps[1], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    "schedule", [constant(2.0), cosine(0.5), linear(0.1), exponential(0.5, every=2), piecewise([1, 3])]
)
def test_p21_training_uses_the_noise_that_was_priced(schedule):
    descent, rng = recipe(noise_schedule=schedule, steps=6), RecordingRng()
    x, y = examples()
    descent.run(net(), x, y, noise=1.3, rows=ROWS, rng=rng)
    priced = [leaf.event.noise for leaf, count in leaves(descent.cost(1.3)) for _ in range(count)]
    assert sorted(priced) == pytest.approx(sorted(noise for _, noise, _ in rng.calls))


def test_p5_an_empty_batch_is_a_noise_step():
    rng = RecordingRng()
    x, y = examples(3)
    descent = recipe(sampler=Poisson(rate=0.05), steps=40)
    trained = descent.run(net(), x, y, noise=1.0, rows=3, rng=rng)
    empty = sum(not bool(exact.any()) for exact, *_ in rng.calls)
    assert len(rng.calls) == 40
    assert 12 < empty < 40
    assert torch.isfinite(flat_of(trained)).all()


def test_p5_training_without_examples_releases_noise():
    x, y = examples(0)
    trained = train(recipe(), data=(x, y), declared=10)
    assert not torch.equal(flat_of(trained), flat_of(net()))


@pytest.mark.parametrize("microbatch", [1, 7, 64, None])
def test_p28_microbatch_size_does_not_change_the_update(microbatch):
    expected = train(recipe(steps=4), noise=0.7)
    actual = train(recipe(steps=4, microbatch=microbatch), noise=0.7)
    torch.testing.assert_close(flat_of(actual), flat_of(expected), rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize(("models", "microbatch"), [(1, 1), (1, 7), (1, None), (4, 3), (4, None)])
def test_p27_noise_is_drawn_once_a_step_with_promised_deviation(models, microbatch):
    x, _ = examples(20)
    rng = RecordingRng()
    wide = nn.Linear(4, 2000)
    descent = recipe(steps=2, sampler=FullBatch(), loss=squared, microbatch=microbatch, update=sgd(1.0))
    trained = descent.run_population(
        members([wide] * models, noise=[0.8] * models), x, torch.zeros(20, 2000), rows=20, rng=rng
    )
    assert [tuple(exact.shape) for exact, *_ in rng.calls] == [(models, 10_000)] * 2
    updates = torch.stack([flat_of(one) - flat_of(wide) for one in trained])
    exact = sum(exact for exact, *_ in rng.calls)
    noise = updates * 20 + exact
    expected = 0.8 * 0.5 * math.sqrt(2)
    assert (noise.std(1) / expected).tolist() == pytest.approx([1.0] * models, abs=0.04)
    if models > 1:
        between = torch.corrcoef(noise)
        assert float((between - torch.eye(models)).abs().max()) < 0.05


def test_p26_unseeded_runs_differ_and_seeded_runs_repeat():
    x, y = examples()
    free = [recipe().run(net(), x, y, noise=1.0, rows=ROWS, rng=Rng()) for _ in range(2)]
    assert not torch.equal(flat_of(free[0]), flat_of(free[1]))
    assert torch.equal(flat_of(train(recipe())), flat_of(train(recipe())))


def test_p26_torch_generators_are_restored():
    module, before = net(), torch.get_rng_state()
    train(recipe(), module=module)
    assert torch.equal(torch.get_rng_state(), before)


def test_copies_are_averaged_before_clipping():
    x, y = examples(4)
    shifts = torch.tensor([0.0, 1.0, -1.0]).repeat(4)[:, None]
    releases = []
    for copies, augment, data in ((3, lambda inputs, _: inputs + shifts, (x, y)), (1, None, (x, y))):
        rng = RecordingRng()
        recipe(steps=1, sampler=FullBatch(), copies=copies, augment=augment, clip=flat(0.4)).run(
            net(), *data, noise=1.0, rows=4, rng=rng
        )
        releases.append(rng.calls[0][0])
    module, expected = net(), torch.zeros_like(releases[0])
    for at in range(4):
        views = torch.stack([x[at], x[at] + 1, x[at] - 1])
        loss = cross_entropy(module(views), y[at].expand(3)).mean()
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(module.parameters()))])
        expected += gradient * min(1.0, 0.4 / float(gradient.norm()))
    torch.testing.assert_close(releases[0], expected, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(releases[0], releases[1])


def test_equal_copies_give_the_sum_of_one_copy():
    torch.manual_seed(0)
    convolved = nn.Sequential(nn.Conv1d(1, 2, 2), nn.GroupNorm(1, 2), nn.Flatten(), nn.Linear(6, 3))
    x, y = torch.randn(4, 1, 4), torch.randint(3, (4,))
    sums = []
    for copies in (1, 3):
        rng = RecordingRng()
        recipe(steps=1, sampler=FullBatch(), copies=copies).run(convolved, x, y, noise=1.0, rows=4, rng=rng)
        sums.append(rng.calls[0][0])
    torch.testing.assert_close(sums[0], sums[1], rtol=1e-5, atol=1e-6)


def test_lr_schedule_scales_the_step():
    x, y = examples()
    base = recipe(steps=1, sampler=FullBatch())
    slow = recipe(steps=1, sampler=FullBatch(), lr_schedule=warm_up(4))
    updates = [flat_of(train(d, noise=0.0, data=(x, y))) - flat_of(net()) for d in (base, slow)]
    torch.testing.assert_close(updates[0], 4 * updates[1], rtol=1e-4, atol=1e-6)


def test_a_warm_up_of_no_step_is_refused():
    with pytest.raises(WrongInput, match="expected over >= 1"):
        warm_up(0)


def test_several_inputs_may_be_numpy_arrays():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 3), nn.Linear(2, 3)

        def forward(self, first, second):
            return self.a(first) + self.b(second)

    x, y = examples()
    initial = Two()
    inputs = (x.double().numpy(), np.ones((ROWS, 2)))
    trained = train(recipe(), module=initial, data=(inputs, y.numpy()))
    assert not torch.equal(trained.a.weight, initial.a.weight)
    assert not torch.equal(trained.b.weight, initial.b.weight)
