"""Dropout masks belong to examples: no other example, microbatch or generator changes them."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from privaware.descent import ExampleDraws, FullBatch, Poisson, flat, members, sgd, squared
from privaware.descent._layers.rules import stacked
from privaware.errors import Refused
from privaware.noise import Rng
from tests.descent.neighbours import step_without_last
from tests.descent.small_training import RecordingRng, examples, flat_of, recipe, training


def dropping(rate=0.5):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.Dropout(rate), nn.Tanh(), nn.Linear(16, 16), nn.Dropout(rate), *head(16))


def head(width):
    return nn.ReLU(), nn.Linear(width, 3)


def first_sum(module, x, y, **changes):
    """The exact sum of the first step."""
    rng = RecordingRng(5)
    descent = recipe(**{"steps": 1, "sampler": FullBatch(), "clip": flat(2.0), **changes})
    descent.run(module, x, y, noise=1.0, rows=len(x), rng=rng)
    return rng.calls[0][0]


@pytest.mark.parametrize("microbatch", [1, 7, 64])
def test_microbatches_do_not_change_an_update_with_dropout(microbatch):
    x, y = examples(40)
    descents = [recipe(steps=4, sampler=Poisson(rate=0.6), microbatch=size) for size in (microbatch, 40)]
    one, other = (descent.run(dropping(), x, y, noise=0.0, rows=40, rng=Rng(3)) for descent in descents)
    torch.testing.assert_close(flat_of(one), flat_of(other), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("microbatch", [1, 7, 64])
def test_microbatches_do_not_change_augmented_copies(microbatch):
    x, y = examples(40)
    jitter = {"copies": 3, "augment": lambda inputs, draws: inputs + draws.normal(inputs.shape).to(inputs)}
    sums = [first_sum(dropping(), x, y, microbatch=size, **jitter) for size in (microbatch, 40)]
    torch.testing.assert_close(*sums, rtol=1e-4, atol=1e-3)
    assert not torch.allclose(sums[0], first_sum(dropping(), x, y, copies=3), rtol=0.1)


@pytest.mark.parametrize("sampler", [FullBatch(), Poisson(rate=0.5)], ids=["full", "poisson"])
def test_one_example_more_changes_no_other_mask(sampler, monkeypatch):
    x, y = examples(40)
    descent = recipe(steps=1, sampler=sampler, clip=flat(0.01), microbatch=8)
    moved, *_ = step_without_last(descent, [dropping(0.8)], x, y, monkeypatch)
    assert 0.5 < moved <= 1


def test_dropout_leaves_the_torch_generator_unchanged():
    states = []
    for count in (5, 40):
        x, y = examples(count)
        prepared = training(recipe(), [dropping()], x, y, noise=[1.0], rows=20, rng=Rng(0))
        torch.manual_seed(1)
        prepared.one_step()
        states.append(torch.get_rng_state())
    assert torch.equal(*states)
    assert torch.equal(states[0], torch.Generator().manual_seed(1).get_state())


def test_masks_differ_between_examples_steps_layers_and_models():
    """All rows are ones and a layer copies its input, so an output shows the mask."""
    seen = []

    class Seen(nn.Module):
        def forward(self, inputs):
            seen.append(inputs.detach() != 0)
            return inputs

    def network():
        return nn.Sequential(nn.Dropout(0.5), Seen(), nn.Sequential(nn.Dropout(0.5), Seen()), nn.Linear(64, 1))

    x, y = torch.ones(6, 64), torch.zeros(6)
    descent = recipe(steps=2, sampler=FullBatch(), loss=squared, update=sgd(1e-9), microbatch=6)
    both = training(descent, [network(), network()], x, y, noise=[1.0, 1.0], rows=6, rng=Rng(0))
    seen.clear()
    both.one_step()
    both.one_step()
    first, nested, later, last = seen
    masks = torch.cat([first, later]).tolist()
    assert len(set(map(tuple, masks))) == len(masks) == 24
    assert not torch.equal(nested, first)  # the layer behind drops others
    assert not torch.equal(last, later)
    assert 0.4 < first.float().mean() < 0.6


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.5, batch_first=True), head(4)[1]

    def forward(self, inputs):
        return self.out(self.inner(inputs).mean(1))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.inner, self.out = kind(4, 4, num_layers=2, dropout=0.5, batch_first=True), head(4)[1]

    def forward(self, inputs):
        return self.out(self.inner(inputs)[0][:, -1])


class Own(nn.Module):
    """A parameter of its own, so that no rule is there and everything is materialised."""

    def __init__(self):
        super().__init__()
        self.scale, self.drop, self.out = nn.Parameter(torch.ones(4)), nn.Dropout(0.5), head(4)[1]

    def forward(self, inputs):
        return self.out(self.drop(inputs * self.scale))


def convolution(dimensions, drop):
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dimensions - 1]
    return nn.Sequential(kind(1, 6, 2), drop(0.5), nn.Flatten(), nn.LazyLinear(3))


NETWORKS = {
    "Dropout1d": (partial(convolution, 1, nn.Dropout1d), (1, 5)),
    "Dropout2d": (partial(convolution, 2, nn.Dropout2d), (1, 4, 4)),
    "Dropout3d": (partial(convolution, 3, nn.Dropout3d), (1, 3, 3, 3)),
    "AlphaDropout": (lambda: nn.Sequential(nn.Linear(4, 8), nn.AlphaDropout(0.5), nn.Linear(8, 3)), (4,)),
    "FeatureAlphaDropout": (partial(convolution, 2, nn.FeatureAlphaDropout), (1, 4, 4)),
    "TransformerEncoderLayer": (Attention, (3, 4)),
    "LSTM": (partial(Recurrent, nn.LSTM), (3, 4)),
    "GRU": (partial(Recurrent, nn.GRU), (3, 4)),
    "materialised": (Own, (4,)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_dropout_of_torch_belongs_to_the_example(name, monkeypatch):
    build, shape = NETWORKS[name]
    torch.manual_seed(0)
    module, x, y = build(), torch.randn(12, *shape), torch.arange(12) % 3
    module(x)  # initialises lazy layers
    before = torch.get_rng_state()
    descent = recipe(steps=1, sampler=FullBatch(), clip=flat(0.01), microbatch=4)
    moved, *_ = step_without_last(descent, [module], x, y, monkeypatch)
    assert 0.2 < moved <= 1
    assert torch.equal(before, torch.get_rng_state())
    plain = first_sum(module.eval(), x, y)
    assert not torch.allclose(first_sum(module.train(), x, y), plain, rtol=0.05)


@pytest.mark.parametrize("kind", [nn.Dropout, nn.Dropout1d, nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_masks_keep_mean_and_deviation_as_torch_does(kind):
    torch.manual_seed(0)
    values = torch.randn(200, 300, 1) + 1
    stack = stacked([nn.Sequential(kind(0.3), nn.Linear(1, 1))])
    stack.draws = draws_of(200)
    ours, theirs = stack.module[0](values), kind(0.3)(values)
    for measure in (torch.mean, torch.std):
        torch.testing.assert_close(measure(ours), measure(theirs), rtol=0.02, atol=0.02)


def draws_of(rows, device="cpu"):
    return ExampleDraws(torch.arange(rows, device=device) * 1_234_567_891)


class Functional(nn.Linear):
    def forward(self, inputs):
        return F.dropout(super().forward(inputs), 0.5, self.training)


class OwnGenerator(nn.Linear):
    generator = torch.Generator().manual_seed(0)

    def forward(self, inputs):
        return super().forward(inputs) * torch.rand(len(inputs), 1, generator=self.generator)


class FrozenRecurrent(Recurrent):
    def __init__(self):
        super().__init__(nn.LSTM)
        self.inner.requires_grad_(False)


@pytest.mark.parametrize("kind", [partial(Functional, 4, 3), FrozenRecurrent, partial(OwnGenerator, 4, 3)])
def test_other_random_numbers_of_a_forward_pass_are_refused(kind):
    x = torch.randn(8, 3, 4) if kind is FrozenRecurrent else torch.randn(8, 4)
    with pytest.raises(Refused, match=r"draws random numbers in its forward pass|examples are not independent"):
        recipe().run(kind(), x, torch.zeros(8, dtype=torch.int64), noise=1.0, rows=8, rng=Rng(0))


@pytest.mark.cuda
@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("sampler", [FullBatch(), Poisson(rate=0.5)], ids=["full", "poisson"])
def test_captured_steps_have_the_masks_of_eager_ones(sampler, models):
    class Eager(Rng):
        """Another type than `Rng`: the engine then runs eagerly."""

    x, y = examples(40)
    descent = recipe(
        steps=5, sampler=sampler, copies=2, augment=lambda rows, draws: rows + draws.normal(rows.shape).to(rows)
    )
    trained = []
    for kind in (Rng, Eager):
        modules = [dropping() for _ in range(models)]
        population = members(modules, [0.0] * models)
        # Samples are drawn differently in a graph, so only full batches have the same examples.
        trained.append(descent.run_population(population, x, y, rows=40, rng=kind(3), device="cuda"))
    for one, other in zip(*trained, strict=True):
        assert torch.isfinite(flat_of(one)).all()
        if isinstance(sampler, FullBatch):
            torch.testing.assert_close(flat_of(one), flat_of(other), rtol=1e-4, atol=1e-5)


@pytest.mark.cuda
def test_masks_on_a_gpu_are_those_of_the_cpu():
    one, other = (draws_of(50, device).kept((50, 33), 0.3, torch.float32)[0] for device in ("cpu", "cuda"))
    assert torch.equal(one, other.cpu())
