"""Clipped gradients of a linear model on a table whose rows are in parts.

A part is held as what is not zero in its one-hot rows, and made dense some rows at a time. The exact sums of
`_linear/gradient.py` are merged over parts, so they have the bits of all rows in one memory.
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

__all__ = ["PartsGradient"]

DENSE = 2**14
"""Rows that are dense at once."""


class SparseRows:
    """Rows on the lattice `ROWS`: lattice steps that are not zero, their columns, and where each row ends."""

    def __init__(self, feature: OneHot, data: Data) -> None:
        schema, blocks = data.schema, range(0, max(len(data), 1), DENSE)
        dense = (clip_rows(rows_of(data.take(slice(at, at + DENSE)), feature), 1.0, ROWS, np.float32) for at in blocks)
        steps, columns, counts = zip(*map(_sparse, dense), strict=True)
        self.steps, self.columns = np.concatenate(steps), np.concatenate(columns)
        self.ends = np.append(0, np.cumsum(np.concatenate(counts)))
        self.width = feature.width(schema)
        targets = data.y if schema.classes else np.nan_to_num(scaled(data.y, schema)).astype(np.float32)
        self.targets = targets.astype(np.min_scalar_type(len(schema.classes))) if schema.classes else targets
        self.begin = data.begin

    def __len__(self) -> int:
        return len(self.targets)

    def __repr__(self) -> str:
        return "SparseRows(rows private)"

    def dense(self, at: int) -> np.ndarray:
        """The `DENSE` rows from `at` on, or those that are left."""
        ends = self.ends[at : at + DENSE + 1]
        rows = np.zeros((len(ends) - 1, self.width), np.float32)
        inside = slice(ends[0], ends[-1])
        places = np.repeat(np.arange(len(rows)) * self.width, np.diff(ends)) + self.columns[inside]
        rows.reshape(-1)[places] = self.steps[inside] * np.float32(ROWS.step)
        return rows


def _sparse(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lattice steps that are not zero, their columns, and how many each row has."""
    places = np.nonzero(rows)
    steps = np.rint(rows[places] * (1 / ROWS.step)).astype(np.int16)
    return steps, places[1].astype(np.min_scalar_type(rows.shape[1])), np.count_nonzero(rows, axis=1)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A Poisson sample of the rows: a draw for the position of each, whose first one in each part is in `firsts`."""

    draws: PositionDraws
    rate: float
    firsts: dict[int, int]

    def sample(self, part: SparseRows) -> np.ndarray:
        """A mask of the rows of a part."""
        assert part.begin is not None  # `first_positions` has refused others
        return self.draws.sample(self.firsts[part.begin], len(part), self.rate)


@dataclass(frozen=True, kw_only=True)
class ClippedSums(Sum[SparseRows, Totals, Tensor]):
    """Clipped gradients at `weights`; one row moves their sum by `norm` at most."""

    weights: Tensor
    classes: int
    constant: float
    norm: float
    batch: Batch | None = None

    def partial(self, part: SparseRows) -> Totals:
        sampled = None if self.batch is None else self.batch.sample(part)
        totals = Total(), Total()
        for at in range(0, max(len(part), 1), DENSE):
            chosen = None if sampled is None else torch.from_numpy(np.flatnonzero(sampled[at : at + DENSE]))
            totals = self.merge(totals, self.gradient(part, at).totals(self.weights, chosen))
        return totals

    def merge(self, left: Totals, right: Totals) -> Totals:
        return left[0].merge(right[0]), left[1].merge(right[1])

    def release(self, total: Totals, noise: float, rng: Rng) -> Tensor:
        raise NotImplementedError("the learner adds the noise of a step")

    def gradient(self, part: SparseRows, at: int) -> LinearGradient:
        """The gradient of some rows."""
        targets = part.targets[at : at + DENSE].astype(np.int64 if self.classes else np.float32)
        return LinearGradient(rows=torch.from_numpy(part.dense(at)), targets=torch.from_numpy(targets), **self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        return {"classes": self.classes, "constant": self.constant, "norm": self.norm}


@dataclass(frozen=True, kw_only=True)
class Gains(Sum[SparseRows, Total, Tensor]):
    """`LinearGradient.gains` of a regression."""

    at: ClippedSums
    mean: float

    def partial(self, part: SparseRows) -> Total:
        total = Total()
        for start in range(0, max(len(part), 1), DENSE):
            total.merge(self.at.gradient(part, start).gains(self.at.weights, self.mean))
        return total

    def merge(self, left: Total, right: Total) -> Total:
        return left.merge(right)

    def release(self, total: Total, noise: float, rng: Rng) -> Tensor:
        raise NotImplementedError("the learner adds the noise")


class PartsGradient:
    """What a `LinearGradient` is for rows in one memory; `rows` has their width and none of them."""

    def __init__(self, data: Rows, feature: OneHot, *, constant: float, norm: float) -> None:
        self._parts: Parts[SparseRows] = data.parts.held(partial(SparseRows, feature))
        self._settings: dict[str, Any] = {"classes": len(data.schema.classes), "constant": constant, "norm": norm}
        self.rows = torch.zeros((0, feature.width(data.schema)))
        self._firsts: dict[int, int] | None = None

    def batch(self, rate: float, rng: Rng) -> Batch | None:
        """The sample of a step: the one of the same rows in memory."""
        if rate == 1:
            return None
        if self._firsts is None:
            self._firsts = first_positions(self._parts)
        return Batch(draws=rng.by_position(), rate=rate, firsts=self._firsts)

    def clipped_sum(self, weights: Tensor, batch: Batch | None = None) -> Tensor:
        """The sum of clipped gradients (outputs, width + 1), of all rows or of a batch."""
        totals = self._parts.total(ClippedSums(weights=weights, batch=batch, **self._settings))
        none = torch.zeros(0)
        return LinearGradient(rows=self.rows, targets=none, **self._settings).combined(totals)

    def gains(self, weights: Tensor, mean: float) -> Total:
        """The exact sums of `LinearGradient.gains` over all rows."""
        return self._parts.total(Gains(at=ClippedSums(weights=weights, **self._settings), mean=mean))
