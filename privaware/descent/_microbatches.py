"""Microbatches: how many examples fit at once, and how samples are cut into them.

Only speed and memory depend on it: the update is the same for any size, up to rounding. All microbatches of a run have
one shape that public facts decide, so that one example more or less changes no other example's arithmetic.
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
from privaware.descent._synthetic import synthetic_inputs

__all__ = ["MicrobatchLayout", "Microbatch", "expected_slots", "microbatch_size", "microbatches", "narrower_sizes"]

MULTIPLE = 8
"""Large groups are padded to a multiple of this, which kernels prefer."""

FIT_CHANCE = 0.977
"""How often the samples of all models fit the slots that are expected; then the next microbatch takes the others."""

WIDE_CHANCE = 0.9995
"""The same where most samples take narrower shapes."""

SUM_NUMBERS = {"cpu": 2**21, "cuda": 2**28}
"""The numbers that the sums of a microbatch's groups may take on a device."""

MEMORY_FRACTION = 0.4
"""The part of the free memory that a microbatch may take."""

CPU_LIMIT = 2**31
"""Bytes above which a larger microbatch on a CPU only leaves the caches, without saving calls that matter."""

OVERHEAD = 3
"""What an example takes over what autograd saves for it: gradients, columns of convolutions, copies."""


@dataclass(frozen=True)
class MicrobatchLayout:
    """The slots of a microbatch: a model has `groups` of `group` examples, each summed on its own.

    A last microbatch may have narrower groups, of the sizes in `narrower`.
    """

    groups: int
    group: int
    narrower: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        return self.groups * self.group

    def width_for(self, examples: int) -> int:
        """The slots of a microbatch for so many examples, or for the first of them.

        >>> layout = MicrobatchLayout(groups=2, group=144, narrower=(128, 136))
        >>> [layout.width_for(examples) for examples in (3, 257, 272, 273, 1000)]
        [256, 272, 272, 288, 288]
        """
        return next((self.groups * size for size in self.narrower if self.groups * size >= examples), self.width)

    @classmethod
    def of(cls, slots: int, *, microbatch: int, most: int) -> MicrobatchLayout:
        """The shape that spreads so many slots over few microbatches, with at most `most` examples in a group.

        >>> MicrobatchLayout.of(288, microbatch=10_000, most=144)
        MicrobatchLayout(groups=2, group=144, narrower=())
        >>> MicrobatchLayout.of(288, microbatch=100, most=144).width
        96
        """
        width = math.ceil(slots / math.ceil(slots / microbatch))
        groups = math.ceil(width / most)
        group = math.ceil(width / groups)
        padded = math.ceil(group / MULTIPLE) * MULTIPLE
        fits = group >= 8 * MULTIPLE and padded <= most and groups * padded <= microbatch
        return cls(groups, padded if fits else min(group, max(1, microbatch // groups)))


@dataclass(frozen=True)
class Microbatch:
    """The examples of one microbatch.

    `index` holds their positions, model by model, or is one slice of positions. `valid` is 1 for an example and 0 for
    padding; without padding it is None.
    """

    index: Tensor | slice
    valid: Tensor | None


def expected_slots(sampler: Sampler, rows: int, models: int, chance: float = FIT_CHANCE) -> int:
    """The slots that hold the samples of all models with this chance, from the declared number of rows."""
    mean, deviation = sampler.rate * rows, math.sqrt(sampler.rate * (1 - sampler.rate) * rows)
    quantile = NormalDist().inv_cdf(chance ** (1 / models))
    return max(1, min(rows, math.ceil(mean + quantile * deviation)))


def narrower_sizes(layout: MicrobatchLayout, sampler: Sampler, rows: int, models: int) -> tuple[int, ...]:
    """Sizes of groups that hardly pad most samples: fine steps for four fifths of them, and one for nearly all.

    >>> from privaware.descent._sampling import Poisson
    >>> narrower_sizes(MicrobatchLayout(groups=2, group=160), Poisson(rate=0.0128), rows=20_000, models=1)
    (116, 120, 124, 128, 132, 136, 144)
    """
    step = MULTIPLE // 2
    slots = (expected_slots(sampler, rows, models, chance) for chance in (1 / 20, 5 / 6, FIT_CHANCE))
    low, high, far = (math.ceil(count / layout.groups / step) * step for count in slots)
    return tuple(size for size in (*range(low, high + 1, step), far) if 4 * MULTIPLE <= size < layout.group)


def microbatches(samples: Sequence[np.ndarray], layout: MicrobatchLayout, stack: Stack) -> Iterator[Microbatch]:
    """The models' samples in order, in microbatches of this layout; the rest is padding."""
    longest = max(len(sample) for sample in samples)
    for start in range(0, longest, layout.width):
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
    """The examples a model may have in one microbatch, from the free memory of the device: a power of two."""
    example_bytes = _example_bytes(stack, inputs) * OVERHEAD * copies * stack.models
    limit = MEMORY_FRACTION * _free_bytes(stack.device)
    if stack.device.type == "cpu":
        limit = min(limit, CPU_LIMIT)
    return 1 << (max(1, int(limit / max(example_bytes, 1))).bit_length() - 1)


def _example_bytes(stack: Stack, inputs: Sequence[Tensor]) -> int:
    """The growth of what autograd saves from one synthetic example to three."""
    one, three = (_saved_bytes(stack, inputs, examples) for examples in (1, 3))
    return max((three - one) // 2, sum(_bytes(item[:1]) for item in inputs), 1)


def _saved_bytes(stack: Stack, inputs: Sequence[Tensor], examples: int) -> int:
    saved: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        saved[tensor.data_ptr()] = _bytes(tensor)
        return tensor

    count = examples * stack.models
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        draws = ExampleDraws(torch.arange(count, device=stack.device))
        _, tape = stack.forward(synthetic_inputs(inputs, count), count, draws)
    leaves = sum(edge.node.variable.numel() * 4 for edge in tape.edges if hasattr(edge.node, "variable"))
    return (sum(saved.values()) + leaves) // stack.models


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _free_bytes(device: Any) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
