"""The rows that are used when persons are protected: the first `cap` of each person, in the order of the table.

These rows "count". Whether a row counts depends on the rows of its own person alone, so adding or removing another
person changes none of them. For a table in parts, a hash divides the persons into slices, and the table is searched for
one slice after another. In one pass over the column that names persons, each row of a person in the slice gets a keyed
hash of the person, and a group-by over these hashes finds the first rows. Only one bit for each row of the table is
kept. The number of slices keeps memory bounded.

Privacy: the cap holds for each person, so two persons must not be taken for one. They would share a cap. If one of them
left, up to `cap` rows of the other could move up, so that `2 * cap` rows would change, more than the privacy cost
covers. A hash therefore has 128 bits under two secret keys. Among n persons two have the same hash with probability
below n * n / 2**129 (1e-20 for a billion persons), far below any delta, and without the keys nobody can choose names
that collide.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from privaware.data._code import first, over_lines
from privaware.data._parts import Parts, Sum
from privaware.data._raw import Raw, has_target
from privaware.data._values import Words, quoted, words_of
from privaware.errors import WrongInput
from privaware.schema import Schema

MAX_ROWS_PER_SLICE = 2**22
"""Approximate number of rows whose hashes are in memory at a time: about 300 MB while they are sorted."""


def of_persons(schema: Schema) -> bool:
    """Return whether all rows of a person are protected together: `schema.unit` is neither "row" nor "label"."""
    return schema.unit not in ("row", "label")


def capped(raw: Raw, schema: Schema) -> np.ndarray:
    """Return a boolean mask of the first `schema.cap` rows of each person, with or without target, in the table `raw`.

    Raise `WrongInput` if the unit column, which names the person of each row, is absent. Also raise it if a row has no
    name there, or a name over several lines.
    """
    words, numbers = _persons(raw, schema), dict[str, int]()
    persons = words.map(lambda word: numbers.setdefault(word, len(numbers)), np.int64)
    return _first_rows(persons[:, None], schema.cap)


@dataclass(frozen=True, kw_only=True, repr=False)
class CountedRows:
    """The rows that count, of a table in parts: the first few rows of each person.

    `begins` has the number that identifies each part (`Raw.begin`), in increasing order. `parts` has for each part its
    number of rows, and bits in the form of `numpy.packbits`, one for each row: 1 if the row counts.
    """

    begins: list[int]
    parts: list[tuple[int, np.ndarray]]

    def bits(self, begin: int, end: int) -> np.ndarray:
        """Return bits, 1 for each row that counts, of the parts whose numbers in `begins` are in [`begin`, `end`).

        There is one bit for each row of these parts, in order, without gaps between parts. All bits together are packed
        by `numpy.packbits` (uint8).
        """
        parts = self.parts[bisect_left(self.begins, begin) : bisect_left(self.begins, end)]
        masks = [np.unpackbits(bits, count=rows) for rows, bits in parts]
        return np.packbits(np.concatenate(masks)) if masks else np.zeros(0, np.uint8)


def counted_rows(parts: Parts[Raw], schema: Schema, rows: int) -> CountedRows:
    """Return which rows of a table in parts count: the first `schema.cap` rows with a target of each person.

    `rows` is the number of rows of the table, which may be approximate. The parts need only the columns of the target
    and of the unit. They are read once for each slice of the persons, so that about `MAX_ROWS_PER_SLICE` rows are
    handled at a time. Raise `WrongInput` if a row with a target names no person.
    """
    keys = (secrets.token_urlsafe(12), secrets.token_urlsafe(12))
    slices = max(1, -(-rows // MAX_ROWS_PER_SLICE))
    counted: dict[int, tuple[int, np.ndarray]] = {}
    for slice in range(slices):
        candidates = parts.total(_Slice(schema=schema, keys=keys, slice=slice, slices=slices))
        for begin, mask in _counted(candidates, schema.cap):
            bits = np.packbits(mask)
            counted[begin] = (len(mask), bits | counted[begin][1] if begin in counted else bits)
    begins = sorted(counted)
    return CountedRows(begins=begins, parts=[counted[begin] for begin in begins])


@dataclass(frozen=True, kw_only=True, repr=False)
class _Candidates:
    """The rows of one part that may be among the first `cap` of their person.

    `rows` is the number of all rows of the part. `positions` are the positions of the candidates in the part, and
    `persons` (candidates, 2) are two 64-bit hashes of the person of each.
    """

    rows: int
    positions: np.ndarray
    persons: np.ndarray


@dataclass(frozen=True, kw_only=True)
class _Slice(Sum[Raw, dict[int, _Candidates], None]):
    """The candidates of each part, by its `begin`, of the persons in slice number `slice` (from 0) of `slices`.

    A person's hash decides in which slice the person is. Persons are hashed with `keys`, two secrets. A row with a
    target is a candidate if it is among the first `cap` such rows of its person in its part, so a person with very many
    rows does not fill the memory. There is no release.
    """

    schema: Schema
    keys: tuple[str, str]
    slice: int
    slices: int

    def partial(self, part: Raw) -> dict[int, _Candidates]:
        positions = np.flatnonzero(has_target(part, self.schema.target, self.schema.classes))
        with part.named():
            persons = _hashes(_persons(part.take(positions), self.schema), self.keys)
        here = (persons[:, 0] >> np.uint64(32)) % np.uint64(self.slices) == self.slice
        positions, persons = positions[here].astype(np.int32), persons[here]
        early = _first_rows(persons, self.schema.cap)
        return {part.begin: _Candidates(rows=len(part), positions=positions[early], persons=persons[early])}

    def merge(self, left: dict[int, _Candidates], right: dict[int, _Candidates]) -> dict[int, _Candidates]:
        left.update(right)
        return left


def _counted(candidates: dict[int, _Candidates], cap: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield for each part its `begin`, in increasing order, and a mask of all its rows, true for those that count.

    The first `cap` candidates of each person over all parts count. `candidates` has the candidates of each part by its
    `begin`.
    """
    begins = sorted(candidates)
    among = _first_rows(np.concatenate([candidates[at].persons for at in begins]), cap)
    ends = np.cumsum([len(candidates[at].positions) for at in begins])
    for begin, of_part in zip(begins, np.split(among, ends[:-1]), strict=True):
        mask = np.zeros(candidates[begin].rows, bool)
        mask[candidates[begin].positions[of_part]] = True
        yield begin, mask


def expect_unit_column(raw: Raw, schema: Schema) -> None:
    """Raise `WrongInput` if the rows are images, or a table without the column that names persons."""
    if raw.frame is None or schema.unit not in raw.frame.columns:
        columns = raw.columns_shown() or "of a table, got images"
        advice = raw.advice(schema.unit, without=schema.target)
        raise WrongInput(f"expected the unit column {quoted(schema.unit)} among the columns {columns}{advice}")


def expect_persons(raw: Raw, schema: Schema) -> None:
    """Raise `WrongInput` if a row of a table in memory does not name its person in one line of the unit column."""
    _persons(raw, schema)


def _persons(raw: Raw, schema: Schema) -> Words:
    """Return the word in the unit column for each row of `raw`, which names its person.

    Raise `WrongInput` if there is no such column, or if a row has no person or one whose name goes over several lines.
    """
    expect_unit_column(raw, schema)
    words = words_of(raw.values(schema.unit))
    wrong = words.missing() | over_lines(raw, words)
    if wrong.any():
        what = "no value" if words.missing()[first(wrong)] else "several lines"
        raise WrongInput(
            f"unit column {quoted(schema.unit)}, {raw.place(first(wrong))}: expected a value that says whose row it "
            f"is, got {what}; fill in, or remove, every row without such a value"
        )
    return words


def _hashes(words: Words, keys: tuple[str, str]) -> np.ndarray:
    """Return the two 64-bit hashes (rows, 2) of the person of each row, with the two secret `keys`.

    `words` has the name of each row's person. Equal names have equal hashes, whatever the type of the column; 1 and 1.0
    are equal names.
    """
    import pandas as pd

    spellings = np.array(words.spellings, dtype=object)
    hashed = [pd.util.hash_array(spellings, hash_key=key, categorize=False) for key in keys]  # SipHash
    return np.stack(hashed, axis=1)[words.codes]


def _first_rows(persons: np.ndarray, cap: int) -> np.ndarray:
    """Return a boolean mask of the first `cap` rows of each person, in the order of the rows.

    `persons` (rows, numbers) has one or more integers for each row; they are equal exactly for the same person.
    """
    leading = np.sort(persons[:, 0])
    if not (leading[cap:] == leading[:-cap]).any():  # nobody has more than `cap` rows
        return np.ones(len(persons), bool)
    order = np.lexsort(persons.T)  # stable: rows of a person stay in their order
    ordered = persons[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.arange(len(order))
    mask = np.empty(len(order), bool)
    mask[order] = numbers - np.maximum.accumulate(np.where(begins, numbers, 0)) < cap
    return mask
