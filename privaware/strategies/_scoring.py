"""Held-out scores of trained candidates: counts of correct predictions on validation rows, with Laplace noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privaware import features
from privaware.data import Data
from privaware.model import Model, scaled
from privaware.noise import Rng

__all__ = ["ValidationScorer"]


class ValidationScorer:
    """Scores of models on the validation rows, as fractions of their expected number `rows`, which is public.

    `noise` is the Laplace noise in rows; without noise the rows are public. One row moves a count by at most 1.
    """

    def __init__(self, validation: Data, rows: float, noise: float, device: str) -> None:
        self.validation, self.rows, self.noise, self.device = validation, rows, noise, device
        self._transformed: tuple[str, np.ndarray] | None = None  # candidates mostly share their features

    def scores(self, models: Sequence[Model], rng: Rng) -> list[float]:
        """One noisy score a model."""
        exact = np.array([self.exact_count(model) for model in models])
        noisy = exact
        if self.noise:
            noisy = rng.laplace(exact, noise=self.noise * np.ones(len(exact)), sensitivity=np.ones(len(exact)))
        return [float(score) / self.rows for score in noisy]

    def exact_count(self, model: Model) -> float:
        """Correct predictions; for regression one minus the error over the declared range, summed."""
        if not len(self.validation):
            return 0.0
        outputs = model.network_outputs(self._inputs(model), self.device)
        if model.schema.task == "classification":
            return float((model.decide(outputs) == self.validation.y).sum())
        error = np.abs(np.clip(outputs[:, 0], -1, 1) - scaled(self.validation.y, self.validation.schema))
        # A model that diverged may predict NaN: that row counts as wrong, and for itself only.
        return float(np.nan_to_num(1 - error / 2, nan=0.0).sum())

    def _inputs(self, model: Model) -> np.ndarray:
        name = repr([features.describe(feature) for feature in model.features])
        if self._transformed is None or self._transformed[0] != name:
            rows = features.apply(model.features, self.validation.x, self.validation.schema, self.device)
            self._transformed = name, np.ascontiguousarray(rows)
        return self._transformed[1]
