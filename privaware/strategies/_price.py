"""The cost of one trial of a search, which trains and scores one candidate, computed from public facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from privaware import accounting
from privaware.errors import WrongInput
from privaware.events import AnyOf, Event, Laplace, divided_anew
from privaware.learners import ResumableLearner
from privaware.mechanism import Mechanism
from privaware.model import Model
from privaware.models.spaces import Point, Space
from privaware.schema import Schema

Build = Callable[[dict[str, Any]], Mechanism[Model]]
"""A function from the settings of a candidate to its learner."""

REFERENCE_DELTA = accounting.DEFAULT_DELTA
"""Delta at which the costs of candidates are compared: a public convention, not the delta of the guarantee."""


@dataclass(frozen=True, kw_only=True)
class TrialPrice:
    """The privacy cost of one trial of a search: training a candidate and scoring it.

    `space` holds the candidates, and `build` returns a learner for the settings of a candidate. Every `schema` argument
    describes the training rows.

    The reference noise multiplier of a candidate is the one at which its training costs `reference_epsilon` (at delta
    `REFERENCE_DELTA`). All candidates train at the same multiple of their reference noise multipliers, so that they
    cost about the same. When this multiple is 1, one score with Laplace noise costs epsilon
    `score_fraction * reference_epsilon`. `reference_noise` is the reference noise multiplier of the first candidate,
    `space.priced_points()[0]`; None computes it.
    """

    space: Space
    build: Build
    reference_epsilon: float
    score_fraction: float
    reference_noise: float | None = None

    def learner(self, point: Point) -> Mechanism[Model]:
        """Return the learner of the candidate `point`."""
        return self.build(self.space.settings(point))

    def training(self, schema: Schema, noise: float, share: float = 1.0) -> Event:
        """Return the cost of one training that covers every candidate: the event in `declared`, or `AnyOf` all of them.

        A training that divides the rows itself (`Disjoint`) does so anew for each candidate (`divided_anew`).

        `noise` is the noise multiplier of the first candidate, `space.priced_points()[0]`. A training runs the fraction
        `share` of its steps.
        """
        events = self.declared(schema, noise, share)
        return divided_anew(events[0]) if len(events) == 1 else AnyOf(events=events)

    def declared(self, schema: Schema, noise: float, share: float = 1.0) -> tuple[Event, ...]:
        """Return the different costs that the trainings of candidates have: one event for each.

        `noise` is the noise multiplier of the first candidate, `space.priced_points()[0]`. A training runs the fraction
        `share` of its steps.
        """
        costs = (
            truncated(self.learner(point), schema, share).cost(schema, noise * scale)
            for point, scale in self.noise_scales(schema)
        )
        return tuple(dict.fromkeys(costs))

    def score(self, schema: Schema, noise: float) -> Event:
        """Return the cost of one noisy score, when the first candidate trains with noise multiplier `noise`.

        The first candidate is `space.priced_points()[0]`; the noise of scores is proportional to its noise multiplier.
        """
        return Laplace(noise=noise * self.score_scale(schema))

    def noise_scales(self, schema: Schema) -> list[tuple[Point, float]]:
        """Return (candidate, relative noise multiplier) for each of the candidates `space.priced_points()`.

        The relative noise multiplier is the noise multiplier of the candidate divided by the noise multiplier of the
        first candidate.
        """
        points = self.space.priced_points()
        if len(points) == 1:
            return [(points[0], 1.0)]
        noises = [self._balanced_noise(point, schema) for point in points]
        return [(point, noise / noises[0]) for point, noise in zip(points, noises, strict=True)]

    def score_scale(self, schema: Schema) -> float:
        """Return the scale of the Laplace noise of a score divided by the noise multiplier of the first candidate.

        The scale is in rows.
        """
        return 1 / (self.score_fraction * self.reference_epsilon) / self.calibrated_noise(schema)

    def calibrated_noise(self, schema: Schema) -> float:
        """Return `reference_noise` or, if it is None, the reference noise multiplier of the first candidate."""
        return self.reference_noise or self._balanced_noise(self.space.priced_points()[0], schema)

    def _balanced_noise(self, point: Point, schema: Schema) -> float:
        learner = self.learner(point)
        return accounting.calibrate(lambda noise: learner.cost(schema, noise), self.reference_epsilon, REFERENCE_DELTA)


def truncated(
    learner: Mechanism[Model], schema: Schema, share: float, initial: Model | None = None
) -> Mechanism[Model]:
    """Return a learner that runs the fraction `share` of the steps of a training, starting from the model `initial`.

    If `initial` is None, the training starts anew; for `share` 1 this is `learner` itself. Otherwise raise `WrongInput`
    if `learner` cannot stop and continue.
    """
    if share == 1 and initial is None:
        return learner
    if not isinstance(learner, ResumableLearner):
        raise WrongInput(
            f"expected a learner that can stop and continue its training, got {type(learner).__name__}; use a strategy "
            "that trains candidates fully, such as rs"
        )
    return learner.truncated(schema, share, initial)


def price_key(space: Space, point: Point) -> str:
    """Return a key, made of the choices in `space.priced`; candidates with the same key have the same cost."""
    return repr([point.get(name) for name in space.priced])


def unpriced(candidate: Any) -> WrongInput:
    """Return the error for a candidate whose privacy cost is not among the costs that the space declares."""
    return WrongInput(
        f"a candidate costs something else than the space declares ({candidate!r:.160}); name the choices that change "
        'the cost at the top of the space, such as priced = ["steps"]'
    )
