"""A process that another one leaves alone, or that `torchrun` ends, says why in one sentence."""

from __future__ import annotations

import contextlib
import signal
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from privaware.ranks import RankLost, Ranks, _ending, _session, reports
from tests.ranks import processes


def test_a_blocked_process_says_why_it_ends(tmp_path: Path) -> None:
    """A mutex that is locked twice blocks as a wait for a GPU does: no signal interrupts it."""
    script = tmp_path / "blocked.py"
    script.write_text(
        """
import ctypes
import threading
from datetime import timedelta
from privaware.ranks import _ending
_ending.GRACE = timedelta(seconds=0.2)
mutex, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
with _ending.ended_by_torchrun():
    libc.pthread_mutex_lock(mutex)
    threading.Timer(1.0, print, ["ready"], {"flush": True}).start()  # when the lock below has long been waited for
    libc.pthread_mutex_lock(mutex)
"""
    )
    (process,) = processes.started([str(script)], 1)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    _, problem = process.communicate(timeout=60)
    assert process.returncode == 130
    assert problem.startswith("privaware: torchrun ended this process, because another one had ended; repeat")


@pytest.fixture
def _unsigned() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_unsigned")
def test_a_process_that_is_told_to_end_raises_one_sentence() -> None:
    with (
        pytest.raises(RankLost, match="another one had ended"),
        _ending.ended_by_torchrun(),
        contextlib.suppress(Exception),  # as an import of a library does
    ):
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.usefixtures("_unsigned")
def test_a_process_that_is_told_to_end_drops_its_groups() -> None:
    """Rank 0 waits for this process as long as something, such as a traceback, holds a process group."""
    groups = []

    def reduce() -> None:
        group = Ranks(1, 2)
        groups.append(weakref.ref(group))
        signal.raise_signal(signal.SIGTERM)
        del group

    with pytest.raises(RankLost) as lost, _ending.ended_by_torchrun():
        reduce()
    assert "another one had ended" in str(lost.value)  # the error is still known here
    assert [group() for group in groups] == [None]


@pytest.mark.usefixtures("_unsigned")
def test_a_lost_process_is_reported_before_torchrun_ends_all() -> None:
    with pytest.raises(RankLost), _ending.ended_by_torchrun():
        raise RankLost("expected 2 processes")
    signal.raise_signal(signal.SIGTERM)  # ignored, while the sentence is written


@pytest.mark.usefixtures("_unsigned")
@pytest.mark.parametrize("connected", [True, False])
def test_rank_1_reports_its_end_only_once_connected(connected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in processes.environment(1, 2, 0).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(_session, "_open", [Ranks(1, 2)] if connected else [])
    with pytest.raises(RankLost) as lost, _ending.ended_by_torchrun():
        signal.raise_signal(signal.SIGTERM)
    assert reports(lost.value) is connected


def test_a_rank_that_is_ended_while_it_connects_says_nothing(tmp_path: Path) -> None:
    """Rank 0 never connects, so rank 1 waits for it where no signal interrupts it."""
    script = tmp_path / "waiting.py"
    script.write_text(
        """
import os, sys, threading, time
from datetime import timedelta
import torch.distributed
from privaware.ranks import RankLost, _ending, on_all_ranks
if os.environ["RANK"] == "0":
    time.sleep(600)
_ending.GRACE = timedelta(seconds=0.2)
threading.Timer(1.0, print, ["ready"], {"flush": True}).start()
try:
    on_all_ranks(lambda: None)
except RankLost:
    sys.exit(130)
"""
    )
    absent, waiting = processes.started([str(script)], 2)
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "ready\n"
    waiting.terminate()
    _, problem = waiting.communicate(timeout=60)
    absent.kill()
    absent.communicate()
    assert waiting.returncode == 130
    assert "privaware: " not in problem
