"""The networks of attacks: the papers' sizes, the exact last-layer gradient, and training that learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from privaware.attacks._attack_network import GradientNetwork, PosteriorNetwork
from privaware.attacks.black_box import posteriors_and_correctness
from privaware.attacks.white_box import parts_of
from tests.attacks.games import digits_game


def test_networks_have_the_parameters_of_the_paper() -> None:
    def count(network: torch.nn.Module) -> int:
        return sum(p.numel() for p in network.parameters())

    assert count(PosteriorNetwork(10)) == 92_482
    assert [count(GradientNetwork(10, width)) for width in (300, 64, 320, 4096)] == [159_043, 156_683, 159_243, 197_003]


def test_gradient_branch_reads_the_exact_gradient_of_the_last_layer() -> None:
    game = digits_game().game
    rows = game.rows.take(np.arange(5))
    posteriors, loss, label, hidden = (torch.from_numpy(part).float() for part in parts_of(game.model, rows, "cpu"))
    attacker = GradientNetwork(10, hidden.shape[1])
    read = attacker.over_gradients(posteriors - label, hidden)
    network = game.model.network()
    inputs = torch.from_numpy(game.model.features[0](rows.x, rows.schema))
    for at in range(5):
        network.zero_grad()
        value = torch.nn.functional.cross_entropy(network(inputs[at : at + 1]), torch.tensor(rows.y[at : at + 1]))
        value.backward()
        expected = attacker.kernels(network.output.weight.grad[None, None])[0, :, :, 0]
        assert torch.allclose(read[at], expected, atol=1e-5)
        assert float(loss[at]) == pytest.approx(value.item(), abs=1e-5)


def test_posteriors_are_probabilities_in_falling_order() -> None:
    game = digits_game().game
    posteriors, correct = posteriors_and_correctness(game.model, game.rows, "cpu")
    assert posteriors.sum(axis=1) == pytest.approx(np.ones(len(game.rows)))
    assert (np.diff(posteriors, axis=1) <= 0).all()
    assert correct.mean() == pytest.approx((game.model.predictions(game.rows) == game.rows.y).mean())
