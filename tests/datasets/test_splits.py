"""Disjoint parts of a data set, as the papers split them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware.datasets import halves, parts
from privaware.errors import WrongInput
from tests.datasets.numbered import disjoint, numbered, row_numbers, toy


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5), spare=st.integers(0, 20), shuffled=st.booleans())
def test_parts_are_disjoint_and_declare_their_size(sizes: list[int], spare: int, shuffled: bool) -> None:
    pieces = parts(numbered(sum(sizes) + spare), *sizes, shuffled=shuffled)
    assert [len(part) for part in pieces] == [part.schema.rows for part in pieces] == sizes
    assert disjoint(row_numbers(*pieces))


@pytest.mark.parametrize("sizes", [(), (0, 5), (-1,), (6, 5)])
def test_parts_larger_than_the_data_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(WrongInput, match="at most 10"):
        parts(numbered(10), *sizes)


@pytest.mark.parametrize("shuffled", [True, False])
def test_p23_target_and_shadow_rows_are_disjoint(shuffled: bool) -> None:
    split = halves(toy(101, 41, 10).load(), shuffled=shuffled)
    numbers = row_numbers(split.train, split.test, split.shadow_train, split.shadow_test)
    assert [len(part) for part in numbers] == [50, 20, 50, 20]
    assert disjoint(numbers)
    if not shuffled:
        assert numbers[0] == set(range(50)), "the paper splits in file order"


def test_halves_use_at_most_ten_thousand_test_rows() -> None:
    split = halves(toy(10, 26_032, 1).load(), shuffled=False)
    assert (len(split.test), len(split.shadow_test)) == (5_000, 5_000)
