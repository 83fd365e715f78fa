"""PATE: an ensemble of teachers labels public rows by a noisy vote; a student learns from the labels.

Each row goes to one teacher by a draw of its own; teachers are trained without noise on disjoint
rows, vote on `queries` public rows, and only the winner of each noisy vote is released. Teachers and
student are ridge regressions onto the one-hot classes, on the schema's features.

Paper: Papernot, Abadi, Erlingsson, Goodfellow, Talwar 2017, arXiv:1610.05755; Gaussian votes after
Papernot et al. 2018, arXiv:1802.08908 (GNMax). The price is the data-independent one.
Privacy: (epsilon, delta) for one row added or removed. A row reaches one teacher, which moves its
vote from one class to another: L2 sensitivity sqrt(2) for each query, and each query is charged. Votes are whole
numbers; a teacher is a function of its own rows alone, also where its equations have no solution (it then votes for
the first class), so no error depends on rows.
Use when: unlabelled public rows exist and a model is cheap to train many times.

>>> from privaware.schema import Schema
>>> Pate(queries=100).cost(Schema(classes=("no", "yes"), rows=5000), noise=40.0)
Repeated(event=Gaussian(noise=40.0), count=100)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from privaware._validate import expect_positive
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Event, Gaussian
from privaware.learners import Learner
from privaware.learners._fixed_features import feature_for, linear_model, rows_of
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Pate"]


@dataclass(frozen=True, kw_only=True)
class Pate(Learner):
    """`public` are rows without labels; the first `queries` of them (default: up to 200) are labelled.

    Without `teachers`, there is one for every hundred declared rows, between 10 and 500.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    needs_public: ClassVar[bool] = True

    teachers: int | None = None
    queries: int | None = None
    ridge: float = 0.1
    public: Data | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.teachers is not None and self.teachers < 2) or self.query_count < 1:
            raise WrongInput(
                f"pate: expected at least 2 teachers and 1 query, got {self.teachers} and {self.query_count}"
            )
        expect_positive("pate", ridge=self.ridge)
        if self.public is not None and len(self.public) < self.query_count:
            raise WrongInput(
                f"pate: expected at least {self.query_count} public rows to label, got {len(self.public)}; "
                "give more or lower `queries`"
            )

    @property
    def query_count(self) -> int:
        """How many public rows are labelled: a public number."""
        if self.queries is not None:
            return self.queries
        return MOST_QUERIES if self.public is None else min(MOST_QUERIES, len(self.public))

    def cost(self, schema: Schema, noise: float) -> Event:
        return self.query_count * Gaussian(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        if self.public is None:
            raise WrongInput("pate: expected public rows to label, got none; give them with --public FILE")
        classes = len(data.schema.classes)
        feature = feature_for(data.schema)
        pool = rows_of(self.public.take(np.arange(self.query_count)), feature)
        teachers = self.teachers or min(max(data.schema.rows // 100, 10), 500)
        shard = rng.shards(len(data), (1.0,) * teachers)
        rows = rows_of(data, feature)
        exact_votes = np.zeros((self.query_count, classes))
        for teacher in range(teachers):
            in_shard = shard == teacher
            weight, bias = self._ridge(rows[in_shard], data.y[in_shard], classes)
            exact_votes[np.arange(self.query_count), (pool @ weight.T + bias).argmax(axis=1)] += 1
        noisy = [rng.gaussian(votes, noise=noise, sensitivity=np.sqrt(2)) for votes in exact_votes]
        weight, bias = self._ridge(pool, np.argmax(noisy, axis=1), classes)
        return linear_model(data.schema, (feature,), weight, bias)

    def _ridge(self, rows: np.ndarray, labels: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Ridge regression onto one-hot classes, primal or dual, whichever is smaller; zeros without a solution."""
        if not len(rows):
            return np.zeros((classes, rows.shape[1])), np.zeros(classes)
        try:
            return self._solution(rows, np.eye(classes)[labels])
        except np.linalg.LinAlgError:  # singular in float64
            return np.zeros((classes, rows.shape[1])), np.zeros(classes)

    def _solution(self, rows: np.ndarray, goal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wide = np.concatenate([rows, np.ones((len(rows), 1), np.float32)], axis=1).astype(float)
        if wide.shape[1] <= len(wide):
            theta = np.linalg.solve(wide.T @ wide + self.ridge * np.eye(wide.shape[1]), wide.T @ goal)
        else:
            theta = wide.T @ np.linalg.solve(wide @ wide.T + self.ridge * np.eye(len(wide)), goal)
        return theta[:-1].T, theta[-1]


MOST_QUERIES = 200
"""By default: each further label costs more noise on all of them."""
