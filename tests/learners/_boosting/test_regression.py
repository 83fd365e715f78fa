"""Regressions: mean and spread of the target, skew correction, and the check against the mean."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from privaware import accounting
from privaware.data import Data
from privaware.features.codes import Codes
from privaware.learners._boosting.additive_start import CLIP
from privaware.learners._boosting.coded_rows import CodedLayout, CodedRows
from privaware.learners._boosting.regression import SPREADS, GainSums, OutputSums, SkewCorrection, _spread, judge
from privaware.learners.additive import Additive
from privaware.learners.boosted import Boosted
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for
from tests.learners.mixed_columns import COLUMNS, NUMBER


def layout_of(schema: Schema) -> CodedLayout:
    return CodedLayout(schema=schema, feature=Codes(numbers=True), clip=CLIP)


def test_heavy_tail_of_a_target_does_not_set_the_scale() -> None:
    """Ninety-nine in a hundred targets lie in a hundredth of the declared range."""
    schema = Schema(columns=(Column(name="a", low=-1, high=1),), low=0, high=1000, rows=3000)
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, (3000, 1))
    y = 5 + 4 * x[:, 0]
    y[generator.random(3000) < 0.002] = 900
    learner = Additive()
    noise = accounting.calibrate(lambda noise: learner.cost(schema, noise), 1.0, 1e-5)
    model = learner.run(Data(schema=schema, x=x, y=y), noise, Rng(seed=1))
    clean = Data(schema=schema, x=x, y=5 + 4 * x[:, 0])
    assert np.abs(model.predictions(clean) - clean.y).mean() < 4  # a mean error of 2.0 is that of the mean itself


@pytest.mark.parametrize(("bound", "runs", "most"), [(20, 8, 0.4), (4, 40, 0.1)])
def test_mean_of_a_target_stays_where_rows_are_few(bound: float, runs: int, most: float) -> None:
    """With a twentieth of the budget for it, noise would move the first by more than a deviation.

    The second is a mean between two noisy ones: the first of these alone errs by a quarter more.
    """
    rng, offsets = np.random.default_rng(3), []
    schema = Schema(columns=COLUMNS[1:2], low=-bound, high=bound, rows=1000)
    data = Data(schema=schema, x=rng.uniform(-1, 1, (1000, 1)), y=rng.normal(size=1000))
    for seed in range(runs):
        model = Additive(steps=5).run(data, 6.0, Rng(seed=seed))
        offsets.append(float(model.predictions(data).mean() - data.y.mean()))
    assert np.sqrt(np.mean(np.square(offsets))) < most


def test_regression_that_learns_nothing_is_the_mean() -> None:
    """One that learns is kept; without the check, the first would predict noise."""
    rng, columns = np.random.default_rng(4), tuple(Column(name=f"x{at}", low=-1, high=1) for at in range(6))
    schema = Schema(columns=columns, low=-4, high=4, rows=2000)
    x = rng.uniform(-1, 1, (2000, 6))
    noise = rng.normal(size=2000)
    data = Data(schema=schema, x=x, y=noise)
    spreads = [float(Additive().run(data, 10.0, Rng(seed=seed)).predictions(data).std()) for seed in range(5)]
    assert np.median(spreads) == 0
    data = replace(data, y=2 * x[:, 0] + 0.5 * noise)
    assert min(float(Additive().run(data, 10.0, Rng(seed=seed)).predictions(data).std()) for seed in range(5)) > 0.5


def test_regression_that_explains_a_tenth_is_kept() -> None:
    """Gains are clipped to the square of the target's spread: clipped to four times that, they would drown in noise."""
    rng = np.random.default_rng(4)
    schema = Schema(columns=COLUMNS[1:2], low=-12, high=12, rows=3000)
    x = rng.uniform(-1, 1, (3000, 1))
    data = Data(schema=schema, x=x, y=0.6 * x[:, 0] + rng.normal(size=3000))
    models = [Additive().run(data, 12.0, Rng(seed=seed)) for seed in range(8)]
    assert sum(float(model.predictions(data).std()) > 0.1 for model in models) >= 6


def test_no_row_gains_more_than_its_bound() -> None:
    layout = layout_of(NUMBER)
    rows = CodedRows(layout, rows_for(NUMBER, 200, seed=2))
    rows.values[:] = np.random.default_rng(3).normal(0, 50, rows.values.shape)
    gains = GainSums(mean=0.3, shift=-0.1, unit=1e-3)
    each = [gains.partial(CodedRows(layout, rows_for(NUMBER, 1, seed=seed)))[0] for seed in range(50)]
    assert max(map(abs, each)) == pytest.approx(gains.sensitivity, abs=1e-5)
    assert abs(gains.partial(rows)[0]) <= 200


def test_no_row_moves_the_mean_of_outputs_by_more_than_its_bound() -> None:
    layout = layout_of(NUMBER)
    outputs = OutputSums(mean=0.3, shift=-0.1, unit=1e-3)
    each = [outputs.partial(CodedRows(layout, rows_for(NUMBER, 1, seed=seed)))[0] for seed in range(50)]
    assert max(map(abs, each)) == pytest.approx(outputs.sensitivity, abs=1e-5)


def test_median_of_a_skewed_target_is_not_better_than_its_mean() -> None:
    """Clipped gains alone would say so: most targets are nearer to it."""
    schema = Schema(columns=COLUMNS[1:2], low=0, high=40, rows=4000)
    data = Data(schema=schema, x=np.zeros((4000, 1)), y=np.random.default_rng(1).pareto(2.5, 4000).clip(0, 40))
    rows = CodedRows(layout_of(schema), data)
    mean, median = float(rows.target.mean()), float(np.median(rows.target))
    rows.values[:] = median
    moved = GainSums(mean=mean, shift=0.0, unit=0.02).partial(rows)[0]
    assert moved > 200
    parts = data.parts.held(partial(CodedRows, layout_of(schema)))
    parts.update(lambda part: part.values.fill(median))
    outputs = OutputSums(mean=mean, shift=0.0, unit=0.02)
    verdicts = [judge(parts, outputs, rows=4000, deviation=0.07, noise=20.0, rng=Rng(seed=seed)) for seed in range(20)]
    assert sum(verdict.better for verdict in verdicts) <= 15  # against the mean itself all of them
    assert {verdict.shift + verdict.mean for verdict in verdicts} == {0.0}
    assert verdicts[0].mean == pytest.approx((median - mean) / 2, abs=0.005)


def test_predictions_of_a_skewed_target_have_its_mean() -> None:
    """Clipped gradients alone would draw them towards the median, by a sixth of the deviation."""
    schema = Schema(columns=(Column(name="a", low=0, high=1),), low=0, high=1000, rows=4000)
    generator = np.random.default_rng(0)
    data = Data(schema=schema, x=generator.random((4000, 1)), y=generator.pareto(2.5, 4000).clip(0, 1000) * 10)
    model = Boosted(trees=30, steps=30).run(data, 0.3, Rng(seed=1))
    assert model.predictions(data).mean() == pytest.approx(data.y.mean(), abs=0.08 * data.y.std())


def test_model_of_a_skewed_target_predicts_as_in_training() -> None:
    """Columns multiply what others say: a sum of them alone stays below the tail."""
    columns = tuple(Column(name=f"x{at}", low=-1, high=1) for at in range(4))
    schema = Schema(columns=columns, low=0, high=40, rows=3000)
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, (3000, 4))
    data = Data(schema=schema, x=x, y=np.exp(x.sum(axis=1) + rng.normal(0, 0.3, 3000)).clip(0, 40))
    scores = {}
    for strength in (0.0, 0.3):
        model = Boosted(trees=40, steps=40, skew_correction=strength).run(data, 3.0, Rng(seed=1))
        scores[strength] = 1 - np.mean((model.predictions(data) - data.y) ** 2) / data.y.var()
    assert scores[0.3] > scores[0.0] + 0.05
    centre, spread, strength, shift = model.architecture["bent"]
    straight = replace(model, architecture={**model.architecture, "bent": []}).outputs(x)
    expected = SkewCorrection(centre=centre, spread=spread, strength=strength)(straight) + shift
    assert model.outputs(x) == pytest.approx(expected, abs=1e-4)
    assert model.predictions(data).mean() == pytest.approx(data.y.mean(), abs=0.1 * data.y.std())


@pytest.mark.parametrize(
    ("mean", "spread", "skewed"),
    [(-0.7, 0.2, True), (-0.7, 0.05, False), (0.0, 0.2, False), (0.7, 0.2, False), (-0.6, 0.5, False)],
    ids=["tail above", "bound far below", "even", "tail below", "short"],
)
def test_a_target_is_skewed_by_its_mean_spread_and_bounds(mean: float, spread: float, skewed: bool) -> None:
    assert (SkewCorrection.of(mean, spread, 0.3) is not None) == skewed
    assert SkewCorrection.of(mean, spread, 0.0) is None


def test_corrected_output_depends_on_its_row_alone_and_rises() -> None:
    correction, outputs = (
        SkewCorrection(centre=-0.6, spread=0.1, strength=0.3),
        np.linspace(-3, 3, 1001).astype(np.float32),
    )
    whole = correction(outputs)
    assert np.array_equal(np.concatenate([correction(outputs[at : at + 1]) for at in range(1001)]), whole)
    assert np.array_equal(np.concatenate([correction(outputs[:7]), correction(outputs[7:])]), whole)
    assert (np.diff(whole) >= 0).all()


def test_predictions_of_the_median_are_not_corrected() -> None:
    data = rows_for(replace(NUMBER, low=0.0, high=1000.0), 300)
    data = replace(data, y=np.random.default_rng(1).pareto(3.0, 300) * np.where(data.x[:, 2] > 0, 10, 40))
    described = [
        Boosted(trees=2, steps=2, bias_clip=clip).run(data, 0.01, Rng(seed=1)).architecture for clip in (4.0, 1.0)
    ]
    assert [len(each["bent"]) for each in described] == [4, 0]


def test_noise_of_empty_cells_does_not_widen_the_spread() -> None:
    counts = np.full(len(SPREADS), -30.0)
    counts[6] = 1000.0
    assert _spread(counts, 1000) == SPREADS[6]


def test_spread_of_distances_beyond_the_grid_is_the_largest() -> None:
    counts = np.zeros(len(SPREADS))
    counts[2], counts[-1] = 500.0, 500.0
    assert _spread(counts, 1000) == SPREADS[-1]


def test_mean_of_a_long_tailed_target_has_little_noise() -> None:
    """No column tells anything. With a clip of four spreads, noise would move the mean by a quarter of a deviation."""
    schema = Schema(columns=COLUMNS[1:2], low=-10, high=200, rows=1000)
    rng = np.random.default_rng(6)
    data = Data(schema=schema, x=rng.uniform(-1, 1, (1000, 1)), y=rng.standard_t(3, 1000).clip(-10, 200))
    means = [float(Additive(steps=5).run(data, 8.0, Rng(seed=seed)).predictions(data).mean()) for seed in range(40)]
    assert np.sqrt(np.mean((np.array(means) - data.y.mean()) ** 2)) < 0.2 * data.y.std()
