"""Models that differ, stepped in the stacks that a GPU would get, are trained as if alone, whatever the update."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn

from privaware.descent import (
    Callbacks,
    Checkpoint,
    Descent,
    FullBatch,
    adam,
    automatic,
    ema,
    flat,
    members,
    momentum,
    quantile,
    sgd,
    tail,
)
from privaware.descent._descent import _seeded
from privaware.descent._loop import stepper, train_to_end
from privaware.descent._padded_population import stackable_groups
from privaware.descent._training import Training, prepare
from privaware.errors import WrongInput
from privaware.noise import Rng

ROWS = 40


def data(*shape):
    made = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, *(shape or (4,)), generator=made)
    return x, torch.randint(3, (ROWS,), generator=made)


def recipe(**changes):
    settings = {"steps": 6, "sampler": FullBatch(), "clip": flat(0.05), "update": momentum(0.5), **changes}
    return Descent(**settings)


def chain(*layers, frozen=(), seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(*(layer() for layer in layers))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen and name.split(".")[0] not in frozen)
    return model


def deep(width, kind, frozen=(), seed=0, middle=()):
    """Three linear layers with activations between them."""
    return chain(
        lambda: nn.Linear(4, width),
        kind,
        *middle,
        lambda: nn.Linear(width, width),
        kind,
        lambda: nn.Linear(width, 3),
        frozen=frozen,
        seed=seed,
    )


def mixed():
    return [deep(5, nn.ReLU), deep(3, nn.Sigmoid, frozen=("0",), seed=1), deep(7, nn.Tanh, frozen=("2",), seed=2)]


def stacked(descent, models, given, noise=0.0):
    """Trained in the stacks of a GPU, on a CPU."""
    x, y = given
    out = {}
    for group in stackable_groups(models, "cuda"):
        stack = members([models[at] for at in group], noise=[noise] * len(group))
        made = descent._train_stack(stack, x, y, rows=ROWS, rng=Rng(0), device="cpu")
        out |= dict(zip(group, made, strict=True))
    return [out[at] for at in range(len(models))]


def assert_as_if_alone(descent, models, given):
    made = stacked(descent, models, given)
    for model, one in zip(models, made, strict=True):
        alone = descent.run(model, *given, noise=0.0, rows=ROWS, rng=Rng(0))
        pairs = zip(alone.named_parameters(), one.parameters(), strict=True)
        for (name, want), found in pairs:
            torch.testing.assert_close(found, want, rtol=1e-4, atol=2e-5, msg=name)


@pytest.mark.parametrize(
    "update",
    [sgd(0.5), sgd(0.5, decay=0.1), momentum(0.5), momentum(0.5, decay=0.1), adam(0.02), adam(0.02, correct=False)],
    ids=["sgd", "sgd_decay", "momentum", "momentum_decay", "dp_adam", "adam"],
)
def test_every_update_leaves_frozen_layers_where_they_are(update):
    assert len(stackable_groups(mixed(), "cuda")) == 1
    assert_as_if_alone(recipe(update=update), mixed(), data())


@pytest.mark.parametrize(
    "changes",
    [
        {"clip": automatic(0.1, gamma=0.01)},
        {"clip": quantile(norm=0.1, count_noise=3.0)},
        {"copies": 3},
        {"microbatch": 7},
        {"average": ema(0.5)},
        {"average": tail(0.5), "clip": quantile(norm=0.1, count_noise=3.0), "microbatch": 11},
    ],
    ids=["automatic", "quantile", "copies", "parts", "ema", "all"],
)
def test_every_clip_and_average_is_a_models_own(changes):
    assert_as_if_alone(recipe(**changes), mixed(), data())


def test_a_layer_that_is_frozen_in_part_is_clipped_as_if_alone():
    models = [
        deep(5, nn.ReLU),
        deep(3, nn.ReLU, frozen=("2.weight",)),
        deep(6, nn.Tanh, frozen=("2.bias",), seed=1),
        deep(4, nn.Tanh, frozen=("2",), seed=2),
    ]
    assert_as_if_alone(recipe(), models, data())


def twice(width, kind, tied=False):
    """One activation object in two places; or one matrix."""
    model = deep(width, nn.ReLU, seed=width)
    model[1] = model[3] = kind()
    if tied:
        model[1], model[3] = kind(), kind()
        model.insert(4, nn.Linear(width, width))
        model[4].weight = model[2].weight
    return model


@pytest.mark.parametrize("tied", [False, True])
def test_what_stands_in_two_places_stays_one(tied):
    models = [twice(5, nn.ReLU, tied), twice(6, nn.Sigmoid, tied), twice(6, nn.Tanh, tied)]
    assert_as_if_alone(recipe(), models, data())


def test_positions_that_are_flattened_between_layers_stay_in_their_places():
    def model(width):
        return chain(lambda: nn.Linear(4, width), nn.ReLU, nn.Flatten, lambda: nn.Linear(5 * width, 3), seed=width)

    assert_as_if_alone(recipe(), [model(4), model(5)], data(5, 4))


def test_activations_before_the_first_layer_may_differ():
    def model(kind, width):
        return chain(kind, lambda: nn.Linear(4, width), nn.ReLU, lambda: nn.Linear(width, 3), seed=width)

    assert_as_if_alone(recipe(), [model(nn.Tanh, 4), model(nn.Sigmoid, 5)], data())


def test_an_activation_that_lifts_zero_lifts_no_padding():
    def model(width):
        lifted = lambda: nn.Hardtanh(0.5, 2.0)  # noqa: E731
        return chain(lambda: nn.Linear(4, width), lifted, lambda: nn.Linear(width, 3), seed=width)

    assert_as_if_alone(recipe(), [model(4), model(5)], data())


def test_buffers_are_each_models_own():
    class Shifted(nn.Module):
        def __init__(self, by):
            super().__init__()
            self.inner = nn.Linear(4, 3)
            self.register_buffer("by", torch.full((3,), by))

        def forward(self, inputs):
            return self.inner(inputs) * self.by

    torch.manual_seed(0)
    assert_as_if_alone(recipe(), [Shifted(1.0), Shifted(-2.0)], data())


def test_a_mixed_stack_goes_on_from_a_checkpoint_bit_for_bit_and_not_with_other_layers_frozen(tmp_path):
    x, y = data()
    kept = Checkpoint(tmp_path / "kept", every=3)

    def train(steps, models, checkpoint):
        descent = recipe(steps=6, update=adam(0.02), average=ema(0.5), clip=quantile(norm=0.1, count_noise=3.0))
        heard = []

        def stop(step, *_):
            heard.append(step)
            if step == steps:
                raise KeyboardInterrupt

        stack, callbacks = members(models, noise=[1.0] * 3), Callbacks(checkpoint=checkpoint, progress=stop)
        try:
            made = descent._train_stack(stack, x, y, rows=ROWS, rng=Rng(0), device="cpu", callbacks=callbacks)
            return made, heard
        except KeyboardInterrupt:
            return None, heard

    whole, _ = train(9, mixed(), None)
    assert train(4, mixed(), kept)[0] is None
    other = mixed()
    other[1][0].requires_grad_(True)
    other[1][2].requires_grad_(False)
    with pytest.raises(WrongInput, match="settings"):
        train(9, other, kept)
    again, heard = train(9, mixed(), kept)
    assert heard == [4, 5, 6]
    for one, two in zip(whole, again, strict=True):
        for a, b in zip(one.parameters(), two.parameters(), strict=True):
            assert torch.equal(a, b)


def test_without_rows_nothing_is_captured_and_noise_alone_is_released(monkeypatch):
    x, y = data()
    models = [deep(3, nn.ReLU)]
    prepared = prepare(models, recipe().loss, x[:0], y[:0], "cpu")
    training = Training(recipe(), members(models, noise=[1.0]), prepared, rows=ROWS, rng=Rng(0))
    monkeypatch.setattr(training.stack, "device", torch.device("cuda"))
    assert stepper(training) == training.one_step
    monkeypatch.undo()
    trained = train_to_end(training)[0]
    assert not torch.equal(trained[0].weight, deep(3, nn.ReLU)[0].weight)


def test_a_run_on_a_second_gpu_makes_it_the_current_one(monkeypatch):
    """Else graphs, events and kernels would be of the first, and what runs on the second would not wait for them."""
    heard = []

    @contextlib.contextmanager
    def current(device):
        heard.append(device)
        yield
        heard.append("back")

    monkeypatch.setattr(torch.cuda, "device", current)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: contextlib.nullcontext())
    with _seeded(Rng(0), "cuda:1"):
        assert heard == [torch.device("cuda:1")]
    assert heard[-1] == "back"
