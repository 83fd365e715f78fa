"""Views of the prior: one row at a time, the same for mirror images, and from the shipped statistics."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from privaware import features
from privaware.descent._precision import matmul_precision
from privaware.errors import WrongInput
from privaware.features._prior.maps import backbone, preprocess
from privaware.features._prior.shipped import SHIPPED, SHIPPED_VIEWS
from privaware.features._prior.views import THRESHOLD, stored_view_whitening, views
from privaware.features._prior.whitening import Statistics
from privaware.features.prior import Prior
from privaware.features.prior_views import PriorViews
from research.pretraining.images import SyntheticImages
from research.pretraining.prior_statistics import measure, measure_scattering
from research.pretraining.prior_views import POWER, RIDGE, CodeMoments, learn_dictionary, measure_views
from research.pretraining.weights_files import save_prior, save_views

pytestmark = pytest.mark.cuda(instead="cpu")  # the prior takes a GPU where there is one


@pytest.fixture(autouse=True)
def float32() -> Iterator[None]:
    """Convolutions on a GPU use TF32 unless it is switched off, which is less exact than these tests are."""
    with matmul_precision("float32"):
        yield


SOURCE = SyntheticImages(seed=3, size=24, generators=2, each=4)


@pytest.fixture(scope="module")
def feature(tmp_path_factory: pytest.TempPathFactory) -> PriorViews:
    """That of an untrained network with three blocks and a dictionary of five entries."""
    folder = tmp_path_factory.mktemp("views")
    network = backbone(10, 1, np.random.default_rng(1), stride=4)
    maps = measure(network, SOURCE, rows=32, first=9, depths=(0, 2), pools=(4, 2), normed=False)
    scattering = measure_scattering(SOURCE, rows=32, first=9, device="cpu")
    save_prior(
        folder / "prior.safetensors", network, maps, scattering, False, {"depth": "10", "width": "1", "stride": "4"}
    )

    def batches() -> Iterator[Tensor]:
        return (preprocess(part.float() / 255) for part in SOURCE.generate(32, first=9).split(16))

    known = measure_views(network, batches, depths=(0, 2), pools=(4, 2), depth=0, entries=5, seed=2)
    save_views(folder / "views.safetensors", known, {"seed": "2"})
    return PriorViews(weights=str(folder / "prior.safetensors"), statistics=str(folder / "views.safetensors"))


@pytest.mark.parametrize(
    ("shape", "weights"),
    [((3, 32, 32), (1.0, 0.5, 0.0)), ((1, 28, 28), (0.0, 0.0, 0.5)), ((3, 21, 45), (2.0, 0.0, 0.0))],
)
def test_row_depends_on_its_image_only_and_has_bounded_norm(
    feature: PriorViews, shape: tuple[int, int, int], weights: tuple[float, float, float]
) -> None:
    chosen = replace(feature, dictionary=weights[0], scatter=weights[1], glyphs=weights[2], norm=0.7)
    images = np.random.default_rng(2).random((4, *shape), dtype=np.float32)
    images[1] = 0
    images[2, :, :3] = [[[np.nan], [np.inf], [-np.inf]]] * shape[0]
    rows = chosen(images)
    assert rows.shape == (4, chosen.width())
    assert np.linalg.norm(rows, axis=1) == pytest.approx(0.7, abs=1e-5)
    for at in range(4):
        assert chosen(images[at : at + 1])[0] == pytest.approx(rows[at], abs=1e-5)


def test_mirror_image_has_the_same_row_unless_mirror_is_false(feature: PriorViews) -> None:
    images = np.random.default_rng(4).random((2, 3, 32, 32), dtype=np.float32)
    flipped = np.ascontiguousarray(images[..., ::-1])
    assert feature(images) == pytest.approx(feature(flipped), abs=1e-5)
    one_sided = replace(feature, mirror=False)
    assert np.abs(one_sided(images) - one_sided(flipped)).max() > 1e-3


def test_views_are_the_image_its_shifts_and_its_middle() -> None:
    image = torch.arange(32.0).expand(1, 3, 32, 32)  # brighter to the right
    upright = list(views(image, mirror=False))
    assert [float(view[0, 0, 16, 16]) for view in upright[:5]] == [16, 14, 18, 14, 18]
    assert [float(view[0, 0, 16, 0]) for view in upright[5:]] == pytest.approx([2.0, 4.0], abs=0.3)
    both = list(views(image, mirror=True))
    assert len(both) == 2 * len(upright) == 14
    assert torch.equal(both[1], image.flip(3))


def test_codes_exceed_the_threshold_at_positions_like_an_entry() -> None:
    positions = torch.randn(400, 3, generator=torch.Generator().manual_seed(1))
    found = learn_dictionary(positions, count=4, seed=0)
    assert found.entries.norm(dim=1) == pytest.approx(1.0, abs=1e-2)
    like_first = found.mean + torch.linalg.solve(found.white, found.entries[0])
    codes = found.codes(like_first[None, :, None, None].expand(1, 3, 4, 4))
    assert codes[0, 0].numpy() == pytest.approx(1 - THRESHOLD, abs=1e-2)
    assert codes[0].amax((1, 2)).argmax() == 0


def test_codes_are_whitened_by_their_covariance() -> None:
    drawn = torch.randn(500, 6, 2, 2, generator=torch.Generator().manual_seed(3)) @ torch.tensor([[1.0, 0.6], [0, 1]])
    drawn[:, 3] += 2 * drawn[:, 1]
    moments = CodeMoments()
    for part in drawn.split(200):
        moments.add(part)
    rows = drawn.movedim(1, 3).flatten(0, 2).double()
    scaled = (rows - rows.mean(0)) / rows.std(0, correction=0)
    values, vectors = torch.linalg.eigh(scaled.T @ scaled / len(scaled))
    expected = scaled @ ((vectors * (values + RIDGE).pow(-POWER)) @ vectors.T)
    whitened = moments.whitening()(drawn).view(len(drawn), 4, 6)
    assert whitened.flatten(0, 1).numpy() == pytest.approx(expected.numpy(), abs=1e-3)


def test_shipped_statistics_match_their_checksum_and_the_network() -> None:
    note = json.loads(SHIPPED_VIEWS.with_suffix(".json").read_text())
    assert hashlib.sha256(SHIPPED_VIEWS.read_bytes()).hexdigest() == note["sha256"]
    network = json.loads(SHIPPED.with_suffix(".json").read_text())
    assert note["network"] in (network["sha256"], network["rounded_from"])
    assert all(note[fact] for fact in ("command", "seed", "commit"))
    assert SHIPPED_VIEWS.stat().st_size < 3_500_000


@pytest.mark.slow
def test_shipped_rows_of_crops_are_nearest_to_their_image() -> None:
    images = SyntheticImages(seed=99, generators=1, each=2).generate(4).float().numpy() / 255
    shipped = PriorViews(scatter=0.0)
    first, second = shipped(images[..., 2:42, 2:42]), shipped(images[..., 6:46, 6:46])
    assert ((first @ second.T).argmax(1) == np.arange(4)).all()


def test_description_round_trips_and_names_the_statistics(feature: PriorViews) -> None:
    for described in (feature, PriorViews(), PriorViews(glyphs=0.5)):
        assert features.build(json.loads(json.dumps(features.describe(described)))) == described
    with pytest.raises(WrongInput, match=r"weights 'feed'.*fit it again"):
        PriorViews(checksum="feed")


def test_glyphs_stand_beside_the_rest_with_their_weight() -> None:
    images = np.random.default_rng(3).random((2, 1, 28, 28), dtype=np.float32)
    without, beside = (PriorViews(dictionary=0.0, scatter=0.0, glyphs=weight)(images) for weight in (0.0, 0.5))
    strokes = Prior(network="glyphs")(images)
    expected = np.concatenate([without, 0.5 * strokes], axis=1) / np.hypot(1.0, 0.5)
    np.testing.assert_allclose(beside, expected, atol=1e-5)
    with pytest.raises(WrongInput, match="fit it again"):
        PriorViews(glyphs=0.5, checksum=PriorViews().checksum)


def test_wrong_fields_files_and_shapes_are_refused(feature: PriorViews, tmp_path: Path) -> None:
    for wrong in ({"dictionary": -1.0}, {"scatter": 101.0}, {"norm": 0.0}):
        with pytest.raises(WrongInput, match="prior_views: expected"):
            PriorViews(**wrong)  # type: ignore[arg-type]
    image = np.zeros((1, 3, 32, 32), np.float32)
    with pytest.raises(WrongInput, match="are missing"):
        replace(feature, statistics="nowhere.safetensors")(image)
    (tmp_path / "broken.safetensors").write_bytes(SHIPPED_VIEWS.read_bytes()[:1000])
    with pytest.raises(WrongInput, match="as `privaware reproduce ours/prior/views` writes it"):
        replace(feature, statistics=str(tmp_path / "broken.safetensors"))(image)
    with pytest.raises(WrongInput, match="prior_views: expected images"):
        feature(np.zeros((2, 5)))


def test_maps_are_whitened_by_matrices_made_once(feature: PriorViews, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    whitening = Statistics.whitening
    monkeypatch.setattr(Statistics, "whitening", lambda *args, **kwargs: made.append(1) or whitening(*args, **kwargs))
    stored_view_whitening.cache_clear()
    images = np.random.default_rng(4).random((2, 3, 32, 32), dtype=np.float32)
    assert feature(images) == pytest.approx(feature(images))
    assert len(made) == 1
