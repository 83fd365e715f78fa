"""Progress is said now and then, and the ledger is asked for its remaining budget once."""

from __future__ import annotations

import pytest

from privaware.strategies._progress import SearchProgress
from privaware.workflow import _progress
from privaware.workflow._progress import search_progress, step_progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test sets."""
    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    return now


def test_steps_are_reported_at_most_once_in_five_seconds(clock: list[float]) -> None:
    messages: list[str] = []
    listen = step_progress(messages.append)
    for step in range(1, 13):
        clock[0] += 1
        listen(step, 12, 12.0 - step)
    assert messages == ["step 5 of 12, about 7 s left", "step 10 of 12, about 2 s left"]


def test_end_of_a_round_is_always_reported_and_marked_internal(clock: list[float]) -> None:
    messages: list[str] = []
    requests: list[float] = []
    listen = search_progress(messages.append, lambda: requests.append(1.0) or 0.25)
    for trained in (1, 2, 3):
        listen(SearchProgress(round=1, rounds=2, trained=trained, count=3, best=None, seconds_left=4.0))
    assert [line.split(", ")[2] for line in messages] == ["1 of 3 candidates", "3 of 3 candidates"]
    assert all(line.startswith("internal, not for release: ") for line in messages)
    assert all("epsilon 0.25 left in the ledger" in line for line in messages)
    assert requests == [1.0]
