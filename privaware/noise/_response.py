"""Randomised response among candidates: draws that follow even tiny probabilities."""

from __future__ import annotations

import math

import numpy as np

from privaware.errors import WrongInput


def randomised_response(
    exact: np.ndarray, candidates: np.ndarray, epsilon: float, stream: np.random.Generator
) -> np.ndarray:
    """Return a random response for each class code in `exact`: one of the candidates of its row.

    `candidates` (..., classes) is a boolean mask of the classes that may be the response, broadcast over the axes of
    `exact`. For k candidates, a code among the candidates is kept with probability `e**epsilon / (e**epsilon + k - 1)`,
    and otherwise replaced by another candidate, each with the same probability. A code that is no candidate is replaced
    by any of the k with the same probability. `stream` is the source of randomness. A row without a candidate raises
    `WrongInput`. The result has the shape of `exact`.
    """
    if not candidates.any(axis=-1).all():
        raise WrongInput("expected at least one candidate for each row, got a row without any")
    allowed = np.broadcast_to(candidates, (*exact.shape, candidates.shape[-1])).copy()
    inside, others, change = _change(exact, allowed, epsilon)
    np.put_along_axis(allowed, exact[..., None], False, axis=-1)
    place = stream.integers(0, np.maximum(others, 1))
    other = (allowed.cumsum(axis=-1) > place[..., None]).argmax(axis=-1)
    return np.where(~inside | (small_uniforms(exact.shape, stream) < change), other, exact)


def _change(exact: np.ndarray, allowed: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return whether each code is a candidate, the number of other candidates, and the probability of replacement.

    All three have the shape of `exact`, which holds class codes. `allowed` (*shape of `exact`, classes) says for each
    code which classes are candidates. The probability is `others / (others + e**epsilon)` for a code that is a
    candidate, where `others` is the number of other candidates, and 1 for a code that is none.
    """
    inside = np.take_along_axis(allowed, exact[..., None], axis=-1)[..., 0]
    others = allowed.sum(axis=-1) - inside
    odds = others * math.exp(-epsilon)
    return inside, others, np.where(inside, odds / (1 + odds), 1.0)


def small_uniforms(shape: tuple[int, ...], stream: np.random.Generator) -> np.ndarray:
    """Return an array of this `shape` with uniform float64 numbers in [0, 1] from `stream`, in steps of about 2^-106.

    So a comparison with a probability below 2^-53 is right, too; numpy's own uniform numbers are multiples of 2^-53.
    """
    return stream.random(shape) + stream.random(shape) * 2.0**-53
