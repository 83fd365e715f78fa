"""What the learners that train networks promise beyond the contract."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from privaware import accounting, datasets, models
from privaware.data import Data
from privaware.descent import ExampleDraws
from privaware.descent._example_draws import ExampleKey
from privaware.errors import WrongInput
from privaware.events import Approximate, Gaussian
from privaware.learners._networks import augmentation as _augmentation
from privaware.learners._networks.architecture import architecture, network_feature
from privaware.learners._networks.augmentation import GeneratorDraws, mirrored, shifted
from privaware.learners._networks.training import _recipes
from privaware.learners.dp_adam import DpAdam
from privaware.learners.dpsgd import DpSgd
from privaware.learners.frozen import Frozen
from privaware.learners.quantile_clip import QuantileClip
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import BrokenPromise, Recorder, check_mechanism, replay, rows_for
from privaware.testing._price import spent
from privaware.workflow.run.training_plan import training_plan

TABLE = Schema(
    columns=(Column(name="a", low=-1, high=1), Column(name="b", low=-1, high=1)), classes=("n", "y"), rows=400
)
QUIET = 1e-6


def ring() -> Data:
    """Inside against outside a circle: no linear model does it."""
    data = rows_for(TABLE, 400, seed=1)
    return replace(data, y=((data.x**2).sum(1) > 0.6).astype(np.int64))


@pytest.mark.parametrize("learner", [DpSgd(steps=400), DpAdam(steps=200), DpSgd(steps=400, clip="automatic")])
def test_network_without_noise_learns_a_nonlinear_target(learner: DpSgd | DpAdam) -> None:
    data = ring()
    model = learner.run(data, QUIET, Rng(seed=0))
    assert accuracy(data.y, model.predictions(data)) > 0.93


def test_each_network_of_a_population_gets_its_own_noise() -> None:
    data, learner = ring(), DpSgd(steps=400)
    quiet, loud = learner.run_population([learner] * 2, data, [QUIET, 1e3], Rng(seed=0))
    assert accuracy(data.y, quiet.predictions(data)) > 0.93
    sizes = [np.abs(model.tensors["output.weight"]).mean() for model in (quiet, loud)]
    assert sizes[1] > 50 * sizes[0]


def test_chance_of_an_overflow_is_part_of_the_price() -> None:
    plain, capped = DpSgd(steps=3, batch=40), DpSgd(steps=3, batch=40, overflow=1e-7)
    assert capped.cost(TABLE, 1.0) == plain.cost(TABLE, 1.0) + Approximate(epsilon=0.0, delta=1e-7)
    assert DpSgd(steps=3, batch=400, overflow=1e-7).cost(TABLE, 1.0) == 3 * Gaussian(noise=1.0)  # full batches
    with pytest.raises(WrongInput, match="overflow in"):
        DpSgd(overflow=1.0)


def test_quantile_clipping_norm_stays_between_its_bounds() -> None:
    """Gradients of a network that grows would carry it away, and the noise with it."""
    clip = QuantileClip(norm=4.0, clip_lr=9.0, least=0.05, most=10.0)._clip(1.0)
    norm = torch.tensor([4.0])
    assert clip.updated(norm, torch.tensor([0.0])).item() == 10.0
    assert clip.updated(norm, torch.tensor([1.0])).item() == pytest.approx(0.05)
    with pytest.raises(WrongInput, match="most"):
        QuantileClip(least=2.0, most=1.0)


def test_networks_are_grouped_by_noise_where_clipping_follows_it() -> None:
    clip = QuantileClip(steps=2)
    assert _recipes([DpSgd(steps=2, lr=lr) for lr in (1.0, 2.0)], [1.0, 2.0]) == [[0, 1]]
    assert _recipes([DpSgd(steps=2)] * 3, [0.0, 1.0, 0.0]) == [[0, 2], [1]]
    assert _recipes([clip] * 3, [1.0, 2.0, 1.0]) == [[0, 2], [1]]
    assert _recipes([replace(clip, count_noise=5.0)] * 2, [1.0, 2.0]) == [[0, 1]]


@pytest.mark.parametrize(
    "learner", [pytest.param(DpSgd(), marks=pytest.mark.slow), pytest.param(DpAdam(), marks=pytest.mark.slow), Frozen()]
)
def test_digits_are_learnt_at_epsilon_three(learner: DpSgd | DpAdam | Frozen) -> None:
    loaded = datasets.load("digits")
    schema = loaded.train.schema
    noise = accounting.calibrate(lambda noise: learner.cost(schema, noise), 3.0, 1e-5)
    model = learner.run(loaded.train, noise, Rng(seed=0))
    assert accuracy(loaded.test.y, model.predictions(loaded.test)) > 0.6


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_frozen_trains_exactly_the_last_layers(layers: int) -> None:
    deep = {"name": "fcn", "hidden": [8, 7, 6], "dropout": 0.0}
    learner = Frozen(architecture=deep, layers=layers, steps=3)
    model = learner.run(ring(), 1.0, Rng(seed=5))
    initial = models.build(architecture(deep, TABLE, (network_feature(TABLE),)), Rng(seed=5).initial).state_dict()
    changed = {name.split(".")[0] for name in initial if not np.array_equal(initial[name], model.tensors[name])}
    assert changed == set(["output", "dense3", "dense2"][:layers])


def test_frozen_has_the_published_number_of_trained_parameters() -> None:
    module = models.build(models.named()["bao.fcn.mnist.1362122"].description)
    Frozen(layers=2)._freeze(module)
    assert sum(p.numel() for p in module.parameters() if p.requires_grad) == 33_482


@pytest.mark.parametrize("clip", ["flat", "per_layer", "automatic", "quantile"])
@pytest.mark.parametrize("batch", [40, 400])
def test_cost_equals_the_recorded_calls(clip: str, batch: int) -> None:
    learner = DpSgd(steps=4, batch=batch, clip=clip)
    recorder = Recorder(seed=1)
    learner.run(ring(), 2.0, recorder)
    epsilon = accounting.epsilon(spent(recorder.calls), 1e-5)
    assert epsilon == pytest.approx(accounting.epsilon(learner.cost(TABLE, 2.0), 1e-5), rel=1e-6)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 3, 3), (3, 5, 17), (2, 8, 8), (1, 28, 28)])
def test_default_network_exists_for_images_of_any_size(shape: tuple[int, int, int]) -> None:
    schema = Schema(form="image", shape=shape, classes=("n", "y"), rows=40)
    data = rows_for(schema, 12)
    model = DpSgd(steps=1).run(data, 1.0, Rng(seed=0))
    assert np.isfinite(model.outputs(data.x)).all()


def test_shifted_copies_are_translations() -> None:
    images = torch.arange(32.0).view(1, 1, 4, 8).repeat(50, 1, 1, 1)
    copies = shifted(images, GeneratorDraws(torch.Generator().manual_seed(1)))
    assert set(copies.flatten().tolist()) <= set(images.flatten().tolist())
    assert not torch.equal(copies[0], copies[1]) or not torch.equal(copies[0], copies[2])


def test_every_second_copy_is_mirrored() -> None:
    images = torch.arange(5.0 * 12).view(5, 1, 3, 4).repeat_interleave(2, 0)
    flipped = mirrored(images, GeneratorDraws(torch.Generator()))
    assert torch.equal(flipped[0::2], images[0::2])
    assert torch.equal(flipped[1::2], images[1::2].flip(-1))
    for copies in (1, 3):
        with pytest.raises(WrongInput, match="try copies = 2"):
            DpSgd(mirror=True, copies=copies)
    schema = Schema(form="image", shape=(1, 6, 6), classes=("n", "y"), rows=40)
    rows = rows_for(schema, 12)
    learners = (DpSgd(steps=2, copies=2, mirror=way) for way in (True, False))
    nets = [learner.run(rows, 1.0, Rng(seed=0)) for learner in learners]
    assert not np.allclose(*(net.outputs(rows.x) for net in nets))


@pytest.mark.parametrize("every", [2, 3])
def test_mirrored_copies_keep_the_contract(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mirroring every third copy is a planted bug: a row's position decides which are, so later rows change."""

    def flipped(images: torch.Tensor, _: ExampleDraws) -> torch.Tensor:
        copies = images.clone()
        copies[1::every] = images[1::every].flip(-1)
        return copies

    if every != 2:
        monkeypatch.setattr(_augmentation, "mirrored", flipped)
    schema = Schema(form="image", shape=(1, 3, 3), classes=("n", "y"), rows=40)
    right = every == 2
    with contextlib.nullcontext() if right else pytest.raises(BrokenPromise, match="sensitivity"):
        check_mechanism(DpSgd(steps=2, copies=2, mirror=True), schema=schema, games=0)


def test_architecture_that_does_not_fit_is_refused_by_cost() -> None:
    for wrong in ({"name": "fcn", "inputs": 9, "hidden": [4]}, {"name": "fcn", "hidden": [4], "outputs": 3}):
        with pytest.raises(WrongInput, match="expected an architecture"):
            DpSgd(architecture=wrong).cost(TABLE, 1.0)
    with pytest.raises(WrongInput, match="expected images without features"):
        DpSgd(copies=2).cost(TABLE, 1.0)


def test_device_and_progress_are_no_part_of_the_plan() -> None:
    reported: list[int] = []
    runtime = {"device": "cpu", "progress": lambda step, steps, left: reported.append(step)}
    plan = training_plan(TABLE, epsilon=1.0, delta=1e-5, learner="dpsgd", settings={"steps": 3}, runtime=runtime)
    assert plan.settings == {"steps": 3}
    plan.mechanism.run(ring(), plan.noise, Rng(seed=0))
    assert reported == [1, 2, 3]
    training_plan(TABLE, epsilon=1.0, delta=1e-5, learner="linear", runtime=runtime)


def test_population_equals_networks_trained_one_by_one() -> None:
    fcn = {"name": "fcn", "dropout": 0.0}
    recipes = [
        DpSgd(steps=20, lr=1.0, architecture={**fcn, "hidden": [6], "activation": "tanh"}),
        DpSgd(steps=20, lr=2.0, architecture={**fcn, "hidden": [6], "activation": "relu"}),
        DpSgd(steps=20, lr=2.0, architecture={**fcn, "hidden": [9], "activation": "relu"}),
        DpSgd(steps=30, norm=0.3, architecture={**fcn, "hidden": [6, 4]}),
        DpSgd(steps=30, architecture={**fcn, "hidden": [6, 4]}, trainable=[False, True, True]),
    ]
    data = ring()
    initials = [one.truncated(TABLE, 0.1).run(data, QUIET, Rng(seed=at)) for at, one in enumerate(recipes)]
    learners = [replace(one, initial=initial, batch=400) for one, initial in zip(recipes, initials, strict=True)]
    together = DpSgd.run_population(learners, data, QUIET, Rng(seed=0))
    for one, initial, model in zip(learners, initials, together, strict=True):
        alone = one.run(data, QUIET, Rng(seed=1))
        assert model.architecture == alone.architecture
        for name, value in alone.tensors.items():
            assert np.abs(model.tensors[name] - value).max() < 1e-3
            frozen = one.trainable is not None and name.startswith("dense1")
            assert np.array_equal(initial.tensors[name], value) == frozen


def test_network_with_features_names_the_expected_shape() -> None:
    schema = datasets.schema("digits")
    halved = DpSgd(features=[{"name": "max_pool"}], architecture={"name": "fcn", "hidden": [5]}, steps=2)
    rows = rows_for(schema, 40)
    model = halved.run(rows, 1.0, Rng(seed=0))
    assert model.architecture["inputs"] == 16
    assert model.predictions(rows).shape == (40,)
    for wrong in ({"trainable": [True]}, {"features": [{"name": "nothing"}]}):
        with pytest.raises(WrongInput, match="expected"):
            DpSgd(**wrong).cost(schema, 1.0)
    for wrong in ({"trainable": 3}, {"features": "scatter"}):
        with pytest.raises(WrongInput, match="as a list"):
            DpSgd(**wrong)
    with pytest.raises(WrongInput, match="expected initial as a model"):  # not after the charge
        DpSgd(initial="model")  # type: ignore[arg-type]


def _replay_with_dropout(learner: DpSgd) -> None:
    """Without one row, wherever it stands, both ways."""
    for size in (8, 33):
        rows = rows_for(TABLE, size)
        for at in (0, size // 2, size - 1):
            without = rows.take(np.delete(np.arange(size), at))
            replay(learner, rows, without, 1.0, seed=at)
            replay(learner, without, rows, 1.0, seed=at)


@pytest.mark.parametrize("batch", [150, 80], ids=["full batches", "samples"])
def test_one_row_moves_a_step_by_its_gradient_only_under_dropout(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    network = {"name": "fcn", "hidden": [8, 8], "dropout": 0.5, "activation": "tanh"}
    _replay_with_dropout(DpSgd(architecture=network, steps=3, batch=batch))
    # A planted bug: masks that belong to the slots of a microbatch.
    draws = ExampleKey.draws
    monkeypatch.setattr(
        ExampleKey, "draws", lambda self, numbers, *more: draws(self, torch.arange(len(numbers)), *more)
    )
    with pytest.raises(BrokenPromise, match="sensitivity exceeded"):
        _replay_with_dropout(DpSgd(architecture=network, steps=3, batch=batch))
