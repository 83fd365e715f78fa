"""Dates and times, each parsed by itself by public rules.

Dates are written as 2020-12-31, 31.12.2020, 31 Dec 2020 or Dec 31, 2020, perhaps with a time. 3/4/2020 and 3-4-2020 are
read in the order that the schema declares. Clock and calendar are taken as written: time zones are not converted.
"""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?"
    r" ?(?P<half>[AaPp]\.?[Mm]\.?)?(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?"
)
YEAR = r"(?P<year>\d{4})"
FORMS = (
    rf"{YEAR}(?P<sign>[-/.])(?P<month>\d{{1,2}})(?P=sign)(?P<day>\d{{1,2}})",
    r"(?P<first>\d{1,2})(?P<sign>[-/.])(?P<second_>\d{1,2})(?P=sign)(?P<year>\d{4}|\d{2})",
    rf"(?P<day>\d{{1,2}})\.?[ -](?P<name>[A-Za-z]{{3,9}})\.?,?[ -]{YEAR}",
    rf"(?P<name>[A-Za-z]{{3,9}})\.? (?P<day>\d{{1,2}}),? {YEAR}",
)
DATES = tuple(re.compile(rf"{form}(?:(?:T|,? +){CLOCK})?", re.ASCII | re.IGNORECASE) for form in FORMS)
TIME = re.compile(CLOCK, re.ASCII | re.IGNORECASE)
MONTHS = tuple(datetime.date(2000, month, 1).strftime("%B").lower() for month in range(1, 13))
ORDINAL = datetime.date(1970, 1, 1).toordinal()


def days_of_word(word: str, day_first: bool = False) -> float:
    """Return the days since 1970 of the date `word`, or NaN if it is not a date; a time adds a fraction of a day.

    If `day_first`, 3/4/2020 and 3-4-2020 are 3 April, otherwise March 4. In 3.4.2020 the day always comes first.

    >>> days_of_word("1970-01-02 12:00"), days_of_word("3/1/1970", day_first=True), days_of_word("31/1/1970")
    (1.5, 2.0, nan)
    """
    match = _match(word)
    if match is None:
        return np.nan
    fields = match.groupdict()
    month, day = _month_and_day(fields, day_first)
    try:
        whole = datetime.date(_year(fields["year"]), month, day).toordinal() - ORDINAL
    except ValueError:
        return np.nan
    return whole + (_hours(fields) / 24 if fields["hour"] else 0.0)


def shape_of_date(word: str) -> str:
    """Return how a date is written, or an empty string if it is not a date.

    The result is "day_first" or "month_first" if only that order gives a date, with or without a time. Otherwise it is
    "moment" if there is a time, else "date".

    >>> [shape_of_date(word) for word in ("2020-12-31", "3/4/2020 8:15", "31/12/2020", "12/31/2020", "31")]
    ['date', 'moment', 'day_first', 'month_first', '']
    """
    readings = [days_of_word(word, day_first) for day_first in (False, True)]
    if np.isnan(readings).all():
        return ""
    if np.isnan(readings).any():
        return "day_first" if np.isnan(readings[0]) else "month_first"
    match = _match(word)
    return "moment" if match is not None and match["hour"] else "date"


def clock_hours(word: str) -> float:
    """Return the hours since midnight of the time of day `word`, or NaN if it is not a time; a time zone is ignored.

    >>> clock_hours("13:30"), clock_hours("1:30 pm"), clock_hours("25:00")
    (13.5, 13.5, nan)
    """
    match = TIME.fullmatch(word)
    return np.nan if match is None else _hours(match.groupdict())


def days_of_times(values: pd.Series) -> np.ndarray:
    """Return the days since 1970 of a column whose type is a date or a time stamp, as float64; NaN if missing.

    A time adds a fraction of a day. Clock and calendar are local: a time zone is dropped without conversion.
    """
    import pandas as pd

    arrow = values.dtype.pyarrow_dtype if isinstance(values.dtype, pd.ArrowDtype) else None
    zone = getattr(values.dtype if arrow is None else arrow, "tz", None)
    stamps = values if zone is None else values.dt.tz_localize(None)
    stamps = stamps if arrow is None else stamps.astype("datetime64[us]")
    days: np.ndarray = stamps.to_numpy("datetime64[us]").astype("int64") / 86_400e6
    return np.where(stamps.isna().to_numpy(), np.nan, days)


def date_parts(days: np.ndarray) -> dict[str, np.ndarray]:
    """Return the codes of "month", "weekday" and "hour", by these names, of finite days since 1970.

    Codes are whole numbers that count from 0: January, Monday and the hour from midnight are 0. Each array has the
    shape of `days`.
    """
    whole = np.floor(days)
    months = np.clip(whole, -700_000, 2_900_000).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    seconds = np.clip(np.round((days - whole) * 86_400), 0, 86_399)
    return {"month": months % 12, "weekday": (whole + 3) % 7, "hour": seconds // 3600}


def _match(word: str) -> re.Match[str] | None:
    if not 8 <= len(word) <= 40:
        return DATES[1].fullmatch(word) if 6 <= len(word) < 8 else None
    return next((match for form in DATES if (match := form.fullmatch(word))), None)


def _month_and_day(fields: dict[str, Any], day_first: bool) -> tuple[int, int]:
    if name := fields.get("name"):
        known = [at + 1 for at, month in enumerate(MONTHS) if month.startswith(name.lower())]
        return (known[0] if len(known) == 1 else 0), int(fields["day"])
    if "first" not in fields:
        return int(fields["month"]), int(fields["day"])
    first, second = int(fields["first"]), int(fields["second_"])
    return (second, first) if day_first or fields["sign"] == "." else (first, second)


def _year(text: str) -> int:
    """Return the year; two digits mean years from 1969 to 2068, as in POSIX."""
    year = int(text)
    return year if len(text) == 4 else year + (2000 if year < 69 else 1900)


def _hours(fields: dict[str, Any]) -> float:
    hour, minute, second = int(fields["hour"]), int(fields["minute"]), int(fields["second"] or 0)
    if half := fields["half"]:
        if not 1 <= hour <= 12:
            return np.nan
        hour = hour % 12 + (12 if half[0] in "pP" else 0)
    return hour + minute / 60 + second / 3600 if hour < 24 and minute < 60 and second < 61 else np.nan
