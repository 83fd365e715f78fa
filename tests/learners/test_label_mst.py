"""Randomised response among the likeliest classes: candidates, stages, price, and what public code does wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privaware import accounting
from privaware.data import Data
from privaware.events import Disjoint, Pure, RandomisedResponse
from privaware.learners.label_mst import LabelMst, candidates
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import Recorder, rows_for
from tests.noise.response_table import response_probabilities

TABLE = Schema(
    columns=(Column(name="a", low=-1, high=1), Column(name="b", low=-1, high=1)),
    classes=("n", "y"),
    rows=600,
    unit="label",
)
SMALL = {"name": "fcn", "hidden": [4]}


def separable(rows: int = 600) -> Data:
    data = rows_for(TABLE, rows, seed=1)
    return replace(data, y=(data.x[:, 0] > data.x[:, 1]).astype(np.int64))


@pytest.mark.parametrize("classes", range(2, 11))
def test_response_with_any_prior_is_epsilon_also_with_ties(classes: int) -> None:
    """All pairs of labels and all responses, with the candidates that priors of all kinds lead to."""
    rng, epsilon = np.random.default_rng(classes), 1.0
    priors = [rng.dirichlet(np.full(classes, spread)) for spread in (0.05, 0.3, 1.0, 10.0) for _ in range(4)]
    priors += [np.full(classes, 1 / classes), np.eye(classes)[1], np.repeat([0.5, 0.0], [2, classes - 2])]
    counts = set()
    for allowed in candidates(np.array(priors), epsilon):
        table = response_probabilities(allowed, epsilon)[:, allowed]
        ratio = (table.max(axis=0) / table.min(axis=0)).max()
        assert ratio == pytest.approx(math.exp(epsilon) if allowed.sum() > 1 else 1.0, rel=1e-12)
        counts.add(int(allowed.sum()))
    assert {1, 2, classes} <= counts


def test_candidates_keep_the_most_true_labels() -> None:
    prior, epsilon = np.random.default_rng(0).dirichlet(np.full(6, 0.4), size=200), 1.3
    for row, allowed in zip(prior, candidates(prior, epsilon), strict=True):
        kept = [np.sort(row)[::-1][:k].sum() / (1 + (k - 1) * math.exp(-epsilon)) for k in range(1, 7)]
        assert row[allowed].sum() / (1 + (allowed.sum() - 1) * math.exp(-epsilon)) == pytest.approx(max(kept))
        assert row[allowed].min() >= row[~allowed].max(initial=0.0)
        chance = (row * np.diag(response_probabilities(allowed, epsilon))).sum()
        assert chance == pytest.approx(max(kept))


def test_candidates_of_a_row_do_not_depend_on_other_rows() -> None:
    """Public code ranks the classes of every row as those of one row."""
    prior = np.random.default_rng(0).dirichlet(np.full(5, 0.4), size=50)
    together = candidates(prior, 1.0)
    assert all(np.array_equal(candidates(row[None], 1.0)[0], together[at]) for at, row in enumerate(prior))
    assert np.array_equal(candidates(prior[:, ::-1], 1.0)[:, ::-1], together)


def test_uniform_prior_keeps_all_classes_and_certain_prior_one() -> None:
    """Official code divides by one candidate too few and prefers small sets."""
    for classes in range(2, 11):
        assert candidates(np.full((1, classes), 1 / classes), 1.0).all()
        assert candidates(np.eye(classes), 1.0).tolist() == np.eye(classes, dtype=bool).tolist()
    everything = response_probabilities(np.ones(10, bool), 1.0)
    assert everything[0, 0] == pytest.approx(0.23197, abs=5e-6)
    two = math.exp(-1.0) / (1 + math.exp(-1.0))  # at this share of the second class a pair is as good as the first
    for share, count in ((two - 1e-6, 1), (two + 1e-6, 2)):
        assert candidates(np.array([[1 - share, share]]), 1.0).sum() == count


@pytest.mark.parametrize("epsilon", [100.0, 1000.0])
def test_large_epsilon_keeps_every_label_whatever_the_prior(epsilon: float) -> None:
    """A network may be sure of a wrong class: probabilities below the rounding of 1 still count."""
    assert candidates(np.array([[1.0, 1e-20, 1e-30], [1.0, 1e-40, 1e-17]]), epsilon).all()


def test_stages_are_random_and_each_label_is_randomised_once() -> None:
    """Public code takes contiguous slices of the file."""
    rng, data = Recorder(0), separable(200)
    LabelMst(epochs=1, architecture=SMALL, stages=(1, 1, 2)).run(data, 1.0, rng)
    split, *responses = rng.calls
    assert [call.kind for call in rng.calls] == ["shards", *["respond"] * 3]
    parts = split.exact
    assert [len(call.exact) for call in responses] == np.bincount(parts).tolist()
    for at, call in enumerate(responses):
        assert np.array_equal(call.exact, data.y[parts == at])
    assert np.bincount(parts) / 200 == pytest.approx([0.25, 0.25, 0.5], abs=0.1)
    assert (np.diff(parts) != 0).sum() > 50
    first, second = (Recorder(seed) for seed in (1, 2))
    for each in (first, second):
        LabelMst(epochs=1, architecture=SMALL).run(data, 1.0, each)
    assert not np.array_equal(first.calls[0].exact, second.calls[0].exact)


def test_unseeded_runs_randomise_labels_anew() -> None:
    """Official code draws all responses from one fixed seed."""
    learner, data = LabelMst(epochs=1, architecture=SMALL, stages=(1.0,)), separable(200)

    class Kept(Rng):
        responses: Any = None

        def respond(self, exact: np.ndarray, **public: Any) -> np.ndarray:
            self.responses = super().respond(exact, **public)
            return self.responses

    kept = [Kept(), Kept()]
    for rng in kept:
        learner.run(data, 1.0, rng)
    assert not np.array_equal(kept[0].responses, kept[1].responses)


@pytest.mark.parametrize(("noise", "least"), [(0.001, 0.95), (0.5, 0.85)])
def test_labels_are_true_at_a_large_epsilon_and_are_learnt(noise: float, least: float) -> None:
    rows, rng = separable(), Recorder(0)
    model = LabelMst(epochs=20).run(rows, noise, rng)
    assert (model.predictions(rows) == rows.y).mean() > least
    responses = [call for call in rng.calls if call.kind == "respond"]
    true = all(np.array_equal(call.exact, call.returned) for call in responses)
    assert true == (noise == 0.001)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0, 2000.0])
def test_price_is_that_of_one_response(epsilon: float) -> None:
    one, two = LabelMst(stages=(1.0,)).cost(TABLE, 1 / epsilon), LabelMst().cost(TABLE, 1 / epsilon)
    assert one == RandomisedResponse(epsilon=epsilon, classes=2)
    assert two == Disjoint(events=(RandomisedResponse(epsilon=epsilon, classes=2), Pure(epsilon=epsilon)))
    assert accounting.epsilon(two, 1e-9) == pytest.approx(epsilon, rel=1e-5)
    assert accounting.epsilon(LabelMst(stages=(1, 1, 1)).cost(TABLE, 1 / epsilon), 1e-5) <= epsilon
