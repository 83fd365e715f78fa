"""A process that another one leaves alone, or that `torchrun` ends, says why in one sentence."""

from __future__ import annotations

import contextlib
import signal
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from privaware.ranks import RankLost, Ranks, _ending
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
