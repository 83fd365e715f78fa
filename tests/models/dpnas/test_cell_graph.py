"""The cell of DPNAS: operations, edges and nodes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from privaware.models import build, count
from privaware.models.dpnas import OPERATIONS


def network(cell: list[Any], **more: Any) -> nn.Module:
    fields = {"inputs": [1, 8, 8], "outputs": 3, "channels": [8], "squeeze": 8, "hidden": 4}
    return build({"name": "dpnas", **fields, "cell": cell, **more}, torch.Generator().manual_seed(4))


def test_zero_on_every_edge_gives_a_constant_output() -> None:
    outputs = network(["zero"] * 15)(torch.randn(5, 1, 8, 8))
    assert torch.equal(outputs, outputs[:1].expand_as(outputs))


def test_identity_on_every_edge_doubles_from_node_to_node() -> None:
    cell = network(["identity"] * 15).stages[0]
    x = torch.randn(2, 8, 8, 8)
    entry = cell.entry(x)
    expected = torch.cat([times * entry for times in (1, 2, 4, 8, 16)], dim=1)
    torch.testing.assert_close(cell(x), expected)


def test_edges_are_ordered_by_end_node() -> None:
    ops = ["tanh", "zero", "identity", "max_pool", "zero", "zero"]
    cell = network(ops).stages[0]
    assert sorted(cell.edges) == ["edge_0_1", "edge_0_3", "edge_1_2"]
    x = torch.randn(2, 8, 8, 8)
    entry = cell.entry(x)
    first = cell.edges["edge_0_1"](entry)
    third = nn.functional.max_pool2d(entry, 3, 1, 1)
    torch.testing.assert_close(cell(x), torch.cat([first, first, third], dim=1))


@pytest.mark.parametrize("op", OPERATIONS)
def test_only_convolutions_have_parameters_and_are_depthwise(op: str) -> None:
    fields = {"name": "dpnas", "inputs": [1, 28, 28], "outputs": 10}
    none, one = ["zero"] * 15, [op, *["zero"] * 14]
    extra = count({**fields, "cell": one}) - count({**fields, "cell": none})
    assert extra == (9 * (32 + 32 + 64) if OPERATIONS.index(op) >= 4 else 0)


def test_cell_by_number_equals_cell_by_name() -> None:
    numbers = [5, 1, 5, 6, 1, 0, 5, 0, 0, 3, 5, 5, 6, 1, 6]
    rows = torch.randn(2, 1, 8, 8)
    by_name = network([OPERATIONS[number] for number in numbers])
    torch.testing.assert_close(network(numbers)(rows), by_name(rows))
