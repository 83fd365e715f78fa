"""How many rows fit at once. Only speed and memory depend on it: the update is the same for any number."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from privaware.descent._probe import made_up

if TYPE_CHECKING:
    from privaware.descent._run import Run

__all__ = ["physical_rows"]

SHARE = 0.4
"""The part of the free memory that a batch may take."""

ENOUGH = 2**31
"""Bytes above which a larger batch on a CPU only leaves the caches, without saving calls that matter."""

TIMES = 3
"""What a row takes over what autograd saves for it: gradients, columns of convolutions, copies."""


def physical_rows(run: Run) -> int:
    """The rows a model may have in one physical batch, from the free memory of the device."""
    each = _row_bytes(run) * TIMES * run.descent.copies * run.models
    room = SHARE * _free(run.stack.device)
    if run.stack.device.type == "cpu":
        room = min(room, ENOUGH)
    return max(1, int(room / max(each, 1)))


def _row_bytes(run: Run) -> int:
    """The growth of what autograd saves from one row to three, on made-up rows."""
    one, three = (_saved_bytes(run, rows) for rows in (1, 3))
    return max((three - one) // 2, sum(_bytes(item[:1]) for item in run.inputs), 1)


def _saved_bytes(run: Run, rows: int) -> int:
    seen: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        seen[tensor.data_ptr()] = _bytes(tensor)
        return tensor

    stack = run.stack
    many = rows * stack.models
    inputs = tuple(made_up(item, at, many) for at, item in enumerate(run.inputs))
    with (
        torch.random.fork_rng(devices=[stack.device] if stack.device.type == "cuda" else []),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
    ):
        _, tape = stack.forward(inputs, many)
    general = sum(edge.node.variable.numel() * 4 for edge in tape.edges if hasattr(edge.node, "variable"))
    return (sum(seen.values()) + general) // stack.models


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _free(device: Any) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
