"""The second accountant's batches with a cap: the true numbers of rows at which a step is dearest.

Of n rows, the other n - 1 fill the batch with probability P[Bin(n-1, q) >= cap]; then a sampled row takes another's
place with probability P[Bin(n, q) > cap] cap / n over that, at twice the sensitivity. The former rises with n and the
latter falls, so a step with a full batch as often as at b and the replacement of a is no cheaper than at any n between
a and b (`_capped.py` has the proof, and that counts beyond the peak of their product are cheaper). Such steps, for
neighbouring a and b, are compared by their moments of several orders; each order's dearest is kept.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from privaware.accounting._cf_losses import Loss, MixtureLoss, OverflowLoss
from privaware.accounting._quadrature import Array
from privaware.events import Sampled

_TRIES = 16
_ORDERS = (0.25, 1.0, 4.0, 16.0, 64.0)
_COUNTS = 320


@lru_cache(maxsize=256)
def batches(event: Sampled, noise: float, side: str) -> tuple[Loss, ...]:
    """The losses of one step at the counts that are dearest by some moment."""
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
        while True:  # the moments rise to one peak: look closer around the largest
            tries = np.unique(np.linspace(low, high, _TRIES).astype(int)).tolist()
            at = int(np.argmax([moment(index, order) for index in tries]))
            if high - low < _TRIES:
                break
            low, high = tries[max(at - 1, 0)], tries[min(at + 1, len(tries) - 1)]
        best.append(known[tries[at]])
    return tuple(dict.fromkeys(best))


def _peak(rate: float, rows: int, cap: int) -> int:
    """The count up to `rows` at which a row pushes another out most often."""
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
    """A step no cheaper than at any count above `low` and up to `high`."""
    from scipy import stats

    rate, last = usual.rate, low + 1 if high - low <= 1 else low
    full, least = (float(stats.binom.sf(cap - 1, n - 1, rate)) for n in (high, last))
    if full < 1e-290:
        return usual
    pushed = float(_overflowing(np.array([last]), rate, cap)[0]) * cap / last / least if least > 1e-290 else rate
    pushed = min(pushed or rate, rate * cap / (cap + 1))
    replaced = MixtureLoss(noise=usual.noise / 2, rate=pushed, side="replace")
    return OverflowLoss(usual=usual, overflow=full, pushed=replaced)
