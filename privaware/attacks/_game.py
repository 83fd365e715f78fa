"""Membership games: what an attack sees, and the answer, which it does not see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from privaware._validate import expect_one_of
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.model import Model
from privaware.noise import Rng

__all__ = [
    "SHADOW_TRAININGS",
    "Attack",
    "Challenge",
    "Game",
    "Needs",
    "Shadow",
    "challenge",
    "joined",
    "needs_of",
    "needing",
]

SHADOW_TRAININGS = ("none", "private", "without privacy")


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
    """What an attack sees of a membership game: a released model, and candidate rows, some of which trained it.

    `auxiliary` are the attacker's own rows, none of which trained the model. `shadows` are models that the attacker
    trained, all with or all without privacy (`shadow_training`). The game does not hold which candidate rows trained
    the released model. `device` is where an attack computes.
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
        """Return the game with the candidate rows at the positions `order`, or where the mask `order` is true."""
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
"""What attacks declared by `needing`."""
A = TypeVar("A", bound=Callable[..., np.ndarray])


def needing(needs: Needs) -> Callable[[A], A]:
    """Declare what the decorated attack needs, so that a benchmark can check a game before it trains anything."""

    def declare(attack: A) -> A:
        _needs[attack] = needs
        return attack

    return declare


def needs_of(attack: Any) -> Needs:
    """Return what an attack declared; an attack that declares nothing needs nothing.

    `attack` is the function itself; one with settings, as `find_attack` returns it, has no declaration.
    """
    return _needs.get(attack, Needs())


@dataclass(frozen=True, kw_only=True, eq=False)
class Challenge:
    """A game and its answer: `inside` says which candidate rows trained the released model."""

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
        The game with its answer, and without shadow models.
    """
    order = rng.initial.permutation(len(members) + len(non_members))
    rows = joined(members, non_members).take(order)
    return Challenge(game=Game(model=model, rows=rows, device=device), inside=order < len(members))


def joined(first: Data, second: Data) -> Data:
    """Return the rows of `first` followed by the rows of `second`, with the schema of `first`."""
    return replace(first, x=np.concatenate([first.x, second.x]), y=np.concatenate([first.y, second.y]))


def _same(one: Model, two: Model) -> bool:
    """Return whether two models are the same release.

    Two models with the architecture "constant" are not, unless they are one object: they may agree by chance.
    """
    if one is two:
        return True
    if one.architecture != two.architecture or one.architecture.get("name") == "constant":
        return False
    return all(_equal(value, two.tensors.get(name)) for name, value in one.tensors.items())


def _equal(one: np.ndarray, two: Any) -> bool:
    return two is not None and np.array_equal(one, two)
