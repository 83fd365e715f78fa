"""Membership games: what an attack sees, which rows are members (hidden from it), and the result of the attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from privaware._validate import expect_one_of
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.metrics import TprAtFpr, auc, auc_interval, tailored_auc, tpr_at_fpr
from privaware.model import Model
from privaware.noise import Rng

SHADOW_TRAININGS = ("none", "private", "without privacy")
"""Values of `Game.shadow_training`; "none" means that there are no shadow models."""
FPRS = (0.001, 0.01)
"""False positive rates at which true positive rates are reported."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Shadow:
    """A model that the attacker trained, with masks of the rows that trained it.

    `inside` is a mask over the candidate rows of the game; it is all false if target and shadow rows are disjoint.
    `auxiliary_inside` is a mask over the attacker's own rows.
    """

    model: Model
    inside: np.ndarray = field(repr=False)
    auxiliary_inside: np.ndarray = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Game:
    """What an attack sees of a membership game: a released model and candidate rows. Some of these rows trained it.

    `auxiliary` are the attacker's own rows; they did not train the model. `shadows` are models that the attacker
    trained, all with or all without privacy (`shadow_training` is "private", "without privacy", or "none" without
    shadow models). The game does not hold which candidate rows trained the released model. `device` is where an attack
    computes.
    """

    model: Model
    rows: Data
    auxiliary: Data | None = None
    shadows: tuple[Shadow, ...] = ()
    shadow_training: str = "none"
    device: str = "cpu"

    def __post_init__(self) -> None:
        expect_one_of("game", SHADOW_TRAININGS, shadow_training=self.shadow_training)
        if bool(self.shadows) == (self.shadow_training == "none"):
            raise WrongInput(
                f"expected shadow_training to say how {len(self.shadows)} shadow models were trained, "
                f"got {self.shadow_training!r}"
            )
        expected = (len(self.rows), 0 if self.auxiliary is None else len(self.auxiliary))
        for shadow in self.shadows:
            if (len(shadow.inside), len(shadow.auxiliary_inside)) != expected:
                raise WrongInput(
                    f"expected masks of a shadow model over {expected[0]} candidates and {expected[1]} auxiliary rows, "
                    f"got {len(shadow.inside)} and {len(shadow.auxiliary_inside)}"
                )
            if _same(shadow.model, self.model):
                raise WrongInput("expected shadow models of the attacker, got the released model among them")

    @property
    def online(self) -> bool:
        """Whether shadow models were trained on candidate rows too."""
        return any(shadow.inside.any() for shadow in self.shadows)

    @property
    def inside(self) -> np.ndarray:
        """Which shadow model was trained on which candidate row, with shape (shadows, rows)."""
        return np.array([shadow.inside for shadow in self.shadows], dtype=bool).reshape(-1, len(self.rows))

    def reordered(self, order: np.ndarray) -> Game:
        """Return the game with the candidate rows at the positions `order`, or those where the mask `order` is true.

        The masks of the shadow models are reordered in the same way.
        """
        shadows = tuple(replace(shadow, inside=shadow.inside[order]) for shadow in self.shadows)
        return replace(self, rows=self.rows.take(order), shadows=shadows)


class Attack(Protocol):
    """A function that scores the candidate rows of a game: a higher score means more likely a member.

    A score must not depend on the order of the rows. The settings of an attack are keyword arguments with defaults.
    """

    def __call__(self, game: Game, rng: Rng) -> np.ndarray: ...


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What an attack asks of its game.

    `shadows` is the smallest number of shadow models. `classes` says whether the model must predict classes, and
    `last_layer` whether its last layer must be linear.
    """

    shadows: int = 0
    classes: bool = False
    last_layer: bool = False


_needs: dict[Any, Needs] = {}
"""What each attack function needs of its game, as declared by `needing`."""
A = TypeVar("A", bound=Callable[..., np.ndarray])


def needing(needs: Needs) -> Callable[[A], A]:
    """Return a decorator that records what an attack needs and returns the attack unchanged.

    A benchmark can then check a game before it trains anything.
    """

    def declare(attack: A) -> A:
        _needs[attack] = needs
        return attack

    return declare


def needs_of(attack: Any) -> Needs:
    """Return what an attack declared by `needing`; the default `Needs()` if it declared nothing.

    `attack` is the function itself; one with settings, as `find_attack` returns it, has no declaration.
    """
    return _needs.get(attack, Needs())


@dataclass(frozen=True, kw_only=True, eq=False)
class Challenge:
    """A membership game with its answer: `inside` is a mask of the candidate rows that trained the released model."""

    game: Game
    inside: np.ndarray = field(repr=False)

    def __post_init__(self) -> None:
        if self.inside.shape != (len(self.game.rows),) or self.inside.dtype != bool:
            raise WrongInput(
                f"expected one true or false for each of {len(self.game.rows)} rows, got {self.inside.shape}"
            )
        if not self.inside.any() or self.inside.all():
            raise WrongInput("expected rows that trained the model and rows that did not, got one kind only")


def challenge(model: Model, members: Data, non_members: Data, rng: Rng, device: str = "cpu") -> Challenge:
    """Pose a game against a released model whose training rows are known.

    Parameters
    ----------
    model
        The released model.
    members, non_members
        Rows that trained the model, and rows that did not. They become the candidate rows, in random order.
    rng
        The random generator.
    device
        "cpu" or "cuda".

    Returns
    -------
    Challenge
        The game, without shadow models, and which of its rows are members.
    """
    order = rng.initial.permutation(len(members) + len(non_members))
    rows = joined(members, non_members).take(order)
    return Challenge(game=Game(model=model, rows=rows, device=device), inside=order < len(members))


def joined(first: Data, second: Data) -> Data:
    """Return the rows of `first` followed by the rows of `second`, with the unchanged schema of `first`."""
    return replace(first, x=np.concatenate([first.x, second.x]), y=np.concatenate([first.y, second.y]))


def _same(one: Model, two: Model) -> bool:
    """Return whether two models are the same release: one object, or equal architectures and tensors.

    Two different objects with the architecture "constant" never count as the same release, because they may agree by
    chance.
    """
    if one is two:
        return True
    if one.architecture != two.architecture or one.architecture.get("name") == "constant":
        return False
    return all(name in two.tensors and np.array_equal(value, two.tensors[name]) for name, value in one.tensors.items())


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """The result of an attack: AUC and true positive rates with their intervals, and which shadow models were used.

    `attack` is the name of the attack. `auc_interval` and the intervals in `tpr_at_fpr` (one entry for each rate in
    `FPRS`) hold with `confidence`. `shadows` is the number of shadow models, and `shadow_training` is "none", "private"
    or "without privacy". `online` says whether shadow models saw candidate rows. `inside_scores` are the scores of
    candidate rows that trained the model, and `outside_scores` are the scores of all other candidate rows. Scores are
    for the data owner only and are not in the output of `to_json`.
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
        """Return the result as a dictionary of JSON values, without scores."""
        return {
            "attack": self.attack,
            "auc": self.auc,
            "auc_interval": list(self.auc_interval),
            "tailored_auc": self.tailored_auc,
            "tpr_at_fpr": {f"{rate.fpr:g}": rate.to_json() for rate in self.tpr_at_fpr},
            "confidence": self.confidence,
            "members": len(self.inside_scores),
            "non_members": len(self.outside_scores),
            "shadows": {"count": self.shadows, "training": self.shadow_training, "online": self.online},
        }


def play(posed: Challenge, attack: Attack, rng: Rng, *, name: str = "", confidence: float = 0.95) -> AttackResult:
    """Let an attack score the candidate rows of a challenge, and compare the scores of members and of other rows.

    Raise `WrongInput` unless the attack returns one finite score for each candidate row.

    Parameters
    ----------
    posed
        The game, and which of its rows are members.
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
