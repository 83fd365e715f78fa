"""The networks of attacks: the papers' sizes, the exact last-layer gradient, and training that learns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from privaware.attacks._attack_network import GradientNetwork, PosteriorNetwork, Reuse
from privaware.attacks.black_box import black_box, odds_of_classes_and_label, posteriors_and_correctness
from privaware.attacks.white_box import parts_of
from privaware.errors import WrongInput
from privaware.noise import Rng
from tests.attacks.games import digits_game


def test_networks_have_the_parameters_of_the_paper() -> None:
    def count(network: torch.nn.Module) -> int:
        return sum(p.numel() for p in network.parameters())

    assert count(PosteriorNetwork(10)) == 92_482
    assert [count(GradientNetwork(10, width)) for width in (300, 64, 320, 4096)] == [159_043, 156_683, 159_243, 197_003]


def test_gradient_branch_reads_exact_last_layer_gradient() -> None:
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


def test_odds_match_posteriors_and_tell_confident_rows_apart() -> None:
    game = digits_game().game
    odds, own = odds_of_classes_and_label(game.model, game.rows, "cpu")
    assert (np.diff(odds, axis=1) <= 0).all()
    posteriors, correct = posteriors_and_correctness(game.model, game.rows, "cpu")
    assert 1 / (1 + np.exp(-10 * odds)) == pytest.approx(posteriors, abs=1e-9)
    assert ((own[:, 0] == odds[:, 0]) == (correct[:, 0] == 1)).all()
    louder = replace(game.model, tensors={name: 8 * value for name, value in game.model.tensors.items()})
    sure, _ = odds_of_classes_and_label(louder, game.rows, "cpu")
    certain, _ = posteriors_and_correctness(louder, game.rows, "cpu")
    ones = certain[:, 0] == 1.0
    assert ones.sum() > 10
    assert len(np.unique(sure[ones, 0])) > 0.9 * ones.sum()


def test_network_of_another_reading_is_not_used_again() -> None:
    game, reuse = digits_game(online=False, count=2).game, Reuse()
    first = black_box(game, Rng(seed=0), epochs=1, reuse=reuse)
    assert np.array_equal(black_box(game, Rng(seed=5), epochs=1, reuse=reuse), first)
    other = black_box(game, Rng(seed=5), epochs=1, reads="odds", reuse=reuse)
    assert np.array_equal(other, black_box(game, Rng(seed=5), epochs=1, reads="odds"))
    with pytest.raises(WrongInput, match="expected reads among posteriors, odds"):
        black_box(game, Rng(seed=0), reads="logits")


@pytest.mark.parametrize("ask", [posteriors_and_correctness, parts_of])
def test_models_answer_without_dropout(ask: Any) -> None:
    """The public code asks its target in training mode, where dropout blurs every answer."""
    game = digits_game().game
    loose = replace(game.model, architecture={**game.model.architecture, "dropout": 0.5})
    for answer, expected in zip(ask(loose, game.rows, "cpu"), ask(game.model, game.rows, "cpu"), strict=True):
        assert np.array_equal(answer, expected)
