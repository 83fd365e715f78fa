"""Dates and times are read one at a time, in the calendar of datetime."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware.data._dates import clock_hours, date_parts, days_of_times, days_of_word, shape_of_date

MOMENTS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)).map(
    lambda moment: moment.replace(microsecond=0)
)
EPOCH = datetime.datetime(1970, 1, 1)


@given(MOMENTS, st.sampled_from(["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d %b %Y", "%B %d, %Y"]))
def test_dates_are_days_since_1970(moment: datetime.datetime, form: str) -> None:
    midnight = moment.replace(hour=0, minute=0, second=0)
    assert days_of_word(moment.strftime(form)) == (midnight - EPOCH).days
    with_time = days_of_word(moment.strftime(form + " %H:%M:%S"))
    assert with_time == pytest.approx((moment - EPOCH) / datetime.timedelta(days=1), abs=1e-9)


@given(MOMENTS)
def test_parts_are_those_of_the_calendar(moment: datetime.datetime) -> None:
    days = days_of_times(pd.Series([moment]))
    parts = {name: int(codes[0]) for name, codes in date_parts(days).items()}
    assert parts == {"month": moment.month - 1, "weekday": moment.weekday(), "hour": moment.hour}


@given(MOMENTS)
def test_order_of_slashed_dates_is_the_declared_one(moment: datetime.datetime) -> None:
    day, month = moment.strftime("%d/%m/%Y"), moment.strftime("%m/%d/%Y")
    expected = float((moment.date() - EPOCH.date()).days)
    assert days_of_word(day, day_first=True) == days_of_word(month) == expected
    if moment.day > 12:
        assert (shape_of_date(day), shape_of_date(month)) == ("day_first", "month_first")
        assert np.isnan(days_of_word(day))


@pytest.mark.parametrize(
    "word",
    ["", "2020", "20200131", "2020-13-01", "2020-02-30", "1.2", "10-20", "31.04.2020", "x" * 50, "12:30", "1/2/3/4"],
)
def test_what_is_no_date_is_none(word: str) -> None:
    assert np.isnan(days_of_word(word))
    assert shape_of_date(word) == ""


@pytest.mark.parametrize("word", ["2020-06-01T08:15:00Z", "1 Jun 2020 8:15 AM", "June 1, 2020 08:15 UTC"])
def test_case_of_a_date_does_not_matter(word: str) -> None:
    """Spellings of columns whose kind is undecided are folded before they are counted."""
    days = days_of_word("2020-06-01 08:15")
    assert days_of_word(word) == days_of_word(word.lower()) == days_of_word(word.upper()) == days
    assert shape_of_date(word.lower()) == "moment"


def test_arrow_stamps_with_a_time_zone_are_in_local_time() -> None:
    import pyarrow as pa

    zoned = pd.Series(pd.to_datetime(["2020-06-01 12:00", None]).tz_localize("Europe/Berlin"))
    arrow = zoned.astype(pd.ArrowDtype(pa.timestamp("us", tz="Europe/Berlin")))
    np.testing.assert_array_equal(days_of_times(arrow), days_of_times(zoned))


def test_time_zones_are_as_written() -> None:
    assert days_of_word("1970-01-02T06:00:00+09:00") == days_of_word("1970-01-02 06:00") == 1.25
    stamps = pd.Series(pd.to_datetime(["1970-01-02T06:00:00+09:00", None]))
    assert np.array_equal(days_of_times(stamps), [1.25, np.nan], equal_nan=True)
    assert clock_hours("6:30 pm") == 18.5
    assert np.isnan(clock_hours("13:00 pm"))
