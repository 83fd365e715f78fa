"""The solver of figure 3 finds the minimisers that the package finds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from privaware.learners._convex import Problems

torch = pytest.importorskip("torch")


def table() -> Any:
    drawn = np.random.default_rng(0)
    x = (drawn.random((300, 4)) < 0.4).astype(float)  # many rows alike
    y = (x[:, 0] + drawn.random(300) > 0.8).astype(np.int64)
    return SimpleNamespace(
        x=x[:200], y=y[:200], x_test=x[200:], y_test=y[200:], norms=lambda m: np.sqrt(m.sum(1) + 1.0)
    )


def test_rows_alike_taken_once_lead_to_the_same_minimum() -> None:
    from benchmarks._newton import Newton

    given, mask = table(), np.array([True, False, True, True])
    solver = Newton(given, "cpu")
    keep = torch.tensor([0, 2, 3, 4])
    problem = solver._problem(keep)
    assert len(problem.rows) < 20
    assert float(problem.count.sum()) == 200
    tilt, ridge = solver._noise(mask, np.array([0.1, 1.0, 50.0]))
    found = solver._solved(problem, tilt, ridge, None).numpy()
    rows = np.hstack([given.x[:, mask], np.ones((200, 1))])
    plain = Problems(
        rows=rows,
        targets=2.0 * given.y[None] - 1,
        loss="logistic",
        ridge=ridge.numpy()[:, 0],
        masks=np.ones((3, 4), bool),
        norm=np.full(3, 2.0),
        tolerance=np.full(3, 1e-9),
    )
    assert np.abs(found - plain.solve(tilt.numpy())).max() < 1e-6


def test_shares_of_rows_and_accuracies_are_the_same_numbers() -> None:
    from benchmarks._newton import Newton

    epsilons = np.repeat([5.0, 0.5], 6)
    scores, shares = Newton(table(), "cpu").scores(np.ones(4, bool), epsilons)
    assert shares.mean(axis=1) == pytest.approx([scores[6:].mean(), scores[:6].mean()])
