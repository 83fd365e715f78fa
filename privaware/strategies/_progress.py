"""How far a search is, for its owner's eyes: where the number of trials is secret, progress would reveal it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["OnProgress", "ProgressMeter", "SearchProgress"]


@dataclass(frozen=True, kw_only=True)
class SearchProgress:
    """In `round` of `rounds`, `trained` of `count` candidates are scored; `best` is the highest score so far."""

    round: int
    rounds: int
    trained: int
    count: int
    best: float | None
    seconds_left: float


OnProgress = Callable[[SearchProgress], None]


class ProgressMeter:
    """Reports progress after each job, with the time left by the pace so far; `counts` are trials of each round."""

    def __init__(self, counts: Sequence[int], listener: OnProgress | None) -> None:
        self.counts, self.listener = counts, listener
        self.started, self.trained_here = time.monotonic(), 0

    def update(self, at: int, trained: int, best: float | None, *, added: int) -> None:
        """`added` candidates were trained just now; `trained` of round `at` have scores."""
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
