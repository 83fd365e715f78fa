"""Random changes of rows stay within what the schema declares, and are the same for every row."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.attacks.label_only import changed, label_only
from privaware.noise import Rng
from privaware.testing import example, rows_for
from tests.attacks.games import digits_game


@pytest.mark.parametrize("form", ["table", "image", "text"])
def test_changes_do_not_depend_on_other_rows(form: str) -> None:
    rows = rows_for(example(form), 20)
    all_rows = changed(rows, 0.4, np.random.default_rng(1)).x
    some = changed(rows.take(np.arange(5, 9)), 0.4, np.random.default_rng(1)).x
    assert np.array_equal(all_rows[5:9], some, equal_nan=form == "table")
    assert not np.array_equal(all_rows, rows.x, equal_nan=form == "table")


def test_changed_tables_stay_within_their_bounds() -> None:
    rows = rows_for(example(), 200)
    for seed in range(20):
        x = changed(rows, 0.4, np.random.default_rng(seed)).x
        for at, column in enumerate(rows.schema.used):
            low, high = (0, len(column.categories) - 1) if column.kind == "category" else (column.low, column.high)
            assert low is not None
            assert np.nanmin(x[:, at]) >= low
            assert np.nanmax(x[:, at]) <= high
        assert np.array_equal(np.isnan(x), np.isnan(rows.x))


def test_without_queries_it_is_the_gap_attack() -> None:
    game = digits_game().game
    scores = label_only(game, Rng(seed=0), queries=0)
    assert np.array_equal(scores, (game.model.predictions(game.rows) == game.rows.y).astype(float))
