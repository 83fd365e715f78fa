"""Membership attacks on the models of a benchmark: the tailored AUC of each attack on each model.

Members are training rows, non-members test rows, as many of each. Attacks that need shadow models get `shadows` of the
cell's network, trained without noise or clipping on rows of the attacker (protocol dpmlbench only, which sets half of
all rows aside for that); learners without a network of their own are their own shadows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from privaware.attacks import Challenge, ShadowPlan, challenge, find_attack, play, train_shadows
from privaware.errors import WrongInput
from privaware.learners import Learner, find_learner
from privaware.model import Model
from privaware.noise import Rng
from privaware.papers import Result, Settings
from privaware.papers._bench_rows import BenchRows

__all__ = ["attack_results"]

NO_CLIPPING = 1e9
SHARED = ("architecture", "features", "steps", "epochs", "batch", "lr", "momentum", "device", "precision")
"""Settings that a shadow network takes from the learner of the cell."""


def attack_results(
    models: Mapping[int, Model], rows: BenchRows, cell: Settings, learner: Learner, rng: Rng, device: str = "cpu"
) -> dict[int, Result]:
    """The AUC of every attack of the cell on each model; all models are of one population and share the shadows."""
    if not cell.get("attacks"):
        return {at: {} for at in models}
    count = min(len(rows.train), len(rows.test))
    members, others = rows.train.take(np.arange(count)), rows.test.take(np.arange(count))
    posed = {at: challenge(model, members, others, rng, device) for at, model in models.items()}
    if cell.get("shadows"):
        posed = _with_shadows(posed, rows, int(cell["shadows"]), learner, rng)
    return {
        at: {f"auc {name}": play(one, find_attack(name), rng, name=name).tailored_auc for name in cell["attacks"]}
        for at, one in posed.items()
    }


def _with_shadows(
    posed: Mapping[int, Challenge], rows: BenchRows, count: int, learner: Learner, rng: Rng
) -> dict[int, Challenge]:
    if rows.shadow_train is None or rows.shadow_test is None:
        raise WrongInput('expected protocol = "dpmlbench" for shadow models, which need rows of the attacker')
    auxiliary = replace(
        rows.shadow_train,
        x=np.concatenate([rows.shadow_train.x, rows.shadow_test.x]),
        y=np.concatenate([rows.shadow_train.y, rows.shadow_test.y]),
    )
    inside = np.tile(np.arange(len(auxiliary)) < len(rows.shadow_train), (count, 1))
    first = next(iter(posed.values())).game
    plan = ShadowPlan(count=count, learner=_shadow_learner(learner), noise=0.0)
    trained = train_shadows(first, auxiliary, learner, noise=0.0, rng=rng, plan=plan, inside=inside)
    return {
        at: replace(
            one,
            game=replace(
                one.game, auxiliary=auxiliary, shadows=trained.shadows, shadow_training=trained.shadow_training
            ),
        )
        for at, one in posed.items()
    }


def _shadow_learner(learner: Any) -> Learner:
    """The cell's network, trained by plain gradient descent."""
    make = find_learner("dpsgd")
    names = {field.name for field in fields(make)} & {field.name for field in fields(learner)}  # type: ignore[arg-type]
    if "architecture" not in names:
        return learner  # type: ignore[no-any-return]
    settings = {name: getattr(learner, name) for name in SHARED if name in names and getattr(learner, name) is not None}
    return make(norm=NO_CLIPPING, **settings)  # type: ignore[call-arg]
