"""Parts of a row are weighed by noisy margins: bounded, exact, paid for, and worth the price."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import leaves
from privaware.exact_sums import Lattice
from privaware.learners import linear
from privaware.learners._linear import gradient as _linear_gradient
from privaware.learners._linear.gradient import ROWS, LinearGradient
from privaware.learners._linear.weigh_networks import (
    FIRST_STEPS_FRACTION,
    factors,
    part_lengths,
    part_weights,
    weigh,
    with_kept,
)
from privaware.learners.linear import Linear
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import BrokenPromise, Replayer, check_mechanism, record, replay, rows_for
from privaware.testing._rows import joined

LATTICE = Lattice(bound=1.0, bits=12)
PARTS = ((32, 1.0), (32, 1.0))
SHAPE = (1, 8, 8)


@dataclass(frozen=True, kw_only=True)
class OfTwoHalves(Linear):
    """`linear` on images whose upper and lower halves are the parts."""

    def _parts(self, schema: Schema) -> Any:
        return PARTS if self.weigh else ()


def half_telling(rows: int, seed: int) -> Data:
    """Images of four classes that their upper half tells, each half of the same length."""
    rng = np.random.default_rng(seed)
    patterns, y = np.random.default_rng(7).normal(size=(4, 32)), rng.integers(4, size=rows)
    halves = [patterns[y] + 3.0 * rng.normal(size=(rows, 32)), rng.normal(size=(rows, 32))]
    x = np.concatenate([half / np.linalg.norm(half, axis=1, keepdims=True) for half in halves], 1)
    schema = Schema(form="image", shape=SHAPE, classes=tuple("abcd"), rows=rows)
    return Data(schema=schema, x=(0.5 * x).reshape(-1, *SHAPE).astype(np.float32), y=y)


@pytest.mark.parametrize("centre", [0.0, 0.1])
def test_texts_without_other_columns_get_finite_weights(centre: float) -> None:
    schema = Schema(columns=(Column(name="note", kind="text", slots=0),), classes=("n", "y"), rows=60)
    features = [{"name": "mixed", "text": {"name": "hashed", "slots": 8}, "count": 6}]
    learner = Linear(steps=4, features=features, weigh=0.1, centre=centre)
    model = learner.run(rows_for(schema, 60), 0.5, Rng(seed=1))
    assert np.isfinite(model.tensors["output.weight"]).all()


def test_lengths_about_the_mean_are_what_the_mean_leaves() -> None:
    parts = ((2, 3.0), (1, 4.0))
    assert part_lengths(parts, np.zeros(3), 1.0) == pytest.approx([0.6, 0.8])
    assert part_lengths(parts, np.array([0.0, np.sqrt(0.2), 0.0]), 2.0) == pytest.approx([0.8, 1.6])
    assert part_lengths(parts, np.array([0.6, 0.0, 0.0]), 1.0)[0] == pytest.approx(np.sqrt(0.1) * 0.6)


def test_block_after_the_weighed_ones_keeps_its_norm() -> None:
    assert with_kept(np.array([3.0, 4.0]), ((2, 1.0), (1, 1.0), (5, 0.25))) == pytest.approx([0.6, 0.8, 0.25])


def test_factors_give_parts_their_weights_and_rows_length_one() -> None:
    by_column = factors([3.0, 4.0], ((2, 1.0), (1, 1.0)), np.array([0.5, 2.0]))
    assert by_column == pytest.approx([1.2, 1.2, 0.4])


def test_clear_margins_decide_and_noisy_ones_keep_given_lengths() -> None:
    parts = ((2, 1.0), (2, 2.0))
    clear, lost = (part_weights(np.array([100.0, 25.0]), parts, deviation) for deviation in (1e-3, 1e6))
    assert clear[0] / clear[1] == pytest.approx(0.5 * 4**1.5, rel=0.01)
    assert lost[1] / lost[0] == pytest.approx(2.0, rel=0.01)
    assert np.linalg.norm(clear) == pytest.approx(1.0)
    assert part_weights(np.array([-5.0, 100.0]), parts, 1.0)[0] < 0.01


def test_weighed_rows_are_bounded_and_equal_on_any_device() -> None:
    rows = np.random.default_rng(0).random((5000, 20)).astype(np.float32)
    rows = LATTICE.round(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    by_column = np.repeat([2.0, 0.1], 10)
    weighed = weigh(rows, by_column, LATTICE)
    assert np.linalg.norm(weighed, axis=1).max() <= 1.0
    assert np.array_equal(weighed[4999:], weigh(rows[4999:], by_column, LATTICE))
    assert np.array_equal(weigh(torch.from_numpy(rows), by_column, LATTICE).numpy(), weighed)
    short = 0.1 * rows
    assert np.abs(weigh(short, by_column, LATTICE) - short * by_column).max() <= LATTICE.step


@pytest.mark.parametrize("classes", [2, 4])
def test_margins_are_exact_sums_that_a_row_moves_by_at_most_one(classes: int) -> None:
    rng = np.random.default_rng(classes)
    rows = rng.normal(size=(300, 6))
    rows = ROWS.round((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))
    y, weights = rng.integers(classes, size=300), torch.from_numpy(rng.normal(size=(classes, 7)))
    found = margins(rows, y, weights, classes)
    above = (weights - weights.mean(0)).numpy()[:, :6]
    unit = np.sqrt(np.mean(np.append(above, np.zeros((classes, 1)), 1) ** 2)) / np.sqrt(2)
    for part, columns in enumerate((slice(0, 2), slice(2, 6))):
        own = np.einsum("ij,ij->i", rows[:, columns], above[y][:, columns]) / unit
        assert np.abs(own).max() > 1, "some margins must be clipped for the test to mean anything"
        assert found[part] == pytest.approx(np.clip(own, -1, 1).sum(), abs=0.05)
    order = rng.permutation(300)
    assert np.array_equal(found, margins(rows[order], y[order], weights, classes))
    for left_out in range(20):
        without = np.delete(np.arange(300), left_out)
        assert np.abs(found - margins(rows[without], y[without], weights, classes)).max() <= 1.0


def margins(rows: np.ndarray, y: np.ndarray, weights: torch.Tensor, classes: int) -> np.ndarray:
    of = LinearGradient(
        rows=torch.from_numpy(rows), targets=torch.from_numpy(y), classes=classes, constant=0.1, norm=0.5
    )
    return of.margins(weights, [2, 4], 1.0)


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_weighing_takes_about_its_part_of_the_budget(rate: float) -> None:
    schema, pixels = half_telling(10, 0).schema, [{"name": "pixels"}]
    learners = [OfTwoHalves(rate=rate, features=pixels, weigh=part) for part in (0.0, 0.1)]
    noises = [accounting.calibrate(lambda noise, of=learner: of.cost(schema, noise), 1.0, 1e-5) for learner in learners]
    assert (noises[0] / noises[1]) ** 2 == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("centre", [0.0, 0.05])
def test_a_part_that_tells_nothing_is_left_behind(centre: float) -> None:
    train, test = half_telling(1500, 1), half_telling(1500, 2)
    plain, weighed = (
        score(OfTwoHalves(features=[{"name": "pixels"}], centre=centre, weigh=part), train, test)
        for part in (0.0, 0.05)
    )
    assert weighed > plain + 0.02, (plain, weighed)


def score(learner: Linear, train: Data, test: Data) -> float:
    """The mean accuracy of three models at epsilon 1."""
    noise = accounting.calibrate(lambda noise: learner.cost(train.schema, noise), 1.0, 1e-5)
    models = [learner.run(train, noise, Rng(seed)) for seed in range(3)]
    return float(np.mean([accuracy(test.y, model.predictions(test)) for model in models]))


def test_replay_and_canary_game_keep_the_promised_bound() -> None:
    schema = Schema(form="image", shape=SHAPE, classes=tuple("abc"), rows=40)
    learner = OfTwoHalves(features=[{"name": "pixels"}], steps=8, centre=0.05, weigh=0.05)
    check_mechanism(learner, schema=schema, games=40)


HUGE = np.float32(3e38)
EXTREME = {
    "infinite": np.full(64, np.inf),
    "infinite below": np.full(64, -np.inf),
    "not a number": np.full(64, np.nan),
    "huge": np.full(64, HUGE),
    "one huge pixel": np.eye(64)[3] * HUGE,
    "smallest": np.full(64, 1e-45),
    "in one part": np.repeat([1.0, 0.0], 32),
    "of every kind": np.tile([np.inf, -np.inf, np.nan, HUGE, -HUGE, 1e-45, 0.0, 1.0], 8),
}
WEIGHING = OfTwoHalves(features=[{"name": "pixels"}], steps=8, weigh=0.05)


def image(pixels: np.ndarray) -> np.ndarray:
    return pixels.astype(np.float32).reshape(SHAPE)


@pytest.mark.parametrize("rate", [1.0, 0.5])
@pytest.mark.parametrize("centre", [0.0, 0.05])
@pytest.mark.parametrize("pixels", EXTREME.values(), ids=EXTREME)
def test_extreme_rows_move_no_release_by_more_than_one_row(pixels: np.ndarray, centre: float, rate: float) -> None:
    data = half_telling(40, 0)
    for label in range(4):
        run = replay(replace(WEIGHING, centre=centre, rate=rate), data, joined(data, image(pixels), label), 0.05)
        assert max(run.ratios.values()) <= 1.0


def worst_rows(data: Data, noise: float, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """For each class the row whose margins are the largest at the weights of the first steps, which are public."""
    seen: list[np.ndarray] = []

    def watched(self: LinearGradient, weights: torch.Tensor, *settings: Any) -> np.ndarray:
        seen.append((weights - weights.mean(0)).numpy()[:, :-1])
        return margins_of(self, weights, *settings)

    margins_of = LinearGradient.margins
    with monkeypatch.context() as patch:
        patch.setattr(LinearGradient, "margins", watched)
        record(WEIGHING, data, noise)
    return np.maximum(seen[0], 0.0).reshape(-1, *SHAPE).astype(np.float32)


def margins_of_a_person(monkeypatch: pytest.MonkeyPatch) -> float:
    """By how many rows' worth four rows that know the first steps, one for each class, move the margins."""
    data, noise = half_telling(40, 0), 0.05
    monkeypatch.setattr(linear, "MARGIN_CLIP", 0.5)  # most margins are clipped
    worst = worst_rows(data, noise, monkeypatch)
    within = replace(data, x=np.concatenate([data.x, worst]), y=np.append(data.y, np.arange(4)))
    before = record(WEIGHING, data, noise)
    rng = Replayer(0, before.calls, None, inside=True, apart=4.0)
    WEIGHING.run(within, noise, rng)
    rng.finish()
    return rng.ratios[max(1, round(FIRST_STEPS_FRACTION * WEIGHING.steps))]


def test_rows_of_a_person_move_margins_by_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 3.9 < margins_of_a_person(monkeypatch) <= 4.0


def test_margins_of_a_person_that_are_not_clipped_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_linear_gradient, "GAINS", Lattice(bound=64.0, bits=20))
    with pytest.raises(BrokenPromise, match="sensitivity exceeded"):
        margins_of_a_person(monkeypatch)


@pytest.mark.parametrize("steps", [1, 2, 3, 20])
def test_steps_before_and_after_weighing_are_those_paid_for(steps: int) -> None:
    learner, data = replace(WEIGHING, steps=steps), half_telling(40, 0)
    calls = record(learner, data, 1.0).calls
    paid = sorted(leaf.noise for leaf, count in leaves(learner.cost(data.schema, 1.0)) for _ in range(count))
    assert sorted(float(call.public["noise"]) for call in calls) == pytest.approx(paid)


def test_rows_without_parts_and_numbers_to_predict_are_refused() -> None:
    images = Schema(form="image", shape=SHAPE, classes=("a", "b"), rows=100)
    with pytest.raises(WrongInput, match="one feature of several blocks to weigh, such as extractor with glyphs"):
        Linear(features=[{"name": "pixels"}], weigh=0.05).cost(images, 1.0)
    table = Schema(columns=(Column(name="c", low=-1, high=1),), classes=("n", "y"), rows=100)
    with pytest.raises(WrongInput, match="one feature of several blocks"):
        Linear(weigh=0.05).cost(table, 1.0)
    with pytest.raises(WrongInput, match="weigh"):
        Linear(weigh=0.5)
    with pytest.raises(WrongInput, match=r"weigh 0\.45 and check 0"):
        Linear(weigh=0.45, centre=0.45, base=0.1)
