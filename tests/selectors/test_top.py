"""The sensitivity of the dependence score."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.data import Data
from privaware.exact_sums import MARGIN
from privaware.schema import Column, Schema
from privaware.selectors.top import Top, distances
from tests.selectors.dependence import dependence_of
from tests.selectors.neighbours import ratios


def table(codes: np.ndarray, y: np.ndarray, sizes: tuple[int, ...]) -> Data:
    columns = tuple(
        Column(name=f"c{at}", kind="category", categories=tuple(map(str, range(size))))
        for at, size in enumerate(sizes[:-1])
    )
    classes = tuple(f"k{at}" for at in range(sizes[-1]))
    schema = Schema(columns=columns, classes=classes, rows=max(len(y), 1))
    return Data(schema=schema, x=codes.astype(float), y=y.astype(np.int64))


@st.composite
def tables(draw: st.DrawFn, least: int = 1) -> Data:
    sizes = tuple(draw(st.lists(st.integers(2, 4), min_size=2, max_size=5)))
    rows = draw(st.integers(least, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = np.column_stack([rng.integers(size, size=rows) for size in sizes])
    codes[:, 0] = np.minimum(codes[:, -1], sizes[0] - 1)  # one column that says something
    return table(codes[:, :-1], codes[:, -1], sizes)


@settings(max_examples=150, deadline=None)
@given(tables(least=1))
def test_dependence_score_sensitivity_is_below_four(data: Data) -> None:
    here = dependence_of(data)
    for at in range(len(data)):
        fewer = dependence_of(data.take(np.arange(len(data)) != at))
        assert np.abs(here - fewer).max() < 4


def test_dependence_score_sensitivity_bound_is_tight() -> None:
    rare = np.zeros((400, 1))
    rare[0] = 1
    without = table(rare, rare[:, 0], (2, 2))
    more = table(np.append(rare, [[1]], axis=0), np.append(rare[:, 0], 1), (2, 2))
    assert (dependence_of(more) - dependence_of(without))[0] > 3.9


def in_floats(table: np.ndarray, classes: np.ndarray, _: tuple[int, ...]) -> np.ndarray:
    """The same in float64, which rounds products of counts."""
    deviation = np.abs(table - np.outer(table.sum(axis=1).astype(float), classes) / classes.sum())
    return np.array([deviation.sum()])


def test_p39_dependence_score_moves_by_under_four_at_1e9_rows() -> None:
    """A new slot of a new class, where the bound is reached but for 4 / rows; the score in float64 exceeds it."""
    rng, furthest = np.random.default_rng(0), {distances: 0.0, in_floats: 0.0}
    for _ in range(300):
        fewer = np.zeros((2, 10), dtype=np.int64)
        fewer[0, :9] = rng.integers(2**28, 2**29, 9)
        more = fewer.copy()
        more[1, 9] = 1
        for score in furthest:
            moved = score(more, more.sum(axis=0), (2,)) - score(fewer, fewer.sum(axis=0), (2,))
            furthest[score] = max(furthest[score], float(np.abs(moved).max()))
    assert furthest[distances] * (1 - MARGIN) < 4 - 1e-5
    assert furthest[in_floats] > 4


def test_p39_one_of_1e6_rows_moves_a_score_within_sensitivity() -> None:
    codes, y = np.zeros((1_000_000, 1)), np.zeros(1_000_000)
    codes[0], y[0] = 1, 1
    (moved,) = ratios(Top(columns=1), table(codes, y, (2, 2)))
    assert 1 - 1e-4 < moved <= 1
