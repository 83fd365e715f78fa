"""Record a run, and replay it on neighbouring rows with the released values fixed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privaware.data import Data
from privaware.mechanism import Mechanism
from privaware.noise import Rng
from privaware.testing._call import BrokenPromise, Call
from privaware.testing._release import released_numbers
from privaware.testing._rows import Edit
from privaware.testing._tape import Recorder, Replayer


@dataclass(frozen=True, kw_only=True, eq=False)
class Replay:
    """A recorded run, and what its replay on neighbouring rows found.

    Parameters
    ----------
    calls : list of Call
        The recorded calls of the generator.
    released : object
        The release.
    ratios : dict of int to float
        For the position of each release in `calls`, the change of its exact value divided by the sensitivity that is
        allowed (twice the declared one for a replaced row in a Poisson sample). Empty if the run was not replayed.
    """

    calls: list[Call]
    released: Any
    ratios: dict[int, float] = field(default_factory=dict)

    @property
    def changed_calls(self) -> set[int]:
        """The positions of the releases whose ratio is above 1e-4."""
        return {at for at, ratio in self.ratios.items() if ratio > 1e-4}


def record(
    mechanism: Mechanism[Any],
    data: Data,
    noise: float,
    *,
    seed: int = 0,
    edit: Edit | None = None,
    inside: bool = True,
    part: int | None = None,
) -> Replay:
    """Run a mechanism and record every call of its generator; raise `BrokenPromise` if the run crashes.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    data : Data
        The rows.
    noise : float
        The noise multiplier.
    seed : int
        The seed of the generator.
    edit : Edit, optional
        The difference to a neighbour of `data`: it says which row `inside` and `part` refer to.
    inside : bool
        Whether that row is in every Poisson sample (True) or in none (False).
    part : int, optional
        The index of the part that the row is in, if the mechanism splits the rows.

    Returns
    -------
    Replay
        The recorded run.
    """
    rng = Recorder(seed, edit=edit, inside=inside, part=part)
    released = _run(mechanism, data, noise, rng, "the data")
    return Replay(calls=rng.calls, released=released)


def replay(
    mechanism: Mechanism[Any],
    data: Data,
    neighbour: Data,
    noise: float,
    *,
    seed: int = 0,
    inside: bool = True,
    part: int | None = None,
    apart: int = 1,
) -> Replay:
    """Run a mechanism on `data`, and repeat the run on `neighbour` with the released values fixed.

    Both runs must make the same calls with the same public settings and release the same. Exact values may differ by at
    most `apart` times the sensitivity (twice that for a replaced row in a sample). Otherwise raise `BrokenPromise`.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    data, neighbour : Data
        The rows, and rows with one row more, one less or one changed.
    noise, seed
        The noise multiplier and the seed of the generator.
    inside : bool
        Whether the row that differs is in every Poisson sample (True) or in none (False).
    part : int, optional
        The index of the part that the row that differs is in, if the mechanism splits the rows.
    apart : int
        How many sensitivities an exact value may move. It is 2 if a changed row counts as one row removed and one row
        added, and the stated cost is for a single added or removed row.

    Returns
    -------
    Replay
        The recorded run, with the ratios of changes to sensitivities.

    Examples
    --------
    >>> from privaware.testing import example, rows_for
    >>> class Count:
    ...     def run(self, data, noise, rng):
    ...         return rng.gaussian(float(len(data)), noise=noise, sensitivity=0.5)
    >>> replay(Count(), rows_for(example(), 4), rows_for(example(), 4).take(slice(3)), noise=1.0)
    Traceback (most recent call last):
    privaware.testing.BrokenPromise: sensitivity exceeded: ... one row moves the exact value by 2 times...
    """
    edit = Edit.between(data, neighbour)
    before = record(mechanism, data, noise, seed=seed, edit=edit, inside=inside, part=part)
    doubled = edit.kind == "changed" and data.schema.relation == "replace_one"
    rng = Replayer(seed, before.calls, edit, inside=inside, doubled=doubled, part=part, apart=apart)
    released = _run(mechanism, neighbour, noise, rng, "a neighbour of the data")
    rng.finish()
    first, second = released_numbers(before.released), released_numbers(released)
    if not np.array_equal(first, second, equal_nan=True):
        raise BrokenPromise(
            "the release differs on neighbouring rows although every noisy value was replayed: "
            + _difference(first, second)
        )
    return Replay(calls=before.calls, released=released, ratios=rng.ratios)


def _run(mechanism: Mechanism[Any], data: Data, noise: float, rng: Rng, where: str) -> Any:
    try:
        return mechanism.run(data, noise, rng)
    except BrokenPromise:
        raise
    except Exception as problem:
        raise BrokenPromise(
            f"run crashed on {where} ({len(data)} rows), and whether it crashes is a release: "
            f"{type(problem).__name__}: {problem}"
        ) from problem


def _difference(first: np.ndarray, second: np.ndarray) -> str:
    if len(first) != len(second):
        return f"it holds {len(first)} numbers on the data and {len(second)} on the neighbour"
    at = int(np.argmax(~((first == second) | (np.isnan(first) & np.isnan(second)))))
    return f"number {at + 1} of {len(first)} is {first[at]:.6g} on the data and {second[at]:.6g} on the neighbour"
