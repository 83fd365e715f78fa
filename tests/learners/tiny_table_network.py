"""A table network of a few thousand random weights, for tests that ask for no accuracy."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import torch

from privaware.learners._table_network import TableNetwork
from research.pretraining.weights_files import save_table_network


@cache
def tiny_table_network() -> str:
    """The file of its weights."""
    torch.manual_seed(3)
    network = TableNetwork(width=8, blocks=1, heads=1)
    torch.nn.init.normal_(network.head.weight, std=0.05)
    file = Path(tempfile.mkdtemp()) / "tiny.safetensors"
    save_table_network(file, network, {})
    return str(file)
