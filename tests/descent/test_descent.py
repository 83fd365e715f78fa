"""What the loop promises: what is released, with which noise, divided by what."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from privaware.descent import (
    Callbacks,
    Checkpoint,
    Descent,
    FullBatch,
    Poisson,
    _cuda_graph,
    adam,
    automatic,
    clipped_sum,
    constant,
    cosine,
    cross_entropy,
    ema,
    exponential,
    flat,
    linear,
    members,
    momentum,
    per_layer,
    piecewise,
    quantile,
    replace_batch_norm,
    sgd,
    squared,
    tail,
    warm_up,
)
from privaware.descent._convolution import ConvolutionGradient
from privaware.descent._cuda_graph import CapturedStep, capacity, gaps_to_indices
from privaware.descent._loop import train_to_end
from privaware.descent._padded_population import stackable_groups
from privaware.descent._precision import matmul_precision, tf32_allowed
from privaware.descent._training import Training, prepare
from privaware.errors import Refused, WrongInput
from privaware.events import Approximate, Gaussian, leaves
from privaware.noise import Rng

ROWS = 40


class Listening(Rng):
    """Writes down every release; samples can be fixed."""

    def __init__(self, seed=0, masks=None):
        super().__init__(seed)
        self.calls, self.masks = [], masks

    def gaussian(self, exact, *, noise, sensitivity):
        self.calls.append((exact.clone(), noise, sensitivity))
        return super().gaussian(exact, noise=noise, sensitivity=sensitivity)

    def poisson(self, rows, rate):
        if self.masks is None:
            return super().poisson(rows, rate)
        return self.masks[len(self.calls)][:rows]


def net(kind=torch.float32, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(kind)


def rows(count=ROWS, kind=torch.float32, seed=1):
    made = torch.Generator().manual_seed(seed)
    return torch.randn(count, 4, generator=made, dtype=kind), torch.randint(3, (count,), generator=made)


def recipe(**changes):
    settings = {"steps": 5, "sampler": Poisson(rate=0.3), "clip": flat(0.5), "update": sgd(0.5), **changes}
    return Descent(**settings)


def flat_of(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def train(descent, *, seed=3, noise=1.0, module=None, data=None, declared=ROWS, **callbacks):
    x, y = data or rows()
    given = {"noise": noise, "rows": declared, "rng": Rng(seed), "callbacks": Callbacks(**callbacks)}
    return descent.run(module or net(), x, y, **given)


def training(descent, modules, x, y, *, noise, rows, rng, device="cpu"):
    prepared = prepare(modules, descent.loss, x, y, device)
    return Training(descent, members(modules, noise), prepared, rows=rows, rng=rng)


@pytest.mark.parametrize(
    ("update", "plain"),
    [
        (sgd(0.3), lambda p: torch.optim.SGD(p, lr=0.3)),
        (sgd(0.3, decay=0.01), lambda p: torch.optim.SGD(p, lr=0.3, weight_decay=0.01)),
        (momentum(0.3), lambda p: torch.optim.SGD(p, lr=0.3, momentum=0.9)),
        (adam(0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
    ],
    ids=["sgd", "decay", "momentum", "adam"],
)
def test_zero_noise_and_infinite_norm_is_plain_descent(update, plain):
    x, y = rows(kind=torch.float64)
    descent = recipe(sampler=FullBatch(), clip=flat(math.inf), update=update, steps=20)
    trained = train(descent, noise=0.0, module=net(torch.float64), data=(x, y))
    expected = net(torch.float64)
    optimiser = plain(expected.parameters())
    for _ in range(20):
        optimiser.zero_grad()
        cross_entropy(expected(x), y).mean().backward()
        optimiser.step()
    torch.testing.assert_close(flat_of(trained), flat_of(expected), rtol=1e-11, atol=1e-13)


def test_the_given_module_is_not_changed():
    module = net()
    before = flat_of(module)
    train(recipe(), module=module)
    assert torch.equal(flat_of(module), before)
    assert all(p.requires_grad for p in module.parameters())


def test_p1_neighbours_differ_in_nothing_but_one_clipped_row():
    x, y = rows(ROWS + 1)
    masks = [np.arange(ROWS + 1) % 2 == 0]
    heard = []
    for count in (ROWS, ROWS + 1):
        rng = Listening(masks=masks)
        recipe(steps=1, clip=flat(0.1)).run(net(), 100 * x[:count], y[:count], noise=2.0, rows=ROWS, rng=rng)
        heard.append(rng.calls)
    (one, noise, bound), (two, *again) = heard[0][0], heard[1][0]
    assert (noise, bound) == tuple(again) == (2.0, 0.1)
    assert 0 < float((one - two).norm()) <= 0.1


def test_p1_the_divisor_is_the_declared_number_of_rows():
    x, y = rows()
    descent = recipe(steps=1, sampler=FullBatch(), clip=flat(math.inf))
    steps = [
        flat_of(train(descent, noise=0.0, data=(x, y), declared=declared)) - flat_of(net())
        for declared in (ROWS, 2 * ROWS)
    ]
    torch.testing.assert_close(steps[0], 2 * steps[1], rtol=1e-4, atol=1e-7)


def test_p2_poisson_rows_are_independent():
    rng, sampler = Rng(5), Poisson(rate=0.2)
    drawn = np.zeros((4000, 30))
    for at in range(4000):
        drawn[at, sampler.draw(rng, 30)] = 1
    assert_bernoulli(drawn, 0.2)


def test_p2_gaps_on_a_device_follow_the_same_law():
    made = torch.Generator().manual_seed(1)
    draws = torch.rand(4000, 32, generator=made, dtype=torch.float64)
    places, inside = gaps_to_indices(draws, 0.2, 30)
    drawn = torch.zeros(4000, 31).scatter_(1, torch.where(inside, places, 30), 1.0)[:, :30]
    assert torch.equal(inside.sum(1), drawn.sum(1).long())
    assert_bernoulli(drawn.numpy(), 0.2)


def assert_bernoulli(drawn, rate):
    trials, columns = drawn.shape
    spread = math.sqrt(rate * (1 - rate) / trials)
    assert np.abs(drawn.mean(0) - rate).max() < 5 * spread
    centred = (drawn - rate) / math.sqrt(rate * (1 - rate))
    between = centred.T @ centred / trials
    assert np.abs(between - np.diag(np.diag(between))).max() < 5 / math.sqrt(trials)
    after = (centred[1:] * centred[:-1]).mean(0)
    assert np.abs(after).max() < 5 / math.sqrt(trials)
    sizes = drawn.sum(1)
    assert abs(sizes.var() / (columns * rate * (1 - rate)) - 1) < 0.15


def test_overflow_of_a_fixed_shape_is_rarer_than_promised():
    from scipy.stats import binom

    for count, rate, chance in ((60_000, 256 / 60_000, 1e-12), (500, 0.3, 1e-6), (40, 0.9, 1e-3)):
        cap = capacity(count, rate, chance)
        assert cap == count or binom.sf(cap, count, rate) <= chance


class Told:
    """What a shape on a device would be sent, and when its graph would be replayed."""

    def __init__(self, width, said):
        self.width, self.said = width, said

    def send(self, places, inside):
        self.said.append((places.copy(), inside.copy(), self.width))

    def replay(self):
        self.said.append(self.width)


@pytest.mark.parametrize("physical", [10_000, 100, 7])
@pytest.mark.parametrize("models", [1, 3, 400])
@pytest.mark.parametrize("often", [_cuda_graph.FIT_CHANCES, (0.01, 0.3)])
def test_the_host_sends_every_row_once_in_the_narrowest_shape(models, physical, often, monkeypatch):
    monkeypatch.setattr(_cuda_graph, "FIT_CHANCES", often)
    rows, rate = 1_000, 0.3
    run = SimpleNamespace(
        examples=rows,
        models=models,
        microbatch=physical,
        rng=Rng(seed=4),
        state=SimpleNamespace(step=0),
        recipe=SimpleNamespace(sampler=Poisson(rate=rate)),
    )
    graphs, said = CapturedStep.__new__(CapturedStep), []
    graphs.training = run
    widths = graphs._widths()
    assert widths == sorted(widths)
    assert widths[-1] <= physical
    graphs.shapes = [Told(width, said) for width in widths]
    graphs.graphs = [*graphs.shapes, Told("finish", said)]
    twice = []
    for step in range(60):
        expected, within = Rng.restore(run.rng.state()).poisson_places(rows, rate, models)
        said.clear()
        graphs.one_step()
        assert said.pop() == "finish"
        assert run.state.step == step + 1
        batches, replays = said[::2], said[1::2]
        assert [width for _, _, width in batches] == replays
        sent = [np.concatenate(parts, 1) for parts in zip(*(batch[:2] for batch in batches))]
        assert (sent[0] == expected).all()
        assert (sent[1] == within).all()
        assert all(len(places[0]) <= width for places, _, width in batches)
        last = batches[-1][0].shape[1]
        assert replays[-1] == next(width for width in widths if width >= last)
        twice.append(len(batches) > 1)
    if physical > rows and often == (0.8, 0.999):
        assert len(widths) == 2
        assert sum(twice) <= 1, "the wider shape holds nearly all samples"


@pytest.mark.parametrize("sampler", [Poisson(rate=0.25), Poisson(rate=1.0), FullBatch()])
@pytest.mark.parametrize("clip", [flat(1.0), per_layer(1.0), automatic(), quantile(norm=1.0, count_noise=5.0)])
def test_p3_price_follows_the_sampler_and_nothing_else(sampler, clip):
    event = recipe(sampler=sampler, clip=clip, steps=7, microbatch=3).cost(1.5)
    assert list(leaves(event)) == [(sampler.event(Gaussian(noise=1.5)), 7)]


def test_overflow_is_charged():
    event = recipe(overflow=1e-10).cost(1.0)
    assert (Approximate(epsilon=0.0, delta=1e-10), 1) in list(leaves(event))


@pytest.mark.parametrize(
    "schedule", [constant(2.0), cosine(0.5), linear(0.1), exponential(0.5, every=2), piecewise([1, 3])]
)
def test_p21_the_run_uses_the_noise_that_was_priced(schedule):
    descent, rng = recipe(noise_schedule=schedule, steps=6), Listening()
    x, y = rows()
    descent.run(net(), x, y, noise=1.3, rows=ROWS, rng=rng)
    priced = [leaf.event.noise for leaf, count in leaves(descent.cost(1.3)) for _ in range(count)]
    assert sorted(priced) == pytest.approx(sorted(noise for _, noise, _ in rng.calls))


def test_p5_an_empty_batch_is_a_noise_step():
    rng = Listening()
    x, y = rows(3)
    descent = recipe(sampler=Poisson(rate=0.05), steps=40)
    trained = descent.run(net(), x, y, noise=1.0, rows=3, rng=rng)
    empty = sum(not bool(exact.any()) for exact, *_ in rng.calls)
    assert len(rng.calls) == 40
    assert 12 < empty < 40
    assert torch.isfinite(flat_of(trained)).all()


def test_p5_no_rows_at_all_still_train_on_noise():
    x, y = rows(0)
    trained = train(recipe(), data=(x, y), declared=10)
    assert not torch.equal(flat_of(trained), flat_of(net()))


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e38])
@pytest.mark.parametrize("capturing", [False, True], ids=["eager", "captured"])
def test_p6_a_row_that_is_not_finite_adds_nothing(value, capturing):
    from privaware.descent._accumulate import Batch, accumulate
    from privaware.descent._rules import stacked

    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv1d(1, 3, 2), nn.GroupNorm(1, 3), nn.ReLU(), nn.Flatten(), nn.Linear(9, 9), nn.Linear(9, 3)
    )
    x, y = torch.randn(6, 1, 4), torch.randint(3, (6,))
    expected, _ = clipped_sum(module, cross_entropy, x[1:], y[1:], 0.5)
    x[0] = value
    x[0, 0, 1] = -1.0
    stack = stacked([module])
    total = torch.zeros_like(stack.theta)
    accumulate(stack, cross_entropy, Batch((x,), y, 6), flat(0.5), 0.5, total, capturing=capturing)
    found = {slot.name: stack.view(total, slot)[0] for slot in stack.slots}
    if value == 1e38:
        assert all(torch.isfinite(part).all() for part in found.values())
    else:
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("clip", [flat(0.3), per_layer(0.3), automatic(0.3), quantile(norm=0.3, count_noise=4.0)])
def test_p11_no_row_adds_more_than_the_sensitivity(clip):
    for seed in range(12):
        x, y = rows(1, seed=seed)
        size = 10.0 ** (seed - 6)
        for many in ((x * size, y), (x[:0], y[:0])):
            rng = Listening()
            recipe(sampler=FullBatch(), clip=clip, steps=1).run(net(), *many, noise=1.0, rows=10, rng=rng)
            exact, noise, bound = rng.calls[0]
            assert float(exact.double().norm()) <= float(torch.as_tensor(bound).max())
            assert float(torch.as_tensor(noise).max()) == 1.0
    assert clip.sensitivity() == 0.3
    assert clip.sensitivity("replace_one") == 0.6


def test_per_layer_clips_each_layer_to_its_part():
    x, y = rows(1)
    rng = Listening()
    recipe(sampler=FullBatch(), clip=per_layer(0.001), steps=1).run(net(), x, y, noise=1.0, rows=1, rng=rng)
    exact = rng.calls[0][0][0]
    parts = [float(exact[:30].norm()), float(exact[30:].norm())]
    assert parts == pytest.approx([0.001 / math.sqrt(2)] * 2, rel=1e-4)


def test_automatic_scales_small_rows_up():
    x, y = rows(1)
    module = net()
    _, size = clipped_sum(module, cross_entropy, x, y, 1.0)
    rng = Listening()
    recipe(sampler=FullBatch(), clip=automatic(5.0, gamma=0.01), steps=1).run(module, x, y, noise=1.0, rows=1, rng=rng)
    expected = 5.0 * float(size) / (float(size) + 0.01)
    assert float(rng.calls[0][0].norm()) == pytest.approx(expected, rel=1e-4)


def test_p8_the_count_moves_by_half_and_shares_one_noise():
    clip = quantile(norm=0.3, count_noise=4.0)
    x, y = rows(9)
    heard = []
    for count in (8, 9):
        rng = Listening()
        recipe(sampler=FullBatch(), clip=clip, steps=1).run(net(), x[:count], y[:count], noise=2.0, rows=9, rng=rng)
        heard.append(rng.calls)
        assert len(rng.calls) == 1
    (one, noise, bound), (two, *_) = heard[0][0], heard[1][0]
    inner = clip.gradient_noise(2.0)
    assert inner == pytest.approx(1 / math.sqrt(2.0**-2 - (2 * 4.0) ** -2))
    scale = inner * 0.3 / 4.0
    assert abs(float(two[0, -1] - one[0, -1])) == pytest.approx(0.5 * scale, rel=1e-5)
    assert float((two - one).norm()) <= float(bound) * (1 + 1e-6)
    assert float(noise * bound) == pytest.approx(inner * 0.3, rel=1e-6)


@pytest.mark.parametrize(("noise", "expected"), [(1, 1.000764), (2, 2.006132), (10, 10.863072)])
def test_quantile_split_golden(noise, expected):
    assert quantile(norm=1.0, count_noise=12.8).gradient_noise(noise) == pytest.approx(expected, abs=1e-6)


def test_quantile_refuses_noise_that_leaves_nothing_for_the_gradient():
    with pytest.raises(WrongInput, match="raise count_noise"):
        recipe(clip=quantile(norm=1.0, count_noise=1.0)).cost(2.0)


def test_quantile_tracks_the_gradient_sizes():
    x, y = rows(400)
    descent = recipe(
        sampler=FullBatch(), clip=quantile(norm=50.0, count_noise=2.0, target=0.5, lr=0.3), update=sgd(1e-9), steps=150
    )
    run = training(descent, [net()], x, y, noise=[0.1], rows=400, rng=Rng(1))
    train_to_end(run)
    _, sizes = clipped_sum(net(), cross_entropy, x, y, 1.0)
    assert float(run.state.norms) == pytest.approx(float(sizes.median()), rel=0.05)


@pytest.mark.parametrize("physical", [1, 7, 64, None])
def test_p28_physical_batch_changes_nothing(physical):
    expected = train(recipe(steps=4), noise=0.7)
    found = train(recipe(steps=4, microbatch=physical), noise=0.7)
    torch.testing.assert_close(flat_of(found), flat_of(expected), rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize(("models", "physical"), [(1, 1), (1, 7), (1, None), (4, 3), (4, None)])
def test_p27_noise_is_drawn_once_a_step_with_the_promised_deviation(models, physical):
    x, _ = rows(20)
    rng = Listening()
    wide = nn.Linear(4, 2000)
    descent = recipe(steps=2, sampler=FullBatch(), loss=squared, microbatch=physical, update=sgd(1.0))
    trained = descent.run_population(
        members([wide] * models, noise=[0.8] * models), x, torch.zeros(20, 2000), rows=20, rng=rng
    )
    assert [tuple(exact.shape) for exact, *_ in rng.calls] == [(models, 10_000)] * 2
    moved = torch.stack([flat_of(one) - flat_of(wide) for one in trained])
    exact = sum(exact for exact, *_ in rng.calls)
    noise = moved * 20 + exact
    expected = 0.8 * 0.5 * math.sqrt(2)
    assert (noise.std(1) / expected).tolist() == pytest.approx([1.0] * models, abs=0.04)
    if models > 1:
        between = torch.corrcoef(noise)
        assert float((between - torch.eye(models)).abs().max()) < 0.05


def test_each_model_of_a_population_has_its_own_noise_lr_norm_and_sample():
    x, y = rows()
    descent = recipe(steps=1, sampler=FullBatch())
    trained = descent.run_population(
        members([net()] * 3, noise=[0.0] * 3, lr=[0.1, 0.2, 0.1], norm=[1e9, 1e9, 0.01]), x, y, rows=ROWS, rng=Rng(0)
    )
    moved = [flat_of(one) - flat_of(net()) for one in trained]
    torch.testing.assert_close(moved[1], 2 * moved[0], rtol=1e-4, atol=1e-6)
    assert float(moved[2].norm()) <= 0.1 * 0.01 * 1.001
    sampled = recipe(steps=1).run_population(members([net()] * 2, noise=[0.0] * 2), x, y, rows=ROWS, rng=Rng(0))
    assert not torch.equal(flat_of(sampled[0]), flat_of(sampled[1]))


@pytest.mark.parametrize("update", [momentum(0.5), adam(0.05)], ids=["momentum", "adam"])
def test_a_population_without_noise_is_its_models_alone(update):
    x, y = rows()
    descent = recipe(sampler=FullBatch(), update=update, average=tail(0.5), steps=6, noise_schedule=cosine())
    models = [net(seed=seed) for seed in range(3)]
    made = descent.run_population(members(models, noise=[0.0] * 3), x, y, rows=ROWS, rng=Rng(0))
    for model, one in zip(models, made, strict=True):
        alone = train(descent, noise=0.0, module=model)
        torch.testing.assert_close(flat_of(one), flat_of(alone), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [nn.ReLU, nn.Sigmoid])
def test_different_widths_in_one_stack_are_trained_as_if_alone(kind):
    x, y = rows()
    models = []
    for width in (7, 8, 6):
        torch.manual_seed(width)
        models.append(nn.Sequential(nn.Linear(4, width), kind(), nn.Linear(width, 3)))
    assert len(stackable_groups(models, "cpu")) == 1
    descent = recipe(sampler=FullBatch(), update=momentum(0.5), steps=6)
    made = descent.run_population(members(models, noise=[0.0] * 3), x, y, rows=ROWS, rng=Rng(0))
    for model, one in zip(models, made, strict=True):
        alone = train(descent, noise=0.0, module=model)
        torch.testing.assert_close(flat_of(one), flat_of(alone), rtol=1e-4, atol=1e-5)
    rng = Listening()
    noisy = descent.run_population(members(models, noise=[1.0] * 3), x, y, rows=ROWS, rng=rng)
    assert [flat_of(one).shape for one in noisy] == [flat_of(one).shape for one in models]
    exact = rng.calls[-1][0]
    assert int((exact[0] != 0).sum()) <= flat_of(models[0]).numel()


def chains():
    """Networks of one depth that differ in widths, activations and frozen layers."""
    kinds = [nn.ReLU, nn.Sigmoid, nn.Tanh, nn.Sigmoid, nn.ReLU]
    widths = [(3, 5), (8, 2), (5, 5), (8, 5), (3, 5)]
    frozen = [(), (0,), (2,), (0, 2), (4,)]
    models = []
    for at, (wide, narrow) in enumerate(widths):
        torch.manual_seed(at)
        layers = [nn.Linear(4, wide), kinds[at](), nn.Linear(wide, narrow), kinds[-1 - at]()]
        model = nn.Sequential(*layers, nn.Linear(narrow, 3))
        for layer in frozen[at]:
            model[layer].requires_grad_(False)
        models.append(model)
    return models


def test_different_activations_and_frozen_layers_in_one_stack_are_trained_as_if_alone():
    x, y = rows()
    descent = recipe(sampler=FullBatch(), update=momentum(0.5), average=tail(0.5), clip=flat(0.05), steps=6)
    models = chains()
    assert stackable_groups(models, "cuda") == [list(range(5))]
    assert len(stackable_groups(models, "cpu")) == 5
    assert len(stackable_groups(models, "cuda", per_layer=True)) == 5
    made = descent._train_stack(members(models, noise=[0.0] * 5), x, y, rows=ROWS, rng=Rng(0), device="cpu")
    for model, one in zip(models, made, strict=True):
        alone = train(descent, noise=0.0, module=model)
        torch.testing.assert_close(flat_of(one), flat_of(alone), rtol=1e-4, atol=1e-5)


def test_noise_in_one_stack_reaches_no_padding_and_no_frozen_layer_and_bounds_hold():
    x, y = rows()
    descent = recipe(sampler=FullBatch(), update=sgd(0.5), clip=flat(0.05), steps=4)
    models, rng = chains(), Listening()
    made = descent._train_stack(members(models, noise=[1.0] * 5), x[:1], y[:1], rows=ROWS, rng=rng, device="cpu")
    for model, one in zip(models, made, strict=True):
        for before, after in zip(model.parameters(), one.parameters(), strict=True):
            assert torch.equal(before, after) != before.requires_grad
    for exact, *_ in rng.calls:  # one row's sum is its gradient, clipped by what is trained alone
        torch.testing.assert_close(exact.norm(dim=1), torch.full((5,), 0.05), rtol=1e-3, atol=0)
        assert (exact.norm(dim=1) <= 0.05).all()


def test_models_that_do_not_fit_one_stack_are_trained_one_stack_after_another():
    x, y = rows()
    models = [net(), nn.Linear(4, 3), net(seed=1), nn.Sequential(nn.Linear(4, 99), nn.ReLU(), nn.Linear(99, 3))]
    descent = recipe(sampler=FullBatch(), steps=3)
    heard = []
    trained = descent.run_population(
        members(models, noise=[0.0] * 4, lr=[0.1, 0.2, 0.3, 0.4]),
        x,
        y,
        rows=ROWS,
        rng=Rng(0),
        callbacks=Callbacks(progress=lambda *facts: heard.append(facts[:2])),
    )
    for model, one, lr in zip(models, trained, (0.1, 0.2, 0.3, 0.4), strict=True):
        alone = train(recipe(sampler=FullBatch(), steps=3, update=sgd(lr)), noise=0.0, module=model)
        torch.testing.assert_close(flat_of(one), flat_of(alone), rtol=1e-4, atol=1e-5)
    assert heard[-1] == (9, 9)


def test_p24_a_row_does_not_see_its_neighbours():
    x, y = rows(6)
    changed = x.clone()
    changed[2] = 5.0
    _, before = clipped_sum(net(), cross_entropy, x, y, 1.0)
    _, after = clipped_sum(net(), cross_entropy, changed, y, 1.0)
    keep = [0, 1, 3, 4, 5]
    assert torch.equal(before[keep], after[keep])
    assert before[2] != after[2]


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, inputs):
        out = self.inner(inputs)
        return out - out.mean(0)


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, inputs):
        self.seen += inputs.sum(0).detach()
        return self.inner(inputs)


class Idle(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.idle = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, inputs):
        return self.inner(inputs)


class Opaque(nn.Module):
    """Uses its parameter where neither a rule nor vmap can follow."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, inputs):
        return self.inner(inputs) * self.scale * (2.0 if float(inputs.sum()) > -1e9 else 1.0)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)), "replace_batch_norm"),
        (Mixing(), "not independent"),
        (Remembering(), "buffer 'seen'"),
        (Idle(), "takes no part"),
        (Opaque(), "per-example gradients cannot be computed"),
        (nn.Sequential(nn.LazyLinear(3)), "not initialised"),
    ],
    ids=["batch norm", "mixing", "remembering", "idle", "opaque", "lazy"],
)
def test_p24_p29_what_cannot_be_clipped_is_refused(module, words):
    x, y = rows(6)
    with pytest.raises(Refused, match=words):
        clipped_sum(module, cross_entropy, x, y, 1.0)
    with pytest.raises(Refused, match=words):
        train(recipe(), module=module)


def test_batch_norm_can_be_replaced():
    x, y = rows(6)
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    clipped_sum(replace_batch_norm(module), cross_entropy, x, y, 1.0)
    assert isinstance(module[1], nn.BatchNorm1d)


def test_a_loss_over_the_batch_is_refused():
    x, y = rows(6)
    with pytest.raises(WrongInput, match="one value an example"):
        clipped_sum(net(), nn.functional.cross_entropy, x, y, 1.0)


def test_dropout_uses_one_mask_in_norm_and_sum():
    x, y = rows(1)
    module = nn.Sequential(nn.Linear(4, 50), nn.Dropout(0.5), nn.Linear(50, 3))
    seen = set()
    for seed in range(5):
        torch.manual_seed(seed)
        sums, norms = clipped_sum(module, cross_entropy, x, y, 0.01)
        size = math.sqrt(sum(float(part.square().sum()) for part in sums.values()))
        assert size == pytest.approx(0.01, rel=1e-5)
        dropped = sums["2.weight"].abs().sum(0) == 0
        assert torch.equal(dropped, sums["0.bias"] == 0)
        seen.add(round(float(norms), 6))
    assert len(seen) == 5


def test_dropout_draws_another_mask_for_each_row():
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(64, 1, bias=False))
    x = torch.ones(30, 64)
    _, norms = clipped_sum(module, lambda out, goal: out[:, 0], x, torch.zeros(30), 1.0)
    assert len(norms.unique()) > 5


def test_p26_runs_without_a_seed_differ_and_seeded_ones_repeat():
    x, y = rows()
    free = [recipe().run(net(), x, y, noise=1.0, rows=ROWS, rng=Rng()) for _ in range(2)]
    assert not torch.equal(flat_of(free[0]), flat_of(free[1]))
    assert torch.equal(flat_of(train(recipe())), flat_of(train(recipe())))


def test_p26_torch_generators_are_left_as_they_were():
    module, before = net(), torch.get_rng_state()
    train(recipe(), module=module)
    assert torch.equal(torch.get_rng_state(), before)


def test_adam_frees_the_second_moment_of_the_noise():
    x, _ = rows(20)
    wide = nn.Linear(4, 500)
    descent = recipe(steps=300, sampler=FullBatch(), loss=squared, clip=flat(0.5), update=adam(1e-6, betas=(0.9, 0.99)))
    run = training(descent, [wide], x, torch.zeros(20, 500), noise=[3.0], rows=20, rng=Rng(1))
    train_to_end(run)
    variance = (3.0 * 0.5 / 20) ** 2
    left = 1 - 0.99**300
    assert float(run.state.update["noise"]) / left == pytest.approx(variance, rel=1e-3)
    assert float(run.state.update["square"].mean()) / left == pytest.approx(variance, rel=0.05)


def test_averages():
    x, y = rows()
    ways = []
    for average in (None, tail(1.0), tail(0.4), ema(0.5)):
        descent = recipe(steps=5, sampler=FullBatch(), average=average)
        ways.append(flat_of(train(descent, noise=0.0, data=(x, y))))
    steps = []
    for count in range(1, 6):
        descent = recipe(steps=count, sampler=FullBatch())
        steps.append(flat_of(train(descent, noise=0.0, data=(x, y))))
    torch.testing.assert_close(ways[0], steps[-1])
    torch.testing.assert_close(ways[1], torch.stack(steps).mean(0))
    torch.testing.assert_close(ways[2], torch.stack(steps[-2:]).mean(0))
    mean = steps[0]
    for at in range(1, 5):
        keep = min(0.5, (at + 1) / (at + 10))
        mean = keep * mean + (1 - keep) * steps[at]
    torch.testing.assert_close(ways[3], mean)


def test_copies_are_averaged_before_clipping():
    x, y = rows(4)
    shifts = torch.tensor([0.0, 1.0, -1.0]).repeat(4)[:, None]
    heard = []
    for copies, augment, data in ((3, lambda given, _: given + shifts, (x, y)), (1, None, (x, y))):
        rng = Listening()
        recipe(steps=1, sampler=FullBatch(), copies=copies, augment=augment, clip=flat(0.4)).run(
            net(), *data, noise=1.0, rows=4, rng=rng
        )
        heard.append(rng.calls[0][0])
    module, expected = net(), torch.zeros_like(heard[0])
    for at in range(4):
        views = torch.stack([x[at], x[at] + 1, x[at] - 1])
        loss = cross_entropy(module(views), y[at].expand(3)).mean()
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(module.parameters()))])
        expected += gradient * min(1.0, 0.4 / float(gradient.norm()))
    torch.testing.assert_close(heard[0], expected, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(heard[0], heard[1])


def test_copies_work_for_convolutions_and_recurrent_layers():
    torch.manual_seed(0)
    convolved = nn.Sequential(nn.Conv1d(1, 2, 2), nn.GroupNorm(1, 2), nn.Flatten(), nn.Linear(6, 3))
    x, y = torch.randn(4, 1, 4), torch.randint(3, (4,))
    sums = []
    for copies in (1, 3):
        rng = Listening()
        recipe(steps=1, sampler=FullBatch(), copies=copies).run(convolved, x, y, noise=1.0, rows=4, rng=rng)
        sums.append(rng.calls[0][0])
    torch.testing.assert_close(sums[0], sums[1], rtol=1e-5, atol=1e-6)


def test_lr_schedule_scales_the_step():
    x, y = rows()
    base = recipe(steps=1, sampler=FullBatch())
    slow = recipe(steps=1, sampler=FullBatch(), lr_schedule=warm_up(4))
    moved = [flat_of(train(d, noise=0.0, data=(x, y))) - flat_of(net()) for d in (base, slow)]
    torch.testing.assert_close(moved[0], 4 * moved[1], rtol=1e-4, atol=1e-6)


class Stopped(Exception):
    pass


@pytest.mark.parametrize("clip", [flat(0.5), quantile(norm=0.5, count_noise=5.0)], ids=["flat", "quantile"])
@pytest.mark.parametrize("update", [momentum(0.2), adam(0.01)], ids=["momentum", "adam"])
def test_p33_a_stopped_run_goes_on_bit_for_bit(tmp_path, clip, update):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.3), nn.Linear(6, 3))
    descent = recipe(steps=12, clip=clip, update=update, average=ema(0.9))
    expected = train(descent, module=module)

    def stop(step, steps, left):
        if step == 8:
            raise Stopped

    path = Checkpoint(tmp_path / "run.safetensors", every=3)
    with pytest.raises(Stopped):
        train(descent, module=module, progress=stop, checkpoint=path)
    resumed = train(descent, module=module, seed=99, checkpoint=path)
    assert torch.equal(flat_of(resumed), flat_of(expected))
    with pytest.raises(WrongInput, match="same ones"):
        train(descent, module=module, noise=2.0, checkpoint=path)
    with pytest.raises(WrongInput, match="same ones"):
        train(replace(descent, augment=lambda x, _: -x), module=module, checkpoint=path)


@pytest.mark.slow
def test_p33_a_killed_process_resumes_bit_for_bit(tmp_path):
    code = textwrap.dedent(
        """
        import os, sys, torch
        from torch import nn
        from privaware.descent import Callbacks, Checkpoint, Descent, Poisson, flat, momentum
        from privaware.noise import Rng
        torch.manual_seed(0)
        net, x, y = nn.Linear(4, 3), torch.randn(40, 4), torch.randint(3, (40,))
        descent = Descent(steps=12, sampler=Poisson(rate=0.3), clip=flat(1.0), update=momentum(0.1))
        def kill(step, steps, left):
            if step == int(sys.argv[2]):
                os.kill(os.getpid(), 9)
        callbacks = Callbacks(checkpoint=Checkpoint(sys.argv[1], every=2), progress=kill)
        made = descent.run(net, x, y, noise=1.0, rows=40, rng=Rng(7), callbacks=callbacks)
        print(made.weight.detach().double().sum().item().hex())
        """
    )

    def go(name, at):
        return subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / name), str(at)], capture_output=True, text=True, check=False
        )

    assert go("killed", 7).returncode == -9
    assert go("killed", -1).stdout == go("whole", -1).stdout != ""


def test_progress_counts_and_estimates():
    heard = []
    train(recipe(steps=4), progress=lambda *facts: heard.append(facts))
    assert [fact[:2] for fact in heard] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert heard[-1][2] == 0


def test_several_inputs_and_numpy_rows():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 3), nn.Linear(2, 3)

        def forward(self, first, second):
            return self.a(first) + self.b(second)

    x, y = rows()
    start = Two()
    given = (x.double().numpy(), np.ones((ROWS, 2)))
    trained = train(recipe(), module=start, data=(given, y.numpy()))
    assert not torch.equal(trained.a.weight, start.a.weight)
    assert not torch.equal(trained.b.weight, start.b.weight)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: flat(0.0),
        lambda: Poisson(rate=0.0),
        lambda: recipe(steps=-1),
        lambda: recipe(precision="float8"),
        lambda: train(recipe(), declared=0),
        lambda: train(recipe(clip=flat(math.inf)), noise=1.0),
        lambda: train(recipe(), data=(rows()[0], rows()[1][:3])),
        lambda: train(recipe(clip=per_layer(1.0, shares=(1.0,)))),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(wrong):
    with pytest.raises(WrongInput, match="expected"):
        wrong()


@pytest.mark.parametrize("gamma", [0.0, -1.0, 1e-12, float("nan")])
def test_a_gamma_that_rounding_could_pass_by_is_refused(gamma):
    with pytest.raises(WrongInput, match="gamma"):
        automatic(1.0, gamma=gamma)


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_a_rule_that_is_wrong_in_the_precision_of_the_run_is_not_used(monkeypatch, precision):
    """Kernels for shortened mantissas are tried too: with norms that are too small no row would be clipped enough."""
    exact = ConvolutionGradient.squared_norms

    def halved(self):
        return exact(self) / (4 if tf32_allowed() else 1)

    monkeypatch.setattr(ConvolutionGradient, "squared_norms", halved)
    module = nn.Sequential(nn.Conv2d(1, 2, 6), nn.Flatten())
    x, y = torch.rand(5, 1, 6, 6), torch.zeros(5, dtype=torch.long)
    with matmul_precision(precision):
        run = training(recipe(), [module], x, y, noise=[1.0], rows=5, rng=Rng(0))
    general = [name for name, how in run.stack.layers.items() if "materialised" in how]
    assert bool(general) == (precision == "tf32")
