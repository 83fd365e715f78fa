"""Labels for public rows by noisy votes, of which one private row takes away one and adds one at most.

So a row moves the votes of a query by 2 in L1, by the root of 2 in L2, and the largest number of votes by 1. Votes may
be fractions, whose rounding `MARGIN` covers.
"""

from __future__ import annotations

import math

import numpy as np

from privaware.events import Event, Gaussian, Pure
from privaware.noise import Rng

__all__ = ["NO_LABEL", "VOTES", "is_confident", "vote_event", "voted_labels"]

VOTES = ("lnmax", "gnmax", "confident_gnmax")

NO_LABEL = -1
"""In the place of a label, of a row that no vote labelled."""

MARGIN = 1 + 2.0**-20


def vote_event(vote: str, noise: float) -> Event:
    """What one query costs. With Laplace noise of scale b it is 2 / b, known as pure epsilon.

    >>> vote_event("lnmax", noise=10.0), vote_event("gnmax", noise=10.0)
    (Pure(epsilon=0.1), Gaussian(noise=10.0))
    """
    return Pure(epsilon=1 / noise) if vote == "lnmax" else Gaussian(noise=noise)


def voted_labels(vote: str, exact_votes: np.ndarray, noise: float, rng: Rng) -> np.ndarray:
    """The class with most votes (queries, classes) after noise, each query with noise of its own."""
    if not len(exact_votes):
        return np.zeros(0, np.int64)
    each = np.full((len(exact_votes), 1), noise)
    if vote == "lnmax":
        noisy = rng.laplace(exact_votes, noise=each, sensitivity=2 * MARGIN)
    else:
        noisy = rng.gaussian(exact_votes, noise=each, sensitivity=math.sqrt(2) * MARGIN)
    return np.asarray(noisy.argmax(axis=1))


def is_confident(exact_votes: np.ndarray, least: float, noise: float, rng: Rng) -> np.ndarray:
    """Whether the largest number of votes of each query reaches `least` after Gaussian noise."""
    each = np.full(len(exact_votes), noise)
    return np.asarray(rng.gaussian(exact_votes.max(axis=1), noise=each, sensitivity=MARGIN) >= least)
