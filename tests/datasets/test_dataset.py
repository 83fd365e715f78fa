"""Training, test and public rows are disjoint, in a fixed public order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware import datasets, registry
from privaware.datasets import Dataset, order
from tests.datasets.numbered import disjoint, numbered, row_numbers, toy

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


@given(rows=st.integers(10, 200), test_rows=st.integers(1, 50), share=st.floats(0.01, 0.5))
def test_p23_public_rows_are_in_neither_training_nor_test_part(rows: int, test_rows: int, share: float) -> None:
    public_rows = max(1, int(rows * share))
    source = toy(rows, test_rows, public_rows)
    dataset = source.load(public=True)
    numbers = row_numbers(dataset.train, dataset.test, dataset.public)
    assert [len(part) for part in numbers] == [rows - public_rows, test_rows, public_rows]
    assert disjoint(numbers)
    assert len(dataset.train) == dataset.schema.rows == source.schema(public=True).rows
    assert dataset.public is not None
    assert not dataset.public.y.any(), "the public part has no labels"
    assert source.load().public is None
    assert row_numbers(source.load().train)[0] == numbers[0] | numbers[2]


@pytest.mark.parametrize("name", sorted(SIZES))
def test_p23_fixed_split_is_disjoint_and_has_the_declared_counts(name: str) -> None:
    rows, train, test = SIZES[name]
    source = datasets.source(name)
    assert (source.facts.rows, source.test_rows) == (train, test)
    both = source.split(numbered(rows), rows)
    assert [len(part) for part in both] == [train, test]
    assert disjoint(row_numbers(*both))


def test_every_data_set_without_an_official_split_is_covered() -> None:
    official = {"mnist", "fashion_mnist", "cifar10", "svhn", "adult"}
    assert set(registry.names("datasets")) - official == set(SIZES)


@pytest.mark.parametrize("name", ["wisconsin", "digits", "breast_cancer", "adult"])
def test_p23_public_part_is_the_end_of_the_training_rows(loaded: Loaded, name: str) -> None:
    full = loaded(name)
    dataset = datasets.load(name, public=True)
    assert dataset.public is not None
    assert np.array_equal(np.concatenate([dataset.train.x, dataset.public.x]), full.train.x)
    assert np.array_equal(dataset.test.x, full.test.x)
    assert dataset.schema.rows == len(dataset.train)


@given(rows=st.integers(0, 300), more=st.integers(1, 50))
def test_public_order_is_a_permutation_and_more_rows_keep_it(rows: int, more: int) -> None:
    now, later = order("toy", rows), order("toy", rows + more)
    assert sorted(now.tolist()) == list(range(rows))
    assert later[later < rows].tolist() == now.tolist()


def test_public_order_is_stable() -> None:
    assert order("wisconsin", 569)[:6].tolist() == [321, 107, 363, 341, 83, 303]
    assert order("digits", 8).tolist() != order("wisconsin", 8).tolist()


def test_repr_of_a_dataset_shows_no_row() -> None:
    assert repr(toy(12_345, 3, 1).load()) == "Dataset('toy', table, rows private)"
