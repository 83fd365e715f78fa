"""What `auto` takes for images: by rows, epsilon, device and time limit, and it runs for every shape."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from privaware.data import Data
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.workflow._image_choice import EVIDENCE, image_choice, scattering_evidence
from privaware.workflow._training_plan import training_plan

DIGITS = tuple("0123456789")


def images(rows: int, shape: tuple[int, int, int] = (1, 28, 28)) -> Schema:
    return Schema(form="image", shape=shape, classes=DIGITS, rows=rows)


def names(schema: Schema, epsilon: float = 1.0, **facts: Any) -> list[str]:
    return [feature["name"] for feature in image_choice(schema, epsilon, **facts).settings["features"]]


def test_few_images_get_the_prior_and_many_grey_ones_scattering() -> None:
    assert names(images(8000)) == ["prior"]
    assert names(images(60_000)) == ["scatter", "group_norm"]
    assert names(images(8000), epsilon=8.0) == ["scatter", "group_norm"]
    assert names(images(20_000, (3, 32, 32))) == ["prior"]


def test_prior_is_left_where_time_or_memory_are_short() -> None:
    assert names(images(8000), time_limit=60.0) == ["scatter", "group_norm"]
    assert names(images(500_000, (3, 32, 32)), device="cuda") == ["scatter", "group_norm"]
    assert names(images(50_000, (3, 32, 32)), device="cuda") == ["prior"]
    choice = image_choice(images(8000), 1.0, time_limit=60.0)
    assert any("would be better" in reason for reason in choice.reasons)


def test_small_prior_is_taken_for_colours_where_the_large_one_is_too_slow() -> None:
    colour = images(20_000, (3, 32, 32))
    [feature] = image_choice(colour, 1.0, time_limit=240.0).settings["features"]
    assert feature["size"] == "small"
    assert image_choice(colour, 1.0).settings["features"] == [{"name": "prior", "scatter": 1.0}]
    assert names(colour, time_limit=120.0) == ["scatter", "group_norm"]


def test_plan_cites_the_records_nearest_in_rows_and_epsilon() -> None:
    records = json.loads(EVIDENCE.read_text())
    chosen = [record for record in records if record["rows"] * record["epsilon"] == 3000]
    gains = [100 * (record["scores"]["scattering"] - record["scores"]["pixels"]) for record in chosen]
    sentence = scattering_evidence(60_000.0)
    assert sentence.startswith(f"at 1,000 rows and epsilon 3 scattering with a linear head gained {min(gains):.0f} to ")
    assert sentence.endswith(f"better on {sum(gain > 0 for gain in gains)} of {len(chosen)} image sets")
    assert sentence in image_choice(images(60_000), 1.0).reasons


@pytest.mark.parametrize("shape", [(1, 3, 5), (1, 5, 9), (3, 8, 8), (2, 12, 30), (1, 50, 70), (4, 41, 41)])
def test_every_shape_is_learned_without_options(shape: tuple[int, int, int]) -> None:
    schema = Schema(form="image", shape=shape, classes=("n", "y"), rows=60)
    plan = training_plan(schema, epsilon=50.0, delta=1e-5, time_limit=0.3)
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=60)
    x = np.clip(rng.random((60, *shape)) * 0.5 + 0.4 * y[:, None, None, None], 0, 1).astype(np.float32)
    model = plan.mechanism.run(Data(schema=schema, x=x, y=y), plan.noise, Rng(1))
    assert plan.learner == "linear"
    assert model.predictions(Data(schema=schema, x=x, y=y)).shape[0] == 60
