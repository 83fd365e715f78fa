"""A run put on disk so that it goes on bit for bit after a crash.

One safetensors file: parameters, the update's state, averages and the generators' states, with the step and a
fingerprint of the settings as JSON in its header. It is written beside and renamed, so a crash leaves the old or the
new one. It holds the noise generator's state: keep it as secret as the rows.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from privaware.errors import WrongInput
from privaware.noise import Rng

if TYPE_CHECKING:
    from privaware.descent._run import Run

__all__ = ["Checkpoint"]


@dataclass(frozen=True)
class Checkpoint:
    """Where a run is saved, and after how many steps each time."""

    path: str | Path
    every: int = 100

    def __post_init__(self) -> None:
        if self.every < 1:
            raise WrongInput(f"Checkpoint: expected every >= 1, got {self.every!r}")

    def maybe(self, run: Run) -> None:
        """Saves when it is time, and at the end."""
        if run.step % self.every == 0 or run.step == run.descent.steps:
            self.save(run)

    def save(self, run: Run) -> None:
        from safetensors.torch import save

        facts = {"step": run.step, "settings": fingerprint(run), "rng": run.rng.state()}
        tensors = {name: value.detach().cpu().contiguous() for name, value in _parts(run).items()}
        tensors["torch"] = torch.get_rng_state()
        if run.stack.device.type == "cuda":
            tensors["torch.cuda"] = torch.cuda.get_rng_state(run.stack.device)
        path = Path(self.path)
        beside = path.with_name(path.name + ".part")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(save(tensors, metadata={"privaware": json.dumps(facts)}))
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)

    def load(self, run: Run) -> None:
        """Puts the run where the file says it was; a missing file is a run that has not begun."""
        from safetensors import safe_open

        if not Path(self.path).exists():
            return
        with safe_open(self.path, framework="pt") as file:  # type: ignore[no-untyped-call]
            facts = json.loads(file.metadata()["privaware"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if facts["settings"] != fingerprint(run):
            raise WrongInput(
                f"expected the settings that {self.path} was saved with, got others; "
                "give the same ones or another checkpoint"
            )
        run.step = facts["step"]
        for name, value in _parts(run).items():
            value.copy_(tensors[name])
        vars(run.rng).update(vars(Rng.restore(facts["rng"])))
        torch.set_rng_state(tensors["torch"])
        if "torch.cuda" in tensors and run.stack.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["torch.cuda"], run.stack.device)


def _parts(run: Run) -> dict[str, Tensor]:
    """The tensors a step changes."""
    parts = {"theta": run.stack.theta, "bounds": run.bounds}
    parts |= {f"update.{name}": value for name, value in run.state.items()}
    return parts | {f"average.{name}": value for name, value in run.averages.items()}


def fingerprint(run: Run) -> str:
    """A digest of everything public that the way depends on."""
    descent = run.descent
    fields = (descent.steps, descent.sampler, descent.clip, descent.update, descent.average)
    more = (descent.lr_schedule, descent.noise_schedule, descent.copies, descent.precision)
    facts: list[Any] = [repr(item) for item in (*fields, *more)]
    functions = (descent.loss, descent.augment)
    facts += [getattr(item, "__qualname__", repr(item)) for item in functions]
    facts += [run.noise, run.lr, run.norm, run.rows, repr(run.stack.slots), run.models]
    if run.mask is not None:
        facts += [hashlib.sha256(run.mask.cpu().numpy().tobytes()).hexdigest()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
