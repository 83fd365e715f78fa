"""Shadow models see the rows that their masks say, disjoint from the target's, in one population."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from privaware import datasets
from privaware.attacks import ShadowPlan, find_attack, halves_game, membership_game, train_shadows
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Event, Gaussian
from privaware.learners import Learner
from privaware.learners.dpsgd import DpSgd
from privaware.learners.linear import Linear
from privaware.mechanism import Mechanism, Then
from privaware.model import Model
from privaware.models.spaces import Space
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._search import FoundModel, Search, SearchResult
from privaware.strategies.rs import Rs
from privaware.testing import example, rows_for

DATA = rows_for(example(rows=80), 80)
FCN = DpSgd(steps=2, batch=8, architecture={"name": "fcn", "hidden": [4], "dropout": 0.0})


@dataclass(frozen=True, kw_only=True)
class Spy(Learner):
    """A learner that keeps what it was trained on."""

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    seen: list[tuple[Data, float]] = field(default_factory=list)

    def cost(self, schema: Schema, noise: float) -> Event:
        return Gaussian(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        self.seen.append((data, noise))
        return Linear(steps=2).run(data, 1.0, rng)


def keys(data: Data) -> set[bytes]:
    return {row.tobytes() for row in data.x}


def test_target_and_shadow_halves_are_disjoint() -> None:
    spy = Spy()
    posed = membership_game(spy, DATA, noise=1.0, rng=Rng(seed=0), shadows=ShadowPlan(count=3))
    (target, _), *shadows = spy.seen
    assert keys(target) == keys(posed.game.rows.take(posed.inside))
    assert target.schema.rows == len(target) == 20
    assert posed.game.auxiliary is not None
    assert not keys(posed.game.rows) & keys(posed.game.auxiliary)
    for (rows, _), shadow in zip(shadows, posed.game.shadows, strict=True):
        assert keys(rows) == keys(posed.game.auxiliary.take(shadow.auxiliary_inside))
        assert len(rows) == rows.schema.rows == 20
        assert not shadow.inside.any()
    assert not posed.game.online


def test_online_shadows_see_each_candidate_in_half_of_them() -> None:
    spy = Spy()
    posed = membership_game(spy, DATA, noise=1.0, rng=Rng(seed=0), shadows=ShadowPlan(count=6, online=True))
    assert (posed.game.inside.sum(axis=0) == 3).all()
    for (rows, _), shadow in zip(spy.seen[1:], posed.game.shadows, strict=True):
        assert keys(rows) == keys(posed.game.rows.take(shadow.inside))
    assert posed.game.online


def test_population_is_trained_on_the_masked_rows_only() -> None:
    """Rows outside of all masks are replaced by others: the same models."""
    inside = np.zeros((2, 40), dtype=bool)
    inside[0, :20], inside[1, 10:30] = True, True
    posed = membership_game(FCN, DATA, noise=1.0, rng=Rng(seed=0))
    game, auxiliary = posed.game, posed.game.auxiliary
    assert auxiliary is not None
    spoiled = replace(auxiliary, x=np.where(np.arange(40)[:, None] < 30, auxiliary.x, auxiliary.x[:1]))
    plan = ShadowPlan(count=2)
    trained = [
        train_shadows(game, rows, FCN, noise=1.0, rng=Rng(seed=3), plan=plan, inside=inside).shadows
        for rows in (auxiliary, spoiled)
    ]
    for one, two in zip(*trained, strict=True):
        assert all(np.array_equal(one.model.tensors[name], two.model.tensors[name]) for name in one.model.tensors)
    changed = replace(auxiliary, x=auxiliary.x[::-1].copy(), y=auxiliary.y[::-1].copy())
    other = train_shadows(game, changed, FCN, noise=1.0, rng=Rng(seed=3), plan=plan, inside=inside).shadows
    assert not np.array_equal(other[0].model.tensors["output.weight"], trained[0][0].model.tensors["output.weight"])


@pytest.mark.parametrize(("noise", "training"), [(None, "private"), (0.0, "without privacy")])
def test_game_says_whether_its_shadows_are_private(noise: Any, training: str) -> None:
    spy = Spy()
    plan = ShadowPlan(count=2, learner=spy, noise=noise)
    posed = membership_game(FCN, DATA, noise=1.5, rng=Rng(seed=0), shadows=plan)
    assert posed.game.shadow_training == training
    assert [value for _, value in spy.seen] == [1.5 if noise is None else noise] * 2


def test_shadows_repeat_the_selection_of_columns() -> None:
    """Each model is trained after a selection of its own; attacks read the columns that each one takes."""
    columns = {"n": 0}

    class Select:
        def cost(self, schema: Schema, noise: float) -> Event:
            return Gaussian(noise=noise)

        def run(self, data: Data, noise: float, rng: Rng) -> tuple[str, ...]:
            columns["n"] += 1
            return ("age", "town") if columns["n"] % 2 else ("age",)

    pipeline: Mechanism[Model] = Then(first=Select(), second=Linear(steps=3), join=Data.keep)
    posed = membership_game(pipeline, DATA, noise=1.0, rng=Rng(seed=0), shadows=ShadowPlan(count=4, online=True))
    assert columns["n"] == 5
    widths = [len(shadow.model.schema.used) for shadow in posed.game.shadows]
    assert (len(posed.game.model.schema.used), widths) == (2, [1, 2, 1, 2])
    for name in ("threshold", "lira", "rmia", "label_only"):
        assert np.isfinite(find_attack(name)(posed.game, Rng(seed=1))).all()


def test_shadows_are_found_by_searches_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    once = Search.run

    def counted(self: Search, data: Data, noise: float, rng: Rng) -> SearchResult:
        searched.append(len(data))
        return once(self, data, noise, rng)

    monkeypatch.setattr(Search, "run", counted)
    norms = {"choices": {"norm": [0.1, 0.5, 1.0]}, "build": {"norm": "$norm"}}
    space = Space.load({"what": "norms", "learner": "linear", **norms})
    search = Search(space=space, strategy=Rs(trials=2), build=lambda chosen: Linear(steps=3, **chosen), held_out=0.5)
    found = FoundModel(search=search)
    posed = membership_game(found, DATA, noise=1.0, rng=Rng(seed=0), shadows=ShadowPlan(count=4, online=True))
    assert searched == [20] + [int(s.inside.sum() + s.auxiliary_inside.sum()) for s in posed.game.shadows]
    assert found.cost(DATA.schema, 1.0) == search.cost(DATA.schema, 1.0)
    assert np.isfinite(find_attack("lira")(posed.game, Rng(seed=1))).all()


def test_halves_of_the_paper_train_target_and_shadow() -> None:
    spy, dataset = Spy(), datasets.load("digits")
    halves = datasets.halves(dataset)
    posed = halves_game(spy, halves, noise=1.0, rng=Rng(seed=0), shadows=ShadowPlan(count=2, noise=0.0))
    assert [keys(rows) for rows, _ in spy.seen] == [keys(halves.train)] + 2 * [keys(halves.shadow_train)]
    assert [noise for _, noise in spy.seen] == [1.0, 0.0, 0.0]
    assert posed.game.shadow_training == "without privacy"
    assert keys(posed.game.rows.take(~posed.inside)) == keys(halves.test)
    assert keys(posed.game.rows.take(posed.inside)) <= keys(halves.train)
    assert posed.inside.sum() == len(halves.test)
    assert posed.game.auxiliary is not None
    assert not keys(posed.game.auxiliary) & keys(posed.game.rows)


def test_wrong_plans_are_refused() -> None:
    with pytest.raises(WrongInput, match="even count of online shadow models, got 3"):
        ShadowPlan(count=3, online=True)
    with pytest.raises(WrongInput, match="expected noise >= 0"):
        ShadowPlan(noise=-1.0)
    with pytest.raises(WrongInput, match="at least 8 rows"):
        membership_game(FCN, DATA.take(np.arange(7)), noise=1.0, rng=Rng(seed=0))
    posed = membership_game(FCN, DATA, noise=1.0, rng=Rng(seed=0))
    with pytest.raises(WrongInput, match="rows for every shadow model"):
        train_shadows(posed.game, DATA.take(np.arange(1)), FCN, noise=1.0, rng=Rng(seed=0), plan=ShadowPlan())
