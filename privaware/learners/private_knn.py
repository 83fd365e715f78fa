"""Private kNN: the nearest private rows, of a fresh sample for each query, label public rows by a noisy vote.

No teacher is trained. For each of `queries` public rows every private row is sampled with probability `rate`, the
`neighbours` nearest of the sample vote with their labels, and the winner after Gaussian noise is released. A network,
the student, learns from these labels and from public rows without a label. Distances are between fixed features; in
later `stages` the last hidden activations of the student, which is public by then, are added as further features,
scaled to the same range.

Paper: Zhu, Yu, Chandraker, Wang 2020, Private-kNN: Practical Differential Privacy for Computer Vision, CVPR.
Privacy: (epsilon, delta) for one row added or removed. A row that enters a sample may push another one out of the
neighbours: one vote leaves and one enters, L2 sensitivity sqrt(2), and 1 for the largest number of votes. Samples are
Poisson samples, one for each release, so that each is a sampled Gaussian; every stage and query is charged, also the
test of `threshold`, which has its own sample. A distance is a function of two rows alone, bit for bit, on any
device: rows are centred, projected on the principal directions of public rows and rounded to integers, and all sums are
exact. So adding or removing a row does not change which of two other rows is nearer. Rows at the distance of the last
neighbour share the remaining votes equally. This is the mean over all ways to break ties, and in each way one more row
replaces at most one neighbour.
Use when: unlabelled public rows exist and nearby rows share a label, by fixed features or after a first stage.

>>> from privaware.schema import Schema
>>> PrivateKnn(queries=100, stages=2).cost(Schema(form="image", shape=(1, 8, 8), classes=("a", "b"), rows=5000), 20.0)
Repeated(event=Repeated(event=Sampled(event=Gaussian(noise=20.0), rate=0.15), count=100), count=2)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from privaware import features, models
from privaware._validate import expect_count, expect_in, expect_positive
from privaware.data import Data
from privaware.events import Event, Gaussian
from privaware.exact_sums import MANTISSA, Lattice
from privaware.learners._fixed_features import feature_for, rows_after, shape_after
from privaware.learners._networks.architecture import expect_tables
from privaware.learners._networks.plain_descent import paced
from privaware.learners._student import Student
from privaware.learners._votes import NO_LABEL, is_confident, voted_labels
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["PrivateKnn"]

MOST_QUERIES = 400
"""Largest default number of queries in a stage."""

WIDTH = 128
"""Largest number of entries of an embedded row; longer rows are projected to this width, shorter rows keep theirs."""

BITS = 20
"""An embedded entry is an integer from `-2**BITS` to `2**BITS`.

Squared distances stay below 2^53, also if two embeddings of a row are joined.
"""

RANGE_FACTOR = 2.0
"""Embedded values are clipped at this factor times their largest absolute value over the public rows."""

MEMORY = 2**23
"""Largest number of distances, or of entries of rows before projection, in memory at a time."""


@dataclass(frozen=True, kw_only=True)
class PrivateKnn(Student):
    """A student network that learns from public rows. Private rows label them by noisy votes.

    A query is a public row that is put to the vote. Each query has a new Poisson sample of the private rows, and the
    rows of the sample that are nearest to the query vote with their labels. After the first stage, distances also use
    the last hidden activations of a student trained on the labels so far. `Student` explains the other settings.

    Parameters
    ----------
    neighbours : int, optional
        Number of rows that vote on a query; by default `rate * rows / (2 * classes)`, half of an average class in a
        sample, rounded and at least 1.
    rate : float
        Sampling rate of the private rows for a query.
    queries : int, optional
        Number of queries in a stage; each stage has other queries. The default is the number of public rows divided by
        `stages`, or 400 if that is less.
    stages : int
        Number of stages.
    threshold : float, optional
        A query is answered only if the noisy number of votes for its top class reaches this fraction of the neighbours;
        by default all queries are answered.
    threshold_noise : float
        With a `threshold`, the noise multiplier of its test is `threshold_noise` times the noise multiplier of a vote.
    answers : int, optional
        With a `threshold`, the largest number of queries that are answered in a stage; by default all.
    neighbour_features : list, optional
        Descriptions of `privaware.features` for the distances. The default is scattering for images of at least 4 x 4
        pixels, and the result of `feature_for(schema)` for other data, smaller images included.
    """

    neighbours: int | None = None
    rate: float = 0.15
    queries: int | None = None
    stages: int = 2
    threshold: float | None = None
    threshold_noise: float = 3.0
    answers: int | None = None
    neighbour_features: list[dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_count("private_knn", optional=True, neighbours=self.neighbours, answers=self.answers)
        expect_count("private_knn", stages=self.stages)
        expect_count("private_knn", queries=self.query_count)
        expect_in("private_knn", "(0, 1]", rate=self.rate)
        if self.threshold is not None:
            expect_in("private_knn", "(0, 1]", threshold=self.threshold)
        expect_positive("private_knn", threshold_noise=self.threshold_noise)
        expect_tables("private_knn", neighbour_features=self.neighbour_features)
        self._expect_public(self.stages * self.query_count)

    @property
    def query_count(self) -> int:
        """Return how many public rows are put to the vote in a stage.

        It is `queries` if that is set, otherwise `MOST_QUERIES` or, if that is less, the number of public rows divided
        by `stages` and rounded down.
        """
        if self.queries is not None:
            return self.queries
        return MOST_QUERIES if self.public is None else min(MOST_QUERIES, len(self.public) // self.stages)

    @property
    def answer_count(self) -> int:
        """Return the largest number of queries of a stage that are answered if `threshold` is set.

        It is `answers`, or `query_count` if `answers` is None or larger.
        """
        return min(self.answers or self.query_count, self.query_count)

    def cost(self, schema: Schema, noise: float) -> Event:
        self._architecture(schema)  # what does not fit the schema is refused before anything is charged
        shape_after(self._first_chain(schema), schema)
        vote = Gaussian(noise=noise).sampled(rate=self.rate)
        if self.threshold is None:
            return self.stages * (self.query_count * vote)
        test = Gaussian(noise=self.threshold_noise * noise).sampled(rate=self.rate)
        return self.stages * (self.query_count * test + self.answer_count * vote)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        public, schema = self._pool(), data.schema
        pool, journal = self._rows(public), self._journal(schema, noise)
        labels = np.full(len(public), NO_LABEL)

        def voted(stage: int) -> dict[str, np.ndarray]:
            chains = [self._first_chain(schema)]
            if stage:
                student = self._trained_student(schema, pool, labels, rng)
                chains.append((*self._chain(schema), LastHidden.of(student, self.device)))
            pairs = [_embedded(chain, public, data, self.device, rng) for chain in chains]
            points, exact_rows = (np.concatenate(parts, axis=1) for parts in zip(*pairs, strict=True))
            rows = Neighbours(exact_rows, data.y, len(schema.classes), self.device)
            return {"labels": self._labels(schema, points[queries_of(stage)], rows, noise, rng)}

        def queries_of(stage: int) -> slice:
            return slice(stage * self.query_count, (stage + 1) * self.query_count)

        for stage in range(self.stages):
            labels[queries_of(stage)] = journal.kept(f"stage{stage}", partial(voted, stage))["labels"]
        return self._trained_student(schema, pool, labels, rng)

    def _first_chain(self, schema: Schema) -> tuple[Any, ...]:
        if self.neighbour_features is not None:
            return tuple(features.build(description) for description in self.neighbour_features)
        if schema.form == "image" and min(schema.shape[1:]) >= 4:
            return (features.build({"name": "scatter"}),)
        return (feature_for(schema),)

    def _labels(self, schema: Schema, queries: np.ndarray, rows: Neighbours, noise: float, rng: Rng) -> np.ndarray:
        """Return the label of each query: the class that wins a noisy vote of private rows, or -1 for no label.

        `queries` (queries, width) are public rows and `rows` the private rows, both embedded. Each vote has a Poisson
        sample of its own, and so has each test of the `threshold`. With a `threshold` a query gets -1 if it fails the
        noisy test, or if `answer_count` queries before it have passed the test.
        """
        count = self.neighbours or max(1, round(self.rate * schema.rows / (2 * len(schema.classes))))
        labels = np.full(len(queries), NO_LABEL)
        answered = np.arange(len(queries))

        extra = 0 if self.threshold is None else self.answer_count
        report, asked = paced(self.progress, len(queries) + extra, "votes"), 0

        def exact_votes(at: np.ndarray) -> np.ndarray:
            nonlocal asked
            samples = np.stack([rng.poisson(len(rows), self.rate) for _ in at])
            asked += len(at)
            report(asked)
            return rows.votes(queries[at], samples, count)

        if self.threshold is not None:
            settings = (self.threshold * count, self.threshold_noise * noise, rng)
            sure = [is_confident(exact_votes(at), *settings) for at in _blocks(answered, schema.rows)]
            answered = np.flatnonzero(np.concatenate(sure))[: self.answer_count]
        for at in _blocks(answered, schema.rows):
            labels[at] = voted_labels("gnmax", exact_votes(at), noise, rng)
        return labels


def _blocks(queries: np.ndarray, rows: int) -> Iterator[np.ndarray]:
    """Yield consecutive pieces of the array `queries`, so that the distances of a piece to all rows fit into memory.

    A piece has `MEMORY // rows` queries, but at least one; the last one may have fewer. `rows` is the declared, public
    number of private rows.
    """
    size = max(1, MEMORY // rows)
    for at in range(0, len(queries), size):
        yield queries[at : at + size]


def _embedded(chain: tuple[Any, ...], public: Data, data: Data, device: str, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of `public` and the rows of `data`, both after `chain` and embedded as integers in float64.

    `chain` is a tuple of features that are applied in order. The `Embedding` is computed from the public rows only;
    `rng` draws the vectors from which the search for its directions starts. Features of private rows are computed one
    block after another.
    """
    pool = rows_after(chain, public, device)
    embedding = Embedding.of(pool, rng.initial, device)
    size = max(1, MEMORY // pool.shape[1])
    chunks = [np.arange(at, min(at + size, len(data))) for at in range(0, max(len(data), 1), size)]
    return embedding(pool), np.concatenate([embedding(rows_after(chain, data.take(at), device)) for at in chunks])


@dataclass(frozen=True, eq=False)
class LastHidden:
    """The last hidden activations of a released network: the inputs of its last linear layer.

    Calling it with rows to which the network's features were applied returns an array (rows, activations). `module` is
    the network in evaluation mode, on `device`. Entries of rows that are not finite count as 0.
    """

    module: Any
    device: str

    @classmethod
    def of(cls, model: Model, device: str) -> LastHidden:
        module = models.build(model.architecture, device="meta")
        module.load_state_dict(model.torch_tensors(), assign=True)
        return cls(module.to(device).eval(), device)

    def __call__(self, rows: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        import torch

        hidden: list[Any] = []
        last = [layer for layer in self.module.modules() if isinstance(layer, torch.nn.Linear)][-1]
        hook = last.register_forward_pre_hook(lambda layer, inputs: hidden.append(inputs[0].flatten(1)))
        with torch.no_grad():
            self.module(torch.nan_to_num(torch.from_numpy(np.ascontiguousarray(rows)).to(self.device)))
        hook.remove()
        return np.asarray(hidden[0].cpu().numpy())


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """A map from rows (rows, width) to rows of integers, computed from public rows only.

    A row becomes `clip((row - centre) / unit, -1, 1) @ directions`, where `centre` is (width,) and `directions` is
    (width, entries). It is then divided by `reach`, clipped to [-1, 1] and rounded to multiples of `2**-BITS`; the
    result counts these multiples. The products are computed on `device`.
    """

    centre: np.ndarray
    unit: float
    directions: np.ndarray
    reach: float
    device: str = "cpu"

    @classmethod
    def of(cls, pool: np.ndarray, generator: np.random.Generator, device: str = "cpu") -> Embedding:
        """Return the embedding on the principal directions of the public rows `pool` (rows, width).

        `centre` is their mean. `unit` and `reach` are `RANGE_FACTOR` times the largest absolute value of the centred
        and of the projected public rows. `generator` draws the vectors from which the search for the directions starts.
        """
        rows = np.nan_to_num(pool.astype(float), posinf=0.0, neginf=0.0)
        centre = rows.mean(axis=0)
        rows -= centre
        unit = max(RANGE_FACTOR * float(np.abs(rows).max(initial=0.0)), 1e-30)
        directions = _lattice(rows.shape[1]).nearest(_directions(rows / unit, generator))
        first = cls(centre=centre, unit=unit, directions=directions, reach=1.0, device=device)
        reach = max(RANGE_FACTOR * float(np.abs(first._projected(pool)).max(initial=0.0)), 1e-30)
        return replace(first, reach=reach)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the embedded `rows`: integers from `-2**BITS` to `2**BITS`, as float64 (rows, at most WIDTH)."""
        lattice = Lattice(bound=1.0, bits=BITS)
        return np.asarray(lattice.nearest(self._projected(rows) / self.reach) / lattice.step)

    def _projected(self, rows: np.ndarray) -> np.ndarray:
        """Return the products (rows, entries) of the rows, centred and clipped, and `directions`.

        The rows are moved by `centre`, divided by `unit` and clipped to [-1, 1]. The products are exact, because both
        factors are rounded (`_lattice`). Entries of `rows` that are not finite count as 0.
        """
        import torch

        settings = (self.centre, np.float64(self.unit), self.directions)
        centre, unit, directions = (torch.as_tensor(each).to(self.device) for each in settings)
        moved = torch.from_numpy(rows).to(self.device).double().nan_to_num(0.0, 0.0, 0.0).sub_(centre).div_(unit)
        return np.asarray((_lattice(rows.shape[1]).nearest(moved) @ directions).cpu().numpy())


def _lattice(width: int) -> Lattice:
    """Return a lattice for values in [-1, 1]: multiples of `2**-bits`.

    `bits` is so small that a sum of `width` products of two such values is exact in float64.
    """
    return Lattice(bound=1.0, bits=(MANTISSA - math.ceil(math.log2(max(width, 1)))) // 2)


def _directions(rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return orthonormal principal directions (width, WIDTH) of centred `rows`, by subspace iteration.

    `generator` draws the vectors from which the iteration starts. If `width` is at most `WIDTH`, the result is the
    identity matrix.
    """
    width = rows.shape[1]
    if width <= WIDTH:
        return np.eye(width)
    basis = generator.standard_normal((width, WIDTH))
    for _ in range(4):
        basis = np.linalg.qr(rows.T @ (rows @ np.linalg.qr(basis)[0]))[0]
    return basis


class Neighbours:
    """The private rows that vote, as tensors on `device`.

    `rows` (rows, width) are integers in float64, as `Embedding` returns them. `labels` (rows,) are their class codes,
    from 0 to `classes - 1`.
    """

    def __init__(self, rows: np.ndarray, labels: np.ndarray, classes: int, device: str) -> None:
        import torch

        self.rows = torch.from_numpy(rows).to(device)
        self.squares = (self.rows**2).sum(1)
        self.one_hot = torch.eye(classes, dtype=torch.float64)[torch.from_numpy(labels)].to(device)

    def __len__(self) -> int:
        return len(self.rows)

    def votes(self, queries: np.ndarray, samples: np.ndarray, count: int) -> np.ndarray:
        """Return the number of votes for each class, without noise: (queries, classes), perhaps fractions.

        `queries` are embedded as the rows are, and `samples` (queries, rows) is the mask of the rows in each query's
        sample. The `count` rows of the sample that are nearest to the query vote for their own class; all rows of the
        sample vote if it has fewer. Rows at the distance of the last neighbour share the remaining votes equally.
        """
        import torch

        if not len(self.rows):
            return np.zeros((len(queries), self.one_hot.shape[1]))
        sampled = torch.from_numpy(samples).to(self.rows.device)
        asked: Any = torch.from_numpy(queries).to(self.rows.device)
        distances = torch.addmm(self.squares[None], asked, self.rows.T, alpha=-2.0)  # without the query's squared norm
        distances.masked_fill_(~sampled, math.inf)
        last = distances.kthvalue(min(count, len(self.rows)), dim=1, keepdim=True).values
        nearer = (distances < last).double() @ self.one_hot
        tied = ((distances == last) & sampled).double() @ self.one_hot
        left = count - nearer.sum(1, keepdim=True)
        shares = (left / tied.sum(1, keepdim=True).clamp(min=1.0)).clamp(max=1.0)
        return np.asarray((nearer + tied * shares).cpu().numpy())
