"""`amortised`: exact sums, a sensitivity that neighbours reach, and a network blind to the order of columns."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Gaussian
from privaware.features.codes import Codes
from privaware.learners import amortised
from privaware.learners._table_scores import LevelSums
from privaware.learners.amortised import Amortised
from privaware.models.trees import curves
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for
from tests.learners.mixed_columns import COLUMNS, THREE, TWO
from tests.learners.tiny_table_network import tiny_table_network


class Recorded(Rng):
    """Keeps what is released, before noise, with its sensitivity."""

    def __init__(self) -> None:
        super().__init__(seed=4)
        self.releases: list[tuple[np.ndarray, float]] = []

    def gaussian(self, exact: np.ndarray, *, noise: float, sensitivity: float) -> np.ndarray:
        self.releases.append((np.array(exact), sensitivity))
        return exact + noise * sensitivity * np.random.default_rng(len(self.releases)).normal(size=np.shape(exact))


def first_release(data: Data) -> tuple[np.ndarray, float]:
    rng = Recorded()
    Amortised(rounds=1, weights=tiny_table_network()).run(data, 1.0, rng)
    [released] = rng.releases
    return released


@pytest.mark.parametrize("schema", [TWO, THREE], ids=["two classes", "three classes"])
def test_first_release_is_exact_and_within_its_sensitivity(schema: Schema) -> None:
    data = rows_for(schema, 200, seed=5)
    exact, sensitivity = first_release(data)
    assert sensitivity == math.sqrt(len(COLUMNS) + 1)
    moved, _ = first_release(data.take(np.random.default_rng(0).permutation(200)))
    assert np.array_equal(exact, moved)
    distances = []
    for row in range(0, 200, 7):
        fewer, _ = first_release(data.take(np.arange(200) != row))
        distances.append(np.linalg.norm(exact - fewer))
    assert max(distances) <= sensitivity
    assert max(distances) > 0.995 * sensitivity  # the price buys nothing that is not released


class Frozen(Recorded):
    """Releases the same first sums whatever the rows are."""

    def __init__(self, first: np.ndarray) -> None:
        super().__init__()
        self.first = first

    def gaussian(self, exact: np.ndarray, *, noise: float, sensitivity: float) -> np.ndarray:
        return super().gaussian(exact if self.releases else self.first, noise=noise, sensitivity=sensitivity)


@pytest.mark.parametrize("rows", [1e3, 1e7, 1e12])
def test_sums_of_many_rows_move_by_the_sensitivity_at_most(rows: float) -> None:
    """Sums are exact, but the smooth sums over levels are computed from them in float64."""
    levels, rng = Codes(cells=32).levels(THREE), np.random.default_rng(0)
    sums = LevelSums.of(THREE, levels)
    starts = np.cumsum([1, *levels[:-1]])
    for _ in range(30):
        exact = np.floor(rng.random((3, 1 + sum(levels))) * rows)
        more = exact.copy()
        more[rng.integers(3), [0, *(starts + rng.integers(levels))]] += 1
        assert np.linalg.norm(sums.of_levels(more) - sums.of_levels(exact)) <= sums.length


@pytest.mark.parametrize("schema", [TWO, THREE], ids=["two classes", "three classes"])
def test_later_releases_move_by_the_length_of_a_residual_at_most(schema: Schema) -> None:
    """The second release at the model that follows from the first, of both neighbours."""
    data = rows_for(schema, 200, seed=5)
    first, _ = first_release(data)
    seconds = []
    for rows in (data, data.take(np.arange(200) != 17)):
        rng = Frozen(first)
        Amortised(rounds=2, weights=tiny_table_network()).run(rows, 0.05, rng)
        seconds.append(rng.releases[1])
    (exact, sensitivity), (fewer, _) = seconds
    assert sensitivity == pytest.approx((1.0 if len(schema.classes) == 2 else math.sqrt(2.0)) * 2.0)
    assert 0 < np.linalg.norm(exact - fewer) <= sensitivity


def test_no_level_counts_more_than_one_in_its_column() -> None:
    columns = (*COLUMNS, Column(name="wide", low=-5, high=1e6, missing="category"))
    schema = Schema(columns=columns, classes=("no", "yes"), rows=10)
    sums = LevelSums.of(schema, Codes().levels(schema))
    lengths = np.concatenate([np.linalg.norm(matrix, axis=1) for matrix in sums.matrices])
    assert lengths.max() <= 1.0
    assert lengths.max() > 0.998


def test_all_rounds_together_are_one_gaussian_of_the_noise() -> None:
    for rounds in (1, 2, 3):
        event = Amortised(rounds=rounds).cost(TWO, 3.0)
        assert accounting.epsilon(event, 1e-5) == pytest.approx(accounting.epsilon(Gaussian(noise=3.0), 1e-5), rel=1e-6)


def example(rows: int, seed: int = 0) -> tuple[Schema, np.ndarray, np.ndarray]:
    """The class follows from two of four columns; one is a copy of another."""
    names = ("a", "copy", "b", "useless")
    schema = Schema(columns=tuple(Column(name=name, low=-3, high=3) for name in names), classes=("n", "y"), rows=rows)
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 4)).clip(-3, 3)
    x[:, 1] = x[:, 0]
    logits = 1.5 * x[:, 0] + np.where(x[:, 2] > 0.5, 2.0, -1.0)
    return schema, x, (generator.random(rows) < 1 / (1 + np.exp(-logits))).astype(int)


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_model_learns_what_acts_and_leaves_out_what_does_not(rounds: int) -> None:
    schema, x, y = example(6000)
    train, test = Data(schema=replace(schema, rows=4000), x=x[:4000], y=y[:4000]), x[4000:]
    learner = Amortised(rounds=rounds)
    noise = accounting.calibrate(lambda noise: learner.cost(train.schema, noise), 1.0, 1e-5)
    model = learner.run(train, noise, Rng(seed=1))
    chances = model.probabilities(Data(schema=schema, x=test, y=y[4000:]))
    best = 1 / (1 + np.exp(-(1.5 * test[:, 0] + np.where(test[:, 2] > 0.5, 2.0, -1.0))))
    losses = [-np.log(np.where(y[4000:] == 1, p, 1 - p)).mean() for p in (chances[:, 1], best)]
    assert losses[0] < losses[1] + 0.07  # 0.68 for the constant, 0.46 at best
    sizes = {curve.column: np.ptp(curve.scores[:, 1]) for curve in curves(model)}
    assert sizes["useless"] < 0.5 * min(sizes["b"], sizes["a"] + sizes["copy"])


def test_without_signal_only_class_shares_remain() -> None:
    schema, x, _ = example(1000)
    y = np.random.default_rng(3).integers(0, 4, 1000) // 3
    model = Amortised().run(Data(schema=schema, x=x, y=y), 30.0, Rng(seed=1))
    chances = model.probabilities(Data(schema=schema, x=x, y=y))[:, 1]
    assert np.std(chances) < 0.08
    assert abs(chances.mean() - 0.25) < 0.1


def test_order_of_columns_changes_only_the_order_of_curves() -> None:
    from privaware.learners._table_scores import Rounds

    data = rows_for(TWO, 200, seed=5)
    sums = LevelSums.of(TWO, Codes().levels(TWO))
    exact, _ = first_release(data)
    sizes = [matrix.shape[1] for matrix in sums.matrices]
    parts = np.split(exact[:, 1:], np.cumsum(sizes)[:-1], axis=1)
    turned = LevelSums(matrices=sums.matrices[::-1], ordered=sums.ordered[::-1], with_missing=sums.with_missing[::-1])
    weights = []
    for each, released in ((sums, exact), (turned, np.concatenate([exact[:, :1], *parts[::-1]], axis=1))):
        rounds = Rounds(amortised._network(str(amortised.SHIPPED)), each, rows=200, scale=2.0, rounds=1)
        weights.append(rounds.after(released, 1.0))
    levels = Codes().levels(TWO)
    columns = np.split(weights[0][1:], np.cumsum(levels)[:-1])
    assert np.concatenate(columns[::-1]) == pytest.approx(weights[1][1:], abs=1e-4)
    assert weights[0][0] == pytest.approx(weights[1][0], abs=1e-4)


def test_curves_show_wider_bands_for_more_noise() -> None:
    schema, x, y = example(2000)
    data = Data(schema=schema, x=x, y=y)
    small, large = (Amortised().run(data, noise, Rng(seed=1)).architecture["deviations"] for noise in (0.3, 5.0))
    assert 0 < np.mean(small) < np.mean(large)


def test_what_cannot_be_learnt_from_is_refused_before_the_charge(tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match="a table with columns"):
        Amortised().cost(Schema(form="image", shape=(1, 3, 3), classes=("no", "yes"), rows=40), 1.0)
    with pytest.raises(WrongInput, match="low and high"):
        Amortised().cost(Schema(columns=(Column(name="c"),), classes=("a", "b"), rows=5), 1.0)
    with pytest.raises(WrongInput, match="got no such file"):
        Amortised(weights=str(tmp_path / "none.safetensors")).cost(TWO, 1.0)
    (tmp_path / "bad.safetensors").write_bytes(b"no weights")
    with pytest.raises(WrongInput, match="as `privaware reproduce ours/tables_prior/weights` writes them"):
        Amortised(weights=str(tmp_path / "bad.safetensors")).cost(TWO, 1.0)
    with pytest.raises(WrongInput, match="rounds"):
        Amortised(rounds=4)


@pytest.mark.parametrize("rows", [0, 40])
@pytest.mark.parametrize("noise", [1e7, 1e30])
def test_noise_beyond_the_network_gives_a_finite_model(noise: float, rows: int) -> None:
    model = Amortised().run(rows_for(TWO, rows), noise, Rng(seed=1))
    assert all(np.isfinite(values).all() for values in model.tensors.values())


def test_shipped_weights_are_those_of_their_note() -> None:
    note = json.loads(amortised.SHIPPED.with_suffix(".json").read_text())
    assert note["sha256"] == hashlib.sha256(amortised.SHIPPED.read_bytes()).hexdigest()
    assert note["command"].startswith("privaware reproduce ours/tables_prior/weights")
    assert amortised.SHIPPED.stat().st_size < 10_000_000
