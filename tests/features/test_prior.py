"""The prior is made of noise alone, made again from its seed, and reads one row at a time."""

from __future__ import annotations

import hashlib
import io
import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import prior_finetune
from benchmarks.prior_heads import Head, accuracies, gaussian_noise, train
from privaware import accounting, features, fit
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.features._prior_augmentation import DRAWS, view
from privaware.features._prior_images import Images, generator_for, leaves, textures
from privaware.features._prior_maps import trunk
from privaware.features._prior_simclr import Pretraining, Recipe, contrast
from privaware.features._prior_weights import measure, measure_scattering, save
from privaware.features._prior_whitening import Statistics, by_mode, coefficients, walsh
from privaware.features.prior import SHIPPED, Prior
from privaware.learners.linear import Linear
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.workflow.predict import load

ROOT = Path(__file__).parents[2]

SOURCE = Images(seed=3, size=24, generators=2, each=4)
TINY = Recipe(seed=5, images=16, size=24, generators=1, each=4, depth=10, width=1, batch=4, warmup=2)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file as the command writes it, of an untrained network with three blocks."""
    file = tmp_path_factory.mktemp("prior") / "prior.safetensors"
    network = trunk(10, 1, np.random.default_rng(1))
    asked = {"rows": 32, "first": 9, "device": "cpu"}
    statistics = measure(network, SOURCE, depths=(0, 2), pools=(4, 2), normed=False, **asked)
    facts = {"depth": "10", "width": "1"}
    save(file, network, statistics, measure_scattering(SOURCE, **asked), False, facts)
    return str(file)


@pytest.fixture
def prior(weights: str) -> Prior:
    return Prior(weights=weights, depths=(0, 2), pools=(4, 2))


def test_images_come_from_their_seed_alone() -> None:
    made = SOURCE.make(24)
    assert torch.equal(made, SOURCE.make(24))
    assert torch.equal(made[16:], SOURCE.make(8, first=1))
    assert not torch.equal(made, replace(SOURCE, seed=4).make(24))
    each = made.flatten(1).float()
    assert each.std(1).min() > 1  # no image is blank
    assert torch.cdist(each, each).fill_diagonal_(math.inf).min() > 100  # and no two are alike


def test_textures_and_leaves_are_finite_and_in_range() -> None:
    g = generator_for(1, "test", 0, "cpu")
    bank = textures(2, 3, 32, g)
    for made in (bank, leaves(5, 7, bank, g)):
        assert made.isfinite().all()
        assert made.min() >= 0
        assert made.max() <= 1


def test_a_view_without_change_is_the_image() -> None:
    images = torch.rand(2, 3, 16, 16)
    draws = torch.tensor([[1.0, 0.5, 0.5, 0.5, 1.0, 0.9, 0.1, 0.1, 0.1, 0.1, 0.9]]).expand(2, DRAWS)
    assert torch.allclose(view(images, draws, 16), images * 2 - 1, atol=1e-5)
    flipped, grey = draws.clone(), draws.clone()
    flipped[:, 4], grey[:, 10] = 0.0, 0.0
    assert torch.allclose(view(images, flipped, 16), images.flip(3) * 2 - 1, atol=1e-5)
    assert view(images, grey, 16).std(1).max() < 1e-6


def test_the_loss_is_that_of_a_plain_loop() -> None:
    first, second = torch.randn(3, 5), torch.randn(3, 5)
    both = [row / row.norm() for row in torch.cat([first, second])]
    losses = []
    for i in range(6):
        scores = {j: math.exp(float(both[i] @ both[j]) / 0.2) for j in range(6) if j != i}
        losses.append(-math.log(scores[(i + 3) % 6] / sum(scores.values())))
    assert float(contrast(first, second, 0.2)) == pytest.approx(np.mean(losses), rel=1e-5)


def test_training_goes_on_exactly_where_it_was() -> None:
    through = Pretraining(TINY)
    for step in range(4):
        through.step(step / 4)
        if step == 1:
            file = io.BytesIO()
            torch.save(through.state(), file)
    file.seek(0)
    resumed = Pretraining(TINY)
    resumed.load(torch.load(file, weights_only=True))
    for step in (2, 3):
        resumed.step(step / 4)
    expected = through.both.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in resumed.both.state_dict().items())
    with pytest.raises(WrongInput, match="expected a checkpoint of"):
        Pretraining(replace(TINY, lr=1e-4)).load(through.state())


def test_training_learns_views_by_heart() -> None:
    training = Pretraining(replace(TINY, batch=6, images=64, lr=3e-3, warmup=1))
    losses = []
    for _ in range(6):
        training.step_number = 0  # the same images and the same views again
        losses.append(float(training.step(0.0)))
    assert losses[-1] < losses[0] - 0.3


def test_walsh_functions_are_orthonormal_and_nested() -> None:
    for pool in (1, 2, 4):
        assert torch.allclose(walsh(pool) @ walsh(pool).T, torch.eye(pool * pool), atol=1e-6)
    maps = torch.randn(3, 2, 4, 4)
    coarse = torch.nn.functional.avg_pool2d(maps, 2)
    assert torch.allclose(coefficients(coarse), coefficients(maps)[..., :4] / 2, atol=1e-6)


def test_whitened_columns_have_no_correlation_left() -> None:
    torch.manual_seed(0)
    mixed = torch.einsum("dc,rchw->rdhw", torch.eye(5) + 0.6, torch.randn(4000, 5, 4, 4))
    maps = [mixed, torch.nn.functional.avg_pool2d(mixed[:, :3] + torch.randn(4000, 3, 4, 4), 2)]
    stored = Statistics.of(maps_in_batches(maps), (0, 1), (4, 2))
    kept = Statistics.read(stored.tensors(), stored.facts())
    for pools in ((4, 2), (2, 2), (2, 1)):
        fewer = [torch.nn.functional.adaptive_avg_pool2d(m, p) for m, p in zip(maps, pools)]
        rows = kept.whitening((0, 1), pools, 0.5)(fewer)
        assert rows.mean(0).abs().max() < 0.05
        at = 0
        for block in by_mode([coefficients(m) for m in fewer]):
            some = rows[:, at : at + block.shape[1]]
            assert (some.T @ some / len(some) - torch.eye(some.shape[1])).abs().max() < 0.35
            assert (torch.corrcoef(some.T) - torch.eye(some.shape[1])).abs().max() < 0.1
            at += block.shape[1]


def maps_in_batches(maps: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    return [[m[at : at + 1500] for m in maps] for at in range(0, 4000, 1500)]


@pytest.mark.parametrize(("shape", "scatter"), [((3, 32, 32), 0.0), ((1, 28, 28), 1.0), ((3, 21, 45), 0.0)])
def test_a_row_depends_on_its_image_alone_and_is_bounded(
    prior: Prior, shape: tuple[int, int, int], scatter: float
) -> None:
    feature = replace(prior, scatter=scatter, norm=0.7)
    images = np.random.default_rng(2).random((4, *shape), dtype=np.float32)
    images[1] = 0
    images[2, :, :3] = [[[np.nan], [np.inf], [-np.inf]]] * shape[0]
    rows = feature(images)
    assert rows.shape == (4, feature.width())
    assert np.isfinite(rows).all()
    assert np.linalg.norm(rows, axis=1).max() <= 0.7 * (1 + 1e-5)
    for at in range(4):
        assert feature(images[at : at + 1])[0] == pytest.approx(rows[at], abs=1e-5)


def test_grey_is_colour_with_equal_channels(prior: Prior) -> None:
    grey = np.random.default_rng(3).random((2, 1, 28, 28), dtype=np.float32)
    assert prior(grey) == pytest.approx(prior(np.repeat(grey, 3, axis=1)), abs=1e-5)


def test_a_mirror_image_gives_the_same_row_unless_told(prior: Prior) -> None:
    images = np.random.default_rng(4).random((2, 3, 32, 32), dtype=np.float32)
    other = np.ascontiguousarray(images[..., ::-1])
    assert prior(images) == pytest.approx(prior(other), abs=1e-5)
    one_sided = replace(prior, mirror=False)
    assert np.abs(one_sided(images) - one_sided(other)).max() > 1e-3


def test_fields_come_back_from_a_model_folder(prior: Prior) -> None:
    described = json.loads(json.dumps(features.describe(prior)))
    assert features.build(described) == prior


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"weights": "nowhere.safetensors"}, "are not here"),
        ({"depths": (0, 7)}, "depths from 0 to 2"),
        ({"depths": (1, 2)}, "depths with stored statistics"),
        ({"pools": (4, 4)}, "depths with stored statistics"),
        ({"normed": True}, "normed=False"),
    ],
)
def test_what_cannot_be_made_is_said(prior: Prior, wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(WrongInput, match=sentence):
        replace(prior, **wrong)(np.zeros((1, 3, 32, 32), np.float32))


@pytest.mark.parametrize("wrong", [{"depths": ()}, {"pools": (4,)}, {"whiten": 0.7}, {"norm": 0.0}, {"scatter": -1.0}])
def test_wrong_fields_are_refused_at_birth(wrong: dict[str, object]) -> None:
    with pytest.raises(WrongInput, match="prior: expected"):
        Prior(**wrong)  # type: ignore[arg-type]


def test_a_damaged_file_is_refused(prior: Prior, tmp_path: Path) -> None:
    broken = tmp_path / "prior.safetensors"
    broken.write_bytes(Path(str(prior.weights)).read_bytes()[:1000])
    with pytest.raises(WrongInput, match=r"as `python -m benchmarks\.prior` writes it"):
        replace(prior, weights=str(broken))(np.zeros((1, 3, 32, 32), np.float32))


def test_shipped_weights_are_those_of_the_note() -> None:
    note = json.loads(SHIPPED.with_suffix(".json").read_text())
    assert hashlib.sha256(SHIPPED.read_bytes()).hexdigest() == note["sha256"]
    assert {"before", "command", "seed", "commit"} <= set(note)
    assert SHIPPED.stat().st_size < 10_000_000
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = shipped["package-data"]["privaware"]
    for file in (SHIPPED, SHIPPED.with_suffix(".json")):
        assert any(file.relative_to(ROOT / "privaware").match(pattern) for pattern in patterns)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 19, 50)])
def test_shipped_features_are_ready_for_any_image(shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(1).random((2, *shape), dtype=np.float32)
    both = Prior(scatter=1.0)
    rows, alone = both(images), Prior()(images)
    assert rows.shape == (2, both.width())
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-4)
    own = rows[:, : alone.shape[1]] * np.sqrt(2)
    assert own == pytest.approx(alone, abs=1e-4)  # scattering stands beside, with equal weight


def test_what_was_learned_tells_synthetic_images_apart() -> None:
    """Two crops of one image it has never seen are nearer in the last map than crops of another image."""
    images = Images(seed=99, generators=2, each=8).make(32).float().numpy() / 255
    deep = Prior(depths=(5,), pools=(1,))
    first, second = deep(images[..., 2:42, 2:42]), deep(images[..., 6:46, 6:46])
    likeness = first @ second.T
    assert (likeness.argmax(1) == np.arange(32)).mean() > 0.9


def test_the_measured_head_is_the_linear_learner() -> None:
    assert gaussian_noise(1.0, 1e-5) == pytest.approx(3.730631, rel=1e-5)
    schema = Schema(form="image", shape=(1, 3, 4), classes=tuple("0123456789"), rows=200)
    learner = Linear(features=[{"name": "bounded"}])
    for epsilon, many in ((0.1, 200), (1.0, 60_000), (20.0, 60_000)):
        found = learner.step_size(replace(schema, rows=many), Head().noise(epsilon))
        assert Head().lr(epsilon, many) == pytest.approx(found)
    rng = np.random.default_rng(0)
    data = Data(schema=schema, x=rng.random((200, 1, 3, 4), dtype=np.float32), y=rng.integers(0, 10, 200))
    quiet = replace(learner, lr=4.0).run(data, 1e-9, Rng(seed=1))
    rows = torch.from_numpy(features.apply(quiet.features, data.x, schema))
    labels = torch.from_numpy(data.y)
    weights, bias = train(Head(), rows, labels, torch.zeros(1), torch.tensor([4.0]), seed=1)
    assert quiet.tensors["output.weight"] == pytest.approx(weights[:, 0].T.numpy(), abs=1e-4)
    assert quiet.tensors["output.bias"] == pytest.approx(bias[0].numpy(), abs=1e-4)
    noisy = train(Head(), rows, labels, torch.tensor([1e4]), torch.tensor([4.0]), seed=1)
    assert float(accuracies(noisy, rows, labels)[0]) < 0.5


def test_a_linear_model_on_the_prior_is_fitted_saved_and_found_again(tmp_path: Path) -> None:
    made = Images(seed=98, generators=4, each=8).make(64).numpy()
    labels = np.array(["texture", "leaves"])[np.arange(64) % 2]
    np.savez(tmp_path / "images.npz", x=made, y=labels)
    done = fit(
        tmp_path / "images.npz",
        epsilon=200.0,
        accept_schema=True,
        learner="linear",
        settings={"features": [{"name": "prior", "scatter": 1.0}], "steps": 30},
        out=tmp_path / "model",
        seed=1,
    )
    again = load(tmp_path / "model")
    x = made.astype(np.float32) / 255
    codes = np.array([again.schema.classes.index(label) for label in labels])
    assert (again.decide(again.outputs(x)) == codes).mean() > 0.9
    assert again.outputs(x) == pytest.approx(done.model.outputs(x), abs=1e-5)


def test_features_that_do_not_fit_are_refused_before_the_charge() -> None:
    table = Schema(columns=(Column(name="c", low=0, high=1),), classes=("a", "b"), rows=50)
    with pytest.raises(WrongInput, match="prior: expected images"):
        Linear(features=[{"name": "prior"}]).cost(table, 1.0)
    with pytest.raises(WrongInput, match="expected a feature named"):
        Linear(features=[{"name": "priour"}]).cost(table, 1.0)
    with pytest.raises(WrongInput, match="features as a list"):
        Linear(features="prior")  # type: ignore[arg-type]


def test_fine_tuning_has_the_noise_of_its_budgets_and_begins_at_the_prior() -> None:
    noise = json.loads(prior_finetune.PRICES.read_text())["noise"]
    for epsilon, level in noise.items():
        spent = prior_finetune.recipe(lr=1.0, copies=2).cost(level)
        paid = accounting.epsilon(spent, prior_finetune.DELTA)
        assert 0.99 * float(epsilon) < paid <= float(epsilon)
    network = prior_finetune.begun()
    images = torch.rand(2, 3, 32, 32)
    shown = Prior(depths=(5,), pools=(1,), whiten=0.0, mirror=False, norm=1.0)(images)
    pooled = network[:-1](images * 2 - 1)
    assert torch.allclose(torch.nn.functional.normalize(pooled, dim=1), shown, atol=1e-4)
    assert not network.output.weight.any()
    moved = prior_finetune.moved(images, torch.Generator().manual_seed(1))
    assert moved.shape == images.shape
    assert not torch.equal(moved, images)
