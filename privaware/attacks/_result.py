"""The result of an attack in a membership game."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privaware.attacks._game import Attack, Challenge
from privaware.errors import WrongInput
from privaware.metrics import TprAtFpr, auc, auc_interval, tailored_auc, tpr_at_fpr
from privaware.noise import Rng

__all__ = ["FPRS", "AttackResult", "play"]

FPRS = (0.001, 0.01)
"""False positive rates at which true positive rates are reported."""


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """AUC and true positive rates with their intervals, and which shadow models were used.

    `shadow_training` is "none", "private" or "without privacy". `online` says whether shadow models saw candidate rows.
    Scores are for the data owner only and are not in the output of `to_json`.
    """

    attack: str
    auc: float
    auc_interval: tuple[float, float]
    tpr_at_fpr: tuple[TprAtFpr, ...]
    confidence: float
    shadows: int
    shadow_training: str
    online: bool
    inside_scores: np.ndarray = field(repr=False, compare=False)
    outside_scores: np.ndarray = field(repr=False, compare=False)

    @property
    def tailored_auc(self) -> float:
        return tailored_auc(self.auc)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values, without scores."""
        return {
            "attack": self.attack,
            "auc": self.auc,
            "auc_interval": list(self.auc_interval),
            "tailored_auc": self.tailored_auc,
            "tpr_at_fpr": {
                f"{rate.fpr:g}": {"tpr": rate.tpr, "interval": list(rate.interval), "fpr_at_most": rate.fpr_at_most}
                for rate in self.tpr_at_fpr
            },
            "confidence": self.confidence,
            "members": len(self.inside_scores),
            "non_members": len(self.outside_scores),
            "shadows": {"count": self.shadows, "training": self.shadow_training, "online": self.online},
        }


def play(posed: Challenge, attack: Attack, rng: Rng, *, name: str = "", confidence: float = 0.95) -> AttackResult:
    """Let an attack score the candidate rows of a challenge, and compare the scores with the answer.

    Raise `WrongInput` unless the attack returns one finite score for each candidate row.

    Parameters
    ----------
    posed
        The game and its answer.
    attack
        A function `(game, rng) -> scores`.
    rng
        The random generator of the attack.
    name
        The name of the attack for the result. Default: the name of the function.
    confidence
        The confidence of the intervals.

    Returns
    -------
    AttackResult
        AUC and true positive rates, with their intervals.
    """
    game = posed.game
    scores = np.asarray(attack(game, rng), dtype=float)
    if scores.shape != posed.inside.shape or not np.isfinite(scores).all():
        raise WrongInput(f"expected one finite score for each of {len(posed.inside)} rows, got shape {scores.shape}")
    inside, outside = scores[posed.inside], scores[~posed.inside]
    return AttackResult(
        attack=name or getattr(attack, "__name__", type(attack).__name__),
        auc=auc(inside, outside),
        auc_interval=auc_interval(inside, outside, confidence),
        tpr_at_fpr=tuple(tpr_at_fpr(inside, outside, rate, confidence) for rate in FPRS),
        confidence=confidence,
        shadows=len(game.shadows),
        shadow_training=game.shadow_training,
        online=game.online,
        inside_scores=inside,
        outside_scores=outside,
    )
