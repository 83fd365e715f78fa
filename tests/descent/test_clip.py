"""Clipping bounds the sensitivity, whatever the mode."""

from __future__ import annotations

import math

import pytest
import torch

from privaware.descent import FullBatch, automatic, clipped_sum, cross_entropy, flat, per_layer, quantile, sgd
from privaware.descent._clip import check_clip
from privaware.descent._loop import train_to_end
from privaware.descent._rounding import ROUNDING
from privaware.errors import WrongInput
from privaware.noise import Rng
from tests.descent.small_training import RecordingRng, examples, net, recipe, training


@pytest.mark.parametrize("clip", [flat(0.3), per_layer(0.3), automatic(0.3), quantile(norm=0.3, count_noise=4.0)])
def test_p11_no_example_exceeds_the_sensitivity(clip):
    for seed in range(12):
        x, y = examples(1, seed=seed)
        size = 10.0 ** (seed - 6)
        for many in ((x * size, y), (x[:0], y[:0])):
            rng = RecordingRng()
            recipe(sampler=FullBatch(), clip=clip, steps=1).run(net(), *many, noise=1.0, rows=10, rng=rng)
            exact, noise, bound = rng.calls[0]
            assert float(exact.double().norm()) <= float(torch.as_tensor(bound).max())
            assert float(torch.as_tensor(noise).max()) == 1.0
    assert clip.sensitivity() == 0.3
    assert clip.sensitivity("replace_one") == 0.6


@pytest.mark.parametrize("kind", [flat, per_layer, automatic, quantile])
def test_own_clip_that_bounds_gradients_is_accepted(kind):
    class Own(kind):
        pass

    more = {"shares": (1.0, 3.0)} if kind is per_layer else {"count_noise": 4.0} if kind is quantile else {}
    check_clip(Own(norm=0.3, **more))


def test_per_layer_splits_the_norm_over_layers():
    x, y = examples(1)
    rng = RecordingRng()
    recipe(sampler=FullBatch(), clip=per_layer(0.001), steps=1).run(net(), x, y, noise=1.0, rows=1, rng=rng)
    exact = rng.calls[0][0][0]
    parts = [float(exact[:30].norm()), float(exact[30:].norm())]
    assert parts == pytest.approx([0.001 / math.sqrt(2)] * 2, rel=1e-4)


def test_automatic_scales_small_gradients_up():
    x, y = examples(1)
    module = net()
    _, size = clipped_sum(module, cross_entropy, x, y, 1.0)
    rng = RecordingRng()
    recipe(sampler=FullBatch(), clip=automatic(5.0, gamma=0.01), steps=1).run(module, x, y, noise=1.0, rows=1, rng=rng)
    expected = 5.0 * float(size) / (float(size) + 0.01)
    assert float(rng.calls[0][0].norm()) == pytest.approx(expected, rel=1e-4)


def test_p8_quantile_count_has_sensitivity_half_in_one_release():
    clip = quantile(norm=0.3, count_noise=4.0)
    x, y = examples(9)
    releases = []
    for count in (8, 9):
        rng = RecordingRng()
        recipe(sampler=FullBatch(), clip=clip, steps=1).run(net(), x[:count], y[:count], noise=2.0, rows=9, rng=rng)
        releases.append(rng.calls)
        assert len(rng.calls) == 1
    (one, noise, bound), (two, *_) = releases[0][0], releases[1][0]
    inner = clip.gradient_noise(2.0)
    assert inner == pytest.approx(1 / math.sqrt(2.0**-2 - (2 * 4.0) ** -2))
    deviation = inner * 0.3 * (1 + ROUNDING)
    scale = deviation / 4.0
    assert abs(float(two[0, -1] - one[0, -1])) == pytest.approx(0.5 * scale, rel=1e-5)
    assert float((two - one).norm()) <= float(bound) * (1 + 1e-6)
    assert float(noise * bound) == pytest.approx(deviation, rel=1e-6)


@pytest.mark.parametrize(("noise", "expected"), [(1, 1.000764), (2, 2.006132), (10, 10.863072)])
def test_quantile_split_golden(noise, expected):
    assert quantile(norm=1.0, count_noise=12.8).gradient_noise(noise) == pytest.approx(expected, abs=1e-6)


def test_quantile_tracks_the_median_gradient_norm():
    x, y = examples(400)
    descent = recipe(
        sampler=FullBatch(), clip=quantile(norm=50.0, count_noise=2.0, target=0.5, lr=0.3), update=sgd(1e-9), steps=150
    )
    run = training(descent, [net()], x, y, noise=[0.1], rows=400, rng=Rng(1))
    train_to_end(run)
    _, sizes = clipped_sum(net(), cross_entropy, x, y, 1.0)
    assert float(run.state.norms) == pytest.approx(float(sizes.median()), rel=0.05)


@pytest.mark.parametrize("microbatch", [1, 7])
def test_quantile_counts_the_examples_of_all_microbatches(microbatch):
    """The public code forgets those of all but the last one: noise is that of the batch, the count is not."""
    clip = quantile(norm=0.3, count_noise=4.0)
    x, y = examples(20)
    counts = []
    for size in (microbatch, None):
        rng = RecordingRng()
        recipe(sampler=FullBatch(), clip=clip, steps=1, microbatch=size).run(net(), x, y, noise=2.0, rows=20, rng=rng)
        counts.append(float(rng.calls[0][0][0, -1]))
    assert counts[0] == pytest.approx(counts[1], rel=1e-6)
    assert counts[1] != 0


@pytest.mark.parametrize("gamma", [0.0, -1.0, 1e-12, float("nan")])
def test_automatic_refuses_gamma_below_rounding(gamma):
    with pytest.raises(WrongInput, match="gamma"):
        automatic(1.0, gamma=gamma)


@pytest.mark.parametrize("make", [flat, per_layer, lambda norm: quantile(norm=0.3, count_noise=4.0, low=norm)])
def test_norm_below_gradients_that_underflow_is_refused(make):
    """In float32 the square of a gradient of 1e-23 is 0, so a norm of 1e-25 would not clip it."""
    make(1e-9)
    for norm in (1e-10, 1e-25, 0.0, math.nan):
        with pytest.raises(WrongInput, match="1e-09"):
            make(norm)
