"""A plan comes from public facts only, and its cost fits the unit and the relation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from privaware import accounting
from privaware._rounded import rounded_up
from privaware.errors import BudgetExceeded, WrongInput
from privaware.events import Gaussian, Group, leaves
from privaware.learners.alibi import Alibi
from privaware.learners.linear import Linear
from privaware.ledger import Ledger
from privaware.models.spaces import Space
from privaware.preprocessing.bins import Bins
from privaware.schema import Column, Schema
from privaware.strategies._search import Search
from privaware.strategies.grid import Grid
from privaware.workflow._statements import FOR_REPLACED_ROWS
from privaware.workflow.auto import Stage
from privaware.workflow.run.pricing import priced, search_plan
from privaware.workflow.run.training_plan import training_plan

TABLE = Schema(columns=(Column(name="a", low=0, high=1),), classes=("n", "y"), rows=1000)


def test_plan_epsilon_is_within_one_percent_of_the_budget() -> None:
    for epsilon in (0.01, 0.5, 3.0, 50.0):
        result = training_plan(TABLE, epsilon=epsilon, delta=1e-5)
        assert 0.99 * epsilon < result.epsilon <= epsilon


@pytest.mark.parametrize(
    ("relation", "unit", "cap", "size"),
    [
        ("replace_one", "row", 1, 2),
        ("add_remove", "person", 3, 3),
        ("replace_one", "person", 3, 6),
        ("add_remove", "label", 1, 2),
    ],
)
def test_units_and_replace_one_are_priced_as_groups(relation: str, unit: str, cap: int, size: int) -> None:
    schema = replace(TABLE, relation=relation, unit=unit, cap=cap)
    result = training_plan(schema, epsilon=1.0, delta=1e-5, learner="linear")
    [(_, event)] = result.parts
    assert isinstance(event, Group)
    assert event.size == size
    assert result.epsilon <= 1.0
    rows = training_plan(TABLE, epsilon=1.0, delta=1e-5, learner="linear")
    assert result.noise == pytest.approx(size * rows.noise, rel=3e-3)


@pytest.mark.parametrize(("cap", "size"), [(1, 1), (3, 3)])
def test_counts_priced_for_a_replaced_row_are_not_paid_twice(cap: int, size: int) -> None:
    """Ranges and bins scale their noise for a replaced row themselves; the training counts it as two rows."""
    unit = "row" if cap == 1 else "person"
    facts = replace(TABLE, relation="replace_one", unit=unit, cap=cap, rows=2000)
    bare = replace(facts, columns=tuple(replace(each, low=None, high=None) for each in TABLE.columns))
    binned = Stage(what="release bins of numbers", mechanism=Bins(), join=Bins.join).then(Linear())
    for schema, mechanism, what in ((bare, Linear(), "release bounds"), (facts, binned, "release bins of numbers")):
        plan = priced("linear", mechanism, schema, "train linear", epsilon=1.0, delta=1e-5)
        sizes = {doing: event.size if isinstance(event, Group) else 1 for doing, event in plan.parts}
        assert sizes == {what: size, "train linear": 2 * size}
        assert what in FOR_REPLACED_ROWS


def test_undeclared_bounds_are_part_of_the_cost() -> None:
    bare = replace(TABLE, columns=(Column(name="a"),))
    result = training_plan(bare, epsilon=1.0, delta=1e-5, learner="linear")
    assert [what for what, _ in result.parts] == ["release bounds", "train linear"]
    assert result.noise > training_plan(TABLE, epsilon=1.0, delta=1e-5, learner="linear").noise


def test_auto_chooses_a_constant_for_few_rows() -> None:
    assert training_plan(replace(TABLE, rows=20), epsilon=1.0, delta=1e-5).learner == "majority"
    number = replace(TABLE, rows=20, classes=(), low=0.0, high=1.0)
    assert training_plan(number, epsilon=1.0, delta=1e-5).learner == "mean"
    assert training_plan(TABLE, epsilon=1.0, delta=1e-5).learner not in ("majority", "mean")


def test_time_limit_lowers_the_sampling_rate() -> None:
    wide = replace(TABLE, rows=1_000_000, columns=tuple(Column(name=f"c{i}", low=0, high=1) for i in range(50)))
    result = training_plan(wide, epsilon=1.0, delta=1e-7, learner="linear", time_limit=5.0)
    assert "Poisson samples" in result.sampler
    assert "rate" in result.settings


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": 1e-3}, "publishing a row"),
        ({"learner": "liner"}, "linear"),
        ({"learner": "mean"}, "classification"),
        ({"learner": "alibi"}, "labels only"),
        ({"learner": "pate"}, "public rows"),
        ({"settings": {"stepz": 3}}, "stepz"),
        ({"learner": "boosted", "settings": {"monotone": "age"}}, "monotone is expected as table"),
        ({"time_limit": 0.0}, "time limit"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments: dict[str, object], words: str) -> None:
    options = {"epsilon": 1.0, "delta": 1e-5, **arguments}
    with pytest.raises(WrongInput, match=words):
        training_plan(TABLE, **options)  # type: ignore[arg-type]


def test_settings_that_are_tables_or_lists_are_accepted() -> None:
    numbers = replace(TABLE, columns=(Column(name="age", low=0, high=90),))
    plan = training_plan(numbers, epsilon=1.0, delta=1e-5, learner="boosted", settings={"monotone": {"age": 1}})
    assert plan.settings["monotone"] == {"age": 1}
    labels = {"epsilon": 1.0, "delta": 1e-5, "learner": "label_mst", "settings": {"stages": [0.5, 0.5]}}
    assert training_plan(replace(numbers, unit="label"), **labels).settings["stages"] == [0.5, 0.5]


def test_direction_of_a_column_of_unknown_kind_is_refused() -> None:
    unknown = replace(TABLE, columns=(Column(name="age", kind="undecided"),))
    with pytest.raises(WrongInput, match="'age', whose kind is released; declare it"):
        training_plan(unknown, epsilon=1.0, delta=1e-5, learner="boosted", settings={"monotone": {"age": 1}})


def test_p14_p38_releases_on_one_data_set_compose(tmp_path) -> None:  # type: ignore[no-untyped-def]
    ledger = Ledger.create(tmp_path / "x.ledger", limit=2.0, delta=1e-5)
    for epsilon in (0.5, 1.0):
        ledger.spend(training_plan(TABLE, epsilon=epsilon, delta=1e-5).event, what=f"sweep at {epsilon}")
    assert ledger.spent() > 1.05
    both = training_plan(TABLE, epsilon=0.5, delta=1e-5).event + training_plan(TABLE, epsilon=1.0, delta=1e-5).event
    assert ledger.spent() == pytest.approx(accounting.epsilon(both, 1e-5), rel=1e-6)
    with pytest.raises(BudgetExceeded):
        ledger.spend(Gaussian(noise=2.0), what="one too many")


def test_constant_is_not_charged_for_columns() -> None:
    bare = replace(TABLE, columns=(Column(name="a"), Column(name="b")))
    result = training_plan(bare, epsilon=1.0, delta=1e-5, learner="majority")
    assert [what for what, _ in result.parts] == ["train majority"]
    number = replace(bare, classes=())
    [(_, bounds), _] = training_plan(number, epsilon=1.0, delta=1e-5, learner="mean").parts
    assert sum(count for _, count in leaves(bounds)) == 1


@pytest.mark.parametrize("unit", ["row", "person"])
def test_label_cost_is_refused_for_other_units(unit: str) -> None:
    schema = replace(TABLE, unit=unit, cap=3 if unit == "person" else 1)
    with pytest.raises(WrongInput, match="labels only"):
        training_plan(schema, epsilon=1.0, delta=1e-5, learner="alibi")
    space = Space.load({"choices": {"lr": [1.0, 4.0]}, "build": {"lr": "$lr"}, "learner": "alibi"})
    search = Search(space=space, strategy=Grid(), build=lambda settings: Alibi(**settings))
    options: dict[str, Any] = {"epsilon": 1.0, "model_epsilon": None, "delta": 1e-5}
    with pytest.raises(WrongInput, match="labels only"):
        search_plan(schema, search=search, strategy="grid", settings={}, **options)
    labels = replace(TABLE, unit="label")
    assert search_plan(labels, search=search, strategy="grid", settings={}, **options).epsilon <= 1.0


PERSONS = replace(TABLE, unit="person", cap=3, rows=3000)


def test_plan_names_the_public_limit_of_the_rows_of_persons() -> None:
    """The number of persons is private, so the number of rows that a cap leaves is private too."""
    said = " ".join(training_plan(PERSONS, epsilon=1.0, delta=1e-5).sentences)
    assert "the first 3 rows of each 'person', in the order of the data; at most 3,000 in all" in said
    assert "How many rows are used is private" in said
    assert "Rows used" not in " ".join(training_plan(TABLE, epsilon=1.0, delta=1e-5).sentences)


def test_benchmarks_are_compared_by_rows_x_epsilon_over_the_cap() -> None:
    said = " ".join(training_plan(PERSONS, epsilon=1.0, delta=1e-5).sentences)
    assert "(rows x epsilon / cap 100 to 10,000)" in said


def test_plan_says_how_many_rows_a_category_needs() -> None:
    schema = replace(PERSONS, columns=(Column(name="town", kind="category"),), rows=3000)
    plan = training_plan(schema, epsilon=1.0, delta=1e-5, learner="fourier")
    assert plan.rows_of_category > 3 + 5 * plan.bounds_deviation
    assert (
        f"Categories in fewer than about {rounded_up(plan.rows_of_category, 2)} rows are probably not released"
        in plan.bounds_sentences[0]
    )
    numbers = replace(schema, columns=(Column(name="age"),))
    assert "Categories" not in " ".join(training_plan(numbers, epsilon=1.0, delta=1e-5).bounds_sentences)


def test_plan_says_how_many_persons_clear_ranges_need() -> None:
    """The noise in a count grows with the cap; the number of rows used is private, so the plan names a threshold."""
    open_columns = tuple(Column(name=f"c{at}", kind="undecided") for at in range(10))
    for cap, rows in ((1, "345 rows"), (3, "1,035 rows")):
        schema = replace(PERSONS, columns=open_columns, rows=1945, cap=cap)
        said = " ".join(training_plan(schema, epsilon=1.0, delta=1e-5, learner="fourier").bounds_sentences)
        assert f"are guesses unless at least {rows} are used" in said
        assert "345 different values of 'person'" in said
