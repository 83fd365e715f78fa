"""A checkpoint of a DPNAS search after an epoch, from which it resumes bit for bit after a crash.

The file is a NumPy archive without pickled objects, replaced atomically. It holds the state of the noise generator and
weights that were never released, so it must be kept as secret as the rows.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from privaware._files import atomic_file
from privaware.errors import WrongInput
from privaware.noise import Rng

if TYPE_CHECKING:
    from privaware.strategies._dpnas.controller import Reinforce
    from privaware.strategies._dpnas.weights import SharedWeights

__all__ = ["restore", "save"]


def save(path: str | Path, epoch: int, weights: SharedWeights, reinforce: Reinforce, settings: Any) -> None:
    """Write the state of the search after `epoch` epochs, and a hash of `settings`.

    The state is the shared weights, the controller with its optimiser, and the generator.
    """
    training = weights.training
    facts = {
        "epoch": epoch,
        "step": training.step,
        "baseline": reinforce.baseline,
        "rng": training.rng.state(),
        "settings": _digest(path, settings),
    }
    if not reinforce.optimizer.state:
        _initialise_adam(reinforce)
    arrays = {name: value.detach().cpu().numpy() for name, value in _tensors(weights, reinforce)}
    with atomic_file(path, mode=0o600) as file:
        np.savez(file, facts=np.array(json.dumps(facts)), **arrays)  # type: ignore[arg-type]


def restore(path: str | Path, weights: SharedWeights, reinforce: Reinforce, settings: Any) -> int:
    """Restore `weights` and `reinforce` in place, and return the epochs after which they were saved; 0 without a file.

    Raise `WrongInput` if the file was saved with other settings or by another run.
    """
    if not Path(path).exists():
        return 0
    with np.load(path, allow_pickle=False) as file:
        facts = json.loads(str(file["facts"]))
        if facts["settings"] != _digest(path, settings):
            raise WrongInput(
                f"expected the settings that {str(path)!r} was saved with, got others or a file of another run; give "
                "the same ones or another file"
            )
        _initialise_adam(reinforce)
        for name, value in _tensors(weights, reinforce):
            value.copy_(torch.from_numpy(file[name]))
    weights.training.state.step, reinforce.baseline = facts["step"], facts["baseline"]
    vars(weights.training.rng).update(vars(Rng.restore(facts["rng"])))
    return int(facts["epoch"])


def _tensors(weights: SharedWeights, reinforce: Reinforce) -> list[tuple[str, Any]]:
    tensors = [("theta", weights.training.state.theta), ("velocity", weights.training.state.update["velocity"])]
    for name, parameter in reinforce.controller.named_parameters():
        tensors.append((f"controller.{name}", parameter.data))
        for key, value in sorted(reinforce.optimizer.state[parameter].items()):
            tensors.append((f"adam.{name}.{key}", value))
    return tensors


def _initialise_adam(reinforce: Reinforce) -> None:
    """Create the state of Adam, which otherwise exists only after its first step."""
    for parameter in reinforce.controller.parameters():
        moments = {key: torch.zeros_like(parameter.data) for key in ("exp_avg", "exp_avg_sq")}
        reinforce.optimizer.state[parameter] = {"step": torch.zeros(()), **moments}


def _digest(path: str | Path, settings: Any) -> str:
    """Return a hash of the settings and of the name of the file's folder, which is the name of the run's charge."""
    return hashlib.sha256(repr((Path(path).parent.name, settings)).encode()).hexdigest()
