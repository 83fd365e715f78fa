"""Record a training step as a CUDA graph, so that no kernel launch waits for the host.

Public numbers that change from step to step lie in a table on the device. There are two ways to draw Poisson samples
(a full batch needs none):

1. With `Descent.overflow > 0` the device draws Poisson samples, as independent geometric gaps between sampled examples,
   into batches of fixed shape. Examples that exceed the shape would be lost. The shape is chosen so large that this
   practically never happens, and its probability is charged to delta (`Descent.overflow`).
2. With `Descent.overflow == 0` the host draws the samples and replays the graph of a microbatch as often as needed. No
   example is lost, and there is less padding.
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

WARM_UP = 3
"""Number of steps that run before a graph is captured."""

OVERFLOW_SAFETY = 1e-9
"""The probability that any sample exceeds its slots (places of examples) is kept below `overflow * OVERFLOW_SAFETY`.

`overflow` is charged to delta, for this reason: let one row be added to or removed from the data. Whether the other
sampled rows fill all slots does not depend on this row. If they do not fill all slots, no row is lost with or without
this row. So delta grows by the probability that the other rows fill all slots, at any epsilon.
"""

CAPACITY_MULTIPLE = 16
"""The number of places for the examples of a sample drawn on the device is rounded up to a multiple of this."""

MAX_EXTRA_ROWS = 64
"""With `overflow > 0` data may have at most `rows + rows // 256 + MAX_EXTRA_ROWS` rows for `rows` declared rows."""


class CapturedStep:
    """The step of a training as CUDA graphs. Its `one_step` replaces `training.one_step`.

    A graph reads memory by address and does not keep it alive. So every tensor that a graph reads is a field of this
    object or of its `training`, except tensors that are allocated while the graph is captured.
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
        """Return the number of slots of each model, one for each example that a Poisson sample may have.

        The probability that any sample of the run has more examples is at most `recipe.overflow * OVERFLOW_SAFETY`. The
        number of slots depends on the declared number of rows. If it depended on the true number, one row more could
        change the shape of all batches, and so the rounding of every group of examples. Raise `Refused` if there are
        more examples than `MAX_EXTRA_ROWS` allows.
        """
        training, recipe = self.training, self.training.recipe
        most = training.rows + training.rows // 256 + MAX_EXTRA_ROWS
        if training.sampled_from > most:
            raise Refused(
                f"expected at most {most} examples for {training.rows} declared rows where overflow is above 0, got "
                "more; declare the number of rows, or set overflow to 0"
            )
        chance = recipe.overflow * OVERFLOW_SAFETY / (recipe.steps * training.models)
        return capacity(most, recipe.sampler.rate, chance)

    def settings(self) -> StepSettings:
        """Return the public numbers, as tensors, of step number `self.step`, which is a counter on the device."""
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
        """Put the examples of each model into uniformly random order within its slots, on the device and in place.

        A slot is the place of one example in the microbatch. The examples that a model sampled for this step must all
        fit one microbatch. The examples stay in the first slots, and padding in the slots after them.
        """
        slots = self.shape.slots
        keys = self.training.rng.uniforms(tuple(slots.index.shape), slots.index.device)
        index, valid = _in_order(torch.where(slots.valid != 0, keys, 2.0), slots.index, slots.valid)
        slots.index.copy_(index)
        slots.valid.copy_(valid)

    def _drawn(self) -> list[Microbatch]:
        """Draw a Poisson sample for each model on the device, and return the microbatches that hold the samples.

        Each sampled example is in a random slot (place of one example in a microbatch); the other slots are padding. A
        sample with more examples than slots loses the excess.
        """
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
        """Run the functions `bodies` `WARM_UP` times, and append a captured CUDA graph of each to `self.graphs`.

        Then the state before the call is restored: step, tensors of the training, and counters of random numbers.
        """
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
        pool = torch.cuda.graph_pool_handle()  # graphs share memory: no graph needs another's intermediate values
        for body in bodies:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                body()
            self.graphs.append(graph)
        for tensor, value in zip(changed, saved, strict=True):
            tensor.copy_(value)
        training.exact_sum.start()

    def one_step(self) -> None:
        """Take one step by replaying its graphs."""
        self.training.refresh()  # writes where the graph reads
        if len(self.graphs) == 1:
            self.graphs[0].replay()
        else:
            self._with_host_samples()
        self.training.state.step += 1

    def _with_host_samples(self) -> None:
        """Draw samples on the host and replay the graph of a microbatch until every sampled example was used.

        The samples of several models are shuffled on the device if each fits one microbatch. Other samples are shuffled
        on the host.
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
        """Return the positions of sampled examples and a mask that is nonzero for them, both (models, largest sample).

        The sampled examples of a model come first in its row, followed by padding.
        """
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
    """A microbatch of fixed shape on the device.

    It is filled from two alternating pinned buffers on the host, while earlier steps still run.
    """

    def __init__(self, training: Training) -> None:
        self.width = training.layout.width
        shape = (training.models, self.width)
        self.slots = _Slots(shape, training.stack.device)
        self.pinned = [_Pinned(shape) for _ in range(2)]

    def send(self, index: np.ndarray, valid: np.ndarray) -> None:
        self.pinned.reverse()
        self.pinned[0].send(index, valid, self.slots)


class _Slots:
    """Indices of examples and their validity, in one block of memory so that one copy moves both."""

    def __init__(self, shape: tuple[int, int], device: torch.device | None = None) -> None:
        """Allocate the tensors `index` (int64) and `valid` (float32), both of `shape` (models, slots), with zeros.

        A slot is the place of one example in a microbatch. The memory is on `device`; if `device` is None, it is pinned
        memory on the host.
        """
        count = shape[0] * shape[1]
        self.memory = torch.zeros(12 * count, dtype=torch.uint8, device=device, pin_memory=device is None)
        index, valid = self.memory.split([8 * count, 4 * count])
        self.index, self.valid = index.view(torch.int64).view(shape), valid.view(torch.float32).view(shape)


class _Pinned:
    """Pinned host memory that the device copies asynchronously; it is not overwritten before that copy has ended."""

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
    """Return `index` and `valid`, each row sorted by ascending `keys` of the same row; all are (rows, width)."""
    if index.shape[1] <= elementwise.WIDEST and elementwise.ready(keys.device):
        return elementwise.in_order(keys, index, valid)
    order = keys.argsort(1)
    return index.gather(1, order), valid.gather(1, order)


def gaps_to_indices(draws: Tensor, rate: float, examples: int) -> tuple[Tensor, Tensor]:
    """Turn uniform `draws` in [0, 1), (samples, width), into Poisson samples of `examples` at sampling rate `rate`.

    The gaps between sampled examples are independent and geometric. Return ascending indices (0 where there is none)
    and a mask that is True for sampled examples, both (samples, width). A sample with more than `width` examples loses
    those after the first `width`.

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
    """Return a size that a Poisson sample of `examples` at `rate` exceeds with a probability of at most `chance`.

    The size is a multiple of `CAPACITY_MULTIPLE`, or `examples`. The probability is bounded by a Chernoff bound. Raise
    `Refused` unless `chance` is in (0, 1).

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
    """Return an upper bound on log Pr[Binomial(examples, rate) > size]."""
    fraction = (size + 1) / examples
    if fraction >= 1:
        return -math.inf
    if fraction <= rate:
        return 0.0
    return -examples * (fraction * math.log(fraction / rate) + (1 - fraction) * math.log((1 - fraction) / (1 - rate)))
