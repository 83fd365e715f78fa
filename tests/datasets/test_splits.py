"""Training, test and public rows are never the same rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware import datasets, registry
from privaware.data import Data
from privaware.datasets import Dataset, Source, halves, order, parts
from privaware.datasets._dataset import cut
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

Loaded = Callable[[str], Dataset]
SIZES = {
    "breast_cancer": (286, 191, 95),
    "sms_spam": (5_574, 4_700, 836),
    "medical_cost": (1_338, 1_000, 300),
    "location30": (5_010, 4_008, 1_002),
    "purchase100": (197_324, 157_750, 5_000),
    "digits": (1_797, 1_438, 359),
    "wisconsin": (569, 455, 114),
}


def numbered(rows: int, start: int = 0) -> Data:
    """Rows that carry their own number, so that a row in two parts is seen."""
    schema = Schema(columns=(Column(name="n", low=0, high=1e9),), classes=("a", "b"), rows=rows)
    numbers = np.arange(start, start + rows, dtype=float)
    return Data(schema=schema, x=numbers[:, None], y=np.ones(rows, dtype=np.int64))


def sets(*pieces: Data | None) -> list[set[float]]:
    return [set(piece.x[:, 0].tolist()) for piece in pieces if piece is not None]


def disjoint(numbers: list[set[float]]) -> bool:
    return len(set().union(*numbers)) == sum(len(some) for some in numbers)


def toy(rows: int, tested: int, reserve: int) -> Source:
    def read(folder: Path | None, schema: Schema) -> tuple[Data, Data]:
        return numbered(rows), numbered(tested, start=rows)

    return Source(name="toy", facts=numbered(rows).schema, test_rows=tested, public_rows=reserve, read=read)


@given(rows=st.integers(10, 200), tested=st.integers(1, 50), share=st.floats(0.01, 0.5))
def test_p23_public_rows_are_neither_trained_on_nor_tested(rows: int, tested: int, share: float) -> None:
    reserve = max(1, int(rows * share))
    source = toy(rows, tested, reserve)
    made = source.load(public=True)
    numbers = sets(made.train, made.test, made.public)
    assert [len(some) for some in numbers] == [rows - reserve, tested, reserve]
    assert disjoint(numbers)
    assert len(made.train) == made.schema.rows == source.schema(public=True).rows
    assert made.public is not None
    assert not made.public.y.any(), "labels of the public part are not handed out"
    assert source.load().public is None
    assert sets(source.load().train)[0] == numbers[0] | numbers[2]


@pytest.mark.parametrize("name", sorted(SIZES))
def test_p23_fixed_split_is_disjoint_and_has_the_declared_counts(name: str) -> None:
    rows, train, test = SIZES[name]
    source = datasets.source(name)
    assert (source.facts.rows, source.test_rows) == (train, test)
    both = cut(name, numbered(rows), rows, train, test)
    assert [len(part) for part in both] == [train, test]
    assert disjoint(sets(*both))


def test_every_data_set_without_an_official_test_part_is_among_them() -> None:
    official = {"mnist", "fashion_mnist", "cifar10", "svhn", "adult"}
    assert set(registry.names("datasets")) - official == set(SIZES)


@pytest.mark.parametrize("name", ["wisconsin", "digits", "breast_cancer", "adult"])
def test_p23_public_part_is_taken_off_the_end_of_the_training_rows(loaded: Loaded, name: str) -> None:
    whole = loaded(name)
    made = datasets.load(name, public=True)
    assert made.public is not None
    assert np.array_equal(np.concatenate([made.train.x, made.public.x]), whole.train.x)
    assert np.array_equal(made.test.x, whole.test.x)
    assert made.schema.rows == len(made.train)


@given(rows=st.integers(0, 300), more=st.integers(1, 50))
def test_public_order_is_a_permutation_that_more_rows_only_interleave(rows: int, more: int) -> None:
    now, later = order("toy", rows), order("toy", rows + more)
    assert sorted(now.tolist()) == list(range(rows))
    assert later[later < rows].tolist() == now.tolist()


def test_public_order_never_changes() -> None:
    assert order("wisconsin", 569)[:6].tolist() == [321, 107, 363, 341, 83, 303]
    assert order("digits", 8).tolist() != order("wisconsin", 8).tolist()


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5), spare=st.integers(0, 20), shuffled=st.booleans())
def test_parts_are_disjoint_and_declare_their_own_rows(sizes: list[int], spare: int, shuffled: bool) -> None:
    made = parts(numbered(sum(sizes) + spare), *sizes, shuffled=shuffled)
    assert [len(part) for part in made] == [part.schema.rows for part in made] == sizes
    assert disjoint(sets(*made))


@pytest.mark.parametrize("sizes", [(), (0, 5), (-1,), (6, 5)])
def test_parts_that_do_not_fit_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(WrongInput, match="at most 10"):
        parts(numbered(10), *sizes)


@pytest.mark.parametrize("shuffled", [True, False])
def test_p23_target_and_shadow_share_no_row(shuffled: bool) -> None:
    made = halves(toy(101, 41, 10).load(), shuffled=shuffled)
    numbers = sets(made.train, made.test, made.shadow_train, made.shadow_test)
    assert [len(some) for some in numbers] == [50, 20, 50, 20]
    assert disjoint(numbers)
    if not shuffled:
        assert numbers[0] == set(range(50)), "the paper cuts in file order"


def test_halves_use_at_most_ten_thousand_test_rows() -> None:
    made = halves(toy(10, 26_032, 1).load(), shuffled=False)
    assert (len(made.test), len(made.shadow_test)) == (5_000, 5_000)


def test_rows_are_not_shown() -> None:
    assert repr(toy(12_345, 3, 1).load()) == "Dataset('toy', table, rows private)"
