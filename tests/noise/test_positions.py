"""Draws by position: the same for a row whoever asks, independent over rows and keys, never of what a row holds."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.noise import PositionDraws, Rng


@pytest.mark.parametrize("begin", [0, 1, 3, 4, 1000, 2**40 + 7])
def test_any_cut_gives_a_row_the_same_draw(begin: int) -> None:
    draws = Rng(seed=1).by_position()
    whole = draws.uniforms(begin, 50)
    for edge in range(0, 51, 7):
        cut = np.concatenate([draws.uniforms(begin, edge), draws.uniforms(begin + edge, 50 - edge)])
        assert np.array_equal(cut, whole)


def test_no_draw_is_used_for_two_positions() -> None:
    assert len(np.unique(Rng(seed=1).by_position().uniforms(0, 100_000))) == 100_000


def test_each_sample_has_a_key_of_its_own() -> None:
    rng = Rng(seed=1)
    first, second = rng.by_position(), rng.by_position()
    assert first.key != second.key
    correlation = np.corrcoef(first.uniforms(0, 40_000), second.uniforms(0, 40_000))[0, 1]
    assert abs(correlation) < 0.02
    assert Rng().by_position().key != Rng().by_position().key


def test_shares_are_kept_and_neighbouring_rows_are_independent() -> None:
    parts = Rng(seed=3).by_position().shards(5, 60_000, (1.0, 3.0))
    assert abs(np.mean(parts == 0) - 0.25) < 0.01
    for lag in (1, 2, 4):
        together = np.mean((parts[lag:] == 0) & (parts[:-lag] == 0))
        assert abs(together - 0.0625) < 0.005


def test_a_key_is_not_shown() -> None:
    assert repr(PositionDraws(key=(123, 456))) == "PositionDraws()"
