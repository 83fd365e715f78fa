"""What `amortised` releases in each round, and the weights of an additive model that follow from the releases.

Each round releases a sum over the rows at each level of each column. For a number column it also releases four
harmonics over all its levels: a smooth effect shows in a few sums of many rows, which have less noise than many sums of
few rows (`features/_fourier.py`). The weights of levels and harmonics are multiples of 2^-10, so weighted sums are
exact as long as the sums of levels leave ten bits of float64 unused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from privaware.exact_sums import Lattice
from privaware.features._fourier import HARMONIC_WEIGHTS, LEVEL_WEIGHT, harmonics
from privaware.learners._table_network import TableFacts, TableNetwork, first_round
from privaware.schema import Schema

LATTICE = Lattice(bound=1.0, bits=10)
"""The weights of levels and harmonics are rounded to multiples of 2^-10 in [-1, 1]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelSums:
    """The linear map from exact sums over the levels of each column to the sums that are released.

    `matrices` has, for each column, an array (levels, levels + harmonics) that maps the sums of the column's levels to
    its released sums; a category has no harmonics, and its matrix is the identity. No row of a matrix has norm above 1.
    `ordered` and `with_missing` say of each column whether it is a number, and whether its last level is for missing
    values.
    """

    matrices: tuple[np.ndarray, ...]
    ordered: tuple[bool, ...]
    with_missing: tuple[bool, ...]

    @classmethod
    def of(cls, schema: Schema, levels: tuple[int, ...]) -> LevelSums:
        """Return the map for the columns in `schema.used`.

        `levels` is the number of levels of each of these columns, the level for missing values included.
        """
        ordered = tuple(column.kind == "number" for column in schema.used)
        missing = tuple(column.missing == "category" for column in schema.used)
        facts = zip(levels, ordered, missing, strict=True)
        return cls(matrices=tuple(_matrix(*each) for each in facts), ordered=ordered, with_missing=missing)

    @property
    def length(self) -> float:
        """Return the largest L2 change of the release by one row, divided by the norm of its residual."""
        return math.sqrt(1 + len(self.matrices))

    def of_levels(self, exact: np.ndarray) -> np.ndarray:
        """Return the exact sums (outputs, released sums) to which the caller adds noise.

        `exact` (outputs, 1 + all levels) has the sum of all rows, then the sums of the levels of each column. The sum
        of all rows is kept. The sums of the levels of a column are multiplied by its matrix in `matrices`. So a
        category keeps its sums, and a number gets weighted sums of its levels, then of its harmonics.
        """
        parts, at = [exact[:, :1]], 1
        for matrix in self.matrices:
            parts.append(exact[:, at : at + len(matrix)] @ matrix)
            at += len(matrix)
        return np.concatenate(parts, axis=1)

    def split(self, noisy: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
        """Return the sum of all rows, and two lists with the sums of levels and of harmonics of each column.

        `noisy` (..., outputs, released sums) is a release. The shapes are (..., outputs), (..., outputs, levels) and
        (..., outputs, 4). Sums of a number are divided by the weights that they were released with: the square roots of
        `LEVEL_WEIGHT` and `HARMONIC_WEIGHTS`. A category keeps its sums of levels, and its sums of harmonics are zeros.
        """
        levels, smooth, at = [], [], 1
        for matrix, ordered in zip(self.matrices, self.ordered, strict=True):
            count, width = matrix.shape
            part, at = noisy[..., at : at + width], at + width
            levels.append(part[..., :count] / (math.sqrt(LEVEL_WEIGHT) if ordered else 1.0))
            none = np.zeros((*noisy.shape[:-1], len(HARMONIC_WEIGHTS)))
            smooth.append(part[..., count:] / np.sqrt(HARMONIC_WEIGHTS) if ordered else none)
        return noisy[..., 0], levels, smooth


def _matrix(levels: int, ordered: bool, with_missing: bool) -> np.ndarray:
    if not ordered:
        return np.eye(levels)
    known = levels - with_missing
    angles = np.pi * np.arange(known) / max(known - 1, 1)
    smooth = np.stack(harmonics(angles, np.cos, np.sin), axis=1)
    matrix = np.zeros((levels, levels + len(HARMONIC_WEIGHTS)))
    np.fill_diagonal(matrix, math.sqrt(LEVEL_WEIGHT))
    matrix[:known, levels:] = smooth * np.sqrt(HARMONIC_WEIGHTS)
    return np.asarray(LATTICE.round(matrix))


class Rounds:
    """The releases so far for one table, and the additive models that a pretrained network makes of them.

    `network` is the network, and `sums` the map by which the releases were made. `rows` is the declared number of rows.
    `scale` is the standard deviation of the noise of a count in the first release, and `rounds` the number of releases
    in all.
    """

    def __init__(self, network: TableNetwork, sums: LevelSums, *, rows: int, scale: float, rounds: int) -> None:
        self.network, self.sums, self.rounds = network, sums, rounds
        self.rows, self.scale = rows, scale
        self.levels = [len(matrix) for matrix in sums.matrices]  # the number of levels of each column
        self.releases: list[tuple[np.ndarray, float]] = []

    def after(self, noisy: np.ndarray, length: float) -> np.ndarray:
        """Store one more release, and return the additive model that follows from all releases so far.

        `noisy` (outputs, released sums) is the release. `length` is the largest norm of a row's residual in it (1 for
        the counts of the first release); its noise has the standard deviation `scale * length`. The model is an array
        (1 + all levels, outputs): the bias of each output, then the score of each level.
        """
        self.releases.append((noisy, length))
        return np.asarray(self._models([noisy[None] for noisy, _ in self.releases])[0])

    def deviations(self, copies: int, generator: np.random.Generator) -> np.ndarray:
        """Estimate, for each column, the standard deviation of its scores that the noise of the releases causes.

        Noise of the same standard deviation is added to the releases once more, `copies` times, with numbers from
        `generator`, and a model follows from each copy. The variance of a score over these models is averaged over the
        levels of a column and over outputs. The result (columns,) is the square root of this mean.
        """
        noisy = [
            release + self.scale * length * generator.standard_normal((copies, *release.shape))
            for release, length in self.releases
        ]
        variances = np.var(self._models(noisy)[:, 1:], axis=0, ddof=1).mean(axis=1)
        return np.array([math.sqrt(part.mean()) for part in np.split(variances, np.cumsum(self.levels)[:-1])])

    @torch.no_grad()
    def _models(self, releases: list[np.ndarray]) -> np.ndarray:
        """Return the additive models (copies, 1 + all levels, outputs) that follow from `releases`.

        Each array in `releases`, one for each round, has the shape (copies, outputs, released sums). Copies differ in
        their noise only, and each gives one model. A number of a model that is not finite, because the noise is too
        large for the network, becomes 0.
        """
        copies, classes = releases[0].shape[:2]
        facts = self._facts(copies, classes, 0)
        residuals = first_round(facts, *self._tensors(releases[0]))
        scores, memory = torch.zeros((copies, residuals.shares.shape[1], *facts.exists.shape[1:])), None
        bias = torch.logit(residuals.shares) if classes == 2 else residuals.shares.log()
        for number, noisy in enumerate(releases):
            if number:
                levels, harmonics, total = self._tensors(noisy)
                length = self.releases[number][1]
                residuals = residuals.later(levels * facts.exists[:, None], harmonics, total, length)
            facts = self._facts(copies, classes, number)
            scores, added, memory = self.network(facts, residuals, scores, memory)
            bias = bias + added
        parts = [bias[..., None], *(scores[:, :, at, :size] for at, size in enumerate(self.levels))]
        models = np.asarray(torch.cat(parts, 2).transpose(1, 2).numpy(), dtype=float)
        return np.asarray(np.nan_to_num(models, posinf=0.0, neginf=0.0))

    def _tensors(self, noisy: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sums of one release by level, by harmonic and over all rows, as float32 tensors.

        `noisy` is (copies, outputs, released sums). The shapes are (copies, outputs, columns, most levels), (copies,
        outputs, columns, 4) and (copies, outputs). Columns with fewer levels are padded with zeros.
        """
        total, levels, harmonics = self.sums.split(noisy)
        padded = np.zeros((*noisy.shape[:2], len(levels), max(self.levels)))
        for at, part in enumerate(levels):
            padded[:, :, at, : part.shape[2]] = part
        return (
            torch.tensor(padded).float(),
            torch.tensor(np.stack(harmonics, axis=2)).float(),
            torch.tensor(total).float(),
        )

    def _facts(self, copies: int, classes: int, number: int) -> TableFacts:
        sizes = torch.tensor(self.levels)
        exists = torch.arange(int(sizes.max())) < sizes[:, None]
        return TableFacts(
            exists=exists.expand(copies, -1, -1),
            ordered=torch.tensor(self.sums.ordered).expand(copies, -1),
            with_missing=torch.tensor(self.sums.with_missing).expand(copies, -1),
            rows=torch.full((copies,), float(self.rows)),
            scale=torch.full((copies,), float(self.scale)),
            classes=classes,
            round_number=number,
            rounds=self.rounds,
        )
