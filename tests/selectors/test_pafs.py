"""Predictions that are counted have no rounding error, so no row changes another's."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from privaware.selectors.pafs import ENTRIES, exact_products


def test_p39_predictions_are_computed_without_rounding() -> None:
    """Weights that nearly cancel: a plain product rounds, and its sign may follow the order of the sum."""
    rng = np.random.default_rng(0)
    rows = ENTRIES.round(rng.uniform(-1, 1, (40, 9)))
    weights = rng.standard_normal((5, 9)) * 10.0 ** rng.integers(-6, 7, (5, 9))
    products = exact_products(weights, rows)
    # Each rounded weight, read off a row of a single one.
    rounded = exact_products(weights, np.eye(9))
    exact = [
        [sum(Fraction(w) * Fraction(x) for w, x in zip(line, row, strict=True)) for row in rows] for line in rounded
    ]
    assert [[Fraction(value) for value in line] for line in products] == exact
    assert not np.array_equal(weights @ rows.T, products)
    np.testing.assert_allclose(rounded, weights, atol=np.abs(weights).max() * 2.0**-28)


def test_p39_products_of_a_row_do_not_depend_on_its_position() -> None:
    rng = np.random.default_rng(1)
    rows, weights = ENTRIES.round(rng.uniform(-1, 1, (1000, 30))), rng.standard_normal((7, 30))
    together = exact_products(weights, rows)
    for cut in (1, 5, 600):
        assert np.array_equal(exact_products(weights, rows[cut:]), together[:, cut:])
    assert np.array_equal(exact_products(weights, rows[::-1]), together[:, ::-1])
