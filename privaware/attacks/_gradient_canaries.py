"""Canaries in gradient space: vectors of the declared sensitivity, added by coin flips to the values that are noised.

A mechanism draws noise only through its generator. An audit passes a generator that adds canaries, so no mechanism
needs code for audits, and nothing but an audit has such a generator. Canaries are orthogonal: each changes one number
of a noised array, so their scores are independent if the noise is. Clipping is not tested here, because a canary has
exactly the declared length. `_canary_examples.py` and rows as canaries test clipping, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privaware.data import Data
from privaware.errors import WrongInput
from privaware.mechanism import Mechanism
from privaware.noise import Rng
from privaware.schema import Schema

MIN_CANARIES = 20
"""Smallest number of canaries; fewer prove nothing and may all be on one side."""
ROUNDING_STEP = 2.0**-8
"""Rounding step of scored differences, in noise deviations; it hides low-order bits of exact values."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CanaryScores:
    """The `scores` of the canaries of one run: higher means that a canary was more likely in the data.

    `inside` is a mask of the canaries that really were in the data.
    """

    inside: np.ndarray = field(repr=False)
    scores: np.ndarray = field(repr=False)

    @property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """The scores of the canaries that were in the data, and of the canaries that were not."""
        return self.scores[self.inside], self.scores[~self.inside]

    def __len__(self) -> int:
        return len(self.scores)

    def and_those(self, other: CanaryScores) -> CanaryScores:
        """Return these canaries followed by the canaries of `other`, an independent run."""
        return CanaryScores(
            inside=np.concatenate([self.inside, other.inside]), scores=np.concatenate([self.scores, other.scores])
        )


def room_for_canaries(mechanism: Mechanism[Any], schema: Schema, noise: float, *, least: int = MIN_CANARIES) -> int:
    """Return the largest number of values that `mechanism` noises at once; raise `WrongInput` if it is below `least`.

    The number is found by a run on no rows of `schema` with the noise multiplier `noise`, which is possible because
    control flow is public. It costs no privacy. A mechanism that splits rows into parts raises `WrongInput` too.
    """
    probe = CanaryRng(Rng(seed=0), canaries=0)
    mechanism.run(no_rows(schema), noise, probe)
    if probe.largest < least:
        raise WrongInput(
            f"expected a mechanism that noises arrays, got one that noises {probe.largest} numbers at once, too few "
            "for canaries in one run; audit it with rows as canaries (--insert=input) or by --attack=many_run"
        )
    return probe.largest


def gradient_canaries(
    mechanism: Mechanism[Any], data: Data, noise: float, rng: Rng, *, canaries: int = 1000
) -> CanaryScores:
    """Run `mechanism` once on `data` with canaries in the values that it noises, and return the score of each canary.

    `noise` is the noise multiplier. Nothing is charged here. The largest noised array must have a value for each
    canary; if it has fewer than `canaries` values, there are fewer canaries. Every noised array with at least as many
    values as canaries gets all canaries. The attacker knows the rows and subtracts the exact values, which leaves
    canary and noise.
    """
    room = room_for_canaries(mechanism, data.schema, noise, least=1)
    listening = CanaryRng(rng, canaries=min(canaries, room))
    mechanism.run(data, noise, listening)
    return CanaryScores(inside=listening.inside, scores=listening.scores)


def no_rows(schema: Schema) -> Data:
    """Return data with `schema` and no rows, whose arrays have the shape and dtype that rows of the schema have."""
    shape = schema.shape if schema.form == "image" else () if schema.form == "text" else (len(schema.used),)
    numbers = schema.bounded and not (schema.has_whole_texts or schema.has_whole_columns)
    kind = np.float32 if schema.form == "image" else float if numbers else object
    return Data(
        schema=schema, x=np.zeros((0, *shape), dtype=kind), y=np.zeros(0, dtype=np.int64 if schema.classes else float)
    )


class CanaryRng(Rng):
    """A noise generator that adds canaries to arrays before it adds noise, and scores them on the noised arrays.

    Each of `canaries` canaries is in the data with probability 1/2 (`inside`). It adds the declared sensitivity to one
    value of each array that has at least `canaries` values. In a Poisson sample it takes part with the probability of a
    row. Its score (`scores`) is the sum over arrays of the log-likelihood ratio of "in" against "out" at the declared
    noise; it is a valid score whatever the actual noise is. `largest` is the size of the largest array that was noised
    without canaries; with `canaries=0` these are all arrays.
    """

    def __init__(self, rng: Rng, *, canaries: int) -> None:
        self.seed, self._streams = rng.seed, rng._streams
        self.canaries, self.largest, self.rate = canaries, 0, 1.0
        self.inside = self.initial.random(canaries) < 0.5
        self.sampled = np.ones(canaries, dtype=bool)
        self.scores = np.zeros(canaries)

    def gaussian(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        def ratios(values: np.ndarray, deviation: float) -> np.ndarray:
            return (2 * values - 1) / (2 * deviation**2)

        return self._with_canaries(super().gaussian, exact, noise, sensitivity, ratios)

    def laplace(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        def ratios(values: np.ndarray, scale: float) -> np.ndarray:
            return np.asarray((np.abs(values) - np.abs(values - 1)) / scale)

        return self._with_canaries(super().laplace, exact, noise, sensitivity, ratios)

    def poisson(self, rows: int, rate: float) -> np.ndarray:
        self.rate = rate
        self.sampled = self._streams.cpu["sampling"].random(self.canaries) < rate
        return super().poisson(rows, rate)

    def shards(self, rows: int, shares: tuple[float, ...]) -> np.ndarray:
        raise WrongInput(
            "expected a mechanism that uses all rows alike, got one that splits them into parts; audit it with rows as "
            "canaries (--insert=input)"
        )

    def spawn(self) -> Rng:
        return self  # releases of spawned parts have canaries, too

    def _with_canaries(self, release: Any, exact: Any, noise: Any, sensitivity: Any, ratios: Any) -> Any:
        """Return `exact` with canaries and noise, and add to the canaries' scores; each canary changes one value.

        `release(exact, noise, sensitivity)` adds the noise to an array, and `ratios(values, noise)` computes
        log-likelihood ratios from values in units of the sensitivity. `noise` is the noise multiplier, and
        `sensitivity` is the length of a canary. If one of them is an array of several numbers, raise `WrongInput`. A
        canary takes part only if it is in the data and in the present sample. An array with fewer values than canaries
        is released without canaries.
        """
        size = 1 if isinstance(exact, float) else math.prod(exact.shape)
        if not self.canaries or size < self.canaries:
            self.largest = max(self.largest, size)
            return release(exact, noise=noise, sensitivity=sensitivity)
        length, deviation = _number("sensitivity", sensitivity), _number("noise", noise)
        moved = exact.clone() if hasattr(exact, "clone") else np.array(exact, dtype=float)
        flat = moved.reshape(-1)
        at = np.linspace(0, size - 1, self.canaries).astype(np.int64)
        flat[at] += length * _like(flat, (self.inside & self.sampled).astype(float))
        noisy = release(moved, noise=noise, sensitivity=sensitivity)
        left = (_array(noisy) - _array(exact)).reshape(-1)[at] / length
        losses = ratios(np.round(left / (ROUNDING_STEP * deviation)) * ROUNDING_STEP * deviation, deviation)
        if self.rate < 1:
            losses = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + losses)
        self.scores += losses
        return noisy


def _array(value: Any) -> np.ndarray:
    return np.asarray(value.detach().cpu().double().numpy() if hasattr(value, "detach") else value, dtype=float)


def _like(values: Any, numbers: np.ndarray) -> Any:
    return values.new_tensor(numbers) if hasattr(values, "new_tensor") else numbers


def _number(name: str, value: Any) -> float:
    values = _array(value).reshape(-1)
    if len(values) != 1:
        raise WrongInput(f"expected one {name} for a noised array, got {len(values)}; audit one model at a time")
    return float(values[0])
