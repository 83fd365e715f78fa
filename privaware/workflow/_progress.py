"""Progress of long work as sentences, now and then."""

from __future__ import annotations

import time
from collections.abc import Callable

from privaware.strategies._progress import OnProgress, SearchProgress
from privaware.workflow._options import Say

__all__ = ["search_progress", "step_progress"]


def step_progress(say: Say, seconds: float = 5.0) -> Callable[[int, int, float], None]:
    """A listener to the steps of a training that says where it is, at most once in so many seconds."""
    last = time.monotonic()

    def listen(step: int, steps: int, left: float) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            say(f"step {step} of {steps}, about {left:.0f} s left")

    return listen


def search_progress(say: Say, remaining: Callable[[], float] | None = None, seconds: float = 2.0) -> OnProgress:
    """The same for the candidates of a search, with the epsilon `remaining` in the ledger, which is asked once.

    Where the number of trials is a secret, progress would reveal it: it is for the owner's eyes.
    """
    last = 0.0
    budget = ""

    def listen(state: SearchProgress) -> None:
        nonlocal last, budget
        if time.monotonic() - last < seconds and state.trained < state.count:
            return
        last = time.monotonic()
        best = "none" if state.best is None else f"{state.best:.4f}"
        if remaining is not None and not budget:
            budget = f", epsilon {remaining():.3g} left in the ledger"
        say(
            f"internal, not for release: round {state.round} of {state.rounds}, {state.trained} of {state.count} "
            f"candidates, best so far {best}{budget}, about {state.seconds_left:.0f} s left"
        )

    return listen
