"""Captured steps: samples of fixed shape, on the device and from the host."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from privaware.descent import Poisson
from privaware.descent._cuda_graph import CapturedStep, capacity, gaps_to_indices
from privaware.noise import Rng
from tests.descent.bernoulli import assert_bernoulli


def test_p2_geometric_gaps_give_a_poisson_sample():
    generator = torch.Generator().manual_seed(1)
    draws = torch.rand(4000, 32, generator=generator, dtype=torch.float64)
    index, inside = gaps_to_indices(draws, 0.2, 30)
    samples = torch.zeros(4000, 31).scatter_(1, torch.where(inside, index, 30), 1.0)[:, :30]
    assert torch.equal(inside.sum(1), samples.sum(1).long())
    assert_bernoulli(samples.numpy(), 0.2)


def test_overflow_chance_is_below_the_promised_one():
    from scipy.stats import binom

    for count, rate, chance in ((60_000, 256 / 60_000, 1e-12), (500, 0.3, 1e-6), (40, 0.9, 1e-3)):
        cap = capacity(count, rate, chance)
        assert cap == count or binom.sf(cap, count, rate) <= chance


class LoggingShape:
    """What a shape on a device would be sent, and when its graph would be replayed."""

    def __init__(self, width, log):
        self.width, self.log = width, log

    def send(self, index, inside):
        self.log.append((index.copy(), inside.copy(), self.width))

    def replay(self):
        self.log.append(self.width)


@pytest.mark.parametrize("width", [500, 96, 7])
@pytest.mark.parametrize("models", [1, 3, 40])
def test_host_samples_are_sent_once_in_random_order(models, width):
    count, rate = 1_000, 0.3
    training = SimpleNamespace(
        examples=count,
        models=models,
        rng=Rng(seed=4),
        state=SimpleNamespace(step=0),
        recipe=SimpleNamespace(sampler=Poisson(rate=rate)),
    )
    graphs, log = CapturedStep.__new__(CapturedStep), []
    graphs.training, graphs.shape = training, LoggingShape(width, log)
    graphs.graphs = [graphs.shape, LoggingShape("finish", log)]
    for step in range(20):
        expected, within = Rng.restore(training.rng.state()).poisson_indices(count, rate, models)
        log.clear()
        graphs.one_step()
        assert log.pop() == "finish"
        assert training.state.step == step + 1
        batches, replays = log[::2], log[1::2]
        assert replays == [width] * len(batches)
        index, valid = (np.concatenate(parts, 1) for parts in zip(*(batch[:2] for batch in batches), strict=True))
        assert (valid == within).all()
        for at in range(models):
            sent = index[at][valid[at]]
            assert sorted(sent) == expected[at][within[at]].tolist()
            assert (np.diff(sent) < 0).any()
