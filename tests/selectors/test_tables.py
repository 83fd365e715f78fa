"""Noisy tables against slow references."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.data import Data
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.selectors._genetic import Evolution
from privaware.selectors._merit import best_first, merits
from privaware.selectors._tables import release, uncertainties
from privaware.selectors.top import dependence
from privaware.selectors.worth import explained, worthy

ODDS = 1e-7
"""Noise that is as good as none."""


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


def entropy(*columns: np.ndarray) -> float:
    _, count = np.unique(np.column_stack(columns), axis=0, return_counts=True)
    share = count / count.sum()
    return float(-(share * np.log2(share)).sum())


@settings(max_examples=60, deadline=None)
@given(tables())
def test_uncertainties_without_noise_equal_those_of_the_rows(data: Data) -> None:
    shared = uncertainties(release(data, 8, ODDS, Rng(seed=1)))
    columns = [*data.x.T, data.y]
    for i, j in combinations(range(len(columns)), 2):
        a, b, both = entropy(columns[i]), entropy(columns[j]), entropy(columns[i], columns[j])
        expected = 2 * (1 - both / (a + b)) if a + b > 1e-3 else 0.0
        assert shared[i, j] == pytest.approx(expected, abs=2e-3)
        assert shared[j, i] == pytest.approx(shared[i, j])


def test_sensitivity_bound_of_the_tables_is_tight() -> None:
    """The bound is not only kept but met, so no budget is wasted."""
    data = table(np.array([[0, 1, 2]]), np.array([1]), (2, 3, 4, 2))

    class Seen(Rng):
        exact = np.zeros(0)

        def gaussian(self, exact: np.ndarray, *, noise: float, sensitivity: float) -> np.ndarray:
            self.exact = exact
            assert sensitivity == 1.0
            return exact

    rng = Seen(seed=0)
    release(data, 8, 1.0, rng)
    assert np.linalg.norm(rng.exact) == pytest.approx(1.0)


def test_noise_alone_shows_no_dependence() -> None:
    rng = np.random.default_rng(0)
    data = table(rng.integers(3, size=(500, 6)), rng.integers(2, size=500), (3,) * 6 + (2,))
    found = [uncertainties(release(data, 8, 5.0, Rng(seed=seed))) for seed in range(20)]
    plain = [
        uncertainties(replace(made, noise=0 * made.noise))
        for made in (release(data, 8, 5.0, Rng(seed=seed)) for seed in range(20))
    ]
    above = np.triu_indices(7, 1)
    assert np.mean([shared[above] for shared in found]) < 0.5 * np.mean([shared[above] for shared in plain])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.integers(0, 2**32))
def test_merit_equals_the_formula_of_the_paper(width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shared = rng.random((width + 1, width + 1))
    shared = (shared + shared.T) / 2
    mask = rng.random(width) < 0.6
    mask[0] = True
    inside = np.flatnonzero(mask)
    k = len(inside)
    related = shared[inside, -1].mean()
    pairs = [shared[i, j] for i, j in combinations(inside, 2)]
    among = np.mean(pairs) if pairs else 0.0
    assert merits(mask[None], shared)[0] == pytest.approx(k * related / np.sqrt(k + k * (k - 1) * among))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 7), st.integers(0, 2**32))
def test_greedy_search_adds_the_column_of_largest_merit(width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shared = rng.random((width + 1, width + 1))
    shared = (shared + shared.T) / 2
    order, gained = best_first(shared)
    mask = np.zeros(width, dtype=bool)
    for at, gain in zip(order, gained, strict=True):
        tried = np.array([mask | (np.arange(width) == other) for other in np.flatnonzero(~mask)])
        assert gain == pytest.approx(merits(tried, shared).max())
        mask[at] = True
    assert sorted(order) == list(range(width))


def search(**changed: float) -> Evolution:
    usual = {"population": 30, "generations": 12, "keep": 0.2, "crossover": 0.7, "mutation": 0.2}
    return Evolution(**{**usual, "most": 12, **changed})  # type: ignore[arg-type]


def test_genetic_search_finds_a_hidden_set_and_copying_alone_does_not() -> None:
    hidden = np.arange(12) % 3 == 0

    def fitness(masks: np.ndarray) -> np.ndarray:
        return -(masks ^ hidden).sum(axis=1).astype(float)

    found = [search().search(12, fitness, np.random.default_rng(seed)) for seed in range(8)]
    assert sum(bool((mask == hidden).all()) for mask in found) >= 6
    best: list[float] = []

    def watched(masks: np.ndarray) -> np.ndarray:
        best.append(float(fitness(masks).max()))
        return fitness(masks)

    search(crossover=0.0, mutation=0.0).search(12, watched, np.random.default_rng(1))
    assert max(best) == best[0]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32))
def test_candidate_sets_are_neither_empty_nor_too_large(width: int, most: int, seed: int) -> None:
    seen = []

    def fitness(masks: np.ndarray) -> np.ndarray:
        seen.append(masks.sum(axis=1))
        return np.zeros(len(masks))

    search(most=most, generations=4, mutation=0.3).search(width, fitness, np.random.default_rng(seed))
    sizes = np.concatenate(seen)
    assert sizes.min() >= 1
    assert sizes.max() <= min(most, width)
    assert len(sizes) == 120


@settings(max_examples=150, deadline=None)
@given(tables(least=1))
def test_dependence_score_sensitivity_is_below_four(data: Data) -> None:
    here = dependence(data, 8)
    for at in range(len(data)):
        fewer = dependence(data.take(np.arange(len(data)) != at), 8)
        assert np.abs(here - fewer).max() < 4


def test_dependence_score_sensitivity_bound_is_tight() -> None:
    rare = np.zeros((400, 1))
    rare[0] = 1
    without = table(rare, rare[:, 0], (2, 2))
    more = table(np.append(rare, [[1]], axis=0), np.append(rare[:, 0], 1), (2, 2))
    assert (dependence(more, 8) - dependence(without, 8))[0] > 3.9


def test_exact_condition_is_right_where_the_printed_bound_errs() -> None:
    """c = 1, d = 3, theta x = -2: dropping wins, 1 against 4, though the printed bound says 1."""
    theta, x, c, d = -2.0, 1.0, 1.0, 3.0
    printed = abs(theta) <= (np.sqrt(c**2 + d) - abs(c)) / abs(x)
    exact = abs(theta * x + c) <= np.sqrt(c**2 + d)
    simpler, whole = (theta * x + c) ** 2, c**2 + d
    assert exact
    assert not printed
    assert simpler < whole


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.01, 3.0))
def test_column_is_dropped_exactly_when_squared_error_decreases(seed: int, spread: float) -> None:
    """Against the expected squared errors themselves, summed over rows of one-hot columns."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(3, size=(50, 2))
    x = np.eye(3)[codes].reshape(50, 6) / np.sqrt(2)
    y = x @ rng.standard_normal(6) + 0.3 * rng.standard_normal(50)
    penalty = 5.0
    theta = np.linalg.solve(x.T @ x + penalty * np.eye(6), x.T @ y)

    def error(*kept: int) -> float:
        left = x * np.repeat(kept, 3)
        return float(((y - left @ theta) ** 2).sum() + spread**2 * (left**2).sum())

    both, without = error(1, 1), [error(0, 1), error(1, 0)]
    owner = np.repeat([0, 1], 3)
    kept = worthy(x.T @ x, (x.T @ y)[:, None], owner, penalty=penalty, price=spread**2 * 50 / 2, most=2)
    assert kept.all() == (both < min(without))
    if not kept.all():
        assert not kept[int(np.argmin(without))]


def test_variance_explained_by_noise_is_subtracted() -> None:
    """Targets that are pure noise: on average no column explains anything."""
    rng = np.random.default_rng(0)
    x = np.eye(3)[rng.integers(3, size=(60, 4))].reshape(60, 12) / 2
    owner, kept = np.repeat(np.arange(4), 3), np.ones(4, dtype=bool)
    found = np.array(
        [explained(x.T @ x, 2.0 * rng.standard_normal((12, 2)), owner, kept, 5.0, 2.0) for _ in range(4000)]
    )
    plain = explained(x.T @ x, 2.0 * rng.standard_normal((12, 2)), owner, kept, 5.0, 0.0)
    assert (plain > 0).all()
    assert (np.abs(found.mean(axis=0)) < 5 * found.std(axis=0) / np.sqrt(4000)).all()
