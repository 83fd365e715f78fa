"""Processes that train candidates: they end with the search they work for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = """
import os, sys, time
from pathlib import Path
from privaware.strategies._workers import Processes

def work(shared, job):
    Path(shared, str(os.getpid())).touch()
    time.sleep(job)

if __name__ == "__main__":
    list(Processes(2).each(work, sys.argv[1], [600, 600]))
"""


def test_workers_end_when_their_search_is_killed(tmp_path: Path) -> None:
    program, place = tmp_path / "program.py", tmp_path / "workers"
    program.write_text(PROGRAM)
    place.mkdir()
    search = subprocess.Popen([sys.executable, program, place], stderr=subprocess.DEVNULL)
    try:
        assert _wait(lambda: len(os.listdir(place)) == 2)
    finally:
        search.send_signal(signal.SIGKILL)
        search.wait()
    assert _wait(lambda: not any(_alive(int(name)) for name in os.listdir(place)))


def _wait(done) -> bool:  # type: ignore[no-untyped-def]
    for _ in range(600):
        if done():
            return True
        time.sleep(0.1)
    return False


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
