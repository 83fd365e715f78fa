"""What `auto` takes for images: by rows, epsilon, device and time limit, and it runs for every shape."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from privaware.data import Data
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.workflow._image_choice import EVIDENCE, gain_evidence, image_choice
from privaware.workflow._training_plan import training_plan

DIGITS = tuple("0123456789")


def images(rows: int, shape: tuple[int, int, int] = (1, 28, 28)) -> Schema:
    return Schema(form="image", shape=shape, classes=DIGITS, rows=rows)


def names(schema: Schema, epsilon: float = 1.0, **facts: Any) -> list[str]:
    return [feature["name"] for feature in image_choice(schema, epsilon, **facts).settings["features"]]


def features(schema: Schema, epsilon: float = 1.0, **facts: Any) -> list[dict[str, Any]]:
    return list(image_choice(schema, epsilon, **facts).settings["features"])


GLYPHS = [{"name": "prior", "network": "glyphs", "scatter": 0.5}]
BOTH = [{"name": "prior", "network": "small", "glyphs": 1.0}]


def test_grey_images_get_glyphs_with_scattering_and_with_the_small_prior_where_they_are_few() -> None:
    assert features(images(700), epsilon=0.3) == GLYPHS
    assert features(images(2500)) == BOTH
    assert features(images(3300), epsilon=3.0) == BOTH
    assert features(images(8000), epsilon=3.0) == GLYPHS
    assert names(images(60_000)) == ["scatter", "group_norm"]
    assert features(images(60_000), time_limit=600.0) == GLYPHS
    assert features(images(60_000), device="cuda") == GLYPHS


def test_colours_get_the_small_prior_where_they_are_few_or_many_and_the_large_one_between() -> None:
    small = {"name": "prior", "network": "small", "glyphs": 0.5}
    assert features(images(1000, (3, 32, 32))) == [small]
    assert features(images(15_000, (3, 32, 32))) == [{"name": "prior", "scatter": 1.0, "glyphs": 0.5}]
    assert features(images(15_000, (3, 32, 32)), epsilon=0.5) == [small]
    assert features(images(30_000, (3, 32, 32))) == [small]
    assert names(images(200_000, (3, 32, 32))) == ["scatter", "group_norm"]


def test_a_time_limit_chooses_what_keeps_it_and_says_what_would_be_better() -> None:
    assert features(images(15_000, (3, 32, 32)), time_limit=100.0)[0]["network"] == "small"
    assert names(images(8000), time_limit=10.0) == ["scatter", "group_norm"]
    choice = image_choice(images(8000), 1.0, time_limit=10.0)
    assert any("would be better" in reason for reason in choice.reasons)
    many = image_choice(images(60_000), 1.0).settings
    assert (many["steps"], many["norm"]) == (200, 0.25)
    assert "steps" not in image_choice(images(60_000), 1.0, time_limit=100.0).settings


def test_grey_images_buy_their_mean_where_they_are_enough_for_it() -> None:
    assert "centre" not in image_choice(images(2000), 1.0, time_limit=2.0).settings
    assert "centre" not in image_choice(images(30_000, (3, 32, 32)), 1.0).settings
    few = [image_choice(images(rows, (3, 32, 32)), 1.0).settings for rows in (2_000, 4_000)]
    assert [settings.get("centre") for settings in few] == [None, 0.05]
    choice = image_choice(images(8000), 1.0)
    assert choice.settings["centre"] == 0.05
    assert "5% of the budget buys the mean of the rows to start from" in choice.reasons


@pytest.mark.parametrize("channels", [1, 3])
def test_plan_cites_the_records_nearest_in_rows_and_epsilon(channels: int) -> None:
    schema = images(1500, (channels, 32, 32))
    records = [each for each in json.loads(EVIDENCE.read_text()) if each["colours"] == channels]
    chosen = [each for each in records if each["epsilon"] == 3.0]
    name, base = ("glyphs and small prior" if channels == 1 else "small prior and glyphs"), "scattering"
    gains = [100 * (each["scores"][name] - each["scores"][base]) for each in chosen]
    sentence = gain_evidence(name, schema, 3.0)
    assert len(chosen) == {1: 7, 3: 2}[channels]
    assert f"epsilon 3 the {name} with a linear head gained {min(gains):.0f} to {max(gains):.0f} points" in sentence
    assert sentence.endswith(f"over {base}, and was better on {sum(g > 0 for g in gains)} of {len(chosen)} image sets")
    assert sentence in image_choice(schema, 3.0).reasons


ROWS = 20


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


def test_colour_images_on_a_gpu_are_seen_in_several_views() -> None:
    choice = image_choice(images(50_000, (3, 32, 32)), 1.0, device="cuda")
    assert choice.settings == {"features": [{"name": "prior_views"}], "steps": 250, "norm": 0.25}
    assert any("CIFAR-10" in reason for reason in choice.reasons)
    assert names(images(50_000, (3, 32, 32)), 1.0, device="cuda", time_limit=30.0) == ["prior"]
    assert names(images(50_000), 1.0, device="cuda") != ["prior_views"]
    assert names(images(1_000, (3, 32, 32)), 1.0) == ["prior"]
