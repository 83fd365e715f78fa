"""The controller of DPNAS: what it proposes, and that rewards move it the right way."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from privaware.strategies._dpnas.controller import Controller, Reinforce


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(11)


def test_five_nodes_have_fifteen_edges_with_log_probabilities() -> None:
    proposed = Controller()(4)
    assert proposed.cells.shape == proposed.log_probabilities.shape == (4, 15)
    assert set(proposed.cells.flatten().tolist()) <= set(range(10))
    assert bool((proposed.log_probabilities < 0).all())


def test_uniform_controller_has_maximal_entropy() -> None:
    controller = Controller()
    torch.nn.init.zeros_(controller.head.weight)
    assert float(controller(1).entropies.sum().detach()) == pytest.approx(15 * math.log(10), abs=1e-4)
    assert 15 * math.log(10) == pytest.approx(34.54, abs=0.01)


def test_cell_probabilities_sum_to_one_and_match_samples() -> None:
    controller = Controller(nodes=2, operations=2, hidden=8)
    with torch.no_grad():
        controller.head.weight.mul_(20)
    every = torch.tensor(list(itertools.product(range(2), repeat=3)))
    with torch.no_grad():
        probabilities = controller(8, cells=every).log_probabilities.sum(1).exp()
        cells = controller(20_000, torch.Generator().manual_seed(1)).cells
    assert float(probabilities.sum()) == pytest.approx(1.0, abs=1e-5)
    frequencies = torch.bincount(cells @ torch.tensor([4, 2, 1]), minlength=8) / 20_000
    torch.testing.assert_close(frequencies, probabilities, atol=0.015, rtol=0)


def test_clamp_bounds_the_log_probabilities() -> None:
    controller = Controller(clamp=1.1)
    with torch.no_grad():
        controller.head.weight.mul_(1e4)
        logs = controller(50).log_probabilities
    surest = 1.1 - math.log(math.exp(1.1) + 9 * math.exp(-1.1))
    assert float(logs.max()) <= surest + 1e-4


def test_reinforce_gradient_is_unbiased_for_any_baseline() -> None:
    """On a bandit with four arms each arm's loss, weighted by its probability, makes the expectation exact."""
    arms = torch.arange(4)[:, None]
    rewards = torch.tensor([0.1, 0.9, 0.4, 0.2])
    controller = Controller(nodes=1, operations=4, hidden=6)
    parameters = list(controller.parameters())
    probabilities = controller(4, cells=arms).log_probabilities[:, 0].exp()
    exact = torch.autograd.grad((probabilities * rewards).sum(), parameters, materialize_grads=True)
    for baseline in (0.0, 0.7):
        learner = Reinforce(controller, entropy=0.0)
        learner.baseline = baseline
        total = [torch.zeros_like(p) for p in parameters]
        for arm, reward, chance in zip(arms, rewards, probabilities.detach(), strict=True):
            loss = learner.loss(controller(1, cells=arm[None]), reward[None])
            gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
            for sum_, g in zip(total, gradients, strict=True):
                sum_ -= chance * g
        for sum_, g in zip(total, exact, strict=True):
            torch.testing.assert_close(sum_, g, atol=1e-6, rtol=1e-4)


def test_reinforce_finds_the_best_operation_of_every_edge() -> None:
    target = torch.tensor([3, 0, 2])
    controller = Controller(nodes=2, operations=4, hidden=16)
    learner = Reinforce(controller, lr=0.02, entropy=0.01, decay=0.9)
    generator = torch.Generator().manual_seed(2)
    for _ in range(150):
        proposed = controller(8, generator)
        learner.step(proposed, (proposed.cells == target).float().mean(1))
    best = controller(1, cells=target[None]).log_probabilities.sum().exp()
    assert float(best.detach()) > 0.8
    assert learner.baseline == pytest.approx(1.0, abs=0.1)


def test_large_entropy_bonus_keeps_the_policy_uniform() -> None:
    controller = Controller(nodes=1, operations=4, hidden=8)
    learner = Reinforce(controller, lr=0.02, entropy=5.0)
    for _ in range(60):
        proposed = controller(8)
        learner.step(proposed, (proposed.cells[:, 0] == 1).float())
    assert float(controller(1).entropies.sum().detach()) > 0.95 * math.log(4)
