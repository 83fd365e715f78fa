"""The runs behind an audit, as mechanisms: one run with canaries, and a membership game among the rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from privaware import attacks
from privaware._validate import expect, expect_count, expect_one_of
from privaware.attacks import AttackResult
from privaware.attacks._gradient_canaries import LEAST, CanaryScores, gradient_canaries, room_for_canaries
from privaware.attacks._row_canaries import row_canaries
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import NOTHING, Event
from privaware.mechanism import Mechanism, unit
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["AuditSettings", "MembershipGame", "OneRun"]

SPACES = ("gradient", "input")
CANARY_ATTACKS = ("one_run", "many_run")


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """How an audit attacks: `space` and `canaries` are for one_run, `runs` for many_run, `shadows` for the others."""

    attack: str = "one_run"
    space: str = "gradient"
    canaries: int = 1000
    runs: int = 300
    shadows: int = 0
    device: str = field(default="cpu", repr=False)

    def __post_init__(self) -> None:
        expect_one_of("", SPACES, space=self.space)
        expect_count("", canaries=self.canaries, runs=self.runs)
        expect_count("", 0, shadows=self.shadows)
        expect(self.canaries >= LEAST, "", f"at least {LEAST} canaries", self.canaries)
        expect(self.runs >= LEAST, "", f"at least {LEAST} runs", self.runs)
        if not self.of_canaries:
            attacks.find_attack(self.attack)

    @property
    def of_canaries(self) -> bool:
        """Whether the audit bounds epsilon from below; membership attacks on rows do not."""
        return self.attack in CANARY_ATTACKS

    def json(self) -> dict[str, Any]:
        """What was asked for, as far as it matters."""
        if self.attack == "one_run":
            return {"attack": self.attack, "space": self.space, "canaries": self.canaries}
        more = {"runs": self.runs} if self.of_canaries else {"shadows": self.shadows}
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


@dataclass(frozen=True, kw_only=True)
class MembershipGame:
    """A model trained on some of the rows, and an attack that tells them from others: for the owner's eyes only.

    It releases nothing, so it costs nothing; what it returns must not be published.
    """

    mechanism: Mechanism[Any]
    settings: AuditSettings

    def cost(self, schema: Schema, noise: float) -> Event:
        return NOTHING

    def run(self, data: Data, noise: float, rng: Rng) -> AttackResult:
        settings = self.settings
        shadows = attacks.ShadowPlan(count=settings.shadows) if settings.shadows else None
        posed = attacks.membership_game(
            self.mechanism, data, noise=noise, rng=rng, shadows=shadows, device=settings.device
        )
        return attacks.play(posed, attacks.find_attack(settings.attack), rng, name=settings.attack)
