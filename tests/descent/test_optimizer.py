"""An optimiser of PyTorch moves the parameters by the noisy gradient, and resumes bit for bit."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from privaware import Ledger, train
from privaware.descent import Checkpoint, Descent, FullBatch, adam, flat, momentum, sgd, torch_optimizer
from privaware.errors import WrongInput
from privaware.noise import Rng

SETTINGS: dict[str, Any] = {"epsilon": 1.0, "steps": 12, "sampling_rate": 0.2, "clipping_norm": 1.0}


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] > 0).long()


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def weights(module: nn.Module) -> torch.Tensor:
    return torch.cat([value.detach().flatten() for value in module.parameters()])


def noiseless(update: Any, module: nn.Module) -> torch.Tensor:
    descent = Descent(steps=5, sampler=FullBatch(), clip=flat(1e9), update=update)
    return weights(descent.run(module, *rows(), noise=0.0, rows=200, rng=Rng(seed=1)))


@pytest.mark.parametrize(
    ("optimizer", "ours"),
    [
        (functools.partial(torch.optim.SGD, lr=0.5), sgd(0.5)),
        (functools.partial(torch.optim.SGD, lr=0.5, momentum=0.9), momentum(0.5, 0.9)),
        (functools.partial(torch.optim.Adam, lr=0.1), adam(0.1, correct=False)),
    ],
)
def test_optimiser_takes_the_steps_of_our_own_updates(optimizer: Any, ours: Any) -> None:
    module = network()
    moved = noiseless(torch_optimizer(optimizer, module), module)
    assert torch.allclose(moved, noiseless(ours, module), atol=1e-5)


def test_optimiser_takes_the_steps_of_a_loop_without_privacy() -> None:
    module, (x, y) = network(), rows()
    moved = noiseless(torch_optimizer(torch.optim.Adagrad, module, lr=0.1), module)
    plain = torch.optim.Adagrad(module.parameters(), lr=0.1)
    for _ in range(5):
        plain.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()
        plain.step()
    assert torch.allclose(moved, weights(module), atol=1e-5)


def test_groups_of_an_optimiser_keep_their_learning_rates() -> None:
    module = network()
    groups = [{"params": module[2].parameters(), "lr": 0.5}, {"params": module[0].parameters(), "lr": 0.0}]
    before = module[0].weight.detach().clone()
    trained = train(module, *rows(), optimizer=torch.optim.SGD(groups, lr=0.1), seed=1, **SETTINGS)
    assert torch.equal(trained[0].weight, before)
    assert not torch.equal(trained[2].weight, module[2].weight)


def test_a_given_optimiser_and_its_module_stay_unchanged() -> None:
    module = network()
    before, optimizer = weights(module), torch.optim.AdamW(module.parameters(), lr=0.1)
    train(module, *rows(), optimizer=optimizer, seed=1, **SETTINGS)
    assert torch.equal(weights(module), before)
    assert not optimizer.state
    assert all(value.grad is None for value in module.parameters())


def test_optimiser_costs_what_our_own_update_costs(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l.ledger", limit=9.0)
    for more in ({}, {"optimizer": torch.optim.AdamW}):
        train(network(), *rows(), ledger=ledger, lr=0.1, seed=1, **SETTINGS, **more)
    first, second = (entry.event for entry in ledger.entries() if entry.event is not None)
    assert first == second


class Counting(torch.optim.Optimizer):
    """An optimiser with plain numbers in its state and in its options, as some packages have them."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr, "k": 0})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["k"] += 1
            for value in group["params"]:
                state = self.state[value]
                state["steps"] = state.get("steps", 0) + 1
                value.data = value.data - group["lr"] / (group["k"] + state["steps"]) * value.grad


OPTIMIZERS = [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.NAdam, torch.optim.Rprop, Counting]


@pytest.mark.parametrize("optimizer", [*OPTIMIZERS, functools.partial(torch.optim.SGD, momentum=0.9)])
def test_interrupted_training_resumes_bit_for_bit(tmp_path: Path, optimizer: Any) -> None:
    class Stopped(Exception):
        """In place of a kill."""

    def stop(step: int, steps: int, left: float) -> None:
        if step == 7:
            raise Stopped

    def run(name: str, **more: Any) -> nn.Module:
        ledger = Ledger.open_or_create(tmp_path / "l.ledger", new_limit=9.0)
        saved = Checkpoint(tmp_path / name, every=5)
        given = {"ledger": ledger, "checkpoint": saved, "optimizer": optimizer, "lr": 0.05, "seed": 1}
        return train(network(), *rows(), **given, **SETTINGS, **more)

    with pytest.raises(Stopped):
        run("stopped", progress=stop)
    assert torch.equal(weights(run("stopped")), weights(run("whole")))


def test_checkpoint_of_another_optimiser_is_refused(tmp_path: Path) -> None:
    def stop(step: int, steps: int, left: float) -> None:
        raise KeyboardInterrupt

    ledger = Ledger.create(tmp_path / "l.ledger", limit=2.0)
    saved = Checkpoint(tmp_path / "c", every=1)
    given: dict[str, Any] = {"ledger": ledger, "lr": 0.05, "checkpoint": saved, **SETTINGS}
    with pytest.raises(KeyboardInterrupt):
        train(network(), *rows(), optimizer=torch.optim.AdamW, progress=stop, **given)
    with pytest.raises(WrongInput, match="settings"):
        train(network(), *rows(), optimizer=torch.optim.SGD, **given)


class PerExample(torch.optim.SGD):
    """An optimiser that looks at per-example gradients, as those of Opacus do."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for value in group["params"]:
                value.grad_sample.sum()


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        (torch.optim.LBFGS, "closure"),
        (PerExample, "per-example gradients"),
        (lambda parameters, lr: "adam", "returns str"),
        ("adam", "got str"),
        (lambda parameters, lr: torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=lr), "all trainable parameters"),
        (lambda parameters, lr: torch.optim.SGD(parameters[:1], lr=lr), "all trainable parameters"),
    ],
)
def test_unfit_optimiser_is_refused_before_a_charge(tmp_path: Path, optimizer: Any, words: str) -> None:
    ledger = Ledger.create(tmp_path / "l.ledger", limit=2.0)
    with pytest.raises(WrongInput, match=words):
        train(network(), *rows(), optimizer=optimizer, lr=0.1, ledger=ledger, **SETTINGS)
    assert ledger.spent() == 0


def test_used_optimiser_is_refused() -> None:
    module = network()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
    module(rows()[0]).sum().backward()
    optimizer.step()
    with pytest.raises(WrongInput, match="has taken steps"):
        train(module, *rows(), optimizer=optimizer, **SETTINGS)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "expected lr"),
        ({"optimizer": torch.optim.AdamW, "update": sgd(0.1), "lr": 0.1}, "one of optimizer and update"),
    ],
)
def test_learning_rate_is_given_exactly_once(more: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongInput, match=words):
        train(network(), *rows(), **SETTINGS, **more)


def test_learning_rate_beside_a_built_optimiser_is_refused() -> None:
    module = network()
    with pytest.raises(WrongInput, match="learning rate once"):
        train(module, *rows(), optimizer=torch.optim.SGD(module.parameters(), lr=0.1), lr=0.1, **SETTINGS)


@pytest.mark.cuda
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_optimiser_on_a_gpu_takes_the_steps_of_a_cpu(optimizer: Any) -> None:
    module = network()
    descent = Descent(steps=5, sampler=FullBatch(), clip=flat(1e9), update=torch_optimizer(optimizer, module, lr=0.1))
    on_gpu = descent.run(module, *rows(), noise=0.0, rows=200, rng=Rng(seed=1), device="cuda")
    assert torch.allclose(weights(on_gpu).cpu(), noiseless(descent.update, module), atol=1e-4)


@pytest.mark.cuda
def test_interrupted_training_on_a_gpu_resumes(tmp_path: Path) -> None:
    def stop(step: int, steps: int, left: float) -> None:
        if step == 7:
            raise KeyboardInterrupt

    ledger = Ledger.create(tmp_path / "l.ledger", limit=9.0)
    given: dict[str, Any] = {"optimizer": torch.optim.AdamW, "lr": 0.05, "seed": 1, "device": "cuda", **SETTINGS}
    given |= {"ledger": ledger, "checkpoint": Checkpoint(tmp_path / "c", every=5)}
    with pytest.raises(KeyboardInterrupt):
        train(network(), *rows(), progress=stop, **given)
    resumed = train(network(), *rows(), **given)
    whole = train(network(), *rows(), **(given | {"checkpoint": None}))
    assert torch.allclose(weights(resumed), weights(whole), atol=1e-6)
