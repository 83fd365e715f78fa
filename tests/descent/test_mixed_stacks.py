"""Models that differ, stepped in the stacks that a GPU would get, are trained as if alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware.descent import adam, automatic, ema, members, momentum, quantile, sgd, tail
from privaware.descent._layers.padded_population import stackable_groups
from privaware.descent._ranks import TrainingJob
from privaware.noise import Rng
from tests.descent.mixed_models import ROWS, chain, data, deep, mixed, recipe


def trained_in_stacks(descent, models, examples, noise=0.0):
    """Trained in the stacks of a GPU, on a CPU."""
    x, y = examples
    out = {}
    for group in stackable_groups(models, "cuda"):
        stack = members([models[at] for at in group], noise=[noise] * len(group))
        trained = TrainingJob(stack, x, y, ROWS, "cpu").run(descent, Rng(0))
        out |= dict(zip(group, trained, strict=True))
    return [out[at] for at in range(len(models))]


def assert_as_if_alone(descent, models, examples):
    trained = trained_in_stacks(descent, models, examples)
    for model, one in zip(models, trained, strict=True):
        alone = descent.run(model, *examples, noise=0.0, rows=ROWS, rng=Rng(0))
        pairs = zip(alone.named_parameters(), one.parameters(), strict=True)
        for (name, want), actual in pairs:
            torch.testing.assert_close(actual, want, rtol=1e-4, atol=2e-5, msg=name)


@pytest.mark.parametrize(
    "update",
    [sgd(0.5), sgd(0.5, decay=0.1), momentum(0.5), momentum(0.5, decay=0.1), adam(0.02), adam(0.02, correct=False)],
    ids=["sgd", "sgd_decay", "momentum", "momentum_decay", "dp_adam", "adam"],
)
def test_no_update_moves_frozen_layers(update):
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
def test_clipping_and_averages_are_per_model(changes):
    assert_as_if_alone(recipe(**changes), mixed(), data())


def test_a_partly_frozen_layer_is_clipped_as_if_alone():
    models = [
        deep(5, nn.ReLU),
        deep(3, nn.ReLU, frozen=("2.weight",)),
        deep(6, nn.Tanh, frozen=("2.bias",), seed=1),
        deep(4, nn.Tanh, frozen=("2",), seed=2),
    ]
    assert_as_if_alone(recipe(), models, data())


def twice(width, kind, tied=False):
    """One activation object used twice; or one matrix."""
    model = deep(width, nn.ReLU, seed=width)
    model[1] = model[3] = kind()
    if tied:
        model[1], model[3] = kind(), kind()
        model.insert(4, nn.Linear(width, width))
        model[4].weight = model[2].weight
    return model


@pytest.mark.parametrize("tied", [False, True])
def test_shared_modules_and_tied_weights_stay_shared(tied):
    models = [twice(5, nn.ReLU, tied), twice(6, nn.Sigmoid, tied), twice(6, nn.Tanh, tied)]
    assert_as_if_alone(recipe(), models, data())


def test_flattened_positions_are_not_padded():
    def model(width):
        return chain(lambda: nn.Linear(4, width), nn.ReLU, nn.Flatten, lambda: nn.Linear(5 * width, 3), seed=width)

    assert_as_if_alone(recipe(), [model(4), model(5)], data(5, 4))


def test_activations_before_the_first_layer_may_differ():
    def model(kind, width):
        return chain(kind, lambda: nn.Linear(4, width), nn.ReLU, lambda: nn.Linear(width, 3), seed=width)

    assert_as_if_alone(recipe(), [model(nn.Tanh, 4), model(nn.Sigmoid, 5)], data())


def test_an_activation_nonzero_at_zero_leaves_padding_zero():
    def model(width):
        lifted = lambda: nn.Hardtanh(0.5, 2.0)  # noqa: E731
        return chain(lambda: nn.Linear(4, width), lifted, lambda: nn.Linear(width, 3), seed=width)

    assert_as_if_alone(recipe(), [model(4), model(5)], data())


def test_models_of_different_buffers_are_not_stacked():
    class Shifted(nn.Module):
        def __init__(self, by):
            super().__init__()
            self.inner = nn.Linear(4, 3)
            self.register_buffer("by", torch.full((3,), by))

        def forward(self, inputs):
            return self.inner(inputs) * self.by

    torch.manual_seed(0)
    assert_as_if_alone(recipe(), [Shifted(1.0), Shifted(-2.0)], data())
