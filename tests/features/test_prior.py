"""The prior features: one row at a time, bounded, and from the shipped weights."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from privaware import features, fit
from privaware.descent._precision import matmul_precision
from privaware.errors import WrongInput
from privaware.features._prior.maps import backbone
from privaware.features._prior.student import LARGEST_ACTIVATION, load_student
from privaware.features._prior.weights import load as load_weights
from privaware.features.prior import NETWORKS, Prior
from privaware.learners.linear import Linear
from privaware.models import build
from privaware.schema import Column, Schema
from privaware.workflow.load import load
from research.pretraining.images import SyntheticImages
from research.pretraining.prior_statistics import measure, measure_scattering
from research.pretraining.weights_files import save_prior, statistics_tensors

pytestmark = pytest.mark.cuda(instead="cpu")  # the prior takes a GPU where there is one


@pytest.fixture(autouse=True)
def float32() -> Iterator[None]:
    """Convolutions on a GPU use TF32 unless it is switched off, which is less exact than these tests are."""
    with matmul_precision("float32"):
        yield


ROOT = Path(__file__).parents[2]
SOURCE = SyntheticImages(seed=3, size=24, generators=2, each=4)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A weights file of an untrained network with three blocks."""
    file = tmp_path_factory.mktemp("prior") / "prior.safetensors"
    network = backbone(10, 1, np.random.default_rng(1))
    statistics = measure(network, SOURCE, rows=32, first=9, depths=(0, 2), pools=(4, 2), normed=False)
    metadata = {"depth": "10", "width": "1"}
    save_prior(file, network, statistics, measure_scattering(SOURCE, rows=32, first=9, device="cpu"), False, metadata)
    return str(file)


@pytest.fixture
def prior(weights: str) -> Prior:
    return Prior(weights=weights, depths=(0, 2), pools=(4, 2))


@pytest.mark.parametrize(("shape", "scatter"), [((3, 32, 32), 0.0), ((1, 28, 28), 1.0), ((3, 21, 45), 0.0)])
def test_row_depends_on_its_image_only_and_has_bounded_norm(
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


def test_grey_image_equals_colour_image_with_equal_channels(prior: Prior) -> None:
    grey = np.random.default_rng(3).random((2, 1, 28, 28), dtype=np.float32)
    assert prior(grey) == pytest.approx(prior(np.repeat(grey, 3, axis=1)), abs=1e-5)


def test_mirror_image_has_the_same_row_unless_mirror_is_false(prior: Prior) -> None:
    images = np.random.default_rng(4).random((2, 3, 32, 32), dtype=np.float32)
    flipped = np.ascontiguousarray(images[..., ::-1])
    assert prior(images) == pytest.approx(prior(flipped), abs=1e-5)
    one_sided = replace(prior, mirror=False)
    assert np.abs(one_sided(images) - one_sided(flipped)).max() > 1e-3


def test_description_round_trips_through_json(prior: Prior) -> None:
    description = json.loads(json.dumps(features.describe(prior)))
    assert features.build(description) == prior


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"weights": "nowhere.safetensors"}, "are missing"),
        ({"depths": (0, 7)}, "depths from 0 to 2"),
        ({"depths": (1, 2)}, "depths with stored statistics"),
        ({"pools": (4, 4)}, "depths with stored statistics"),
        ({"normed": True}, "normed=False"),
    ],
)
def test_unavailable_depths_or_weights_are_refused(prior: Prior, wrong: dict[str, object], message: str) -> None:
    with pytest.raises(WrongInput, match=message):
        replace(prior, **wrong)(np.zeros((1, 3, 32, 32), np.float32))


@pytest.mark.parametrize(
    "wrong",
    [{"depths": (3, 1)}, {"network": "tiny"}, {"pools": (4,)}, {"whiten": 0.7}, {"norm": 0.0}, {"scatter": -1.0}],
)
def test_invalid_fields_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(WrongInput, match="prior: expected"):
        Prior(**wrong)  # type: ignore[arg-type]


def test_damaged_weights_file_is_refused(prior: Prior, tmp_path: Path) -> None:
    broken = tmp_path / "prior.safetensors"
    broken.write_bytes(Path(str(prior.weights)).read_bytes()[:1000])
    with pytest.raises(WrongInput, match=r"as `privaware reproduce ours/prior/weights` writes it"):
        replace(prior, weights=str(broken))(np.zeros((1, 3, 32, 32), np.float32))


@pytest.mark.parametrize("network", NETWORKS)
def test_shipped_weights_match_their_checksum_and_are_packaged(network: str) -> None:
    file = NETWORKS[network].file
    note = json.loads(file.with_suffix(".json").read_text())
    assert hashlib.sha256(file.read_bytes()).hexdigest() == note["sha256"]
    assert all(note[fact] for fact in ("command", "seed", "commit"))
    assert file.stat().st_size < {"large": 4_500_000, "small": 7_000_000, "glyphs": 2_500_000}[network]
    if NETWORKS[network].predicts:
        assert load_student(file).shape.columns == Prior(network=network).width()
    else:
        assert load_weights(file).shape[:2] == NETWORKS[network].shape
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = shipped["package-data"]["privaware"]
    for path in (file, file.with_suffix(".json")):
        assert any(path.relative_to(ROOT / "privaware").match(pattern) for pattern in patterns)


def test_description_names_the_weights_and_others_are_refused() -> None:
    description = json.loads(json.dumps(features.describe(Prior(network="small"))))
    assert features.build(description) == Prior(network="small")
    older = {("size" if name == "network" else name): value for name, value in description.items()}
    assert features.build(older) == Prior(network="small")
    with pytest.raises(WrongInput, match=r"weights 'feed'.*fit it again"):
        features.build({**description, "checksum": "feed"})
    with pytest.raises(WrongInput, match="does not ship any more"):
        features.build({name: value for name, value in description.items() if name not in ("network", "checksum")})


def test_model_of_half_precision_weights_loads_with_a_warning() -> None:
    older = {"name": "prior", "network": "small", "mirror": False, "glyphs": 0.5, "scatter": 0.0}
    older |= {"depths": [], "pools": [], "whiten": 0.3, "normed": False, "norm": 1.0, "weights": None}
    older |= {"checksum": "9de84c0f8d9aa613+b7792a3cfa0392db"}
    with pytest.warns(UserWarning, match="install the version it was fitted with"):
        feature = features.build(older)
    with pytest.warns(UserWarning, match="rounded to eight bits"):
        assert features.build(features.describe(feature)) == feature
    images = np.random.default_rng(6).random((2, 3, 32, 32), dtype=np.float32)
    assert np.array_equal(feature(images), Prior(network="small", glyphs=0.5)(images))


def test_weights_file_in_half_precision_is_still_read(weights: str, tmp_path: Path) -> None:
    rounded = load_weights(weights)
    tensors = {f"network.{name}": value.half() for name, value in rounded.network.state_dict().items()}
    tensors |= {name: value for name, value in statistics_tensors(rounded.statistics).items() if "root" not in name}
    for mode, block in enumerate(rounded.statistics.covariances):
        at = torch.triu_indices(*block.shape)
        tensors[f"covariance.{mode}"] = block[at[0], at[1]].half()
    file = tmp_path / "half.safetensors"
    save_file({name: value.contiguous() for name, value in tensors.items()}, str(file), dict(rounded.metadata))
    images = np.random.default_rng(7).random((2, 3, 32, 32), dtype=np.float32)
    new, old = (Prior(weights=str(each), depths=(0, 2), pools=(4, 2))(images) for each in (weights, file))
    assert (np.linalg.norm(new - old, axis=1) < 0.05).all()


@pytest.mark.parametrize("network", ["large", "glyphs"])
def test_network_with_an_output_layer_reads_the_same_features(network: str) -> None:
    prior = Prior(network=network, mirror=False)
    trainable = build(prior.architecture(3), device="meta")
    output = {"output.weight": torch.eye(3, prior.width()), "output.bias": torch.zeros(3)}
    trainable.load_state_dict(prior.network_tensors() | output, assign=True)
    images = np.random.default_rng(5).random((2, 3, 20, 24), dtype=np.float32)
    inputs = torch.from_numpy(features.build({"name": "prior_inputs"})(images))
    assert trainable(inputs).detach().numpy() == pytest.approx(prior(images)[:, :3], abs=1e-5)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 19, 50)])
def test_shipped_features_take_images_of_any_size(shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(1).random((2, *shape), dtype=np.float32)
    both = Prior(scatter=1.0)
    rows, alone = both(images), Prior()(images)
    assert rows.shape == (2, both.width())
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-4)
    network = rows[:, : alone.shape[1]] * np.sqrt(2)
    assert network == pytest.approx(alone, abs=1e-4)  # scattering is concatenated with equal weight


@pytest.mark.slow
def test_small_network_predicts_the_large_one() -> None:
    """Products of rows, which are all that a linear model sees, agree on held-out images."""
    images = SyntheticImages(seed=97, generators=2, each=16).generate(32).float().numpy() / 255
    large, small = Prior()(images), Prior(network="small")(images)
    apart = ~np.eye(32, dtype=bool)
    agreement = np.corrcoef((large @ large.T)[apart], (small @ small.T)[apart])[0, 1]
    assert agreement > 0.8


def test_small_network_has_no_maps_to_choose_or_train() -> None:
    for wrong in ({"depths": (2,)}, {"pools": (1,)}, {"whiten": 0.5}, {"normed": True}):
        with pytest.raises(WrongInput, match="no choice of maps for the small network"):
            Prior(network="small", **wrong)  # type: ignore[arg-type]
    with pytest.raises(WrongInput, match="expected network=large or network=glyphs"):
        Prior(network="small").architecture(3)


def test_small_network_gives_finite_rows_in_half_precision() -> None:
    """No sum of a layer can leave half precision, whatever the image: activations end at `LARGEST_ACTIVATION`."""
    student = load_student(Prior(network="small").file).float()
    for part in student.modules():
        if isinstance(part, torch.nn.Conv2d) and part.bias is not None:
            inputs = 1.0 if part is student.stem else LARGEST_ACTIVATION
            largest = part.weight.abs().sum((1, 2, 3)) * inputs + part.bias.abs()
            assert largest.max() < torch.finfo(torch.float16).max / 4
    checkers = np.indices((32, 32)).sum(0)[None, None] % 2
    noise = np.random.default_rng(3).random((3, 3, 32, 32), dtype=np.float32)
    images = (checkers.astype(np.float32), noise, (noise > 0.5).astype(np.float32))
    rows = np.concatenate([Prior(network="small")(each) for each in images])
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-3)
    products = rows @ rows.T
    assert products[~np.eye(7, dtype=bool)].max() < 0.99  # and images that it never met are told apart


def test_mirrored_rows_of_small_network_ignore_mirroring() -> None:
    images = np.random.default_rng(4).random((3, 3, 32, 32), dtype=np.float32)
    both, one = Prior(network="small", mirror=True), Prior(network="small")
    assert both(images) == pytest.approx(both(images[..., ::-1].copy()), abs=2e-3)
    assert np.abs(one(images) - one(images[..., ::-1].copy())).max() > 2e-3


@pytest.mark.parametrize("deep", [Prior(depths=(5,), pools=(1,)), Prior(network="small")], ids=["large", "small"])
def test_pretrained_features_match_crops_of_held_out_images(deep: Prior) -> None:
    """Two crops of one held-out image are nearer than crops of other images."""
    images = SyntheticImages(seed=99, generators=2, each=8).generate(16).float().numpy() / 255
    first, second = deep(images[..., 2:42, 2:42]), deep(images[..., 6:46, 6:46])
    similarity = first @ second.T
    assert (similarity.argmax(1) == np.arange(16)).mean() > 0.9


def test_linear_model_on_the_prior_is_fitted_saved_and_loaded(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert", reason="the report of a model needs vl-convert-python")
    images = SyntheticImages(seed=98, generators=4, each=4).generate(16).numpy()
    labels = np.array(["texture", "leaves"])[np.arange(16) % 2]
    np.savez(tmp_path / "images.npz", x=images, y=labels)
    result = fit(
        tmp_path / "images.npz",
        epsilon=200.0,
        accept_schema=True,
        learner="linear",
        settings={"features": [{"name": "prior", "scatter": 1.0}], "steps": 30},
        out=tmp_path / "model",
        seed=1,
    )
    again = load(tmp_path / "model")
    x = images.astype(np.float32) / 255
    codes = np.array([again.schema.classes.index(label) for label in labels])
    outputs = again.outputs(x)
    assert (again.decide(outputs) == codes).mean() > 0.9
    assert outputs[:4] == pytest.approx(result.model.outputs(x[:4]), abs=1e-5)


def test_unfitting_features_are_refused_before_the_charge() -> None:
    table = Schema(columns=(Column(name="c", low=0, high=1),), classes=("a", "b"), rows=50)
    with pytest.raises(WrongInput, match="prior: expected images"):
        Linear(features=[{"name": "prior"}]).cost(table, 1.0)
    with pytest.raises(WrongInput, match="expected a feature named"):
        Linear(features=[{"name": "priour"}]).cost(table, 1.0)
    with pytest.raises(WrongInput, match="features as a list"):
        Linear(features="prior")  # type: ignore[arg-type]
