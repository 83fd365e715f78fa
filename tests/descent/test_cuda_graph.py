"""Captured steps: samples of fixed shape, on the device and from the host."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from privaware.descent import FullBatch, Poisson, _cuda_graph
from privaware.descent._cuda_graph import CapturedStep, _Slots, capacity, gaps_to_indices
from privaware.errors import Refused
from privaware.noise import Rng
from tests.descent.bernoulli import assert_bernoulli
from tests.descent.small_training import examples, net, recipe, training


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
        sampled_from=count,
        subsets=None,
        models=models,
        rng=Rng(seed=4),
        state=SimpleNamespace(step=0),
        refresh=lambda: None,
        recipe=SimpleNamespace(sampler=Poisson(rate=rate)),
    )
    graphs, log = CapturedStep.__new__(CapturedStep), []
    graphs.training, graphs.shape = training, LoggingShape(width, log)
    graphs.graphs = [LoggingShape(name, log) for name in ("add", "finish", "shuffle")[: 2 + (models > 1)]]
    for step in range(20):
        expected, within = Rng.restore(training.rng.state()).poisson_indices(count, rate, models)
        log.clear()
        graphs.one_step()
        assert training.state.step == step + 1
        batches = [entry for entry in log if isinstance(entry, tuple)]
        on_device = models > 1 and len(batches) == 1
        replays = [entry for entry in log if isinstance(entry, str)]
        assert replays == [*["shuffle", "add"][not on_device :] * len(batches), "finish"]
        index, valid = (np.concatenate(parts, 1) for parts in zip(*(batch[:2] for batch in batches), strict=True))
        assert (valid == within).all()
        for at in range(models):
            sent = index[at][valid[at]]
            assert sorted(sent) == expected[at][within[at]].tolist()
            assert (np.diff(sent) < 0).any() != on_device


def test_slots_take_every_order_equally_with_padding_last():
    graphs, counts = CapturedStep.__new__(CapturedStep), torch.zeros(2, 4, 4)
    graphs.training = SimpleNamespace(rng=Rng(seed=1))
    slots = _Slots((2, 5), torch.device("cpu"))
    graphs.shape = SimpleNamespace(slots=slots)
    for _ in range(600):
        slots.index.copy_(torch.tensor([[1, 2, 3, 4, 0], [1, 2, 3, 4, 0]]))
        slots.valid.copy_(torch.tensor([[1.0, 1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0, 0.0]]))
        graphs._shuffle_slots()
        assert slots.valid.tolist() == [[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]
        assert sorted(slots.index[1, :2].tolist()) == [1, 2]
        counts += torch.nn.functional.one_hot(slots.index[:, :4] - 1, 4)
    assert (counts[0] / 600 - 0.25).abs().max() < 0.09
    assert (counts[1, :2, :2] / 600 - 0.5).abs().max() < 0.1


@pytest.fixture
def without_graphs(monkeypatch):
    """Bodies of captured steps are run as they are, so that they can be seen without a GPU."""

    def keep(self, bodies):
        self.bodies = bodies
        self.training.exact_sum.start()

    monkeypatch.setattr(CapturedStep, "_capture", keep)


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("microbatch", [None, 7])
def test_the_body_of_a_full_batch_is_the_eager_step(models, microbatch):
    descent = recipe(sampler=FullBatch(), microbatch=microbatch)
    eager, captured = (
        training(
            descent, [net(seed=at) for at in range(models)], *examples(), noise=[1.0] * models, rows=40, rng=Rng(2)
        )
        for _ in range(2)
    )
    step = CapturedStep(captured)
    for _ in range(3):
        eager.one_step()
        for body in step.bodies:
            body()
    torch.testing.assert_close(captured.state.theta, eager.state.theta, rtol=1e-5, atol=1e-6)


class Sent:
    """Memory of the host that is copied at once."""

    def __init__(self, shape):
        pass

    def send(self, index, valid, to):
        for memory, values in ((to.index, index), (to.valid, valid)):
            memory.zero_()[:, : values.shape[1]] = torch.from_numpy(values)


@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("microbatch", [None, 7])
def test_steps_on_host_samples_are_eager_steps(models, microbatch, monkeypatch):
    monkeypatch.setattr(_cuda_graph, "_Pinned", Sent)
    monkeypatch.setattr(
        CapturedStep,
        "_capture",
        lambda self, bodies: self.graphs.extend(SimpleNamespace(replay=body) for body in bodies),
    )
    descent = recipe(sampler=Poisson(rate=1.0), microbatch=microbatch)
    eager, captured = (
        training(
            descent, [net(seed=at) for at in range(models)], *examples(), noise=[0.0] * models, rows=40, rng=Rng(2)
        )
        for _ in range(2)
    )
    step = CapturedStep(captured)
    assert len(step.graphs) == 2 + (models > 1)
    captured.exact_sum.start()
    for _ in range(3):
        eager.one_step()
        step.one_step()
    torch.testing.assert_close(captured.state.theta, eager.state.theta, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("without_graphs")
def test_device_samples_are_poisson_samples_in_random_slots():
    descent = recipe(steps=400, overflow=1e-6, microbatch=7)
    run = training(descent, [net(), net()], *examples(), noise=[1.0, 1.0], rows=40, rng=Rng(2))
    step = CapturedStep(run)
    counts, slots = torch.zeros(2, 40), torch.zeros(2, step.pieces * run.layout.width)
    for _ in range(80):
        selections = step._drawn()
        parts = [[values.view(2, -1) for values in (part.index, part.valid)] for part in selections]
        index, valid = (torch.cat(values, 1) for values in zip(*parts, strict=True))
        assert index.shape == slots.shape
        for at in range(2):
            drawn = index[at][valid[at] != 0]
            assert len(drawn.unique()) == len(drawn)
            counts[at] += torch.bincount(drawn, minlength=40)
        slots += valid
    assert abs(float(counts.mean()) / 80 - 0.3) < 0.03
    assert float((slots.mean(1) / 80 * slots.shape[1]).mean()) == pytest.approx(12, rel=0.1)
    assert float(slots.std() / slots.mean()) < 0.4, "every slot is as likely as any other"
    for body in step.bodies:
        body()
    assert torch.isfinite(run.state.theta).all()


@pytest.mark.usefixtures("without_graphs")
def test_shape_of_drawn_samples_follows_from_declared_rows():
    descent = recipe(sampler=Poisson(rate=0.5), overflow=1e-6)

    def slots(rows):
        step = CapturedStep(training(descent, [net()], *examples(rows), noise=[1.0], rows=400, rng=Rng(2)))
        return step.pieces, step.training.layout

    assert len({slots(rows) for rows in (1, 399, 400, 401, 465)}) == 1
    with pytest.raises(Refused, match="at most 465 examples for 400 declared rows"):
        slots(466)
