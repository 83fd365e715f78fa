"""Privacy-aware selection: a genetic search for the columns on which private models do best.

Rows are split once into two parts. Every new set of columns trains one private logistic regression
(objective perturbation, pure) on the first part, and the number of rows of the second part that it
predicts correctly is released with noise: that is the set's fitness. A set that comes up again keeps its
fitness. A regression target counts as above or below the middle of its declared range.

Paper: Bao, Bauer and Bindschaedler, On the importance of architecture and feature selection in
    differentially private machine learning, section VIII-B, where fitness is exact accuracy on the test
    rows and the price is that of the models that happened to be trained; neither is private.
Privacy: (epsilon, delta) for one row added or removed. At most `models` sets are tried, a number fixed
    before the rows are read, and all of them are paid for: each is Pure(1 / noise) to the rows of the
    first part (with more than two classes, one problem a class at that share of it), and one
    Gaussian(noise) to those of the second, whose count of correct predictions one row moves by at most 1
    (predictions are computed without rounding, so no row changes another's). A row is in one part, by a
    draw of its own, so the part that costs more is the cost.
    Without `adaptive` no set depends on an earlier score: a secret random number of sets, `models` on
    average (logarithmic distribution), is sampled independently, and only the best is released. That is
    private selection, at no more than twice the cost of a single model, whatever their number.
Use when: columns are many, rows are tens of thousands, and a linear model follows. For small data the
    cost of hundreds of models leaves only noise: use private selection (`adaptive=False`), or
    `cfs_greedy`, which is one release.

>>> from privaware.noise import Rng
>>> from privaware.testing import example, rows_for
>>> small = Pafs(columns=1, population=8, generations=2)
>>> small.run(rows_for(example(rows=4000), 4000), noise=5.0, rng=Rng(seed=1))
('age',)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privaware import accounting
from privaware._validate import expect_between, expect_count
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Disjoint, Event, Gaussian, Laplace, Pure, Selected
from privaware.exact_sums import MANTISSA, Lattice
from privaware.features.onehot import OneHot
from privaware.learners.objective_perturbation import fit_many
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.selectors import Selector
from privaware.selectors._genetic import Evolution, expect_rates, expect_search
from privaware.selectors._tables import chosen, expect_table, limit

__all__ = ["Pafs"]

POPULATION = 4096
"""Sets whose models are solved together."""

ENTRIES = Lattice(bound=1.0, bits=20)
"""Of validation rows."""


@dataclass(frozen=True, kw_only=True)
class Pafs(Selector):
    """At most `columns` are selected; `models` left out is population x generations, or all sets there are."""

    columns: int | None = None
    population: int = 600
    generations: int = 10
    models: int | None = None
    adaptive: bool = True
    held_out: float = 0.3
    keep: float = 0.2
    crossover: float = 0.7
    mutation: float = 0.2

    def __post_init__(self) -> None:
        expect_search("pafs", self.columns, self.population, self.generations)
        expect_rates("pafs", self.keep, self.crossover, self.mutation)
        expect_count("pafs", optional=True, models=self.models)
        expect_between("pafs", 0.01, 0.99, held_out=self.held_out)

    def cost(self, schema: Schema, noise: float) -> Event:
        problems, models = _problems(schema), self.trial_count(schema)
        train: Event = problems * Pure(epsilon=1 / (noise * problems))
        if not self.adaptive:
            once = Disjoint(events=(train, Laplace(noise=noise)))
            return Selected(event=once, distribution="logarithmic", mean=_mean(models))
        return Disjoint(events=(models * train, models * Gaussian(noise=noise)))

    def trial_count(self, schema: Schema) -> int:
        """How many sets are paid for."""
        expect_table(schema)
        width, most = len(schema.used), limit(self.columns, schema)
        requested = self.models or self.population * self.generations
        return min(requested, sum(math.comb(width, size) for size in range(1, most + 1)))

    def run(self, data: Data, noise: float, rng: Rng) -> tuple[str, ...]:
        models = self.trial_count(data.schema)
        count = _secret_count(models, rng)  # sampled before anything is computed from rows
        train, validation = data.split(rng, (1 - self.held_out, self.held_out))
        trials = _Trials(train, validation, noise, rng, models)
        search = self._search(data.schema)
        width = len(data.schema.used)
        if self.adaptive:
            best = search.search(width, trials.fitness, rng.initial)
        else:
            best = trials.best(search, width, count)
        return chosen(data.schema, best)

    def _search(self, schema: Schema) -> Evolution:
        return Evolution(
            population=self.population,
            generations=self.generations,
            keep=self.keep,
            crossover=self.crossover,
            mutation=self.mutation,
            most=limit(self.columns, schema),
        )


class _Trials:
    """Noisy scores of the sets tried so far, and the rows to try more of them on."""

    def __init__(self, train: Data, validation: Data, noise: float, rng: Rng, left: int) -> None:
        schema = train.schema
        self.noise, self.rng, self.left = noise, rng, left
        self.rows, self.validation_rows = _encoded(train), ENTRIES.round(_encoded(validation))
        self.labels, self.validation_labels = _labels(train), _labels(validation)
        encode = OneHot()
        widths = [encode.width(Schema(columns=(column,))) for column in schema.used]
        self.owner = np.repeat(np.arange(len(widths)), widths)
        self.scores: dict[bytes, float] = {}

    def fitness(self, masks: np.ndarray) -> np.ndarray:
        """Scores of many sets; new ones are trained while they are paid for, and count as worst afterwards."""
        keys = [line.tobytes() for line in np.packbits(masks, axis=1)]
        new = {key: at for at, key in enumerate(keys) if key not in self.scores}
        fresh = list(new.values())[: self.left]
        if fresh:
            self.left -= len(fresh)
            scores = self._noisy_scores(masks[fresh])
            self.scores |= {keys[at]: float(score) for at, score in zip(fresh, scores, strict=True)}
        return np.array([self.scores.get(key, -np.inf) for key in keys])

    def best(self, search: Evolution, width: int, count: int) -> np.ndarray:
        """The best of `count` independent random sets; nothing is remembered, so each is a trial of its own."""
        top, winner = -np.inf, np.ones(width, dtype=bool)
        for at in range(0, count, POPULATION):
            batch = replace(search, population=min(POPULATION, count - at))
            masks = batch.first(width, self.rng.initial)
            scores = self._noisy_scores(masks, pure=True)
            if scores.max() > top:
                top, winner = float(scores.max()), masks[int(scores.argmax())]
        return winner

    def _noisy_scores(self, masks: np.ndarray, *, pure: bool = False) -> np.ndarray:
        problems, sets = len(self.labels), len(masks)
        wide = np.hstack([masks[:, self.owner], np.ones((sets, 1), dtype=bool)])
        weights = fit_many(
            self.rows,
            np.repeat(self.labels, sets, axis=0),
            masks=np.tile(wide, (problems, 1)),
            epsilons=np.full(problems * sets, 1 / (self.noise * problems)),
            rng=self.rng,
            norm=np.tile(np.sqrt(masks.sum(axis=1) + 1.0), problems),
        )
        margins = exact_products(weights, self.validation_rows).reshape(problems, sets, len(self.validation_rows))
        if problems == 1:
            correct = (margins[0] > 0) == self.validation_labels
        else:
            correct = margins.argmax(axis=0) == self.validation_labels.argmax(axis=0)
        exact_counts = correct.sum(axis=1).astype(float)
        one = np.ones(sets)
        release: Any = self.rng.laplace if pure else self.rng.gaussian
        return np.asarray(release(exact_counts, noise=self.noise * one, sensitivity=one))


def exact_products(weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Released weights times rows on `ENTRIES`, weights rounded such that no product or sum has a rounding error.

    So which class a row is predicted is a function of the row and the release, not of the row's position.
    """
    bits = MANTISSA - ENTRIES.bits - math.ceil(math.log2(rows.shape[1]))
    public = Lattice(bound=max(float(np.abs(weights).max(initial=0.0)), 2.0**-99), bits=bits)
    return np.asarray(public.round(weights) @ rows.T)


def _mean(models: int) -> float:
    """Of the logarithmic distribution, which has at least one trial."""
    return max(float(models), 2.0)


def _secret_count(models: int, rng: Rng) -> int:
    selected = Selected(event=Pure(epsilon=1.0), distribution="logarithmic", mean=_mean(models))
    eta, gamma = accounting.trial_count_parameters(selected)
    return rng.runs(eta=eta, gamma=gamma)


def _problems(schema: Schema) -> int:
    return len(schema.classes) if len(schema.classes) > 2 else 1


def _encoded(data: Data) -> np.ndarray:
    """Every column adds at most 1 to a row's squared norm, and so does the constant at the end."""
    rows = OneHot(norm=math.sqrt(OneHot().squares(data.schema)))(data.x, data.schema)
    return np.hstack([rows.astype(float), np.ones((len(data), 1))])


def _labels(data: Data) -> np.ndarray:
    """Labels 0 and 1 (problems, rows)."""
    schema = data.schema
    if len(schema.classes) > 2:
        return np.asarray(np.arange(len(schema.classes))[:, None] == data.y)
    if schema.classes:
        return np.asarray(data.y == 1)[None]
    if schema.low is None or schema.high is None:
        raise WrongInput(f"expected low and high of the target {schema.target!r} in the schema, got neither")
    return np.asarray(data.y > (schema.low + schema.high) / 2)[None]
