"""A search of shared weights put on disk after an epoch, so that it goes on bit for bit after a crash.

One NumPy archive without pickled objects, written beside and renamed. It holds the noise generator's state and weights
that no one has paid to see: keep it as secret as the rows.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from privaware.errors import WrongInput
from privaware.noise import Rng

if TYPE_CHECKING:
    from privaware.strategies._controller import Reinforce
    from privaware.strategies._shared import Shared

__all__ = ["restore", "save"]


def save(path: str | Path, epoch: int, shared: Shared, learner: Reinforce, settings: Any) -> None:
    """What the search is after `epoch` epochs."""
    run = shared.run
    facts = {
        "epoch": epoch,
        "step": run.step,
        "baseline": learner.baseline,
        "rng": run.rng.state(),
        "settings": _digest(settings),
    }
    if not learner.update.state:
        _start_adam(learner)
    arrays = {name: value.detach().cpu().numpy() for name, value in _tensors(shared, learner)}
    place = Path(path)
    beside = place.with_name(place.name + ".part")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        np.savez(file, facts=np.array(json.dumps(facts)), **arrays)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, place)


def restore(path: str | Path, shared: Shared, learner: Reinforce, settings: Any) -> int:
    """Puts everything where the file says it was, and says after how many epochs; 0 without a file."""
    if not Path(path).exists():
        return 0
    with np.load(path, allow_pickle=False) as file:
        facts = json.loads(str(file["facts"]))
        if facts["settings"] != _digest(settings):
            raise WrongInput(
                f"expected the settings that {str(path)!r} was saved with, got others; give the same ones "
                "or another file"
            )
        _start_adam(learner)
        for name, value in _tensors(shared, learner):
            value.copy_(torch.from_numpy(file[name]))
    shared.run.step, learner.baseline = facts["step"], facts["baseline"]
    vars(shared.run.rng).update(vars(Rng.restore(facts["rng"])))
    return int(facts["epoch"])


def _tensors(shared: Shared, learner: Reinforce) -> list[tuple[str, Any]]:
    found = [("theta", shared.run.stack.theta), ("velocity", shared.run.state["velocity"])]
    for name, parameter in learner.controller.named_parameters():
        found.append((f"controller.{name}", parameter.data))
        for key, value in sorted(learner.update.state[parameter].items()):
            found.append((f"adam.{name}.{key}", value))
    return found


def _start_adam(learner: Reinforce) -> None:
    """Adam makes its state at the first step; here it is made before."""
    for parameter in learner.controller.parameters():
        empty = {key: torch.zeros_like(parameter.data) for key in ("exp_avg", "exp_avg_sq")}
        learner.update.state[parameter] = {"step": torch.zeros(()), **empty}


def _digest(settings: Any) -> str:
    return hashlib.sha256(repr(settings).encode()).hexdigest()
