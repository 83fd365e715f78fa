"""Mechanisms that an audit runs, and the result of an audit.

`OneRun` inserts canaries into one run of a mechanism. `MembershipGame` attacks a model trained on some of the rows.
`Audit` holds the claimed epsilon and the numbers of the attack.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privaware import attacks
from privaware._rounded import rounded_down, rounded_up
from privaware._summary import Summarised
from privaware._validate import expect, expect_count, expect_one_of
from privaware.attacks import AttackResult
from privaware.attacks._gradient_canaries import (
    MIN_CANARIES,
    CanaryScores,
    gradient_canaries,
    no_rows,
    room_for_canaries,
)
from privaware.attacks._row_canaries import row_canaries
from privaware.data import Data
from privaware.errors import PrivawareError, WrongInput
from privaware.events import NOTHING, Event
from privaware.learners import find_learner
from privaware.mechanism import Mechanism, unit
from privaware.models.spaces import Space
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._search import Search, SearchResult
from privaware.strategies.rs import Rs
from privaware.workflow.run.learner_settings import configured

WITHHELD_FIELDS = ("auc", "auc_interval", "tailored_auc", "tpr_at_fpr", "epsilon_lower", "epsilon_alarm", "refuted")
"""JSON fields that are null if the numbers of the attack are for the data owner only, or if the attack was not run."""
ATTACK_FIELDS = (*WITHHELD_FIELDS, "confidence", "members", "non_members", "shadows", "method", "assumes", "roc")
"""JSON fields that come from the attack."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Audit(Summarised):
    """The claimed epsilon of a mechanism (`epsilon_claimed`), and what an attack on it measured.

    `subject` is the audited learner or model folder. `settings` has the attack and its settings (`AuditSettings.json`).
    `found` has the numbers of the attack: AUC, true positive rates, and `epsilon_lower` with its `confidence`. It is
    empty if the attack was not run. `epsilon` is the cost of the audit itself, which is charged unless the run is a dry
    run; it is 0 for attacks that cost nothing. `charged` says in a sentence what was charged, or why nothing was.
    `plan` are the sentences of the audited plan. `certified` says whether the audit is certified: not for a seeded run,
    not for an attack on rows (other than crafted rows) whose schema was not reviewed, and not if `owner_only`.
    `seconds` is the running time. `out` is the folder of the result, or the audit file in a model folder; it is None if
    nothing was written. If `owner_only` is true, nothing was charged, and `json` puts all numbers of the attack under
    `internal`.
    """

    subject: str
    settings: Mapping[str, Any]
    found: Mapping[str, Any]
    epsilon_claimed: float
    delta: float
    epsilon: float
    charged: str
    owner_only: bool = False
    plan: list[str] = field(default_factory=list)
    certified: bool = False
    seconds: float = 0.0
    out: str | None = None

    @staticmethod
    def found_in(record: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the fields in `ATTACK_FIELDS` that are not null in `record`, the JSON of an audit; empty for None."""
        return {name: value for name in ATTACK_FIELDS if (value := (record or {}).get(name)) is not None}

    @property
    def refuted(self) -> bool:
        """Whether the attack refutes the claimed epsilon with 99.9% confidence; false if there is no lower bound."""
        return bool(self.found.get("refuted"))

    @property
    def epsilon_lower(self) -> float | None:
        return self.found.get("epsilon_lower")

    @property
    def sentence(self) -> str:
        """One sentence about what the attack shows about the claimed epsilon, or that the attack was not run."""
        claim = f"the claim of epsilon {rounded_up(self.epsilon_claimed)} at delta {rounded_up(self.delta)}"
        if not self.found:
            return f"The attack {self.settings['attack']} was not run. It would test {claim}."
        if self.epsilon_lower is None:
            return (
                f"AUC {self.found['auc']:.3f}{_interval(self.found)}. A membership attack gives no lower bound on "
                f"epsilon, so it does not test {claim}."
            )
        confidence = f"{100 * self.found['confidence']:g}% confidence"
        shown = f"epsilon is at least {rounded_down(self.epsilon_lower)} ({confidence})"
        if self.refuted:
            return f"NOT PRIVATE AS CLAIMED: {claim} is refuted with 99.9% confidence; {shown}."
        return f"The attack shows that {shown}. It does not refute {claim}. This is no proof of the claim."

    def _facts(self) -> dict[str, Any]:
        """Return the facts that `repr` shows; numbers of an attack that are for the data owner only are left out."""
        found = {} if self.owner_only else {name: self.found.get(name) for name in ("epsilon_lower", "auc")}
        claimed = {"epsilon_claimed": self.epsilon_claimed, "delta": self.delta}
        return {"subject": self.subject, "attack": self.settings["attack"], **claimed, **found, "out": self.out}

    def _words(self) -> str:
        return f"{'' if self.owner_only else self.sentence} {self.charged}".strip()

    def json(self) -> dict[str, Any]:
        """Return the fields of `privaware audit --json`.

        If the numbers of the attack are for the data owner only, they are in the entry `internal`, and the fields in
        `WITHHELD_FIELDS` are None.
        """
        shown = dict.fromkeys(WITHHELD_FIELDS) | ({} if self.owner_only else dict(self.found))
        return {
            "subject": self.subject,
            **self.settings,
            **shown,
            "epsilon_claimed": self.epsilon_claimed,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "charged": self.charged,
            "owner_only": self.owner_only,
            "internal": dict(self.found) if self.owner_only else {},
            "plan": self.plan,
            "certified": self.certified,
            "seconds": self.seconds,
            "out": self.out,
        }


def _interval(found: Mapping[str, Any]) -> str:
    """Return the interval of the AUC in words, from the numbers `found` by an attack; an empty text if it has none."""
    low, high = found.get("auc_interval") or (None, None)
    return "" if low is None else f" ({100 * found.get('confidence', 0.95):g}% interval {low:.3f} to {high:.3f})"


SPACES = ("gradient", "input")
"""Where one_run inserts canaries: into gradients and sums, or into the rows."""
TRIALS = 3
"""Expected number of trials of the search that an audit runs."""
CANARY_ATTACKS = ("one_run", "many_run")
SHADOW_TRAININGS = ("private", "without_privacy")
SHADOWS = {"black_box": 1, "white_box": 1, "lira": 16, "rmia": 4}
"""Default number of shadow models, for each attack that uses shadow models."""
STRONGEST: dict[str, dict[str, Any]] = {"black_box": {"reads": "odds", "lr": 1e-3, "epochs": 20}}
"""Settings that make an attack stronger than its defaults, which follow the paper of the attack."""


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """The attack of an audit and its settings.

    `space` (one of `SPACES`) and the number of `canaries` are settings of one_run, and the number of `runs` is a
    setting of many_run. `shadows` is the number of shadow models of a membership attack; None means the default in
    `SHADOWS`. `shadow_training` is "private" (shadow models are trained with the audited mechanism) or
    "without_privacy" (they are trained without noise, as some papers do). Values that are not possible raise
    `WrongInput`.
    """

    attack: str = "one_run"
    space: str = "gradient"
    canaries: int = 1000
    runs: int = 300
    shadows: int | None = None
    shadow_training: str = "private"
    device: str = field(default="cpu", repr=False)

    def __post_init__(self) -> None:
        expect_one_of("", SPACES, insert=self.space)
        expect_count("", canaries=self.canaries, runs=self.runs)
        expect_count("", 0, optional=True, shadows=self.shadows)
        expect_one_of("", SHADOW_TRAININGS, shadow_training=self.shadow_training)
        least = min(SHADOWS.get(self.attack, 0), 2)
        expect(self.shadow_count >= least, "", f"at least {least} shadow models for {self.attack}", self.shadows)
        expect(self.canaries >= MIN_CANARIES, "", f"at least {MIN_CANARIES} canaries", self.canaries)
        expect(self.runs >= MIN_CANARIES, "", f"at least {MIN_CANARIES} runs", self.runs)
        if not self.of_canaries:
            attacks.find_attack(self.attack)

    @property
    def of_canaries(self) -> bool:
        """Whether the attack is one_run or many_run, which give a lower bound on epsilon; membership attacks do not."""
        return self.attack in CANARY_ATTACKS

    @property
    def shadow_count(self) -> int:
        """The number of shadow models to train: `shadows`, or by default the number in `SHADOWS`, or else 0."""
        return SHADOWS.get(self.attack, 0) if self.shadows is None else self.shadows

    def json(self) -> dict[str, Any]:
        """Return the attack with `space` and `canaries` (one_run), `runs` (many_run) or `shadows` (other attacks)."""
        if self.attack == "one_run":
            return {"attack": self.attack, "space": self.space, "canaries": self.canaries}
        more = {"runs": self.runs} if self.of_canaries else {"shadows": self.shadow_count}
        return {"attack": self.attack, **more}


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """A mechanism with canaries inserted; its release is the canaries' scores, and its cost is the mechanism's cost."""

    mechanism: Mechanism[Any]
    settings: AuditSettings

    @property
    def unit(self) -> str:
        return unit(self.mechanism)

    def expect_possible(self, schema: Schema, noise: float, *, least: int = MIN_CANARIES) -> None:
        """Raise `WrongInput`, before any charge, if canaries cannot be inserted.

        In gradients, the mechanism must have room for at least `least` canaries at this `noise`. In rows, the protected
        unit must be a row, and bounds and categories must be declared.
        """
        if self.settings.space == "gradient":
            room_for_canaries(self.mechanism, schema, noise, least=least)
        elif self.unit != "row" or schema.unit != "row":
            raise WrongInput("expected the unit row with rows as canaries, got another; take --insert=gradient")
        elif not schema.bounded:
            raise WrongInput("expected declared bounds and categories, to craft rows from; give a schema with --schema")

    def cost(self, schema: Schema, noise: float) -> Event:
        return self.mechanism.cost(schema, noise)

    def run(self, data: Data, noise: float, rng: Rng) -> CanaryScores:
        insert = gradient_canaries if self.settings.space == "gradient" else row_canaries
        return insert(self.mechanism, data, noise, rng, canaries=self.settings.canaries)


def small_search(space: Any, settings: Mapping[str, Any] | None) -> Search:
    """Build a random search in `space` with about `TRIALS` trials; half of the rows are held out to score candidates.

    `settings` go to the learner of every candidate. A setting of the candidate itself has precedence.
    """
    loaded = Space.load(space)
    make = find_learner(loaded.learner)

    def build(candidate: Mapping[str, Any]) -> Any:
        return configured(loaded.learner, make, {**(settings or {}), **candidate})

    return Search(space=loaded, strategy=Rs(trials=TRIALS), build=build, held_out=0.5)


def search_vector(result: SearchResult, schema: Schema) -> np.ndarray:
    """Return the noisy score of `result` (0 if it is None), then a hash of each setting of the chosen candidate.

    The hashes are numbers in [0, 1), in alphabetical order of the names of the settings. `schema` is not used.
    """
    texts = (json.dumps(result.point[name], sort_keys=True) for name in sorted(result.point))
    return np.array([result.score or 0.0, *(zlib.crc32(text.encode()) / 2**32 for text in texts)])


@dataclass(frozen=True, kw_only=True)
class MembershipGame:
    """Train a model by `mechanism` on some of the rows, and attack it to tell its training rows from other rows.

    The cost is zero because nothing is released: on private rows the result is for the data owner only.
    """

    mechanism: Mechanism[Any]
    settings: AuditSettings

    def expect_possible(self, schema: Schema) -> None:
        """Raise `WrongInput`, before any charge, if bounds are not declared or shadow models cannot be trained.

        Only a training without noise is tested, by one run on a table without rows. This test is made if the attack
        trains shadow models and `shadow_training` is "without_privacy".
        """
        if not schema.bounded:
            raise WrongInput(
                f"expected declared bounds and categories for the attack {self.settings.attack}; give a schema with "
                "--schema"
            )
        if self.settings.shadow_training == "private" or not self.settings.shadow_count:
            return
        try:
            self.mechanism.run(no_rows(schema), 0.0, Rng(seed=0))
        except (ArithmeticError, PrivawareError):
            raise WrongInput(
                f"expected a learner that can be trained without noise, got {type(self.mechanism).__name__}; take "
                "--shadow-training=private, or a network"
            ) from None

    def cost(self, schema: Schema, noise: float) -> Event:
        return NOTHING

    def run(self, data: Data, noise: float, rng: Rng) -> AttackResult:
        settings = self.settings
        shadows = None
        if count := settings.shadow_count:
            shadows = attacks.ShadowPlan(count=count, noise=None if settings.shadow_training == "private" else 0.0)
        posed = attacks.membership_game(
            self.mechanism, data, noise=noise, rng=rng, shadows=shadows, device=settings.device
        )
        attack = attacks.find_attack(settings.attack, **STRONGEST.get(settings.attack, {}))
        return attacks.play(posed, attack, rng, name=settings.attack)
