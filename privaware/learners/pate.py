"""PATE: an ensemble of teachers labels public rows by a noisy vote; a student learns from the labels.

Each row goes to one teacher, which is drawn for this row. Teachers are trained without noise on disjoint rows and vote
on `queries` public rows. Only the winner of each noisy vote is released: the class with most votes after Laplace noise
(`vote="lnmax"`) or Gaussian noise ("gnmax"). With "confident_gnmax" a noisy test first asks whether enough teachers
agree. Only queries that pass the test, at most `answers` of them, get a "gnmax" vote. With an `architecture` teachers
and student are networks, and the student learns from public rows without a label too. Without one they are ridge
regressions onto the one-hot classes, on the schema's features or on the named `features`.

Paper: Papernot, Abadi, Erlingsson, Goodfellow, Talwar 2017, arXiv:1610.05755 (LNMax); Papernot, Song, Mironov,
Raghunathan, Talwar, Erlingsson 2018, arXiv:1802.08908 (GNMax, Confident-GNMax). DPMLBench has LNMax, 100 teachers.
Privacy: (epsilon, delta) for one row added or removed, by the data-independent analysis. A row reaches one teacher,
whose vote may move from one class to another: L1 sensitivity 2 and L2 sensitivity sqrt(2) for each query, 1 for the
largest number of votes. Each query is charged; for "confident_gnmax" the test of each query and the votes of at most
`answers` queries. A teacher is a function of its own rows alone, also where its equations have no solution (it then
votes for the first class), so no error depends on rows.
Use when: unlabelled public rows exist and a model is cheap to train many times.

>>> from privaware.schema import Schema
>>> schema = Schema(classes=("no", "yes"), rows=5000)
>>> Pate(queries=100).cost(schema, noise=40.0)
Repeated(event=Gaussian(noise=40.0), count=100)
>>> Pate(queries=100, vote="lnmax").cost(schema, noise=40.0)
Repeated(event=Pure(epsilon=0.025), count=100)

Teachers that are networks are trained many at a time, as one population. A row may change the vote of its own teacher
only, so nothing in the computation of a teacher depends on the rows of other teachers: steps and shapes are public, and
each teacher has its own random numbers and its own slice of every stacked product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privaware import models
from privaware._validate import expect_between, expect_count, expect_in, expect_one_of, expect_positive
from privaware.data import Data
from privaware.events import Event
from privaware.learners._fixed_features import feature_for, linear_model, rows_after, rows_of, shape_after
from privaware.learners._networks.plain_descent import PlainDescent, of_stage, of_turn, paced
from privaware.learners._student import Student
from privaware.learners._votes import NO_LABEL, VOTES, is_confident, vote_event, voted_labels
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Pate"]

MEMORY = {"cpu": 2**28, "cuda": 2**32}
"""Largest number of floats in memory for teachers trained at once: parameters, their updates and activations."""

ACTIVATIONS = 64
"""Assumed number of activations for each input of an example; most networks have fewer."""

POOL = 1024
"""Number of public rows that a teacher predicts at once."""


@dataclass(frozen=True, kw_only=True)
class Teachers:
    """`count` networks of the same `architecture` (a description), each trained by `descent` on its own rows."""

    count: int
    architecture: dict[str, Any]
    descent: PlainDescent

    def votes(self, rows: np.ndarray, labels: np.ndarray, shard: np.ndarray, pool: np.ndarray, rng: Rng) -> np.ndarray:
        """Return how many teachers vote for each class, without noise: (public rows, classes).

        `rows` are the private rows after the features, and `labels` their class codes. `shard` (rows,) is the number of
        the teacher that is trained on each row. Each of the `count` teachers is trained and then votes for one class of
        each public row in `pool` (rows after the features).
        """
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
        """Return how many teachers are trained at once, so that they fit into `MEMORY`; at least 1.

        The number follows from public facts: the `shape` of a row, the architecture and the batch size.
        """
        each = 4 * models.count(self.architecture) + ACTIVATIONS * self.descent.batch * math.prod(shape)
        return max(1, MEMORY["cuda" if self.descent.device.startswith("cuda") else "cpu"] // each)

    def _predictions(self, teacher: Any, pool: np.ndarray) -> np.ndarray:
        """Return the class code that `teacher`, a network, predicts for each row of `pool`.

        Outputs that are not finite give some class, not an error.
        """
        import torch

        codes = []
        with torch.no_grad():
            for at in range(0, len(pool), POOL):
                inputs = torch.from_numpy(pool[at : at + POOL]).to(self.descent.device)
                codes.append(torch.nan_to_num(teacher(inputs)).argmax(1).cpu().numpy())
        return np.concatenate(codes)


@dataclass(frozen=True, kw_only=True)
class Pate(Student):
    """A student that learns from public rows which teachers labelled by noisy votes.

    Parameters
    ----------
    teachers : int, optional
        Number of teachers; by default one for every hundred declared rows, from 10 to 500.
    queries : int, optional
        Number of public rows, the first ones, on which teachers vote; by default 200, or all if there are fewer.
    vote : str
        How the winner of a vote is released: "lnmax", "gnmax" or "confident_gnmax", which answers some queries only.
    threshold : float
        With "confident_gnmax", a query is answered if the noisy number of votes for its top class reaches this fraction
        of the teachers.
    threshold_noise : float
        With "confident_gnmax", the noise multiplier of the test of a query is `threshold_noise * noise`.
    answers : int, optional
        With "confident_gnmax", the largest number of queries that are answered; by default all.
    ridge : float
        Penalty of teachers that are ridge regressions.
    teacher_epochs : float
        Number of passes of a teacher that is a network over its rows.
    teacher_batch : int
        Batch size of teachers that are networks.
    teacher_lr : float
        Learning rate of teachers that are networks.

    Notes
    -----
    `epochs`, `batch` and `lr` are for the student, which `Student` explains.
    """

    teachers: int | None = None
    queries: int | None = None
    vote: str = "gnmax"
    threshold: float = 0.6
    threshold_noise: float = 4.0
    answers: int | None = None
    ridge: float = 0.1
    teacher_epochs: float = 40.0
    teacher_batch: int = 32
    teacher_lr: float = 0.03

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_count("pate", 2, optional=True, teachers=self.teachers)
        expect_count("pate", queries=self.query_count)
        expect_one_of("pate", VOTES, vote=self.vote)
        expect_in("pate", "(0, 1]", threshold=self.threshold)
        expect_positive("pate", ridge=self.ridge, threshold_noise=self.threshold_noise)
        expect_count("pate", optional=True, answers=self.answers)
        expect_count("pate", teacher_batch=self.teacher_batch)
        expect_between("pate", 1e-9, 1e6, teacher_epochs=self.teacher_epochs, teacher_lr=self.teacher_lr)
        self._expect_public(self.query_count)

    @property
    def query_count(self) -> int:
        """Return how many public rows are put to the vote.

        It is `queries` if that is set, otherwise `MOST_QUERIES` or, if there are fewer, the number of public rows.
        """
        if self.queries is not None:
            return self.queries
        return MOST_QUERIES if self.public is None else min(MOST_QUERIES, len(self.public))

    @property
    def answer_count(self) -> int:
        """Return the largest number of queries that are answered with the vote "confident_gnmax".

        It is `answers`, or `query_count` if `answers` is None or larger.
        """
        return min(self.answers or self.query_count, self.query_count)

    def cost(self, schema: Schema, noise: float) -> Event:
        if self.architecture is not None:
            self._architecture(schema)  # a wrong one is refused before anything is charged
        elif self.features is not None:
            shape_after(self._chain(schema), schema)
        if self.vote != "confident_gnmax":
            return self.query_count * vote_event(self.vote, noise)
        tests = self.query_count * vote_event(self.vote, self.threshold_noise * noise)
        return tests + self.answer_count * vote_event(self.vote, noise)

    def _run_all(self, data: Data, noises: Sequence[float], rng: Rng) -> list[Model]:
        """Return one model for each noise multiplier in `noises`, each with its own teachers and votes.

        With an `architecture` the students are networks, trained as one stack. Without one they are ridge regressions.
        """
        public, schema = self._pool(), data.schema
        if self.architecture is None:
            queries = public.take(np.arange(self.query_count))
            return [self._by_ridge(data, queries, noise, rng) for noise in noises]
        chain = self._chain(schema)
        shape = shape_after(chain, schema)
        rows, pool = (
            np.nan_to_num(rows_after(chain, each, self.device)).reshape(-1, *shape) for each in (data, public)
        )
        labels = np.full((len(noises), len(pool)), NO_LABEL)
        for own, noise in zip(labels, noises, strict=True):
            own[: self.query_count] = self._voted(schema, rows, data.y, pool[: self.query_count], noise, rng)
        return self._trained_students(schema, pool, list(labels), rng)

    def _voted(
        self, schema: Schema, rows: np.ndarray, truth: np.ndarray, queries: np.ndarray, noise: float, rng: Rng
    ) -> np.ndarray:
        """Return the label of each of `queries`: the winner of a noisy vote of networks, or -1 for no label.

        `queries` are public rows and `rows` the private rows on which the teachers are trained, both after the
        features; `truth` are the class codes of `rows`. The journal keeps the result, so that an interrupted run does
        not release the labels a second time.
        """
        count = self._teacher_count(schema)
        shard = rng.shards(len(rows), (1.0,) * count)

        def voted() -> dict[str, np.ndarray]:
            exact_votes = self._teachers(schema, count).votes(rows, truth, shard, queries, rng)
            return {"labels": self._labels(exact_votes, count, noise, rng)}

        return self._journal(schema, noise).kept("labels", voted)["labels"]

    def _teacher_count(self, schema: Schema) -> int:
        return self.teachers or min(max(schema.rows // 100, 10), 500)

    def _teachers(self, schema: Schema, teachers: int) -> Teachers:
        """Return `teachers` networks with the settings of their training.

        The batch size is `teacher_batch`, or less if a teacher has fewer rows on average. All settings follow from
        public facts.
        """
        batch = max(1, min(self.teacher_batch, schema.rows // teachers))
        steps = math.ceil(self.teacher_epochs * schema.rows / teachers / batch)
        descent = replace(self._descent(1), steps=steps, batch=batch, lr=self.teacher_lr, augment=None, mixup=0.0)
        descent = replace(descent, progress=of_stage(self.progress, "teachers"))
        return Teachers(count=teachers, architecture=self._architecture(schema), descent=descent)

    def _labels(self, exact_votes: np.ndarray, teachers: int, noise: float, rng: Rng) -> np.ndarray:
        """Return the label of each query (queries,): the class that wins a noisy vote, or -1 for no label.

        `exact_votes` (queries, classes) says how many of the `teachers` teachers vote for each class, and `noise` is
        the noise multiplier. With "confident_gnmax" a query gets -1 if it fails the noisy test of `threshold`, or if
        `answer_count` queries before it have passed the test.
        """
        labels = np.full(len(exact_votes), NO_LABEL)
        answered = np.arange(len(exact_votes))
        if self.vote == "confident_gnmax":
            sure = is_confident(exact_votes, self.threshold * teachers, self.threshold_noise * noise, rng)
            answered = np.flatnonzero(sure)[: self.answer_count]
        labels[answered] = voted_labels(self.vote, exact_votes[answered], noise, rng)
        return labels

    def _by_ridge(self, data: Data, public: Data, noise: float, rng: Rng) -> Model:
        """Return a student that is a ridge regression, from the votes of teachers that are ridge regressions.

        Teachers are trained on `data` and vote on `public`, which holds the queries only. The student learns from the
        queries that get a label. A row's features are a function of the row alone.
        """
        schema, classes = data.schema, len(data.schema.classes)
        teachers = self._teacher_count(schema)
        shard = rng.shards(len(data), (1.0,) * teachers)
        chain = (feature_for(schema),) if self.features is None else self._chain(schema)
        rows, pool = (
            rows_of(each, chain[0]) if self.features is None else np.nan_to_num(rows_after(chain, each, self.device))
            for each in (data, public)
        )
        exact_votes = np.zeros((len(pool), classes))
        report = paced(self.progress, teachers, "teachers")
        for teacher in range(teachers):
            own = shard == teacher
            weight, bias = ridge(rows[own], data.y[own], classes, self.ridge)
            exact_votes[np.arange(len(pool)), (pool @ weight.T + bias).argmax(axis=1)] += 1
            report(teacher + 1)
        labels = self._labels(exact_votes, teachers, noise, rng)
        weight, bias = ridge(pool[labels >= 0], labels[labels >= 0], classes, self.ridge)
        return linear_model(schema, chain, weight, bias)


MOST_QUERIES = 200
"""Largest default number of queries; at a fixed budget, more labels mean more noise in each label."""


def ridge(rows: np.ndarray, labels: np.ndarray, classes: int, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights (classes, width) and biases (classes,) of a ridge regression onto one-hot classes.

    `rows` are (rows, width), and `labels` their class codes. The penalty is `strength` times the squared norm of
    weights and biases, added to the sum of squared errors. Weights and biases are zeros if there are no rows, or if the
    equations are singular in float64.
    """
    wide = np.concatenate([rows, np.ones((len(rows), 1), np.float32)], axis=1).astype(float)
    goal = np.eye(classes)[labels]
    try:
        if wide.shape[1] <= len(wide):
            theta = np.linalg.solve(wide.T @ wide + strength * np.eye(wide.shape[1]), wide.T @ goal)
        else:
            theta = wide.T @ np.linalg.solve(wide @ wide.T + strength * np.eye(len(wide)), goal)
    except np.linalg.LinAlgError:
        theta = np.zeros((wide.shape[1], classes))
    return theta[:-1].T, theta[-1]
