"""A step as one CUDA graph: no launch waits for the host, not even for sampling.

Public numbers that change from step to step lie in tables on the device. Poisson samples are drawn as geometric
gaps between the rows that are in, which is the same law, into batches of fixed shape. What does not fit would be lost,
so the shape is chosen such that this practically never happens, and `Descent.overflow` pays for the chance. Without an
overflow allowed, the host draws the samples, takes the narrower of two shapes if that holds them, and replays the graph
of a batch as often as needed: nothing is lost, and less is padded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from privaware.descent._run import ROUND, Batch, Now
from privaware.descent._sampling import FullBatch, Poisson
from privaware.errors import Refused

if TYPE_CHECKING:
    from privaware.descent._run import Run

__all__ = ["Captured", "capacity", "gaps_to_places"]

WARM = 3
TRUST = 1e-9
"""Truncation costs (1 + e^epsilon) times its chance: the chance is kept below `overflow` times this."""

OFTEN = (0.8, 0.999)
"""How often the samples of all models fit each of the shapes that the host chooses from."""


class Captured:
    """A run's step in graphs; `one_step` stands in for the run's own."""

    def __init__(self, run: Run) -> None:
        self.run = run
        sampler = run.descent.sampler
        self.full = isinstance(sampler, FullBatch)
        self.inside = isinstance(sampler, Poisson) and run.descent.overflow > 0
        self.at = torch.tensor([run.step], device=run.stack.device)
        self._make_tables()
        self.graphs: list[torch.cuda.CUDAGraph] = []
        self.laid: list[_Laid] = []
        bodies = [self._whole]
        if self.full or self.inside:
            self.width = self._width()
        else:
            self.laid = [_Laid(run, width) for width in self._widths()]
            bodies = [*(partial(self._gather, laid) for laid in self.laid), self._finish]
        self._capture(bodies)

    def _make_tables(self) -> None:
        run, descent = self.run, self.run.descent
        steps = range(descent.steps)
        noise = [[descent.noise_at(value, step) for value in run.noise] for step in steps]
        inner = [[run.inner_noise(value) for value in row] for row in noise]
        lr = [[value * descent.lr_schedule.at(step, descent.steps) for value in run.lr] for step in steps]
        average = descent.average
        weight = [0.0 if average is None else average.weight(step, descent.steps) for step in steps]
        last = [[value, step / descent.steps] for step, value in enumerate(weight)]
        rows = zip(noise, inner, lr, last, strict=True)
        self.table = run.total.new_tensor([[*a, *b, *c, *d] for a, b, c, d in rows])

    def _width(self) -> int:
        run, descent = self.run, self.run.descent
        available = len(run.inputs[0])
        if self.full:
            return available
        chance = descent.overflow * TRUST / (descent.steps * run.models)
        return capacity(available, descent.sampler.rate, chance)

    def _widths(self) -> list[int]:
        """The shapes that the host chooses from, the narrowest first."""
        run = self.run
        available, rate = len(run.inputs[0]), run.descent.sampler.rate
        mean, spread = rate * available, math.sqrt(rate * (1 - rate) * available)
        beyond = (NormalDist().inv_cdf(often ** (1 / run.models)) for often in OFTEN)
        usual = (math.ceil((mean + z * spread) / ROUND) * ROUND for z in beyond)
        return sorted({max(1, min(available, run.physical, width)) for width in usual})

    def now(self) -> Now:
        """The public numbers of the step that the device's own counter points at."""
        row = self.table.index_select(0, self.at)[0]
        noise, inner, lr = row[:-2].view(3, -1, 1)
        return Now(noise, inner, lr, row[-2], row[-1])

    def _whole(self) -> None:
        self.run.body(self.now(), self._batches(), branch=False)
        self.at += 1

    def _gather(self, laid: _Laid) -> None:
        self.run.gather(self.now(), [(laid.places.flatten(), laid.valid.flatten())], branch=False)

    def _finish(self) -> None:
        now = self.now()
        self.run.finish(now, *self.run.release(now))
        self.run.total.zero_()
        self.at += 1

    def _batches(self) -> list[Batch]:
        """Physical batches of fixed shape."""
        run = self.run
        if self.full:
            if run.models == 1 and run.physical >= self.width:
                return [(slice(None), None)]
            places = torch.arange(self.width, device=run.stack.device).expand(run.models, -1)
            valid = torch.ones_like(places, dtype=run.stack.dtype)
        else:
            generator = run.rng.torch("sampling", str(run.stack.device))
            draws = torch.rand(
                (run.models, self.width), generator=generator, device=run.stack.device, dtype=torch.float64
            )
            places, inside = gaps_to_places(draws, run.descent.sampler.rate, len(run.inputs[0]))
            valid = inside.to(run.stack.dtype)
        each = min(run.physical, self.width)
        parts = zip(places.split(each, 1), valid.split(each, 1), strict=True)
        return [(place.flatten(), mask.flatten()) for place, mask in parts]

    def _capture(self, bodies: list[Callable[[], None]]) -> None:
        """Warms up on a side stream, puts everything back as it was, and records."""
        run, device = self.run, self.run.stack.device
        streams = ("noise", "sampling", "initial")
        generators = [run.rng.torch(stream, str(device)) for stream in streams]
        kept = [(generator, generator.get_state()) for generator in generators]
        parts = self._changed()
        saved = [part.clone() for part in parts]
        torch_state = torch.cuda.get_rng_state(device)
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM):
                for body in bodies:
                    body()
                self.at.fill_(run.step)
        torch.cuda.current_stream(device).wait_stream(side)
        for generator, state in kept:
            generator.set_state(state)
        torch.cuda.set_rng_state(torch_state, device)
        pool = torch.cuda.graph_pool_handle()  # what a graph computes with is of no use to the next
        for body in bodies:
            graph = torch.cuda.CUDAGraph()
            for generator in generators:
                graph.register_generator_state(generator)
            with torch.cuda.graph(graph, pool=pool):
                body()
            self.graphs.append(graph)
        for part, value in zip(parts, saved, strict=True):
            part.copy_(value)
        run.total.zero_()

    def _changed(self) -> list[Tensor]:
        run = self.run
        return [run.stack.theta, run.bounds, self.at, *run.state.values(), *run.averages.values()]

    def one_step(self) -> None:
        """Replays the step."""
        if len(self.graphs) == 1:
            self.graphs[0].replay()
        else:
            self._from_host()
        self.run.step += 1

    def _from_host(self) -> None:
        """Draws on the host and replays a batch's graph until all rows are in: nothing is cut off."""
        places, inside = self._drawn(len(self.run.inputs[0]))
        start, longest = 0, places.shape[1]
        while start < longest:
            wide = (at for at, laid in enumerate(self.laid) if laid.width >= longest - start)
            at = next(wide, len(self.laid) - 1)
            stop = start + self.laid[at].width
            self.laid[at].send(places[:, start:stop], inside[:, start:stop])
            self.graphs[at].replay()
            start = stop
        self.graphs[-1].replay()

    def _drawn(self, available: int) -> tuple[np.ndarray, np.ndarray]:
        """(models, longest) row positions, and which of them count."""
        run = self.run
        sampler = run.descent.sampler
        if isinstance(sampler, Poisson) and sampler.rate < 1:
            return run.rng.poisson_places(available, sampler.rate, run.models)
        drawn = [sampler.draw(run.rng, available) for _ in range(run.models)]
        longest = max(map(len, drawn))
        places, inside = np.zeros((2, run.models, longest), dtype=np.int64)
        for at, part in enumerate(drawn):
            places[at, : len(part)], inside[at, : len(part)] = part, 1
        return places, inside


class _Laid:
    """A batch of one shape on the device, filled while earlier steps still run: two pinned buffers take turns."""

    def __init__(self, run: Run, width: int) -> None:
        device, shape, self.width = run.stack.device, (run.models, width), width
        self.places = torch.zeros(shape, dtype=torch.int64, device=device)
        self.valid = torch.zeros(shape, dtype=run.stack.dtype, device=device)
        self.pinned = [_Pinned(self.places, self.valid) for _ in range(2)]

    def send(self, places: np.ndarray, inside: np.ndarray) -> None:
        self.pinned.reverse()
        self.pinned[0].send(places, inside, self.places, self.valid)


class _Pinned:
    """Memory that the device reads by itself; not written again before it has."""

    def __init__(self, places: Tensor, valid: Tensor) -> None:
        self.places, self.valid = (torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in (places, valid))
        self.read = torch.cuda.Event()

    def send(self, places: np.ndarray, inside: np.ndarray, to: Tensor, valid: Tensor) -> None:
        self.read.synchronize()
        self.places.zero_()
        self.valid.zero_()
        self.places[:, : places.shape[1]] = torch.from_numpy(places)
        self.valid[:, : places.shape[1]] = torch.from_numpy(inside)
        to.copy_(self.places, non_blocking=True)
        valid.copy_(self.valid, non_blocking=True)
        self.read.record()


def gaps_to_places(draws: Tensor, rate: float, rows: int) -> tuple[Tensor, Tensor]:
    """Row positions from uniform draws: independent geometric gaps lie between the rows of a Poisson sample.

    >>> places, inside = gaps_to_places(torch.tensor([[0.1, 0.6, 0.9]]), rate=0.5, rows=4)
    >>> places.tolist(), inside.tolist()
    ([[0, 2, 0]], [[True, True, False]])
    """
    if rate == 1:
        gaps = torch.ones_like(draws, dtype=torch.int64)
    else:
        gaps = 1 + (torch.log1p(-draws) / math.log1p(-rate)).clamp_max(2.0 * rows).long()
    places = gaps.cumsum(1) - 1
    inside = places < rows
    return torch.where(inside, places, 0), inside


def capacity(rows: int, rate: float, chance: float) -> int:
    """The least multiple of 16 that a Poisson sample exceeds with at most this chance (a Chernoff bound).

    >>> capacity(60_000, 256 / 60_000, 1e-22)
    432
    """
    if not 0 < chance < 1:
        raise Refused(f"expected an overflow chance in (0, 1), got {chance!r}")
    low, high = max(1, math.floor(rate * rows)), rows
    while low < high:
        middle = (low + high) // 2
        if _log_tail(rows, rate, middle) <= math.log(chance):
            high = middle
        else:
            low = middle + 1
    return min(rows, -(-low // ROUND) * ROUND)


def _log_tail(rows: int, rate: float, size: int) -> float:
    """A bound on log Pr[Binomial(rows, rate) > size]."""
    share = (size + 1) / rows
    if share >= 1:
        return -math.inf
    if share <= rate:
        return 0.0
    return -rows * (share * math.log(share / rate) + (1 - share) * math.log((1 - share) / (1 - rate)))
