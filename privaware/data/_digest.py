"""Keyed hashes of rows, by which the same rows are recognised in another order, file or format.

A cell counts by its value: 1, "1.0" and true are one number, "NA" and an empty cell are missing, other text counts
without outer spaces. Integers below 2^53 are exact and other numbers are rounded to single precision, so a column of
float32 equals its CSV file. A row is hashed with the names of its columns, in any order.

Privacy: hashes of rows stay in memory. A stored digest is keyed BLAKE2b over all of them. Without the key, 256 bits
from the operating system, nobody can tell whether it belongs to rows that they guess.

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

LIKE_A_NUMBER = re.compile(r"[-+.\d]|inf|true|false", re.IGNORECASE).match
"""Matches spellings that may be numbers; other spellings need not be parsed, which is slow."""
CHUNK = 2**13
"""Number of cells that fit a processor's cache."""
MIDNIGHT = " 00:00:00"
"""Suffix of a date with a time of midnight, which does not count."""
MISSING = frozenset(("", "?", "na", "n/a", "nan", "nat", "null", "none", "<na>"))
"""Spellings of missing values; never change them, because old digests are compared with new ones."""


def row_hashes(raw: Raw, key: bytes) -> np.ndarray:
    """Return one 64-bit hash for each row; equal rows have equal hashes.

    Parameters
    ----------
    raw : Raw
        The rows.
    key : bytes
        The secret key of the data's owner.

    Returns
    -------
    numpy.ndarray
        Unsigned integers of 64 bits.
    """
    return _row_sums(named_cells(raw, key), len(raw), key)


def array_hashes(arrays: dict[str, np.ndarray], key: bytes) -> np.ndarray:
    """Return one 64-bit hash for each row of several arrays of one length, such as images and labels.

    Parameters
    ----------
    arrays : dict
        The arrays by name; rows are along the first axis.
    key : bytes
        The secret key of the data's owner.

    Returns
    -------
    numpy.ndarray
        Unsigned integers of 64 bits.
    """
    return _row_sums(array_cells(arrays, key), len(next(iter(arrays.values()))), key)


def named_cells(raw: Raw, key: bytes) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield for each column of `raw` its name and two uint64 arrays with one number for each row.

    The first array stands for the values: equal values have equal numbers. The second has these numbers mixed with the
    name of the column, so that a row is identified by their sum over all columns. Images have the columns "image" and,
    if there are labels, "label". A column that names image files counts by the pixels of the images. `key` is the
    owner's secret.
    """
    if raw.frame is None:
        arrays = {"image": raw.images, "label": raw.labels}
        yield from array_cells({name: array for name, array in arrays.items() if array is not None}, key)
        return
    for name in raw.frame.columns:
        if name == raw.image and raw.images is not None:
            yield from array_cells({name: raw.images}, key)
            continue
        cells = _cells(raw.frame[name], key)
        yield str(name), cells, mixed(cells, f"column {name}", key)


def _row_sums(cells: Iterable[tuple[str, np.ndarray, np.ndarray]], rows: int, key: bytes) -> np.ndarray:
    hashes = np.zeros(rows, dtype=np.uint64)
    for _, _, named in cells:
        hashes += named
    return mixed(hashes, "row", key)


def array_cells(arrays: dict[str, np.ndarray], key: bytes) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield for each array its name and two uint64 arrays with one number for each row.

    Parameters
    ----------
    arrays : dict
        The arrays by name; rows are along the first axis.
    key : bytes
        The secret key of the data's owner.

    Yields
    ------
    tuple
        The name, numbers that stand for the values of the rows (equal for equal values), and these numbers mixed with
        the name, so that a row is identified by their sum over all arrays.
    """
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
    """Return the digest of all rows, which does not depend on their order.

    Parameters
    ----------
    hashes : numpy.ndarray
        One hash for each row.
    key : bytes
        The secret key of the data's owner.

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    return blake2b(np.sort(hashes).tobytes(), key=key, digest_size=16, person=b"rows").hexdigest()


def _cells(values: pd.Series, key: bytes) -> np.ndarray:
    """Return one uint64 number for each value of a column: the bits of a number, or a hash of a text by `key`.

    Equal values have equal numbers, whatever the type of the column; all missing values have the bits of NaN.
    """
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
    except WrongInput:  # lists, records and bytes
        words = words_of(values.map(repr))
    return _spellings(words.spellings, key)[words.codes]


def _parsed(values: pd.Series) -> np.ndarray | None:
    """Return a column of pandas' string type as float64 numbers (NaN if missing), fast.

    Return None for a column of another type, or if some value is not a number.
    """
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
    """Return a uint64 number for each spelling.

    It is the bits of the number that the text spells, the bits of NaN for a missing value, and a hash by `key` for any
    other text. The time of midnight after a date does not count.
    """
    import pandas as pd

    missing = np.array([word.lower() in MISSING for word in spellings], dtype=bool)
    numbers = np.array([plain_number_of(word) if LIKE_A_NUMBER(word) else np.nan for word in spellings], dtype=float)
    texts = np.array([word.removesuffix(MIDNIGHT) for word in spellings], dtype=object)
    secret = blake2b(key=key, digest_size=8, person=b"text").hexdigest()
    hashed = pd.util.hash_array(texts, hash_key=secret, categorize=False)  # SipHash
    return np.where(np.isnan(numbers) & ~missing, hashed, _bits(numbers))


def _bits(numbers: np.ndarray) -> np.ndarray:
    """Return the float64 bits of numbers as uint64; numbers that are no integers are first rounded to float32.

    Both zeros have the same bits, and so have all NaN.
    """
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
    """Return a keyed 64-bit hash of each of the uint64 numbers `cells`, as a new array.

    Equal numbers have equal hashes. The secret constants follow from `key` and from the text `purpose`, so that sums of
    such hashes collide only by chance.
    """
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
