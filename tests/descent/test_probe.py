"""What the probe caches, and which random generators it seeds."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware.descent import cross_entropy
from privaware.descent._probe import needs_materialising
from privaware.errors import Refused
from tests.descent.small_training import examples, net


def test_probe_of_a_module_with_hooks_is_not_cached():
    module, case = nn.Linear(4, 3), (cross_entropy, [torch.rand(6, 4)], torch.zeros(6, dtype=torch.long), "cpu")
    mixing = []
    module.register_forward_hook(lambda _, inputs, outputs: outputs - outputs.mean(0) if mixing else None)
    needs_materialising(module, *case)
    mixing.append(True)
    with pytest.raises(Refused, match="not independent"):
        needs_materialising(module, *case)


def test_probe_on_the_cpu_seeds_no_other_device(monkeypatch):
    """Such a seed would stay after the probe, and would keep a text of the stack where CUDA is not started."""
    module, (x, y), seeded_devices = net(), examples(6), []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded_devices.append)
    monkeypatch.setattr(torch.cuda, "manual_seed", seeded_devices.append)
    assert not needs_materialising(module, cross_entropy, (x,), y, "cpu")
    assert seeded_devices == []
