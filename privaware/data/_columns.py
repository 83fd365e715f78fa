"""Columns of text that arrive block by block, stored as numbers where this loses nothing.

`looks_of` reads the spelling styles of short decimals off their bytes. `spelt_or_text` and `series_of` convert blocks
of text to columns.

Why bytes suffice: a decimal of at most 15 digits is the only decimal with its number of decimals that rounds to its
float64, and the shortest one. Formatting the float64 with the same number of decimals therefore returns these digits.
Python's shortest spelling returns them too, from 1e-4 on, without zeros at the end. Only the form has to be checked: no
leading zero and no plus sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from privaware.data._numbers import number_of
from privaware.data._words import PLAIN, POINTED, Spelt, spelling_of_number

if TYPE_CHECKING:
    import pandas as pd

DIGITS = 15
"""Largest number of digits of a number whose style `looks_of` decides."""

LEAST = 1e-4
"""Smallest absolute value, other than 0, of a number that `looks_of` takes for plain or pointed."""

NUMBER = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$"
"""Pattern of texts that may be numbers in one of the usual styles."""
CHECKED_ONE_BY_ONE = 0.05
"""Fraction of a block's values (plus 100) up to which values that Arrow spells differently are compared in Python."""

MINUS = ord("-")
POINT = ord(".")
ZERO = ord("0")
NINE = ord("9")

SIGN = 2**8
"""Contribution of a minus sign to the sum of `KINDS` over a text."""

OTHER = 2**20
"""Contribution to the sum of `KINDS` of a byte that is no digit, point or minus sign."""

KINDS = np.array([0 if ZERO <= byte <= NINE else {POINT: 1, MINUS: SIGN}.get(byte, OTHER) for byte in range(256)])
"""Contribution of each byte to a sum that encodes how many points, signs and other bytes a text has."""


class Looks(NamedTuple):
    """The styles in which each text may be spelled, given its number; one entry for each text.

    `plain` is True for a text that `spelling_of_number` returns for its number: integers without a point. `pointed` is
    True for a text that `repr` returns for its number: with a point. `decimals` is the number of decimals of a text in
    fixed notation, or -1 if its bytes do not decide the style and a closer check is needed.
    """

    plain: np.ndarray
    pointed: np.ndarray
    decimals: np.ndarray


def looks_of(texts: Any, numbers: np.ndarray) -> Looks:
    """Return the styles in which the texts of an Arrow array of strings spell their numbers.

    `numbers` (texts,) are the parsed numbers, NaN for empty texts and for texts that are no numbers; such texts fit no
    style. The text -0 counts as a plain 0.

    >>> import pyarrow as pa
    >>> words = ["7", "7.0", "0.25", "7.10", "1e3"]
    >>> looks = looks_of(pa.array(words), np.array(words, float))
    >>> {style: fits.tolist() for style, fits in looks._asdict().items()}["decimals"]
    [0, 1, 2, 2, -1]
    """
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.intp)
    text = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
    starts, ends = ends[:-1] - ends[0], ends[1:] - ends[0]
    known = ~np.isnan(numbers)
    if not known.any():
        return Looks(known, known, np.full(len(known), -1, np.int8))
    sums = np.concatenate([[0], np.cumsum(KINDS.take(text))])
    kinds = sums.take(ends) - sums.take(starts)
    negative = known & (text.take(starts, mode="clip") == MINUS)
    points = kinds - SIGN * negative
    pointed, first = known & (points == 1), starts + negative
    before = ends - first  # number of digits before the point
    before[pointed] = np.flatnonzero(text == POINT)[np.repeat(pointed, kinds % SIGN)] - first[pointed]
    decimals = ends - first - before - pointed
    usual = known & (points >= 0) & (points <= 1) & (before + decimals <= DIGITS) & ~(pointed & (decimals == 0))
    usual &= (before == 1) | ((before > 1) & (text.take(first, mode="clip") != ZERO))
    nought = numbers == 0
    fixed = usual & ~(nought & negative & ~pointed)
    usual &= (np.abs(numbers) >= LEAST) | (nought & ~(negative & pointed))
    ends_in_zero = text.take(ends - 1, mode="clip") == ZERO
    plain = usual & (~pointed | ~ends_in_zero)
    with_point = usual & pointed & (~ends_in_zero | (decimals == 1))
    return Looks(plain, with_point, np.where(fixed, decimals, -1).astype(np.int8))


def spelt_or_text(texts: Any) -> Any:
    """Return an Arrow array of strings as `Spelt` if at least half of its non-empty texts are numbers of a usual style.

    Otherwise return it as a dictionary-encoded Arrow array. Both forms give the same texts again (-0 as 0, and without
    outer spaces), so the meaning of a row does not depend on other rows of its block.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    filled = pc.not_equal(texts, "").to_numpy(zero_copy_only=False)
    numbers = _parsed(texts, filled)
    if numbers is None:
        return _encoded(texts)
    styles, known = _styles(texts, numbers)
    odd = filled & ~known
    if not odd.any():
        return Spelt(numbers=numbers, decimals=styles, codes=Spelt.of(numbers).codes)
    if 2 * np.count_nonzero(odd) > np.count_nonzero(filled):
        return _encoded(texts)
    words = texts.filter(pa.array(odd)).dictionary_encode()
    spellings = tuple(word.strip() for word in words.dictionary.to_pylist())
    codes = np.full(len(odd), -1, np.int32)
    codes[odd] = words.indices.to_numpy(zero_copy_only=False)
    numbers = numbers.copy()
    numbers[odd] = np.array([number_of(word) for word in spellings])[codes[odd]]
    return Spelt(numbers=numbers, decimals=styles, codes=codes, spellings=spellings)


def series_of(blocks: Sequence[Any]) -> pd.Series:
    """Return a column, given in blocks of its rows, as a pandas Series.

    `blocks` are results of `spelt_or_text`, in order. The Series is float64 (NaN if empty) if all blocks are numbers
    that are spelled plainly, as integers without a point. It is a `SpeltArray` (numbers with their spellings) if all
    blocks are `Spelt`, and categories of text if one of the blocks is text.
    """
    import pandas as pd
    import pyarrow as pa

    from privaware.data._spelt_array import SpeltArray

    if all(isinstance(block, Spelt) for block in blocks):
        column = Spelt.joined(blocks)
        return pd.Series(column.numbers if column.style == PLAIN else SpeltArray(column), copy=False)
    joined = pa.chunked_array([_respelt(block) if isinstance(block, Spelt) else block for block in blocks])
    joined = joined.unify_dictionaries()
    spellings = joined.chunk(0).dictionary.to_numpy(zero_copy_only=False)
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in joined.chunks])
    return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(spellings, dtype=object)), copy=False)


def _encoded(texts: Any) -> Any:
    """Return the texts as a dictionary-encoded Arrow array; the text -0 becomes 0, as in a column of numbers."""
    import pyarrow.compute as pc

    nought = pc.equal(texts, "-0")
    return (pc.if_else(nought, "0", texts) if pc.any(nought).as_py() else texts).dictionary_encode()


def _respelt(column: Spelt) -> Any:
    import pyarrow as pa

    words = column.words()
    return pa.DictionaryArray.from_arrays(words.codes, pa.array(words.spellings, pa.string()))


def _parsed(texts: Any, filled: np.ndarray) -> np.ndarray | None:
    """Return the texts as numbers, NaN where `filled` is False.

    If some filled text is no finite number, only texts that match `NUMBER` become numbers and the others NaN; the
    result is None if fewer than half of the filled texts match.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    nothing = pa.scalar(None, pa.string())
    try:
        parsed = (texts if filled.all() else pc.if_else(pa.array(filled), texts, nothing)).cast(pa.float64())
        if pc.all(pc.is_finite(parsed), min_count=0).as_py():
            return np.asarray(parsed.to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        pass
    words = texts.dictionary_encode()
    like_numbers = pc.match_substring_regex(words.dictionary, NUMBER).take(words.indices)
    if 2 * pc.sum(like_numbers).as_py() < np.count_nonzero(filled):
        return None
    numbers = pc.if_else(like_numbers, texts, nothing).cast(pa.float64()).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _styles(texts: Any, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the style in which each text exactly spells its number, and a mask of the texts that have a style.

    A style is a number of decimals, `PLAIN` or `POINTED`. `numbers` are the parsed numbers of `texts`, NaN where there
    is none. Where the mask is False, the style has no meaning.
    """
    looks = looks_of(texts, numbers)
    plain, pointed, decimals = looks.plain, looks.pointed, looks.decimals
    rows = np.flatnonzero(~np.isnan(numbers) & ~plain & (decimals < 0))
    if len(rows):
        plain[rows], pointed[rows] = _spelt_alike(texts.take(rows), numbers[rows], len(texts))
    known = plain | pointed | (decimals >= 0)
    for style, fits in ((PLAIN, plain), (POINTED, pointed)):
        if np.array_equal(fits, known):
            return Spelt.of(numbers, style).decimals, known
    styles = np.where(decimals >= 0, decimals, np.where(plain, PLAIN, POINTED)).astype(np.int8)
    of_known = styles[known]
    uniform = Spelt.of(numbers, int(of_known[0])).decimals
    return (uniform if (of_known == of_known[0]).all() else styles), known


def _spelt_alike(texts: Any, numbers: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two masks: texts as `spelling_of_number` spells their number, and texts as `repr` spells it.

    The first spells integers without a point. `numbers` has the number of each text. Texts that Arrow spells
    differently are compared in Python only if there are at most `CHECKED_ONE_BY_ONE * rows + 100` of them, where `rows`
    is the number of rows of their block. If there are more, they are not marked.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    spelt = pa.array(numbers).cast(texts.type)
    with_point = pc.if_else(pc.match_substring(spelt, "."), spelt, pc.binary_join_element_wise(spelt, ".0", ""))
    usual = (np.abs(numbers) >= 1e-4) & (np.abs(numbers) < 1e15)
    masks = []
    for spelling, expected in ((spelling_of_number, spelt), (repr, with_point)):
        alike = usual & pc.equal(expected, texts).to_numpy(zero_copy_only=False)
        doubtful = np.flatnonzero(~alike)
        if len(doubtful) <= CHECKED_ONE_BY_ONE * rows + 100:
            alike[doubtful] = [spelling(float(numbers[at])) == texts[int(at)].as_py() for at in doubtful]
        masks.append(alike)
    return masks[0], masks[1]
