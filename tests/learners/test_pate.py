"""PATE: its cost, its teachers and student, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import leaves
from privaware.learners import pate
from privaware.learners.pate import Pate
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import Recorder, rows_for
from tests.accounting.test_golden import folder
from tests.learners.mnist_subset import mnist

TABLE = Schema(
    columns=(Column(name="a", low=-1, high=1), Column(name="b", low=-1, high=1)), classes=("n", "y"), rows=400
)
SMALL = {"name": "fcn", "hidden": [8]}


def separable(rows: int = 400) -> Data:
    data = rows_for(TABLE, rows, seed=1)
    return replace(data, y=(data.x[:, 0] > data.x[:, 1]).astype(np.int64))


def golden(prefix: str) -> list[Any]:
    file = folder() / "accounting.json"
    rows = json.loads(file.read_text()) if file.exists() else []
    return [pytest.param(row, id=row["id"]) for row in rows if row["id"].startswith(prefix)]


@pytest.mark.parametrize("architecture", [None, SMALL], ids=["ridge", "network"])
@pytest.mark.parametrize("vote", ["gnmax", "lnmax"])
def test_p17_pate_charges_each_query_it_answers(vote: str, architecture: dict[str, Any] | None) -> None:
    data, pool = separable(), rows_for(TABLE, 60, seed=5)
    learner = Pate(teachers=5, queries=40, public=pool, vote=vote, architecture=architecture, teacher_epochs=1, steps=2)
    rng = Recorder(seed=1)
    learner.run(data, 2.0, rng)
    [call] = [call for call in rng.calls if call.kind in ("gaussian", "laplace")]
    [(_, charged)] = list(leaves(learner.cost(TABLE, 2.0)))
    assert len(call.exact) == charged == 40


@pytest.mark.parametrize("row", golden("dpmlbench.pate.lnmax"))
def test_lnmax_costs_what_independent_libraries_say(row: dict[str, Any]) -> None:
    """The golden values at 4, 8 and 100 were rounded up; the benchmark's closed form is dearer still."""
    settings = row["params"]
    event = Pate(queries=settings["queries"], vote="lnmax").cost(TABLE, settings["laplace_scale"] / 2)
    cost = accounting.epsilon(event, settings["delta"])
    loose = row["claimed"]["epsilon"] in (4, 8, 100)
    assert cost == pytest.approx(row["pld_eps"], rel=0.02 if loose else 5e-3)
    assert cost < row["claimed"]["epsilon"]


def test_gnmax_costs_what_independent_libraries_say() -> None:
    """286 queries at a deviation of 40 votes: 3.048 by the classic conversion, 2.642 by the improved one."""
    event = Pate(queries=286).cost(TABLE, 40 / np.sqrt(2))
    bounds = accounting.bounds(event, 1e-5)
    assert bounds["rdp_classic"] == pytest.approx(3.048, rel=5e-3)
    assert bounds["rdp"] == pytest.approx(2.642, rel=5e-3)


def test_confident_pate_pays_for_all_tests_and_a_cap_of_answers() -> None:
    data, pool = separable(), rows_for(TABLE, 60, seed=5)
    learner = Pate(teachers=5, queries=40, answers=7, threshold=0.5, vote="confident_gnmax", public=pool)
    tests, votes = list(leaves(learner.cost(TABLE, 0.5)))
    assert (tests[0].noise, tests[1]) == (2.0, 40)  # type: ignore[attr-defined]
    assert (votes[0].noise, votes[1]) == (0.5, 7)  # type: ignore[attr-defined]
    rng = Recorder(seed=1)
    learner.run(data, 0.5, rng)
    shapes = [call.exact.shape for call in rng.calls if call.kind == "gaussian"]
    assert shapes == [(40,), (7, 2)]
    rng = Recorder(seed=1)
    replace(learner, threshold=1.0, teachers=90).run(data, 1e-3, rng)
    [tested, *voted] = [call for call in rng.calls if call.kind == "gaussian"]
    assert sum(len(call.exact) for call in voted) == min(7, int((np.asarray(tested.returned) >= 90).sum())) < 7


def test_confident_pate_without_a_limit_pays_for_all_votes() -> None:
    learner = Pate(queries=30, vote="confident_gnmax")
    assert [count for _, count in leaves(learner.cost(TABLE, 2.0))] == [30, 30]


@pytest.mark.parametrize("vote", ["gnmax", "lnmax", "confident_gnmax"])
@pytest.mark.parametrize("architecture", [None, SMALL], ids=["ridge", "network"])
def test_pate_student_learns_at_small_noise(vote: str, architecture: dict[str, Any] | None) -> None:
    data, pool = separable(800), rows_for(TABLE, 150, seed=5)
    data = replace(data, schema=replace(TABLE, rows=800))
    settings: dict[str, Any] = {"teacher_epochs": 15, "steps": 100, "lr": 0.2, "batch": 64}
    learner = Pate(teachers=8, queries=100, vote=vote, architecture=architecture, public=pool, **settings)
    model = learner.run(data, 0.3, Rng(seed=0))
    assert accuracy(data.y, model.predictions(data)) > 0.88
    assert model.architecture["name"] == ("linear" if architecture is None else "fcn")


def test_population_of_pate_trains_all_students_at_once() -> None:
    data, pool, steps = replace(separable(800), schema=replace(TABLE, rows=800)), rows_for(TABLE, 150, seed=5), []
    settings: dict[str, Any] = {"teacher_epochs": 15, "steps": 100, "lr": 0.2, "batch": 64, "queries": 100}
    learner = Pate(teachers=8, architecture=SMALL, public=pool, progress=lambda *at: steps.append(at[:2]), **settings)
    quiet, noisy = Pate.run_population([learner] * 2, data, [0.3, 1e4], Rng(seed=0))
    assert accuracy(data.y, quiet.predictions(data)) > 0.88
    assert accuracy(data.y, noisy.predictions(data)) < 0.8
    assert steps.count((100, 100)) == 1


def test_shards_are_no_slices_of_the_file() -> None:
    """Rows sorted by class: contiguous slices would give teachers that know one class only."""
    data = separable()
    data = data.take(np.argsort(data.y, kind="stable"))
    rng = Recorder(seed=0)
    Pate(teachers=4, queries=20, public=rows_for(TABLE, 20, seed=5)).run(data, 1.0, rng)
    [shards] = [np.asarray(call.returned) for call in rng.calls if call.kind == "shards"]
    assert all(set(data.y[shards == teacher]) == {0, 1} for teacher in range(4))


@pytest.mark.parametrize("architecture", [None, {"name": "linear"}], ids=["ridge", "network"])
def test_teachers_see_public_rows_on_the_scale_of_their_own(architecture: dict[str, Any] | None) -> None:
    """Teachers that vote on their own training rows are right; on another scale all would seem light."""
    schema = Schema(form="image", shape=(1, 6, 6), classes=("dark", "light"), rows=200)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    x = 0.2 + 0.4 * y[:, None, None, None] + 0.02 * rng.standard_normal((200, 1, 6, 6))
    x[..., 0] = 0.9  # beside which rows of norm 1 differ too
    x = x.clip(0, 1).astype(np.float32)
    data, recorder = Data(schema=schema, x=x, y=y), Recorder(seed=0)
    Pate(teachers=3, queries=200, architecture=architecture, public=data, steps=1).run(data, 1.0, recorder)
    [votes] = [call.exact for call in recorder.calls if call.kind == "gaussian"]
    assert accuracy(y, votes.argmax(axis=1)) > 0.97


def test_nothing_of_one_run_is_used_in_another() -> None:
    """The same public rows and settings, other private rows: predictions of teachers are not remembered."""
    data, pool = separable(), rows_for(TABLE, 40, seed=5)
    learner = Pate(teachers=4, queries=40, public=pool)
    votes = []
    for rows in (data, replace(data, y=1 - data.y), data):
        rng = Recorder(seed=0)
        learner.run(rows, 1.0, rng)
        votes.append(next(call.exact for call in rng.calls if call.kind == "gaussian"))
    assert (votes[0] == votes[2]).all()
    assert accuracy(votes[0].argmax(axis=1), votes[1].argmax(axis=1)) < 0.2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"vote": "max"}, "vote among lnmax"),
        ({"teachers": 1}, "teachers as a whole number >= 2"),
        ({"threshold": 1.5}, r"threshold in \(0, 1\]"),
        ({"answers": 0}, "answers as a whole number"),
        ({"temperature": 0.0}, "temperature"),
        ({"queries": 200, "public": rows_for(TABLE, 10)}, "at least 200 public rows"),
    ],
)
def test_pate_refuses_wrong_settings_before_anything_runs(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongInput, match=words):
        Pate(**settings)


def test_wrong_architecture_is_refused_before_the_charge() -> None:
    with pytest.raises(WrongInput, match="simple_cnn"):
        Pate(architecture={"name": "simple_cnn"}).cost(TABLE, 1.0)


def test_teachers_without_a_solution_raise_no_error() -> None:
    """Equal rows and hardly any ridge: whether equations are singular depends on rows, so no error may tell it."""
    pool = rows_for(TABLE, 20, seed=5)
    same = Data(schema=TABLE, x=np.full((40, 2), 0.5), y=np.zeros(40, dtype=np.int64))
    model = Pate(teachers=2, queries=20, ridge=1e-300, public=pool).run(same, 1.0, Rng(seed=0))
    assert np.isfinite(model.tensors["output.weight"]).all()
    assert pate.ridge(np.zeros((0, 3)), np.zeros(0, np.int64), 2, 1.0)[0].shape == (2, 3)


MNIST_NETWORK = {"architecture": SMALL | {"hidden": [32], "activation": "tanh"}, "teacher_epochs": 12, "steps": 80}


@pytest.mark.parametrize(
    ("settings", "least"),
    [({}, 0.5), pytest.param(MNIST_NETWORK, 0.35, marks=pytest.mark.slow)],
    ids=["ridge", "network"],
)
def test_mnist_is_learnt_at_epsilon_eight(settings: dict[str, Any], least: float) -> None:
    """Mean of three seeds; the private constant is right for one in nine."""
    rows, test = mnist(4000)
    data = replace(rows.take(np.arange(3000)), schema=replace(rows.schema, rows=3000))
    public = rows.take(np.arange(3000, 3600))
    learner = Pate(teachers=40, queries=80, lr=0.02, batch=64, public=public, **settings)
    noise = accounting.calibrate(lambda noise: learner.cost(data.schema, noise), 8.0, 1e-5)
    scores = [accuracy(test.y, learner.run(data, noise, Rng(seed=at)).predictions(test)) for at in range(3)]
    assert np.mean(scores) > least
