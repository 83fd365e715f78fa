"""Capped batches in the CF accountant: find the true numbers of rows at which a step costs most.

Let q be the sampling rate and n the true number of rows. The other n - 1 rows fill the batch with probability
w(n) = P[Bin(n-1, q) >= cap]. Then a sampled row replaces another row, at twice the sensitivity, with probability
r(n) = P[Bin(n, q) > cap] (cap / n) / w(n). w(n) rises with n and r(n) falls. So a step with w(b) and r(a) costs at
least as much as a step at any n between a and b. Counts beyond the peak of w(n) r(n) cost less. (`_capped.py` proves
both.) Such steps, for neighbouring a and b, are compared by their moments of several orders, and the most costly step
of each order is kept.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from privaware.accounting._cf_losses import Loss, MixtureLoss, OverflowLoss
from privaware.accounting._quadrature import Array
from privaware.events import Sampled

_TRIES = 16
"""Number of row counts that one round of the search for the most costly row count compares."""

_ORDERS = (0.25, 1.0, 4.0, 16.0, 64.0)
"""Orders of the moments of the privacy loss by which steps at different row counts are compared."""

_COUNTS = 320
"""Largest number of true row counts among which the search looks for the most costly one."""


@lru_cache(maxsize=256)
def batches(event: Sampled, noise: float, side: str) -> tuple[Loss, ...]:
    """Return upper bounds on the loss of one step on a capped batch: the largest by the moment of each of `_ORDERS`.

    Each bound covers an interval of the possible true numbers of rows. Equal results are returned once, so there is at
    most one for each order. `event` is a composition of Gaussians on a batch of at most `event.cap` rows, drawn from at
    most `event.rows` rows of data. `noise` is the noise multiplier of the step, and `side` the direction: "remove" or
    "add".
    """
    rows, cap, rate = int(event.rows or 0), int(event.cap or 0), event.rate
    usual = MixtureLoss(noise=noise, rate=rate, side="replace" if event.relation == "replace_one" else side)
    counts = np.unique(np.geomspace(cap, _peak(rate, rows, cap), _COUNTS).round().astype(np.int64))
    known: dict[int, Loss] = {}

    def moment(index: int, order: float) -> float:
        if index not in known:
            known[index] = _between(usual, int(counts[max(index - 1, 0)]), int(counts[index]), cap)
        return float(known[index].log_mgf(np.array([order]))[0])

    best = []
    for order in _ORDERS:
        low, high = 0, len(counts) - 1
        while True:  # the moments rise to one peak, so search around the largest
            tries = np.unique(np.linspace(low, high, _TRIES).astype(int)).tolist()
            at = int(np.argmax([moment(index, order) for index in tries]))
            if high - low < _TRIES:
                break
            low, high = tries[max(at - 1, 0)], tries[min(at + 1, len(tries) - 1)]
        best.append(known[tries[at]])
    return tuple(dict.fromkeys(best))


def _peak(rate: float, rows: int, cap: int) -> int:
    """Return the true number n of rows, from `cap` to `rows`, at which P[Bin(n, rate) > cap] / n is largest.

    Up to a constant factor this is the probability that a row replaces another one in a full batch of `cap` rows.
    """
    low, high = cap, rows
    while high - low > 2:
        counts = np.unique(np.linspace(low, high, 64).astype(np.int64))
        at = int(np.argmax(_overflowing(counts, rate, cap) / counts))
        low, high = int(counts[max(at - 1, 0)]), int(counts[min(at + 1, len(counts) - 1)])
        if len(counts) == high - low + 1:
            break
    counts = np.arange(low, high + 1)
    return int(counts[np.argmax(_overflowing(counts, rate, cap) / counts)])


def _overflowing(counts: Array, rate: float, cap: int) -> Array:
    from scipy import stats

    return np.asarray(stats.binom.sf(cap, counts, rate))


def _between(usual: MixtureLoss, low: int, high: int, cap: int) -> Loss:
    """Return the loss of a step that costs at least as much as a step at any true number of rows in (low, high].

    `usual` is the loss of a batch that does not overflow, and `cap` the largest size of a batch. Return `usual` itself
    if the batch is practically never full.
    """
    from scipy import stats

    rate, last = usual.rate, low + 1 if high - low <= 1 else low
    full, least = (float(stats.binom.sf(cap - 1, n - 1, rate)) for n in (high, last))
    if full < 1e-290:
        return usual
    pushed = float(_overflowing(np.array([last]), rate, cap)[0]) * cap / last / least if least > 1e-290 else rate
    pushed = min(pushed or rate, rate * cap / (cap + 1))
    replaced = MixtureLoss(noise=usual.noise / 2, rate=pushed, side="replace")
    return OverflowLoss(usual=usual, overflow=full, pushed=replaced)
