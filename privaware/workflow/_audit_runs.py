"""The runs behind an audit, as mechanisms: one run with canaries, and a membership game among the rows.

The result of an audit: claim and evidence in one object.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privaware import attacks
from privaware._validate import expect, expect_count, expect_one_of
from privaware.attacks import AttackResult
from privaware.attacks._gradient_canaries import LEAST, CanaryScores, gradient_canaries, no_rows, room_for_canaries
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
from privaware.workflow.run.settings import configured

__all__ = ["Audit", "AuditSettings", "MembershipGame", "OneRun", "search_vector", "small_search"]

NUMBERS = ("auc", "auc_interval", "tailored_auc", "tpr_at_fpr", "epsilon_lower", "epsilon_alarm", "refuted")
"""Fields of the JSON that are null where they are not for release."""
FOUND = (*NUMBERS, "confidence", "members", "non_members", "shadows", "method", "assumes", "roc")
"""Fields of the JSON that an attack found."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Claim and evidence in one object.

    `found` are the numbers of the attack: AUC, true positive rates, `epsilon_lower` with its `confidence`. `epsilon` is
    what the audit itself was charged. With `owner_only` nothing was charged, and all numbers are in `internal`.
    """

    subject: str
    settings: Mapping[str, Any]
    found: Mapping[str, Any]
    epsilon_claimed: float
    delta: float
    epsilon: float
    charged: str
    owner_only: bool = False
    plan: list[str] = field(default_factory=list, repr=False)
    certified: bool = False
    seconds: float = 0.0
    out: str | None = None

    @staticmethod
    def found_in(record: Mapping[str, Any] | None) -> dict[str, Any]:
        """What an attack found, from the JSON of a published audit; nothing without one."""
        return {name: value for name in FOUND if (value := (record or {}).get(name)) is not None}

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted with 99.9% confidence."""
        return bool(self.found.get("refuted"))

    @property
    def epsilon_lower(self) -> float | None:
        lower: float | None = self.found.get("epsilon_lower")
        return lower

    @property
    def sentence(self) -> str:
        """What it means, in words."""
        claim = f"the claim of epsilon {self.epsilon_claimed:.4g} at delta {self.delta:g}"
        if not self.found:
            return f"The attack {self.settings['attack']} was not run. It would test {claim}."
        if self.epsilon_lower is None:
            return (
                f"AUC {self.found['auc']:.3f}. A membership attack gives no lower bound on "
                f"epsilon, so it does not test {claim}."
            )
        shown = f"epsilon is at least {self.epsilon_lower:.4g} ({100 * self.found['confidence']:g}% confidence)"
        if self.refuted:
            return f"NOT PRIVATE AS CLAIMED: {claim} is refuted with 99.9% confidence; {shown}."
        return f"The attack shows that {shown}. It does not refute {claim}, which is not a proof."

    def json(self) -> dict[str, Any]:
        """The fields of `privaware audit --json`."""
        shown = dict.fromkeys(NUMBERS) | ({} if self.owner_only else dict(self.found))
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


SPACES = ("gradient", "input")
TRIALS = 3
"""Expected trials of the search that is audited."""
CANARY_ATTACKS = ("one_run", "many_run")
SHADOW_TRAININGS = ("private", "without_privacy")
SHADOWS = {"black_box": 1, "white_box": 1, "lira": 16, "rmia": 4}
"""Shadow models of the attacks that need some."""
STRONGEST: dict[str, dict[str, Any]] = {"black_box": {"reads": "odds", "lr": 1e-3, "epochs": 20}}
"""Settings of attacks whose own defaults are those of a paper, and weaker."""


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """How an audit attacks: `space` and `canaries` are for one_run, `runs` for many_run, `shadows` for the others.

    Shadow models are as many as an attack needs unless their number is given, and trained with the same private
    mechanism, or as some papers do, without privacy (`shadow_training`).
    """

    attack: str = "one_run"
    space: str = "gradient"
    canaries: int = 1000
    runs: int = 300
    shadows: int | None = None
    shadow_training: str = "private"
    device: str = field(default="cpu", repr=False)

    def __post_init__(self) -> None:
        expect_one_of("", SPACES, space=self.space)
        expect_count("", canaries=self.canaries, runs=self.runs)
        expect_count("", 0, optional=True, shadows=self.shadows)
        expect_one_of("", SHADOW_TRAININGS, shadow_training=self.shadow_training)
        least = min(SHADOWS.get(self.attack, 0), 2)
        expect(self.shadow_count >= least, "", f"at least {least} shadow models for {self.attack}", self.shadows)
        expect(self.canaries >= LEAST, "", f"at least {LEAST} canaries", self.canaries)
        expect(self.runs >= LEAST, "", f"at least {LEAST} runs", self.runs)
        if not self.of_canaries:
            attacks.find_attack(self.attack)

    @property
    def of_canaries(self) -> bool:
        """Whether the audit bounds epsilon from below; membership attacks on rows do not."""
        return self.attack in CANARY_ATTACKS

    @property
    def shadow_count(self) -> int:
        """How many shadow models are trained."""
        return SHADOWS.get(self.attack, 0) if self.shadows is None else self.shadows

    def json(self) -> dict[str, Any]:
        """What was asked for, as far as it matters."""
        if self.attack == "one_run":
            return {"attack": self.attack, "space": self.space, "canaries": self.canaries}
        more = {"runs": self.runs} if self.of_canaries else {"shadows": self.shadow_count}
        return {"attack": self.attack, **more}


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """A mechanism with canaries inserted: it costs what the mechanism costs, and releases how the canaries score."""

    mechanism: Mechanism[Any]
    settings: AuditSettings

    @property
    def unit(self) -> str:
        return unit(self.mechanism)

    def expect_possible(self, schema: Schema, noise: float, *, least: int = LEAST) -> None:
        """Refuses, before anything is charged, what has no place for at least so many canaries."""
        if self.settings.space == "gradient":
            room_for_canaries(self.mechanism, schema, noise, least=least)
        elif self.unit != "row" or schema.unit != "row":
            raise WrongInput("expected the unit row with rows as canaries, got another; take --space gradient")
        elif not schema.bounded:
            raise WrongInput("expected declared bounds and categories, to craft rows from; give a schema with --schema")

    def cost(self, schema: Schema, noise: float) -> Event:
        return self.mechanism.cost(schema, noise)

    def run(self, data: Data, noise: float, rng: Rng) -> CanaryScores:
        insert = gradient_canaries if self.settings.space == "gradient" else row_canaries
        return insert(self.mechanism, data, noise, rng, canaries=self.settings.canaries)


def small_search(space: Any, settings: Mapping[str, Any] | None) -> Search:
    """A random search of a few trials, as `privaware search` makes it: what one more row does to its choice."""
    loaded = Space.load(space)
    make = find_learner(loaded.learner)

    def build(candidate: Mapping[str, Any]) -> Any:
        return configured(loaded.learner, make, {**(settings or {}), **candidate})

    return Search(space=loaded, strategy=Rs(trials=TRIALS), build=build, held_out=0.5)


def search_vector(result: SearchResult, schema: Schema) -> np.ndarray:
    """Which candidate a search chose, and its noisy score."""
    texts = (json.dumps(result.point[name], sort_keys=True) for name in sorted(result.point))
    return np.array([result.score or 0.0, *(zlib.crc32(text.encode()) / 2**32 for text in texts)])


@dataclass(frozen=True, kw_only=True)
class MembershipGame:
    """A model trained on some of the rows, and an attack that tells them from others: for the owner's eyes only.

    It releases nothing, so it costs nothing; what it returns must not be published.
    """

    mechanism: Mechanism[Any]
    settings: AuditSettings

    def expect_possible(self, schema: Schema) -> None:
        """Refuses, before anything is charged, shadow models without noise of a learner that needs some."""
        if self.settings.shadow_training == "private" or not self.settings.shadow_count:
            return
        try:
            self.mechanism.run(no_rows(schema), 0.0, Rng(seed=0))
        except (ArithmeticError, PrivawareError):
            raise WrongInput(
                f"expected a learner that can be trained without noise, got {type(self.mechanism).__name__}; take "
                "--shadow-training private, or a network"
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
