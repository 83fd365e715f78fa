"""What a look at bytes says of how decimals are spelt is what spelling their numbers says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.data._columns import looks_of
from privaware.data._words import spelling_of_number

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


def spellings(text: str, number: float) -> dict[str, bool]:
    """In which styles the number is spelt as the text."""
    digits = len(text.partition(".")[2])
    return {
        "plain": spelling_of_number(number) == ("0" if text == "-0" else text),
        "pointed": repr(number) == text,
        "decimals": text != "-0" and f"{number:.{digits}f}" == text,
    }


@settings(max_examples=300, deadline=None)
@given(st.lists(DECIMALS, min_size=1, max_size=4))
def test_no_look_contradicts_how_numbers_spell_the_texts(texts: list[str]) -> None:
    numbers = np.array([float(text) if text else np.nan for text in texts])
    looks = looks_of(pa.array(["9", *texts], pa.string()).slice(1), numbers)
    for at, (text, number) in enumerate(zip(texts, numbers.tolist(), strict=True)):
        decimals = int(looks.decimals[at])
        seen = {"plain": bool(looks.plain[at]), "pointed": bool(looks.pointed[at]), "decimals": decimals >= 0}
        exact = spellings(text, number)
        assert not any(seen[style] and not exact[style] for style in exact)
        assert decimals in (-1, len(text.partition(".")[2]))
        if seen["plain"] or seen["pointed"]:
            assert (seen["plain"], seen["pointed"]) == (exact["plain"], exact["pointed"])


@pytest.mark.parametrize(
    ("text", "styles", "decimals"),
    [
        ("-20", ["plain"], 0),
        ("0", ["plain"], 0),
        ("-0", ["plain"], -1),
        ("", [], -1),
        ("-12.25", ["plain", "pointed"], 2),
        ("0.0001", ["plain", "pointed"], 4),
        ("3.0", ["pointed"], 1),
        ("0.0", ["pointed"], 1),
        ("7.10", [], 2),
        ("-0.00", [], 2),
        ("0.00005", [], 5),
        ("007.50", [], -1),
        ("1234567890123456", [], -1),
    ],
)
def test_usual_spellings_are_told_by_a_look(text: str, styles: list[str], decimals: int) -> None:
    looks = looks_of(pa.array([text], pa.string()), np.array([float(text) if text else np.nan]))
    assert [style for style in ("plain", "pointed") if getattr(looks, style).all()] == styles
    assert looks.decimals.tolist() == [decimals]
