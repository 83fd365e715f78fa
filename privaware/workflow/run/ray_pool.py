"""Workers on a Ray cluster, one for each processor: an actor that dies is lost, and no other takes its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from privaware.errors import PrivawareError, WrongInput
from privaware.strategies._workers import connected
from privaware.workflow.run.cluster import Question, Run, Worker

__all__ = ["RayPool"]

START = 120.0
"""Seconds in which workers have to start; those that have not by then are given up."""


class RayPool:
    """The workers of a fit on the cluster at `address`; they end with this object."""

    def __init__(self, address: str) -> None:
        self._ray = connected(address)
        free = int(self._ray.available_resources().get("CPU", 1))
        actor = self._ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)
        started = {worker: actor.remote() for worker in range(max(1, free))}
        ready = {started[worker].__ray_ready__.remote(): worker for worker in started}
        answered, _ = self._ray.wait(list(ready), num_returns=len(ready), timeout=START)
        self._actors = {worker: started[worker] for worker in sorted(ready[future] for future in answered)}

    def alive(self) -> list[int]:
        if not self._actors:
            raise WrongInput(
                "expected workers on the Ray cluster, but none is left; look at `ray status`, add machines or memory, "
                "and give the same command again: it resumes without a second charge"
            )
        return list(self._actors)

    def ask(self, questions: Mapping[int, Question]) -> Iterator[tuple[int, list[Run] | PrivawareError | None]]:
        waiting = {self._actors[worker].partials.remote(question): worker for worker, question in questions.items()}
        while waiting:
            [future], _ = self._ray.wait(list(waiting), num_returns=1)
            worker = waiting.pop(future)
            yield worker, self._answer(worker, future)

    def _answer(self, worker: int, future: Any) -> list[Run] | PrivawareError | None:
        try:
            answer: list[Run] | PrivawareError = self._ray.get(future)
        except self._ray.exceptions.RayTaskError as problem:
            raise problem.cause from None  # a defect of ours, and no lost worker
        except self._ray.exceptions.RayError:
            self._ray.kill(self._actors.pop(worker))  # it may be alive and out of reach: it is asked no more
            return None
        return answer
