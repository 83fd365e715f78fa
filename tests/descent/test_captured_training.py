"""A captured training is the eager training."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from privaware.descent import (
    Callbacks,
    Checkpoint,
    Descent,
    FullBatch,
    Poisson,
    adam,
    anchored,
    cosine,
    ema,
    flat,
    low_rank,
    members,
    momentum,
    per_layer,
    quantile,
    sgd,
    squared,
)
from privaware.descent._cuda_graph import CapturedStep
from privaware.descent._training import Training, prepare
from privaware.noise import Rng

pytestmark = pytest.mark.cuda

ROWS = 64


def images():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(ROWS, 1, 8, 8, generator=generator), torch.randint(3, (ROWS,), generator=generator)


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 9), nn.Linear(9, 3)
    )


def flat_of(module):
    return torch.cat([p.detach().cpu().flatten() for p in module.parameters()])


class Eager(Rng):
    """Another type than Rng: the engine then runs eagerly, as for a recorder."""


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("clip", [flat(0.5), per_layer(0.5), quantile(norm=0.5, count_noise=9.0)])
@pytest.mark.parametrize("update", [momentum(0.3), adam(0.01)])
@pytest.mark.parametrize("device", ["cuda"])
def test_captured_training_without_noise_is_eager_training(count, clip, update, device):
    x, y = images()
    descent = Descent(steps=6, sampler=FullBatch(), clip=clip, update=update, average=ema(0.5), lr_schedule=cosine())
    models = [net(seed) for seed in range(count)]
    both = [
        descent.run_population(members(models, noise=[0.0] * count), x, y, rows=ROWS, rng=rng, device=device)
        for rng in (Rng(1), Eager(1))
    ]
    for one, other in zip(*both, strict=True):
        torch.testing.assert_close(flat_of(one), flat_of(other), rtol=1e-3, atol=1e-5)
        assert not torch.allclose(flat_of(one), flat_of(models[0]))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("projection", [low_rank(2), anchored(inputs=lambda: images()[0][:8], classes=3, directions=6)])
def test_captured_steps_read_the_newest_projection(count, projection):
    x, y = images()
    descent = Descent(steps=6, sampler=FullBatch(), clip=flat(0.5), update=momentum(0.3), projection=projection)
    models = [net(seed) for seed in range(count)]
    both = [
        descent.run_population(members(models, noise=[0.0] * count), x, y, rows=ROWS, rng=rng, device="cuda")
        for rng in (Rng(1), Eager(1))
    ]
    for one, other in zip(*both, strict=True):
        torch.testing.assert_close(flat_of(one), flat_of(other), rtol=1e-2, atol=1e-4)
        assert not torch.allclose(flat_of(one), flat_of(models[0]), atol=1e-2)


@pytest.mark.parametrize("overflow", [0.0, 1e-10])
@pytest.mark.parametrize("count", [1, 3])
def test_captured_noise_and_samples_have_promised_distribution(overflow, count):
    x = torch.ones(200, 4)
    wide = nn.Linear(4, 5000)
    nn.init.zeros_(wide.weight)
    nn.init.zeros_(wide.bias)
    descent = Descent(
        steps=1, sampler=Poisson(rate=0.25), clip=flat(0.5), update=sgd(1.0), loss=squared, overflow=overflow
    )
    goal = torch.full((200, 5000), 1e-9)
    population = members([wide] * count, noise=[2.0] * count)
    trained = descent.run_population(population, x, goal, rows=200, rng=Rng(5), device="cuda")
    updates = torch.stack([flat_of(one) for one in trained]) * 50
    assert updates.std(1).tolist() == pytest.approx([1.0] * count, rel=0.03)
    prepared = prepare([wide] * count, descent.loss, x, goal, "cuda")
    graphs = CapturedStep(Training(descent, population, prepared, rows=200, rng=Rng(5)))
    if overflow:
        sizes = []
        for _ in range(300):
            sizes.append(sum(selection.valid.sum() for selection in graphs._drawn()) / count)
        sizes = torch.stack(sizes)
        assert float(sizes.mean()) == pytest.approx(50, rel=0.05)
        assert float(sizes.std()) == pytest.approx(math.sqrt(200 * 0.25 * 0.75 / count), rel=0.2)


@pytest.mark.parametrize("overflow", [0.0, 1e-10])
def test_captured_training_resumes_after_a_stop(tmp_path, overflow):
    x, y = images()
    descent = Descent(steps=12, sampler=Poisson(rate=0.4), clip=flat(0.5), update=momentum(0.1), overflow=overflow)
    settings = {"noise": 1.0, "rows": ROWS, "device": "cuda"}
    uninterrupted = descent.run(net(), x, y, rng=Rng(3), **settings)
    repeated = descent.run(net(), x, y, rng=Rng(3), **settings)
    torch.testing.assert_close(flat_of(uninterrupted), flat_of(repeated), rtol=1e-4, atol=1e-5)

    class Stopped(Exception):
        pass

    def stop(step, steps, left):
        if step == 8:
            raise Stopped

    path = Checkpoint(tmp_path / "run", every=3)
    with pytest.raises(Stopped):
        descent.run(net(), x, y, rng=Rng(3), callbacks=Callbacks(path, stop), **settings)
    resumed = descent.run(net(), x, y, rng=Rng(9), callbacks=Callbacks(path), **settings)
    torch.testing.assert_close(flat_of(resumed), flat_of(uninterrupted), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_tf32_and_bf16_train(precision):
    x, y = images()
    base = {"steps": 10, "sampler": FullBatch(), "clip": flat(1.0), "update": sgd(0.5)}
    actual, expected = (
        flat_of(Descent(**base, precision=way).run(net(), x, y, noise=0.0, rows=ROWS, rng=Rng(1), device="cuda"))
        for way in (precision, "float32")
    )
    torch.testing.assert_close(actual, expected, rtol=0.1, atol=0.02)


def test_a_nonfinite_example_adds_nothing_in_a_graph():
    x, y = images()
    x[3] = math.inf
    descent = Descent(steps=3, sampler=FullBatch(), clip=flat(0.5), update=sgd(0.5))
    trained = descent.run(net(), x, y, noise=1.0, rows=ROWS, rng=Rng(1), device="cuda")
    assert torch.isfinite(flat_of(trained)).all()


def chain(at):
    torch.manual_seed(at)
    kind = (nn.ReLU, nn.Sigmoid, nn.Tanh)[at % 3]
    wide = (5, 70, 33)[at % 3]
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, wide), kind(), nn.Linear(wide, 3))
    model[1 if at % 2 else 3].requires_grad_(at < 4)
    return model


def test_a_mixed_stack_on_a_gpu_is_its_models_alone_on_a_cpu():
    x, y = images()
    models = [chain(at) for at in range(6)]
    for model in models:
        assert any(p.requires_grad for p in model.parameters())
    descent = Descent(steps=5, sampler=FullBatch(), clip=flat(0.1), update=momentum(0.5))
    arguments = {"rows": ROWS, "rng": Rng(seed=0)}
    trained = descent.run_population(members(models, noise=[0.0] * 6), x, y, device="cuda", **arguments)
    for model, one in zip(models, trained, strict=True):
        alone = descent.run(model, x, y, noise=0.0, **arguments)
        torch.testing.assert_close(flat_of(one), flat_of(alone), rtol=1e-3, atol=1e-4)
