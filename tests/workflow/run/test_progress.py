"""Progress is a bar or a sentence now and then, of public quantities only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from privaware.strategies._strategy import ProgressMeter, SearchProgress
from privaware.workflow.run import progress as _progress
from privaware.workflow.run.progress import search_progress, step_progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that this module sees, which a test sets: that of Python stays, others wait by it."""
    now = [100.0]
    monkeypatch.setattr(_progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


class Screen:
    """A listener that draws bars."""

    shows_progress = True

    def __init__(self) -> None:
        self.bars: list[tuple[str, int, int | None]] = []
        self.sentences: list[str] = []

    def __call__(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def progress(self, what: str, at: int, of: int | None) -> None:
        self.bars.append((what, at, of))


def candidates(count: int, best: float | None = None) -> list[SearchProgress]:
    public: dict[str, Any] = {"round": 1, "rounds": 2, "before": 0, "total": 2 * count, "seconds_left": 4.0}
    return [SearchProgress(trained=trained, count=count, best=best, **public) for trained in range(1, count + 1)]


def test_steps_are_reported_after_two_then_every_five_seconds(clock: list[float]) -> None:
    messages: list[str] = []
    listen = step_progress(messages.append)
    clock[0] += 60  # reading and pricing, before the first step
    for step in range(1, 13):
        clock[0] += 1
        listen(step, 12, 12.0 - step)
    assert messages == ["step 3 of 12, about 9 s left", "step 8 of 12, about 4 s left"]


def test_first_step_after_other_work_reports_nothing(clock: list[float]) -> None:
    """Its duration, with all preparations, would be taken for that of every step."""
    messages: list[str] = []
    listen = step_progress(messages.append)
    listen(128, 600, 9.0, "features")
    for step in range(1, 13):
        clock[0] += 3 if step == 1 else 0.15
        listen(step, 12, 11.0)
    assert messages == []


def test_quick_work_reports_nothing(clock: list[float]) -> None:
    messages: list[str] = []
    listen = step_progress(messages.append)
    for step in range(1, 13):
        clock[0] += 0.15
        listen(step, 12, 1.0)
    assert messages == []


def test_steps_are_written_to_stderr_by_default(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    listen = step_progress(None)
    listen(1, 12, 11.0)
    clock[0] += 3
    listen(2, 12, 10.0)
    assert capsys.readouterr() == ("", "step 2 of 12, about 10 s left\n")


def test_steps_are_drawn_where_the_listener_draws(clock: list[float]) -> None:
    screen = Screen()
    listen = step_progress(screen)
    listen(3, 12, 9.0)
    assert (screen.bars, screen.sentences) == ([("training", 3, 12)], [])
    screen.shows_progress = False
    clock[0] += 10
    listen(4, 12, 8.0)
    assert screen.sentences == ["step 4 of 12, about 8 s left"]


def test_features_of_rows_are_told_apart_from_steps(clock: list[float]) -> None:
    screen = Screen()
    listen = step_progress(screen)
    listen(128, 600, 9.0, "features")
    assert screen.bars == [("features", 128, 600)]
    screen.shows_progress = False
    clock[0] += 10
    listen(256, 600, 7.0, "features")
    assert screen.sentences == ["features of 256 of 600 rows, about 7 s left"]


def test_a_stage_of_a_learner_is_named(clock: list[float]) -> None:
    messages: list[str] = []
    listen = step_progress(messages.append)
    listen(1, 8, 9.0, "teachers")
    clock[0] += 10
    listen(3, 8, 7.0, "teachers")
    assert messages == ["teachers: 3 of 8, about 7 s left"]


def test_search_with_a_public_number_of_trials_counts_them(clock: list[float]) -> None:
    messages: list[str] = []
    requests: list[float] = []
    listen = search_progress(messages.append, secret=False, remaining=lambda: requests.append(1.0) or 0.25)
    for state in candidates(3):
        clock[0] += 1
        listen(state)
    assert messages == [
        f"round 1 of 2, {at} of 3 candidates, epsilon 0.25 left in the ledger, about 4 s left" for at in (1, 3)
    ]
    assert requests == [1.0]
    screen = Screen()
    listen = search_progress(screen, secret=False)
    listen(candidates(3)[1])
    assert screen.bars == [("searching", 2, 6)]


def test_bar_of_a_search_grows_by_trials_over_uneven_rounds() -> None:
    screen = Screen()
    meter = ProgressMeter([8, 3, 1], search_progress(screen, secret=False))
    for at, count in enumerate(meter.counts):
        for trained in range(1, count + 1):
            meter.update(at, trained, None, added=1)
    assert screen.bars == [("searching", trial, 12) for trial in range(1, 13)]


@pytest.mark.parametrize("best", [None, 0.8125])
def test_p40_secret_number_of_trials_and_scores_are_not_shown(clock: list[float], best: float | None) -> None:
    def shown(count: int) -> list[str]:
        screen, messages = Screen(), list[str]()
        clock[0] = 100.0
        listeners = [search_progress(say, secret=True) for say in (screen, messages.append)]
        for state in candidates(count, best):
            for listen in listeners:
                listen(state)
        return [*map(repr, screen.bars), *messages]

    assert shown(3) == shown(30) == ["('searching', 0, None)", "searching for 0 s"]
