"""A resumed training is bit for bit the uninterrupted one."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest
import torch
from torch import nn

from privaware.descent import Callbacks, Checkpoint, adam, ema, flat, members, momentum, quantile
from privaware.descent._checkpoint import TrainingState
from privaware.descent._ranks import TrainingJob
from privaware.errors import WrongInput
from privaware.noise import Rng
from tests.descent import mixed_models
from tests.descent.small_training import flat_of, recipe, train


class Stopped(Exception):
    pass


@pytest.mark.parametrize("clip", [flat(0.5), quantile(norm=0.5, count_noise=5.0)], ids=["flat", "quantile"])
@pytest.mark.parametrize("update", [momentum(0.2), adam(0.01)], ids=["momentum", "adam"])
def test_p33_a_stopped_training_resumes_bit_for_bit(tmp_path, clip, update):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.3), nn.Linear(6, 3))
    descent = recipe(steps=12, clip=clip, update=update, average=ema(0.9))
    expected = train(descent, module=module)

    def stop(step, steps, left):
        if step == 8:
            raise Stopped

    path = Checkpoint(tmp_path / "run.safetensors", every=3)
    with pytest.raises(Stopped):
        train(descent, module=module, progress=stop, checkpoint=path)
    resumed = train(descent, module=module, seed=99, checkpoint=path)
    assert torch.equal(flat_of(resumed), flat_of(expected))
    with pytest.raises(WrongInput, match="same ones"):
        train(descent, module=module, noise=2.0, checkpoint=path)
    with pytest.raises(WrongInput, match="same ones"):
        train(replace(descent, augment=lambda x, _: -x), module=module, checkpoint=path)


@pytest.mark.slow
def test_p33_a_killed_process_resumes_bit_for_bit(tmp_path):
    code = textwrap.dedent(
        """
        import os, sys, torch
        from torch import nn
        from privaware.descent import Callbacks, Checkpoint, Descent, Poisson, flat, momentum
        from privaware.noise import Rng
        torch.manual_seed(0)
        net, x, y = nn.Linear(4, 3), torch.randn(40, 4), torch.randint(3, (40,))
        descent = Descent(steps=12, sampler=Poisson(rate=0.3), clip=flat(1.0), update=momentum(0.1))
        def kill(step, steps, left):
            if step == int(sys.argv[2]):
                os.kill(os.getpid(), 9)
        callbacks = Callbacks(checkpoint=Checkpoint(sys.argv[1], every=2), progress=kill)
        trained = descent.run(net, x, y, noise=1.0, rows=40, rng=Rng(7), callbacks=callbacks)
        print(trained.weight.detach().double().sum().item().hex())
        """
    )

    def go(name, at):
        return subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / name), str(at)], capture_output=True, text=True, check=False
        )

    assert go("killed", 7).returncode == -9
    assert go("killed", -1).stdout == go("uninterrupted", -1).stdout != ""


def test_mixed_stack_resumes_only_with_the_same_layers_frozen(tmp_path):
    x, y = mixed_models.data()
    path = Checkpoint(tmp_path / "path", every=3)

    def train(steps, models, checkpoint):
        descent = mixed_models.recipe(
            steps=6, update=adam(0.02), average=ema(0.5), clip=quantile(norm=0.1, count_noise=3.0)
        )
        steps_seen = []

        def stop(step, *_):
            steps_seen.append(step)
            if step == steps:
                raise KeyboardInterrupt

        stack, callbacks = members(models, noise=[1.0] * 3), Callbacks(checkpoint=checkpoint, progress=stop)
        try:
            return TrainingJob(stack, x, y, mixed_models.ROWS, "cpu").run(descent, Rng(0), callbacks), steps_seen
        except KeyboardInterrupt:
            return None, steps_seen

    uninterrupted, _ = train(9, mixed_models.mixed(), None)
    assert train(4, mixed_models.mixed(), path)[0] is None
    other = mixed_models.mixed()
    other[1][0].requires_grad_(True)
    other[1][2].requires_grad_(False)
    with pytest.raises(WrongInput, match="settings"):
        train(9, other, path)
    resumed, steps_seen = train(9, mixed_models.mixed(), path)
    assert steps_seen == [4, 5, 6]
    for one, two in zip(uninterrupted, resumed, strict=True):
        for a, b in zip(one.parameters(), two.parameters(), strict=True):
            assert torch.equal(a, b)


def state(seed, fingerprint="settings", step=0):
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(2, 5, generator=generator) for _ in range(3)]
    norms = torch.rand(2, generator=generator)
    return TrainingState(
        tensors[0], norms, Rng(seed), fingerprint, step, {"velocity": tensors[1]}, {"average": tensors[2]}
    )


def test_a_state_is_restored_with_its_generators(tmp_path):
    path = tmp_path / "state"
    saved, other = state(1, step=7), state(2)
    torch.manual_seed(5)
    Checkpoint(path).save(saved)
    expected = saved.rng.gaussian(torch.zeros(3), noise=1.0, sensitivity=1.0), torch.rand(3)
    torch.manual_seed(6)
    Checkpoint(path).load(other, 10)
    assert other.step == 7
    for name, value in saved.tensors().items():
        assert torch.equal(other.tensors()[name], value)
    assert torch.equal(other.rng.gaussian(torch.zeros(3), noise=1.0, sensitivity=1.0), expected[0])
    assert torch.equal(torch.rand(3), expected[1])
    assert path.stat().st_mode & 0o077 == 0


def test_state_of_other_settings_is_refused(tmp_path):
    untouched = state(1)
    Checkpoint(tmp_path / "none").load(untouched, 10)
    assert torch.equal(untouched.theta, state(1).theta)
    Checkpoint(tmp_path / "state").save(state(1))
    with pytest.raises(WrongInput, match="settings"):
        Checkpoint(tmp_path / "state").load(state(1, fingerprint="others"), 10)


def test_a_checkpoint_is_due_every_so_many_steps_and_at_the_end():
    assert [step for step in range(1, 11) if Checkpoint("", every=4).is_due(step, 10)] == [4, 8, 10]
    with pytest.raises(WrongInput, match="every"):
        Checkpoint("", every=0)


def test_checkpoint_of_other_examples_or_run_is_refused(tmp_path):
    """Both would repeat noise: the difference of two models that share it shows the examples that differ."""
    torch.manual_seed(0)
    module, path = nn.Linear(4, 3), Checkpoint(tmp_path / "run", every=3, run="one")
    train(recipe(steps=6), module=module, checkpoint=path)
    with pytest.raises(WrongInput, match="another run"):
        train(recipe(steps=6), module=module, checkpoint=replace(path, run="two"))
    inputs, targets = torch.zeros(5, 4), torch.zeros(5, dtype=torch.long)
    callbacks = Callbacks(checkpoint=replace(path, path=tmp_path / "other"))
    run = {"noise": 1.0, "rows": 5, "rng": Rng(1), "callbacks": callbacks}
    recipe(steps=6).run(module, inputs, targets, **run)
    with pytest.raises(WrongInput, match="other rows"):
        recipe(steps=6).run(module, inputs + 1, targets, **run)


def test_checkpoint_with_another_chance_of_overflow_is_refused(tmp_path):
    """The chance of overflow is part of the charged delta."""
    torch.manual_seed(0)
    module, path = nn.Linear(4, 3), Checkpoint(tmp_path / "run", every=3)
    train(recipe(steps=6), module=module, checkpoint=path)
    with pytest.raises(WrongInput, match="same ones"):
        train(recipe(steps=6, overflow=1e-6), module=module, checkpoint=path)


@pytest.mark.parametrize(("run", "step"), [("other", 6), ("one", 4)], ids=["other-run", "earlier-step"])
def test_only_the_last_step_of_its_own_run_is_released(tmp_path, run, step):
    path = tmp_path / "run"
    Checkpoint(path, run=run).save(state(1, step=step))
    content = path.read_bytes()
    with pytest.raises(WrongInput, match="after its last step"):
        Checkpoint(path, run="one").keep_released(6)
    assert path.read_bytes() == content
    path.unlink()
    with pytest.raises(WrongInput, match="after its last step"):
        Checkpoint(path, run="one").keep_released(6)


def test_released_parameters_of_an_earlier_step_are_refused(tmp_path):
    path = Checkpoint(tmp_path / "run", run="one")
    path.save(state(1, step=4))
    path.keep_released(4)
    untouched = state(2)
    with pytest.raises(WrongInput, match="after 6 steps"):
        path.load(untouched, 6)
    assert untouched.step == 0
    assert torch.equal(untouched.theta, state(2).theta)
