"""What a look at bytes says of how decimals are spelt is what spelling their numbers says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.data._columns import SPELLINGS
from privaware.data._decimals import decimal_styles

FORMATS = ("{:.0f}", "{:.1f}", "{:.4f}", "{:.6f}", "{:.9f}", "{:+.2f}", "{!r}", "{:e}", "{:.0f}.")
ODD = (
    "0",
    "-0",
    "0.0",
    "-0.0",
    "00",
    "007.5",
    ".5",
    "5.",
    "",
    "1e5",
    "123456789012345",
    "0.30000000000000004",
    "0.00005",
)
DECIMALS = st.one_of(
    st.sampled_from(ODD),
    st.builds(str.format, st.sampled_from(FORMATS), st.floats(-1000, 1000)),
    st.builds("{:.{}f}".format, st.floats(-1e-3, 1e-3), st.integers(1, 12)),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(DECIMALS, min_size=1, max_size=4))
def test_no_look_contradicts_how_numbers_spell_the_texts(texts: list[str]) -> None:
    numbers = np.array([float(text) if text else np.nan for text in texts])
    looks = decimal_styles(pa.array(["9", *texts], pa.string()).slice(1), numbers)
    texts = ["0" if text == "-0" else text for text in texts]
    for at, (text, number) in enumerate(zip(texts, numbers.tolist(), strict=True)):
        exact = {style: not text or spelt(number) == text for style, spelt in SPELLINGS.items()}
        seen = {style: bool(fits[at]) for style, fits in looks.items()}
        assert seen == exact or not any(seen.values())


@pytest.mark.parametrize(
    ("text", "styles"),
    [
        ("-20", ["plain"]),
        ("0", ["plain"]),
        ("-0", ["plain"]),
        ("", ["plain", "pointed"]),
        ("-12.25", ["plain", "pointed"]),
        ("0.0001", ["plain", "pointed"]),
        ("3.0", ["pointed"]),
        ("0.0", ["pointed"]),
        ("7.10", []),
        ("-0.0", []),
        ("0.00005", []),
        ("1234567890123456", []),
    ],
)
def test_usual_spellings_are_told_by_a_look(text: str, styles: list[str]) -> None:
    looks = decimal_styles(pa.array([text], pa.string()), np.array([float(text) if text else np.nan]))
    assert [style for style, fits in looks.items() if fits.all()] == styles
