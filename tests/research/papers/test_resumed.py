"""An interrupted training goes on from its checkpoint, and a finished one leaves none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from research.papers import _resumed
from research.papers._runner import Bench


class Counting:
    """Fails once at a step; its state is the sum of the progress so far."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.step_number, self.total, self.fails_at = 0, torch.zeros(()), fails_at

    def step(self, progress: float) -> torch.Tensor:
        if self.step_number == self.fails_at:
            raise KeyboardInterrupt
        self.step_number += 1
        self.total = self.total + progress
        return self.total

    def state(self) -> dict[str, Any]:
        return {"step": self.step_number, "total": self.total}

    def load(self, state: dict[str, Any]) -> None:
        self.step_number, self.total = state["step"], state["total"]


def test_interrupted_training_is_resumed_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_resumed, "OFTEN", 4)
    file, bench = tmp_path / "weights.safetensors", Bench("ours")
    with pytest.raises(KeyboardInterrupt):
        _resumed.train_resumed(Counting(fails_at=10), 16, file, bench)
    assert [path.name for path in tmp_path.iterdir()] == ["weights-state.pt"]
    resumed = Counting()
    loss = _resumed.train_resumed(resumed, 16, file, bench)
    assert loss == pytest.approx(sum(step / 16 for step in range(16)))
    assert not list(tmp_path.iterdir())
