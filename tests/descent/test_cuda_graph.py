"""Captured steps: samples of fixed shape, on the device and from the host."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from privaware.descent import Poisson, _cuda_graph
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


@pytest.mark.parametrize("microbatch", [10_000, 100, 7])
@pytest.mark.parametrize("models", [1, 3, 400])
@pytest.mark.parametrize("chances", [_cuda_graph.FIT_CHANCES, (0.01, 0.3)])
def test_host_samples_are_sent_once_in_the_narrowest_shape(models, microbatch, chances, monkeypatch):
    monkeypatch.setattr(_cuda_graph, "FIT_CHANCES", chances)
    count, rate = 1_000, 0.3
    training = SimpleNamespace(
        examples=count,
        models=models,
        microbatch=microbatch,
        rng=Rng(seed=4),
        state=SimpleNamespace(step=0),
        recipe=SimpleNamespace(sampler=Poisson(rate=rate)),
    )
    graphs, log = CapturedStep.__new__(CapturedStep), []
    graphs.training = training
    widths = graphs._widths()
    assert widths == sorted(widths)
    assert widths[-1] <= microbatch
    graphs.shapes = [LoggingShape(width, log) for width in widths]
    graphs.graphs = [*graphs.shapes, LoggingShape("finish", log)]
    twice = []
    for step in range(60):
        expected, within = Rng.restore(training.rng.state()).poisson_indices(count, rate, models)
        log.clear()
        graphs.one_step()
        assert log.pop() == "finish"
        assert training.state.step == step + 1
        batches, replays = log[::2], log[1::2]
        assert [width for _, _, width in batches] == replays
        sent = [np.concatenate(parts, 1) for parts in zip(*(batch[:2] for batch in batches))]
        assert (sent[0] == expected).all()
        assert (sent[1] == within).all()
        assert all(len(index[0]) <= width for index, _, width in batches)
        last = batches[-1][0].shape[1]
        assert replays[-1] == next(width for width in widths if width >= last)
        twice.append(len(batches) > 1)
    if microbatch > count and chances == (0.8, 0.999):
        assert len(widths) == 2
        assert sum(twice) <= 1, "the wider shape holds nearly all samples"
