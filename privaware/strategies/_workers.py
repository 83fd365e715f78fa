"""Where candidates are trained: here, in other processes, or on a Ray cluster.

A job is a list of candidates that are trained as one population. Nothing of a job that dies is ever seen, so it is
done again without a further charge.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from privaware.errors import PrivawareError, WrongInput

__all__ = ["Here", "Processes", "Ray", "Workers"]

PATIENCE = 10.0  # seconds for a cluster to answer
Work = Callable[[Any, Any], Any]  # (what all jobs share, one job) -> its result


class Workers(Protocol):
    """`each` yields (the job's place, its result) as they come."""

    @property
    def many(self) -> int: ...

    def each(self, work: Work, shared: Any, jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]: ...


@dataclass(frozen=True)
class Here:
    """One job after another in this process."""

    many: int = 1

    def each(self, work: Work, shared: Any, jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        for at, job in enumerate(jobs):
            yield at, work(shared, job)


@dataclass(frozen=True)
class Processes:
    """`many` processes on this machine, each with its part of the threads."""

    many: int

    def each(self, work: Work, shared: Any, jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor, as_completed
        from concurrent.futures.process import BrokenProcessPool

        threads = max(1, (os.cpu_count() or 1) // self.many)
        fresh = multiprocessing.get_context("spawn")  # a forked torch may hang
        with ProcessPoolExecutor(
            self.many, mp_context=fresh, initializer=_begin, initargs=(threads, work, shared)
        ) as pool:
            waiting = {pool.submit(_do, job): at for at, job in enumerate(jobs)}
            try:
                for done in as_completed(waiting):
                    yield waiting[done], done.result()
            except BrokenProcessPool:
                raise PrivawareError(
                    "a worker process was killed (perhaps for its memory); the trials that ended are kept: "
                    "the same command goes on from them, with fewer --workers if memory is short"
                ) from None


_own: dict[str, Any] = {}


def _begin(threads: int, work: Work, shared: Any) -> None:
    import torch

    torch.set_num_threads(threads)
    _own.update(work=work, shared=shared)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A search that was killed leaves nobody behind: a worker would hold private rows and wait for ever."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do(job: Any) -> Any:
    return _own["work"](_own["shared"], job)


@dataclass(frozen=True)
class Ray:
    """A Ray cluster at `address` ("auto": the one this machine belongs to). A job whose worker dies is done again."""

    address: str
    retries: int = 3

    @property
    def many(self) -> int:
        return max(1, int(self._joined().cluster_resources().get("CPU", 1)))

    def each(self, work: Work, shared: Any, jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        ray = self._joined()
        remote = ray.remote(num_cpus=1, max_retries=self.retries)(work)
        held = ray.put(shared)
        waiting = {remote.remote(held, job): at for at, job in enumerate(jobs)}
        while waiting:
            done, _ = ray.wait(list(waiting))
            for one in done:
                yield waiting.pop(one), ray.get(one)

    def _joined(self) -> Any:
        """Ray, as a member of the cluster from the first call to the end of the process."""
        try:
            import ray
        except ImportError:
            raise WrongInput("--ray needs the package ray; install it with `pip install privaware[ray]`") from None
        if ray.is_initialized():
            return ray
        try:
            _expect_answer(self.address)
            ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as problem:
            reason = " ".join(str(problem).split())
            raise WrongInput(
                f"no Ray cluster answers at {self.address!r:.80}: {reason:.160}; start one with `ray start --head`"
            ) from None
        return ray


def _expect_answer(address: str) -> None:
    """Somebody listens at HOST:PORT; Ray itself takes most of a minute to find that nobody does."""
    import socket

    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
