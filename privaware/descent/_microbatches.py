"""Choose the size of microbatches from the free memory, and cut samples into microbatches.

The size affects speed and memory only: the update is the same for any size, up to rounding. The declared number of
rows, the sampling rate, the model and the free memory decide the shape of the microbatches of a run. So adding or
removing an example does not change the arithmetic of other examples. On a CPU the last microbatch of a sample may be
narrower, if examples give the same bits in all these shapes (`_rounding.py`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privaware.descent._example_draws import ExampleDraws
from privaware.descent._sampling import Sampler
from privaware.descent._stack import Stack
from privaware.descent._synthetic_examples import synthetic_inputs
from privaware.ranks import Ranks

GROUP_MULTIPLE = 8
"""Groups (examples that are added in one sum) of 64 or more are rounded up to a multiple of this for faster kernels."""

FIT_CHANCE = 0.977
"""Probability that the samples of all models fit into the slots (places of examples) that are planned for a step.

Otherwise another microbatch takes the excess.
"""

WIDE_CHANCE = 0.9995
"""Probability that the samples fit the widest shape of a layout with narrower shapes."""

SUM_NUMBERS = {"cpu": 2**21, "cuda": 2**28}
"""Largest number of floats in the group sums of a microbatch, by device type."""

MEMORY_FRACTION = 0.4
"""Fraction of the free memory that a microbatch may take."""

CPU_LIMIT = 2**31
"""Largest size of a microbatch on a CPU in bytes; a larger one would not be faster."""

MEMORY_OVERHEAD = 3
"""Memory that an example needs, with gradients, unfolded inputs and copies, divided by what autograd saves for it."""


@dataclass(frozen=True)
class MicrobatchLayout:
    """The shape of a microbatch: each model has `groups` groups of `group` slots.

    A slot is the place of one example, and `width` is the number of slots of a model, `groups * group`. The gradients
    of each group are summed separately. The last microbatch of a sample may have groups of one of the smaller sizes in
    `narrower`, which ascend.
    """

    groups: int
    group: int
    narrower: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        return self.groups * self.group

    def width_for(self, examples: int) -> int:
        """Return the number of slots (places of examples) of the next microbatch of a model.

        `examples` is how many examples of the model are still to be placed. The result is the smallest width with group
        sizes in `narrower` that holds all of them, or the full width if there is none.

        >>> layout = MicrobatchLayout(groups=2, group=144, narrower=(128, 136))
        >>> [layout.width_for(examples) for examples in (3, 257, 272, 273, 1000)]
        [256, 272, 272, 288, 288]
        """
        return next((self.groups * size for size in self.narrower if self.groups * size >= examples), self.width)

    @classmethod
    def of(cls, slots: int, *, microbatch: int, most: int) -> MicrobatchLayout:
        """Return the layout that spreads `slots` places for examples evenly over as few microbatches as possible.

        A microbatch has at most `microbatch` slots of a model, and a group at most `most` slots. Groups of at least 64
        slots are rounded up to a multiple of `GROUP_MULTIPLE`, if both limits allow it.

        >>> MicrobatchLayout.of(288, microbatch=10_000, most=144)
        MicrobatchLayout(groups=2, group=144, narrower=())
        >>> MicrobatchLayout.of(288, microbatch=100, most=144).width
        96
        """
        width = math.ceil(slots / math.ceil(slots / microbatch))
        groups = math.ceil(width / most)
        group = math.ceil(width / groups)
        padded = math.ceil(group / GROUP_MULTIPLE) * GROUP_MULTIPLE
        fits = group >= 8 * GROUP_MULTIPLE and padded <= most and groups * padded <= microbatch
        return cls(groups, padded if fits else min(group, max(1, microbatch // groups)))


@dataclass(frozen=True)
class Microbatch:
    """The examples of one microbatch.

    `index` holds the positions of the examples in the data: a flat tensor with the positions of model 0 first, or a
    slice if there is one model and its positions are consecutive. `valid` is a flat tensor with 1 for an example and 0
    for padding, or None without padding.
    """

    index: Tensor | slice
    valid: Tensor | None


def expected_slots(sampler: Sampler, rows: int, models: int, chance: float = FIT_CHANCE) -> int:
    """Return how many slots each model needs; a slot is the place of one example in a microbatch.

    In each step `sampler` draws one sample of the rows for each of `models` models. `rows` is the declared number of
    rows. With probability `chance` the sample of every model fits into the model's slots, by a normal approximation of
    the sample size. The result is from 1 to `rows`.
    """
    mean, deviation = sampler.rate * rows, math.sqrt(sampler.rate * (1 - sampler.rate) * rows)
    quantile = NormalDist().inv_cdf(chance ** (1 / models))
    return max(1, min(rows, math.ceil(mean + quantile * deviation)))


def narrower_sizes(layout: MicrobatchLayout, sampler: Sampler, rows: int, models: int) -> tuple[int, ...]:
    """Return group sizes below `layout.group` for the last microbatch, so that most samples need little padding.

    Sizes are numbers of examples in a group, at least 32. Sizes in steps of 4 cover samples between the 1/20 and the
    5/6 quantile of the largest sample of all `models`; one more size covers the `FIT_CHANCE` quantile. `rows` is the
    declared number of rows, which `sampler` samples.

    >>> from privaware.descent._sampling import Poisson
    >>> narrower_sizes(MicrobatchLayout(groups=2, group=160), Poisson(rate=0.0128), rows=20_000, models=1)
    (116, 120, 124, 128, 132, 136, 144)
    """
    step = GROUP_MULTIPLE // 2
    slots = (expected_slots(sampler, rows, models, chance) for chance in (1 / 20, 5 / 6, FIT_CHANCE))
    low, high, far = (math.ceil(count / layout.groups / step) * step for count in slots)
    return tuple(size for size in (*range(low, high + 1, step), far) if 4 * GROUP_MULTIPLE <= size < layout.group)


def microbatches(
    samples: Sequence[np.ndarray], layout: MicrobatchLayout, stack: Stack, ranks: Ranks | None = None
) -> Iterator[Microbatch]:
    """Cut the samples of all models into microbatches of the shape `layout`, and yield them in order.

    `samples` holds an array of positions for each model. The longest sample decides the number of microbatches, and
    there is none if all samples are empty. The last microbatch may be narrower (`layout.width_for`). Places without an
    example are padding. Tensors are on the device of `stack`. If `ranks` train together, only the microbatches of this
    rank are yielded: every `ranks.size`-th one, from number `ranks.rank` on.
    """
    longest = max(len(sample) for sample in samples)
    starts = range(0, longest, layout.width)
    for start in starts if ranks is None else starts[ranks.rank :: ranks.size]:
        width = layout.width_for(longest - start)
        parts = [sample[start : start + width] for sample in samples]
        if len(parts) == 1 and len(parts[0]) == width and (np.diff(parts[0]) == 1).all():
            yield Microbatch(slice(int(parts[0][0]), int(parts[0][-1]) + 1), None)
            continue
        index = np.zeros((len(parts), width), dtype=np.int64)
        valid = np.zeros((len(parts), width), dtype=np.float32)
        for at, part in enumerate(parts):
            index[at, : len(part)] = part
            valid[at, : len(part)] = 1
        yield Microbatch(
            torch.from_numpy(index.reshape(-1)).to(stack.device),
            None if valid.all() else torch.from_numpy(valid.reshape(-1)).to(stack.device, stack.dtype),
        )


def microbatch_size(stack: Stack, inputs: Sequence[Tensor], copies: int) -> int:
    """Return how many examples of each model fit into one microbatch, rounded down to a power of two (at least 1).

    Each example has `copies` augmented copies. The free memory of the stack's device decides. Only shapes and types of
    `inputs` are used.
    """
    example_bytes = _example_bytes(stack, inputs) * MEMORY_OVERHEAD * copies * stack.models
    limit = MEMORY_FRACTION * _free_bytes(stack.device)
    if stack.device.type == "cpu":
        limit = min(limit, CPU_LIMIT)
    return 1 << (max(1, int(limit / max(example_bytes, 1))).bit_length() - 1)


def _example_bytes(stack: Stack, inputs: Sequence[Tensor]) -> int:
    """Return how many bytes autograd saves for one more example of one model; at least the size of its inputs.

    The bytes are measured on one and on three synthetic examples, with the shapes and types of `inputs`.
    """
    one, three = (_saved_bytes(stack, inputs, examples) for examples in (1, 3))
    return max((three - one) // 2, sum(item[:1].nbytes for item in inputs), 1)


def _saved_bytes(stack: Stack, inputs: Sequence[Tensor], examples: int) -> int:
    saved: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        saved[tensor.data_ptr()] = tensor.nbytes
        return tensor

    count = examples * stack.models
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        draws = ExampleDraws(torch.arange(count, device=stack.device))
        _, tape = stack.forward(synthetic_inputs(inputs, count), count, draws)
    leaves = sum(edge.node.variable.numel() * 4 for edge in tape.edges if hasattr(edge.node, "variable"))
    return (sum(saved.values()) + leaves) // stack.models


def _free_bytes(device: Any) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
