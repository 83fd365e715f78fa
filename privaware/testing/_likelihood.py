"""Compute log-likelihood ratios of noised values on two neighbouring data sets: the score of an optimal attacker."""

from __future__ import annotations

from typing import Any

import numpy as np

from privaware.errors import WrongInput
from privaware.testing._call import Call, noises

NODES = 100
"""Number of quadrature nodes in `choice_probabilities`, which gives twelve digits with 20,000 candidates."""


def log_ratio(without: Call, within: Call, returned: Any) -> np.ndarray:
    """Return `log p(returned | within) - log p(returned | without)`, where p is the density given the exact value.

    `without` and `within` are the same call on the data without and with the row. There is one number for each
    separately noised part. `returned` may have more leading axes than the exact value, one entry for each game; the
    result keeps these axes. For objective perturbation `returned` is not used, because the exact value of such a call
    is the noise vector that the release implies. Raise `WrongInput` for calls of `iterate`, whose likelihood is not
    known.

    >>> from privaware.testing._call import make_call
    >>> zero, one = (make_call("gaussian", exact, None, {"noise": 2.0, "sensitivity": 1.0}) for exact in (0.0, 1.0))
    >>> log_ratio(zero, one, np.array([0.5, 4.5])).tolist()
    [0.0, 1.0]
    """
    if without.kind == "perturb":
        return _perturbed(without.exact, within.exact, without.public)
    if without.kind == "choose":
        scale = 2 * float(without.public["sensitivity"]) / float(without.public["epsilon"])
        ratios = np.log(choice_probabilities(within.exact, scale)) - np.log(choice_probabilities(without.exact, scale))
        return np.asarray(ratios[np.asarray(returned, dtype=int)])
    exact, other, value = (np.asarray(each, dtype=float) for each in (without.exact, within.exact, returned))
    if without.kind == "respond":
        epsilon = float(without.public["epsilon"])
        if "candidates" in without.public:
            return _among_candidates(within, value, epsilon) - _among_candidates(without, value, epsilon)
        return np.asarray(_summed(epsilon * ((value == other) * 1.0 - (value == exact)), np.ones((1,) * exact.ndim)))
    noise, sensitivity = noises(without)
    scale = noise * sensitivity
    if without.kind == "gaussian":
        losses = ((value - exact) ** 2 - (value - other) ** 2) / (2 * scale**2)
    elif without.kind == "laplace":
        losses = (np.abs(value - exact) - np.abs(value - other)) / scale
    else:
        raise WrongInput(f"expected a call whose likelihood is known, got {without.kind!r}; use canary_game")
    return _summed(losses, scale)


def _among_candidates(call: Call, value: np.ndarray, epsilon: float) -> np.ndarray:
    """Return the log-likelihood of the responses `value` (..., rows), summed over rows, with shape (...).

    Each row's response is one of its candidates, in the mask `call.public["candidates"]` (rows, classes). If the exact
    value of a row is not among its candidates, each candidate is the response with equal probability.
    """
    candidates = call.public["candidates"]
    inside = candidates[np.arange(len(candidates)), call.exact.astype(int)]
    count = candidates.sum(axis=1)
    kept = np.where(value == call.exact, 0.0, -epsilon) - np.log1p((count - 1) * np.exp(-epsilon))
    return np.asarray(np.where(inside, kept, -np.log(count)).sum(axis=-1))


def _summed(losses: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the sum of `losses` over the axes along which `scale` has length 1, without these axes.

    The axes of `scale` correspond to the last axes of `losses`. The axes of `losses` before them are kept.
    """
    lead = losses.ndim - scale.ndim
    shared = tuple(lead + axis for axis in range(scale.ndim) if scale.shape[axis] == 1)
    return np.asarray(losses.sum(axis=shared))


def _perturbed(without: np.ndarray, within: np.ndarray, public: dict[str, Any]) -> np.ndarray:
    """Return the log-likelihood ratios of objective perturbation, one for each noise vector.

    The rows of `without` and `within` are the noise vectors that the release implies, with the log volume in the last
    column.
    """
    scale = public["noise"] * public["sensitivity"]
    lengths = [np.linalg.norm(implied[:, :-1], axis=1) / scale for implied in (without, within)]
    if public["distribution"] == "gaussian":
        lengths = [length**2 / 2 for length in lengths]
    return np.asarray(lengths[0] - lengths[1] + within[:, -1] - without[:, -1])


def choice_probabilities(scores: np.ndarray, scale: float) -> np.ndarray:
    """Return the probability of each index to have the largest score after exponential noise of scale `scale`.

    With `w[i] = exp((scores[i] - max(scores)) / scale)`, the probability of i is `w[i]` times the integral over u in
    [0, 1] of the product of `1 - w[j] * u` over all j other than i. Probabilities below 1e-300 are returned as 1e-300.

    >>> choice_probabilities(np.array([0.0, 0.0, -1e9]), 1.0).round(9).tolist()
    [0.5, 0.5, 0.0]
    """
    values, index, counts = np.unique(np.asarray(scores, dtype=float), return_inverse=True, return_counts=True)
    weights = np.exp((values - values[-1]) / scale)
    nodes, shares = np.polynomial.legendre.leggauss(NODES)
    at = (nodes + 1) / 2  # u = at**3, because with many candidates the product falls fast near 0
    lost = np.log1p(-np.outer(at**3, weights))
    products = np.exp((lost @ counts)[:, None] - lost)
    probabilities = weights * ((shares / 2 * 3 * at**2) @ products)
    return np.asarray(np.maximum(probabilities, 1e-300)[index])
