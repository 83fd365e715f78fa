"""Workers in processes, on this machine (`ProcessPool`) or on a Ray cluster (`RayPool`).

`ProcessPool` starts as many workers as `threads()` allows: one for each processor of this process, or OMP_NUM_THREADS
if that is smaller. `RayPool` starts one worker for each processor that is free when the run begins.

Threads of one process would wait for each other: NumPy works on a few thousand rows at a time, and between two such
calls Python lets only one thread run. A worker process imports no torch, reads its own pieces, and ends with this
process. A Ray actor that dies is lost and is not replaced.
"""

from __future__ import annotations

import itertools
import os
import pickle
import socket
import subprocess
import sys
import weakref
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection, wait
from typing import Any

from privaware.data._parts import threads
from privaware.data._values import show_values, values_shown
from privaware.errors import PrivawareError, WrongInput
from privaware.strategies._workers import connected
from privaware.workflow.run.cluster import Question, Run, Worker

__all__ = ["ProcessPool", "serve"]

START_TIMEOUT = 120.0
"""Seconds within which the workers of a Ray cluster must start; workers that are later are not used."""
SERVE = "import sys; from privaware.workflow.run.process_pool import serve; serve(int(sys.argv[1]))"
"""The program of a worker process."""
Answer = list[Run] | PrivawareError | None
"""What a worker answers: sums over runs of pieces, an error about the rows, or None if the worker is lost."""


class RayPool:
    """The workers of a run on the Ray cluster at `address`, one for each free CPU; they end with this object.

    A worker that does not start within `START_TIMEOUT` seconds is not used; without any worker, `alive` raises
    `WrongInput`.
    """

    def __init__(self, address: str) -> None:
        self._ray = connected(address)
        free = int(self._ray.available_resources().get("CPU", 1))
        actor = self._ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)
        started = {worker: actor.remote() for worker in range(max(1, free))}
        ready = {started[worker].__ray_ready__.remote(): worker for worker in started}
        answered, _ = self._ray.wait(list(ready), num_returns=len(ready), timeout=START_TIMEOUT)
        self._actors = {worker: started[worker] for worker in sorted(ready[future] for future in answered)}

    def alive(self) -> list[int]:
        if not self._actors:
            raise WrongInput(
                "expected workers on the Ray cluster, but none is left; look at `ray status`, add machines or memory, "
                "and repeat the command: it resumes without a second charge"
            )
        return list(self._actors)

    def ask(self, questions: Mapping[int, Question]) -> Iterator[tuple[int, Answer]]:
        waiting = {self._actors[worker].partials.remote(question): worker for worker, question in questions.items()}
        while waiting:
            [future], _ = self._ray.wait(list(waiting), num_returns=1)
            worker = waiting.pop(future)
            yield worker, self._answer(worker, future)

    def _answer(self, worker: int, future: Any) -> Answer:
        try:
            answer: Answer = self._ray.get(future)
        except self._ray.exceptions.RayTaskError as problem:
            raise problem.cause from None  # a defect of this package, not a lost worker
        except self._ray.exceptions.RayError:
            self._ray.kill(self._actors.pop(worker))  # it may be alive but unreachable, so it is not asked again
            return None
        return answer


class ProcessPool:
    """The workers of a run on this machine, `count` of them, or `threads()` if None; they end with this object."""

    def __init__(self, count: int | None = None) -> None:
        started = {worker: _start() for worker in range(count or threads())}
        self._links = {worker: link for worker, (_, link) in started.items()}
        self._numbers = itertools.count()
        self._end = weakref.finalize(self, _end, list(started.values()))

    def alive(self) -> list[int]:
        if not self._links:
            raise WrongInput(
                "expected processes that read the rows, but all of them ended, perhaps because memory ran out; free "
                "memory and repeat the command: it resumes without a second charge"
            )
        return list(self._links)

    def ask(self, questions: Mapping[int, Question]) -> Iterator[tuple[int, Answer]]:
        number = next(self._numbers)
        for worker, question in questions.items():
            if not self._sent(worker, number, question):
                yield worker, None
        waiting = {self._links[worker]: worker for worker in questions if worker in self._links}
        while waiting:
            for link in wait(list(waiting)):
                assert isinstance(link, Connection)
                worker = waiting[link]
                try:
                    asked, answer = link.recv()
                except (EOFError, OSError):
                    del self._links[worker], waiting[link]
                    yield worker, None
                    continue
                if asked != number:  # the answer to an earlier question, which was abandoned
                    continue
                del waiting[link]
                if isinstance(answer, Exception) and not isinstance(answer, PrivawareError):
                    raise answer  # a defect of this package, not a lost worker
                yield worker, answer

    def _sent(self, worker: int, number: int, question: Question) -> bool:
        import cloudpickle

        message = cloudpickle.dumps((number, values_shown(), question), protocol=pickle.HIGHEST_PROTOCOL)
        try:
            self._links[worker].send_bytes(message)
        except OSError:
            del self._links[worker]
            return False
        return True


def serve(descriptor: int) -> None:
    """Answer questions in a worker process until the connection, a socket with the file `descriptor`, is closed."""
    worker = Worker()
    with Connection(descriptor) as link:
        while True:
            try:
                number, shown, question = link.recv()
                link.send_bytes(_pickled(number, _answer(worker, shown, question)))
            except (EOFError, OSError):
                return


def _answer(worker: Worker, shown: bool, question: Question) -> list[Run] | Exception:
    try:
        with show_values(shown):
            return worker.partials(question)
    except Exception as problem:
        return problem


def _pickled(number: int, answer: Any) -> bytes:
    try:
        return pickle.dumps((number, answer), protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError):
        return pickle.dumps((number, RuntimeError(f"a worker's answer cannot be sent: {type(answer).__name__}")))


def _start() -> tuple[subprocess.Popen[bytes], Connection]:
    """Start a worker process with one thread, and return it with this process's end of its socket."""
    ours, theirs = socket.socketpair()
    path = os.pathsep.join(each for each in sys.path if isinstance(each, str))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", SERVE, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment,
            pass_fds=(theirs.fileno(),),
            process_group=0,  # an interrupt from the terminal reaches only the parent, which ends its workers
        )
    return process, Connection(ours.detach())


def _end(started: list[tuple[subprocess.Popen[bytes], Connection]]) -> None:
    for process, link in started:
        link.close()
        process.kill()  # a worker holds nothing that must be kept
        process.wait()
