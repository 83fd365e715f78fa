"""What the selectors share: columns as slots, and noisy two-way tables of all pairs from one release.

A row is one slot of each column (declared categories, public bins, or equal bins between declared
bounds; missing and unseen values have theirs) and one of the target. What is released is not the
tables but their independent parts. With e the one-hot block of a column of K slots and P = I - 11'/K,
the table of columns i and j follows from the declared number of rows, from sum P e_i and sum P e_j,
and from sum (P e_i)(P e_j)'. A row has |P e_i|^2 = 1 - 1/K_i, or 0 where no slot is set, so one row
added or removed moves

    all single parts together by at most        sqrt(sum_i  (1 - 1/K_i)),
    all tables with the target by at most       sqrt(sum_i  (1 - 1/K_i)(1 - 1/L)),
    all tables of two columns by at most        sqrt(sum_i<j (1 - 1/K_i)(1 - 1/K_j)),

in L2 distance, because |uv'|_F = |u||v|. Each family is divided by its bound and multiplied by the
root of its share; shares add to 1, so the vector moves by at most 1, and is released by one
Gaussian call. That holds for the numbers as computed: counts, and counts times K_i K_j less their means,
are whole numbers without error; a conversion and a product with a public number follow, each off by at most 2^-53
of an entry, so by 2^-53 n of the bound for n rows. On both of two neighbours that is 2^-51 n, and the bounds are
taken `MARGIN` larger, which covers 2^32 rows.

Why not noise on the entropies, as the paper proposes: one entropy moves by up to h(1/n) when a row
is replaced, all m(m+1)/2 of them at once, and noise of that size exceeds the entropies themselves
on small data (2.6 bits for 43 columns of 191 rows at epsilon 2.31, where an entropy is at most 1
bit). The same budget gives a table with the target an error of about 4 rows in 191.
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

CELLS = 1 << 22
"""Entries of one-hot rows in memory."""

CONSTANT = 1e-3
"""Bits: two columns with less entropy than this count as constant."""

SHARES = {"single": 0.125, "target": 0.5, "pair": 0.375}
"""Of the budget: the tables with the target decide most about a column, so they get the most."""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Noisy counts around the uniform distribution: `single` (slots,), `joint` (slots, slots), and their noise.

    `noise` is the standard deviation of one entry for each pair of columns, the target last.
    """

    slots: tuple[int, ...]
    rows: int
    single: np.ndarray
    joint: np.ndarray
    noise: np.ndarray


def slots(schema: Schema, bins: int) -> tuple[int, ...]:
    """How many slots each column has, and at last the target."""
    expect_table(schema)
    encode = OneHot(bins=bins)
    return (*(encode.width(Schema(columns=(column,))) for column in schema.used), len(schema.classes) or bins)


def expect_table(schema: Schema) -> None:
    """Columns to choose from."""
    if schema.form != "table" or not schema.used:
        raise WrongInput(
            f"expected a table with columns to choose from, got a schema of form {schema.form!r} "
            f"with {len(schema.used)} columns"
        )


def blocks(data: Data, bins: int) -> Iterator[np.ndarray]:
    """One-hot rows over all columns and the target, some rows at a time."""
    sizes = slots(data.schema, bins)
    encode = OneHot(bins=bins, norm=math.sqrt(len(sizes) - 1))
    step = max(1, CELLS // sum(sizes))
    for at in range(0, len(data), step):
        part = data.take(np.arange(at, min(at + step, len(data))))
        target = np.zeros((len(part), sizes[-1]), np.float32)
        target[np.arange(len(part)), _target(part, sizes[-1])] = 1.0
        yield np.concatenate([np.rint(encode(part.x, part.schema)), target], axis=1)


def _target(data: Data, size: int) -> np.ndarray:
    if data.schema.classes:
        return np.clip(data.y, 0, size - 1).astype(np.int64)
    low, high = data.schema.low, data.schema.high
    if low is None or high is None:
        raise WrongInput(f"expected low and high of the target {data.schema.target!r} in the schema, got neither")
    share = np.nan_to_num((data.y - low) / (high - low))
    return np.clip(share * size, 0, size - 1).astype(np.int64)


def release(data: Rows, bins: int, noise: float, rng: Rng, *, pairs: bool = True) -> Tables:
    """The tables, from one Gaussian release of deviation `noise` over sensitivity 1."""
    counts = TwoWayCounts(schema=data.schema, bins=bins, pairs=pairs)
    return counts.release(data.parts.total(counts), noise, rng)


@dataclass(frozen=True, kw_only=True)
class TwoWayCounts(Sum[Data, np.ndarray, Tables]):
    """All two-way tables as one matrix (slots, slots) of whole numbers: a matrix product of one-hot blocks."""

    schema: Schema
    bins: int
    pairs: bool

    def partial(self, part: Data) -> np.ndarray:
        exact = np.zeros((sum(slots(self.schema, self.bins)),) * 2, dtype=np.int64)
        for block in blocks(part, self.bins):
            exact += (block.T @ block).astype(np.int64)  # at most CELLS rows: below 2^24, so float32 is exact
        return exact

    def merge(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return np.asarray(left + right)

    def release(self, total: np.ndarray, noise: float, rng: Rng) -> Tables:
        return _noisy_tables(total, self.schema, slots(self.schema, self.bins), self.pairs, noise, rng)


def _noisy_tables(
    exact_counts: np.ndarray, schema: Schema, sizes: tuple[int, ...], pairs: bool, noise: float, rng: Rng
) -> Tables:
    families = _families(sizes, pairs)
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
        rows=schema.rows,
        single=_centred(parts["single"] * families["single"].unit, sizes, 0),
        joint=_centred(_centred(joint, sizes, 0), sizes, 1),
        noise=spread,
    )


@dataclass(frozen=True, kw_only=True)
class _Family:
    """Which pairs of columns, which entries of the joint counts, and what an entry is divided by."""

    pairs: np.ndarray
    mask: np.ndarray
    unit: float


def _families(sizes: tuple[int, ...], pairs: bool) -> dict[str, _Family]:
    squares = 1 - 1 / np.array(sizes)  # squared norms of centred one-hot blocks
    last = len(sizes) - 1
    upper = np.triu(np.ones((len(sizes),) * 2, dtype=bool), 1)
    with_target = upper & (np.arange(len(sizes)) == last)
    chosen = {"single": np.zeros_like(upper), "target": with_target}
    if pairs:
        chosen["pair"] = upper & ~with_target
    bounds = {name: float((np.outer(squares, squares)[of]).sum()) for name, of in chosen.items()}
    bounds["single"] = float(squares.sum())
    names = [name for name, bound in bounds.items() if bound > 0 or name == "single"]
    total = sum(SHARES[name] for name in names)
    families = {}
    for name in names:
        mask = np.repeat(np.repeat(chosen[name], sizes, axis=0), sizes, axis=1)
        unit = math.sqrt(max(bounds[name], 1e-12) * total / SHARES[name]) / (1 - MARGIN)
        families[name] = _Family(pairs=chosen[name], mask=mask, unit=unit)
    return families


def _starts(sizes: tuple[int, ...]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]])


def _sums(values: np.ndarray, sizes: tuple[int, ...], axis: int) -> np.ndarray:
    """Sums over the slots of each column."""
    return np.asarray(np.add.reduceat(values, _starts(sizes), axis=axis))


def _spread(values: np.ndarray, sizes: tuple[int, ...], axis: int) -> np.ndarray:
    return np.repeat(values, sizes, axis=axis)


def _centred(values: np.ndarray, sizes: tuple[int, ...], axis: int) -> np.ndarray:
    """Each column's slots less their mean."""
    shape = [1] * values.ndim
    shape[axis] = len(sizes)
    means = _sums(values, sizes, axis) / np.array(sizes).reshape(shape)
    return values - _spread(means, sizes, axis)


def _centred_multiples(counts: np.ndarray, sizes: tuple[int, ...], axis: int) -> np.ndarray:
    """Each column's slots less their mean, times the number of slots: whole numbers."""
    shape = [1] * counts.ndim
    shape[axis] = sum(sizes)
    times = _spread(np.array(sizes, dtype=np.int64), sizes, 0).reshape(shape)
    return counts * times - _spread(_sums(counts, sizes, axis), sizes, axis)


def uncertainties(tables: Tables) -> np.ndarray:
    """Symmetrical uncertainty 2 (1 - H(a, b) / (H(a) + H(b))) of all pairs, the target last.

    Post-processing of a release. The deviation of a table from independence is shrunk by the share of it that the
    known noise explains (James and Stein's rule), so that noise alone does not look like dependence.
    """
    sizes = tables.slots
    wide = np.array(sizes, dtype=float)
    marginal = np.maximum(tables.single / tables.rows + _spread(1 / wide, sizes, 0), 0.0)
    marginal = marginal / _spread(np.maximum(_sums(marginal, sizes, 0), 1e-300), sizes, 0)
    around = marginal - _spread(1 / wide, sizes, 0)
    beyond = tables.joint / tables.rows - np.outer(around, around)
    energy = _sums(_sums(beyond**2, sizes, 0), sizes, 1)
    expected = np.outer(wide - 1, wide - 1) * (tables.noise / tables.rows) ** 2
    shrinkage = np.maximum(1 - expected / np.maximum(energy, 1e-300), 0.0)
    table = np.outer(marginal, marginal) + _spread(_spread(shrinkage, sizes, 0), sizes, 1) * beyond
    table = np.maximum(table, 0.0)
    total = _sums(_sums(table, sizes, 0), sizes, 1)
    table = table / _spread(_spread(np.maximum(total, 1e-300), sizes, 0), sizes, 1)
    joint = _sums(_sums(_bits(table), sizes, 0), sizes, 1)
    alone = _sums(_bits(_sums(table, sizes, 1)), sizes, 0)
    both = alone + alone.T
    shared = np.where(both > CONSTANT, 2 * (1 - joint / np.maximum(both, CONSTANT)), 0.0)
    return np.asarray(np.clip(shared, 0.0, 1.0))


def _bits(share: np.ndarray) -> np.ndarray:
    return np.asarray(-share * np.log2(np.where(share > 0, share, 1.0)))


def chosen(schema: Schema, mask: np.ndarray) -> tuple[str, ...]:
    """The names of the columns in a mask, in the schema's order."""
    return tuple(column.name for column, selected in zip(schema.used, mask, strict=True) if selected)


def limit(columns: int | None, schema: Schema) -> int:
    """How many columns may be selected: all of them unless a number is set."""
    return len(schema.used) if columns is None else min(columns, len(schema.used))
