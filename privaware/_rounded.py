"""Numbers as text: one rounding for every place that prints them, upwards for an epsilon or any other upper bound."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal


def number(x: float, digits: int = 6) -> str:
    """Format a number, rounded to the nearest with at most `digits` significant digits, such as 12.3 or 1,000,000.

    Numbers below 1e-4 or from 1e15 on, in absolute value, have an exponent. Positive infinity becomes "infinite",
    negative infinity "-inf" and NaN "nan".
    """
    if not math.isfinite(x):
        return "infinite" if x > 0 else str(x)
    return _plain(Context(prec=digits, rounding=ROUND_HALF_EVEN).create_decimal(repr(float(x))))


def rounded_up(x: float, digits: int = 4) -> str:
    """Format an upper bound, such as an epsilon, rounded up to `digits` significant digits.

    Before that, `x` is rounded to the nearest number of twelve digits, because further digits are artefacts of binary
    fractions. So the printed number is below `x` by at most a relative 5e-12. A number that is not finite becomes
    "infinite".

    >>> rounded_up(2.71828), rounded_up(0.1 + 0.2), rounded_up(0.99996), rounded_up(1e-5)
    ('2.719', '0.3', '1', '1e-5')
    """
    return _towards(x, digits, ROUND_CEILING)


def rounded_down(x: float, digits: int = 4) -> str:
    """Format a lower bound, rounded down (towards minus infinity) to `digits` significant digits.

    As in `rounded_up`, `x` is first rounded to twelve digits, and a number that is not finite becomes "infinite".
    """
    return _towards(x, digits, ROUND_FLOOR)


def percent(x: float) -> str:
    """Format the upper bound `x` of a probability as text such as "12.4%", rounded up to three significant digits."""
    return f"{rounded_up(100 * x, 3)}%"


def _towards(x: float, digits: int, rounding: str) -> str:
    """Return `x` as text, rounded to twelve significant digits, then by the decimal mode `rounding` to `digits`.

    Return "infinite" if `x` is not finite.
    """
    if not math.isfinite(x):
        return "infinite"
    # Round to twelve digits first: further digits are artefacts of binary fractions.
    near = Context(prec=12, rounding=ROUND_HALF_EVEN).create_decimal(repr(float(x)))
    return _plain(Context(prec=digits, rounding=rounding).plus(near))


def _plain(x: Decimal) -> str:
    """Return the decimal number `x` as text, without trailing zeros and without further rounding.

    From 1e-4 to below 1e15 in absolute value it is plain with commas, such as 1,234.5; otherwise it is such as 1e-5.
    Zero is "0".
    """
    if x == 0:
        return "0"
    if -4 <= x.adjusted() < 15:
        integer, _, fraction = f"{x:,f}".partition(".")
        return f"{integer}.{fraction.rstrip('0')}".rstrip(".")
    digits = f"{x.scaleb(-x.adjusted()):f}"
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"{digits}e{x.adjusted()}"
