"""Measured steps: the clock, one line for each way of doing a step, and how the lines stand to each other."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks._descent_steps import allow_tf32


@dataclass
class Line:
    """One measured way of doing one step."""

    model: str
    batch: int
    way: str
    mode: str
    milliseconds: float
    megabytes: float | None
    models: int = 1

    @property
    def rate(self) -> float:
        """Model-steps a second."""
        return 1000 * self.models / self.milliseconds


class Clock:
    """The median time of a step and the memory it took, on one device."""

    def __init__(self, device: str, seconds: float, processor: bool = False) -> None:
        self.device, self.seconds = device, seconds
        self.now = time.process_time if processor else time.perf_counter

    def sync(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def measure(self, step: Callable[[], Any]) -> tuple[float, float | None]:
        for _ in range(3):
            step()
        self.sync()
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        many = self._rounds(step)
        times: list[float] = []
        began = self.now()
        while self.now() - began < self.seconds or len(times) < 3:
            start = self.now()
            for _ in range(many):
                step()
            self.sync()
            times.append((self.now() - start) / many)
        return 1000 * statistics.median(times), self._megabytes()

    def _rounds(self, step: Callable[[], Any]) -> int:
        """Steps between two readings: enough that reading the clock (and waiting for the device) costs nothing."""
        start = self.now()
        step()
        self.sync()
        each = self.now() - start
        return max(1, min(200, int(0.05 / max(each, 1e-6))))

    def _megabytes(self) -> float | None:
        if self.device == "cuda":
            return torch.cuda.max_memory_allocated() / 2**20
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


class Bench:
    """Runs cases, prints a table, keeps the lines."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.lines: list[Line] = []
        self.errors: list[dict[str, Any]] = []

    def case(
        self, model: str, batch: int, way: str, mode: str, make: Callable[[], Any], models: int = 1
    ) -> Line | None:
        try:
            milliseconds, megabytes = self.clock.measure(make())
        except Exception as error:
            first = next(iter(str(error).splitlines()), "")
            words = f"{type(error).__name__}: {first}"[:160]
            print(f"{model:20} {batch:6} {way:28} {mode:9} failed: {words}", flush=True)
            self.errors.append({"model": model, "batch": batch, "way": way, "mode": mode, "error": words})
            return None
        finally:
            allow_tf32(False)
            gc.collect()
            if self.clock.device == "cuda":
                torch.cuda.empty_cache()
        line = Line(model, batch, way, mode, milliseconds, megabytes, models)
        self.lines.append(line)
        memory = "" if megabytes is None else f"{megabytes:9.0f} MB"
        print(
            f"{model:20} {batch:6} {way:28} {mode:9} {milliseconds:10.3f} ms {memory} {line.rate:12.1f} model-steps/s"
            f" {self.beside(line)}",
            flush=True,
        )
        return line

    def beside(self, line: Line) -> str:
        """How a private line stands to plain SGD in the same mode and to Opacus."""
        if not line.way.startswith("privaware"):
            return ""
        words = []
        for other in self.lines:
            if (other.model, other.batch) != (line.model, line.batch):
                continue
            ratio = line.milliseconds / line.models / other.milliseconds
            if other.way == "plain SGD" and line.models == 1:
                words.append(f"{ratio:.2f} x plain {other.mode}")
            elif other.way.startswith("opacus"):
                words.append(f"{1 / ratio:.1f} x faster than {other.way}")
        return "; ".join(words)
