"""Numbers as people write them, by public rules for one value at a time.

A currency sign or code may stand before or after a number, and a percent sign after it (`12%` is 12). Commas or
apostrophes may separate groups of three digits. Parentheses mean a minus sign, except around a whole number alone,
which may be a footnote mark. A unit of `MEASURES` may follow a number: `70 kg` is 70, and nothing is converted. Units
and codes of currencies are read in any case of their ASCII letters, because undecided columns are folded before their
kinds are counted. Where the case would decide between two units, the unit has no name. `12 k`, `3 M` and `3 m` are no
numbers, because such a letter may multiply the number by a thousand or a million.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

CURRENCY = (
    r"(?:[$¢£¤¥฿\x{20a0}-\x{20cf}]|US\$|USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|ZAR|kr|"
    r"z[łŁ])"
)
"""Signs and codes of currencies, in the syntax of RE2 (Arrow), which writes code points differently from Python."""
_SIGN = CURRENCY.replace(r"\x{20a0}-\x{20cf}", "\u20a0-\u20cf")
MEASURES = (
    "kg mg µg mcg ng lb lbs oz km cm mm µm nm ft mi inch inches ml dl cl °C °F ° mmHg kPa hPa Pa bar psi bpm kWh "
    "Wh kW MW mW kV mV mA kcal kJ hr hrs hour hours min mins sec secs ms day days week weeks month months year "
    "years yr yrs m² m2 km² ha sqft m³ m3 km/h mph m/s KB MB GB TB Hz kHz MHz GHz dB ppm rpm mg/dl g/dl g/l mg/l "
    "ng/ml µg/l mmol/l µmol/l IU IU/l U/l kg/m² kg/m2"
)
"""Units of measure that may follow a number, in upper or lower case."""
LETTERS = "g l h"
"""Units of one letter, in upper or lower case, that may follow a number only after a blank."""
_NAMES = sorted(MEASURES.split(), key=len, reverse=True)
MEASURE = rf"(?:{'|'.join(map(re.escape, _NAMES)).replace('µ', '[µμΜ]')})"
"""Pattern of `MEASURES` as they are written, with a micro sign or a Greek mu, in the syntax of both RE2 and Python."""
_FOLDED = Counter(name.casefold() for name in _NAMES)
_CANONICAL = {name.casefold(): name for name in (*LETTERS.split(), *_NAMES) if _FOLDED[name.casefold()] < 2}
_DIGITS = r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[1-9][0-9]{0,2}(?:['’][0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+"
_WRITTEN = re.compile(
    rf"(?P<sign>[-+−]?)\s*(?:(?ai:{_SIGN})\s*)?(?P<second>[-+−]?)(?P<digits>{_DIGITS})"
    rf"\s*(?:%|(?ai:{_SIGN})|(?P<measure>(?ai:{MEASURE})|(?<=\s)(?ai:[{LETTERS.replace(' ', '')}])))?"
)
_DIGIT = re.compile(r"[0-9]")


def number_of(word: str) -> float:
    """Return the number that a word spells, or NaN.

    >>> [number_of(word) for word in ("1e3", "$1,234.50", "12 €", "-3.5%", "($7)", "1'200 CHF", "true", "7 kg")]
    [1000.0, 1234.5, 12.0, -3.5, -7.0, 1200.0, 1.0, 7.0]
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
        return np.nan  # "(1)" may be a footnote mark
    size = float(re.sub("[,'’]", "", match["digits"]))
    return -size if bracketed or (match["sign"] or match["second"]) in ("-", "−") else size


def measure_of(word: str) -> str:
    """Return the unit of measure after a number, as `MEASURES` or `LETTERS` spell it, or an empty string.

    The string is also empty for `mw` and `Mw`, which may be mW or MW.

    >>> measure_of("7.5 KG"), measure_of("7 apples")
    ('kg', '')
    """
    match = _WRITTEN.fullmatch(word.strip())
    spelled = "" if match is None else match["measure"] or ""
    return spelled if spelled in _NAMES else _CANONICAL.get(spelled.casefold(), "")


def plain_number_of(word: str) -> float:
    """Return the number that a word spells in the syntax of programming languages, or NaN; true is 1 and false is 0.

    >>> plain_number_of("1e3"), plain_number_of("$5")
    (1000.0, nan)
    """
    try:
        return float(word) if "_" not in word else np.nan
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(word.lower(), np.nan)
