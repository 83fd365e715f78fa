"""Keyed hashes of rows: the same rows are known again in another order, file or format.

A cell counts by its value: 1, "1.0" and true are one number, "NA" and an empty cell are missing, other text is itself
without outer spaces. Whole numbers are exact and others are rounded to single precision, so that a column of float32
equals its CSV file. A row is hashed with the names of its columns, whatever their order.

Privacy: hashes of rows stay in memory. A digest that is written down is keyed BLAKE2b over all of them: without the
key, 256 bits of the operating system, nobody can tell whether it belongs to rows that they guess.

>>> import pandas as pd
>>> rows = pd.DataFrame({"age": [30, 40], "town": ["Ulm", "Bonn"]})
>>> key = b"32 random bytes of the data's owner"[:32]
>>> rows_digest(row_hashes(Raw(frame=rows), key), key) == rows_digest(row_hashes(Raw(frame=rows[::-1]), key), key)
True
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from privaware.data._numbers import plain_number_of
from privaware.data._raw import Raw
from privaware.data._values import numbers_of, spelt_of, words_of
from privaware.errors import WrongInput

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["array_cells", "array_hashes", "mixed", "named_cells", "row_hashes", "rows_digest"]

LIKE_A_NUMBER = re.compile(r"[-+.\d]|inf|true|false", re.IGNORECASE).match
"""How a spelling begins that may be a number: the others need not be tried, which is slow."""
CHUNK = 2**13
"""Cells that stay in a processor's cache."""
MIDNIGHT = " 00:00:00"
MISSING = frozenset(("", "?", "na", "n/a", "nan", "nat", "null", "none", "<na>"))
"""Fixed for ever: a digest of old is compared with one of today."""


def row_hashes(raw: Raw, key: bytes) -> np.ndarray:
    """One number of 64 bits for each row, equal for equal rows."""
    return _row_sums(named_cells(raw, key), len(raw), key)


def array_hashes(arrays: dict[str, np.ndarray], key: bytes) -> np.ndarray:
    """One number of 64 bits for each row of several arrays of one length, such as images and labels."""
    return _row_sums(array_cells(arrays, key), len(next(iter(arrays.values()))), key)


def named_cells(raw: Raw, key: bytes) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Each column: its name, numbers of 64 bits that stand for its values, and those mixed with the name."""
    if raw.frame is None:
        arrays = {"image": raw.images, "label": raw.labels}
        yield from array_cells({name: array for name, array in arrays.items() if array is not None}, key)
        return
    for name in raw.frame.columns:
        cells = _cells(raw.frame[name], key)
        yield str(name), cells, mixed(cells, f"column {name}", key)


def _row_sums(cells: Iterable[tuple[str, np.ndarray, np.ndarray]], rows: int, key: bytes) -> np.ndarray:
    hashes = np.zeros(rows, dtype=np.uint64)
    for _, _, named in cells:
        hashes += named
    return mixed(hashes, "row", key)


def array_cells(arrays: dict[str, np.ndarray], key: bytes) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Each array, as `named_cells` gives the columns of a table."""
    import pandas as pd

    for name, array in arrays.items():
        if array.ndim == 1 and array.dtype.kind in "biufUS":
            cells = _cells(pd.Series(array), key)
        else:
            plain = array.astype(np.float32) if array.dtype.kind == "f" else array
            rows = np.ascontiguousarray(plain).reshape(len(array), -1)
            cells = np.array([_hash(row.tobytes(), key) for row in rows], dtype=np.uint64)
        yield name, cells, mixed(cells, f"array {name}", key)


def rows_digest(hashes: np.ndarray, key: bytes) -> str:
    """The digest of all rows, however they are ordered: 32 hexadecimal digits."""
    return blake2b(np.sort(hashes).tobytes(), key=key, digest_size=16, person=b"rows").hexdigest()


def _cells(values: pd.Series, key: bytes) -> np.ndarray:
    """A column as numbers of 64 bits that stand for its values."""
    if values.dtype.kind in "biuf":
        return _bits(numbers_of(values)[0])
    if (spelt := spelt_of(values)) is not None:
        cells = _bits(spelt.numbers)
        odd = spelt.codes >= 0
        if odd.any():
            cells[odd] = _spellings(spelt.spellings, key)[spelt.codes[odd]]
        return cells
    numbers = _parsed(values)
    if numbers is not None:
        return _bits(numbers)
    try:
        words = words_of(values)
    except WrongInput:  # lists, records and bytes are no single values
        words = words_of(values.map(repr))
    return _spellings(words.spellings, key)[words.codes]


def _parsed(values: pd.Series) -> np.ndarray | None:
    """Text that is numbers throughout, read quickly; None where some of it is not."""
    import pandas as pd
    import pyarrow as pa

    if not isinstance(values.dtype, pd.StringDtype):
        return None
    try:
        numbers: np.ndarray = pa.array(values, from_pandas=True).cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    return numbers


def _spellings(spellings: tuple[str, ...], key: bytes) -> np.ndarray:
    """What each spelling stands for: a number, a missing value or text."""
    import pandas as pd

    missing = np.array([word.lower() in MISSING for word in spellings], dtype=bool)
    numbers = np.array([plain_number_of(word) if LIKE_A_NUMBER(word) else np.nan for word in spellings], dtype=float)
    texts = np.array([word.removesuffix(MIDNIGHT) for word in spellings], dtype=object)
    secret = blake2b(key=key, digest_size=8, person=b"text").hexdigest()
    hashed = pd.util.hash_array(texts, hash_key=secret, categorize=False)  # SipHash
    return np.where(np.isnan(numbers) & ~missing, hashed, _bits(numbers))


def _bits(numbers: np.ndarray) -> np.ndarray:
    """Equal numbers as equal bits: one zero, one NaN, fractions in single precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = numbers.astype(np.float32).astype(np.float64)
    np.copyto(rounded, numbers, where=numbers == np.floor(numbers))
    rounded += 0.0
    missing = np.isnan(rounded)
    if missing.any():
        rounded[missing] = np.nan
    return rounded.view(np.uint64)


def _hash(content: bytes, key: bytes) -> int:
    return int.from_bytes(blake2b(content, key=key, digest_size=8, person=b"cell").digest(), "little")


def mixed(cells: np.ndarray, purpose: str, key: bytes) -> np.ndarray:
    """Cells spread over 64 bits by secret multipliers of this purpose: sums of them do not meet by accident."""
    secret = blake2b(purpose.encode(), key=key, digest_size=24, person=b"mix").digest()
    added, first, second = np.frombuffer(secret, dtype=np.uint64)
    spread, shifted = cells + added, np.empty(CHUNK, np.uint64)
    for at in range(0, len(spread), CHUNK):
        chunk = spread[at : at + CHUNK]
        for factor in (first, second):
            chunk ^= np.right_shift(chunk, np.uint64(32), out=shifted[: len(chunk)])
            chunk *= factor | np.uint64(1)
        chunk ^= np.right_shift(chunk, np.uint64(29), out=shifted[: len(chunk)])
    return spread
