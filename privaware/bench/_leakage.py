"""Membership attacks on the models of a benchmark: the AUC of each attack on each model, with its interval.

Members are training rows and non-members are test rows, as many of each. The cell's `shadows` is the number of shadow
models. A shadow model has the network of the cell, and is trained without noise or clipping on rows of the attacker;
the protocols "halves" and "dpmlbench" set half of all rows aside for the attacker. Its training settings (`SHARED`) are
those of the attacked learner, unless the settings `shadow` of the cell override them. If the model of a learner is no
network (a constant, trees), the learner itself, without noise, trains the shadow models. Consecutive cells with the
same network, rows and shadow settings have the same attacker: shadow models and attack networks are trained once for
all of them. An attack is a name, or a table of its `name` and settings.

The result `auc LABEL` is the tailored AUC of an attack (its AUC, or 0.5 if that is lower); `attacks` has the plain AUC
and its 95% interval by label, and `attack_failures` the reason of every attack that failed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from privaware import features
from privaware._validate import expect
from privaware.attacks import (
    Attack,
    AttackResult,
    Challenge,
    Game,
    ShadowPlan,
    attack_needs,
    challenge,
    find_attack,
    play,
    train_shadows,
)
from privaware.bench import Result, Settings, reason_of
from privaware.bench._rows import BenchRows
from privaware.errors import PrivawareError, WrongInput
from privaware.learners import Learner, find_learner
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.workflow.run.learner_settings import configured

NO_CLIPPING = 1e9
SHARED = ("architecture", "features", "steps", "epochs", "batch", "lr", "momentum", "device", "precision")
"""Settings that the shadow models of an attack take from the attacked learner; noise and clipping are not among them.

Shadow models are trained without noise.
"""


NO_NETWORKS = ("constant", "trees")
"""Architectures that gradient descent cannot train."""
REUSING = ("black_box", "white_box")
"""Attacks whose networks are trained on shadow models alone."""


@dataclass
class Attacker:
    """What an attacker trains once, for attacks on all models with the same network, rows and shadow settings.

    `game` holds the shadow models and the attacker's own rows. `networks` holds, by the label of an attack, the network
    that the attack trained on the shadow models. `key` describes the learner, the number, the rows and the device of
    the shadow models; attackers with equal keys have equal shadow models.
    """

    key: str
    game: Game
    networks: dict[str, Any] = field(default_factory=dict)

    def rng(self, label: str) -> Rng:
        """Return the random generator for the attack `label`; the same for every attacked model."""
        return Rng(seed=_number([self.key, label]))


_last: list[Attacker] = []
"""The attacker of the last cell, or nothing: the next cell often has the same attacker."""


@dataclass(frozen=True)
class AttackChoice:
    """An attack of a grid: its name and the settings that differ from its defaults."""

    name: str
    settings: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The name and the settings, such as "NAME steps=50"; the results of the attack are stored under this label."""
        return " ".join([self.name, *(f"{key}={value}" for key, value in self.settings.items())])

    def attack(self, attacker: Attacker | None = None) -> Attack:
        """Return the attack as a function `(game, rng) -> scores`; raise `WrongInput` for an unknown name or setting.

        With an `attacker`, an attack in `REUSING` trains its network at its first use and reuses it for later games.
        """
        settings = dict(self.settings)
        if attacker is not None and self.name in REUSING:
            from privaware.attacks._attack_network import Reuse

            settings["reuse"] = attacker.networks.setdefault(self.label, Reuse())
        return find_attack(self.name, **settings)


def attack_of(wanted: str | Mapping[str, Any]) -> AttackChoice:
    """Return the attack that a grid names; raise `WrongInput` for an unknown name or setting.

    `wanted` is the name, or a table with the entry `name` and settings of the attack.
    """
    if isinstance(wanted, str):
        choice = AttackChoice(wanted, {})
    else:
        settings = {key: value for key, value in wanted.items() if key != "name"}
        choice = AttackChoice(str(wanted["name"]), settings)
    choice.attack()
    return choice


def attack_results(
    models: Mapping[int, Model], rows: BenchRows, cell: Settings, learner: Learner, rng: Rng, device: str = "cpu"
) -> dict[int, Result]:
    """Play every attack in the settings `cell` against each of `models`; return a dict for each key of `models`.

    `models` were trained by `learner` on the training rows of `rows`. The dict has `auc LABEL` (the AUC of the attack
    LABEL, at least 0.5), `attacks` (by label, a dict with the plain `auc` and its 95% `auc_interval`) and
    `attack_failures` (the reason of every failed attack by label). A failed attack stops no other attack; if the shadow
    models cannot be trained, only the attacks that need them fail. The dicts are empty if the cell has no attacks.
    """
    if not cell.get("attacks") or not models:
        return {at: {} for at in models}
    count = min(len(rows.train), len(rows.test))
    members, others = rows.train.take(np.arange(count)), rows.test.take(np.arange(count))
    posed = {at: challenge(model, members, others, rng, device) for at, model in models.items()}
    attacker, why_none = None, ""
    if cell.get("shadows"):
        try:
            attacker = _attacker(next(iter(posed.values())).game, rows, cell, learner)
        except Exception as problem:
            why_none = reason_of(problem)
        else:
            posed = {at: _facing(one, attacker) for at, one in posed.items()}
    results: dict[int, Result] = {at: {} for at in models}
    for choice in map(attack_of, cell["attacks"]):
        for at, one in posed.items():
            if why_none and attack_needs(choice.name).shadows:
                _add_failure(results[at], choice, f"its shadow models failed: {why_none}")
                continue
            try:
                chances = rng if attacker is None else attacker.rng(choice.label)
                _add(results[at], choice, play(one, choice.attack(attacker), chances, name=choice.label))
            except Exception as problem:
                _add_failure(results[at], choice, reason_of(problem))
    return results


def _add(result: Result, choice: AttackChoice, played: AttackResult) -> None:
    result[f"auc {choice.label}"] = played.tailored_auc
    facts = {"auc": played.auc, "auc_interval": list(played.auc_interval)}
    result.setdefault("attacks", {})[choice.label] = facts


def _add_failure(result: Result, choice: AttackChoice, reason: str) -> None:
    result.setdefault("attack_failures", {})[choice.label] = reason


def _facing(one: Challenge, attacker: Attacker) -> Challenge:
    own = attacker.game
    game = replace(one.game, auxiliary=own.auxiliary, shadows=own.shadows, shadow_training=own.shadow_training)
    return replace(one, game=game)


def _attacker(game: Game, rows: BenchRows, cell: Settings, learner: Learner) -> Attacker:
    """Return the attacker of a cell: the last attacker if it has the same `key`, else a new one with its shadow models.

    `game` is a game against the model of the cell, and `learner` is the learner that trained this model. The key is the
    learner of the shadow models, their number, the rows and the device. The random numbers of the shadow models follow
    from the key alone. Raise `WrongInput` if `rows` has none for the attacker.
    """
    if rows.shadow_train is None or rows.shadow_test is None:
        raise WrongInput('expected protocol = "halves" for shadow models, which need rows of the attacker')
    shadow: Any = _shadow_learner(learner, game.model, cell.get("shadow"))
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


def _shadow_learner(learner: Any, model: Model, own: Settings | None = None) -> Learner:
    """Return the learner of shadow models: gradient descent without clipping on the network of `model`.

    It is a `dpsgd` with clipping norm `NO_CLIPPING`. `own` are the settings of the cell for shadow models, and override
    all other settings. Settings in `SHARED` come from `learner` if it has an architecture to choose; otherwise only the
    device comes from it. Features and architecture that `learner` does not set come from `model`. If gradient descent
    cannot train the architecture of `model` (`NO_NETWORKS`), `learner` itself is returned.
    """
    if model.architecture["name"] in NO_NETWORKS:
        return learner  # type: ignore[no-any-return]
    make, of_learner = find_learner("dpsgd"), {field.name for field in fields(learner)}
    shared = SHARED if "architecture" in of_learner else ("device",)
    names = [name for name in shared if name in of_learner & {field.name for field in fields(make)}]  # type: ignore[arg-type]
    settings = {name: getattr(learner, name) for name in names if getattr(learner, name) is not None}
    found = {"architecture": model.architecture, "features": [features.describe(feature) for feature in model.features]}
    return make(**{"norm": NO_CLIPPING, **found, **settings, **(own or {})})  # type: ignore[call-arg]


def shadow_settings(table: Any) -> dict[str, Any]:
    """Return a copy of the table `shadow` of a grid, settings of `dpsgd` for shadow models.

    Raise `WrongInput` if a setting is wrong.
    """
    expect(isinstance(table, dict), "shadow", "a table of settings", table)
    configured("shadow", find_learner("dpsgd"), table)
    return dict(table)


def expect_shadow(learner: Learner, schema: Schema, cell: Settings) -> None:
    """Raise `WrongInput` if shadow models of `learner` cannot be trained, or an attack of `cell` cannot read its model.

    `schema` is the schema of the training rows. A learner with an architecture to choose trains a network, so it is not
    checked. Any other learner is run on no rows. For the resulting model the learner of shadow models must be valid; if
    that is `learner` itself, it must also run with noise multiplier 0. An attack that needs the last layer of a network
    must find one in the resulting model.
    """
    from privaware.attacks._gradient_canaries import no_rows
    from privaware.attacks._posteriors import last_layer

    if "architecture" in {field.name for field in fields(learner)}:  # type: ignore[arg-type]
        return
    empty = no_rows(schema if learner.uses_columns else schema.keep(()))
    try:
        model = learner.run(empty, 1.0, Rng(seed=0))
        shadow = _shadow_learner(learner, model, cell.get("shadow"))
        shadow.cost(schema, 1.0)
        if shadow is learner:
            learner.run(empty, 0.0, Rng(seed=0))
    except Exception as problem:
        raise WrongInput(f"expected a learner whose shadow model trains without noise: {reason_of(problem)}") from None
    for name in (attack_of(wanted).name for wanted in cell["attacks"]):
        if attack_needs(name).last_layer:
            try:
                last_layer(model, no_rows(model.schema), "cpu")
            except PrivawareError as problem:
                raise WrongInput(f"{name}: {problem}") from None
