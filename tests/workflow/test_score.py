"""A bought score: its price, its sensitivity, its interval, and that it is released with the model."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import accounting, fit, load, metrics, verify
from privaware.card import PricedEvent
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Disjoint
from privaware.features.random_fourier import RandomFourier
from privaware.learners._fixed_features import linear_model
from privaware.learners.linear import Linear
from privaware.learners.majority import Majority
from privaware.learners.mean import Mean
from privaware.mechanism import Then
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.selectors.top import Top
from privaware.testing import BrokenPromise, check_mechanism, rows_for
from privaware.workflow import _score_cells
from privaware.workflow._recipe import Recipe
from privaware.workflow._score import Score, ScoredModel, ScoredTraining, score_words, with_score
from privaware.workflow._score_cells import TYPICAL, ScoreCells
from privaware.workflow._score_statistics import NoisyCells, fraction_interval, rows_needed
from privaware.workflow._statements import _last_event, _wrong_score
from privaware.workflow.run.paid_columns import keep_columns
from privaware.workflow.run.plan import grouped
from privaware.workflow.run.training_plan import recipe_plan, training_plan
from tests.cli.people import write_people

COLUMNS = (Column(name="a", low=-1, high=1), Column(name="b", low=0, high=5))
TABLE = Schema(columns=COLUMNS, classes=("no", "yes"), rows=40)
THREE = replace(TABLE, classes=("no", "perhaps", "yes"))
NUMBERS = Schema(columns=COLUMNS, low=0, high=10, rows=40)


def scored(metric: str, training: Any = None, **changed: Any) -> ScoredTraining:
    return ScoredTraining(
        **{"training": training or Linear(steps=2), "metric": metric, "epsilon": 0.5, "held_out": 0.4} | changed
    )


ALL = ("confusion", "calibration")


@pytest.mark.parametrize(
    ("metric", "schema", "also"),
    [
        ("accuracy", TABLE, ()),
        ("accuracy", TABLE, (*ALL, "threshold")),
        ("accuracy", THREE, ()),
        ("accuracy", THREE, ALL),
        ("auc", TABLE, ("calibration",)),
        ("mae", NUMBERS, ()),
        ("r2", NUMBERS, ()),
    ],
    ids=["accuracy", "two tables", "three classes", "three tables", "auc", "mae", "r2"],
)
def test_score_passes_the_mechanism_checks(metric: str, schema: Schema, also: tuple[str, ...]) -> None:
    check_mechanism(scored(metric, Mean() if schema is NUMBERS else Majority(), also=also), schema=schema, games=6)


def test_score_after_descent_passes_the_mechanism_checks() -> None:
    check_mechanism(scored("accuracy"), schema=TABLE, games=6)


@dataclass(frozen=True, kw_only=True)
class ScoreOfAllRows(ScoredTraining):
    """Planted: the rows that trained score too, and were charged for the training only."""

    def run(self, data: Data, noise: float, rng: Rng) -> ScoredModel:
        released = super().run(data, noise, rng)
        cells = ScoreCells.of(self.metric, 2)
        noisy = rng.laplace(cells.exact(released.model, data, 0.0), noise=1 / self.epsilon, sensitivity=1.0)
        return replace(released, score=self.score(cells, noisy, data.schema, rng))


def test_planted_score_of_training_rows_is_caught() -> None:
    with pytest.raises(AssertionError):
        check_mechanism(
            ScoreOfAllRows(training=Majority(), metric="accuracy", epsilon=0.5, held_out=0.4), schema=TABLE, games=0
        )


@pytest.mark.parametrize(("metric", "schema"), [("r2", NUMBERS), ("mae", NUMBERS), ("accuracy", THREE)])
def test_planted_sensitivity_is_caught(monkeypatch: pytest.MonkeyPatch, metric: str, schema: Schema) -> None:
    monkeypatch.setattr("privaware.workflow._score.ScoredTraining.changes", 0.2)
    monkeypatch.setattr("privaware.workflow._score.ScoredTraining.score", lambda *_: None)
    with pytest.raises(AssertionError):
        check_mechanism(scored(metric, Mean() if schema is NUMBERS else Majority()), schema=schema, games=0)


def test_price_is_the_dearer_part_and_composes_for_persons() -> None:
    training = accounting.epsilon(Linear(steps=2).cost(replace(TABLE, rows=24), 3.0), 1e-5)
    cost = scored("accuracy").cost(TABLE, 3.0)
    assert isinstance(cost, Disjoint)
    assert accounting.epsilon(cost, 1e-5) == pytest.approx(max(training, 0.5), rel=1e-3)
    dear = scored("accuracy", epsilon=50.0).cost(TABLE, 3.0)
    assert accounting.epsilon(dear, 1e-5) == pytest.approx(50.0, rel=1e-3)
    persons = scored("accuracy").cost(replace(TABLE, unit="person", cap=2), 3.0)
    assert accounting.epsilon(persons, 1e-5) > training + 0.3


def test_labels_move_twice_as_much() -> None:
    def noise_of(training: Any) -> float:
        data = rows_for(TABLE, 8)
        draws = [scored("accuracy", training).run(data, 9.0, Rng(seed=at)).score.rows for at in range(300)]
        return float(np.std(draws))

    @dataclass(frozen=True, kw_only=True)
    class LabelMajority(Majority):
        unit = "label"

    assert noise_of(LabelMajority()) == pytest.approx(2 * noise_of(Majority()), rel=0.25)


def facts(metric: str, classes: int, noisy: np.ndarray, scale: float, also: tuple[str, ...] = ()) -> NoisyCells:
    cells = ScoreCells.of(metric, classes, also)
    return NoisyCells(cells=cells, noisy=noisy, scale=scale, draw=np.random.default_rng(0))


def histogram(truth: np.ndarray, odds: np.ndarray, *also: str, metric: str = "accuracy") -> np.ndarray:
    edges = ScoreCells.of(metric, 2, also).edges
    cells = np.zeros((2, len(edges) + 1))
    np.add.at(cells, (truth.astype(int), np.searchsorted(edges, odds)), 1.0)
    return cells.ravel()


@pytest.mark.parametrize("chance", [0.5, 0.9, 0.99])
def test_interval_of_an_accuracy_covers_it(chance: float) -> None:
    draw = np.random.default_rng(3)
    inside = 0
    for _ in range(200):
        right, classes = draw.binomial(300, chance), draw.multinomial(300, [0.5, 0.3, 0.2])
        noisy = np.array([300 - right, right, *classes]) + draw.laplace(0, 2.0, 5)
        score = facts("accuracy", 3, noisy, 2.0).score()
        inside += score["low"] <= chance <= score["high"]
    assert inside >= 180


@pytest.mark.parametrize("most", [0.6, 0.9])
def test_interval_of_a_constant_covers_it(most: float) -> None:
    draw = np.random.default_rng(6)
    inside = 0
    for _ in range(200):
        truth = draw.random(400) < most
        noisy = histogram(truth, draw.normal(size=400)) + draw.laplace(0, 4.0, 4)
        constant = facts("accuracy", 2, noisy, 4.0).constant()
        inside += constant["low"] <= most <= constant["high"]
    assert inside >= 180


def test_interval_of_an_auc_covers_it_and_is_not_idle() -> None:
    draw = np.random.default_rng(4)
    inside, widths = 0, []
    for _ in range(120):
        truth = draw.random(400) < 0.4
        cells = histogram(truth, draw.normal(truth * 1.0, 1.0), metric="auc")
        score = facts("auc", 2, cells + draw.laplace(0, 2.0, cells.size), 2.0).score()
        inside += score["low"] <= 0.7602 <= score["high"]  # two normal distributions, one deviation apart
        widths.append(score["high"] - score["low"])
    assert inside >= 105
    assert np.mean(widths) < 0.3


def test_cells_tell_the_same_as_the_metrics() -> None:
    draw = np.random.default_rng(5)
    truth, scores = draw.random(3000) < 0.5, draw.normal(size=3000)
    scores += truth
    exact = metrics.auc(scores[truth], scores[~truth])
    assert facts("auc", 2, histogram(truth, scores, metric="auc"), 1e-6).score()["value"] == pytest.approx(
        exact, abs=5e-3
    )
    target, guess = draw.random(500), draw.random(500)
    guess = (target + guess) / 2
    errors = (target - guess) ** 2
    cells = np.array([errors.sum(), (1 - errors).sum(), (target**2).sum(), (target - target**2).sum()])
    assert facts("r2", 0, cells, 1e-6).score()["value"] == pytest.approx(metrics.r2(target, guess))


@pytest.mark.parametrize(("rate", "rows", "scale"), [(0.05, 200, 1.0), (0.5, 60, 5.0), (0.9, 20, 3.0), (1.0, 40, 2.0)])
def test_interval_of_a_fraction_covers_it(rate: float, rows: int, scale: float) -> None:
    draw = np.random.default_rng(7)
    inside = 0
    for _ in range(400):
        hits = draw.binomial(rows, rate)
        noise = draw.laplace(0, scale, 2)
        low, high = fraction_interval(hits + noise[:1], rows - hits + noise[1:], scale)
        inside += low <= rate <= high
    assert inside >= 368


def planted(count: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Labels drawn from known probabilities, and log-odds that say them too large by one unit."""
    draw = np.random.default_rng(8)
    odds = draw.normal(-1.0, 1.5, count)
    return draw.random(count) < 1 / (1 + np.exp(-odds)), odds + 1.0


def test_threshold_undoes_a_shift_of_the_log_odds() -> None:
    """Probabilities that are too large ask for a larger threshold than those that are right."""
    truth, odds = planted()
    shifted, right = (
        facts("accuracy", 2, histogram(truth, each, "threshold"), 1e-6, ("threshold",)).threshold()
        for each in (odds, odds - 1)
    )
    assert right["value"] < shifted["value"]
    assert shifted["low"] <= shifted["value"] <= shifted["high"]
    assert shifted["balanced_accuracy"]["value"] >= shifted["at_half"]["value"]


def test_calibration_tells_right_from_shifted_probabilities() -> None:
    truth, odds = planted()
    for shift, covered in ((0.0, False), (1.0, True)):
        cells = histogram(truth, odds - shift, "calibration")
        bins = facts("accuracy", 2, cells, 1.0, ("calibration",)).calibration()
        assert [bins[0]["from"], bins[-1]["to"], len(bins)] == [0.0, 1.0, 10]
        fits = [line["low"] <= line["to"] and line["from"] <= line["high"] for line in bins]
        assert all(fits) == covered
        assert sum(line["rows"] for line in bins) == pytest.approx(4000, abs=0.1)


@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
@pytest.mark.parametrize(("metric", "classes"), [("accuracy", 2), ("accuracy", 4), ("auc", 2)])
def test_bins_of_a_calibration_add_up_to_all_rows(metric: str, classes: int, scale: float) -> None:
    layout, draw = ScoreCells.of(metric, classes, ("calibration",)), np.random.default_rng(12)
    for _ in range(20):
        noisy = np.concatenate([np.full(size, 400 / size) for size in layout.sizes])
        noisy += draw.laplace(0, scale, noisy.size)
        released = facts(metric, classes, noisy, scale, ("calibration",))
        rows = [line["rows"] for line in released.calibration()]
        assert sum(rows) == round(released.rows)
        assert all(count >= 0 and count == round(count) for count in rows)


@pytest.mark.parametrize("scale", [1.0, 5.0, 50.0])
def test_rows_that_calibration_asks_for_are_enough(scale: float) -> None:
    needed = rows_needed(2, scale)
    ends = [fraction_interval(np.full(2, rows / 4), np.full(2, rows / 4), scale) for rows in (needed, needed - 1)]
    assert ends[0][1] - ends[0][0] <= 0.5 < ends[1][1] - ends[1][0]
    bins = facts("accuracy", 2, np.zeros(20), scale, ("calibration",)).calibration()
    assert {line["needed"] for line in bins} == {rows_needed(1, scale)}


def test_calibration_of_an_auc_sums_its_finer_bins() -> None:
    truth, odds = planted()
    bins = [
        facts(metric, 2, histogram(truth, odds, "calibration", metric=metric), 1.0, ("calibration",)).calibration()
        for metric in ("accuracy", "auc")
    ]
    assert [line["rows"] for line in bins[0]] == [line["rows"] for line in bins[1]]


def test_sentences_round_the_epsilon_of_a_score_up() -> None:
    score = Score(metric="accuracy", value=0.8, low=0.7, high=0.9, epsilon=1 / 3, rows=100.0)
    assert score.sentence.endswith("with noise for epsilon 0.3334.")
    plan = training_plan(replace(TABLE, rows=900), epsilon=1.0, delta=1e-5, learner="majority")
    told = with_score(plan, metric=None, epsilon=1 / 3).reasons[-1]
    assert "with noise for epsilon 0.3334, within the total of 1" in told


def test_constant_of_three_classes_is_the_most_frequent() -> None:
    noisy = np.array([100.0, 200.0, 60.0, 90.0, 150.0])
    assert facts("accuracy", 3, noisy, 1.0).constant()["value"] == pytest.approx(0.5)
    assert facts("auc", 2, np.ones(64), 1.0).constant() == {"value": 0.5, "low": 0.5, "high": 0.5}
    assert facts("r2", 0, np.ones(4), 1.0).constant()["value"] == 0.0


def test_constant_of_an_absolute_error_is_the_median() -> None:
    data = replace(rows_for(NUMBERS, 400), y=np.where(np.arange(400) < 250, 2.0, 9.0))
    released = scored("mae", Mean(), epsilon=400.0).run(data, 1e-3, Rng(seed=0))
    error = np.abs(data.y - 2.0).mean()
    assert released.score.constant is not None
    assert released.score.constant["value"] == pytest.approx(error, abs=0.5)


def test_p39_prediction_of_a_row_does_not_depend_on_other_rows() -> None:
    data = rows_for(TABLE, 40)
    model = Linear(steps=3).run(data, 1.0, Rng(seed=0))
    together = _score_cells.row_outputs(model, data)
    for at in (0, 7, 39):
        alone = _score_cells.row_outputs(model, data.take(np.array([at])))
        assert (alone[0] == together[at]).all()


def test_p39_features_of_a_row_do_not_depend_on_other_rows() -> None:
    columns = tuple(Column(name=f"c{at}", low=0, high=1) for at in range(784))
    schema = Schema(columns=columns, classes=("0", "1"), rows=301)
    feature, draw = RandomFourier(), np.random.default_rng(0)
    model = linear_model(schema, (feature,), draw.normal(size=(2, feature.count)), np.zeros(2))
    data = Data(schema=schema, x=draw.random((301, 784)).astype(np.float32), y=np.zeros(301, int))
    together = _score_cells.row_outputs(model, data)
    for at in range(0, 301, 20):
        assert np.array_equal(together[at], _score_cells.row_outputs(model, data.take(np.array([at])))[0])


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"epsilon": 2.0}, "at most 1 with epsilon=1"),
        ({"epsilon": 0.0}, "score_epsilon > 0"),
        ({"epsilon": 0.5, "metric": "r2"}, "accuracy or auc for classification"),
    ],
)
def test_unusable_scores_are_refused(asked: dict[str, Any], words: str) -> None:
    plan = training_plan(replace(TABLE, rows=900), epsilon=1.0, delta=1e-5, learner="majority")
    with pytest.raises(WrongInput, match=words):
        with_score(plan, **({"metric": None} | asked))
    with pytest.raises(WrongInput, match="two classes"):
        with_score(replace(plan, schema=replace(THREE, rows=900)), epsilon=0.5, metric="auc")


def test_score_may_cost_the_whole_budget() -> None:
    plan = training_plan(replace(TABLE, rows=300), epsilon=1.0, delta=1e-5, learner="majority")
    assert with_score(plan, epsilon=1.0, metric=None).epsilon <= 1.0


def test_absolute_error_may_cost_the_whole_budget() -> None:
    plan = training_plan(replace(NUMBERS, rows=2000), epsilon=3.0, delta=1e-5, learner="median")
    assert with_score(plan, epsilon=3.0, metric="mae").epsilon <= 3.0


def test_score_of_persons_must_leave_budget_for_training() -> None:
    persons = replace(TABLE, rows=2000, unit="p", cap=2, columns=(*COLUMNS, Column(name="p", kind="category")))
    plan = training_plan(persons, epsilon=1.0, delta=1e-5, learner="majority")
    with pytest.raises(WrongInput, match="score_epsilon= of less than 1 with epsilon=1"):
        with_score(plan, epsilon=1.0, metric=None)
    assert with_score(plan, epsilon=0.9, metric=None).epsilon <= 1.0


def test_rows_put_aside_are_a_fifth_of_few_and_5000_of_many() -> None:
    def held_out(rows: int) -> float:
        plan = training_plan(replace(TABLE, rows=rows), epsilon=1.0, delta=1e-9, learner="majority")
        mechanism = with_score(plan, epsilon=0.5, metric=None).mechanism
        assert isinstance(mechanism, ScoredTraining)
        return rows * mechanism.held_out

    assert [round(held_out(rows)) for rows in (300, 3000, 20_000, 1_000_000)] == [60, 500, 2000, 5000]


@pytest.mark.parametrize("metric", ["accuracy", "auc"])
def test_score_is_charged_released_and_verified(tmp_path: Path, metric: str) -> None:
    people = write_people(tmp_path / "people.csv", rows=1500)
    result = fit(
        people, target="y", epsilon=2.0, score_epsilon=1.0, metric=metric, accept_schema=True, out=tmp_path / "m"
    )
    score = result.json()["score"]
    assert {"metric", "value", "low", "high", "epsilon"} <= set(score)
    assert (score["metric"], score["epsilon"]) == (metric, 1.0)
    assert 0.7 < score["value"] <= 1.0
    assert 0 <= score["low"] <= score["value"] <= score["high"] <= 1
    assert ("confusion" in score) == (metric == "accuracy")
    assert score["constant"]["low"] <= score["constant"]["value"] <= score["constant"]["high"]
    assert result.epsilon <= 2.0
    model = load(tmp_path / "m")
    assert model.card.score == score
    assert model.schema.rows == 1500
    assert verify(tmp_path / "m", ledger=tmp_path / "people.csv.ledger").valid
    assert result.internal["test_score"] is None


@pytest.mark.parametrize(
    ("score", "words"),
    [
        ({"metric": "accuracy", "value": 0.99, "low": 0.98, "high": 1.0, "epsilon": 0.5}, "no event pays"),
        ({"metric": "accuracy", "value": 0.99, "low": 0.2, "high": 0.3, "epsilon": 1.0}, "outside its own interval"),
        ({"metric": "accuracy"}, "no epsilon, value or interval"),
    ],
    ids=["not paid for", "outside", "empty"],
)
def test_p44_score_that_no_event_pays_for_is_not_valid(tmp_path: Path, score: dict[str, Any], words: str) -> None:
    people = write_people(tmp_path / "people.csv")
    options: dict[str, Any] = {"target": "y", "accept_schema": True, "learner": "majority"}
    fit(people, epsilon=1.0, score_epsilon=0.9, out=tmp_path / "m", **options)
    path = tmp_path / "m" / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "score": score}))
    verdict = verify(tmp_path / "m")
    assert not verdict.valid
    assert any(words in problem for problem in verdict.problems)


def test_release_with_noise_of_the_same_size_pays_for_no_score(tmp_path: Path) -> None:
    """`majority` is one Laplace release: what it cost bought the model, and no score."""
    people = write_people(tmp_path / "people.csv")
    options: dict[str, Any] = {"target": "y", "accept_schema": True, "learner": "majority"}
    released = fit(people, epsilon=1.0, out=tmp_path / "m", **options)
    epsilon = 1 / released.event.noise  # type: ignore[attr-defined]
    forged = {"metric": "accuracy", "value": 0.99, "low": 0.98, "high": 1.0, "epsilon": epsilon}
    path = tmp_path / "m" / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "score": forged}))
    assert any("no event pays" in problem for problem in verify(tmp_path / "m").problems)


@pytest.mark.parametrize(
    ("unit", "relation", "rows"),
    [("row", "add_remove", 1), ("person", "add_remove", 3), ("person", "replace_one", 6), ("label", "add_remove", 2)],
)
def test_epsilon_of_a_score_is_that_of_the_unit(unit: str, relation: str, rows: int) -> None:
    schema = replace(TABLE, rows=400, unit=unit, relation=relation, cap=3 if unit == "person" else 1)
    learner = "linear" if unit == "label" else "majority"
    plan = with_score(training_plan(schema, epsilon=2.0, delta=1e-5, learner=learner), epsilon=0.5, metric="accuracy")
    parts = [PricedEvent(what=what, event=event, epsilon=None) for what, event in plan.parts]
    score, size = _last_event(parts[-1].event)
    assert size == rows
    assert score is not None
    assert accounting.epsilon(grouped(score, rows), 1e-5) == pytest.approx(0.5, rel=1e-3)
    paid = {"metric": "accuracy", "value": 0.9, "low": 0.8, "high": 1.0, "epsilon": 0.5}
    assert _wrong_score(paid, parts) == []
    assert _wrong_score({**paid, "metric": "auc"}, parts) == ["no event pays for a score of epsilon 0.5"]
    for_one_row = {**paid, "epsilon": 0.5 / rows}
    assert bool(_wrong_score(for_one_row, parts)) == (rows > 1)


def test_without_a_score_every_row_trains(tmp_path: Path) -> None:
    people = write_people(tmp_path / "people.csv")
    result = fit(people, target="y", epsilon=1.0, accept_schema=True, learner="majority", out=tmp_path / "m")
    assert result.json()["score"] is None
    assert "score" not in (tmp_path / "m" / "model.json").read_text()


def choosing(metric: str) -> ScoredTraining:
    first = Top(columns=1)
    return scored(metric, Then(first=first, second=Linear(steps=2), join=keep_columns))


def test_score_after_a_selection_passes_the_mechanism_checks() -> None:
    check_mechanism(choosing("accuracy"), schema=TABLE, games=6)


def test_columns_are_chosen_on_rows_that_score_nothing() -> None:
    """So the score stays a held-out one, and the dearer of the two parts counts."""
    recipe = Recipe.of(learner="linear", select="top")
    plan = with_score(recipe_plan(TABLE, recipe, {"epsilon": 1.0, "delta": 1e-5}), epsilon=0.95, metric="accuracy")
    assert isinstance(plan.mechanism, ScoredTraining)
    [(what, event)] = plan.parts
    assert isinstance(event, Disjoint)
    assert what == "choose columns with top, train linear, and its accuracy on held-out rows"
    assert plan.epsilon <= 1.0


@dataclass(frozen=True, kw_only=True)
class ScoreOfChoosingRows(ScoredTraining):
    """Planted: all rows choose the columns, at the price of the rows that train."""

    def run(self, data: Data, noise: float, rng: Rng) -> ScoredModel:
        training: Any = self.training
        chosen = training.first.run(data, noise, rng)
        scoring = scored(self.metric, training.second, epsilon=self.epsilon)
        return scoring.run(keep_columns(data, chosen), noise, rng)


def test_choice_by_the_rows_that_score_is_caught() -> None:
    plain = choosing("accuracy")
    planted = ScoreOfChoosingRows(training=plain.training, metric="accuracy", epsilon=0.95, held_out=0.4)
    with pytest.raises(BrokenPromise):
        check_mechanism(planted, schema=TABLE, games=0)


def test_score_is_a_tenth_of_the_budget_and_the_plan_says_so(tmp_path: Path) -> None:
    people = write_people(tmp_path / "people.csv", rows=1500)
    result = fit(people, target="y", epsilon=2.0, score=True, accept_schema=True, dry_run=True)
    [line] = [line for line in result.plan if "epsilon 0.2, a tenth of the budget" in line]
    assert "The 95% interval of an accuracy of 0.8 would be about" in line
    assert result.epsilon <= 2.0
    given = fit(people, target="y", epsilon=2.0, score=True, score_epsilon=0.5, accept_schema=True, dry_run=True)
    assert any("epsilon 0.5, within the total of 2" in line for line in given.plan)


def test_all_tables_are_released_and_verified(tmp_path: Path) -> None:
    people = write_people(tmp_path / "people.csv", rows=1500)
    result = fit(
        people,
        target="y",
        epsilon=20.0,
        score_also=["calibration", "threshold", "confusion"],
        accept_schema=True,
        out=tmp_path / "m",
    )
    assert result.score is not None
    assert result.score["epsilon"] == 2.0
    assert {"confusion_low", "threshold", "calibration", "constant"} <= set(result.score)
    assert verify(tmp_path / "m", ledger=tmp_path / "people.csv.ledger").valid
    assert any("balanced accuracy" in line for line in result.score_lines)


@pytest.mark.parametrize("also", ["calibration", "threshold", "constant"])
def test_forged_table_outside_its_interval_is_not_valid(tmp_path: Path, also: str) -> None:
    score = {"metric": "accuracy", "value": 0.9, "low": 0.8, "high": 1.0, "epsilon": 0.5}
    wrong = {"value": 0.9, "low": 0.2, "high": 0.3}
    shown = {"calibration": [wrong], "threshold": {"sensitivity": wrong}, "constant": wrong}
    assert "outside its own interval" in _wrong_score({**score, also: shown[also]}, [])[0]


@pytest.mark.parametrize(
    ("schema", "also", "words"),
    [
        (TABLE, "roc", "among confusion, threshold, calibration"),
        (THREE, "threshold", "expected two classes for threshold in score_also=, got 3"),
        (NUMBERS, "confusion", "expected classes for confusion in score_also="),
    ],
)
def test_tables_that_a_target_lacks_are_refused(schema: Schema, also: str, words: str) -> None:
    learner = "majority" if schema.classes else "mean"
    plan = training_plan(replace(schema, rows=900), epsilon=1.0, delta=1e-5, learner=learner)
    with pytest.raises(WrongInput, match=words):
        with_score(plan, epsilon=0.5, metric=None, also=(also,))


def test_fit_without_a_score_names_both_ways_to_one(tmp_path: Path) -> None:
    people = write_people(tmp_path / "people.csv")
    result = fit(people, target="y", epsilon=1.0, accept_schema=True, learner="majority")
    [line] = result.score_lines
    assert line.startswith("No score was computed, because no rows were held out.")  # a cap may leave rows out
    assert "test=FILE" in line
    assert "score_epsilon=E" in line


def test_every_internal_score_stands_beside_a_constant() -> None:
    internal = {"test_score": 0.8, "auc": 0.9, "mae": 2.0, "constant_score": 0.5, "constant_mae": 3.0}
    for metric in ("accuracy", "auc", "r2", "mae"):
        assert "a constant prediction scores" in (score_words(metric, internal) or "")


def test_score_of_persons_is_forecast_as_an_upper_limit() -> None:
    persons = replace(TABLE, rows=2000, unit="person", cap=3)
    plan = training_plan(persons, epsilon=1.0, delta=1e-5, learner="linear")
    [*_, reason] = with_score(plan, epsilon=0.1, metric=None).reasons
    assert "20% of the rows used, at most about 400, are held out" in reason
    assert "with 400 rows, and wider with fewer." in reason


def test_forecast_for_labels_counts_both_cells() -> None:
    def width(unit: str, learner: str) -> float:
        plan = training_plan(replace(TABLE, rows=2000, unit=unit), epsilon=1.0, delta=1e-5, learner=learner)
        [*_, reason] = with_score(plan, epsilon=0.1, metric="accuracy").reasons
        low, high = re.findall(r"about ([\d.]+) to ([\d.]+)", reason)[0]
        return float(high.rstrip(".")) - float(low)

    assert width("label", "alibi") > 1.2 * width("row", "linear")


def test_forecast_cells_have_the_score_that_the_forecast_names() -> None:
    for metric, typical in TYPICAL.items():
        classes = (2, 4) if metric == "accuracy" else (2,) if metric == "auc" else (0,)
        for count in classes:
            score = facts(metric, count, ScoreCells.of(metric, count).typical(1e6), 1e-6)
            assert score.score()["value"] == pytest.approx(typical.value, abs=0.005)
            assert score.rows == pytest.approx(1e6)


@pytest.mark.parametrize("metric", ["accuracy", "auc", "r2", "mae"])
def test_forecast_warns_of_a_score_that_tells_nothing(metric: str) -> None:
    schema = replace(TABLE if metric in ("accuracy", "auc") else NUMBERS, rows=50_000 if metric == "r2" else 2500)
    plan = training_plan(schema, epsilon=1.0, delta=1e-5, learner="linear")

    def forecast(epsilon: float) -> str:
        [*_, reason] = with_score(plan, epsilon=epsilon, metric=metric).reasons
        return reason.partition(" The 95% interval of a")[2]

    assert metric != "r2" or "standard deviation is an eighth of its range, would be about" in forecast(0.8)
    assert "would not tell such a model from a constant prediction" in forecast(0.02)
    assert "would be about" in forecast(0.8)
    assert "would not tell" not in forecast(0.8)


def numbers_release(
    rows: int, deviation: float, scale: float, draw: np.random.Generator, r2: float = 0.5
) -> dict[str, float]:
    """The released R2 of a model on `rows` rows whose target has this deviation; `r2` is the true one."""
    target = 0.5 + np.sqrt(12) * deviation * (draw.random(rows) - 0.5)
    errors = (draw.normal(0, deviation * np.sqrt(1 - r2), rows) ** 2).clip(0, 1)
    cells = np.array([errors.sum(), (1 - errors).sum(), (target**2).sum(), (target - target**2).sum()])
    cells += draw.laplace(0, scale, 4)
    return NoisyCells(cells=ScoreCells.of("r2", 0), noisy=cells, scale=scale, draw=draw).score()


@pytest.mark.parametrize(("rows", "scale"), [(268, 20.0), (400, 2.0), (400, 200.0), (5000, 6.0), (5000, 100.0)])
@pytest.mark.parametrize("deviation", [0.12, 0.28])
def test_interval_of_an_r2_covers_it_also_in_much_noise(rows: int, scale: float, deviation: float) -> None:
    draw = np.random.default_rng(9)
    scores = [numbers_release(rows, deviation, scale, draw) for _ in range(120)]
    assert sum(score["low"] <= 0.5 <= score["high"] for score in scores) >= 111


@pytest.mark.parametrize("metric", ["accuracy", "auc", "r2", "mae"])
@pytest.mark.parametrize(("rows", "epsilon"), [(268, 0.1), (268, 1.0), (400, 0.3), (5000, 0.3), (5000, 1.0)])
def test_forecast_is_as_wide_as_most_released_intervals(metric: str, rows: int, epsilon: float) -> None:
    cells = ScoreCells.of(metric, 0 if metric in ("r2", "mae") else 2)
    exact, scale, draw = cells.typical(rows), len(cells.sizes) / epsilon, np.random.default_rng(10)
    low, high = facts(metric, cells.classes, exact, scale).forecast()
    scores = [
        facts(metric, cells.classes, exact + draw.laplace(0, scale, exact.size), scale).score() for _ in range(30)
    ]
    assert sum(score["high"] - score["low"] <= high - low + 1e-9 for score in scores) >= 18
    assert np.median([score["high"] - score["low"] for score in scores]) <= high - low + 1e-9


@pytest.mark.parametrize(("rows", "epsilon"), [(400, 0.09), (400, 0.27), (400, 0.9), (5000, 0.3), (5000, 1.0)])
def test_forecast_of_r2_holds_for_a_concentrated_target(rows: int, epsilon: float) -> None:
    """Before, the forecast took a target that is evenly spread over its range, and so a small interval."""
    draw, scale = np.random.default_rng(11), 2 / epsilon
    low, high = facts("r2", 0, ScoreCells.of("r2", 0).typical(rows), scale).forecast()
    for deviation in (0.125, 0.19):  # that of the forecast, and of medical_cost
        scores = [numbers_release(rows, deviation, scale, draw) for _ in range(40)]
        assert sum(score["high"] - score["low"] <= high - low for score in scores) >= 32


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.6, "The model is worse than this constant prediction."), (0.8, "The two intervals overlap"), (0.95, "0.81.")],
)
def test_released_score_is_compared_with_the_constant(value: float, words: str) -> None:
    constant = {"value": 0.8, "low": 0.79, "high": 0.81}
    entries = {"metric": "accuracy", "value": value, "low": value - 0.02, "high": value + 0.02, "constant": constant}
    sentence = Score.of({**entries, "epsilon": 0.1, "rows": 100.0}).sentence
    assert words in sentence[sentence.index("A constant") :]
    assert sentence.endswith(words) or value == 0.8
