"""NoisyMaximumRanges, categories and bins from counts on public grids."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware import accounting
from privaware.data import Data, read, words_of
from privaware.events import Approximate, Gaussian, leaves
from privaware.noise import Rng
from privaware.preprocessing._ranges.column_counts import Grids, RoundCounts, word_threshold
from privaware.preprocessing._ranges.open_columns import NONE, ranked_counts, worded
from privaware.preprocessing.ranges import Ranges
from privaware.schema import DATE_PARTS, Column, Schema
from privaware.testing import check_mechanism, replay
from tests.selectors.neighbours import ratios


def bare(*columns: Column, rows: int = 10_000, **facts: object) -> Schema:
    return Schema(**{"columns": columns, "target": "y", "rows": rows, "classes": ("0", "1"), **facts})


def frame_of(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, rows),
            "price": rng.lognormal(8, 1, rows),
            "change": rng.normal(0, 0.02, rows),
            "latitude": rng.uniform(44.9, 45.1, rows),
            "year": rng.integers(1998, 2013, rows),
            "flag": rng.random(rows) < 0.3,
            "town": rng.choice(["north", "east", "south"], rows, p=[0.6, 0.3, 0.1]),
            "y": rng.integers(0, 2, rows),
        }
    )


NAMES = ("age", "price", "change", "latitude", "year", "flag")
SCHEMA = bare(*(Column(name=name, missing="category") for name in NAMES), Column(name="town", kind="category"))


def calibrated(schema: Schema, epsilon: float) -> float:
    return accounting.calibrate(lambda noise: Ranges().cost(schema, noise), epsilon, 1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_nearly_all_rows_and_are_not_much_wider(seed: int) -> None:
    frame = frame_of(10_000, seed)
    schema = Ranges().run(Data.uncoded(read(frame), SCHEMA), calibrated(SCHEMA, 1.0), Rng(seed=seed))
    for column in schema.columns[:6]:
        values = frame[column.name].astype(float)
        assert column.low is not None
        assert column.high is not None
        assert (values < column.low).mean() <= 0.05
        assert (values > column.high).mean() <= 0.05
        assert column.high - column.low <= 4 * np.ptp(np.quantile(values, [0.01, 0.99]))
    assert schema.columns[6].categories == ("east", "north", "south")
    assert schema.bounded
    assert len(Data.of(read(frame), schema)) == len(frame)


@pytest.mark.parametrize(("first", "last"), [("2024-01-01", "2024-12-31"), ("2010-01-01", "2015-12-31")])
@pytest.mark.parametrize("noise", [8.0, 70.0])
def test_bounds_of_recent_dates_are_not_decades_wide(first: str, last: str, noise: float) -> None:
    low, high = (float((pd.Timestamp(day) - pd.Timestamp("1970-01-01")).days) for day in (first, last))
    days = np.random.default_rng(0).integers(int(low), int(high) + 1, 3000)
    when = pd.Timestamp("1970-01-01") + pd.to_timedelta(days, unit="D")
    frame = pd.DataFrame({"when": when, "y": np.arange(3000) % 2})
    schema = bare(Column(name="when", kind="date", missing="category"), rows=3000)
    [column] = Ranges().run(Data.uncoded(read(frame), schema), noise, Rng(seed=0)).columns
    assert column.low is not None
    assert column.high is not None
    assert column.high - column.low <= 4 * (high - low)
    assert np.mean((days >= column.low) & (days <= column.high)) > 0.85


def test_bounds_are_edges_of_the_public_grid() -> None:
    frame = pd.DataFrame({"a": np.random.default_rng(0).uniform(-1, 1, 2000), "y": ["0", "1"] * 1000})
    data = Data.uncoded(read(frame), bare(Column(name="a"), rows=2000))
    column = Ranges().run(data, 0.5, Rng(seed=0)).columns[0]
    assert (column.low, column.high) == (-1.0, 1.0)


def test_bins_hold_about_equal_numbers_of_rows() -> None:
    frame = frame_of(10_000)
    schema = Ranges(bins=4).run(Data.uncoded(read(frame), SCHEMA), calibrated(SCHEMA, 4.0), Rng(seed=1))
    age = schema.columns[0]
    shares = np.diff([0, *((frame["age"] < edge).mean() for edge in age.bins), 1])
    assert len(age.bins) == 3
    assert 0.15 < shares.min() <= shares.max() < 0.35


def test_regression_target_gets_bounds() -> None:
    frame = frame_of(10_000).assign(y=np.linspace(1000, 50_000, 10_000))
    schema = replace(SCHEMA, classes=())
    released = Ranges().run(Data.uncoded(read(frame), schema), calibrated(schema, 1.0), Rng(seed=3))
    assert released.low is not None
    assert released.high is not None
    assert 0 <= released.low <= 3000 < 47_000 <= released.high <= 110_000


def test_all_rounds_together_are_one_gaussian_of_the_noise() -> None:
    for schema in (bare(Column(name="a")), replace(bare(Column(name="a")), classes=())):
        price = accounting.epsilon(Ranges().cost(schema, 3.0), 1e-5)
        assert price == pytest.approx(accounting.epsilon(Gaussian(noise=3.0), 1e-5), rel=1e-6)
    words = bare(Column(name="a", kind="undecided"))
    assert accounting.epsilon(Ranges().cost(words, 3.0), 1.1e-5) > accounting.epsilon(Gaussian(noise=3.0), 1.1e-5)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("classes", [("0", "1"), ()])
def test_counts_keep_the_contract(relation: str, classes: tuple[str, ...]) -> None:
    schema = bare(Column(name="a", missing="category"), Column(name="b"), rows=24, relation=relation, classes=classes)
    assert check_mechanism(Ranges(bins=3), schema=schema, games=100) <= 1.0


@pytest.mark.parametrize("kind", ["category", "undecided"])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_words_and_kinds_keep_the_contract(relation: str, kind: str) -> None:
    columns = (Column(name="town", kind=kind, missing="category"), Column(name="size", missing="category"))
    schema = bare(*columns, rows=300, relation=relation)
    frame = pd.DataFrame({"town": ["a"] * 100 + ["7"] * 200, "size": [1.5] * 300, "y": ["0", "1"] * 150})
    others = frame if relation == "add_remove" else frame[:-1]
    other = pd.concat([others, pd.DataFrame({"town": ["new"], "size": [-3e7], "y": ["0"]})])
    data, neighbour = (Data.uncoded(read(each), schema) for each in (frame, other))
    assert check_mechanism(Ranges(), data=data, neighbour=neighbour, games=50) <= 1.0


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(0, 5), st.floats(1e-3, 1e3), st.floats(1e-20, 0.4)
)
def test_p52_own_words_of_a_unit_pass_with_the_chance_at_most(
    counts: list[int], spare: int, scale: float, chance: float
) -> None:
    """However a unit's rows are spread over words that only the unit has."""
    threshold = word_threshold(rows=sum(counts) + spare, scale=scale, chance=chance)
    assert sum(NormalDist().cdf((count - threshold) / scale) for count in counts) <= chance


UNITS = [("row", 1, "add_remove", None), ("person", 20, "add_remove", 20), ("person", 20, "replace_one", 20)]


@pytest.mark.parametrize(("unit", "cap", "relation", "rows"), [*UNITS, ("label", 1, "add_remove", 2)])
def test_p52_failure_is_proven_for_all_rows_of_a_unit(unit: str, cap: int, relation: str, rows: int | None) -> None:
    schema = bare(Column(name="town", kind="category"), unit=unit, cap=cap, relation=relation)
    assert list(leaves(Ranges().cost(schema, 4.0)))[-1][0] == Approximate(epsilon=0.0, delta=1e-7, rows=rows)


def mixed(rows: pd.DataFrame, relation: str) -> Data:
    """Rows with a column of each kind, three whose kinds are to be decided, and a target without bounds."""
    columns = (
        Column(name="size", missing="category"),
        Column(name="town", kind="category", missing="category"),
        Column(name="born", kind="date", parts=DATE_PARTS[:1], missing="category"),
        *(Column(name=name, kind="undecided", missing="category") for name in ("weight", "job", "seen")),
    )
    return Data.uncoded(read(rows), bare(*columns, rows=300, relation=relation, classes=()))


def every_kind(relation: str, more: tuple[object, ...]) -> tuple[Data, Data]:
    """The rows, and the same with one more, or with one replaced by it."""
    days = pd.date_range("2019-03-01", periods=300)
    rows = pd.DataFrame(
        {
            "size": np.linspace(1, 90, 300),
            "town": ["Ulm"] * 150 + ["Bonn"] * 100 + ["Trier"] * 50,  # far apart: one row does not change their order
            "born": days.strftime("%Y-%m-%d"),
            "weight": [str(weight) for weight in range(40, 100)] * 5,
            "job": ["cook", "smith", "so many words here", "cook", "smith", "cook"] * 50,
            "seen": days.strftime("%d/%m/%Y"),
            "y": np.linspace(-5, 70, 300),
        }
    )
    others = rows if relation == "add_remove" else rows[:-1]
    changed = pd.concat([others, pd.DataFrame([more], columns=rows.columns)], ignore_index=True)
    return mixed(rows, relation), mixed(changed, relation)


FAR = (-3e7, "new", "1931-05-06", "8e9", "unheard of", "30/12/1931", 4e6)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("more", [FAR, (np.nan, None, None, "heavy", "17", "a@b.org", 0.0)], ids=["far", "other kinds"])
def test_all_kinds_with_an_open_target_keep_the_contract(relation: str, more: tuple[object, ...]) -> None:
    data, neighbour = every_kind(relation, more)
    assert check_mechanism(Ranges(bins=3), data=data, neighbour=neighbour, games=20) <= 1.0


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_one_row_of_every_kind_reaches_the_sensitivity(relation: str) -> None:
    kinds, located, *refined = replay(Ranges(), *every_kind(relation, FAR), noise=0.1).ratios.values()
    assert located == pytest.approx(1.0)
    assert kinds == pytest.approx(1.0) or relation == "replace_one"  # one of the same kinds takes its place
    assert len(refined) == 2
    assert max(refined) <= 1.0


def test_one_row_reaches_the_sensitivity() -> None:
    schema = bare(Column(name="a"), Column(name="b"), rows=50, classes=())
    x = np.random.default_rng(0).uniform(3, 9, (50, 2))
    moved = ratios(Ranges(), Data(schema=schema, x=x, y=x.sum(axis=1)), at=7)
    assert moved[0] == pytest.approx(1.0)


def test_target_has_half_the_noise_of_a_column() -> None:
    schema = bare(Column(name="a"), rows=5000, classes=())
    grids = Grids(numbers=((0, schema.columns[0]),), target=True, sensitivity=math.sqrt(5))
    column, target = grids.noisy([np.full(4000, 7.0), np.full(4000, 7.0)], 10.0, Rng(seed=1))
    assert target.mean() == pytest.approx(column.mean(), abs=2)
    assert target.std() / column.std() == pytest.approx(0.5, rel=0.1)


def test_a_table_of_identifiers_keeps_one_column() -> None:
    columns = (Column(name=name, kind="undecided", missing="category", unseen="other") for name in ("mail", "copy"))
    frame = pd.DataFrame({name: [f"{at}@{name}.org" for at in range(900)] for name in ("mail", "copy")})
    data = Data.uncoded(read(frame.assign(y=["0", "1", "1"] * 300)), bare(*columns, rows=900))
    released = Ranges().run(data, 1.0, Rng(seed=0))
    assert [column.kind for column in released.columns] == ["category", "identifier"]
    assert released.used[0].categories == ("other",)
    assert released.bounded


def test_word_that_one_row_has_is_not_released() -> None:
    schema = bare(Column(name="name", kind="category"), rows=2000)
    words = ["common"] * 1000 + [f"person {at}" for at in range(1000)]
    data = Data.uncoded(read(pd.DataFrame({"name": words, "y": ["0", "1"] * 1000})), schema)
    for seed in range(20):
        assert Ranges().run(data, 1.0, Rng(seed=seed)).columns[0].categories == ("common",)


def test_words_are_counted_in_all_rounds() -> None:
    """With a number beside it, a word gets the noise of all rounds, not of the first alone."""
    schema = bare(Column(name="size"), Column(name="town", kind="category"), rows=4000)
    noise = 40.0
    least = Ranges().least_rows(schema, noise)
    first = word_threshold(rows=1, scale=Ranges().deviation(schema, noise), chance=Ranges().delta)
    assert least < 0.8 * first
    common = round((2 * first + least) / 3)
    towns = ["Ulm"] * common + [f"town {at}" for at in range(4000 - common)]
    data = Data.uncoded(read(pd.DataFrame({"size": range(4000), "town": towns, "y": ["0", "1"] * 2000})), schema)
    rare = Data.uncoded(read(pd.DataFrame({"size": [1.0], "town": ["Kiel"], "y": ["0"]})), schema)
    found = [Ranges().run(data, noise, Rng(seed=seed)).columns[1].categories for seed in range(10)]
    assert found.count(("Ulm",)) >= 8
    assert all(Ranges().run(rare, noise, Rng(seed=seed)).columns[1].categories == NONE for seed in range(10))


def test_missing_words_are_told_apart_where_no_word_is_released() -> None:
    schema = bare(Column(name="note", kind="category", missing="category"), rows=2000)
    notes = [f"note {at}" if at % 4 else ["", "NA"][at % 8 > 0] for at in range(2000)]
    data = Data.uncoded(read(pd.DataFrame({"note": notes, "y": ["0", "1"] * 1000})), schema)
    released = Ranges().run(data, 1.0, Rng(seed=0))
    assert released.columns[0].categories == ("",)
    assert data.coded_by(released).x[:8, 0].tolist() == [0, 1, 1, 1, 0, 1, 1, 1]


def test_missing_words_are_counted_though_no_value_is_missing() -> None:
    """Else one row with a missing value would change the set of words that can be released."""
    words = worded(words_of(np.array(["a", "b", "b"], dtype=object)))
    assert words == {"": 0, "a": 1, "b": 2}
    counts = RoundCounts(grids=Grids(numbers=(), target=False, sensitivity=1.0), edges=[], closed=False, words=())
    _, (merged,) = counts.merge(([], [words]), ([], [worded(words_of(np.array(["b"], dtype=object)))]))
    assert "" in ranked_counts(merged)[0]


@pytest.mark.parametrize(
    "values", [[], [None] * 50, [np.inf, -np.inf, np.nan] * 20, [7.0] * 40, [0.0] * 40, [-3e15] * 9]
)
def test_empty_missing_and_constant_columns_still_get_bounds(values: list[float]) -> None:
    schema = bare(Column(name="a", missing="category"), Column(name="t", kind="category", missing="category"), rows=50)
    frame = pd.DataFrame({"a": values, "t": [None] * len(values), "y": ["0"] * len(values)})
    for seed in range(10):
        data = Data.uncoded(read(frame.astype({"a": object})), schema)
        released = Ranges(bins=4).run(data, 10.0 ** (seed % 5 - 2), Rng(seed=seed))
        assert released.bounded
        assert len(Data.of(read(frame), released)) == len(frame)
