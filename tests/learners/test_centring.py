"""A private mean of rows: shrunk by its noise, undone in the released weights, and worth its price."""

from __future__ import annotations

import numpy as np
import pytest

from privaware import accounting
from privaware.data import Data
from privaware.exact_sums import Lattice
from privaware.learners._centring import Centre
from privaware.learners.linear import Linear
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Schema

LATTICE = Lattice(bound=1.0, bits=12)
SHAPE = (1, 8, 8)
PIXELS = [{"name": "pixels"}]


def alike(rows: int, seed: int = 0) -> Data:
    """Images of three classes that are mostly the same image."""
    rng = np.random.default_rng(seed)
    common, patterns = np.random.default_rng(7).random(SHAPE), np.random.default_rng(8).random((3, *SHAPE))
    y = rng.integers(3, size=rows)
    x = np.clip(common + 0.05 * patterns[y] + 0.05 * rng.normal(size=(rows, *SHAPE)), 0, 2).astype(np.float32) / 2
    schema = Schema(form="image", shape=SHAPE, classes=("a", "b", "c"), rows=rows)
    return Data(schema=schema, x=x, y=y)


def test_mean_of_noise_shrinks_to_zero_and_a_clear_one_is_kept() -> None:
    noise = np.random.default_rng(0).normal(size=4000)
    lost = Centre.of(50 * noise, rows=1000, deviation=50.0)
    assert np.linalg.norm(lost.mean) < 0.3 * np.linalg.norm(50 * noise / 1000)
    truth = np.full(4000, 0.7 / np.sqrt(4000))
    kept = Centre.of(1e6 * truth + 50 * noise, rows=10**6, deviation=50.0)
    assert np.linalg.norm(kept.mean - truth) < 0.01
    assert kept.scale == pytest.approx(1 / np.sqrt(1 - 0.49), rel=0.01)


def test_moved_rows_are_bounded_and_functions_of_themselves() -> None:
    rows = np.random.default_rng(0).random((5000, 20)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    centre = Centre.of(rows.sum(0), rows=5000, deviation=0.0)
    all_moved, one = rows.copy(), rows[4999:].copy()
    centre.move(all_moved, LATTICE)
    centre.move(one, LATTICE)
    assert np.linalg.norm(all_moved, axis=1).max() <= 1.0
    assert np.array_equal(all_moved[4999:], one)
    assert np.linalg.norm(all_moved.mean(0)) < 0.2 * np.linalg.norm(rows.mean(0))


def test_centred_weights_give_the_same_outputs_for_plain_rows() -> None:
    rng = np.random.default_rng(1)
    centre = Centre(mean=rng.normal(size=6), scale=1.7)
    weight, bias, x = rng.normal(size=(3, 6)), rng.normal(size=3), rng.normal(size=(4, 6))
    plain_weight, plain_bias = centre.outputs_for(weight, bias)
    assert np.allclose(x @ plain_weight.T + plain_bias, (x - centre.mean) * centre.scale @ weight.T + bias)


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_the_mean_takes_about_its_part_of_the_budget(rate: float) -> None:
    schema = alike(10).schema
    plain = accounting.calibrate(lambda noise: Linear(rate=rate).cost(schema, noise), 1.0, 1e-5)
    centred = accounting.calibrate(lambda noise: Linear(rate=rate, centre=0.1).cost(schema, noise), 1.0, 1e-5)
    assert (plain / centred) ** 2 == pytest.approx(0.9, abs=0.01)


def test_similar_rows_are_told_apart_better_from_their_mean() -> None:
    train, test = alike(1000), alike(1000, seed=1)
    plain, centred = (score(Linear(features=PIXELS, centre=centre), train, test) for centre in (0.0, 0.05))
    assert centred > plain + 0.1, (plain, centred)


def score(learner: Linear, train: Data, test: Data) -> float:
    """The mean accuracy of two models at epsilon 1."""
    noise = accounting.calibrate(lambda noise: learner.cost(train.schema, noise), 1.0, 1e-5)
    models = [learner.run(train, noise, Rng(seed)) for seed in range(2)]
    return float(np.mean([accuracy(test.y, model.predictions(test)) for model in models]))
