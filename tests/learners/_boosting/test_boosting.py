"""Boosting: exact sums, tight sensitivities, and models that predict what training computed."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Gaussian
from privaware.features.codes import Codes
from privaware.learners._boosting.additive_start import CLIP
from privaware.learners._boosting.coded_rows import CodedLayout, CodedRows
from privaware.learners._boosting.gradient_sums import SECOND_WEIGHT, GradientSums, LeafSums
from privaware.learners._boosting.regression import GainSums, OutputSums, SkewCorrection, judge
from privaware.learners._boosting.splits import random_splits
from privaware.learners.additive import Additive
from privaware.learners.boosted import Boosted
from privaware.learners.fourier import Fourier
from privaware.models.trees import curves
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for
from tests.learners.mixed_columns import COLUMNS, NUMBER, THREE, TWO


def layout_of(schema: Schema) -> CodedLayout:
    return CodedLayout(schema=schema, feature=Codes(numbers=True), clip=CLIP)


def unclipped(outputs: np.ndarray) -> np.ndarray:
    """Logits of two classes by what clipped gradients stand for: a chance q of the rarer one is q / (q + 1/2)."""
    chances = 1 / (1 + np.exp(outputs[:, ::-1] - outputs))
    rarer = np.minimum(chances, chances[:, ::-1])
    rarer = rarer / (rarer + CLIP)
    chances = np.where(chances <= 0.5, rarer, 1 - rarer)
    logits = np.log(chances[:, 1] / chances[:, 0])
    return np.stack([-logits / 2, logits / 2], axis=1)


@pytest.mark.parametrize("schema", [TWO, THREE, NUMBER], ids=["two classes", "three classes", "regression"])
def test_sums_are_exact_in_any_order_and_one_row_keeps_its_bound(schema: Schema) -> None:
    data, rng = rows_for(schema, 200, seed=5), np.random.default_rng(1)
    layout = layout_of(schema)
    levels = GradientSums(layout=layout, weights=rng.normal(size=(layout.width, layout.outputs)), unit=1.0)
    splits = random_splits(schema, layout.levels, trees=1, depth=3, generator=rng)
    leaves = LeafSums(layout=layout, columns=splits.columns[0], right=splits.right[0], unit=1.0)
    assert levels.sensitivity <= layout.length * math.sqrt(1 + 1 + 2 * 13 / 8)
    assert leaves.sensitivity == pytest.approx(math.hypot(layout.length, SECOND_WEIGHT))
    released = []
    for rows in (np.arange(200), rng.permutation(200), np.flatnonzero(np.arange(200) != 17)):
        coded = CodedRows(layout, data.take(rows))
        levels.add_outputs(coded)
        by_weight = levels.by_weight(levels.partial(coded))
        released.append((layout.basis.released(by_weight), leaves.partial(coded)))
    for at, bound in enumerate((levels.sensitivity, leaves.sensitivity)):
        assert np.array_equal(released[0][at], released[1][at])
        assert 0 < np.linalg.norm(released[0][at] - released[2][at]) <= bound


@pytest.mark.parametrize("far", [-60.0, 60.0])
def test_sensitivity_of_a_leaf_is_nearly_reached(far: float) -> None:
    layout = layout_of(TWO)
    one = CodedRows(layout, replace(rows_for(TWO, 1, seed=5), y=np.array([int(far < 0)])))
    one.values[:] = far
    splits = random_splits(TWO, layout.levels, trees=1, depth=3, generator=np.random.default_rng(1))
    sums = LeafSums(layout=layout, columns=splits.columns[0], right=splits.right[0], unit=1.0).partial(one)
    assert np.linalg.norm(sums) == pytest.approx(CLIP, abs=1e-5)


def test_codes_tell_the_level_and_nearly_the_number() -> None:
    layout, data = layout_of(TWO), rows_for(TWO, 500, seed=2)
    coded, expected = CodedRows(layout, data), layout.feature(data.x, TWO)
    assert [codes.dtype for codes in coded.codes] == [np.uint8] * 3
    for at, codes in enumerate(coded.codes):
        assert np.array_equal(layout.level_of[at][codes], expected[:, at])
    for slope, at in enumerate(layout.numbered):
        assert np.abs(layout.number_of[slope]).max() <= 2**10
        numbers = layout.number_of[slope][coded.codes[at]] / 2**10
        assert np.abs(numbers - expected[:, 3 + slope]).max() < 0.02


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c"), ()])
def test_columns_with_one_code_together_give_the_same_sums(classes: tuple[str, ...]) -> None:
    """Codes are joined where rows are many; each weight still gets what it gets alone, to the last bits of outputs."""
    few = replace(TWO, classes=classes) if classes else NUMBER
    data = rows_for(few, 500, seed=2)
    sums = []
    for rows in (200, 10**6):
        layout = layout_of(replace(few, rows=rows))
        coded = CodedRows(layout, replace(data, schema=layout.schema))
        weights = np.random.default_rng(4).normal(size=(layout.width, layout.outputs))
        levels = GradientSums(layout=layout, weights=weights, unit=1.0)
        levels.add_outputs(coded)
        splits = random_splits(few, layout.levels, trees=1, depth=3, generator=np.random.default_rng(3))
        leaves = LeafSums(layout=layout, columns=splits.columns[0], right=splits.right[0], unit=1.0)
        sums.append((levels.by_weight(levels.partial(coded)), leaves.partial(coded), len(coded.codes)))
    assert [count for _, _, count in sums] == [3, 2]
    for alone, together in zip(sums[0][:2], sums[1][:2], strict=True):
        assert together == pytest.approx(alone, abs=1e-3)


def test_columns_of_many_levels_have_wider_codes() -> None:
    many = tuple(str(at) for at in range(300))
    columns = (Column(name="a", low=0, high=1), Column(name="b", kind="category", categories=many))
    schema = Schema(columns=columns, classes=("no", "yes"), rows=100)
    layout = CodedLayout(schema=schema, feature=Codes(cells=4096, numbers=True))
    coded = CodedRows(layout, rows_for(schema, 100, seed=2))
    assert [codes.dtype for codes in coded.codes] == [np.uint16, np.uint16]
    model = Boosted(trees=3, steps=3, depth=9, cells=4096).run(rows_for(schema, 100), noise=1.0, rng=Rng(seed=1))
    assert np.isfinite(model.outputs(rows_for(schema, 100).x)).all()


@pytest.mark.parametrize("schema", [TWO, THREE, NUMBER], ids=["two classes", "three classes", "regression"])
def test_model_predicts_what_training_computed(schema: Schema) -> None:
    data = rows_for(schema, 200, seed=5)
    model = Boosted(trees=70, steps=5, share=0.5).run(data, noise=0.1, rng=Rng(seed=1))
    tensors, inputs = model.tensors, Codes(numbers=True)(data.x, schema)
    codes = inputs.astype(int)
    starts = np.cumsum([0, *Codes().levels(schema)[:-1]])
    expected = tensors["bias"].astype(float) + inputs[:, 3:] @ tensors["slopes"]
    for row in range(200):
        for at, start in enumerate(starts):
            expected[row] += tensors["scores"][start + codes[row, at]]
        for tree in range(70):
            leaf = 0
            for split in range(3):
                leaf = 2 * leaf + int(tensors["right"][tree, split, codes[row, tensors["columns"][tree, split]]])
            expected[row] += tensors["leaves"][tree, leaf]
    expected = unclipped(expected) if len(schema.classes) == 2 else expected
    assert model.outputs(data.x) == pytest.approx(expected, abs=1e-4)


def test_all_releases_together_are_one_gaussian_of_the_noise() -> None:
    fourier = (Fourier(count=64), Fourier(count=64, share=1.0), Fourier(steps=0, count=64))
    for learner in (Boosted(), Boosted(share=0.3), Boosted(steps=0), Additive(), *fourier):
        event = learner.cost(NUMBER, 3.0)
        assert accounting.epsilon(event, 1e-5) == pytest.approx(accounting.epsilon(Gaussian(noise=3.0), 1e-5), rel=1e-6)


def test_interactions_are_learnt_where_an_additive_model_cannot() -> None:
    """The target is a column plus the product of two others."""
    columns = tuple(Column(name=name, low=-1, high=1) for name in "abc")
    schema = Schema(columns=columns, low=-2, high=2, rows=2000)
    x = np.random.default_rng(0).uniform(-1, 1, (3000, 3))
    y = x[:, 0] + np.sign(x[:, 1]) * np.sign(x[:, 2])
    data, test = Data(schema=schema, x=x[:2000], y=y[:2000]), Data(schema=schema, x=x[2000:], y=y[2000:])
    scores = {}
    for learner in (Boosted(), Additive()):
        noise = accounting.calibrate(lambda noise, learner=learner: learner.cost(schema, noise), 8.0, 1e-5)
        errors = learner.run(data, noise, Rng(seed=1)).predictions(test) - test.y
        scores[type(learner)] = 1 - np.mean(errors**2) / np.var(test.y)
    assert scores[Additive] > 0.15
    assert scores[Boosted] > scores[Additive] + 0.3


def test_settings_that_learn_nothing_are_refused() -> None:
    with pytest.raises(WrongInput, match="at least one step or one tree"):
        Boosted(steps=0, trees=0)
    with pytest.raises(WrongInput, match="a table with columns"):
        Boosted().cost(Schema(form="image", shape=(1, 3, 3), classes=("no", "yes"), rows=40), 1.0)
    with pytest.raises(WrongInput, match="low and high"):
        Boosted().cost(Schema(columns=(Column(name="c"),), classes=("a", "b"), rows=5), 1.0)


@pytest.mark.parametrize("schema", [TWO, NUMBER], ids=["two classes", "regression"])
@pytest.mark.parametrize("direction", [1, -1])
def test_monotone_model_never_turns_back(schema: Schema, direction: int) -> None:
    data = rows_for(schema, 200, seed=5)
    learner = Boosted(trees=80, steps=10, depth=4, bias_clip=1.0, monotone={"age": direction, "score": -direction})
    model = learner.run(data, noise=0.5, rng=Rng(seed=3))  # with a larger bias_clip, random targets would give the mean
    free = replace(learner, monotone={}).run(data, noise=0.5, rng=Rng(seed=3))
    turned = []
    for at, sign in ((0, direction), (1, -direction)):
        column = schema.used[at]
        rows = np.repeat(data.x[:20], 50, axis=0)
        rows[:, at] = np.tile(np.linspace(column.low, column.high, 50), 20)
        steps = [np.diff(each.outputs(rows)[:, -1].reshape(20, 50)) * sign for each in (model, free)]
        assert steps[0].min() >= -1e-5
        assert steps[0].max() > 0
        turned.append(steps[1].min())
    assert min(turned) < -1e-3  # noise alone turns the free one back


def test_monotone_is_refused_where_there_is_no_order() -> None:
    for schema, wanted in ((TWO, {"job": 1}), (TWO, {"age": 2}), (TWO, {"size": 1}), (THREE, {"age": 1})):
        with pytest.raises(WrongInput, match="monotone"):
            Boosted(monotone=wanted).cost(schema, 1.0)


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


def test_deviations_of_curves_are_those_that_noise_gives() -> None:
    schema = replace(TWO, rows=10**9)  # so many are declared that the rows at hand move nothing
    data, learner = rows_for(TWO, 20, seed=5), Additive(steps=20)
    models = [learner.run(replace(data, schema=schema), 30.0, Rng(seed=seed)) for seed in range(40)]
    for at in range(len(COLUMNS)):
        drawn = [curves(model)[at] for model in models]
        spread = np.std([curve.scores for curve in drawn], axis=0)[:, 1]
        assert np.sqrt((spread**2).mean()) == pytest.approx(np.sqrt((drawn[0].deviations ** 2).mean()), rel=0.15)
        assert len(drawn[0].labels) == len(drawn[0].scores) == len(drawn[0].deviations)


def test_curves_and_bias_sum_to_the_outputs_of_an_additive_model() -> None:
    data = rows_for(TWO, 50, seed=2)
    model = Additive(steps=5).run(data, 0.5, Rng(seed=1))
    codes = Codes()(data.x, TWO).astype(int)
    every, feature = curves(model), model.features[0]
    middles = data.x.copy()
    for at in (0, 1):
        known = np.isfinite(data.x[:, at])
        halves = feature.middles(COLUMNS[at])[codes[:, at]]
        low, high = COLUMNS[at].low, COLUMNS[at].high
        middles[known, at] = ((low + high) / 2 + (high - low) / 2 * halves)[known]
    expected = model.tensors["bias"] + sum(curve.scores[codes[:, at]] for at, curve in enumerate(every))
    assert model.outputs(middles) == pytest.approx(unclipped(expected), abs=1e-4)


@pytest.mark.parametrize(
    "learner", [Additive(), Boosted(trees=50), Fourier(count=64)], ids=["additive", "boosted", "fourier"]
)
def test_chances_of_two_classes_are_those_of_the_rows(learner: Additive | Boosted | Fourier) -> None:
    """Although gradients are clipped, in favour of the class that is more frequent."""
    schema = Schema(columns=(Column(name="a", low=0, high=4, bins=(1, 2, 3)),), classes=("no", "yes"), rows=20_000)
    generator = np.random.default_rng(0)
    x = generator.integers(0, 4, (20_000, 1)) + 0.5
    shares = np.array([0.05, 0.2, 0.35, 0.8])
    y = (generator.random(20_000) < shares[x[:, 0].astype(int)]).astype(int)
    model = learner.run(Data(schema=schema, x=x, y=y), 0.1, Rng(seed=1))
    each = Data(schema=schema, x=np.arange(4)[:, None] + 0.5, y=np.zeros(4, int))
    assert model.probabilities(each)[:, 1] == pytest.approx(shares, abs=0.03)


def test_smooth_curves_are_learnt_from_few_rows() -> None:
    """Levels of a number share what they learn: without cosines the mean score over seeds is about 0.4."""
    schema = Schema(columns=tuple(Column(name=f"c{at}", low=0, high=1) for at in range(4)), low=-4, high=4, rows=2000)
    scores = []
    for seed in range(4):
        generator = np.random.default_rng(seed)
        x = generator.random((2000, 4))
        y = np.cos(2 * np.pi * x).sum(axis=1)
        model = Additive().run(Data(schema=schema, x=x, y=y), 4.0, Rng(seed=seed))
        scores.append(1 - np.mean((model.predictions(Data(schema=schema, x=x, y=y)) - y) ** 2) / y.var())
    assert np.mean(scores) > 0.75


def test_mean_of_a_target_stays_where_rows_are_few() -> None:
    """With a twentieth of the budget for it, noise would move it by more than a deviation here."""
    rng, offsets = np.random.default_rng(3), []
    schema = Schema(columns=COLUMNS[1:2], low=-20, high=20, rows=1000)
    data = Data(schema=schema, x=rng.uniform(-1, 1, (1000, 1)), y=rng.normal(size=1000))
    for seed in range(8):
        model = Additive(steps=5).run(data, 6.0, Rng(seed=seed))
        offsets.append(float(model.predictions(data).mean() - data.y.mean()))
    assert np.sqrt(np.mean(np.square(offsets))) < 0.4


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
    models = [Additive().run(data, 12.0, Rng(seed=seed)) for seed in range(4)]
    assert min(float(model.predictions(data).std()) for model in models) > 0.1


def test_trees_see_little_noise_where_the_start_explains_most() -> None:
    """Residuals are measured again after the start: without, trees add the noise of the target's own spread."""
    rng = np.random.default_rng(4)
    schema = Schema(columns=(*COLUMNS[1:2], Column(name="b", low=-1, high=1)), low=-2, high=2, rows=3000)
    x = rng.uniform(-1, 1, (3000, 2))
    data = Data(schema=schema, x=x, y=x[:, 0] + 0.8 * x[:, 1])
    model = Boosted(trees=100, steps=50).run(data, 3.0, Rng(seed=1))
    assert np.mean((model.predictions(data) - data.y) ** 2) < 0.013 * data.y.var()


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


def test_outputs_at_the_median_of_a_skewed_target_are_not_better_than_its_mean() -> None:
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


def test_a_mean_between_two_noisy_ones_is_nearer_than_either() -> None:
    """Of a thousand rows of noise: the start's alone errs by a quarter more."""
    rng = np.random.default_rng(3)
    schema = Schema(columns=COLUMNS[1:2], low=-4, high=4, rows=1000)
    data = Data(schema=schema, x=rng.uniform(-1, 1, (1000, 1)), y=rng.normal(size=1000))
    errors = []
    for seed in range(40):
        model = Additive(steps=5).run(data, 6.0, Rng(seed=seed))
        errors.append(float(model.predictions(data).mean() - data.y.mean()))
    assert np.sqrt(np.mean(np.square(errors))) < 0.1


def test_predictions_of_a_skewed_target_have_its_mean() -> None:
    """Clipped gradients alone would draw them towards the median, by a sixth of the deviation."""
    schema = Schema(columns=(Column(name="a", low=0, high=1),), low=0, high=1000, rows=4000)
    generator = np.random.default_rng(0)
    data = Data(schema=schema, x=generator.random((4000, 1)), y=generator.pareto(2.5, 4000).clip(0, 1000) * 10)
    model = Boosted(trees=30, steps=30).run(data, 0.3, Rng(seed=1))
    assert model.predictions(data).mean() == pytest.approx(data.y.mean(), abs=0.08 * data.y.std())


@pytest.mark.parametrize("schema", [TWO, THREE, NUMBER], ids=["two classes", "three classes", "regression"])
def test_a_part_that_served_another_tree_gives_the_leaves_of_this_one(schema: Schema) -> None:
    layout, rng = layout_of(schema), np.random.default_rng(1)
    splits = random_splits(schema, layout.levels, trees=2, depth=3, generator=rng)
    first, second = (
        LeafSums(layout=layout, columns=splits.columns[tree], right=splits.right[tree], unit=1.0) for tree in range(2)
    )
    part, fresh = (CodedRows(layout, rows_for(schema, 300, seed=5)) for _ in range(2))
    other = first.partial(part)
    assert np.array_equal(second.partial(part), second.partial(fresh))
    assert not np.array_equal(other, second.partial(fresh))


def test_counts_by_cells_of_the_logit_are_the_sums_of_derivatives() -> None:
    layout, rng = layout_of(TWO), np.random.default_rng(1)
    part = CodedRows(layout, rows_for(TWO, 500, seed=5))
    part.values[:] = 4 * rng.normal(size=part.values.shape)
    splits = random_splits(TWO, layout.levels, trees=1, depth=3, generator=rng)
    sums = LeafSums(layout=layout, columns=splits.columns[0], right=splits.right[0], unit=1.0)
    assert np.array_equal(sums._counted(part), sums._summed(part))
    chances = 1 / (1 + np.exp(-part.values[0].astype(float)))
    exact = np.clip(part.target - chances, -layout.length, layout.length)
    leaf = part.places >> 1
    expected = np.bincount(leaf, weights=exact, minlength=8)
    assert sums.partial(part)[:, 0] == pytest.approx(expected, abs=500 * 0.002)


def test_joined_parts_are_the_rows_of_all_of_them() -> None:
    layout, data = layout_of(THREE), rows_for(THREE, 300, seed=5)
    together = CodedRows(layout, data)
    cut = CodedRows.joined([CodedRows(layout, data.take(slice(at, at + 70))) for at in range(0, 300, 70)])
    assert all(np.array_equal(one, other) for one, other in zip(cut.codes, together.codes, strict=True))
    assert np.array_equal(cut.target, together.target)
    assert cut.values.shape == together.values.shape


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
