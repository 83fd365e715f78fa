"""What `auto` takes for a table, and that its evidence is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from privaware.datasets import schema as builtin
from privaware.preprocessing._ranges.target_moments import TargetMomentsRange
from privaware.preprocessing.bins import Bins
from privaware.schema import Column, Schema
from privaware.workflow._recipe import Recipe
from privaware.workflow.auto import Choice, choose, evidence
from privaware.workflow.run.training_plan import recipe_plan, training_plan
from privaware.workflow.run.trainings import with_releases, with_target_range

COLUMNS = (Column(name="a", low=0, high=9), Column(name="b", kind="category", categories=("x", "y")))


FOURIER = {"count": 1024, "share": 0.4}


def table_choice(schema: Schema, epsilon: float) -> Choice:
    return with_releases(choose(schema, epsilon), schema)


def classes(rows: int) -> Schema:
    return Schema(columns=COLUMNS, classes=("no", "yes"), rows=rows)


def bare_classes(rows: int) -> Schema:
    return classes(rows).bare()


def numbers(rows: int) -> Schema:
    return Schema(columns=COLUMNS, low=0, high=1, rows=rows)


def many(rows: int, count: int = 5) -> Schema:
    return Schema(columns=COLUMNS, classes=tuple(map(str, range(count))), rows=rows)


def facts_of(cell: Mapping[str, Any]) -> Schema:
    return many(cell["rows"], cell["classes"]) if cell["classes"] else numbers(cell["rows"])


@pytest.mark.parametrize(
    ("schema", "epsilon", "learner", "bins"),
    [
        (classes(500), 1.0, "fourier", True),
        (classes(500).bare(), 1.0, "fourier", False),
        (numbers(1_000).bare(), 1.0, "fourier", False),
        (classes(5_000), 1.0, "fourier", True),
        (classes(50_000), 1.0, "boosted", False),
        (many(5_000), 1.0, "linear", True),
        (many(5_000).bare(), 1.0, "linear", False),
        (many(5_000, 4).bare(), 1.0, "fourier", False),
        (many(60_000), 1.0, "linear", True),
        (numbers(1_000), 1.0, "fourier", True),
        (numbers(10_000), 0.1, "fourier", True),
        (numbers(10_000), 1.0, "fourier", True),
    ],
)
def test_choice_follows_rows_and_epsilon(schema: Schema, epsilon: float, learner: str, bins: bool) -> None:
    choice = table_choice(schema, epsilon)
    assert choice.learner == learner
    assert any(isinstance(stage.mechanism, Bins) for stage in choice.before) is bins


def test_many_classes_take_a_head_on_centred_random_features() -> None:
    for schema in (many(5_000), many(5_000).bare()):
        choice = table_choice(schema, 1.0)
        assert choice.settings == {"features": [{"name": "table_fourier"}], "centre": 0.05}
        assert choice.reasons[0].startswith("Learner: linear on random Fourier features")
    searched = recipe_plan(many(5_000), Recipe(search="rs"), {"epsilon": 1.0, "delta": 1e-5})
    assert any("norm, momentum, constant of linear" in sentence for sentence in searched.sentences)


def test_large_regressions_get_more_trees() -> None:
    assert table_choice(numbers(21_000), 3.0).settings == {"trees": 800, "depth": 5}
    assert table_choice(numbers(16_000), 3.0).settings == FOURIER
    assert table_choice(numbers(1_000_000), 1.0).settings == {}


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 0), (0.15, 0), (1.0, 1024)])
def test_few_rows_for_many_levels_get_an_additive_model(epsilon: float, count: int) -> None:
    letters = tuple(Column(name=f"c{at}", kind="category", categories=tuple("acgt")) for at in range(20))
    schema = Schema(columns=letters, classes=("no", "yes"), rows=5_000)
    assert table_choice(schema, epsilon).settings["count"] == count


@pytest.mark.parametrize(("epsilon", "learner"), [(0.5, "fourier"), (3.0, "linear")])
def test_pairs_of_categories_are_learnt_where_rows_are_enough(epsilon: float, learner: str) -> None:
    letters = tuple(Column(name=f"c{at}", kind="category", categories=tuple("acgt")) for at in range(10))
    choice = table_choice(Schema(columns=letters, classes=("no", "yes"), rows=1_000), epsilon)
    assert choice.learner == learner
    assert (choice.settings.get("features") == [{"name": "crosses"}]) == (learner == "linear")


def test_pairs_of_many_categories_are_not_learnt_one_by_one() -> None:
    letters = tuple(Column(name=f"c{at}", kind="category", categories=("x", "y")) for at in range(16))
    assert table_choice(Schema(columns=letters, classes=("no", "yes"), rows=8_000), 8.0).learner == "fourier"


def test_levels_do_not_count_beside_more_numbers() -> None:
    letters = replace(COLUMNS[1], categories=tuple(map(str, range(60))))
    numbers_first = (*(replace(COLUMNS[0], name=f"n{at}") for at in range(2)), letters)
    schema = Schema(columns=numbers_first, classes=("no", "yes"), rows=1_000)
    assert table_choice(schema, 0.5).settings == FOURIER


@pytest.mark.parametrize(("make", "few"), [(classes, 2_400), (bare_classes, 900), (numbers, 4_400)])
def test_small_tables_take_linear_with_little_weight_on_the_bias(make: Callable[[int], Schema], few: int) -> None:
    small, larger = (table_choice(make(rows), 0.1) for rows in (few, few + 200))
    assert (small.learner, larger.learner) == ("linear", "fourier")
    assert (small.settings["constant"], small.settings["momentum"]) == (0.3, 0.8)
    assert not any(isinstance(stage.mechanism, Bins) for stage in small.before)


def test_fourier_is_taken_where_rows_are_not_too_many() -> None:
    for make in (classes, numbers):
        for schema in (make(5_000), make(5_000).bare()):
            choice = table_choice(schema, 1.0)
            assert (choice.learner, choice.settings) == ("fourier", FOURIER)
            assert choice.reasons[0].startswith("Learner: fourier (an additive model, then random Fourier features")
        assert table_choice(make(20_001), 1.0).settings == {}
    plan = recipe_plan(classes(5_000), Recipe(settings={"share": 0.5}), {"epsilon": 1.0, "delta": 1e-5})
    assert plan.settings == {**FOURIER, "share": 0.5}
    searched = recipe_plan(classes(5_000), Recipe(search="rs"), {"epsilon": 1.0, "delta": 1e-5})
    assert set(searched.settings) == {"search"}  # candidates have settings of their own


def test_target_range_is_bought_where_the_learner_needs_it() -> None:
    def centred(choice: Choice) -> bool:
        return any(isinstance(stage.mechanism, TargetMomentsRange) for stage in choice.before)

    assert not centred(table_choice(numbers(1_000), 1.0))
    assert centred(with_target_range(Choice(learner="linear"), numbers(1_000)))
    images = Schema(form="image", shape=(1, 4, 4), low=0, high=1, rows=1_000)
    assert centred(table_choice(images, 1.0))


def test_bins_are_not_bought_where_declared_or_with_bounds() -> None:
    assert table_choice(builtin("adult"), 1.0).before == ()
    assert table_choice(classes(5_000).bare(), 1.0).before == ()


def test_plan_of_every_choice_keeps_the_budget() -> None:
    for schema in (
        classes(5_000),
        classes(5_000).bare(),
        many(5_000),
        many(5_000).bare(),
        numbers(1_000),
        numbers(1_000).bare(),
        numbers(10_000),
    ):
        plan = training_plan(schema, epsilon=1.0, delta=1e-5)
        assert 0.98 < plan.epsilon <= 1.0
        assert any("benchmark runs on tables of similar size" in sentence for sentence in plan.sentences)


def test_evidence_covers_both_halves_and_every_candidate() -> None:
    cells = evidence("table")
    assert len({cell["table"] for cell in cells if cell["half"] == "choose"}) >= 9
    assert len({cell["table"] for cell in cells if cell["half"] == "check"}) >= 8
    for cell in cells:
        assert {"constant", "boosted"} <= set(cell["scores"])


def test_random_features_beat_trees_on_tables_of_many_classes() -> None:
    """Which is what the plan says, and why they are taken."""
    cells = [cell for cell in evidence("table") if cell["classes"] >= 5 and cell["epsilon"] == 1]
    gains = [cell["scores"]["waves"] - cell["scores"]["boosted"] for cell in cells]
    assert len(gains) >= 7
    assert min(gains) > 0
    assert sum(gains) / len(gains) > 0.02


def test_chosen_candidate_is_never_clearly_below_the_constant() -> None:
    """By the evidence, wherever the floor of `auto` lets a model be trained at all."""
    worse = []
    for cell in evidence("table"):
        known = facts_of(cell)
        if training_plan(known, epsilon=cell["epsilon"], delta=1e-5).learner in ("majority", "mean"):
            continue
        chosen = table_choice(known, cell["epsilon"])
        name = "waves" if "features" in chosen.settings else chosen.learner
        name = "boosted waves" if chosen.learner == "fourier" else name
        if cell["scores"][name] < cell["scores"]["constant"] - 0.02:
            worse.append((cell["table"], cell["epsilon"]))
    assert worse == []
