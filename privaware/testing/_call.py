"""Represent one call of the noise generator for the checks: its exact value, public settings and returned value."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

MEASURES = {"gaussian": "L2 distance", "laplace": "L1 distance", "choose": "largest score change"}
"""Name of the distance in which sensitivity is measured, by kind of call."""


class BrokenPromise(AssertionError):
    """Raised by a check of a mechanism, learner or attack if it breaks a promise of its contract.

    The message names the promise and what the check saw.
    """


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """One call of the noise generator.

    `kind` is the name of the generator's method. `public` holds its public settings. `exact` is the value before noise
    and `returned` the value after it. `step` is the machine epsilon of the exact value's dtype, or 0 for integers.
    """

    kind: str
    public: dict[str, Any]
    exact: np.ndarray
    returned: Any
    step: float = 0.0

    @property
    def samples_rows(self) -> bool:
        """Whether the call drew something for each row, such as a sample of rows, and released no value."""
        return self.kind in ("poisson", "shards", "examples")


def noises(call: Call) -> tuple[np.ndarray, np.ndarray]:
    """Return the noise multipliers and sensitivities of a call of `gaussian` or `laplace`.

    Both arrays have as many axes as the exact value. An axis of length 1 means that all values along it share one noise
    multiplier and one sensitivity.
    """
    noise, sensitivity = np.broadcast_arrays(
        as_array(call.public["noise"]).astype(float), as_array(call.public["sensitivity"]).astype(float)
    )
    shape = (1,) * (call.exact.ndim - noise.ndim) + noise.shape
    return noise.reshape(shape), sensitivity.reshape(shape)


def moved_ratio(before: Call, now: Call) -> float:
    """Return the distance between the exact values of two calls divided by the sensitivity that `before` declares.

    The distance is L2 for `gaussian`, L1 for `laplace`, and the largest change of a score for `choose`. If parts of the
    value are noised separately, the largest of their ratios is returned. A bound on the rounding error is subtracted
    from the distance first. For randomised response (`respond`) return the number of changed rows. Calls of `perturb`
    and `iterate` are not supported; see `perturbed_ratio` and `chain_ratio`.
    """
    change = now.exact.astype(float) - before.exact.astype(float)
    if before.kind == "respond":
        return float((change.reshape(len(change), -1) != 0).any(axis=1).sum()) if change.size else 0.0
    size = float(np.sqrt((before.exact.astype(float) ** 2).sum()))
    if before.kind == "choose":
        distance, limit = (np.abs(change).max(initial=0.0), np.asarray(before.public["sensitivity"], float))
    else:
        limit = noises(before)[1]
        shared = tuple(axis for axis in range(change.ndim) if limit.shape[axis] == 1)
        if before.kind == "gaussian":
            distance = np.sqrt((change**2).sum(axis=shared, keepdims=True))
        else:
            distance = np.abs(change).sum(axis=shared, keepdims=True)
    rounding = 32 * before.step * (size + limit)
    beyond = np.maximum(distance - rounding, 0.0)
    return float(np.max(np.where(beyond > 0, beyond / np.maximum(limit, 1e-300), 0.0), initial=0.0))


def expect_valid(call: Call, at: int) -> None:
    """Raise `BrokenPromise` unless the exact value is finite and noise, sensitivity and epsilon, if given, are above 0.

    `at` is the position of the call, from 0, for the message.
    """
    words = f"call {at + 1} ({call.kind})"
    if not np.isfinite(call.exact.astype(float)).all():
        raise BrokenPromise(f"{words} was given an exact value that is not finite: one row can break the release")
    for name in ("noise", "sensitivity", "epsilon"):
        if name in call.public and not (as_array(call.public[name]).astype(float) > 0).all():
            raise BrokenPromise(f"{words} was given {name} {call.public[name]!r:.60}, expected more than 0")


def make_call(kind: str, exact: Any, returned: Any, public: dict[str, Any]) -> Call:
    """Return a `Call` that holds copies of its arguments, so that later changes in place do not reach it."""
    values = as_array(exact)
    step = float(np.finfo(values.dtype).eps) if values.dtype.kind == "f" else 0.0
    return Call(
        kind=kind,
        public={name: copied(value) for name, value in public.items()},
        exact=values.copy(),
        returned=copied(returned),
        step=step,
    )


def as_array(value: Any) -> np.ndarray:
    """Return a tensor, array or number as an array; floating-point tensors of fewer than 32 bits become float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float().numpy() if value.is_floating_point() and value.element_size() < 4 else value.numpy()
    return np.asarray(value)


def copied(value: Any) -> Any:
    """Return a copy of a tensor, array or other value; the copy of a container is shallow."""
    return value.detach().clone() if hasattr(value, "detach") else copy.copy(value)
