"""Training on disk, so that it continues bit for bit after a crash.

One safetensors file: parameters, the update's state, averages and the generators' states, with the step and a
fingerprint of the settings as JSON in its header. It is written beside and renamed, so a crash leaves the old or the
new one. It holds the noise generator's state: keep it as secret as the rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from privaware._files import atomic_write
from privaware._validate import expect_count
from privaware.errors import WrongInput
from privaware.noise import Rng

__all__ = ["Checkpoint", "TrainingState"]


@dataclass
class TrainingState:
    """What a step changes: the parameters `theta`, clipping norms, and the state of update, averages and projection.

    `fingerprint` is a digest of the public settings that the result depends on.
    """

    theta: Tensor
    norms: Tensor
    rng: Rng
    fingerprint: str
    step: int = 0
    update: dict[str, Tensor] = field(default_factory=dict)
    averages: dict[str, Tensor] = field(default_factory=dict)
    projection: dict[str, Tensor] = field(default_factory=dict)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by their names in a checkpoint."""
        tensors = {"theta": self.theta, "bounds": self.norms}
        tensors |= {f"update.{name}": value for name, value in self.update.items()}
        tensors |= {f"projection.{name}": value for name, value in self.projection.items()}
        return tensors | {f"average.{name}": value for name, value in self.averages.items()}


@dataclass(frozen=True)
class Checkpoint:
    """Where a state is saved, and after how many steps each time."""

    path: str | Path
    every: int = 100

    def __post_init__(self) -> None:
        expect_count("Checkpoint", every=self.every)

    def is_due(self, step: int, steps: int) -> bool:
        """Every so many steps, and at the end."""
        return step % self.every == 0 or step == steps

    def save(self, state: TrainingState) -> None:
        from safetensors.torch import save

        facts = {"step": state.step, "settings": state.fingerprint, "rng": state.rng.state()}
        tensors = {name: value.detach().cpu().contiguous() for name, value in state.tensors().items()}
        tensors["torch"] = torch.get_rng_state()
        if state.theta.is_cuda:
            tensors["torch.cuda"] = torch.cuda.get_rng_state(state.theta.device)
        content = save(tensors, metadata={"privaware": json.dumps(facts)})
        atomic_write(self.path, content, mode=0o600)

    def load(self, state: TrainingState) -> None:
        """Restores the state; without a file it stays as it is."""
        from safetensors import safe_open

        if not Path(self.path).exists():
            return
        with safe_open(self.path, framework="pt") as file:  # type: ignore[no-untyped-call]
            facts = json.loads(file.metadata()["privaware"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if facts["settings"] != state.fingerprint:
            raise WrongInput(
                f"expected the settings that {self.path} was saved with, got others; "
                "give the same ones or another checkpoint"
            )
        state.step = facts["step"]
        for name, value in state.tensors().items():
            value.copy_(tensors[name])
        vars(state.rng).update(vars(Rng.restore(facts["rng"])))
        torch.set_rng_state(tensors["torch"])
        if "torch.cuda" in tensors and state.theta.is_cuda:
            torch.cuda.set_rng_state(tensors["torch.cuda"], state.theta.device)
