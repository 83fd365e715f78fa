"""Membership games: what an attack sees, and the answer it does not see."""

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
    """A model that the attacker trained, with the rows it was trained on as masks.

    `inside` is over the candidate rows of the game (all false where target and shadow rows are disjoint),
    `auxiliary_inside` over the attacker's own rows.
    """

    model: Model
    inside: np.ndarray = field(repr=False)
    auxiliary_inside: np.ndarray = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Game:
    """What an attack sees of a membership game: a released model, and rows of which some trained it.

    `auxiliary` are rows of the attacker, none of which trained the model; `shadows` are models that the attacker
    trained, all of them with or all without privacy (`shadow_training`). Which candidate trained the released model is
    not in here. `device` is where an attack computes.
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
        """(shadows, rows): which shadow model was trained on which candidate."""
        return np.array([shadow.inside for shadow in self.shadows], dtype=bool).reshape(-1, len(self.rows))

    def reordered(self, order: np.ndarray) -> Game:
        """The same game with its candidate rows in another order, or with some of them."""
        shadows = tuple(replace(shadow, inside=shadow.inside[order]) for shadow in self.shadows)
        return replace(self, rows=self.rows.take(order), shadows=shadows)


class Attack(Protocol):
    """Scores the rows of a game: the higher, the likelier a row trained the model.

    A score must not depend on the order of the rows. Settings of an attack are keywords with defaults.
    """

    def __call__(self, game: Game, rng: Rng) -> np.ndarray: ...


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What an attack asks of its game: at least so many `shadows`, a model of `classes`, a linear `last_layer`."""

    shadows: int = 0
    classes: bool = False
    last_layer: bool = False


_needs: dict[Any, Needs] = {}
"""What attacks declared by `needing`."""
A = TypeVar("A", bound=Callable[..., np.ndarray])


def needing(needs: Needs) -> Callable[[A], A]:
    """Declares what the decorated attack needs, so that a benchmark can check a game before it trains anything."""

    def declare(attack: A) -> A:
        _needs[attack] = needs
        return attack

    return declare


def needs_of(attack: Any) -> Needs:
    """Returns what an attack declared; an attack that declares nothing needs nothing."""
    return _needs.get(attack, Needs())


@dataclass(frozen=True, kw_only=True, eq=False)
class Challenge:
    """A game and its answer: which of its rows trained the released model."""

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
    """The game against a released model whose training rows are known: members and others in random order."""
    order = rng.initial.permutation(len(members) + len(non_members))
    rows = joined(members, non_members).take(order)
    return Challenge(game=Game(model=model, rows=rows, device=device), inside=order < len(members))


def joined(first: Data, second: Data) -> Data:
    """Both parts, one after the other."""
    return replace(first, x=np.concatenate([first.x, second.x]), y=np.concatenate([first.y, second.y]))


def _same(one: Model, two: Model) -> bool:
    """Whether both are one release; constants of two trainings may agree by chance."""
    if one is two:
        return True
    if one.architecture != two.architecture or one.architecture.get("name") == "constant":
        return False
    return all(_equal(value, two.tensors.get(name)) for name, value in one.tensors.items())


def _equal(one: np.ndarray, two: Any) -> bool:
    return two is not None and np.array_equal(one, two)
