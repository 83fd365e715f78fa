"""Notice that another process of the run has ended: the errors that say so, and the signal of `torchrun`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from privaware.errors import PrivawareError, without_controls

GRACE = timedelta(seconds=10)
"""Time in which a process leaves its work after `torchrun` has asked it to end; `torchrun` waits for 30 seconds."""


class RanksEnded(PrivawareError):
    """A process ended, or did not answer in time, before the ranks had finished their work."""

    code = 130


class RankLost(RanksEnded):
    """The connection to another process was lost, or `torchrun` ended this one because another one ended."""


class Told(BaseException):
    """Raised when `torchrun` asks this process to end. It is no `Exception`, so no `except Exception` stops it."""


def lost_sentence(sentence: str) -> str:
    """Return `sentence`, which says how another process was lost, with the advice to repeat the command."""
    return f"{sentence}; repeat the command: a charged run with --out or a checkpoint goes on with its charge"


@contextmanager
def ended_by_torchrun(speaks: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Raise `RankLost` in the block if `torchrun` asks this process to end (SIGTERM), because another one has ended.

    A process that waits for a GPU cannot raise: `GRACE` after the signal it prints the message, if `speaks()` is true,
    and exits. After a `RankLost` in the block SIGTERM is ignored, so that the process can say why it ends. Otherwise
    the previous handler of SIGTERM is restored after the block. Outside the main thread nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    sentence = lost_sentence("torchrun ended this process, because another one had ended")

    def end(*_: Any) -> None:
        raise Told(sentence)

    signals, writes = os.pipe()
    os.set_blocking(writes, False)
    left = threading.Event()
    threading.Thread(target=_end_after_grace, args=(signals, left, sentence, speaks), daemon=True).start()
    before, before_writes = signal.signal(signal.SIGTERM, end), signal.set_wakeup_fd(writes)
    try:
        yield
    except (Told, RankLost) as problem:
        before = signal.SIG_IGN
        traceback.clear_frames(problem.__traceback__)  # their locals would keep the connections of `follow` open
        raise RankLost(str(problem)) from problem
    finally:
        left.set()
        signal.set_wakeup_fd(before_writes)
        signal.signal(signal.SIGTERM, before)
        os.close(writes)


def _end_after_grace(signals: int, left: threading.Event, sentence: str, speaks: Callable[[], bool]) -> None:
    """End this process if it got SIGTERM and `left` is not set within `GRACE` after that.

    Before it ends, print `sentence` if `speaks()` is true. `signals` is the file descriptor of the reading end of a
    pipe to which Python writes the number of each signal. `left` is set when the process has left its work. Return when
    the pipe is closed.
    """
    with os.fdopen(signals, "rb", buffering=0) as numbers:
        while number := numbers.read(1):
            if number[0] == signal.SIGTERM and not left.wait(GRACE.total_seconds()):
                if speaks():
                    print(without_controls(f"privaware: {sentence}"), file=sys.stderr, flush=True)
                os._exit(RanksEnded.code)
