"""Randomised response among candidates: the probabilities, and draws that have them also where they are tiny."""

from __future__ import annotations

import math

import numpy as np

from privaware.errors import WrongInput

__all__ = ["randomised_response", "response_probabilities", "small_uniforms"]


def randomised_response(
    exact: np.ndarray, candidates: np.ndarray, epsilon: float, stream: np.random.Generator
) -> np.ndarray:
    """A response for each class code of `exact`, with the probabilities of `response_probabilities`.

    `candidates` (..., classes) are broadcast over the leading axes of `exact`.
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
    """(codes, responses): how likely each response is to each class code, of one row with these candidates.

    A code among k candidates is kept with probability e^epsilon / (e^epsilon + k - 1), and any other candidate has the
    same chance to replace it; to a code that is no candidate all k are as likely. Two codes differ by at most e^epsilon
    for any response.

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
    """Whether a code is a candidate, how many others there are, and the probability that one of them replaces it."""
    inside = np.take_along_axis(allowed, exact[..., None], axis=-1)[..., 0]
    others = allowed.sum(axis=-1) - inside
    odds = others * math.exp(-epsilon)
    return inside, others, np.where(inside, odds / (1 + odds), 1.0)


def small_uniforms(shape: tuple[int, ...], stream: np.random.Generator) -> np.ndarray:
    """Uniform in [0, 1], with 53 significant bits also near 0: below 2^-53 the first draw alone would be 0."""
    return stream.random(shape) + stream.random(shape) * 2.0**-53
