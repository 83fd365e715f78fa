"""Privacy-aware selection: a genetic search for the columns on which private models do best.

Rows are split once into training and validation rows. For every new set of columns one logistic regression is trained
on the training rows, by objective perturbation with pure differential privacy, or by DP-SGD (`fitness="dpsgd"`). The
number of validation rows that it predicts correctly is released with noise and is the fitness of the set. A set that
comes up again keeps its fitness. A regression target counts as above or below the middle of its declared range, so the
same models and the same count serve every task. A sum of errors divided by the range would have the same sensitivity,
but sets of columns usually differ less in it, so noise would hide more. If nearly all targets are on one side of the
middle, all sets score alike; `worth` uses the target itself, and `cfs_greedy` several bins of it.

Paper: Bao, Bauer and Bindschaedler, On the importance of architecture and feature selection in differentially private
machine learning, section VIII-B. There fitness is exact accuracy on the test rows, and the cost counts only the models
that happened to be trained; neither is private.
Privacy: (epsilon, delta) for one row added or removed. At most `models` sets are tried, a number fixed before the rows
are read, and all of them are charged. Each costs Pure(1 / noise) for the training rows (with more than two classes, one
problem for each class at 1 / classes of that epsilon) and one Gaussian(noise) for the validation rows, whose count of
correct predictions one row changes by at most 1. With DP-SGD each model has its own Poisson sample and its own noise in
each step. So it costs `steps` Gaussian releases, sampled at `rate`, for the training rows. A row of `size` columns and
a constant has a norm of at most sqrt(size + 1), which bounds its gradient (sqrt(2) times that for the softmax of
several classes). Gradients are summed without rounding errors. Predictions are computed without rounding, so no row
changes the prediction of another. A random draw makes each row either a training row or a validation row, so the total
cost is the larger of the two costs. Without `adaptive` no set depends on an earlier score: a secret random number of
sets, `models` on average (logarithmic distribution), is sampled independently, their counts get Laplace noise, and only
the best set is released. This is private selection. By objective perturbation, which is pure, it costs at most twice as
much as a single model, whatever the number of models.
Use when: columns are many, there are tens of thousands of rows, and a linear model follows. For small data the cost of
hundreds of models leaves only noise: use private selection (`adaptive=False`), or `cfs_greedy`, which is one release.

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
from privaware._validate import expect_between, expect_count, expect_in, expect_one_of
from privaware.data import Data
from privaware.events import Disjoint, Event, Gaussian, Laplace, Pure, Selected
from privaware.exact_sums import MANTISSA, MARGIN, Lattice, outer_sum
from privaware.features.onehot import OneHot
from privaware.learners._convex.bounded_rows import SLOPES, lattice_slopes, outputs, slope_bounds, targets
from privaware.learners.objective_perturbation import fit_many
from privaware.model import scaled
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.selectors import Selector
from privaware.selectors._genetic import Evolution, expect_search
from privaware.selectors._tables import chosen, expect_table, limit, owners

__all__ = ["Pafs"]

FITNESSES = ("objective_perturbation", "dpsgd")
"""The ways to train the model of a set."""

SETS_PER_BATCH = 4096
"""Number of sets of columns whose models are trained together."""

ENTRIES = Lattice(bound=1.0, bits=20)
"""Multiples of 2^-20 in [-1, 1], to which entries of validation rows and, for DP-SGD, of training rows are rounded."""


@dataclass(frozen=True, kw_only=True)
class Pafs(Selector):
    """Privacy-aware selection of columns by the noisy accuracy of private models.

    Parameters
    ----------
    columns : int, optional
        Largest number of columns that are selected; by default all columns may be.
    population, generations : int
        Number of sets in a generation, and number of generations.
    models : int, optional
        Number of sets that are charged, by default `population * generations`; never more than there are possible sets.
        Without `adaptive` it is the expected number of sets (at least 2).
    adaptive : bool
        Whether later sets depend on earlier scores; otherwise private selection among random sets is used.
    fitness : str
        How models are trained: "objective_perturbation" or "dpsgd".
    steps : int
        Number of steps of DP-SGD.
    rate : float
        Sampling rate of DP-SGD, above 0 and at most 1.
    learning_rate : float
        Learning rate of DP-SGD. It trains on rows divided by sqrt(size + 1), where `size` is the number of columns in
        the set.
    held_out : float
        Fraction of the rows used for validation.
    keep : float
        Fraction of a generation that become parents; at least two sets do.
    crossover, mutation : float
        Probabilities that a child is a crossover of two parents, or a mutation of one.
    """

    columns: int | None = None
    population: int = 600
    generations: int = 10
    models: int | None = None
    adaptive: bool = True
    fitness: str = "objective_perturbation"
    steps: int = 40
    rate: float = 0.05
    learning_rate: float = 2.0
    held_out: float = 0.3
    keep: float = 0.2
    crossover: float = 0.7
    mutation: float = 0.2

    def __post_init__(self) -> None:
        expect_search("pafs", self)
        expect_count("pafs", optional=True, models=self.models)
        expect_between("pafs", 0.01, 0.99, held_out=self.held_out)
        expect_one_of("pafs", FITNESSES, fitness=self.fitness)
        expect_count("pafs", steps=self.steps)
        expect_in("pafs", "(0, 1]", rate=self.rate)
        expect_between("pafs", 1e-6, 1e6, learning_rate=self.learning_rate)

    def cost(self, schema: Schema, noise: float) -> Event:
        problems, models = outputs(schema), self.trial_count(schema)
        train: Event = problems * Pure(epsilon=1 / (noise * problems))
        if self.fitness == "dpsgd":
            train = self.steps * Gaussian(noise=self.step_noise(noise)).sampled(rate=self.rate)
        if not self.adaptive:
            once = Disjoint(events=(train, Laplace(noise=noise)))
            return Selected(event=once, distribution="logarithmic", mean=_mean(models))
        return Disjoint(events=(models * train, models * Gaussian(noise=noise)))

    def trial_count(self, schema: Schema) -> int:
        """Return the number of sets that are charged, which is at most the number of possible sets.

        Without `adaptive`, the expected number of trials is the returned number, but at least 2. Raise `WrongInput`
        unless `schema` is a table with columns.
        """
        expect_table(schema)
        width, most = len(schema.used), limit(self.columns, schema)
        requested = self.models or self.population * self.generations
        return min(requested, sum(math.comb(width, size) for size in range(1, most + 1)))

    def step_noise(self, noise: float) -> float:
        """Return the noise multiplier of one step of DP-SGD.

        It is `noise * min(1, rate * sqrt(steps))` with `adaptive`, and `noise` otherwise. Thousands of models need a
        large noise multiplier. Then a model costs about as much as its score if the noise multiplier of a step is `rate
        * sqrt(steps)` times the noise multiplier of its score.
        """
        return noise * (min(1.0, self.rate * math.sqrt(self.steps)) if self.adaptive else 1.0)

    def run(self, data: Data, noise: float, rng: Rng) -> tuple[str, ...]:
        models = self.trial_count(data.schema)
        count = _secret_count(models, rng)  # sampled before anything is computed from rows
        train, validation = _halved(data).split(rng, (1 - self.held_out, self.held_out))
        trials = _Trials(self, train, validation, noise, rng, models)
        search = Evolution.of(self, limit(self.columns, data.schema))
        width = len(data.schema.used)
        if self.adaptive:
            best = search.search(width, trials.fitness, rng.initial)
        else:
            best = trials.best(search, width, count)
        return chosen(data.schema, best)


class _Trials:
    """The training and validation rows of a selection, and the noisy scores of the sets of columns tried so far.

    At most `left` more sets can be tried by `fitness`. `settings` is the `Pafs` whose settings train the models.
    `noise` is the noise multiplier of a score, and `1 / noise` the epsilon of the models of one set by objective
    perturbation.
    """

    def __init__(self, settings: Pafs, train: Data, validation: Data, noise: float, rng: Rng, left: int) -> None:
        self.settings, self.schema, self.noise, self.rng, self.left = settings, train.schema, noise, rng, left
        self.rows, self.validation_rows = _encoded(train), ENTRIES.round(_encoded(validation))
        self.goal, self.validation_labels = targets(train, 1.0), targets(validation, 1.0) > 0
        self.owner = owners(train.schema, 0)
        self.scores: dict[bytes, float] = {}

    def fitness(self, masks: np.ndarray) -> np.ndarray:
        """Return the noisy scores of the sets in `masks`, a boolean matrix (sets, columns).

        Models are trained for each set that has no score yet, until as many sets as were charged have been tried. Then
        sets without a score get -inf.
        """
        keys = [line.tobytes() for line in np.packbits(masks, axis=1)]
        new = {key: at for at, key in enumerate(keys) if key not in self.scores}
        fresh = list(new.values())[: self.left]
        if fresh:
            self.left -= len(fresh)
            scores = self._noisy_scores(masks[fresh])
            self.scores |= {keys[at]: float(score) for at, score in zip(fresh, scores, strict=True)}
        return np.array([self.scores.get(key, -np.inf) for key in keys])

    def best(self, search: Evolution, width: int, count: int) -> np.ndarray:
        """Return the set of highest noisy score among `count` independent random sets, or all columns if `count` is 0.

        `search` draws the sets among `width` columns. No score is cached, so each set is a trial of its own.
        """
        top, winner = -np.inf, np.ones(width, dtype=bool)
        for at in range(0, count, SETS_PER_BATCH):
            batch = replace(search, population=min(SETS_PER_BATCH, count - at))
            masks = batch.first(width, self.rng.initial)
            scores = self._noisy_scores(masks, pure=True)
            if scores.max() > top:
                top, winner = float(scores.max()), masks[int(scores.argmax())]
        return winner

    def _noisy_scores(self, masks: np.ndarray, *, pure: bool = False) -> np.ndarray:
        """Train one private model on each set of columns in `masks`; return noisy counts of correct predictions.

        A row of the boolean matrix `masks` (sets, columns) is one set. The predictions are for the validation rows. The
        noise is Laplace noise with `pure`, else Gaussian noise.
        """
        problems, sets = len(self.goal), len(masks)
        wide = np.hstack([masks[:, self.owner], np.ones((sets, 1), dtype=bool)])
        train = self._by_descent if self.settings.fitness == "dpsgd" else self._by_objective_perturbation
        weights = train(wide, np.sqrt(masks.sum(axis=1) + 1.0))
        margins = exact_products(weights, self.validation_rows).reshape(problems, sets, len(self.validation_rows))
        if problems == 1:
            correct = (margins[0] > 0) == self.validation_labels
        else:
            correct = margins.argmax(axis=0) == self.validation_labels.argmax(axis=0)
        exact_counts = correct.sum(axis=1).astype(float)
        one = np.ones(sets)
        release: Any = self.rng.laplace if pure else self.rng.gaussian
        return np.asarray(release(exact_counts, noise=self.noise * one, sensitivity=one))

    def _by_objective_perturbation(self, masks: np.ndarray, norms: np.ndarray) -> np.ndarray:
        """Return weights (problems * sets, entries) of models trained by objective perturbation, problem after problem.

        `masks` (sets, entries) are the entries of a one-hot row that each model uses, and `norms` (sets,) bound the
        norms of masked rows. There is one problem for each class if there are more than two classes, otherwise one.
        """
        problems, sets = len(self.goal), len(masks)
        return fit_many(
            self.rows,
            np.repeat(self.goal, sets, axis=0),
            masks=np.tile(masks, (problems, 1)),
            epsilons=np.full(problems * sets, 1 / (self.noise * problems)),
            rng=self.rng,
            norm=np.tile(norms, problems),
        )

    def _by_descent(self, masks: np.ndarray, norms: np.ndarray) -> np.ndarray:
        """Return the weights that DP-SGD finds, summed over steps: (problems * sets, entries), problem after problem.

        `masks` (sets, entries) are the entries that each model uses, and `norms` (sets,) bound the norms of masked
        rows. A model predicts the same with the sum of its weights over steps as with their mean.
        """
        settings, rows = self.settings, ENTRIES.round(self.rows)
        problems, (sets, width) = len(self.goal), masks.shape
        weights = np.zeros((sets, problems, width))
        total = np.zeros_like(weights)
        expected = settings.rate * (1 - settings.held_out) * self.schema.rows
        sensitivity = norms[:, None] * slope_bounds(self.schema)[0]
        noise = np.full((sets, 1), settings.step_noise(self.noise))
        for _ in range(settings.steps):
            samples = (np.flatnonzero(self.rng.poisson(len(rows), settings.rate)) for _ in masks)
            exact_sums = np.array(
                [
                    masks[at] * _slope_sums(self.schema, rows[sample], weights[at], self.goal[:, sample])
                    for at, sample in enumerate(samples)
                ]
            )
            noisy = self.rng.gaussian(exact_sums.reshape(sets, -1), noise=noise, sensitivity=sensitivity)
            step = settings.learning_rate / (expected * norms**2)
            weights -= step[:, None, None] * masks[:, None] * noisy.reshape(weights.shape)
            total += weights
        return total.transpose(1, 0, 2).reshape(problems * sets, width)


def _slope_sums(schema: Schema, rows: np.ndarray, weights: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return the exact sums (problems, entries) over `rows` of the gradients of the loss.

    `weights` (problems, entries) are public.

    Entries of `rows` are multiples of 2^-20 (`ENTRIES`), and `goal` (problems, rows) are targets as `targets` returns
    them. Gradients are scaled by `1 - MARGIN`, which leaves room for the rounding of the total.
    """
    slopes = (1 - MARGIN) * lattice_slopes(schema, exact_products(weights, rows), goal)
    return np.asarray(outer_sum(SLOPES.round(slopes).T, rows, SLOPES, ENTRIES))


def exact_products(weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return weights (models, columns) times rows (rows, columns) as (models, rows), without rounding errors.

    The weights are released. Entries of `rows` are multiples of 2^-20 (`ENTRIES`), and the weights are rounded to
    multiples of a power of two that keeps all products exact. The predicted class of a row is then a function of the
    row and the release alone, not of the row's position.
    """
    bits = MANTISSA - ENTRIES.bits - math.ceil(math.log2(rows.shape[1]))
    public = Lattice(bound=max(float(np.abs(weights).max(initial=0.0)), 2.0**-99), bits=bits)
    return np.asarray(public.round(weights) @ rows.T)


def _mean(models: int) -> float:
    """Return the mean number of trials of the logarithmic distribution: `models`, but at least 2."""
    return max(float(models), 2.0)


def _secret_count(models: int, rng: Rng) -> int:
    """Return a random number of trials from the logarithmic distribution with mean `_mean(models)`; it stays secret."""
    selected = Selected(event=Pure(epsilon=1.0), distribution="logarithmic", mean=_mean(models))
    eta, gamma = accounting.trial_count_parameters(selected)
    return rng.runs(eta=eta, gamma=gamma)


def _encoded(data: Data) -> np.ndarray:
    """Return one-hot rows with a constant 1 as last entry, (rows, entries), in float64.

    Each column, and the constant, adds at most 1 to a row's squared norm.
    """
    rows = OneHot(norm=math.sqrt(OneHot().squares(data.schema)))(data.x, data.schema)
    return np.hstack([rows.astype(float), np.ones((len(data), 1))])


def _halved(data: Data) -> Data:
    """Return data with two classes instead of a regression target: at most, or above, the middle of its range.

    Other data are returned as they are. Raise `WrongInput` if a regression has no declared range.
    """
    if data.schema.classes:
        return data
    schema = replace(data.schema, classes=("low", "high"), low=None, high=None)
    return replace(data, schema=schema, y=(scaled(data.y, data.schema) > 0).astype(np.int64))
