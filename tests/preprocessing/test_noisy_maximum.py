"""Ranges and categories bought from the budget."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware import accounting
from privaware.accounting import epsilon
from privaware.data import Data, read
from privaware.errors import WrongInput
from privaware.events import NOTHING, Approximate, Group, leaves
from privaware.noise import Rng
from privaware.preprocessing._ranges import noisy_maximum as bounds_module
from privaware.preprocessing._ranges.noisy_maximum import NoisyMaximumRanges, candidates, quantile_scores, tail_share
from privaware.schema import Column, Schema
from privaware.testing import check_mechanism
from tests.selectors.neighbours import ratios

NUMBERS = st.lists(st.floats(width=64, allow_nan=True, allow_infinity=True), max_size=30)


def bare(*columns: Column, rows: int = 10_000, **facts: object) -> Schema:
    return Schema(**{"columns": columns, "target": "y", "rows": rows, "classes": ("0", "1"), **facts})


def frame_of(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, rows),
            "price": rng.lognormal(8, 1, rows),
            "change": rng.normal(0, 0.02, rows),
            "flag": rng.random(rows) < 0.3,
            "town": rng.choice(["north", "east", "south"], rows, p=[0.6, 0.3, 0.1]),
            "y": rng.integers(0, 2, rows),
        }
    )


SCHEMA = bare(*(Column(name=name) for name in ("age", "price", "change", "flag")), Column(name="town", kind="category"))


@pytest.mark.parametrize("seed", range(5))
def test_bounds_lie_near_the_true_quantiles(seed: int) -> None:
    frame = frame_of(10_000, seed)
    bounds = NoisyMaximumRanges()
    noise = accounting.calibrate(lambda level: bounds.cost(SCHEMA, level), 1.0, 1e-5)
    released = bounds.run(Data.uncoded(read(frame), SCHEMA), noise, Rng(seed=seed))
    for column in released.columns[:4]:
        values = frame[column.name].astype(float)
        assert column.low is not None
        assert column.high is not None
        # Few rows are cut at either end, and the range is hardly wider than the rows are.
        assert (values < column.low).mean() <= 0.05
        assert (values > column.high).mean() <= 0.05
        inner = np.quantile(values, [0.0, 1.0])
        assert column.low >= inner[0] - 0.2 * np.ptp(inner)
        assert column.high <= inner[1] + 0.2 * np.ptp(inner)
    assert released.columns[4].categories == ("east", "north", "south")
    assert released.bounded
    coded = Data.of(read(frame), released)
    assert len(coded) == len(frame)
    assert np.isfinite(coded.x).all()


def test_regression_target_gets_bounds() -> None:
    frame = frame_of(10_000).assign(y=np.linspace(1000, 50_000, 10_000))
    schema = replace(SCHEMA, classes=())
    released = NoisyMaximumRanges().run(Data.uncoded(read(frame), schema), 8.0, Rng(seed=3))
    assert released.low is not None
    assert released.high is not None
    assert 500 <= released.low <= 3000 < 45_000 <= released.high <= 60_000
    spent = sum(count for _, count in leaves(NoisyMaximumRanges().cost(schema, 8.0)))
    assert spent == sum(count for _, count in leaves(NoisyMaximumRanges().cost(SCHEMA, 8.0))) + 2


@given(NUMBERS, st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([11, 256, 1013]))
def test_quantile_score_sensitivity_bound_holds(values: list[float], more: float, share: int) -> None:
    before = quantile_scores(np.array(values, dtype=float), share / 1024)
    after = quantile_scores(np.array([*values, more], dtype=float), share / 1024)
    assert np.abs(after - before).max() <= max(share, 1024 - share) / 1024
    if not math.isfinite(more):
        assert np.array_equal(after, before)


@given(NUMBERS.filter(len), st.floats(allow_nan=True), st.sampled_from([11, 256, 1013]))
def test_replaced_row_moves_a_quantile_score_by_at_most_one(values: list[float], other: float, share: int) -> None:
    before = quantile_scores(np.array(values, dtype=float), share / 1024)
    after = quantile_scores(np.array([other, *values[1:]], dtype=float), share / 1024)
    assert np.abs(after - before).max() <= 1.0


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=25), st.integers(11, 256).map(lambda k: k / 1024))
def test_quantile_scores_equal_a_slow_reference(values: list[float], share: float) -> None:
    grid, _ = candidates()
    scores = quantile_scores(np.array(values), share)
    for at in range(0, len(grid), 331):
        below = sum(value < grid[at] for value in values)
        above = sum(value > grid[at] for value in values)
        wanted = share * len(values)
        assert scores[at] == -max(below - wanted, wanted - (len(values) - above), 0)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("classes", [("0", "1"), ()])
def test_private_bounds_keep_the_contract(relation: str, classes: tuple[str, ...]) -> None:
    schema = bare(Column(name="a", missing="category"), Column(name="b"), rows=24, relation=relation, classes=classes)
    assert check_mechanism(NoisyMaximumRanges(), schema=schema, games=200) <= 1.0


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_private_categories_keep_the_contract(relation: str) -> None:
    schema = bare(Column(name="town", kind="category"), rows=3100, relation=relation)
    towns = ["a"] * 1000 + ["b"] * 2000 + ["c"] * 100  # near the thresholds of much noise
    frame = pd.DataFrame({"town": towns, "y": ["0", "1"] * 1550})
    others = frame if relation == "add_remove" else frame[:-1]
    other = pd.concat([others, pd.DataFrame({"town": ["new"], "y": ["0"]})])
    data, neighbour = Data.uncoded(read(frame), schema), Data.uncoded(read(other), schema)
    assert check_mechanism(NoisyMaximumRanges(), data=data, neighbour=neighbour, games=100) <= 1.0


def of_words(words: list[str], relation: str = "add_remove") -> Data:
    """Rows with one column of which only the name is known."""
    schema = bare(Column(name="a", kind="undecided", missing="category"), rows=len(words), relation=relation)
    return Data.uncoded(read(pd.DataFrame({"a": words, "y": ["0"] * len(words)})), schema)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_private_kinds_keep_the_contract(relation: str) -> None:
    words = ["7", "ten"] * 50
    others = words if relation == "add_remove" else words[:-1]
    for more in ("8", "eight"):
        data, neighbour = of_words(words, relation), of_words([*others, more], relation)
        neighbour = replace(neighbour, schema=data.schema)
        assert check_mechanism(NoisyMaximumRanges(), data=data, neighbour=neighbour, games=100) <= 1.0


def test_kind_is_decided_by_most_values_and_a_tie_is_a_category() -> None:
    def kinds(words: list[str]) -> list[str]:
        data = of_words(words)
        return [NoisyMaximumRanges().run(data, 1.0, Rng(seed=seed)).columns[0].kind for seed in range(30)]

    assert set(kinds(["17", "2.5"] * 200 + ["ten", ""])) == {"number"}
    assert set(kinds(["Ulm", "Bonn"] * 200 + ["10", ""])) == {"category"}
    assert set(kinds(["7", "ten"] * 200)) == {"category"}


def test_price_of_an_undecided_column_covers_both_kinds() -> None:
    def price(kind: str) -> float:
        return epsilon(NoisyMaximumRanges().cost(bare(*(Column(name=name, kind=kind) for name in "abc")), 8.0), 1e-5)

    assert max(price("number"), price("category")) < price("undecided") < 1.3 * price("number")


def test_words_in_a_column_decided_as_numbers_are_missing() -> None:
    data = of_words(["17", "2.5"] * 200 + ["ten", ""])
    coded = data.coded_by(NoisyMaximumRanges().run(data, 1.0, Rng(seed=1)))
    assert np.isnan(coded.x[-2:, 0]).all()
    assert not np.isnan(coded.x[:-2, 0]).any()


@pytest.mark.parametrize("values", [[], [None] * 50, [np.inf, -np.inf, np.nan] * 20, [7.0] * 40])
def test_p5_empty_missing_and_constant_columns_get_bounds(values: list[float]) -> None:
    schema = bare(Column(name="a", missing="category"), Column(name="t", kind="category", missing="category"), rows=50)
    frame = pd.DataFrame({"a": values, "t": [None] * len(values), "y": ["0"] * len(values)})
    for seed in range(20):
        data = Data.uncoded(read(frame.astype({"a": object})), schema)
        released = NoisyMaximumRanges().run(data, 2.0, Rng(seed=seed))
        assert released.bounded
        coded = Data.of(read(frame), released)
        assert len(coded) == len(frame)


def test_bounds_are_distinct_and_have_few_digits_at_any_noise() -> None:
    schema = bare(Column(name="a"), rows=30)
    data = Data.uncoded(read(pd.DataFrame({"a": [0.1234567] * 30, "y": ["0", "1"] * 15})), schema)
    for seed in range(200):
        column = NoisyMaximumRanges().run(data, 10.0 ** (seed % 5 - 2), Rng(seed=seed)).columns[0]
        assert column.low is not None
        assert column.high is not None
        assert column.low < column.high
        assert float(f"{column.low:.4g}") == column.low
        assert float(f"{column.high:.4g}") == column.high


def test_rare_categories_are_not_released() -> None:
    schema = bare(Column(name="name", kind="category"), rows=2000)
    words = ["common"] * 1000 + [f"person {at}" for at in range(1000)]
    data = Data.uncoded(read(pd.DataFrame({"name": words, "y": ["0", "1"] * 1000})), schema)
    for seed in range(50):
        assert NoisyMaximumRanges().run(data, 1.0, Rng(seed=seed)).columns[0].categories == ("common",)


def test_threshold_shows_a_unique_category_only_with_delta() -> None:
    schema = bare(Column(name="name", kind="category"), rows=10)
    data = Data.uncoded(read(pd.DataFrame({"name": ["lone"], "y": ["0"]})), schema)
    bounds = NoisyMaximumRanges(delta=0.05)
    shown = sum(bounds.run(data, 1.0, Rng(seed=seed)).columns[0].categories == ("lone",) for seed in range(4000))
    assert 140 <= shown <= 260  # 200 expected, deviation 14


def test_cost_depends_on_names_kinds_and_rows_only() -> None:
    assert NoisyMaximumRanges().cost(replace(SCHEMA, rows=5), 3.0) == NoisyMaximumRanges().cost(SCHEMA, 3.0)
    words = [leaf for leaf, _ in leaves(NoisyMaximumRanges().cost(SCHEMA, 4.0)) if isinstance(leaf, Approximate)]
    assert words == [Approximate(epsilon=0.25, delta=1e-7)]
    known = NoisyMaximumRanges().outline(SCHEMA)
    assert known.bounded
    assert NoisyMaximumRanges().cost(known, 1.0) == NOTHING
    assert [column.name for column in known.used] == [column.name for column in SCHEMA.used]


def test_category_columns_share_delta() -> None:
    schema = bare(Column(name="a", kind="category"), Column(name="b", kind="category"))
    (leaf, count) = next(iter(leaves(NoisyMaximumRanges(delta=1e-6).cost(schema, 1.0))))
    assert isinstance(leaf, Approximate)
    assert leaf.delta * count == pytest.approx(1e-6)


def test_released_schema_lists_its_assumptions() -> None:
    data = Data.uncoded(read(frame_of(50)), SCHEMA)
    released = NoisyMaximumRanges().run(data, 1.0, Rng(seed=1))
    assert released.reviewed
    assert released.assumed[:2] == ("the names and kinds of the columns", "the number of rows")
    assert "the classes of y" in released.assumed
    assert Schema.parse(released.toml()) == released


def test_declared_columns_are_unchanged() -> None:
    age = Column(name="age", low=0, high=120, bins=(30,))
    schema = replace(SCHEMA, columns=(age, *SCHEMA.columns[1:]))
    released = NoisyMaximumRanges().run(Data.uncoded(read(frame_of(100)), schema), 1.0, Rng(seed=1))
    assert released.columns[0] == age


def test_fill_value_is_clipped_to_the_bounds() -> None:
    schema = bare(Column(name="a", missing=-999.0), rows=5000)
    frame = pd.DataFrame({"a": np.linspace(10, 20, 5000), "y": ["0", "1"] * 2500})
    column = NoisyMaximumRanges().run(Data.uncoded(read(frame), schema), 1.0, Rng(seed=2)).columns[0]
    assert column.missing == column.low
    assert column.low is not None
    assert column.low > 5


@settings(max_examples=50)
@given(st.integers(1, 10**6), st.floats(1e-3, 1e6))
def test_tail_share_grows_with_noise(rows: int, noise: float) -> None:
    assert 0.01 <= tail_share(rows, noise) <= tail_share(rows, 2 * noise) <= 0.25
    assert tail_share(rows + 1, noise) <= tail_share(rows, noise)


@pytest.mark.parametrize("delta", [0.0, -1.0, 0.6, math.nan, 1])
def test_invalid_delta_is_refused(delta: float) -> None:
    with pytest.raises(WrongInput, match="expected delta"):
        NoisyMaximumRanges(delta=delta)


def test_p39_scores_and_counts_of_a_million_rows_are_exact() -> None:
    """One row moves a quantile's score by at most 1 - share and a category's count by 1, without any rounding."""
    rng = np.random.default_rng(0)
    x = np.empty((1_000_000, 2), dtype=object)
    x[:, 0], x[:, 1] = rng.normal(size=len(x)), np.array(["a", "b"], dtype=object)[rng.integers(0, 2, len(x))]
    x[0, 0] = -50.0
    columns = (Column(name="size"), Column(name="town", kind="category"))
    data = Data(schema=bare(*columns, rows=len(x)), x=x, y=np.zeros(len(x), np.int64))
    share = tail_share(len(x), 1.0)
    assert ratios(NoisyMaximumRanges(), data) == [1 - share, 1 - share, 1.0]


def test_p39_scores_in_single_precision_move_further(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(values: np.ndarray, share: float) -> np.ndarray:
        return quantile_scores(values, share).astype(np.float32).astype(float)

    monkeypatch.setattr(bounds_module, "quantile_scores", planted)
    x = np.random.default_rng(0).normal(size=(300_000, 1))
    x[0] = -50.0
    data = Data(schema=bare(Column(name="size"), rows=len(x)), x=x, y=np.zeros(len(x), np.int64))
    assert min(ratios(NoisyMaximumRanges(), data)) > 1 - tail_share(len(x), 1.0)


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["13/2/2020", "2/13/2020", "2020-02-13 10:15"] * 30, "14/2/2020"),
        (["so many words here", "Ulm", "yes"] * 30, "other words than before"),
    ],
)
def test_private_kinds_of_dates_and_texts_keep_the_contract(words: list[str], more: str) -> None:
    data, neighbour = of_words(words), of_words([*words, more])
    neighbour = replace(neighbour, schema=data.schema)
    assert check_mechanism(NoisyMaximumRanges(), data=data, neighbour=neighbour, games=50) <= 1.0


def test_dates_get_bounds_near_quantiles_and_texts_need_none() -> None:
    days = pd.date_range("2019-03-01", periods=900).strftime("%d/%m/%Y").tolist()
    column = NoisyMaximumRanges().run(of_words(days), 1.0, Rng(seed=1)).columns[0]
    assert (column.kind, column.day_first) == ("date", True)
    assert column.low is not None
    assert column.high is not None
    assert 17_956 - 60 < column.low < 18_100 < 18_700 < column.high < 18_856 + 60
    texts = [f"pain in arm number {at}" for at in range(900)]
    text = NoisyMaximumRanges().run(of_words(texts), 1.0, Rng(seed=1))
    assert (text.columns[0].kind, text.bounded) == ("text", True)
    names = ["some college no degree", "doctorate or any other degree"] * 450
    assert NoisyMaximumRanges().run(of_words(names), 1.0, Rng(seed=1)).columns[0].kind == "category"


@pytest.mark.parametrize(("noise", "size"), [(2.0, 5), (8.0, 20)])
def test_p52_delta_covers_a_word_that_one_person_alone_has(noise: float, size: int) -> None:
    """A word counted `size` times passes the threshold of one row with e^((size - 1) / noise) times its chance."""
    words = Schema(columns=(Column(name="town", kind="category"),), target="y", classes=("n", "y"), rows=99)
    event = Group(event=NoisyMaximumRanges().cost(words, noise), size=size)
    assert accounting.delta(event, 30.0) >= 1e-7 * math.exp((size - 1) / noise)
