"""Save the state of a training to disk, so that the training continues bit for bit after a crash.

A checkpoint is one safetensors file. Its tensors are the parameters, the clipping norms, the state of the update, the
averages, the state of the projection, the secret key of dropout and augmentation, and the states of torch's random
generators. Its header holds, as JSON, the step, the state of the `Rng` that draws samples and noise, a fingerprint of
the settings, a digest of the examples and the name of the run. A new file is written under a temporary name and
renamed, so a crash leaves either the old or the new checkpoint.

At the end of a run `keep_released` replaces the checkpoint by a file with the released parameters, the step, the
fingerprint and the name of the run. The name of the run must then identify the rows too. A training that loads it takes
no step.

Privacy: before `keep_released`, a checkpoint holds the state of the noise generator, so it must be kept as secret as
the rows. A checkpoint of other examples or of another run is refused, because it would repeat noise: the difference of
two models with the same noise reveals the examples in which their data differ.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from privaware._files import atomic_write
from privaware._validate import expect_count
from privaware.errors import WrongInput
from privaware.noise import Rng
from privaware.ranks import Ranks


@dataclass
class TrainingState:
    """The state that a step of training changes, and the two digests that a checkpoint must match.

    `theta` holds the parameters and `norms` the clipping norms. `rng` draws samples and noise, and `step` is the number
    of steps taken. `update`, `averages` and `projection` hold the tensors of these parts of the recipe. `draws` holds
    the secret key of dropout and augmentation, which no step changes.
    `fingerprint` is a digest of the public settings that the result depends on. `examples` is a digest of the examples.
    """

    theta: Tensor
    norms: Tensor
    rng: Rng
    fingerprint: str
    step: int = 0
    update: dict[str, Tensor] = field(default_factory=dict)
    averages: dict[str, Tensor] = field(default_factory=dict)
    projection: dict[str, Tensor] = field(default_factory=dict)
    draws: dict[str, Tensor] = field(default_factory=dict)
    examples: str = ""

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors by their names in a checkpoint."""
        tensors = {"theta": self.theta, "bounds": self.norms}
        tensors |= {f"update.{name}": value for name, value in self.update.items()}
        tensors |= {f"draws.{name}": value for name, value in self.draws.items()}
        tensors |= {f"projection.{name}": value for name, value in self.projection.items()}
        return tensors | {f"average.{name}": value for name, value in self.averages.items()}

    def share(self, ranks: Ranks) -> None:
        """Give every rank the state of rank 0, which may come from a checkpoint, but not its noise stream.

        Every rank has to call this. Step, tensors and the other streams are replaced in place.
        """
        tensors = {name: value.detach().cpu() for name, value in self.tensors().items()}
        facts = ranks.shared((self.step, tensors, self.rng.state_without_noise()) if ranks.leads else None)
        if not ranks.leads:
            self.step, tensors, streams = facts
            self.copy(tensors)
            vars(self.rng).update(vars(Rng.restore(streams)))
        if self.projection:
            share_generator(self.rng, self.theta.device, ranks)

    def copy(self, tensors: dict[str, Tensor]) -> None:
        """Copy `tensors`, which have their names in a checkpoint, into the tensors of this state, in place.

        Tensors of the update that this state does not have yet are added to it.
        """
        for name, tensor in tensors.items():  # an optimiser makes its state in its first step
            if name.startswith("update."):
                self.update.setdefault(name.removeprefix("update."), tensor)
        for name, value in self.tensors().items():
            value.copy_(tensors[name])


@dataclass(frozen=True)
class Checkpoint:
    """A file in which the state of a training is saved, and from which the training resumes.

    Parameters
    ----------
    path : str or Path
        The file.
    every : int
        Number of steps between two saves.
    run : str
        The run that the file belongs to, such as the hash of its entry in the ledger. A file of another run is refused.
    """

    path: str | Path
    every: int = 100
    run: str = ""

    def __post_init__(self) -> None:
        expect_count("Checkpoint", every=self.every)

    def is_due(self, step: int, steps: int) -> bool:
        """Return whether to save after `step` of `steps` steps were taken: every `every` steps, and after the last."""
        return step % self.every == 0 or step == steps

    def save(self, state: TrainingState) -> None:
        """Write `state` and the states of torch's generators to the file, readable by its owner only."""
        from safetensors.torch import save

        facts = {"step": state.step, "settings": state.fingerprint, "examples": state.examples, "run": self.run}
        facts |= {"rng": state.rng.state()}
        tensors = {name: value.detach().cpu().contiguous() for name, value in state.tensors().items()}
        tensors["torch"] = torch.get_rng_state()
        if state.theta.is_cuda:
            tensors["torch.cuda"] = torch.cuda.get_rng_state(state.theta.device)
        content = save(tensors, metadata={"privaware": json.dumps(facts)})
        atomic_write(self.path, content, mode=0o600)

    def saved_run(self) -> str | None:
        """Return the run that the file belongs to, or None if there is no file."""
        return str(self._read()[0].get("run")) if Path(self.path).exists() else None

    def is_released(self) -> bool:
        """Return whether the file, which has to exist, holds released parameters alone."""
        return bool(self._read()[0].get("released", False))

    def keep_released(self, steps: int) -> None:
        """Replace the file of a training that has taken its last of `steps` steps by one with what is released alone.

        Raise `WrongInput` if the file is missing, of another run, or of an earlier step.
        """
        from safetensors.torch import save

        facts, tensors = self._read() if Path(self.path).exists() else ({}, {})
        if (facts.get("run"), facts.get("step")) != (self.run, steps):
            raise WrongInput(
                f"expected the checkpoint of this run after its last step at {self.path}, got another file or none; "
                "let no other program write there, put the checkpoint back and repeat the call"
            )
        theta = tensors.get("average.average", tensors["theta"])
        kept = {name: facts[name] for name in ("step", "settings", "run")} | {"released": True}
        atomic_write(self.path, save({"theta": theta}, metadata={"privaware": json.dumps(kept)}), mode=0o600)

    def _read(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the facts in the header of the file, and its tensors by name; refuse a file of another kind."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="pt") as file:  # type: ignore[no-untyped-call]
                facts = json.loads((file.metadata() or {})["privaware"])
                return facts, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, KeyError, OSError):
            raise WrongInput(
                f"expected a checkpoint of privaware, got another file at {str(self.path)!r}; name another file"
            ) from None

    def load(self, state: TrainingState, steps: int) -> None:
        """Restore `state` and torch's random generators, in place, from the file; change nothing if there is no file.

        A file of `keep_released` has only the released parameters and the step, so random generators are not restored
        from it. Raise `WrongInput` if the file is of other settings or another run, or, before `keep_released`, of
        other examples. Also raise it if the file has released parameters of another step than the last one, `steps`:
        going on from them would draw noise that is not charged.
        """
        if not Path(self.path).exists():
            return
        facts, tensors = self._read()
        released = facts.get("released", False)
        if facts["settings"] != state.fingerprint:
            raise WrongInput(
                f"expected the settings that {self.path} was saved with, got others; "
                "give the same ones or another checkpoint"
            )
        if facts.get("run") != self.run or not (released or facts.get("examples") == state.examples):
            raise WrongInput(
                f"expected the checkpoint of this run on these rows, got one of other rows or of another run at "
                f"{self.path}; name another file, or remove it to start again"
            )
        if released and facts["step"] != steps:
            raise WrongInput(
                f"expected released parameters after {steps} steps at {self.path}, got those after {facts['step']}; "
                "name another file for a new run"
            )
        state.step = facts["step"]
        if released:
            for value in (state.theta, *state.averages.values()):
                value.copy_(tensors["theta"])
            return
        state.copy(tensors)
        vars(state.rng).update(vars(Rng.restore(facts["rng"])))
        torch.set_rng_state(tensors["torch"])
        if "torch.cuda" in tensors and state.theta.is_cuda:
            torch.cuda.set_rng_state(tensors["torch.cuda"], state.theta.device)


def share_generator(rng: Rng, device: torch.device, ranks: Ranks) -> None:
    """Give `rng`'s torch generator of initial values on `device` the state of rank 0; a projection draws from it."""
    generator = rng.torch("initial", str(device))
    state = ranks.shared(generator.get_state() if ranks.leads else None)
    if not ranks.leads:
        generator.set_state(state)
