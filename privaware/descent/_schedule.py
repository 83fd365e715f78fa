"""Schedules: public factors of the learning rate or of the noise multiplier that change from step to step.

The cost and the run read the same schedule, so the noise that is charged is the noise that is added.

>>> [round(cosine().at(step, 4), 3) for step in range(4)]
[1.0, 0.854, 0.5, 0.146]
>>> [exponential(0.5, every=2).at(step, 4) for step in range(4)]
[1.0, 1.0, 0.5, 0.5]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from privaware.errors import WrongInput


class Schedule(Protocol):
    """The interface of a schedule, whose factors are known before training.

    `at(step, steps)` returns the factor of step number `step`, from 0 to `steps - 1`.
    """

    def at(self, step: int, steps: int) -> float: ...


@dataclass(frozen=True)
class constant:
    """The same factor at every step.

    Parameters
    ----------
    factor : float
        The factor.
    """

    factor: float = 1.0

    def at(self, step: int, steps: int) -> float:
        return self.factor


@dataclass(frozen=True)
class linear:
    """A factor that changes linearly: `1 + (end - 1) * step / steps`, where `step` counts from 0.

    Parameters
    ----------
    end : float
        The factor that would follow after the last step.
    """

    end: float = 0.0

    def at(self, step: int, steps: int) -> float:
        return 1 + (self.end - 1) * step / steps


@dataclass(frozen=True)
class cosine:
    """A factor that follows half a cosine wave from 1 at the first step to `end` after the last step.

    Parameters
    ----------
    end : float
        The factor after the last step.
    """

    end: float = 0.0

    def at(self, step: int, steps: int) -> float:
        return self.end + (1 - self.end) * (1 + math.cos(math.pi * step / steps)) / 2


@dataclass(frozen=True)
class exponential:
    """A schedule with the value `factor**(step // every)` at a step.

    As a noise schedule with a large `every`, it has few distinct values, so the cost of the training is quick to
    compute.

    Parameters
    ----------
    factor : float
        The ratio of two successive values, above 0.
    every : int
        Number of steps with the same value, at least 1.
    """

    factor: float
    every: int = 1

    def __post_init__(self) -> None:
        if self.factor <= 0 or self.every < 1:
            raise WrongInput(f"exponential: expected factor > 0 and every >= 1, got {self.factor!r}, {self.every!r}")

    def at(self, step: int, steps: int) -> float:
        return float(self.factor ** (step // self.every))


@dataclass(frozen=True)
class time_decay:
    """The factor `1 / (1 + decay * (step // every))`.

    Parameters
    ----------
    decay : float
        The rate of the decay, at least 0.
    every : int
        Number of steps with the same value, at least 1.
    """

    decay: float
    every: int = 1

    def __post_init__(self) -> None:
        if self.decay < 0 or self.every < 1:
            raise WrongInput(f"time_decay: expected decay >= 0 and every >= 1, got {self.decay!r}, {self.every!r}")

    def at(self, step: int, steps: int) -> float:
        return 1 / (1 + self.decay * (step // self.every))


@dataclass(frozen=True)
class polynomial:
    """The factor `end + (1 - end) * (1 - t)**power`, where t grows from 0 to 1 over the fraction `within` of the steps.

    t is `min(1, (step // every * every) / (within * steps))`. After this fraction of the steps the factor is `end`.

    Parameters
    ----------
    power : float
        The exponent, above 0.
    end : float
        The last factor, above 0.
    within : float
        The fraction of the steps over which t grows, in (0, 1].
    every : int
        Number of steps with the same value, at least 1.

    Examples
    --------
    >>> [round(polynomial(power=2.0, end=0.5).at(step, 4), 3) for step in range(4)]
    [1.0, 0.781, 0.625, 0.531]
    """

    power: float = 3.0
    end: float = 0.5
    within: float = 1.0
    every: int = 1

    def __post_init__(self) -> None:
        if self.power <= 0 or self.end <= 0 or not 0 < self.within <= 1 or self.every < 1:
            raise WrongInput(
                "polynomial: expected power > 0, end > 0, within in (0, 1] and every >= 1, "
                f"got {self.power!r}, {self.end!r}, {self.within!r}, {self.every!r}"
            )

    def at(self, step: int, steps: int) -> float:
        remaining = max(0.0, 1 - step // self.every * self.every / (self.within * steps))
        return float(self.end + (1 - self.end) * remaining**self.power)


@dataclass(frozen=True)
class step_down:
    """The factor 1 while `step < after * steps`, where `step` counts from 0, and `factor` from then on.

    Parameters
    ----------
    factor : float
        The later factor.
    after : float
        The fraction of the steps with the factor 1.
    """

    factor: float
    after: float = 0.5

    def at(self, step: int, steps: int) -> float:
        return 1.0 if step < self.after * steps else self.factor


@dataclass(frozen=True)
class warm_up:
    """The factor `min(1, (step + 1) / over)` times another schedule.

    Parameters
    ----------
    over : int
        Number of steps of the warm-up, at least 1.
    then : Schedule
        The other schedule. It runs from the first step on.
    """

    over: int
    then: Schedule = constant()

    def __post_init__(self) -> None:
        if self.over < 1:
            raise WrongInput(f"warm_up: expected over >= 1, got {self.over!r}")

    def at(self, step: int, steps: int) -> float:
        return min(1.0, (step + 1) / self.over) * self.then.at(step, steps)


@dataclass(frozen=True)
class piecewise:
    """One factor for each of several equally long parts: `factors[step * len(factors) // steps]`, `step` from 0.

    Parameters
    ----------
    factors : sequence of float
        The factors, in the order of the parts; at least one.
    """

    factors: tuple[float, ...]

    def __init__(self, factors: Sequence[float]) -> None:
        object.__setattr__(self, "factors", tuple(float(factor) for factor in factors))
        if not self.factors:
            raise WrongInput("piecewise: expected at least one factor, got none")

    def at(self, step: int, steps: int) -> float:
        return self.factors[min(step * len(self.factors) // steps, len(self.factors) - 1)]
