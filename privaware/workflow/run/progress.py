"""Progress of long work: a progress bar if the listener draws one, else a sentence at intervals; public facts only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from privaware.errors import without_controls
from privaware.strategies._strategy import OnProgress, SearchProgress
from privaware.workflow.run.options import Say

__all__ = ["ShowsProgress", "search_progress", "step_progress", "to_stderr"]


@runtime_checkable
class ShowsProgress(Protocol):
    """A listener to sentences that also draws progress bars while `shows_progress` is true.

    `progress(what, at, of)` draws a bar for the work called `what`: `at` of `of` steps are done. `of` is None if the
    number of steps is not shown.
    """

    @property
    def shows_progress(self) -> bool: ...

    def progress(self, what: str, at: int, of: int | None) -> None: ...


FIRST_SECONDS = 2.0
"""Seconds of work after which its progress is first said."""


def to_stderr(sentence: str) -> None:
    """Write a sentence about progress to standard error."""
    print(without_controls(sentence), file=sys.stderr, flush=True)


def step_progress(say: Say | None, seconds: float = 5.0) -> Callable[..., None]:
    """Return a listener to the steps of a training, which draws a bar or says sentences.

    The listener takes (step, steps, seconds left, what). `what` names the work: "training", "features" while features
    of the declared rows are computed, or a part of a training, such as "teachers". The first sentence about each kind
    of work comes `FIRST_SECONDS` seconds after its first step, because a first step tells little about the others; the
    next sentences come every `seconds` seconds. Without `say` the sentences are written to standard error.
    """
    last, work = 0.0, ""
    speak = say or to_stderr

    def listen(step: int, steps: int, left: float, what: str = "training") -> None:
        nonlocal last, work
        now = time.monotonic()
        if what != work:
            last, work = now + FIRST_SECONDS - seconds, what
        if isinstance(say, ShowsProgress) and say.shows_progress:
            say.progress(what, step, steps)
        elif now - last >= seconds:
            last = now
            known = {"training": f"step {step} of {steps}", "features": f"features of {step} of {steps} rows"}
            speak(f"{known.get(what, f'{what}: {step} of {steps}')}, about {left:.0f} s left")

    return listen


def search_progress(
    say: Say | None, *, secret: bool, remaining: Callable[[], float] | None = None, seconds: float = 2.0
) -> OnProgress:
    """Return a listener to the candidates of a search, which draws a bar or says a sentence every `seconds` seconds.

    Without `say` nothing is shown. `remaining` returns the epsilon left in the ledger, which the sentences name; it is
    called once. If the number of trials is `secret`, the time since the start is shown instead of the trials. No score
    is ever shown.
    """
    began = time.monotonic()
    last = began - seconds
    budget = "" if remaining is None else f", epsilon {remaining():.3g} left in the ledger"
    if secret and isinstance(say, ShowsProgress) and say.shows_progress:
        say.progress("searching", 0, None)

    def listen(state: SearchProgress) -> None:
        nonlocal last
        if isinstance(say, ShowsProgress) and say.shows_progress:
            if not secret:
                say.progress("searching", state.before + state.trained, state.total)
            return
        now = time.monotonic()
        if say is None or now - last < seconds:
            return
        last = now
        if secret:
            say(f"searching for {now - began:.0f} s{budget}")
        else:
            say(
                f"round {state.round} of {state.rounds}, {state.trained} of {state.count} candidates{budget}, "
                f"about {state.seconds_left:.0f} s left"
            )

    return listen
