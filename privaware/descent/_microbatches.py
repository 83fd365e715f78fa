"""Microbatches: how many examples fit at once, and how samples are cut into them.

Only speed and memory depend on it: the update is the same for any size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privaware.descent._stack import Stack
from privaware.descent._synthetic import synthetic_inputs

__all__ = ["MULTIPLE", "Selection", "microbatch_size", "microbatches"]

MULTIPLE = 16
"""Microbatches are padded to a multiple of this, so that kernels meet few different shapes."""

MEMORY_FRACTION = 0.4
"""The part of the free memory that a microbatch may take."""

CPU_LIMIT = 2**31
"""Bytes above which a larger microbatch on a CPU only leaves the caches, without saving calls that matter."""

OVERHEAD = 3
"""What an example takes over what autograd saves for it: gradients, columns of convolutions, copies."""


@dataclass(frozen=True)
class Selection:
    """Model-major indices of examples (or one slice of them), and which of them are valid, if not all."""

    index: Tensor | slice
    valid: Tensor | None


def microbatches(samples: Sequence[np.ndarray], size: int, stack: Stack) -> Iterator[Selection]:
    """The models' samples in microbatches of at most `size`; models with fewer examples are padded."""
    longest = max(len(sample) for sample in samples)
    for start in range(0, longest, size):
        parts = [sample[start : start + size] for sample in samples]
        width = max(len(part) for part in parts)
        if len(parts) == 1 and width and parts[0][-1] - parts[0][0] + 1 == width:
            yield Selection(slice(int(parts[0][0]), int(parts[0][-1]) + 1), None)
            continue
        width = min(size, -(-width // MULTIPLE) * MULTIPLE)
        index = np.zeros((len(parts), width), dtype=np.int64)
        valid = np.zeros((len(parts), width), dtype=np.float32)
        for at, part in enumerate(parts):
            index[at, : len(part)] = part
            valid[at, : len(part)] = 1
        yield Selection(
            torch.from_numpy(index.reshape(-1)).to(stack.device),
            None if valid.all() else torch.from_numpy(valid.reshape(-1)).to(stack.device, stack.dtype),
        )


def microbatch_size(stack: Stack, inputs: Sequence[Tensor], copies: int) -> int:
    """The examples a model may have in one microbatch, from the free memory of the device."""
    example_bytes = _example_bytes(stack, inputs) * OVERHEAD * copies * stack.models
    limit = MEMORY_FRACTION * _free_bytes(stack.device)
    if stack.device.type == "cpu":
        limit = min(limit, CPU_LIMIT)
    return max(1, int(limit / max(example_bytes, 1)))


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
    with (
        torch.random.fork_rng(devices=[stack.device] if stack.device.type == "cuda" else []),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
    ):
        _, tape = stack.forward(synthetic_inputs(inputs, count), count)
    leaves = sum(edge.node.variable.numel() * 4 for edge in tape.edges if hasattr(edge.node, "variable"))
    return (sum(saved.values()) + leaves) // stack.models


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _free_bytes(device: Any) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
