"""Membership attacks on the models of a benchmark: the tailored AUC of each attack on each model.

Members are training rows, non-members test rows, as many of each. Attacks that need shadow models get `shadows` of the
cell's network, trained without noise or clipping on rows of the attacker (protocol dpmlbench only, which sets half of
all rows aside for that), with the settings `shadow` of the cell, or the learner's own; learners without a network of
their own are their own shadows. Cells of one network and data set have the same attacker: shadow models and attack
networks are trained once for all of them. An attack is a name, or a table of its `name` and settings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from privaware.attacks import Attack, Challenge, Game, ShadowPlan, challenge, find_attack, play, train_shadows
from privaware.bench import Result, Settings
from privaware.bench._rows import BenchRows
from privaware.errors import WrongInput
from privaware.learners import Learner, find_learner
from privaware.model import Model
from privaware.noise import Rng

__all__ = ["attack_results"]

NO_CLIPPING = 1e9
SHARED = ("architecture", "features", "steps", "epochs", "batch", "lr", "momentum", "device", "precision")
"""Settings that a shadow network takes from the learner of the cell."""


REUSING = ("black_box", "white_box")
"""Attacks whose networks are trained on shadow models alone."""


@dataclass
class Attacker:
    """Shadow models and the networks that attacks trained on them, for all models of one network and data set."""

    key: str
    game: Game
    networks: dict[str, Any] = field(default_factory=dict)

    def rng(self, label: str) -> Rng:
        """For the attack of this name: its network is the same, whichever model is attacked first."""
        return Rng(seed=_number([self.key, label]))


_last: list[Attacker] = []
"""The attacker of the last cell: the next one often has the same."""


def attack_results(
    models: Mapping[int, Model], rows: BenchRows, cell: Settings, learner: Learner, rng: Rng, device: str = "cpu"
) -> dict[int, Result]:
    """The AUC of every attack of the cell on each model; all models are of one batch and share the shadows."""
    if not cell.get("attacks") or not models:
        return {at: {} for at in models}
    count = min(len(rows.train), len(rows.test))
    members, others = rows.train.take(np.arange(count)), rows.test.take(np.arange(count))
    posed = {at: challenge(model, members, others, rng, device) for at, model in models.items()}
    attacker = None
    if cell.get("shadows"):
        attacker = _attacker(next(iter(posed.values())).game, rows, cell, learner)
        posed = {at: _facing(one, attacker) for at, one in posed.items()}
    results: dict[int, Result] = {at: {} for at in models}
    for wanted in cell["attacks"]:
        label, attack = _attack(wanted, attacker)
        for at, one in posed.items():
            chances = rng if attacker is None else attacker.rng(label)
            results[at][f"auc {label}"] = play(one, attack, chances, name=label).tailored_auc
    return results


def _attack(wanted: str | Mapping[str, Any], attacker: Attacker | None) -> tuple[str, Attack]:
    """The attack and its name, with what differs from its defaults."""
    settings = {} if isinstance(wanted, str) else {key: value for key, value in wanted.items() if key != "name"}
    name = wanted if isinstance(wanted, str) else str(wanted["name"])
    label = " ".join([name, *(f"{key}={value}" for key, value in settings.items())])
    if attacker is not None and name in REUSING:
        from privaware.attacks._attack_network import Reuse

        settings["reuse"] = attacker.networks.setdefault(label, Reuse())
    return label, find_attack(name, **settings)


def _facing(one: Challenge, attacker: Attacker) -> Challenge:
    own = attacker.game
    game = replace(one.game, auxiliary=own.auxiliary, shadows=own.shadows, shadow_training=own.shadow_training)
    return replace(one, game=game)


def _attacker(game: Game, rows: BenchRows, cell: Settings, learner: Learner) -> Attacker:
    """The last one, if its network, rows and settings are the same; its chances follow from those alone."""
    if rows.shadow_train is None or rows.shadow_test is None:
        raise WrongInput('expected protocol = "dpmlbench" for shadow models, which need rows of the attacker')
    shadow: Any = _shadow_learner(learner, cell.get("shadow"))
    count = int(cell["shadows"])
    sizes = len(rows.shadow_train), len(rows.shadow_test)
    described = repr(replace(shadow, progress=None)) if hasattr(shadow, "progress") else repr(shadow)
    key = json.dumps([described, count, cell.get("rows"), sizes, game.device], sort_keys=True)
    if _last and _last[0].key == key and cell.get("rows"):
        return _last[0]
    auxiliary = replace(
        rows.shadow_train,
        x=np.concatenate([rows.shadow_train.x, rows.shadow_test.x]),
        y=np.concatenate([rows.shadow_train.y, rows.shadow_test.y]),
    )
    inside = np.tile(np.arange(len(auxiliary)) < len(rows.shadow_train), (count, 1))
    rng = Rng(seed=_number(key))
    plan = ShadowPlan(count=count, learner=shadow, noise=0.0)
    trained = train_shadows(game, auxiliary, learner, noise=0.0, rng=rng, plan=plan, inside=inside)
    _last[:] = [Attacker(key=key, game=trained)]
    return _last[0]


def _number(key: Any) -> int:
    text = key if isinstance(key, str) else json.dumps(key)
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)


def _shadow_learner(learner: Any, own: Settings | None = None) -> Learner:
    """The cell's network, trained by plain gradient descent; `own` settings are those of the cell for that."""
    make = find_learner("dpsgd")
    names = {field.name for field in fields(make)} & {field.name for field in fields(learner)}  # type: ignore[arg-type]
    if "architecture" not in names:
        return learner  # type: ignore[no-any-return]
    settings = {name: getattr(learner, name) for name in SHARED if name in names and getattr(learner, name) is not None}
    return make(**{"norm": NO_CLIPPING, **settings, **(own or {})})  # type: ignore[call-arg]
