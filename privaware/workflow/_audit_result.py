"""The result of an audit: claim and evidence in one object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Audit"]

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
