"""A killed run of an ensemble or a synthesis goes on behind what it released: no noise is drawn for that again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from privaware import fit
from privaware.errors import WrongInput
from privaware.learners._networks import score_network as _score_network
from privaware.learners._networks.condensation import _Steps
from privaware.learners._networks.journal import ReleaseJournal
from privaware.learners._networks.plain_descent import PlainDescent
from privaware.learners.dpgen import DpGen
from privaware.learners.pate import Pate
from privaware.learners.private_knn import PrivateKnn
from privaware.learners.private_set import PrivateSet
from privaware.ledger import Ledger
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.testing import rows_for

SCHEMA = Schema(form="image", shape=(1, 4, 4), classes=("no", "yes"), rows=40)
ROWS, PUBLIC = rows_for(SCHEMA, 40), rows_for(SCHEMA, 20, seed=5)
LINEAR = {"name": "linear"}
STUDENT: dict[str, Any] = {"architecture": LINEAR, "steps": 2, "public": PUBLIC}
LEARNERS: dict[str, Any] = {
    "pate": Pate(teachers=2, queries=5, teacher_epochs=1, **STUDENT),
    "private_knn": PrivateKnn(queries=5, stages=2, neighbours=3, **STUDENT),
    "private_set": PrivateSet(
        networks=2, rounds=1, queries=2, per_class=1, inner=1, steps=2, architecture=LINEAR, matching=LINEAR
    ),
    "dpgen": DpGen(
        variant="corrected", score={"steps": 2, "levels": 2, "langevin": 1}, samples=8, steps=2, architecture=LINEAR
    ),
}


class Killed(BaseException):
    """In place of a signal."""


def kill_the_last_training(monkeypatch: pytest.MonkeyPatch, learner: Any) -> None:
    """The training behind the last release does not end; teachers and earlier students do."""
    real, trained = PlainDescent.run_population, []
    before = {"Pate": 1, "PrivateKnn": 1}.get(type(learner).__name__, 0)

    def run(self: PlainDescent, *arguments: Any, **more: Any) -> Any:
        trained.append(1)
        if len(trained) > before:
            raise Killed
        return real(self, *arguments, **more)

    monkeypatch.setattr(PlainDescent, "run_population", run)


def killed(*arguments: Any) -> Any:
    raise Killed


def noiseless(self: Rng, *arguments: Any, **more: Any) -> Any:
    raise AssertionError("noise was drawn a second time")


@pytest.mark.parametrize("name", LEARNERS)
def test_killed_run_goes_on_without_a_second_release(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = replace(LEARNERS[name], journal=tmp_path / "run")
    with monkeypatch.context() as patched:
        kill_the_last_training(patched, learner)
        with pytest.raises(Killed):
            learner.run(ROWS, 1.0, Rng(seed=1))
    kept = sorted((tmp_path / "run").iterdir())
    assert kept
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
    monkeypatch.setattr(Rng, "gaussian", noiseless)
    assert learner.run(ROWS, 1.0, Rng(seed=2)).architecture["name"] == "linear"
    with pytest.raises(WrongInput, match="expected the settings that the run in run was begun with"):
        learner.run(ROWS, 2.0, Rng(seed=2))
    if hasattr(learner, "public"):
        others = replace(learner, public=rows_for(SCHEMA, 20, seed=6))
        with pytest.raises(WrongInput, match="expected the settings that the run in run was begun with"):
            others.run(ROWS, 1.0, Rng(seed=2))  # the labels that were kept are those of other public rows


def test_killed_fit_goes_on_without_a_second_charge_or_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    people, pool = (pd.DataFrame({"a": rng.random(60), "y": rng.choice(["n", "y"], 60)}) for _ in range(2))
    people.to_csv(tmp_path / "people.csv", index=False)
    pool.drop(columns="y").to_csv(tmp_path / "pool.csv", index=False)
    settings = {"teachers": 2, "queries": 5, "teacher_epochs": 1, "steps": 2, "architecture": LINEAR}
    call: dict[str, Any] = {"target": "y", "accept_schema": True, "learner": "pate", "out": tmp_path / "m"}
    call |= {"public": tmp_path / "pool.csv", "epsilon": 1.0, "settings": settings}
    with monkeypatch.context() as patched:
        patched.setattr(Pate, "_trained_students", killed)
        with pytest.raises(Killed):
            fit(tmp_path / "people.csv", **call)
    assert not (tmp_path / "m" / "model.json").exists()
    monkeypatch.setattr(Rng, "gaussian", noiseless)
    fit(tmp_path / "people.csv", **call)
    entries = Ledger.open(tmp_path / "people.csv.ledger").entries()
    assert [entry.kind for entry in entries] == ["created", "spend", "finished"]
    assert not list((tmp_path / "m").rglob("*.npz"))


def test_condensation_goes_on_behind_the_last_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = replace(LEARNERS["private_set"], networks=3, journal=tmp_path / "run")
    real, matched = _Steps.match, []

    def match(self: _Steps, private: dict[str, torch.Tensor]) -> None:
        matched.append(1)
        if len(matched) == 5:
            raise Killed
        real(self, private)

    monkeypatch.setattr(_Steps, "match", match)
    with pytest.raises(Killed):
        learner.run(ROWS, 1.0, Rng(seed=1))
    learner.run(ROWS, 1.0, Rng(seed=2))
    assert len(matched) == 5 + 2  # of six queries, four were of networks that were finished


def test_score_network_goes_on_behind_the_last_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score = {"steps": 6, "levels": 2, "langevin": 1}
    learner = replace(LEARNERS["dpgen"], score=score, journal=tmp_path / "run")
    steps: list[int] = []

    def stop(step: int, of: int, left: float, what: str = "") -> None:
        if what == "score network":
            steps.append(step)
            if len(steps) == 4:
                raise Killed

    monkeypatch.setattr(_score_network, "KEPT_EVERY", 0.0)
    with pytest.raises(Killed):
        replace(learner, progress=stop).run(ROWS, 1.0, Rng(seed=1))
    replace(learner, progress=stop).run(ROWS, 1.0, Rng(seed=2))
    assert steps == [1, 2, 3, 4, 4, 5, 6]  # the fourth state was not kept


def test_score_network_that_goes_on_has_the_same_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_score_network, "KEPT_EVERY", 0.0)
    gradients = [torch.full((1, 2), value) for value in (1.0, -3.0, 0.5, 2.0)]

    def trained(steps: int, rest: list[torch.Tensor], journal: ReleaseJournal | None) -> torch.Tensor:
        layer, given = torch.nn.Linear(2, 1, bias=False), iter(rest)
        torch.nn.init.zeros_(layer.weight)
        training = _score_network.ScoreTraining(steps=steps, lr=0.1, ema=0.5)
        averaged = training.run(layer, lambda: [next(given)], journal)
        return torch.cat([values.detach() for values in (*layer.parameters(), *averaged.parameters())])

    journal = ReleaseJournal(tmp_path / "run", ())
    trained(2, gradients[:2], journal)
    assert torch.equal(trained(4, gradients[2:], journal), trained(4, gradients, None))


def test_models_of_a_population_are_releases_of_their_own(tmp_path: Path) -> None:
    learner = replace(LEARNERS["pate"], journal=tmp_path / "run")
    first, second = learner.run_population([learner, learner], ROWS, [1.0, 1.0], Rng(seed=1))
    assert not (tmp_path / "run").exists()
    assert not np.array_equal(*(next(iter(model.tensors.values())) for model in (first, second)))


def test_without_a_folder_nothing_is_kept() -> None:
    journal = ReleaseJournal(None, ())
    assert journal.kept("labels", lambda: {"labels": np.ones(2)})["labels"].sum() == 2
    assert journal.load("labels") is None


def test_p55_a_file_of_another_run_is_refused(tmp_path: Path) -> None:
    one, two = (ReleaseJournal(tmp_path / name, ("settings",)) for name in ("one", "two"))
    one.save("labels", {"labels": np.ones(2)})
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    with pytest.raises(WrongInput, match="another run"):
        two.load("labels")


def test_p55_a_fit_of_changed_rows_is_charged_and_noised_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"a": rng.random(60), "y": rng.choice(["n", "y"], 60)})
    people.to_csv(tmp_path / "people.csv", index=False)
    call: dict[str, Any] = {"target": "y", "accept_schema": True, "learner": "dpsgd", "out": tmp_path / "m"}
    call |= {"epsilon": 1.0, "limit": 9.0, "settings": {"steps": 4, "batch": 20, "architecture": LINEAR}}
    with monkeypatch.context() as patched:
        patched.setattr(Model, "of", killed)
        with pytest.raises(Killed):
            fit(tmp_path / "people.csv", **call)
    [kept] = (tmp_path / "m").rglob("*.safetensors")
    spend = Ledger.open(tmp_path / "people.csv.ledger").entries()[1]
    assert kept.parent.name == spend.hash
    people.loc[7, "y"] = "n" if people.loc[7, "y"] == "y" else "y"
    people.to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.setattr(Rng, "restore", killed)  # nothing of the first run goes on
    with pytest.raises(WrongInput, match="belongs to entry 1"):
        fit(tmp_path / "people.csv", **call)
    fit(tmp_path / "people.csv", **{**call, "out": tmp_path / "n"})
    entries = Ledger.open(tmp_path / "people.csv.ledger").entries()
    assert [entry.kind for entry in entries] == ["created", "spend", "spend", "finished"]
    assert entries[1].rows != entries[2].rows
    assert not list((tmp_path / "n").rglob(".search"))
