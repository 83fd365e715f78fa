"""The rounds of `amortised` after each release: from noisy sums to weights of an additive model."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from privaware.learners._boosting.level_sums import LevelSums
from privaware.learners._table_network import TableFacts, TableNetwork, first_round

__all__ = ["Rounds"]


class Rounds:
    """The releases so far for one table, and the models that follow from them.

    `scale` is the standard deviation of the noise of a first-round count, and `rounds` the number of releases in all.
    """

    def __init__(self, network: TableNetwork, sums: LevelSums, *, rows: int, scale: float, rounds: int) -> None:
        self.network, self.sums, self.rounds = network, sums, rounds
        self.rows, self.scale = rows, scale
        self.levels = [len(matrix) for matrix in sums.matrices]  # the number of levels of each column
        self.releases: list[tuple[np.ndarray, float]] = []

    def after(self, noisy: np.ndarray, length: float) -> np.ndarray:
        """Add the release `noisy`, and return the model (1 + all levels, outputs): bias, then scores.

        `length` is the largest norm of a row's residual in this release (1 for counts); its noise is `scale * length`.
        """
        self.releases.append((noisy, length))
        return np.asarray(self._models([noisy[None] for noisy, _ in self.releases])[0])

    def deviations(self, copies: int, generator: np.random.Generator) -> np.ndarray:
        """Return, for each column, the standard deviation of its scores over `copies` of the releases.

        Each copy has noise of the same scale added once more. Variances are averaged over levels and outputs.
        """
        noisy = [
            release + self.scale * length * generator.standard_normal((copies, *release.shape))
            for release, length in self.releases
        ]
        variances = np.var(self._models(noisy)[:, 1:], axis=0, ddof=1).mean(axis=1)
        return np.array([math.sqrt(part.mean()) for part in np.split(variances, np.cumsum(self.levels)[:-1])])

    @torch.no_grad()
    def _models(self, releases: list[np.ndarray]) -> np.ndarray:
        """Return models (copies, 1 + all levels, outputs) from copies of all releases so far."""
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
        return np.asarray(torch.cat(parts, 2).transpose(1, 2).numpy(), dtype=float)

    def _tensors(self, noisy: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sums of the release `noisy`, by level, by harmonic and over all rows.

        Their shapes are (copies, outputs, columns, most levels), (copies, outputs, columns, 4) and (copies, outputs).
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
