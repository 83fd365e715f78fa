"""Compute with several processes, such as one for each GPU, which `torchrun` starts.

1. Rank 0 leads. It alone opens the ledger, charges, draws noise, saves checkpoints, reports progress and writes
   results. So there is one charge, one folder of results and one draw of noise, whatever the number of ranks.
2. All other ranks follow: they wait for jobs. A job is a function that every rank calls at the same time, with rows
   that rank 0 sends. While a job runs, ranks exchange sums.
3. A program that uses no job runs in rank 0 alone, as it would without `torchrun`.

Any number of ranks up to `SHARES` (8) gives the same result. `privaware.descent` divides a step into microbatches whose
shapes are the same for 1 to 8 ranks, and adds their sums without rounding error.

All ranks are trusted: they see rows, samples and sums before noise. Only rank 0 holds the key of the noise. The other
ranks send their sums to rank 0, which adds the noise once and alone writes what is released. So no other rank can leave
noise out of a release.
"""

from __future__ import annotations

import math

from privaware.ranks._ending import RankLost, RanksEnded
from privaware.ranks._session import Ranks, current, expect_led, joined, led, on_all_ranks, reports

__all__ = [
    "SHARES",
    "RankLost",
    "Ranks",
    "RanksEnded",
    "current",
    "expect_led",
    "joined",
    "led",
    "on_all_ranks",
    "reports",
    "shares",
]

SHARES = 8
"""Number of shares into which 1 to 8 ranks divide their common work, so that their results are the same."""


def shares(size: int) -> int:
    """Return into how many shares of work `size` ranks divide each step of their common work.

    It is the smallest multiple of `SHARES` (8) that is at least `size`. So 1 to 8 ranks work on the same 8 shares.

    >>> [shares(size) for size in (1, 2, 8, 9)]
    [8, 8, 8, 16]
    """
    return SHARES * math.ceil(size / SHARES)
