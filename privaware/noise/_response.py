"""Randomised response among candidates: its probabilities, and draws that follow even tiny probabilities."""

from __future__ import annotations

import math

import numpy as np

from privaware.errors import WrongInput

__all__ = ["randomised_response", "response_probabilities", "small_uniforms"]


def randomised_response(
    exact: np.ndarray, candidates: np.ndarray, epsilon: float, stream: np.random.Generator
) -> np.ndarray:
    """Return a random response for each class code in `exact`: one of the candidates of its row.

    `candidates` (..., classes) is a boolean mask of the classes that may be the response, broadcast over the axes of
    `exact`. For k candidates, a code that is one of them is kept with probability `e**epsilon / (e**epsilon + k - 1)`,
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


def response_probabilities(candidates: np.ndarray, epsilon: float) -> np.ndarray:
    """Return the probability of each response (columns) to each true class code (rows), as a square matrix.

    `candidates` (classes,) is a boolean mask of the classes that may be the response. A code that is one of the k
    candidates is kept with probability `e**epsilon / (e**epsilon + k - 1)`; otherwise another candidate replaces it,
    each with the same probability. For a code that is not a candidate, all k candidates have the same probability. So
    for any response the probabilities of two codes differ by at most the factor `e**epsilon`.

    >>> response_probabilities(np.array([True, True, False]), epsilon=math.log(3)).round(3).tolist()
    [[0.75, 0.25, 0.0], [0.25, 0.75, 0.0], [0.5, 0.5, 0.0]]
    """
    codes = np.arange(len(candidates))
    allowed = np.broadcast_to(candidates, (len(codes), len(codes)))
    inside, others, change = _change(codes, allowed, epsilon)
    table = np.where(allowed, (change / np.maximum(others, 1))[:, None], 0.0)
    table[codes, codes] = np.where(inside, 1 - change, 0.0)
    return table


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
