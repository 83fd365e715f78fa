"""The training that additive, boosted and fourier share: budget, curves, and models that predict as in training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Gaussian
from privaware.features.codes import Codes
from privaware.learners._boosting.additive_start import CLIP
from privaware.learners.additive import Additive
from privaware.learners.boosted import Boosted
from privaware.learners.fourier import Fourier
from privaware.models.trees import curves
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for
from tests.learners.mixed_columns import COLUMNS, NUMBER, THREE, TWO


def unclipped(outputs: np.ndarray) -> np.ndarray:
    """Logits of two classes by what clipped gradients stand for: a chance q of the rarer one is q / (q + 1/2)."""
    chances = 1 / (1 + np.exp(outputs[:, ::-1] - outputs))
    rarer = np.minimum(chances, chances[:, ::-1])
    rarer = rarer / (rarer + CLIP)
    chances = np.where(chances <= 0.5, rarer, 1 - rarer)
    logits = np.log(chances[:, 1] / chances[:, 0])
    return np.stack([-logits / 2, logits / 2], axis=1)


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


def test_settings_that_learn_nothing_are_refused() -> None:
    with pytest.raises(WrongInput, match="at least one step or one tree"):
        Boosted(steps=0, trees=0)
    with pytest.raises(WrongInput, match="a table with columns"):
        Boosted().cost(Schema(form="image", shape=(1, 3, 3), classes=("no", "yes"), rows=40), 1.0)
    with pytest.raises(WrongInput, match="low and high"):
        Boosted().cost(Schema(columns=(Column(name="c"),), classes=("a", "b"), rows=5), 1.0)


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
