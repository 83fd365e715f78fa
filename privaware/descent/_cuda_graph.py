"""A step as one CUDA graph: no launch waits for the host, not even for sampling.

Public numbers that change from step to step lie in tables on the device. Poisson samples are drawn as geometric
gaps between sampled examples, which is the same distribution, into batches of fixed shape. What does not fit would be
lost, so the shape is chosen such that this practically never happens, and `Descent.overflow` pays for the chance.
Without an overflow allowed, the host draws the samples and replays the graph of a microbatch as often as needed:
nothing is lost, and less is padded.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from privaware.descent._microbatches import Microbatch, microbatches
from privaware.descent._population import StepSettings
from privaware.descent._sampling import FullBatch, Poisson
from privaware.descent._training import Training
from privaware.errors import Refused
from privaware.kernels import elementwise

__all__ = ["CapturedStep", "capacity", "gaps_to_indices"]

WARM_UP = 3
OVERFLOW_SAFETY = 1e-9
"""The chance that a sample exceeds its slots is kept below `overflow`, which is charged to delta, times this.

Whether the other rows fill all slots by themselves does not depend on the row that joins or leaves. Where they do not,
no row is lost with or without it. So delta grows by the chance that they do, at any epsilon.
"""

CAPACITY_MULTIPLE = 16

MORE_ROWS = 64
"""Rows above the declared number (and above another 1/256 of it) that samples drawn on the device have room for."""


class CapturedStep:
    """A training's step in CUDA graphs: `one_step` replaces the training's own.

    A graph reads memory by address and keeps none of it alive. So every tensor that a graph reads, and that is not
    allocated while the graph is captured, is a field of this object or of its `training`.
    """

    def __init__(self, training: Training) -> None:
        self.training = training
        sampler = training.recipe.sampler
        self.step = torch.tensor([training.step], device=training.stack.device)
        self._make_table()
        self.graphs: list[torch.cuda.CUDAGraph] = []
        if isinstance(sampler, FullBatch):
            self.full_batch = list(microbatches(training.samples(), training.layout, training.stack))
            bodies = [lambda: self._complete_step(self.full_batch)]
        elif isinstance(sampler, Poisson) and training.recipe.overflow > 0:
            slots = self._capacity()
            training.lay_out(slots)
            self.subsets = None if training.subsets is None else training.subsets.on(training.stack.device)
            self.pieces = math.ceil(slots / training.layout.width)
            bodies = [lambda: self._complete_step(self._drawn())]
        else:
            self.shape = _FixedShape(training)
            bodies = [self._accumulate, self._release_and_update]
            if training.models > 1:
                bodies.append(self._shuffle_slots)
        self._capture(bodies)

    def _make_table(self) -> None:
        recipe, population = self.training.recipe, self.training.population
        rows = [population.row(recipe, step) for step in range(recipe.steps)]
        self.table = self.training.state.theta.new_tensor(
            [[*row.noise, *row.gradient_noise, *row.lr, row.average_weight, row.progress] for row in rows]
        )

    def _capacity(self) -> int:
        """Slots that hold every model's sample but for a chance that is charged.

        They follow from the declared number of rows: with the true number, one row more could change the shape of all
        batches, and so the rounding of every group of examples.
        """
        training, recipe = self.training, self.training.recipe
        most = training.rows + training.rows // 256 + MORE_ROWS
        if training.sampled_from > most:
            raise Refused(
                f"expected at most {most} examples for {training.rows} declared rows where overflow is above 0, got "
                "more; declare the number of rows, or set overflow to 0"
            )
        chance = recipe.overflow * OVERFLOW_SAFETY / (recipe.steps * training.models)
        return capacity(most, recipe.sampler.rate, chance)

    def settings(self) -> StepSettings:
        """The public numbers of the step that the device's own counter points at."""
        row = self.table.index_select(0, self.step)[0]
        noise, gradient_noise, lr = row[:-2].view(3, -1, 1)
        return StepSettings(noise, gradient_noise, lr, row[-2], row[-1], self.step)

    def _complete_step(self, selections: list[Microbatch]) -> None:
        self.training.step_on(self.settings(), selections, capturing=True)
        self.step += 1

    def _accumulate(self) -> None:
        slots = self.shape.slots
        selection = Microbatch(slots.index.flatten(), slots.valid.flatten().to(self.training.stack.dtype))
        self.training.accumulate(self.settings(), [selection], capturing=True)

    def _release_and_update(self) -> None:
        settings = self.settings()
        self.training.update(settings, *self.training.noisy_sum(settings))
        self.training.exact_sum.start()
        self.step += 1

    def _shuffle_slots(self) -> None:
        """Puts each model's examples, all of them in one microbatch, into random order; padding stays last."""
        slots = self.shape.slots
        keys = self.training.rng.uniforms(tuple(slots.index.shape), slots.index.device)
        index, valid = _in_order(torch.where(slots.valid != 0, keys, 2.0), slots.index, slots.valid)
        slots.index.copy_(index)
        slots.valid.copy_(valid)

    def _drawn(self) -> list[Microbatch]:
        """A sample drawn on the device: each of its examples in a random slot of its own."""
        training = self.training
        shape = (training.models, self.pieces * training.layout.width)
        draws, keys = training.rng.uniforms((2, *shape), training.stack.device)
        index, inside = gaps_to_indices(draws, training.recipe.sampler.rate, training.sampled_from)
        if self.subsets is not None:
            positions, sizes = self.subsets
            inside = inside & (index < sizes)
            index = positions.gather(1, torch.where(inside, index, 0))
        index, valid = _in_order(keys, index, inside.to(training.stack.dtype))
        parts = zip(index.chunk(self.pieces, 1), valid.chunk(self.pieces, 1), strict=True)
        return [Microbatch(part.flatten(), mask.flatten()) for part, mask in parts]

    def _capture(self, bodies: list[Callable[[], None]]) -> None:
        """Warms up on a side stream, restores everything, and records."""
        training, device = self.training, self.training.stack.device
        changed = [self.step, *training.state.tensors().values(), *training.rng.counters(device)]
        saved = [tensor.clone() for tensor in changed]
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                for body in bodies:
                    body()
                self.step.fill_(training.step)
        torch.cuda.current_stream(device).wait_stream(side)
        pool = torch.cuda.graph_pool_handle()  # what a graph computes with is of no use to the next
        for body in bodies:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                body()
            self.graphs.append(graph)
        for tensor, value in zip(changed, saved, strict=True):
            tensor.copy_(value)
        training.exact_sum.start()

    def one_step(self) -> None:
        """Replays the step."""
        if self.training.stack.projection is not None:
            self.training.refresh()  # writes where the graph reads
        if len(self.graphs) == 1:
            self.graphs[0].replay()
        else:
            self._with_host_samples()
        self.training.state.step += 1

    def _with_host_samples(self) -> None:
        """Draws on the host and replays a microbatch's graph until all examples are in: none is dropped.

        Many samples of one microbatch each are put into random order on the device, others on the host.
        """
        index, valid = self._samples()
        on_device = len(self.graphs) > 2 and index.shape[1] <= self.shape.width
        if not on_device:
            self.training.rng.shuffle_each(index, valid)
        for start in range(0, index.shape[1], self.shape.width):
            part = slice(start, start + self.shape.width)
            self.shape.send(index[:, part], valid[:, part])
            if on_device:
                self.graphs[2].replay()
            self.graphs[0].replay()
        self.graphs[1].replay()

    def _samples(self) -> tuple[np.ndarray, np.ndarray]:
        """(models, longest) indices of examples, and which of them are valid: the first of each model."""
        training = self.training
        sampler = training.recipe.sampler
        if isinstance(sampler, Poisson) and sampler.rate < 1:
            index, valid = training.rng.poisson_indices(training.sampled_from, sampler.rate, training.models)
            return (index, valid) if training.subsets is None else training.subsets.within(index, valid)
        samples = training.samples()
        shape = (training.models, max(map(len, samples)))
        index, valid = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=bool)
        for at, sample in enumerate(samples):
            index[at, : len(sample)], valid[at, : len(sample)] = sample, True
        return index, valid


class _FixedShape:
    """A microbatch of one shape on the device, filled while earlier steps still run: two pinned buffers alternate."""

    def __init__(self, training: Training) -> None:
        self.width = training.layout.width
        shape = (training.models, self.width)
        self.slots = _Slots(shape, training.stack.device)
        self.pinned = [_Pinned(shape) for _ in range(2)]

    def send(self, index: np.ndarray, valid: np.ndarray) -> None:
        self.pinned.reverse()
        self.pinned[0].send(index, valid, self.slots)


class _Slots:
    """Indices of examples and which of them are valid, side by side in memory so that one copy moves both."""

    def __init__(self, shape: tuple[int, int], device: torch.device | None = None) -> None:
        """Without a device the memory is the host's, and pinned."""
        count = shape[0] * shape[1]
        self.memory = torch.zeros(12 * count, dtype=torch.uint8, device=device, pin_memory=device is None)
        index, valid = self.memory.split([8 * count, 4 * count])
        self.index, self.valid = index.view(torch.int64).view(shape), valid.view(torch.float32).view(shape)


class _Pinned:
    """Memory that the device reads by itself; not written again before it has."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.slots = _Slots(shape)
        self.arrays = self.slots.index.numpy(), self.slots.valid.numpy()
        self.read = torch.cuda.Event()

    def send(self, index: np.ndarray, valid: np.ndarray, to: _Slots) -> None:
        self.read.synchronize()
        for array, values in zip(self.arrays, (index, valid), strict=True):
            array[:, : values.shape[1]] = values
            array[:, values.shape[1] :] = 0
        to.memory.copy_(self.slots.memory, non_blocking=True)
        self.read.record()


def _in_order(keys: Tensor, index: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the order of the keys, in each row."""
    if index.shape[1] <= elementwise.WIDEST and elementwise.ready(keys.device):
        return elementwise.in_order(keys, index, valid)
    order = keys.argsort(1)
    return index.gather(1, order), valid.gather(1, order)


def gaps_to_indices(draws: Tensor, rate: float, examples: int) -> tuple[Tensor, Tensor]:
    """A Poisson sample from uniform draws: gaps between sampled examples are independent and geometric.

    >>> index, inside = gaps_to_indices(torch.tensor([[0.1, 0.6, 0.9]]), rate=0.5, examples=4)
    >>> index.tolist(), inside.tolist()
    ([[0, 2, 0]], [[True, True, False]])
    """
    if rate == 1:
        gaps = torch.ones_like(draws, dtype=torch.int64)
    else:
        gaps = 1 + (torch.log1p(-draws) / math.log1p(-rate)).clamp_max(2.0 * examples).long()
    index = gaps.cumsum(1) - 1
    inside = index < examples
    return torch.where(inside, index, 0), inside


def capacity(examples: int, rate: float, chance: float) -> int:
    """The least multiple of 16 that a Poisson sample exceeds with at most this chance (a Chernoff bound).

    >>> capacity(60_000, 256 / 60_000, 1e-22)
    432
    """
    if not 0 < chance < 1:
        raise Refused(f"expected an overflow chance in (0, 1), got {chance!r}")
    low, high = max(1, math.floor(rate * examples)), examples
    while low < high:
        middle = (low + high) // 2
        if _log_tail(examples, rate, middle) <= math.log(chance):
            high = middle
        else:
            low = middle + 1
    return min(examples, -(-low // CAPACITY_MULTIPLE) * CAPACITY_MULTIPLE)


def _log_tail(examples: int, rate: float, size: int) -> float:
    """A bound on log Pr[Binomial(examples, rate) > size]."""
    fraction = (size + 1) / examples
    if fraction >= 1:
        return -math.inf
    if fraction <= rate:
        return 0.0
    return -examples * (fraction * math.log(fraction / rate) + (1 - fraction) * math.log((1 - fraction) / (1 - rate)))
