"""Checks of settings: what passes, what is refused, and in which words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import Ledger, load, verify
from privaware._validate import (
    expect,
    expect_between,
    expect_count,
    expect_fraction,
    expect_in,
    expect_nonnegative,
    expect_one_of,
    expect_positive,
    shown,
    suggestion,
)
from privaware.errors import WrongInput

NOT_NUMBERS = ["1", None, True, math.nan, math.inf, -math.inf, 10**400, [1.0], 1j]


def test_message_says_who_what_and_the_value() -> None:
    with pytest.raises(WrongInput, match=r"^dpsgd: expected steps as a whole number >= 1, got 0$"):
        expect_count("dpsgd", steps=0)
    with pytest.raises(WrongInput, match=r"^expected delta in \(0, 1\), got 1$"):
        expect_in("", "(0, 1)", delta=1)
    with pytest.raises(WrongInput, match=r"^schema: expected a table, got \[\]$"):
        expect(False, "schema", "a table", [])


@pytest.mark.parametrize(("bad", "words"), [("1", "a number"), (True, "a number"), (math.inf, "a finite number")])
def test_message_says_that_a_number_is_wanted(bad: object, words: str) -> None:
    for check, limits in ((expect_positive, "> 0"), (expect_nonnegative, ">= 0"), (expect_fraction, r"in \[0, 1\]")):
        with pytest.raises(WrongInput, match=rf"^expected epsilon as {words} {limits}, got {bad!r}$"):
            check("", epsilon=bad)
    with pytest.raises(WrongInput, match=rf"^expected epsilon as {words} from 0 to 2, got {bad!r}$"):
        expect_between("", 0, 2, epsilon=bad)


def test_long_values_are_shortened() -> None:
    assert len(shown("x" * 1000)) == 120
    assert shown(10**5000) == "a number of thousands of digits"
    with pytest.raises(WrongInput) as caught:
        expect_one_of("fit", ("a", "b"), unit="x" * 1000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("rows", [pd.DataFrame({"name": ["Smith"]}), pd.Series(["Smith"]), np.array(["Smith"])])
def test_rows_are_not_quoted(rows: Any) -> None:
    for check in (lambda: expect(False, "", "a name", rows), lambda: load(rows), lambda: verify(rows)):
        with pytest.raises(WrongInput, match=f", got an object of {type(rows).__name__}$"):
            check()
    for check in (lambda: verify("model", ledger=rows), lambda: Ledger.open(rows)):
        with pytest.raises(WrongInput, match=f"^expected the path of a ledger, got an object of {type(rows).__name__}"):
            check()


@pytest.mark.parametrize("good", [1, 7, 10**400, np.int64(3)])
def test_counts_are_whole_numbers_from_one(good: object) -> None:
    expect_count("x", steps=good)


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, "1", None, math.nan])
def test_other_counts_are_refused(bad: object) -> None:
    with pytest.raises(WrongInput, match="x: expected steps"):
        expect_count("x", fine=1, steps=bad)


def test_optional_counts_may_be_none() -> None:
    expect_count("x", optional=True, steps=None)
    with pytest.raises(WrongInput, match=">= 2, got 1"):
        expect_count("x", 2, optional=True, steps=1)


@pytest.mark.parametrize("bad", NOT_NUMBERS)
def test_every_number_check_refuses_what_is_no_finite_number(bad: object) -> None:
    for check in (expect_positive, expect_nonnegative, expect_fraction):
        with pytest.raises(WrongInput, match="x: expected lr"):
            check("x", lr=bad)
    with pytest.raises(WrongInput, match="x: expected lr"):
        expect_between("x", 0, 1e300, lr=bad)


def test_limits_are_inclusive_except_zero_for_positive() -> None:
    expect_positive("x", lr=5e-324, norm=np.float32(0.5))
    expect_nonnegative("x", decay=0)
    expect_fraction("x", keep=0, rate=1)
    expect_between("x", 0.5, 2, a=0.5, b=2)
    for check, value in ((expect_positive, 0), (expect_nonnegative, -1e-9), (expect_fraction, 1.0001)):
        with pytest.raises(WrongInput):
            check("x", lr=value)
    with pytest.raises(WrongInput, match=r"from 0.5 to 2, got 2.1"):
        expect_between("x", 0.5, 2, a=2.1)


@pytest.mark.parametrize(
    ("interval", "good", "bad"),
    [
        ("[0, 1]", [0, 1], [-1e-9, 1.1]),
        ("(0, 1]", [1e-300, 1], [0, 1.1]),
        ("[0, 1)", [0, 0.999], [-1, 1]),
        ("(0, 1)", [0.5], [0, 1]),
    ],
)
def test_open_and_closed_interval_ends(interval: str, good: list[float], bad: list[float]) -> None:
    for value in good:
        expect_in("x", interval, beta=value)
    for value in bad:
        with pytest.raises(WrongInput):
            expect_in("x", interval, beta=value)


def test_a_name_is_suggested_for_similar_words_only() -> None:
    known = ["linear", "noise_decay", "finetune"]
    assert suggestion("noisedecay", known) == "did you mean noise_decay?"
    assert suggestion("nonsense", known).startswith("choose one of")
    assert suggestion("nope", ["income", "notes"]) == "choose one of income, notes"


def test_value_outside_the_choices_is_refused() -> None:
    expect_one_of("x", ["sgd", "adam"], update="sgd")
    with pytest.raises(WrongInput, match="x: expected update among sgd, adam, got 'lion'"):
        expect_one_of("x", ["sgd", "adam"], update="lion")
