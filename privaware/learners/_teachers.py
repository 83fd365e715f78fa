"""Teachers: networks trained without noise on disjoint rows, many of them as one population.

A row may move the vote of its own teacher only, so nothing that a teacher computes with depends on the rows of others:
steps and shapes are public, and each teacher has random numbers and a slot of its own in every stacked product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privaware import models
from privaware.learners._plain_descent import PlainDescent, of_turn
from privaware.noise import Rng

__all__ = ["Teachers"]

MEMORY = {"cpu": 2**28, "cuda": 2**32}
"""Numbers that teachers of one population may take: parameters, their updates and activations."""

ACTIVATIONS = 64
"""Activations of an example over its inputs: a guess, on the large side."""

POOL = 1024
"""Public rows that a teacher predicts at once."""


@dataclass(frozen=True, kw_only=True)
class Teachers:
    """`count` networks of one architecture, each trained by `descent` on its own rows."""

    count: int
    architecture: dict[str, Any]
    descent: PlainDescent

    def votes(self, rows: np.ndarray, labels: np.ndarray, shard: np.ndarray, pool: np.ndarray, rng: Rng) -> np.ndarray:
        """How many teachers, trained on the rows of their shard, vote for each class: (rows of the pool, classes)."""
        exact_votes = np.zeros((len(pool), int(self.architecture["outputs"])))
        size = self._population(rows.shape[1:])
        turns = -(-self.count // size)
        for first in range(0, self.count, size):
            descent = replace(self.descent, progress=of_turn(self.descent.progress, first // size, turns))
            numbers = range(first, min(first + size, self.count))
            modules = [models.build(self.architecture, rng.initial) for _ in numbers]
            parts = [np.flatnonzero(shard == number) for number in numbers]
            for teacher in descent.run_population(modules, rows, labels, rng, parts=parts):
                exact_votes[np.arange(len(pool)), self._predictions(teacher, pool)] += 1
        return exact_votes

    def _population(self, shape: tuple[int, ...]) -> int:
        """How many teachers are trained at once: a public number."""
        each = 4 * models.count(self.architecture) + ACTIVATIONS * self.descent.batch * math.prod(shape)
        return max(1, MEMORY["cuda" if self.descent.device.startswith("cuda") else "cpu"] // each)

    def _predictions(self, teacher: Any, pool: np.ndarray) -> np.ndarray:
        """Class codes; of outputs that are not finite, one that depends on them alone."""
        import torch

        codes = []
        with torch.no_grad():
            for at in range(0, len(pool), POOL):
                inputs = torch.from_numpy(pool[at : at + POOL]).to(self.descent.device)
                codes.append(torch.nan_to_num(teacher(inputs)).argmax(1).cpu().numpy())
        return np.concatenate(codes)
