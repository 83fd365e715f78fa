"""Record a run, and play what it released back on neighbouring rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privaware.data import Data
from privaware.mechanism import Mechanism
from privaware.noise import Rng
from privaware.testing._release import released_numbers
from privaware.testing._rows import Edit
from privaware.testing._tape import BrokenPromise, Call, Recorder, Replayer


@dataclass(frozen=True, kw_only=True, eq=False)
class Replay:
    """What a recorded run and its replay showed: the calls, and how far each moved over its sensitivity."""

    calls: list[Call]
    released: Any
    ratios: dict[int, float] = field(default_factory=dict)

    @property
    def moved(self) -> set[int]:
        """The calls whose exact value the row changed at all."""
        return {at for at, ratio in self.ratios.items() if ratio > 1e-4}


def record(
    mechanism: Mechanism[Any], data: Data, noise: float, *, seed: int = 0, edit: Edit | None = None, inside: bool = True
) -> Replay:
    """Runs `mechanism` and notes every call of its generator."""
    rng = Recorder(seed, edit=edit, inside=inside)
    released = _run(mechanism, data, noise, rng, "the data")
    return Replay(calls=rng.calls, released=released)


def replay(
    mechanism: Mechanism[Any], data: Data, neighbour: Data, noise: float, *, seed: int = 0, inside: bool = True
) -> Replay:
    """Runs on `data`, plays what was released back on `neighbour`, and raises where the two can be told apart.

    The neighbour has one row more, one less, or one changed. Demanded are the same calls in the same
    order with the same public settings, exact values within the declared sensitivity, and the same
    release at the end. `inside` puts the row into every Poisson sample, or else into none.

    >>> from privaware.testing import example, rows_for
    >>> class Count:
    ...     def run(self, data, noise, rng):
    ...         return rng.gaussian(float(len(data)), noise=noise, sensitivity=0.5)
    >>> replay(Count(), rows_for(example(), 4), rows_for(example(), 4).take(slice(3)), noise=1.0)
    Traceback (most recent call last):
    privaware.testing.BrokenPromise: sensitivity exceeded: ... one row moves the exact value by 2 times...
    """
    edit = Edit.between(data, neighbour)
    before = record(mechanism, data, noise, seed=seed, edit=edit, inside=inside)
    doubled = edit.kind == "changed" and data.schema.relation == "replace_one"
    rng = Replayer(seed, before.calls, edit, inside=inside, doubled=doubled)
    released = _run(mechanism, neighbour, noise, rng, "a neighbour of the data")
    rng.finish()
    was, now = released_numbers(before.released), released_numbers(released)
    if not np.array_equal(was, now, equal_nan=True):
        raise BrokenPromise(
            "the release differs on neighbouring rows although every noisy value was played back: "
            + _difference(was, now)
        )
    return Replay(calls=before.calls, released=released, ratios=rng.ratios)


def _run(mechanism: Mechanism[Any], data: Data, noise: float, rng: Rng, words: str) -> Any:
    try:
        return mechanism.run(data, noise, rng)
    except BrokenPromise:
        raise
    except Exception as problem:
        raise BrokenPromise(
            f"run crashed on {words} ({len(data)} rows), and whether it crashes is a release: "
            f"{type(problem).__name__}: {problem}"
        ) from problem


def _difference(was: np.ndarray, now: np.ndarray) -> str:
    if len(was) != len(now):
        return f"it holds {len(was)} numbers on the data and {len(now)} on the neighbour"
    apart = int(np.argmax(~((was == now) | (np.isnan(was) & np.isnan(now)))))
    return f"number {apart + 1} of {len(was)} is {was[apart]:.6g} on the data and {now[apart]:.6g} on the neighbour"
