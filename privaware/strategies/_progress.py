"""The progress of a search, for the data owner only: it would reveal a secret number of trials."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["OnProgress", "ProgressMeter", "SearchProgress"]


@dataclass(frozen=True, kw_only=True)
class SearchProgress:
    """The state of a search: in `round` (from 1) of `rounds`, `trained` of `count` candidates have scores.

    A `SearchProcedure` reports epochs in place of candidates, in one round. `best` is the highest noisy score so far in
    all rounds (None if nothing was scored), and `seconds_left` is an estimate for all rounds.
    """

    round: int
    rounds: int
    trained: int
    count: int
    best: float | None
    seconds_left: float


OnProgress = Callable[[SearchProgress], None]


class ProgressMeter:
    """Reports progress to `listener`, unless it is None; `counts` are the numbers of trials of the rounds."""

    def __init__(self, counts: Sequence[int], listener: OnProgress | None) -> None:
        self.counts, self.listener = counts, listener
        self.started, self.trained_here = time.monotonic(), 0

    def update(self, at: int, trained: int, best: float | None, *, added: int) -> None:
        """Report that `added` candidates were just trained, and that `trained` of round `at` (from 0) have scores.

        `best` is the highest noisy score so far, or None.
        """
        self.trained_here += added
        if self.listener is None:
            return
        count = self.counts[at]
        ahead = count - trained + sum(self.counts[at + 1 :])
        pace = (time.monotonic() - self.started) / max(self.trained_here, 1)
        self.listener(
            SearchProgress(
                round=at + 1,
                rounds=len(self.counts),
                trained=trained,
                count=count,
                best=best,
                seconds_left=pace * ahead,
            )
        )
