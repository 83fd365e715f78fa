"""Workers that train candidates: in this process, in other processes, or on a Ray cluster.

A job is a list of candidates that are trained as one population. If a job dies, nothing of it is released, so it may be
repeated without a second charge: `Ray` repeats it at once, and with `Processes` a resumed search repeats it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from privaware.errors import PrivawareError, WrongInput

CLUSTER_TIMEOUT = 10.0  # seconds
Work = Callable[[Any, Any], Any]  # (value shared by all jobs, one job) -> its result


class Workers(Protocol):
    """Workers that run jobs, `capacity` at a time.

    `run_jobs` calls `work(shared, job)` for each of `jobs`. It yields (index of the job, result) in the order of
    completion.
    """

    @property
    def capacity(self) -> int: ...

    def run_jobs(self, work: Work, shared: Any, jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]: ...


@dataclass(frozen=True)
class Here:
    """Workers that run one job after another in this process.

    `capacity` is only the smallest number of jobs into which a search splits a round.
    """

    capacity: int = 1

    def run_jobs(self, work: Work, shared: Any, jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        for at, job in enumerate(jobs):
            yield at, work(shared, job)


@dataclass(frozen=True)
class Processes:
    """Workers that run `capacity` jobs at a time, each in its own process on this machine.

    The processes divide the processors of the machine among them. A killed process raises `PrivawareError`.
    """

    capacity: int

    def run_jobs(self, work: Work, shared: Any, jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor, as_completed
        from concurrent.futures.process import BrokenProcessPool

        threads = max(1, (os.cpu_count() or 1) // self.capacity)
        fresh = multiprocessing.get_context("spawn")  # a forked torch may hang
        with ProcessPoolExecutor(
            self.capacity, mp_context=fresh, initializer=_start_worker, initargs=(threads, work, shared)
        ) as pool:
            pending = {pool.submit(_run, job): at for at, job in enumerate(jobs)}
            try:
                for future in as_completed(pending):
                    yield pending[future], future.result()
            except BrokenProcessPool:
                raise PrivawareError(
                    "a worker process was killed, perhaps because memory ran out; finished trials are kept: run "
                    "the same command again to continue, with fewer --workers if memory is short"
                ) from None


_worker: dict[str, Any] = {}
"""The function and the shared value with which this worker process was started."""


def _start_worker(threads: int, work: Work, shared: Any) -> None:
    import torch

    torch.set_num_threads(threads)
    _worker.update(work=work, shared=shared)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End the worker when its parent ends; otherwise it would hold private rows and wait forever."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(job: Any) -> Any:
    return _worker["work"](_worker["shared"], job)


@dataclass(frozen=True)
class Ray:
    """Workers that run jobs on the Ray cluster at `address`; "auto" is the cluster of this machine.

    A job whose worker dies is repeated up to `retries` times. `capacity` is the number of processors of the cluster.
    """

    address: str
    retries: int = 3

    @property
    def capacity(self) -> int:
        return max(1, int(connected(self.address).cluster_resources().get("CPU", 1)))

    def run_jobs(self, work: Work, shared: Any, jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        ray = connected(self.address)
        remote = ray.remote(num_cpus=1, max_retries=self.retries)(work)
        stored = ray.put(shared)
        pending = {remote.remote(stored, job): at for at, job in enumerate(jobs)}
        while pending:
            ready, _ = ray.wait(list(pending))
            for future in ready:
                yield pending.pop(future), ray.get(future)


def connected(address: str) -> Any:
    """Return the module `ray`, connected to the cluster until the end of the process.

    If this process is connected already, that connection is kept, whatever `address` is. Raise `WrongInput` if the
    package is not installed or no cluster answers.
    """
    try:
        import ray
    except ImportError:
        raise WrongInput("--ray needs the package ray; install it with `pip install privaware[ray]`") from None
    if ray.is_initialized():
        return ray
    try:
        _expect_answer(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        _messages_to_stderr()
    except (OSError, ValueError, RuntimeError) as problem:
        reason = " ".join(str(problem).split())
        raise WrongInput(
            f"no Ray cluster answers at {address!r:.80}: {reason:.160}; start one with `ray start --head`"
        ) from None
    return ray


def _messages_to_stderr() -> None:
    """Let Ray write messages, such as those about lost workers, to standard error.

    Ray writes them to standard output, where a command with `--json` writes its result, and has no option for this.
    """
    from ray._private import worker

    written = getattr(worker, "print_to_stdstream", None)
    if written is not None:
        worker.print_to_stdstream = lambda data, **more: written({**data, "is_err": True}, **more)


def _expect_answer(address: str) -> None:
    """Raise `OSError` if nothing listens at an address HOST:PORT; other addresses are not checked.

    Ray itself takes most of a minute to report this.
    """
    import socket

    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=CLUSTER_TIMEOUT).close()
