"""Training without noise: what is learnt, and that a network of a population depends on its own rows alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from privaware import models
from privaware.learners._networks import plain_descent
from privaware.learners._networks.augmentation import jittered, shifted
from privaware.learners._networks.plain_descent import PlainDescent, _Mixture, shuffled_batches
from privaware.noise import Rng

SMALL = {"name": "fcn", "inputs": 2, "hidden": [8], "outputs": 2, "activation": "tanh", "dropout": 0.0}
DESCENT = PlainDescent(steps=60, batch=32)


def points(rows: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).uniform(-1, 1, (rows, 2)).astype(np.float32)
    return x, (x[:, 0] > x[:, 1]).astype(np.int64)


def networks(count: int, described: Any = SMALL) -> list[Any]:
    return [models.build(described, np.random.default_rng(seed)) for seed in range(count)]


def weights(module: Any) -> np.ndarray:
    return np.concatenate([values.detach().numpy().ravel() for values in module.parameters()])


def fixed_batches(rows: int, count: int) -> list[Iterator[np.ndarray]]:
    return [shuffled_batches(np.arange(rows), 32, np.random.default_rng(seed)) for seed in range(count)]


def test_hard_targets_are_learnt() -> None:
    x, y = points()
    module = DESCENT.run(networks(1)[0], x, y, Rng(seed=0))
    assert (module(torch.from_numpy(x)).argmax(1).numpy() == y).mean() > 0.95


@pytest.mark.parametrize("as_table", [True, False])
def test_soft_targets_are_learnt_also_from_a_function(as_table: bool) -> None:
    """All rows have the target 0.8 to 0.2; a function is given positions and predictions."""
    x, _ = points()
    table = np.full((len(x), 2), [0.8, 0.2], np.float32)

    def targets(at: Any, predicted: Any) -> Any:
        assert predicted.shape == (1, 32, 2)
        assert torch.allclose(predicted.sum(-1), torch.ones(1))
        return torch.from_numpy(table)[at]

    module = DESCENT.run(networks(1)[0], x, table if as_table else targets, Rng(seed=0))
    assert module(torch.from_numpy(x)).softmax(1)[:, 0].detach().numpy() == pytest.approx(0.8, abs=0.05)


def test_target_sees_plain_rows_and_network_augmented_ones() -> None:
    images = np.zeros((40, 1, 8, 8), np.float32)
    images[:, :, 4, 4] = 1.0
    views: list[Any] = []

    class Seen(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(2, 64))

        def forward(self, rows: Any) -> Any:
            views.append(rows.detach())
            return rows.flatten(1) @ self.weight.T

    descent = PlainDescent(steps=1, batch=32, augment=shifted)
    descent.run(Seen(), images, lambda at, predicted: predicted, Rng(seed=0))
    augmented, plain = views
    assert torch.equal(plain, torch.from_numpy(images[:32]))
    assert not torch.equal(augmented, plain)


@pytest.mark.parametrize("described", [SMALL, {"name": "simple_cnn", "filters": [4], "hidden": [6]}])
def test_population_equals_its_networks_trained_one_by_one(described: Any) -> None:
    x, y = points()
    if described is not SMALL:
        x = np.random.default_rng(1).normal(size=(200, 1, 8, 8)).astype(np.float32)
        described = {**described, "inputs": [1, 8, 8], "outputs": 2}
    labels = np.stack([y, 1 - y, y])
    descent = PlainDescent(steps=20, batch=32, decay=1e-3)
    together = descent.run_population(networks(3, described), x, labels, Rng(seed=0), batches=fixed_batches(200, 3))
    for number, module in enumerate(networks(3, described)):
        batches = fixed_batches(200, 3)[number]
        alone = descent.run_population([module], x, labels[number], Rng(seed=0), batches=[batches])[0]
        assert weights(together[number]) == pytest.approx(weights(alone), abs=2e-4)
        assert not np.allclose(weights(alone), weights(module), atol=1e-2)


def in_parts(x: np.ndarray, y: np.ndarray, parts: list[np.ndarray], mixup: float = 0.0) -> list[np.ndarray]:
    descent = PlainDescent(steps=10, batch=16, mixup=mixup, decay=0.1)
    trained = descent.run_population(networks(len(parts)), x, y, Rng(seed=0), parts=parts)
    return [weights(module) for module in trained]


@pytest.mark.parametrize("mixup", [0.0, 4.0])
@pytest.mark.parametrize("rows", [0, 1, 15, 60])
def test_network_depends_on_its_own_rows_alone_to_the_last_bit(rows: int, mixup: float) -> None:
    """One more row at the front of another network's part moves all positions; a part may be empty."""
    x, y = points(61)
    part = np.random.default_rng(1).integers(3, size=61)
    before = in_parts(
        x[1 : rows + 1], y[1 : rows + 1], [np.flatnonzero(part[1 : rows + 1] == at) for at in range(3)], mixup
    )
    after = in_parts(x[: rows + 1], y[: rows + 1], [np.flatnonzero(part[: rows + 1] == at) for at in range(3)], mixup)
    changed = [at for at in range(3) if not np.array_equal(before[at], after[at])]
    assert changed == [part[0]]


def test_batches_pass_all_rows_once_an_epoch_in_new_order() -> None:
    """Public code of label-private training never shuffles its batches again."""
    batches = shuffled_batches(np.arange(100, 112), 8, np.random.default_rng(0))
    epochs = np.concatenate(list(islice(batches, 6))).reshape(4, 12)
    assert all(sorted(epoch) == list(range(100, 112)) for epoch in epochs.tolist())
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 4


def test_rows_of_probability_zero_do_not_count() -> None:
    x, y = points()
    none = np.zeros((200, 2), np.float32)
    module = networks(1)[0]
    assert np.array_equal(weights(DESCENT.run(module, x, none, Rng(seed=0))), weights(module))
    nothing = [np.empty(0, np.int64)]
    untrained = DESCENT.run_population([module], x, y, Rng(seed=0), parts=nothing)[0]
    assert np.array_equal(weights(untrained), weights(module))


def test_mixup_mixes_inputs_and_targets_alike() -> None:
    mixed = _Mixture(4.0, [np.random.default_rng(seed) for seed in range(2)], 5, "cpu")
    same = torch.eye(5).repeat(2, 1, 1)
    assert torch.equal(mixed(same), same)
    mixed.draw()
    rows, goals = mixed(same.view(2, 5, 5, 1)), mixed(same)
    assert torch.equal(rows[..., 0], goals)
    assert goals.sum(-1) == pytest.approx(np.ones((2, 5)), abs=1e-6)
    shares = goals.max(-1).values
    assert (
        len({round(float(share), 4) for share in shares.ravel()}) <= 4
    )  # a proportion a network, or a row with itself
    assert 0.5 <= float(shares.min()) < 1


def test_mixed_rows_learn_mixed_targets() -> None:
    """From weights of zero a step goes along the mean of (target - 1/2) x row, whose rows here are their targets."""
    rows = np.eye(2, dtype=np.float32)[np.arange(40) % 2]
    views: list[Any] = []

    class Seen(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(2, 2))

        def forward(self, rows: Any) -> Any:
            views.append(rows.detach())
            return rows @ self.weight.T

    descent = PlainDescent(steps=1, batch=40, lr=1.0, momentum=0.0, mixup=1.0)
    weight = descent.run(Seen(), rows, rows, Rng(seed=1)).weight.detach()
    (mixed,) = views
    assert not torch.equal(mixed, mixed.round())
    assert torch.allclose(weight, (mixed - 0.5).T @ mixed / 40, atol=1e-6)


def test_progress_counts_every_step_and_keeps_torch_random_state() -> None:
    x, y = points()
    calls: list[tuple[int, int, float]] = []
    dropping = {**SMALL, "dropout": 0.5}
    descent = PlainDescent(steps=3, batch=8, progress=lambda *call: calls.append(call))
    state = torch.get_rng_state()
    first, second = (descent.run(networks(1, dropping)[0], x, y, Rng(seed=5)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(weights(first), weights(second))
    assert [(step, steps) for step, steps, _ in calls] == [(1, 3), (2, 3), (3, 3)] * 2
    assert calls[2][2] == 0.0
    assert all(left >= 0 for _, _, left in calls)


def test_rows_that_are_not_finite_leave_weights_finite() -> None:
    x, y = points()
    x[3], x[4, 0] = np.nan, np.inf
    assert np.isfinite(weights(DESCENT.run(networks(1)[0], x, y, Rng(seed=0)))).all()


@pytest.mark.parametrize("count", [1, 2])
def test_long_gradients_are_shortened_for_each_network_by_itself(count: int) -> None:
    """Inputs of length 1000: without it a step at this learning rate leaves nothing of the weights."""
    x, labels = points()[0], np.random.default_rng(3).integers(2, size=(count, 200))
    descent = PlainDescent(steps=1, batch=200, lr=0.5, momentum=0.0)
    before = networks(count, {"name": "linear", "inputs": 2, "outputs": 2})
    lengths = []
    for scale in (1e-3, 1000.0):
        after = descent.run_population(before, scale * x, labels, Rng(seed=0))
        lengths.append([np.linalg.norm(weights(new) - weights(old)) for old, new in zip(before, after, strict=True)])
    assert lengths[1] == pytest.approx([0.5] * count, rel=1e-4)
    assert max(lengths[0]) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simple_cnn.grey.170958", "resnet20.grey.268058", "inception.grey.1609114"])
def test_networks_of_dpmlbench_are_trained_as_one_population(name: str) -> None:
    modules = networks(2, models.named()[f"dpmlbench.{name}"].description)
    for dropout in (part for module in modules for part in module.modules() if isinstance(part, torch.nn.Dropout)):
        dropout.p = 0.0
    x = np.random.default_rng(0).normal(size=(40, 1, 32, 32)).astype(np.float32)
    y, descent = np.arange(40) % 10, PlainDescent(steps=2, batch=32)
    together = descent.run_population(modules, x, y, Rng(seed=0), batches=fixed_batches(40, 2))
    for number, module in enumerate(modules):
        batches = [fixed_batches(40, 2)[number]]
        alone = descent.run_population([module], x, y, Rng(seed=0), batches=batches)[0]
        moved = weights(alone) - weights(module)
        assert np.linalg.norm(weights(together[number]) - weights(alone)) < 0.01 * np.linalg.norm(moved)


@pytest.mark.cuda
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("mixup", [0.0, 4.0])
@pytest.mark.parametrize("as_table", [True, False])
def test_captured_steps_train_as_steps_one_by_one(
    count: int, as_table: bool, mixup: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(1).normal(size=(200, 1, 8, 8)).astype(np.float32)
    y = np.arange(200) % 2
    described = {"name": "simple_cnn", "filters": [4], "hidden": [6], "inputs": [1, 8, 8], "outputs": 2}
    table = torch.eye(2, device="cuda")[torch.from_numpy(y).cuda()]
    targets = y if as_table else lambda at, predicted: 0.9 * table[at] + 0.1 * predicted
    descent = PlainDescent(steps=20, batch=32, decay=1e-3, mixup=mixup, device="cuda")

    def trained() -> list[np.ndarray]:
        modules = networks(count, described)
        batches = fixed_batches(200, count)
        return [weights(m.cpu()) for m in descent.run_population(modules, x, targets, Rng(seed=0), batches=batches)]

    captured = trained()
    monkeypatch.setattr(plain_descent, "captured", lambda step, changed, generator: step)
    for one, other, before in zip(captured, trained(), networks(count, described), strict=True):
        assert np.linalg.norm(one - other) < 0.02 * np.linalg.norm(other - weights(before))


def test_convolutions_are_repeatable_and_switches_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    switches, seen = torch.backends.cudnn, []

    def progress(*_: Any) -> None:
        seen.append((switches.deterministic, switches.benchmark))

    monkeypatch.setattr(switches, "benchmark", True)
    monkeypatch.setattr(switches, "deterministic", False)
    x, y = points()
    PlainDescent(steps=1, batch=8, progress=progress).run(networks(1)[0], x, y, Rng(seed=0))
    assert seen == [(True, False)]
    assert (switches.deterministic, switches.benchmark) == (False, True)


@pytest.mark.cuda
@pytest.mark.parametrize("count", [1, 3])
def test_two_seeded_runs_on_a_gpu_give_equal_bits(count: int) -> None:
    """Images as large as MNIST's: cuDNN's gradients of filters add in changing order by default."""
    x = np.random.default_rng(1).normal(size=(2000, 1, 28, 28)).astype(np.float32)
    described = {"name": "simple_cnn", "filters": [32, 64], "hidden": [128], "inputs": [1, 28, 28], "outputs": 10}
    descent = PlainDescent(steps=100, batch=256, mixup=1.0, device="cuda", augment=shifted)

    def trained() -> list[np.ndarray]:
        modules = descent.run_population(networks(count, described), x, np.arange(2000) % 10, Rng(seed=0))
        return [weights(module.cpu()) for module in modules]

    for one, other in zip(trained(), trained(), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.cuda
@pytest.mark.parametrize("augment", [shifted, jittered])
def test_captured_steps_draw_new_augmentation_each_time(augment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of many draws is learnt: with one draw repeated, the network would fit that draw alone."""
    x = np.random.default_rng(1).normal(size=(64, 1, 8, 8)).astype(np.float32)
    y = np.arange(64) % 2
    described = {"name": "simple_cnn", "filters": [4], "hidden": [6], "inputs": [1, 8, 8], "outputs": 2}
    losses: list[Any] = []
    loss = PlainDescent._loss

    def kept(self: Any, *arguments: Any) -> Any:
        value = loss(self, *arguments)
        losses.append(value.detach())
        return value

    monkeypatch.setattr(PlainDescent, "_loss", kept)
    seen: list[float] = []

    def progress(*call: Any) -> None:
        seen.append(float(losses[-1]))

    descent = PlainDescent(steps=12, batch=64, lr=1e-9, device="cuda", augment=augment, progress=progress)
    descent.run(networks(1, described)[0], x, y, Rng(seed=0))
    assert len(losses) == plain_descent.WARM_UP + 1
    assert len(set(seen)) > 6
