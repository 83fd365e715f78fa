"""The table of the probabilities of randomised response, from the probability that the package draws by."""

from __future__ import annotations

import numpy as np

from privaware.noise._response import _change

__all__ = ["response_probabilities"]


def response_probabilities(candidates: np.ndarray, epsilon: float) -> np.ndarray:
    """Return the probability of each response (columns) to each true class code (rows), as a square matrix.

    `candidates` (classes,) is a boolean mask of the classes that may be the response. A code that is one of the k
    candidates is kept with probability `e**epsilon / (e**epsilon + k - 1)`; otherwise another candidate replaces it,
    each with the same probability. For a code that is not a candidate, all k candidates have the same probability. So
    for any response the probabilities of two codes differ by at most the factor `e**epsilon`.

    >>> response_probabilities(np.array([True, True, False]), epsilon=np.log(3)).round(3).tolist()
    [[0.75, 0.25, 0.0], [0.25, 0.75, 0.0], [0.5, 0.5, 0.0]]
    """
    codes = np.arange(len(candidates))
    allowed = np.broadcast_to(candidates, (len(codes), len(codes)))
    inside, others, change = _change(codes, allowed, epsilon)
    table = np.where(allowed, (change / np.maximum(others, 1))[:, None], 0.0)
    table[codes, codes] = np.where(inside, 1 - change, 0.0)
    return table
