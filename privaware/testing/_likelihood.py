"""How much likelier a noised value is on one data set than on its neighbour: the score of an ideal attacker."""

from __future__ import annotations

from typing import Any

import numpy as np

from privaware.errors import WrongInput
from privaware.testing._call import Call, noises

__all__ = ["choice_probabilities", "log_ratio"]

NODES = 100
"""Of the integral of `choice_probabilities`: twelve digits with 20,000 candidates."""


def log_ratio(without: Call, within: Call, returned: Any) -> np.ndarray:
    """The log-likelihood of `returned` under the exact value `within`, less that under `without`.

    One number for each part that has a noise of its own. `returned` may have more leading axes than the exact
    value, one game each; they stay. For objective perturbation it is not used: a call holds what it implies.

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
    """The log-likelihood of responses (..., rows) among the candidates of each row."""
    candidates = call.public["candidates"]
    inside = candidates[np.arange(len(candidates)), call.exact.astype(int)]
    count = candidates.sum(axis=1)
    kept = np.where(value == call.exact, 0.0, -epsilon) - np.log1p((count - 1) * np.exp(-epsilon))
    return np.asarray(np.where(inside, kept, -np.log(count)).sum(axis=-1))


def _summed(losses: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Sums over all axes of the exact value along which the noise is one."""
    lead = losses.ndim - scale.ndim
    shared = tuple(lead + axis for axis in range(scale.ndim) if scale.shape[axis] == 1)
    return np.asarray(losses.sum(axis=shared))


def _perturbed(without: np.ndarray, within: np.ndarray, public: dict[str, Any]) -> np.ndarray:
    """From the random vectors that a release implies, and the log volume in the last column."""
    scale = public["noise"] * public["sensitivity"]
    lengths = [np.linalg.norm(implied[:, :-1], axis=1) / scale for implied in (without, within)]
    if public["distribution"] == "gaussian":
        lengths = [length**2 / 2 for length in lengths]
    return np.asarray(lengths[0] - lengths[1] + within[:, -1] - without[:, -1])


def choice_probabilities(scores: np.ndarray, scale: float) -> np.ndarray:
    """The chance of each index to have the largest score after exponential noise of this scale.

    With w_i = exp((score_i - largest) / scale) it is w_i times the integral over u in [0, 1] of the product of
    1 - w_j u over all others j.

    >>> choice_probabilities(np.array([0.0, 0.0, -1e9]), 1.0).round(9).tolist()
    [0.5, 0.5, 0.0]
    """
    values, index, counts = np.unique(np.asarray(scores, dtype=float), return_inverse=True, return_counts=True)
    weights = np.exp((values - values[-1]) / scale)
    nodes, shares = np.polynomial.legendre.leggauss(NODES)
    at = (nodes + 1) / 2  # u = at**3: the product falls fast near 0 where candidates are many
    lost = np.log1p(-np.outer(at**3, weights))
    products = np.exp((lost @ counts)[:, None] - lost)
    probabilities = weights * ((shares / 2 * 3 * at**2) @ products)
    return np.asarray(np.maximum(probabilities, 1e-300)[index])
