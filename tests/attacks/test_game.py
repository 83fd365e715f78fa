"""Membership games: disjoint parts, masks that tell the truth, and no answer in what an attack sees."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from privaware.attacks import Challenge, Game, Shadow, ShadowPlan, challenge, find_attack, membership_game, play
from privaware.errors import WrongInput
from privaware.learners.additive import Additive
from privaware.learners.boosted import Boosted
from privaware.learners.linear import Linear
from privaware.learners.majority import Majority
from privaware.learners.output_perturbation import OutputPerturbation
from privaware.mechanism import Mechanism
from privaware.model import Model
from privaware.noise import Rng
from privaware.testing import example, rows_for

DATA = rows_for(example(rows=30), 30)


def trained(seed: int) -> Game:
    model = Linear(steps=3).run(DATA, noise=1.0, rng=Rng(seed=seed))
    return Game(model=model, rows=DATA)


def test_members_and_others_are_in_random_order() -> None:
    others = rows_for(example(rows=30), 30, seed=9)
    posed = challenge(trained(0).model, DATA, others, Rng(seed=1))
    assert 5 < posed.inside[:30].sum() < 25
    members = {row.tobytes() for row in DATA.x}
    assert [row.tobytes() in members for row in posed.game.rows.x] == posed.inside.tolist()


def test_what_an_attack_sees_does_not_hold_the_answer() -> None:
    assert "inside" not in {field.name for field in fields(Game)}
    assert "inside" in {field.name for field in fields(Challenge)}


def test_released_model_among_its_shadows_is_refused() -> None:
    game, none = trained(0), np.zeros(0, dtype=bool)
    shadow = Shadow(model=replace(game.model), inside=np.zeros(30, dtype=bool), auxiliary_inside=none)
    with pytest.raises(WrongInput, match="released model among them"):
        replace(game, shadows=(shadow,), shadow_training="private")
    other = replace(shadow, model=trained(1).model)
    assert not replace(game, shadows=(other,), shadow_training="private").online


def test_constants_may_agree_by_chance() -> None:
    model = Majority().run(DATA, noise=0.01, rng=Rng(seed=0))
    shadow = Shadow(model=replace(model), inside=np.ones(30, dtype=bool), auxiliary_inside=np.zeros(0, dtype=bool))
    assert Game(model=model, rows=DATA, shadows=(shadow,), shadow_training="private").online


def test_game_says_how_its_shadows_were_trained() -> None:
    game = trained(0)
    shadow = Shadow(model=trained(1).model, inside=np.ones(30, bool), auxiliary_inside=np.zeros(0, bool))
    with pytest.raises(WrongInput, match="shadow_training"):
        replace(game, shadows=(shadow,))
    with pytest.raises(WrongInput, match="shadow_training"):
        replace(game, shadow_training="private")
    with pytest.raises(WrongInput, match="masks of a shadow model over 30 candidates and 0 auxiliary"):
        replace(game, shadows=(replace(shadow, inside=np.ones(7, bool)),), shadow_training="private")


@pytest.mark.parametrize("learner", [Linear(steps=3), Additive(), Boosted(), OutputPerturbation()])
@pytest.mark.parametrize("classes", [3, 0])
def test_models_of_tables_are_attacked_too(learner: Mechanism[Model], classes: int) -> None:
    """Trees, additive scores and linear models, of classes and of numbers; posteriors of a number are refused."""
    data = rows_for(example(rows=80, classes=classes), 80)
    posed = membership_game(learner, data, noise=1.0, rng=Rng(seed=0), shadows=ShadowPlan(count=4, online=True))
    for name in ("threshold", "lira"):
        assert np.isfinite(play(posed, find_attack(name), Rng(seed=1)).auc)
    for attack in (find_attack("rmia"), find_attack("label_only", queries=1), find_attack("black_box", epochs=1)):
        if classes:
            assert np.isfinite(play(posed, attack, Rng(seed=1)).auc)
        else:
            with pytest.raises(WrongInput, match="expected a model of classes"):
                play(posed, attack, Rng(seed=1))


@pytest.mark.parametrize("inside", [np.ones(30, bool), np.zeros(30, bool), np.ones(7, bool), np.ones(30)])
def test_challenge_needs_both_kinds_of_rows(inside: np.ndarray) -> None:
    with pytest.raises(WrongInput, match="expected"):
        Challenge(game=trained(0), inside=inside)
