"""Private normalisation and principal components: the contract, planted bugs, and what they compute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privaware import accounting, features
from privaware.data import Data
from privaware.errors import Refused, WrongInput
from privaware.events import Event, Gaussian
from privaware.features.onehot import OneHot
from privaware.features.project import Project
from privaware.features.standardise import Standardise
from privaware.noise import Rng
from privaware.preprocessing._moments import clipped, folded, release, unfolded
from privaware.preprocessing._ranges.target_histogram import TargetHistogramRange
from privaware.preprocessing._ranges.target_moments import TargetMomentsRange
from privaware.preprocessing.normalise import Normalise
from privaware.preprocessing.pca import Pca
from privaware.schema import Column, Schema
from privaware.testing import BrokenPromise, check_mechanism, example, rows_for
from privaware.workflow.run.training_plan import training_plan

IMAGE = example("image", rows=24)
COLOUR = example("image", rows=24, shape=(3, 4, 4))
NUMBER = replace(example(rows=24), classes=(), low=0.0, high=10.0)
NONE = 1e-9
"""Negligible noise."""


@pytest.mark.parametrize(
    ("mechanism", "schema"),
    [
        (Normalise(), IMAGE),
        (Normalise(means=0.1, squares=0.3), COLOUR),
        (Normalise(), example()),
        (Normalise(features=(OneHot(bins=3),)), example()),
        (Pca(components=3), IMAGE),
        (Pca(components=2, norm=0.5), example()),
        (TargetMomentsRange(reach=0.5), NUMBER),
        (TargetHistogramRange(), replace(NUMBER, low=None, high=None)),
    ],
)
def test_transformation_keeps_the_contract(
    mechanism: Normalise | Pca | TargetMomentsRange | TargetHistogramRange, schema: Schema
) -> None:
    assert check_mechanism(mechanism, schema=schema, games=60) <= 1.0


class MedianClip(Normalise):
    """The bound is the exact median of the rows, as published code has it."""

    def run(self, data: Data, noise: float, rng: Rng) -> Standardise:
        sizes = np.nan_to_num(data.x).mean(axis=(1, 2, 3))
        bound = float(np.median(sizes)) if len(data) else 1.0
        return Normalise(means=max(bound, 1e-6)).run(data, noise, rng)


class RealRows(Normalise):
    """Divides by the private number of rows."""

    def run(self, data: Data, noise: float, rng: Rng) -> Standardise:
        counted = replace(data, schema=replace(data.schema, rows=max(len(data), 1)))
        return super().run(counted, noise, rng)


class OneRelease(Normalise):
    """Charges for the means only."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return Gaussian(noise=noise)


class NotClipped(Pca):
    """Cuts rows to a length that it does not declare."""

    def run(self, data: Data, noise: float, rng: Rng) -> Project:
        exact = clipped(data.x, 2.0)
        noisy = release(exact.T @ exact, noise, 1.0, rng)
        return Project(matrix=tuple(map(tuple, np.linalg.eigh(noisy)[1][:, -2:].tolist())))


class ExactMean(Pca):
    """Subtracts the exact mean."""

    def run(self, data: Data, noise: float, rng: Rng) -> Project:
        middle = np.nan_to_num(data.x).mean(axis=0, keepdims=True) if len(data) else 0.0
        return super().run(replace(data, x=data.x - middle), noise, rng)


class UpperOnly(Pca):
    """Noise of deviation s / root 2 everywhere, as if both triangles had been drawn."""

    def run(self, data: Data, noise: float, rng: Rng) -> Project:
        return super().run(data, noise / np.sqrt(2), rng)


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        (MedianClip(), "control flow depends on the rows|sensitivity exceeded"),
        (RealRows(), "the release differs"),
        (OneRelease(), "cost is too low"),
        (NotClipped(), "sensitivity exceeded"),
        (ExactMean(components=2), "sensitivity exceeded"),
        (UpperOnly(components=2), "cost is too low"),
    ],
)
def test_planted_bug_is_caught(planted: Normalise | Pca, words: str) -> None:
    with pytest.raises(BrokenPromise, match=words):
        check_mechanism(planted, schema=IMAGE, games=0)


class TargetsOnly(TargetMomentsRange):
    """Charges for the mean, and not for the mean square beside it."""

    def run(self, data: Data, noise: float, rng: Rng) -> Schema:
        return super().run(data, noise / np.sqrt(2), rng)


def test_price_of_a_target_range_below_its_two_sums_is_caught() -> None:
    with pytest.raises(BrokenPromise, match=r"cost is too low|sensitivity exceeded"):
        check_mechanism(TargetsOnly(reach=0.5), schema=NUMBER, games=0)


def test_target_range_is_centred_on_the_mean() -> None:
    data = rows_for(replace(NUMBER, rows=500), 500)
    released = TargetMomentsRange(reach=1.0).run(data, NONE, Rng(1))
    assert released.low is not None
    assert released.high is not None
    assert (released.low + released.high) / 2 == pytest.approx(data.y.mean(), abs=1e-4)
    assert (released.high - released.low) / 2 == pytest.approx(data.y.std(), abs=1e-4)
    assert TargetMomentsRange.clip(data, released).y.max() <= released.high


def test_target_range_is_narrow_where_noise_hides_the_variance() -> None:
    schema = replace(NUMBER, low=-1.0, high=1.0, rows=2_000)
    data = Data(schema=schema, x=np.zeros((2_000, len(schema.used))), y=np.full(2_000, 0.1))
    noise = 40.0
    hidden = np.sqrt(noise * np.sqrt(2) / 2_000)  # a standard deviation that the noise hides
    released = [TargetMomentsRange().run(data, noise, Rng(seed)) for seed in range(8)]
    widths = [float(np.subtract(each.high, each.low)) for each in released]
    assert min(widths) == pytest.approx(3.0 * hidden, rel=1e-3)


class CountedTwice(TargetHistogramRange):
    """Charges for one histogram, and releases a second one."""

    def run(self, data: Data, noise: float, rng: Rng) -> Schema:
        super().run(data, noise, rng)
        return super().run(data, noise, rng)


def test_price_of_a_target_span_below_its_histograms_is_caught() -> None:
    with pytest.raises(BrokenPromise, match="cost is too low"):
        check_mechanism(CountedTwice(), schema=replace(NUMBER, low=None, high=None), games=0)


@pytest.mark.parametrize(
    ("targets", "low", "high"),
    [
        (np.linspace(-3, 40, 1500), -5.0, 50.0),
        (np.linspace(1900, 2020, 1500), 0.0, 5000.0),
        (np.append(np.geomspace(2e4, 9e6, 1490), np.full(10, np.nan)), 0.0, 1e7),
        (np.zeros(1500), 0.0, 1e-6),
    ],
)
def test_target_span_holds_nearly_all_targets_and_not_much_more(targets: np.ndarray, low: float, high: float) -> None:
    data = Data(schema=Schema(rows=1500), x=np.zeros((1500, 0)), y=targets)
    spans = [TargetHistogramRange().run(data, 25.0, Rng(seed=seed)) for seed in range(20)]
    ranges = np.array([[span.low, span.high] for span in spans], dtype=float)
    inside = np.mean((ranges[:, :1] <= np.nan_to_num(targets)) & (np.nan_to_num(targets) <= ranges[:, 1:]), axis=1)
    assert inside.mean() > 0.9
    assert np.median(ranges[:, 1] - ranges[:, 0]) <= high - low


def test_target_span_finds_the_mean_of_1600_rows_at_a_tenth() -> None:
    """Two choices of quantiles left a quarter of the rows outside on each side: R2 was -0.04 to -0.06."""
    rng, schema, losses = np.random.default_rng(2), Schema(columns=(Column(name="a"),), rows=1600), []
    plan = training_plan(schema, epsilon=0.1, delta=1e-5, learner="mean")
    for seed in range(20):
        targets = rng.lognormal(8.0, 0.8, 1600)
        data = Data(schema=plan.schema, x=np.zeros((1600, 0)), y=targets)
        mean = plan.mechanism.run(data, plan.noise, Rng(seed=seed)).predictions(data)[0]
        losses.append((mean - targets.mean()) ** 2 / targets.var())
    assert np.mean(losses) < 0.01


def test_target_span_holds_targets_beside_many_zeros() -> None:
    """A span of zeros alone made the mean of 3,000 numbers of visits 0: R2 was -0.14."""
    targets = np.repeat([0.0, 1, 2, 3, 5, 8], [2400, 250, 150, 100, 60, 40])
    data = Data(schema=Schema(rows=3000), x=np.zeros((3000, 0)), y=targets)
    spans = [TargetHistogramRange().run(data, 20.0, Rng(seed=seed)) for seed in range(20)]
    lows, highs = (np.array(ends, dtype=float) for ends in zip(*((span.low, span.high) for span in spans), strict=True))
    assert np.all((lows >= -1) & (lows <= 0))
    assert np.all((highs >= 2) & (highs <= 20))


def test_exact_components_have_no_guarantee() -> None:
    event = Pca(private=False).cost(IMAGE, 1.0)
    with pytest.raises(Refused, match="exact statistics"):
        accounting.epsilon(event, 1e-5)


def test_pca_without_noise_equals_the_eigenvectors() -> None:
    data = rows_for(IMAGE, 200)
    rows = clipped(data.x, 1.0)
    _, vectors = np.linalg.eigh(rows.T @ rows)
    expected = vectors[:, ::-1][:, :4]
    for pca in (Pca(components=4), Pca(components=4, private=False)):
        components = np.array(pca.run(data, NONE, Rng(seed=1)).matrix)
        np.testing.assert_allclose(components @ components.T, expected @ expected.T, atol=1e-4)


def test_noise_is_symmetric_with_smaller_off_diagonal() -> None:
    draws = np.array([release(np.zeros((5, 5)), 2.0, 3.0, Rng(seed=at)) for at in range(4000)])
    np.testing.assert_array_equal(draws, draws.transpose(0, 2, 1))
    spread = draws.std(axis=0)
    expected = np.where(np.eye(5) > 0, 6.0, 6.0 / np.sqrt(2))
    np.testing.assert_allclose(spread, expected, rtol=0.06)


def test_folding_a_symmetric_matrix_keeps_its_norm() -> None:
    rows = np.random.default_rng(0).standard_normal((9, 4))
    square = rows.T @ rows
    assert np.linalg.norm(folded(square)) == pytest.approx(np.linalg.norm(square))
    np.testing.assert_allclose(unfolded(folded(square), 4), square)


def test_normalise_without_noise_gives_mean_0_and_deviation_1() -> None:
    rng = np.random.default_rng(3)
    x = rng.random((500, 3, 4, 4)).astype(np.float32) * np.array([1, 0.5, 0.1]).reshape(1, 3, 1, 1)
    schema = replace(COLOUR, rows=500)
    data = Data(schema=schema, x=x.astype(np.float32), y=np.zeros(500, dtype=np.int64))
    feature = Normalise(means=2.0, squares=2.0).run(data, NONE, Rng(seed=1))
    after = feature(data.x, schema)
    np.testing.assert_allclose(after.mean(axis=(0, 2, 3)), 0, atol=1e-4)
    np.testing.assert_allclose(after.std(axis=(0, 2, 3)), 1, atol=1e-3)


def test_variance_has_the_noise_as_floor() -> None:
    schema = replace(COLOUR, rows=500)
    flat = Data(schema=schema, x=np.full((500, 3, 4, 4), 0.5, np.float32), y=np.zeros(500, np.int64))
    deviations = [Normalise().run(flat, 8.0, Rng(seed=at)).deviation for at in range(20)]
    least = np.sqrt(8.0 / 500)
    assert np.min(deviations) == pytest.approx(least)
    assert np.median(deviations) < 1.5 * least


def test_released_features_survive_saving_and_loading() -> None:
    for feature in (Project(matrix=((1.0, 0.0), (0.5, 2.0))), Standardise(mean=(0.1,), deviation=(2.0,))):
        again = features.build(features.describe(feature))
        rows = np.ones((2, 2 if isinstance(feature, Project) else 1))
        np.testing.assert_array_equal(again(rows), feature(rows))


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(WrongInput, match="expected rows of 2 entries"):
        Project(matrix=((1.0,), (0.0,)))(np.ones((1, 3)))
    with pytest.raises(WrongInput, match="expected 1 channels"):
        Standardise(mean=(0.0,), deviation=(1.0,))(np.ones((1, 3)))
