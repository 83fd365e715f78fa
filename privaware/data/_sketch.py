"""Sketches of tables, by which most rows of a table are recognised with other columns or a few rows more or less.

A sketch holds samples of keyed hashes: the few hundred hashes below a bound, so that two tables choose the same rows.
There is one sample of the rows with all their columns, and one of the rows with columns by position instead of by name.
For each column (or group of columns, if there are many) there is one sample of the rows without this column. There is
also one sample of the values of each column. A sample is compared with all its hashes only if most of them belong to
one row each (`UNIQUE`). By the Good-Turing estimate, a table of other people from the same population then shares less
than a quarter of these hashes, whereas a table of the same people shares nearly all. Of any other sample of rows, only
the hashes that belong to one row each are compared, if there are at least `FEWEST_SINGLE`. If a row occurs `x` times on
average among as many people, then exactly once with probability `x * exp(-x)`, which is at most `1 / e`. So tables of
other people share at most 37% of these hashes on average. Columns of running numbers and dates, which unrelated tables
have in common, are left out of all samples.

Columns of few values, such as ages, do not distinguish rows. For them a sketch holds one keyed digest of all values of
a column, in any order: tables with the same digest have the same values equally often.

Privacy: a sketch stays in the folder of the data's owner, with the key of its hashes; no ledger or release contains it.

>>> import numpy as np, pandas as pd
>>> from privaware.data._raw import Raw
>>> draw, key = np.random.default_rng(0), bytes(32)
>>> table = pd.DataFrame(draw.normal(size=(500, 3)), columns=list("abc"))
>>> whole, fewer, other = (
...     hashes_and_sketch(Raw(frame=frame), key)[1].finished()
...     for frame in (table, table[["a", "c"]][20:], table + 1)
... )
>>> whole.resembles(fewer), whole.resembles(other)
(True, False)
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from privaware.data._digest import mixed, named_cells
from privaware.data._raw import Raw
from privaware.data._values import numbers_of
from privaware.errors import WrongInput

if TYPE_CHECKING:
    import pandas as pd

SAMPLE = 256
"""Largest number of distinct hashes in one sample of a sketch: the smallest hashes of all."""
EVERY = 2**64 - 1
"""Largest hash; a sample of the hashes up to this bound holds all hashes."""
WIDER = 8
"""Factor by which a bound grows while fewer than `SAMPLE` distinct hashes lie below it."""
UNIQUE = 0.75
"""Fraction of rows with a hash of their own from which a sample distinguishes rows."""
KNOWN = 0.5
"""Fraction of the smaller table's rows that must be shared for a table to be recognised."""
FEWEST = 8
"""Smallest number of hashes that two samples must share to be evidence that their tables share rows."""
FEWEST_SINGLE = 64
"""Smallest number of hashes with one row each from which on they count without the repeated rows."""
KNOWN_SINGLE = 0.75
"""Fraction of the hashes with one row each that must be shared, where only they count."""
COLUMNS = 2
"""Number of columns with mostly the same values that identify a table; many tables may share one column."""
DISTINCT = 16
"""Number of distinct values from which a digest identifies a column; counts of fewer values may agree by chance."""
MOST_GROUPS = 64
"""Largest number of samples of rows without some columns; a table with more columns leaves out several at a time."""
MOST_COLUMNS = 32
"""Largest number of columns whose samples of values a sketch keeps."""
CELLS = 2**22
"""Number of cells of a table that are hashed at a time; their hashes take 32 MB."""
HEAD = 4096
"""Number of first rows that show whether a column is a running number."""
RANGE = 4
"""Largest ratio of possible values to rows at which a column without repeated values is a running number."""
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d").match


@dataclass(frozen=True, eq=False, repr=False)
class Sample:
    """A sample of keyed hashes, one for each row: all distinct `hashes` below `bound`, sorted (uint64).

    `counts` has the number of rows with each of them. If `single`, only the hashes that belong to one row each were
    kept.
    """

    bound: int
    hashes: np.ndarray
    counts: np.ndarray
    single: bool = False

    @classmethod
    def of(cls, tokens: np.ndarray) -> Sample:
        """Return the sample of `tokens`, uint64 hashes with one for each row: the `SAMPLE` smallest distinct hashes.

        If there are at most `SAMPLE` distinct hashes, it has all of them.
        """
        bound = EVERY if len(tokens) <= 2 * SAMPLE else 2 * SAMPLE * (EVERY // len(tokens))
        while True:
            below = tokens if bound == EVERY else tokens[tokens < np.uint64(bound)]
            hashes, counts = np.unique(below, return_counts=True)
            if len(hashes) >= SAMPLE or bound == EVERY:
                return cls(bound, hashes, counts)._trimmed()
            bound = min(WIDER * bound, EVERY)

    def merge(self, other: Sample) -> Sample:
        """Return the sample of the rows of both samples: at most `SAMPLE` of their smallest distinct hashes.

        Counts are added. Its bound is at most the smaller one of the two bounds.
        """
        bound = min(self.bound, other.bound)
        left, right = self.below(bound), other.below(bound)
        hashes, inverse = np.unique(np.concatenate([left.hashes, right.hashes]), return_inverse=True)
        counts = np.bincount(inverse, np.concatenate([left.counts, right.counts]), len(hashes)).astype(np.int64)
        return Sample(bound, hashes, counts)._trimmed()

    def below(self, bound: int) -> Sample:
        """Return the sample with the hashes below `bound`, which must not be above the bound of this sample."""
        kept = slice(0, int(np.searchsorted(self.hashes, np.uint64(bound)))) if bound < self.bound else slice(None)
        return Sample(bound, self.hashes[kept], self.counts[kept], self.single)

    def _trimmed(self) -> Sample:
        return self.below(int(self.hashes[SAMPLE])) if len(self.hashes) > SAMPLE else self

    @property
    def has_uneven_counts(self) -> bool:
        """Whether there are at least `DISTINCT` distinct hashes, and some occur in more rows than others.

        Where all values occur equally often, as in a numbered list, unrelated tables may have equal columns.
        """
        return len(self.hashes) >= DISTINCT and len(np.unique(self.counts)) > 1

    @property
    def tells_rows_apart(self) -> bool:
        """Whether the sample has `FEWEST` rows or more, and a fraction `UNIQUE` or more of them share their hash with
        none."""
        rows = int(self.counts.sum())
        return rows >= FEWEST and int((self.counts == 1).sum()) >= UNIQUE * rows

    def telling(self) -> Sample | None:
        """Return this sample if it distinguishes rows (`tells_rows_apart`).

        Otherwise return only its hashes that belong to one row each, as a `single` sample, or None if there are fewer
        than `FEWEST_SINGLE` of them.
        """
        if self.tells_rows_apart:
            return self
        alone = self.counts == 1
        if int(alone.sum()) < FEWEST_SINGLE:
            return None
        return Sample(self.bound, self.hashes[alone], self.counts[alone], single=True)

    def known_in(self, other: Sample) -> bool:
        """Return whether two samples share enough hashes to come, probably, from mostly the same rows.

        They must share at least `FEWEST` hashes, and at least the fraction `KNOWN` of the smaller sample. If one of
        them is `single`, they must share at least `KNOWN_SINGLE * FEWEST_SINGLE` hashes, and at least the fraction
        `KNOWN_SINGLE` of the smaller sample. Only the hashes below both bounds are compared.
        """
        single = self.single or other.single
        known, fewest = (KNOWN_SINGLE, KNOWN_SINGLE * FEWEST_SINGLE) if single else (KNOWN, FEWEST)
        bound = min(self.bound, other.bound)
        left, right = self.below(bound).hashes, other.below(bound).hashes
        common = len(np.intersect1d(left, right, assume_unique=True))
        return common >= fewest and common >= known * min(len(left), len(right))


@dataclass(frozen=True, eq=False, repr=False)
class Sketch:
    """Samples of keyed hashes of a table, by which the same rows are recognised.

    `rows` has samples of whole rows: "" of all columns, "by place" with columns by position instead of name, and one
    without each column or group of columns. `columns` has samples of the values of each column by its name. `digests`
    has for each column the sum of the hashes of all its values modulo 2^64. In a `finished` sketch numbers (as text)
    replace all these names.
    """

    rows: Mapping[str, Sample] = field(default_factory=dict)
    columns: Mapping[str, Sample] = field(default_factory=dict)
    digests: Mapping[str, int] = field(default_factory=dict)

    def merge(self, other: Sketch) -> Sketch:
        """Return the sketch of the rows of both."""
        names = {*self.digests, *other.digests}
        digests = {name: (self.digests.get(name, 0) + other.digests.get(name, 0)) % 2**64 for name in names}
        return Sketch(_merged(self.rows, other.rows), _merged(self.columns, other.columns), digests)

    def beside(self, other: Sketch) -> Sketch:
        """Return one sketch with the samples of both, which are of the same rows in two forms: array and table."""
        return Sketch(
            {**self.rows, **{f"other {name}": sample for name, sample in other.rows.items()}},
            {**self.columns, **{f"other {name}": sample for name, sample in other.columns.items()}},
            {**self.digests, **{f"other {name}": digest for name, digest in other.digests.items()}},
        )

    def finished(self) -> Sketch:
        """Return the sketch with only what identifies a table, and with numbers in place of names.

        Of `rows`, it keeps the samples or hashes that distinguish rows (`telling`). Of `columns`, it keeps at most
        `MOST_COLUMNS` different samples that distinguish rows. It keeps a digest only if some values occur more often
        than others.
        """
        rows = [told for sample in self.rows.values() if (told := sample.telling()) is not None]
        columns = {sample.hashes.tobytes(): sample for sample in self.columns.values() if sample.tells_rows_apart}
        kept = sorted(columns.values(), key=lambda sample: int(sample.hashes[0]))[:MOST_COLUMNS]
        digests = [self.digests[name] for name, sample in self.columns.items() if sample.has_uneven_counts]
        return Sketch(_numbered(rows), _numbered(kept), {str(at): digest for at, digest in enumerate(digests)})

    def resembles(self, other: Sketch) -> bool:
        """Return whether the two finished sketches are probably of tables that share rows.

        At least half the rows of the smaller table are then probably in the larger one, which may be much larger.

        One of three is enough: an equal digest of one column, two samples of rows that share most of their hashes, or
        `COLUMNS` columns whose values are mostly the same.
        """
        if {*self.digests.values()} & {*other.digests.values()} or any(True for _ in _matches(self.rows, other.rows)):
            return True
        matches = list(_matches(self.columns, other.columns))
        return min(len({left for left, _ in matches}), len({right for _, right in matches})) >= COLUMNS

    def to_bytes(self) -> bytes:
        """Return a finished sketch as the content of a file."""
        samples = [*self.rows.values(), *self.columns.values()]
        file = io.BytesIO()
        np.savez(
            file,
            rows=np.array(len(self.rows)),
            bounds=np.array([sample.bound for sample in samples], dtype=np.uint64),
            lengths=np.array([len(sample.hashes) for sample in samples], dtype=np.int64),
            single=np.array([sample.single for sample in samples], dtype=bool),
            hashes=np.concatenate([np.zeros(0, np.uint64), *(sample.hashes for sample in samples)]),
            digests=np.array([*self.digests.values()], dtype=np.uint64),
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Sketch:
        """Return the finished sketch that `to_bytes` wrote as `content`; raise `ValueError` if it is damaged.

        `to_bytes` does not store the counts of samples; here they are all 1.
        """
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                bounds, lengths, hashes, rows = (file[name] for name in ("bounds", "lengths", "hashes", "rows"))
                digests = {str(at): int(digest) for at, digest in enumerate(file["digests"])}
                # Files of earlier versions hold only samples that count as a whole.
                single = file["single"] if "single" in file.files else np.zeros(len(bounds), dtype=bool)
            parts = np.split(hashes.astype(np.uint64), np.cumsum(lengths)[:-1]) if len(lengths) else []
            samples = [
                Sample(int(bound), part, np.ones(len(part), np.int64), bool(alone))
                for bound, part, alone in zip(bounds, parts, single, strict=True)
            ]
        except Exception as problem:
            raise ValueError(f"not a sketch: {type(problem).__name__}") from None
        return cls(_numbered(samples[: int(rows)]), _numbered(samples[int(rows) :]), digests)


def hashes_and_sketch(raw: Raw, key: bytes, *, running: frozenset[str] | None = None) -> tuple[np.ndarray, Sketch]:
    """Return the keyed hash of each row, as `row_hashes` does, and the sketch of the rows.

    Parameters
    ----------
    raw : Raw
        The rows, or some of them.
    key : bytes
        The secret key of the data's owner.
    running : frozenset of str, optional
        The columns of running numbers, which count for the hashes but are left out of the sketch; by default they are
        found from these rows.

    Returns
    -------
    hashes : ndarray of uint64
        One hash for each row.
    sketch : Sketch
        The sketch of these rows, to be merged with others or finished.
    """
    running = running_columns(raw, len(raw)) if running is None else running
    if raw.frame is None:
        return cells_sketch(list(named_cells(raw, key)), key)
    hashes, sketch = [np.zeros(0, np.uint64)], Sketch()
    width = len(raw.frame.columns)
    step = min(max(CELLS // max(width, 1), 1024), 2**16)
    for at in range(0, len(raw), step):
        images = None if raw.images is None else raw.images[at : at + step]
        part = named_cells(Raw(frame=raw.frame.iloc[at : at + step], images=images, image=raw.image), key)
        of_part, samples = _part(part, key, running, one_by_one=width <= MOST_GROUPS)
        hashes.append(of_part)
        sketch = sketch.merge(samples)
    return np.concatenate(hashes), sketch


def cells_sketch(cells: list[tuple[str, np.ndarray, np.ndarray]], key: bytes) -> tuple[np.ndarray, Sketch]:
    """Return the keyed hash and the sketch of rows whose cells are hashed already, such as images and labels.

    Parameters
    ----------
    cells : list
        The tuples that `array_cells` yields: the name of a column, a uint64 number for each row that stands for its
        value, and these numbers mixed with the name.
    key : bytes
        The secret key of the data's owner.

    Returns
    -------
    hashes : ndarray of uint64
        One hash for each row.
    sketch : Sketch
        The sketch of these rows.
    """
    return _part(cells, key, frozenset(), one_by_one=True)


def running_columns(raw: Raw, rows: int) -> frozenset[str]:
    """Return the names of the columns of running numbers or days: no repeated values and few gaps.

    `raw` holds the table, or its first rows; only the first `HEAD` rows are looked at. Their values must be integers or
    days, and their range must be below `RANGE * rows`, where `rows` is the number of rows of the table. A column with
    fewer than `FEWEST` values is not returned. For images the result is empty.
    """
    if raw.frame is None:
        return frozenset()
    head = raw.frame.head(HEAD)
    return frozenset(str(name) for name in head.columns if _is_running(head[name], rows))


def _is_running(values: pd.Series, rows: int) -> bool:
    numbers = _ordinals(values)
    if numbers is None or len(numbers) < FEWEST or not np.isfinite(numbers).all():
        return False
    if (numbers != np.floor(numbers)).any() or numbers.max() / 2 - numbers.min() / 2 >= RANGE * rows / 2:
        return False
    return len(np.unique(numbers)) == len(numbers)


def _ordinals(values: pd.Series) -> np.ndarray | None:
    """Return the values that are not missing as numbers, or dates as whole days since 1970; None if they are
    neither."""
    import pandas as pd

    present = values.dropna()
    if present.dtype.kind in "iuf":
        return present.to_numpy(dtype=float)
    if present.empty or present.dtype.kind in "bc":
        return None
    if present.dtype.kind != "M" and not ISO_DATE(str(present.iloc[0])):
        try:
            numbers = numbers_of(present)[0]
        except (WrongInput, TypeError, ValueError):
            return None
        return numbers if np.isfinite(numbers).all() else None
    days = pd.to_datetime(present.astype(str), errors="coerce", format="ISO8601", utc=True)
    return None if days.isna().any() else days.dt.as_unit("s").astype("int64").to_numpy() // 86400 * 1.0


def _part(
    cells: Iterable[tuple[str, np.ndarray, np.ndarray]], key: bytes, running: frozenset[str], *, one_by_one: bool
) -> tuple[np.ndarray, Sketch]:
    """Return the hashes of the rows of one part of a table, and the sketch of these rows.

    `cells` are tuples as `named_cells` yields them. If `one_by_one`, there is a sample of rows without each single
    column, otherwise without each of at most `MOST_GROUPS` groups of columns. Columns in `running` count only for the
    hashes.
    """
    hashes = values = np.zeros(1, np.uint64)
    groups: dict[str, np.ndarray] = {}
    columns: dict[str, Sample] = {}
    digests: dict[str, int] = {}
    for name, unnamed, named in cells:
        hashes = hashes + named
        if name in running:
            continue
        group = name if one_by_one else str(blake2b(name.encode(), digest_size=1).digest()[0] % MOST_GROUPS)
        groups[group] = groups[group] + named if group in groups else named
        tokens = mixed(unnamed, "value", key)
        columns[name] = Sample.of(tokens)
        digests[name] = int(tokens.sum(dtype=np.uint64))
        tokens *= np.uint64(2 * len(columns) + 1)  # the position of the column replaces its name
        values = values + tokens
    if not groups:
        return mixed(hashes, "row", key), Sketch()
    total = np.asarray(np.sum(list(groups.values()), axis=0, dtype=np.uint64))
    rows = {"": Sample.of(total), "by place": Sample.of(values)}
    if len(groups) > 1:
        rows |= {f"without {group}": Sample.of(total - tokens) for group, tokens in groups.items()}
    return mixed(hashes, "row", key), Sketch(rows, columns, digests)


def _matches(left: Mapping[str, Sample], right: Mapping[str, Sample]) -> Iterator[tuple[str, str]]:
    """Yield the names of a sample of `left` and a sample of `right`, for each such pair that `known_in` recognises."""
    names, others = list(left), list(right)
    if not names or not others:
        return
    ours, theirs = _pooled(left.values()), _pooled(right.values())
    order = np.argsort(ours[0], kind="stable")
    position = np.minimum(np.searchsorted(ours[0], theirs[0], sorter=order), len(order) - 1)
    found = ours[0][order[position]] == theirs[0]
    pairs = np.stack([ours[1][order[position[found]]], theirs[1][found]], axis=1)
    for (one, two), common in zip(*np.unique(pairs, axis=0, return_counts=True), strict=True):
        if common >= FEWEST and left[names[one]].known_in(right[others[two]]):
            yield names[one], others[two]


def _pooled(samples: Iterable[Sample]) -> tuple[np.ndarray, np.ndarray]:
    """Return the hashes of all samples, joined, and for each hash the number (from 0) of its sample."""
    listed = [sample.hashes for sample in samples]
    return np.concatenate(listed), np.repeat(np.arange(len(listed)), [len(hashes) for hashes in listed])


def _merged(left: Mapping[str, Sample], right: Mapping[str, Sample]) -> dict[str, Sample]:
    both = {name: sample.merge(right[name]) for name, sample in left.items() if name in right}
    return {**left, **right, **both}


def _numbered(samples: Iterable[Sample]) -> dict[str, Sample]:
    return {str(at): sample for at, sample in enumerate(samples)}
