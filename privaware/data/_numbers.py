"""Numbers as people write them, by public rules for one value at a time.

A currency sign or code may stand before or after a number, a percent sign after it (`12%` is 12), groups of three
digits may be divided by commas or apostrophes, and parentheses around money or grouped digits are a minus. Units of
measure are not read: a number with one is text.
"""

from __future__ import annotations

import re

import numpy as np

__all__ = ["CURRENCY", "number_of", "plain_number_of"]

CURRENCY = (
    r"(?:[$¢£¤¥฿\x{20a0}-\x{20cf}]|US\$|USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|ZAR|kr|zł)"
)
"""Signs and codes of currencies, in the spelling of RE2 (Arrow); Python's differs in the code points."""
_SIGN = CURRENCY.replace(r"\x{20a0}-\x{20cf}", "\u20a0-\u20cf")
_DIGITS = r"(?:[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?:['’]\d{3})+|\d+)(?:\.\d*)?|\.\d+"
_WRITTEN = re.compile(
    rf"(?P<sign>[-+−]?)\s*(?:{_SIGN}\s*)?(?P<second>[-+−]?)(?P<digits>{_DIGITS})\s*(?:%|{_SIGN})?", re.ASCII
)
_DIGIT = re.compile(r"[0-9]")


def number_of(word: str) -> float:
    """The number that a word spells, or NaN.

    >>> [number_of(word) for word in ("1e3", "$1,234.50", "12 €", "-3.5%", "($7)", "1'200 CHF", "true", "7 kg")]
    [1000.0, 1234.5, 12.0, -3.5, -7.0, 1200.0, 1.0, nan]
    """
    number = plain_number_of(word)
    if not np.isnan(number) or not _DIGIT.search(word):
        return number
    text = word.strip()
    bracketed = text.startswith("(") and text.endswith(")")
    match = _WRITTEN.fullmatch(text[1:-1].strip() if bracketed else text)
    if match is None or (match["sign"] and match["second"]) or (bracketed and (match["sign"] or match["second"])):
        return np.nan
    if bracketed and match[0] == match["digits"] and match[0].isdigit():
        return np.nan  # "(1)" may be a mark
    size = float(re.sub("[,'’]", "", match["digits"]))
    return -size if bracketed or (match["sign"] or match["second"]) in ("-", "−") else size


def plain_number_of(word: str) -> float:
    """The number that a word spells in the way of programs, or NaN.

    >>> plain_number_of("1e3"), plain_number_of("$5")
    (1000.0, nan)
    """
    try:
        return float(word) if "_" not in word else np.nan
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(word.lower(), np.nan)
