"""Start several processes in the way `torchrun` does, and lead them in a test."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from privaware.ranks import Ranks, _session

ROOT = Path(__file__).parents[2]


def environment(rank: int, size: int, port: int) -> dict[str, str]:
    """The variables that `torchrun` sets for one of `size` processes on this machine."""
    known = {name: value for name, value in os.environ.items() if name != "TORCHELASTIC_RUN_ID"}
    ranks = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test", "OMP_NUM_THREADS": 1}
    return known | {name: str(value) for name, value in (ranks | place).items()} | {"PYTHONPATH": str(ROOT)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def started(arguments: list[str], size: int, folder: Path = ROOT) -> list[subprocess.Popen[str]]:
    """The processes `python ARGUMENTS` in `folder`, one for each rank; their output is captured."""
    port = free_port()
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": folder}
    return [
        subprocess.Popen([sys.executable, *arguments], env=environment(rank, size, port), **pipes)
        for rank in range(size)
    ]


def led(names: Sequence[str], size: int, folder: Path) -> Any:
    """The results of the `trainings` with these names, if rank 0 of `size` processes leads them."""
    out = folder / f"{size}.pickle"
    processes = started(["-m", "tests.ranks.trainings", str(out), *names], size)
    problems = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * size, problems
    return pickle.loads(out.read_bytes())


@contextlib.contextmanager
def leading_alone() -> Iterator[None]:
    """Lead ranks of size 1 in this process, as in a process that `torchrun` started alone."""
    _session._leading.append(Ranks(0, 1))
    try:
        yield
    finally:
        _session._leading.clear()
