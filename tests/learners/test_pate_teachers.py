"""Teachers: each a function of its own rows, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from privaware import models
from privaware.learners import pate
from privaware.learners._networks.plain_descent import PlainDescent
from privaware.learners.pate import Teachers
from privaware.noise import Rng

DESCENT = PlainDescent(steps=12, batch=8, lr=0.2, decay=1e-4)
FLAT = {"name": "fcn", "inputs": 6, "hidden": [8], "outputs": 3, "dropout": 0.2}
IMAGES = {"name": "simple_cnn", "inputs": [1, 8, 8], "outputs": 3, "filters": [4, 4], "hidden": [8], "groups": 2}
SHAPES = {"fcn": (6,), "simple_cnn": (1, 8, 8)}
TEACHERS = 5


def teachers(architecture: dict[str, Any]) -> Teachers:
    described = models.parse(architecture).describe()
    return Teachers(count=TEACHERS, architecture=described, descent=DESCENT)


def rows_of(architecture: dict[str, Any], count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, *SHAPES[architecture["name"]])).astype(np.float32)
    return rows, rng.integers(0, 3, count)


@pytest.mark.parametrize("architecture", [FLAT, IMAGES], ids=lambda each: each["name"])
@pytest.mark.parametrize("value", [0.5, 3e38, np.nan])
def test_a_row_moves_the_vote_of_its_own_teacher_only(architecture: dict[str, Any], value: float) -> None:
    """A row more in front of all others; one teacher has no row at all."""
    rows, labels = rows_of(architecture, 60, seed=0)
    pool, _ = rows_of(architecture, 200, seed=1)
    shard = np.random.default_rng(2).integers(0, TEACHERS - 1, 60)
    row = np.full((1, *rows.shape[1:]), value, np.float32)
    before = teachers(architecture).votes(rows, labels, shard, pool, Rng(seed=3))
    moved = [
        teachers(architecture).votes(
            np.concatenate([row, rows]), np.append(0, labels), np.append(own, shard), pool, Rng(seed=3)
        )
        - before
        for own in range(TEACHERS)
    ]
    assert np.abs(moved).sum(axis=2).max() <= 2
    assert np.abs(moved).sum() > 0


@pytest.mark.parametrize("architecture", [FLAT, IMAGES], ids=lambda each: each["name"])
def test_other_teachers_are_the_same_bit_for_bit(architecture: dict[str, Any]) -> None:
    rows, labels = rows_of(architecture, 40, seed=0)
    parts = [np.arange(0, 10), np.arange(10, 40), np.empty(0, np.int64)]
    modules = [models.build(architecture, np.random.default_rng(at)) for at in range(3)]

    def trained(values: np.ndarray, parts: list[np.ndarray]) -> list[Any]:
        return DESCENT.run_population(modules, values, labels, Rng(seed=1), parts=parts)

    other = rows.copy()
    other[:10] = 3e38  # also the row that the empty part is filled up with
    before, after = trained(rows, parts), trained(other, [parts[0][:7], *parts[1:]])
    for at, same in ((0, False), (1, True), (2, True)):
        pairs = zip(before[at].parameters(), after[at].parameters(), strict=True)
        assert all(torch.equal(one, two) for one, two in pairs) == same


def test_teachers_learn_from_their_own_rows() -> None:
    """Each sees one label only, and votes for it."""
    rows, _ = rows_of(FLAT, 90, seed=0)
    shard = np.arange(90) % 3
    described = models.parse({**FLAT, "dropout": 0.0}).describe()
    three = Teachers(count=3, architecture=described, descent=DESCENT)
    assert (three.votes(rows, shard, shard, rows[:20], Rng(seed=0)) == 1).all()


def test_all_teachers_vote_in_populations_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = rows_of(FLAT, 30, seed=0)
    shard = np.arange(30) % TEACHERS
    monkeypatch.setattr(pate, "MEMORY", {"cpu": 8000})
    assert teachers(FLAT)._population((6,)) == 2
    assert (teachers(FLAT).votes(rows, labels, shard, rows, Rng(seed=0)).sum(axis=1) == TEACHERS).all()
