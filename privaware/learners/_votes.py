"""Noisy votes that label public rows, for PATE and Private-kNN.

One private row removes at most one vote of a query and adds at most one. It therefore changes the votes of a query by
at most 2 in L1 norm and sqrt(2) in L2 norm, and the largest number of votes by at most 1. Votes may be fractions, whose
rounding error `MARGIN` covers.
"""

from __future__ import annotations

import math

import numpy as np

from privaware.events import Event, Gaussian, Pure
from privaware.noise import Rng

VOTES = ("lnmax", "gnmax", "confident_gnmax")
"""Names of the noisy votes: Laplace noise, Gaussian noise, and Gaussian noise after a test of confidence."""

NO_LABEL = -1
"""The number in an array of class codes that means that a row has no label."""

MARGIN = 1 + 2.0**-20
"""Factor on the sensitivity that covers the rounding of fractional votes."""


def vote_event(vote: str, noise: float) -> Event:
    """Return the event (the privacy cost) of releasing the winner of one noisy vote, without a test of confidence.

    `noise` is the noise multiplier. The vote "lnmax" adds Laplace noise of scale `b = 2 * noise` and costs pure epsilon
    `2 / b = 1 / noise`. The votes "gnmax" and "confident_gnmax" cost `Gaussian(noise)`.

    >>> vote_event("lnmax", noise=10.0), vote_event("gnmax", noise=10.0)
    (Pure(epsilon=0.1), Gaussian(noise=10.0))
    """
    return Pure(epsilon=1 / noise) if vote == "lnmax" else Gaussian(noise=noise)


def voted_labels(vote: str, exact_votes: np.ndarray, noise: float, rng: Rng) -> np.ndarray:
    """Return the class with the most votes after noise, as a class code for each query: int64 (queries,).

    `exact_votes` (queries, classes) are the votes, perhaps fractions, and `vote` is one of `VOTES`. Confidence is not
    tested. Each count gets independent noise: Laplace of scale `2 * noise` for "lnmax", or Gaussian of standard
    deviation `sqrt(2) * noise` for the other votes, both times `MARGIN`.
    """
    if not len(exact_votes):
        return np.zeros(0, np.int64)
    each = np.full((len(exact_votes), 1), noise)
    if vote == "lnmax":
        noisy = rng.laplace(exact_votes, noise=each, sensitivity=2 * MARGIN)
    else:
        noisy = rng.gaussian(exact_votes, noise=each, sensitivity=math.sqrt(2) * MARGIN)
    return np.asarray(noisy.argmax(axis=1))


def is_confident(exact_votes: np.ndarray, least: float, noise: float, rng: Rng) -> np.ndarray:
    """Return a Boolean for each query: whether its largest number of votes plus Gaussian noise is at least `least`.

    `exact_votes` (queries, classes) are the votes, and `least` is a number of votes. Each query gets noise of its own
    with standard deviation `noise * MARGIN`, where `MARGIN` is slightly above 1 and covers rounding errors.
    """
    each = np.full(len(exact_votes), noise)
    return np.asarray(rng.gaussian(exact_votes.max(axis=1), noise=each, sensitivity=MARGIN) >= least)
