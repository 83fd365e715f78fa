"""Random Fourier features: exact sums, a bound that a row keeps, and models that predict what training computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.features.codes import Codes
from privaware.learners._boosting.additive_start import CLIP
from privaware.learners._boosting.coded_rows import CodedLayout, CodedRows
from privaware.learners._boosting.fourier_sums import (
    COLUMNS_READ,
    FeatureMeans,
    FeatureSums,
    _add_features,
    _centre_features,
    _kept,
    _least_kept,
    random_frequencies,
)
from privaware.learners._centring import Centre
from privaware.learners.additive import Additive
from privaware.learners.fourier import Fourier
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for
from tests.learners.mixed_columns import NUMBER, THREE, TWO

TASKS = pytest.mark.parametrize("schema", [TWO, THREE, NUMBER], ids=["two classes", "three classes", "regression"])


def layout_of(schema: Schema) -> CodedLayout:
    return CodedLayout(schema=schema, feature=Codes(numbers=True), clip=CLIP)


def with_features(layout: CodedLayout, data: Data, centre: Centre | None = None) -> CodedRows:
    rows = CodedRows(layout, data)
    _add_features(rows, layout, random_frequencies(layout, 32, np.random.default_rng(1)))
    if centre is not None:
        _centre_features(rows, centre)
    return rows


@TASKS
def test_sums_are_exact_in_any_order_and_one_row_keeps_its_bound(schema: Schema) -> None:
    layout, data, rng = layout_of(schema), rows_for(schema, 200, seed=5), np.random.default_rng(1)
    sums = FeatureSums(layout=layout, weights=rng.normal(size=(32, layout.outputs)), unit=0.5)
    centre = Centre.of(rng.normal(size=32) * 10, rows=200, deviation=0.0)
    released = []
    for rows in (np.arange(200), rng.permutation(200), np.flatnonzero(np.arange(200) != 17)):
        part, about_zero = with_features(layout, data.take(rows), centre), with_features(layout, data.take(rows))
        for each in (part, about_zero):
            assert 0.9 < np.linalg.norm(each.features, axis=1).max() <= 1
        halves = [with_features(layout, data.take(half), centre) for half in np.array_split(rows, 2)]
        together = sums.partial(part).value
        assert np.array_equal(sums.merge(*map(sums.partial, halves)).value, together)
        released.append((together, FeatureMeans().partial(about_zero)))
    for at, bound in enumerate((layout.length, 1.0)):
        assert np.array_equal(released[0][at], released[1][at])
        assert 0 < np.linalg.norm(released[0][at] - released[2][at]) <= bound


def test_bound_of_a_row_is_nearly_reached() -> None:
    layout = layout_of(TWO)
    part = with_features(
        layout, replace(rows_for(TWO, 1, seed=5), y=np.array([1])), Centre(mean=np.zeros(32), scale=4.0)
    )
    part.values[:] = -60
    sums = FeatureSums(layout=layout, weights=np.zeros((32, 1)), unit=1.0).partial(part).value
    assert np.linalg.norm(sums) == pytest.approx(CLIP, rel=0.01)


def test_columns_are_read_by_their_chances() -> None:
    layout = layout_of(TWO)
    frequencies = random_frequencies(layout, 400, np.random.default_rng(0), np.array([0.8, 0.2, 0.0]))
    ages, scores, jobs = np.split(frequencies[1 : 1 + sum(layout.levels)], np.cumsum(layout.levels)[:-1])
    read = [np.abs(part).sum(axis=0) > 0 for part in (ages, scores, jobs)]
    assert not read[2].any()
    alone = np.arange(400) % len(COLUMNS_READ) == 0  # the others read both
    assert read[0][~alone].all()
    assert read[1][~alone].all()
    assert read[0][alone].mean() == pytest.approx(0.8, abs=0.1)


@TASKS
def test_model_predicts_what_training_computed(schema: Schema) -> None:
    data = rows_for(schema, 200, seed=5)
    model = Fourier(steps=5, count=40, bias_clip=1.0).run(data, noise=0.1, rng=Rng(seed=1))
    inputs = Codes(numbers=True)(data.x, schema)
    levels = inputs[:, :3].astype(int) + np.cumsum([0, *Codes().levels(schema)[:-1]])
    frequencies = model.tensors["turns"].astype(float)
    angles = frequencies[0] + frequencies[1 + levels].sum(axis=1)
    angles = angles + inputs[:, 3:] @ frequencies[1 + len(model.tensors["scores"]) :]
    silent = replace(model, tensors={**model.tensors, "swings": np.zeros_like(model.tensors["swings"])})
    raw = {"clipped": False, "bent": []}
    outputs, before = (
        replace(each, architecture={**each.architecture, **raw}).outputs(data.x) for each in (model, silent)
    )
    added = np.cos(2 * np.pi * angles) @ model.tensors["swings"].astype(float)
    assert np.abs(added).max() > 0.01
    assert outputs - before == pytest.approx(added, abs=1e-4)


def test_interactions_are_learnt_where_an_additive_model_cannot() -> None:
    """The target is a column plus the product of two others."""
    columns = tuple(Column(name=name, low=-1, high=1) for name in "abc")
    schema = Schema(columns=columns, low=-2, high=2, rows=2000)
    x = np.random.default_rng(0).uniform(-1, 1, (3000, 3))
    y = x[:, 0] + x[:, 1] * x[:, 2]
    data, test = Data(schema=schema, x=x[:2000], y=y[:2000]), Data(schema=schema, x=x[2000:], y=y[2000:])
    scores = []
    for learner in (Additive(), Fourier(count=256, share=0.5)):
        noise = accounting.calibrate(lambda noise, learner=learner: learner.cost(schema, noise), 3.0, 1e-5)
        errors = learner.run(data, noise, Rng(seed=1)).predictions(test) - test.y
        scores.append(1 - np.mean(errors**2) / np.var(test.y))
    assert scores[1] > scores[0] + 0.1


def test_features_do_no_harm_where_categories_add_up() -> None:
    """The class is the side to which a scale tips, by two weights and two distances of five levels each."""
    levels = tuple("abcde")
    columns = tuple(Column(name=name, kind="category", categories=levels) for name in "wxyz")
    schema = Schema(columns=columns, classes=("left", "even", "right"), rows=500)
    x = np.stack(np.meshgrid(*[np.arange(5.0)] * 4), axis=-1).reshape(-1, 4)
    x = np.random.default_rng(0).permutation(x)
    y = (1 + np.sign((x[:, 0] + 1) * (x[:, 1] + 1) - (x[:, 2] + 1) * (x[:, 3] + 1))).astype(int)
    data, test = Data(schema=schema, x=x[:500], y=y[:500]), Data(schema=schema, x=x[500:], y=y[500:])
    learner = Fourier()
    noise = accounting.calibrate(lambda noise: learner.cost(schema, noise), 8.0, 1e-5)
    assert np.mean(learner.run(data, noise, Rng(seed=1)).predictions(test) == test.y) > 0.85


def test_amplitudes_shrink_if_noise_explains_them() -> None:
    noise = np.random.default_rng(0).standard_normal((512, 2))
    assert _kept(noise, 1.0, 0.25) < 0.5
    assert _kept(noise + 1.0, 1.0, 0.25) == 1.0


@pytest.mark.parametrize(("kinds", "least"), [("cc", 0.25), ("cn", 0.625), ("nn", 1.0)])
def test_amplitudes_of_categories_may_shrink_more(kinds: str, least: float) -> None:
    category = Column(name="c", kind="category", categories=("x", "y"))
    made = {"c": category, "n": Column(name="n", low=0, high=1)}
    columns = tuple(replace(made[kind], name=f"{kind}{at}") for at, kind in enumerate(kinds))
    schema = Schema(columns=columns, classes=("no", "yes"), rows=100)
    assert _least_kept(layout_of(schema)) == least
    assert _least_kept(layout_of(Schema(columns=columns, low=0, high=1, rows=100))) == 1.0


def test_features_do_not_read_monotone_columns() -> None:
    data = rows_for(TWO, 200, seed=5)
    learner = Fourier(steps=10, count=40, monotone={"age": 1})
    model = learner.run(data, noise=0.5, rng=Rng(seed=3))
    rows = np.repeat(data.x[:20], 50, axis=0)
    rows[:, 0] = np.tile(np.linspace(0, 90, 50), 20)
    steps = [
        np.diff(each.outputs(rows)[:, 1].reshape(20, 50)).min()
        for each in (model, replace(learner, monotone={}).run(data, noise=0.5, rng=Rng(seed=3)))
    ]
    assert steps[0] >= -1e-5
    assert steps[1] < -1e-3
    with pytest.raises(WrongInput, match="without a monotone direction"):
        Fourier(count=4, monotone={"c": 1}).cost(replace(TWO, columns=(Column(name="c", low=0, high=1),)), 1.0)
