"""Losses with one value for each example."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from privaware.descent import clipped_sum, focal, losing_less, squared
from tests.descent.one_at_a_time import assert_agrees, slow_sum

ROWS = 5


def labels(rows=ROWS):
    return torch.randint(3, (rows,))


@pytest.mark.parametrize("loss", [squared, focal(2.0)], ids=["squared", "focal"])
def test_sums_of_other_losses_agree_with_autograd(loss):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    goals = torch.randn(ROWS, 3) if loss is squared else labels()
    assert_agrees(net, torch.randn(ROWS, 4), goals, loss)


def test_losing_less_moves_from_squared_error_to_focal_loss():
    torch.manual_seed(1)
    outputs, goals, hidden = torch.randn(6, 3), labels(6), [torch.randn(6, 4), torch.randn(6, 2, 2)]
    loss = losing_less(epochs=10_000, gamma=5.0, beta=2.0)
    penalty = sum(h.flatten(1).square().mean(1) / 2 for h in hidden)
    near = F.one_hot(goals, 3).float()
    early = (outputs - near).square().sum(1) / 2 + penalty / 2
    torch.testing.assert_close(loss.at(0.0)(outputs, goals, hidden), early)
    torch.testing.assert_close(loss.at(1.0)(outputs, goals, hidden), focal(5.0)(outputs, goals))
    half = losing_less(epochs=10, gamma=0.0, beta=2.0).at(0.5)(outputs, goals, hidden)
    torch.testing.assert_close(half, (early + F.cross_entropy(outputs, goals, reduction="none")) / 2)


def test_losing_less_penalises_preactivations():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    inputs, goals = torch.randn(ROWS, 4), labels()
    loss = losing_less(epochs=10, beta=0.1).at(0.2)

    def by_hand(outputs, targets):
        return loss(outputs, targets, [hidden[-1]])

    hidden = []
    net[1].register_forward_pre_hook(lambda _, inputs: hidden.append(inputs[0]))
    expected, _ = slow_sum(net, by_hand, inputs, goals, 1.0)
    sums, _ = clipped_sum(net, loss, inputs, goals, 1.0)
    torch.testing.assert_close(sums, expected, rtol=1e-5, atol=1e-6)
