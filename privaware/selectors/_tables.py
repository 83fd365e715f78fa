"""Code that the selectors share: columns as slots, and noisy two-way tables of all pairs from one release.

A slot of a column is a declared category, a public bin, or an equal bin between declared bounds; missing and unseen
values share one more slot if the schema has them as a category. A row sets at most one slot of each column, and one
slot of the target. The release contains independent parts from which the tables follow, not the tables themselves. Let
e_i be the one-hot block of column i with K_i slots, and P = I - 11'/K_i, so that P e_i is e_i minus its mean. The table
of columns i and j follows from the declared number of rows, from sum P e_i and sum P e_j, and from sum (P e_i)(P e_j)'.
A row has |P e_i|^2 = 1 - 1/K_i, or 0 if no slot is set. With L the number of slots of the target, one row added or
removed changes, in L2 norm,

    all single parts together by at most        sqrt(sum_i  (1 - 1/K_i)),
    all tables with the target by at most       sqrt(sum_i  (1 - 1/K_i)(1 - 1/L)),
    all tables of two columns by at most        sqrt(sum_i<j (1 - 1/K_i)(1 - 1/K_j)),

because |uv'|_F = |u||v|. Each family is divided by its bound and multiplied by the square root of its share of the
budget. Shares add up to 1, so one row changes the whole vector by at most 1, and the vector is one Gaussian release.

The bound holds in floating-point arithmetic. Counts, and counts times K_i K_j minus their means, are integers without
error. A conversion and a product with a public number follow, each with an error of at most 2^-53 of an entry, which is
2^-53 n of the bound for n rows. On two neighbouring data sets this is 2^-51 n, and the bounds are taken larger by
`MARGIN`, which covers 2^32 rows.

Algorithm 3 of Bao et al. adds noise to the entropies instead. With h the binary entropy, one entropy changes by up to
h(1/n) when a row is replaced, and all m (m + 1) / 2 entropies change at once. On small data noise of that size exceeds
the entropies themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from privaware.data import Data, Rows, Sum
from privaware.errors import WrongInput
from privaware.exact_sums import MARGIN
from privaware.features.onehot import OneHot
from privaware.noise import Rng
from privaware.schema import Schema

MAX_ONE_HOT_ENTRIES = 1 << 22
"""Largest number of entries of a block of one-hot rows, unless a single row has more."""

MIN_ENTROPY = 1e-3
"""Sum of the entropies of two columns, in bits, up to which their symmetrical uncertainty counts as 0."""

BUDGET_SHARES = {"single": 0.125, "target": 0.5, "pair": 0.375}
"""Fractions of the budget by family (single parts, tables with the target, tables of two columns).

Tables with the target get the most, because they decide most about a column.
"""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Noisy counts of a table in one-hot form; `single` and `joint` have mean 0 over the slots of each column.

    A slot is a possible value of a column (a category or bin), so a one-hot row has one entry for each slot. `slots` is
    the number of slots of each column, the target last. `single` (slots,) is the noisy sum of the one-hot rows. `joint`
    (slots, slots) has the noisy two-way counts of each pair of different columns. `rows` is the declared number of
    rows. `noise` (columns + 1, columns + 1) is the standard deviation of the noise of an entry in the table of each
    pair, before centring.
    """

    slots: tuple[int, ...]
    rows: int
    single: np.ndarray
    joint: np.ndarray
    noise: np.ndarray


def slots(schema: Schema, bins: int) -> tuple[int, ...]:
    """Return the number of slots (possible values, as one-hot entries) of each column, and last of the target.

    A column has one more slot if the schema has missing or unseen values as a category. `bins` is the number of bins
    for numbers without declared bins, and for a regression target. Raise `WrongInput` unless `schema` is a table with
    columns.
    """
    expect_table(schema)
    encode = OneHot(bins=bins)
    return (*(encode.width(Schema(columns=(column,))) for column in schema.used), len(schema.classes) or bins)


def owners(schema: Schema, bins: int) -> np.ndarray:
    """Return, for each entry of a one-hot row without target, the index of its column in `schema.used`.

    `bins` is the number of bins for numbers without declared bins; with 0 such a number has one entry.
    """
    return np.repeat(np.arange(len(schema.used)), slots(schema, bins)[:-1])


def expect_table(schema: Schema) -> None:
    """Raise `WrongInput` unless `schema` is a table with columns to choose from, none of them whole texts or images."""
    if schema.form != "table" or not schema.used:
        raise WrongInput(
            f"expected a table with columns to choose from, got a schema of form {schema.form!r} "
            f"with {len(schema.used)} columns"
        )
    if whole := next((column for column in schema.declared if column.is_whole), None):
        way = "leave slots = 0 out, so that its words are counted in hash buckets, or " if whole.is_whole_text else ""
        raise WrongInput(
            f"expected numbers, categories, dates and hashed texts to choose columns from, got whole {whole.kind}s in "
            f'{whole.name!r:.80}; {way}declare this column as kind = "ignore"'
        )


def blocks(data: Data, bins: int) -> Iterator[np.ndarray]:
    """Yield one-hot rows (rows, entries of all columns and of the target), a block of rows at a time.

    `bins` is the number of bins for numbers without declared bins, and for a regression target.
    """
    sizes = slots(data.schema, bins)
    encode = OneHot(bins=bins, norm=math.sqrt(len(sizes) - 1))
    step = max(1, MAX_ONE_HOT_ENTRIES // sum(sizes))
    for at in range(0, len(data), step):
        part = data.take(np.arange(at, min(at + step, len(data))))
        target = np.zeros((len(part), sizes[-1]), np.float32)
        target[np.arange(len(part)), _target(part, sizes[-1])] = 1.0
        yield np.concatenate([np.rint(encode(part.x, part.schema)), target], axis=1)


def _target(data: Data, size: int) -> np.ndarray:
    """Return the index of each row's target: its class, or one of `size` equal bins of the declared range.

    A target outside the range is in the nearest bin, a missing one in the first. Raise `WrongInput` if a regression has
    no declared range.
    """
    if data.schema.classes:
        return np.clip(data.y, 0, size - 1).astype(np.int64)
    low, high = data.schema.low, data.schema.high
    if low is None or high is None:
        raise WrongInput(f"expected low and high of the target {data.schema.target!r} in the schema, got neither")
    share = np.nan_to_num((data.y - low) / (high - low))
    return np.clip(share * size, 0, size - 1).astype(np.int64)


def release(data: Rows, bins: int, noise: float, rng: Rng) -> Tables:
    """Return the noisy two-way tables of all pairs of columns, and of columns with the target.

    They are one Gaussian release at noise multiplier `noise` and sensitivity 1. `bins` is the number of bins for
    numbers without declared bins, and for a regression target.
    """
    counts = TwoWayCounts(schema=data.schema, bins=bins)
    return counts.release(data.parts.total(counts), noise, rng)


@dataclass(frozen=True, kw_only=True)
class TwoWayCounts(Sum[Data, np.ndarray, Tables]):
    """All two-way tables of columns and target as one integer matrix: `one_hot.T @ one_hot` for the one-hot rows.

    The release is `Tables`, with Gaussian noise. `bins` is the number of bins for numbers without declared bins, and
    for a regression target.
    """

    schema: Schema
    bins: int

    def partial(self, part: Data) -> np.ndarray:
        exact = np.zeros((sum(slots(self.schema, self.bins)),) * 2, dtype=np.int64)
        for block in blocks(part, self.bins):
            exact += (block.T @ block).astype(np.int64)  # counts are below 2^24, so float32 is exact
        return exact

    def release(self, total: np.ndarray, noise: float, rng: Rng) -> Tables:
        return _noisy_tables(total, self.schema.rows, slots(self.schema, self.bins), noise, rng)


def _noisy_tables(exact_counts: np.ndarray, rows: int, sizes: tuple[int, ...], noise: float, rng: Rng) -> Tables:
    """Return the noisy tables from the exact two-way counts, a matrix over the one-hot entries of columns and target.

    `rows` is the declared number of rows, `sizes` the number of entries of each column (the target last), and `noise`
    the noise multiplier.
    """
    families = _families(sizes)
    exact_single = _centred_multiples(np.diagonal(exact_counts), sizes, 0)
    exact_joint = _centred_multiples(_centred_multiples(exact_counts, sizes, 0), sizes, 1)
    weights = _spread(1 / np.array(sizes), sizes, 0)
    exact_parts = {"single": exact_single * (weights / families["single"].unit)}
    for name, family in families.items():
        if name != "single":
            exact_parts[name] = (exact_joint * (np.outer(weights, weights) / family.unit))[family.mask]
    exact = np.concatenate([exact_parts[name] for name in families])
    noisy = rng.gaussian(exact, noise=noise, sensitivity=1.0)
    ends = np.cumsum([len(exact_parts[name]) for name in families])[:-1]
    parts = dict(zip(families, np.split(noisy, ends), strict=True))
    joint = np.zeros(exact_joint.shape)
    spread = np.zeros((len(sizes), len(sizes)))
    for name, family in families.items():
        if name != "single":
            joint[family.mask] = parts[name] * family.unit
            spread[family.pairs] = noise * family.unit
    joint, spread = joint + joint.T, spread + spread.T
    return Tables(
        slots=sizes,
        rows=rows,
        single=_centred(parts["single"] * families["single"].unit, sizes, 0),
        joint=_centred(_centred(joint, sizes, 0), sizes, 1),
        noise=spread,
    )


@dataclass(frozen=True, kw_only=True)
class _Family:
    """A group of tables that share one sensitivity bound and one part of the budget.

    `pairs` is a mask (columns + 1, columns + 1) of the pairs of columns whose tables belong to it. `mask` is the same
    mask over the entries of the joint counts. Entries are divided by `unit` before noise is added, and multiplied by it
    afterwards.
    """

    pairs: np.ndarray
    mask: np.ndarray
    unit: float


def _families(sizes: tuple[int, ...]) -> dict[str, _Family]:
    """Return the families "single" (counts of one column), "target" (tables with the target) and "pair" (other tables).

    Each family gets its part of `BUDGET_SHARES`. `sizes` are the numbers of one-hot entries of the columns, the target
    last. "target" or "pair" is left out if all its tables are constant; the other families then share its part of the
    budget.
    """
    squares = 1 - 1 / np.array(sizes)  # squared norms of centred one-hot blocks
    upper = np.triu(np.ones((len(sizes),) * 2, dtype=bool), 1)
    with_target = upper & (np.arange(len(sizes)) == len(sizes) - 1)
    chosen = {"single": np.zeros_like(upper), "target": with_target, "pair": upper & ~with_target}
    bounds = {name: float((np.outer(squares, squares)[of]).sum()) for name, of in chosen.items()}
    bounds["single"] = float(squares.sum())
    names = [name for name, bound in bounds.items() if bound > 0 or name == "single"]
    total = sum(BUDGET_SHARES[name] for name in names)
    families = {}
    for name in names:
        mask = np.repeat(np.repeat(chosen[name], sizes, axis=0), sizes, axis=1)
        unit = math.sqrt(max(bounds[name], 1e-12) * total / BUDGET_SHARES[name]) / (1 - MARGIN)
        families[name] = _Family(pairs=chosen[name], mask=mask, unit=unit)
    return families


def column_sums(values: np.ndarray, sizes: tuple[int, ...], axis: int) -> np.ndarray:
    """Return the sums of `values` over the one-hot entries of each column, along `axis`.

    `sizes` has the number of entries of each column; in the result `axis` has one entry for each column.
    """
    return np.asarray(np.add.reduceat(values, np.concatenate([[0], np.cumsum(sizes)[:-1]]), axis=axis))


def _spread(values: np.ndarray, sizes: tuple[int, ...], axis: int) -> np.ndarray:
    """Return `values` with the entry of each column repeated for its one-hot entries, along `axis`.

    `sizes` has the number of one-hot entries of each column.
    """
    return np.repeat(values, sizes, axis=axis)


def _centred(values: np.ndarray, sizes: tuple[int, ...], axis: int) -> np.ndarray:
    """Return `values` minus, along `axis`, the mean over the one-hot entries of each column.

    `sizes` has the number of entries of each column.
    """
    shape = [1] * values.ndim
    shape[axis] = len(sizes)
    means = column_sums(values, sizes, axis) / np.array(sizes).reshape(shape)
    return values - _spread(means, sizes, axis)


def _centred_multiples(counts: np.ndarray, sizes: tuple[int, ...], axis: int) -> np.ndarray:
    """Return integer `counts`, centred along `axis` and multiplied by the number of one-hot entries of each column.

    This is `_centred(counts, sizes, axis)` times these numbers, which are `sizes`; the result is exact.
    """
    shape = [1] * counts.ndim
    shape[axis] = sum(sizes)
    times = _spread(np.array(sizes, dtype=np.int64), sizes, 0).reshape(shape)
    return counts * times - _spread(column_sums(counts, sizes, axis), sizes, axis)


def uncertainties(tables: Tables) -> np.ndarray:
    """Return the symmetrical uncertainty `2 * (1 - H(a, b) / (H(a) + H(b)))` of all pairs of columns, the target last.

    H is the entropy in bits. The result is in [0, 1], has shape (columns + 1, columns + 1) and is post-processing of a
    release; its diagonal has no meaning. A pair with `H(a) + H(b)` of at most `MIN_ENTROPY` gets 0. The deviation of a
    table from independence is shrunk by the fraction that the known noise explains (the James-Stein rule), so noise
    alone does not look like dependence.
    """
    sizes = tables.slots
    wide = np.array(sizes, dtype=float)
    marginal = np.maximum(tables.single / tables.rows + _spread(1 / wide, sizes, 0), 0.0)
    marginal = marginal / _spread(np.maximum(column_sums(marginal, sizes, 0), 1e-300), sizes, 0)
    around = marginal - _spread(1 / wide, sizes, 0)
    beyond = tables.joint / tables.rows - np.outer(around, around)
    energy = column_sums(column_sums(beyond**2, sizes, 0), sizes, 1)
    expected = np.outer(wide - 1, wide - 1) * (tables.noise / tables.rows) ** 2
    shrinkage = np.maximum(1 - expected / np.maximum(energy, 1e-300), 0.0)
    table = np.outer(marginal, marginal) + _spread(_spread(shrinkage, sizes, 0), sizes, 1) * beyond
    table = np.maximum(table, 0.0)
    total = column_sums(column_sums(table, sizes, 0), sizes, 1)
    table = table / _spread(_spread(np.maximum(total, 1e-300), sizes, 0), sizes, 1)
    joint = column_sums(column_sums(_bits(table), sizes, 0), sizes, 1)
    alone = column_sums(_bits(column_sums(table, sizes, 1)), sizes, 0)
    both = alone + alone.T
    shared = np.where(both > MIN_ENTROPY, 2 * (1 - joint / np.maximum(both, MIN_ENTROPY)), 0.0)
    return np.asarray(np.clip(shared, 0.0, 1.0))


def _bits(share: np.ndarray) -> np.ndarray:
    """Return `-p * log2(p)` for each probability p in `share`; 0 for a probability of 0."""
    return np.asarray(-share * np.log2(np.where(share > 0, share, 1.0)))


def chosen(schema: Schema, mask: np.ndarray) -> tuple[str, ...]:
    """Return the names of the columns in `mask`, a boolean array over `schema.used`, in the schema's order."""
    return tuple(column.name for column, selected in zip(schema.used, mask, strict=True) if selected)


def limit(columns: int | None, schema: Schema) -> int:
    """Return how many columns may be selected: `columns`, or all columns if it is None or larger than their number."""
    return len(schema.used) if columns is None else min(columns, len(schema.used))
