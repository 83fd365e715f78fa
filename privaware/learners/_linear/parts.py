"""Clipped gradients of a linear model on a table whose rows are stored in parts.

A part is stored as the nonzero entries of its one-hot rows, which are made dense a block at a time. The exact sums of
`_linear/gradient.py` are merged over parts, so they equal, bit for bit, the sums over all rows in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privaware.data import Data, Parts, Rows, Sum, first_positions
from privaware.exact_sums import Total, clip_rows
from privaware.features.onehot import OneHot
from privaware.learners._fixed_features import rows_of
from privaware.learners._linear.gradient import ROWS, LinearGradient, Totals
from privaware.model import scaled
from privaware.noise import PositionDraws, Rng

ROWS_PER_BLOCK = 2**14
"""Number of rows that are stored with all entries, zeros included, at a time."""


class SparseRows:
    """The rows of one part of a table, stored by the nonzero entries of their one-hot features.

    Row i has the entries `steps[ends[i] : ends[i + 1]]`, as integer multiples of 2^-12 (`ROWS`), in the columns
    `columns[ends[i] : ends[i + 1]]`. `targets` are class codes, or numbers in [-1, 1]. `known` caches, for each block
    of rows and settings of a gradient, tensors that do not change from step to step.
    """

    def __init__(self, feature: OneHot, data: Data) -> None:
        schema, blocks = data.schema, range(0, max(len(data), 1), ROWS_PER_BLOCK)
        dense = (
            clip_rows(rows_of(data.take(slice(at, at + ROWS_PER_BLOCK)), feature), 1.0, ROWS, np.float32)
            for at in blocks
        )
        steps, columns, counts = zip(*map(_sparse, dense), strict=True)
        self.steps, self.columns = np.concatenate(steps), np.concatenate(columns)
        self.ends = np.append(0, np.cumsum(np.concatenate(counts)))
        self.width = feature.width(schema)
        targets = data.y if schema.classes else np.nan_to_num(scaled(data.y, schema)).astype(np.float32)
        self.targets = targets.astype(np.min_scalar_type(len(schema.classes))) if schema.classes else targets
        self.begin = data.begin
        self.known: dict[tuple[Any, ...], dict[str, Tensor]] = {}

    def __len__(self) -> int:
        return len(self.targets)

    def __repr__(self) -> str:
        return "SparseRows(rows private)"

    def dense(self, at: int) -> np.ndarray:
        """Return up to `ROWS_PER_BLOCK` rows, beginning with row `at`, as a dense float32 array (rows, width)."""
        ends = self.ends[at : at + ROWS_PER_BLOCK + 1]
        rows = np.zeros((len(ends) - 1, self.width), np.float32)
        inside = slice(ends[0], ends[-1])
        places = np.repeat(np.arange(len(rows)) * self.width, np.diff(ends)) + self.columns[inside]
        rows.reshape(-1)[places] = self.steps[inside] * np.float32(ROWS.step)
        return rows


def _sparse(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the nonzero entries of the array `rows`, their column numbers, and the number of them in each row.

    Entries are integer multiples of 2^-12 (`ROWS.step`), row by row.
    """
    places = np.nonzero(rows)
    steps = np.rint(rows[places] * (1 / ROWS.step)).astype(np.int16)
    return steps, places[1].astype(np.min_scalar_type(rows.shape[1])), np.count_nonzero(rows, axis=1)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A Poisson sample of the rows at sampling rate `rate`, with one random draw for the position of each row.

    `firsts` maps the identifier `begin` of a part to the position, among all rows, of the part's first row.
    """

    draws: PositionDraws
    rate: float
    firsts: dict[int, int]

    def sample(self, part: SparseRows) -> np.ndarray:
        """Return a Boolean mask of the sampled rows of `part`.

        The draw for a row depends on its position among all rows.
        """
        assert part.begin is not None  # `first_positions` raises for parts without `begin`
        return self.draws.sample(self.firsts[part.begin], len(part), self.rate)


@dataclass(frozen=True, kw_only=True)
class ClippedSums(Sum[SparseRows, Totals, Tensor]):
    """The sum of the gradients of rows at `weights`, each clipped to `norm`.

    The sum is over the rows in the sample `batch`, or over all rows if `batch` is None. `classes` is the number of
    classes (0 in a regression), and `constant` the number appended to every row. One row changes the sum by at most
    `norm`. The learner adds the noise, so there is no `release`.
    """

    weights: Tensor
    classes: int
    constant: float
    norm: float
    batch: Batch | None = None

    def partial(self, part: SparseRows) -> Totals:
        sampled = None if self.batch is None else self.batch.sample(part)
        totals = Total(), Total()
        for at in range(0, max(len(part), 1), ROWS_PER_BLOCK):
            chosen = None if sampled is None else torch.from_numpy(np.flatnonzero(sampled[at : at + ROWS_PER_BLOCK]))
            totals = self.merge(totals, self.gradient(part, at).totals(self.weights, chosen))
        return totals

    def gradient(self, part: SparseRows, at: int) -> LinearGradient:
        """Return the `LinearGradient` of up to `ROWS_PER_BLOCK` rows of `part`, beginning with row `at`."""
        targets = part.targets[at : at + ROWS_PER_BLOCK].astype(np.int64 if self.classes else np.float32)
        known = part.known.setdefault((at, self.classes, self.constant, self.norm), {})
        rows = torch.from_numpy(part.dense(at))
        return LinearGradient(
            rows=rows,
            targets=torch.from_numpy(targets),
            classes=self.classes,
            constant=self.constant,
            norm=self.norm,
            known=known,
        )


@dataclass(frozen=True, kw_only=True)
class Gains(Sum[SparseRows, Total, Tensor]):
    """The exact sums of `LinearGradient.gains`: how much better a regression predicts than the constant `mean`.

    `at` provides the weights and settings; its batch is ignored, so the sums are over all rows. The learner adds the
    noise, so there is no `release`.
    """

    at: ClippedSums
    mean: float

    def partial(self, part: SparseRows) -> Total:
        total = Total()
        for start in range(0, max(len(part), 1), ROWS_PER_BLOCK):
            total.merge(self.at.gradient(part, start).gains(self.at.weights, self.mean))
        return total


class PartsGradient:
    """Clipped gradient sums of a linear model over rows in parts, with the methods of `LinearGradient`.

    `data` holds the parts, and `feature` encodes their rows. `constant` is the number appended to every row, and `norm`
    the clipping norm. The attribute `rows` is an empty tensor (0, width).
    """

    def __init__(self, data: Rows, feature: OneHot, *, constant: float, norm: float) -> None:
        self._parts: Parts[SparseRows] = data.parts.held(partial(SparseRows, feature))
        self._settings: dict[str, Any] = {"classes": len(data.schema.classes), "constant": constant, "norm": norm}
        self.rows = torch.zeros((0, feature.width(data.schema)))
        self._firsts: dict[int, int] | None = None

    def batch(self, rate: float, rng: Rng) -> Batch | None:
        """Return the Poisson sample of one step at sampling rate `rate`; None if `rate` is 1.

        None stands for all rows. Whether a row is sampled does not depend on how rows are split into parts.
        """
        if rate == 1:
            return None
        if self._firsts is None:
            self._firsts = first_positions(self._parts)
        return Batch(draws=rng.by_position(), rate=rate, firsts=self._firsts)

    def clipped_sum(self, weights: Tensor, batch: Batch | None = None) -> Tensor:
        """Return the exact sum of clipped gradients (outputs, width + 1) at `weights`, over all rows or `batch`."""
        totals = self._parts.total(ClippedSums(weights=weights, batch=batch, **self._settings))
        none = torch.zeros(0)
        return LinearGradient(rows=self.rows, targets=none, **self._settings).combined(totals)

    def gains(self, weights: Tensor, mean: float) -> Total:
        """Return two exact sums over all rows, as one `Total`: the gains of a regression over `mean`, then the targets.

        `LinearGradient.gains` defines the gain of a row. `weights` are (1, width + 1), and `mean` is a constant
        prediction.
        """
        return self._parts.total(Gains(at=ClippedSums(weights=weights, **self._settings), mean=mean))
