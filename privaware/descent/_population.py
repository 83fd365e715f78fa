"""Describe the models of a population, their own settings, and the public numbers of each step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from privaware.descent._recipe import DescentRecipe
from privaware.errors import WrongInput


@dataclass(frozen=True)
class Member:
    """One model of a population and its settings.

    Parameters
    ----------
    module : nn.Module or callable
        The module, or a function that builds it and is called with seeded generators when training begins.
    noise : float
        The noise multiplier.
    lr : float, optional
        The learning rate, if not the recipe's.
    norm : float, optional
        The clipping norm, if not the recipe's.
    subset : array of int, optional
        Positions of the examples that the model is trained on, if not all. They are sampled at the recipe's rate. The
        gradient sums of every model are divided by the same declared number of rows, so it should be the size of a
        subset.
    """

    module: nn.Module | Callable[[], nn.Module]
    noise: float
    lr: float | None = None
    norm: float | None = None
    subset: Any = None


def members(
    modules: Sequence[nn.Module | Callable[[], nn.Module]],
    noise: Sequence[float],
    lr: Sequence[float] | None = None,
    norm: Sequence[float] | None = None,
) -> list[Member]:
    """Make the members of a population from lists of modules and settings, all of the same length.

    Parameters
    ----------
    modules : sequence of nn.Module or callable
        The modules, or functions that build them.
    noise : sequence of float
        The noise multiplier of each.
    lr, norm : sequence of float, optional
        The learning rate and clipping norm of each, if not the recipe's.

    Returns
    -------
    list of Member
        The members.

    Examples
    --------
    >>> [member.lr for member in members([nn.Linear(1, 1)] * 2, noise=[1.0, 1.0], lr=[0.1, 0.2])]
    [0.1, 0.2]
    """
    none = [None] * len(modules)
    return [Member(*settings) for settings in zip(modules, noise, lr or none, norm or none, strict=True)]


@dataclass(frozen=True)
class StepSettings:
    """The public numbers of one step.

    `noise` is the noise multiplier of the whole step. `gradient_noise` is the noise multiplier of the gradient sum
    alone, which differs for a `quantile` clip only. These two and the learning rate `lr` are floats for one model, and
    (models, 1) tensors for several models or in a CUDA graph; in the results of `Population.row` they are lists.
    `average_weight` is the fraction of the way that the average of parameters moves towards the parameters; 0 without
    an average. `progress` is the fraction of the steps that were taken before this step. `step` is the number of this
    step, from 0.
    """

    noise: Any
    gradient_noise: Any
    lr: Any
    average_weight: Any
    progress: Any
    step: Any = 0


@dataclass(frozen=True)
class Population:
    """The noise multiplier, learning rate and clipping norm of each model, in the order of the models.

    Raise `WrongInput` if the noise multiplier is 0 for some models only, or if there is noise and a clipping norm is
    infinite.
    """

    noise: tuple[float, ...]
    lr: tuple[float, ...]
    norm: tuple[float, ...]

    @classmethod
    def of(cls, members: Sequence[Member], recipe: DescentRecipe) -> Population:
        """Collect the settings of `members`; those that a member does not give are the recipe's.

        Raise `WrongInput` for a negative number, for noise that is 0 for some models only, and for noise with an
        infinite norm.

        >>> from privaware.descent import Descent, FullBatch, flat, sgd
        >>> recipe = Descent(steps=1, sampler=FullBatch(), clip=flat(1.0), update=sgd(0.1))
        >>> Population.of([Member(nn.Linear(1, 1), noise=2.0), Member(nn.Linear(1, 1), noise=3.0, lr=0.5)], recipe)
        Population(noise=(2.0, 3.0), lr=(0.1, 0.5), norm=(1.0, 1.0))
        """
        return cls(
            noise=_checked("noise", [member.noise for member in members]),
            lr=_checked("lr", [recipe.update.lr if member.lr is None else member.lr for member in members]),
            norm=_checked("norm", [recipe.clip.norm if member.norm is None else member.norm for member in members]),
        )

    def __post_init__(self) -> None:
        noiseless = [value == 0 for value in self.noise]
        if any(noiseless) and not all(noiseless):
            raise WrongInput("expected noise > 0 for every model, or 0 for all, got 0 for some")
        if not all(noiseless) and not all(map(math.isfinite, self.norm)):
            raise WrongInput("expected a finite norm, because noise scales with it; got infinity")

    def row(self, recipe: DescentRecipe, step: int) -> StepSettings:
        """Return the public numbers of `step` (from 0), after the schedules and the average of `recipe`.

        In the result `noise`, `gradient_noise` and `lr` are lists with one number for each model.
        """
        noise = [recipe.noise_at(value, step) for value in self.noise]
        average = recipe.average
        return StepSettings(
            noise=noise,
            gradient_noise=[recipe.gradient_noise(value) for value in noise],
            lr=[value * recipe.lr_schedule.at(step, recipe.steps) for value in self.lr],
            average_weight=0.0 if average is None else average.weight(step, recipe.steps),
            progress=step / recipe.steps,
            step=step,
        )

    def settings(self, recipe: DescentRecipe, step: int, like: Tensor) -> StepSettings:
        """Return the public numbers of `step` (from 0), after the schedules and the average of `recipe`.

        In the result `noise`, `gradient_noise` and `lr` are floats for one model. For several models they are
        (models, 1) tensors with the type and device of `like`.
        """
        row = self.row(recipe, step)
        numbers: Any = (row.noise, row.gradient_noise, row.lr)
        numbers = [of[0] for of in numbers] if len(self.noise) == 1 else like.new_tensor(numbers)[:, :, None]
        return replace(row, noise=numbers[0], gradient_noise=numbers[1], lr=numbers[2])


def _checked(name: str, values: list[float]) -> tuple[float, ...]:
    numbers = tuple(float(value) for value in values)
    if not all(number >= 0 for number in numbers):
        raise WrongInput(f"expected {name} >= 0 for each of {len(values)} models, got {values!r}")
    return numbers
