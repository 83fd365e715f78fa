"""Hold the settings of private training, none of which depends on private rows, and compute their cost as an event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from privaware._validate import expect, expect_count, expect_in, expect_one_of
from privaware.descent._accumulate import Loss
from privaware.descent._clip import Clip, quantile
from privaware.descent._example_draws import ExampleDraws
from privaware.descent._losses import cross_entropy
from privaware.descent._projection import Projection
from privaware.descent._sampling import Sampler
from privaware.descent._schedule import Schedule, constant
from privaware.descent._update import Average, Update
from privaware.events import NOTHING, Approximate, Event, Gaussian

PRECISIONS = ("float32", "tf32", "bf16")
"""Allowed values of `DescentRecipe.precision`."""
METHODS = {
    "sampler": "draw",
    "clip": "factors",
    "update": "apply",
    "average": "initial_state",
    "lr_schedule": "at",
    "noise_schedule": "at",
    "augment": "__call__",
    "projection": "bind",
}
"""A method that the object in each of these fields has. A number in its place would fail only after the charge."""


@dataclass(frozen=True, kw_only=True)
class DescentRecipe:
    """The public settings of private training, and their privacy cost. The subclass `Descent` documents the fields.

    Raise `WrongInput` for a value out of range or of another type, and for a `projection` together with a clip, a
    precision or an update that it does not support.
    """

    steps: int
    sampler: Sampler
    clip: Clip
    update: Update
    average: Average | None = None
    loss: Loss = cross_entropy
    lr_schedule: Schedule = constant()  # noqa: RUF009  (frozen)
    noise_schedule: Schedule = constant()  # noqa: RUF009  (frozen)
    microbatch: int | None = None
    copies: int = 1
    augment: Callable[[Tensor, ExampleDraws], Tensor] | None = None
    precision: str = "float32"
    overflow: float = 0.0
    projection: Projection | None = None

    def __post_init__(self) -> None:
        expect(type(self.steps) is int and self.steps >= 0, "Descent", "steps as a whole number >= 0", self.steps)
        expect_count("Descent", optional=True, microbatch=self.microbatch)
        expect_count("Descent", copies=self.copies)
        expect_one_of("Descent", PRECISIONS, precision=self.precision)
        expect_in("Descent", "[0, 1)", overflow=self.overflow)
        for name, method in METHODS.items():
            value = getattr(self, name)
            optional = value is None and name in ("average", "augment", "projection")
            words = "a function" if method == "__call__" else f"an object of privaware.descent with a method {method}"
            expect(optional or callable(getattr(value, method, None)), "Descent", f"{name} as {words}", value)
        if self.projection is not None:
            expect_one_of("projection", self.projection.clips, clip=type(self.clip).__name__)
            expect_one_of("projection", self.projection.precisions, precision=self.precision)
            expect_one_of("projection", ("sgd", "momentum"), update=type(self.update).__name__)

    def noise_at(self, noise: float, step: int) -> float:
        """Return the noise multiplier of `step` (from 0): `noise` times the factor of `noise_schedule` at this step.

        Both `cost` and `run` use it.
        """
        return noise * self.noise_schedule.at(step, self.steps)

    def gradient_noise(self, noise: float) -> float:
        """Return the noise multiplier of the gradient sum alone, from `noise`, the noise multiplier of the whole step.

        The two differ for a `quantile` clip only, because it releases a count together with the gradient sum. Raise
        `WrongInput` if the clip's `count_noise` is at most half of `noise`.
        """
        return self.clip.gradient_noise(noise) if isinstance(self.clip, quantile) else noise

    def cost(self, noise: float) -> Event:
        """Return the privacy cost of `run` with this noise multiplier.

        Parameters
        ----------
        noise : float
            The noise multiplier.

        Returns
        -------
        Event
            The cost of all steps, and of `overflow` if examples are sampled.

        Raises
        ------
        WrongInput
            If the clip is `quantile` and its `count_noise` is at most half the noise multiplier of a step.
        """
        multipliers = Counter(self.noise_at(noise, step) for step in range(self.steps))
        event = NOTHING
        for multiplier, count in multipliers.items():
            self.gradient_noise(multiplier)  # refuses a `quantile` clip whose `count_noise` is too small
            event = event + count * self.sampler.event(Gaussian(noise=multiplier))
        if self.overflow and self.sampler.rate < 1:
            event = event + Approximate(epsilon=0.0, delta=self.overflow)
        return event
