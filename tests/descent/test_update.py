"""Updates and averages are those of plain descent, and DP-Adam's correction."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from privaware.descent import FullBatch, adam, cross_entropy, ema, flat, momentum, sgd, squared, tail, two_rates
from privaware.descent._loop import train_to_end
from privaware.descent._rounding import ROUNDING
from privaware.noise import Rng
from tests.descent.small_training import examples, flat_of, net, recipe, train, training

LAST = sum(parameter.numel() for parameter in list(net().parameters())[-2:])


def _two_groups(parameters):
    return [{"params": parameters[:-2]}, {"params": parameters[-2:], "lr": 0.03}]


@pytest.mark.parametrize(
    ("update", "plain"),
    [
        (sgd(0.3), lambda p: torch.optim.SGD(p, lr=0.3)),
        (sgd(0.3, decay=0.01), lambda p: torch.optim.SGD(p, lr=0.3, weight_decay=0.01)),
        (momentum(0.3), lambda p: torch.optim.SGD(p, lr=0.3, momentum=0.9)),
        (adam(0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
        (two_rates(0.3, 0.1, LAST), lambda p: torch.optim.SGD(_two_groups(list(p)), lr=0.3)),
    ],
    ids=["sgd", "decay", "momentum", "adam", "two_rates"],
)
def test_zero_noise_and_infinite_norm_is_plain_descent(update, plain):
    x, y = examples(kind=torch.float64)
    descent = recipe(sampler=FullBatch(), clip=flat(math.inf), update=update, steps=20)
    trained = train(descent, noise=0.0, module=net(torch.float64), data=(x, y))
    expected = net(torch.float64)
    optimiser = plain(expected.parameters())
    for _ in range(20):
        optimiser.zero_grad()
        cross_entropy(expected(x), y).mean().backward()
        optimiser.step()
    torch.testing.assert_close(flat_of(trained), flat_of(expected), rtol=1e-11, atol=1e-13)


def test_adam_estimates_the_noise_variance():
    x, _ = examples(20)
    wide = nn.Linear(4, 500)
    descent = recipe(steps=300, sampler=FullBatch(), loss=squared, clip=flat(0.5), update=adam(1e-6, betas=(0.9, 0.99)))
    run = training(descent, [wide], x, torch.zeros(20, 500), noise=[3.0], rows=20, rng=Rng(1))
    train_to_end(run)
    variance = (3.0 * 0.5 * (1 + ROUNDING) / 20) ** 2
    left = 1 - 0.99**300
    assert float(run.state.update["noise"]) / left == pytest.approx(variance, rel=1e-3)
    assert float(run.state.update["square"].mean()) / left == pytest.approx(variance, rel=0.05)


def test_tail_and_ema_average_the_parameters():
    x, y = examples()
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
