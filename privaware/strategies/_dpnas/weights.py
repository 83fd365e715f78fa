"""The shared weights of DPNAS: private steps on one sampled cell at a time, noisy scores of cells, and checkpoints.

A step is a step of `privaware.descent`: a Poisson sample, clipped per-example gradients of the sampled cell, and one
noisy sum over all shared parameters. The sum is exactly zero for parameters outside the cell. Their noise is discarded,
so neither these parameters nor their velocities change.

A search resumes from a checkpoint bit for bit. The file is a NumPy archive without pickled objects, replaced
atomically. It holds the state of the noise generator and weights that were never released, so it must be kept as secret
as the rows.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from privaware._files import atomic_file
from privaware.data import Data
from privaware.descent import Descent, Member
from privaware.descent._layer_checks import check_layers
from privaware.descent._layers.rules import stacked
from privaware.descent._precision import matmul_precision
from privaware.descent._probe import needs_materialising
from privaware.descent._training import Prepared, Training, on_device
from privaware.errors import Refused, WrongInput
from privaware.features.standardise import Standardise
from privaware.learners._fixed_features import outputs_in_one_shape
from privaware.models._dpnas.supernet import Supernet
from privaware.models.dpnas import OPERATIONS
from privaware.noise import Rng
from privaware.strategies._dpnas.cells import Cell

if TYPE_CHECKING:
    from privaware.strategies._dpnas.controller import Reinforce


@dataclass(frozen=True)
class _CellMomentum:
    """Gradient descent with momentum on the parameters of the sampled cell only.

    These are the parameters for which the tensor `active` in the state is 1; no other parameter or velocity changes.
    `lr` is the learning rate, `beta` the momentum coefficient, and `decay` the weight decay.
    """

    lr: float
    beta: float
    decay: float

    def initial_state(self, theta: Tensor) -> dict[str, Tensor]:
        return {"velocity": torch.zeros_like(theta), "active": torch.ones_like(theta)}

    def apply(self, theta: Tensor, gradient: Tensor, state: dict[str, Tensor], lr: Any, deviation: Any) -> None:
        velocity, active = state["velocity"], state["active"]
        change = gradient.add(theta, alpha=self.decay).sub_(velocity, alpha=1 - self.beta)
        velocity.add_(change.mul_(active))
        theta.sub_(velocity * active, alpha=lr)


def _prepare(supernet: Any, loss: Any, inputs: Tensor, targets: Tensor, device: str) -> Prepared:
    """Return the supernet and the training rows `inputs` and `targets`, ready for private training on `device`.

    Raise `Refused` if a layer has no rule for per-example gradients of `loss`. The check uses one cell with a mix of
    operations, because a check with all operations takes minutes.
    """
    check_layers(supernet)
    prepared = on_device(stacked([supernet], device=device), inputs, targets)
    many = len(supernet.cells[0].edges)
    kinds = tuple(OPERATIONS[1 + at % (len(OPERATIONS) - 1)] for at in range(many))
    network = supernet.network(kinds)
    if needs_materialising(network, loss, prepared.inputs, prepared.targets, prepared.stack.device):
        raise Refused("dpnas: expected only layers with a per-example gradient rule in the shared network, got others")
    prepared.stack.module.cell = ("selu",) * many  # type: ignore[assignment]  # the largest, for the memory
    return prepared


class SharedWeights:
    """A supernet and its private training: `step` changes the weights of one cell.

    `descent` has the settings of a step, `inputs` and `targets` are the training rows, `noise` is the noise multiplier
    of a step, and `rows` the declared number of training rows. `rng` draws samples and noise. The parameters of
    `supernet` change in place.
    """

    update = _CellMomentum

    def __init__(
        self,
        supernet: Supernet,
        descent: Descent,
        inputs: Tensor,
        targets: Tensor,
        *,
        noise: float,
        rows: int,
        rng: Rng,
        device: str,
    ) -> None:
        prepared = _prepare(supernet, descent.loss, inputs, targets, device)
        self.training = Training(descent, [Member(supernet, noise)], prepared, rows=rows, rng=rng)
        self.supernet = supernet
        stack = self.training.stack
        for name, parameter in supernet.named_parameters():
            parameter.requires_grad_(False)
            parameter.data = stack.tensors[name][0]  # shares memory with the stack, so it sees every step
        edges = supernet.parameter_edges()
        number = {segment.name: _number(edges[segment.name]) for segment in stack.segments}
        sizes = [segment.stop - segment.start for segment in stack.segments]
        owners = np.repeat(list(number.values()), sizes)
        self.owners = torch.from_numpy(owners).to(stack.device)
        self.kinds = 1 + max(number.values())

    def step(self, cell: Cell) -> None:
        """Take one private step on the weights of the operations in `cell`, and on those that all cells use."""
        inside = np.zeros(self.kinds, dtype=np.float32)
        inside[0] = 1
        for at, op in enumerate(cell):
            if (number := _number((at, op))) < self.kinds:  # the last edge need not have weights
                inside[number] = 1
        active = torch.from_numpy(inside).to(self.owners.device)[self.owners]
        self.training.state.update["active"].copy_(active[None])
        self.training.stack.module.cell = cell  # type: ignore[assignment]
        with matmul_precision(self.training.recipe.precision):
            self.training.one_step()

    @torch.no_grad()
    def count_correct(self, cells: list[Cell], inputs: Tensor, targets: Tensor, declared: int) -> np.ndarray:
        """Return, for each of `cells`, the number of rows that it predicts correctly with the current shared weights.

        `inputs` and `targets` are as `tensors_of` returns them, and `declared` is the declared number of rows. The
        prediction of a row depends on no other row: each cell is applied in microbatches of one shape, which depends on
        no private value. The attribute `supernet.cell` changes.
        """
        images, classes, device = inputs.cpu().numpy(), targets.cpu().numpy(), self.owners.device

        def outputs(rows: np.ndarray) -> np.ndarray:
            return np.asarray(self.supernet(torch.from_numpy(rows).to(device)).cpu().numpy())

        def synthetic(size: int) -> np.ndarray:
            return np.random.default_rng(0).standard_normal((size, *images.shape[1:]), dtype=np.float32)

        counts = np.zeros(len(cells))
        with matmul_precision(self.training.recipe.precision):
            for at, cell in enumerate(cells):
                self.supernet.cell = cell
                logits = outputs_in_one_shape(outputs, images, synthetic, declared)
                counts[at] = (logits.argmax(axis=1) == classes).sum()
        return counts


class CellScorer:
    """Computes noisy held-out accuracies of cells; nothing else is computed from the validation rows.

    A call with m `cells` returns an array of m scores, in the same order. Each validation row is sampled with
    probability `rate`, once for all cells. A score is the noisy number of sampled rows that are predicted correctly,
    divided by `rate` times the declared number of validation rows.

    Privacy: one row adds at most 1 to each of the m counts and changes the prediction of no other row, so the L2
    sensitivity of their joint release is `sqrt(m)`. Each count gets Gaussian noise of standard deviation
    `noise * sqrt(m)`. `noise = 0`, for public rows only, adds none.
    """

    def __init__(self, weights: SharedWeights, validation: Data, noise: float, rng: Rng) -> None:
        self.weights, self.noise, self.rng = weights, noise, rng
        self.inputs, self.targets = tensors_of(validation, str(weights.owners.device))
        self.rows = validation.schema.rows

    def __call__(self, cells: list[Cell], rate: float = 1.0) -> np.ndarray:
        mask = self.rng.poisson(len(self.targets), rate)
        inputs, targets = self.inputs, self.targets
        if rate < 1:
            at = torch.from_numpy(np.flatnonzero(mask)).to(targets.device)
            inputs, targets = inputs[at], targets[at]
        counts = self.weights.count_correct(cells, inputs, targets, self.rows)
        if self.noise:
            sensitivity = float(np.sqrt(len(cells)))
            counts = self.rng.gaussian(counts, noise=self.noise, sensitivity=sensitivity)
        return np.asarray(counts / (rate * self.rows))


def tensors_of(data: Data, device: str) -> tuple[Tensor, Tensor]:
    """Return (inputs, targets) on `device`: images as `(pixels - 0.5) / 0.25` in float32, and class indices."""
    channels = data.schema.shape[0]
    scaled = Standardise(mean=(0.5,) * channels, deviation=(0.25,) * channels)(data.x)
    return torch.from_numpy(scaled).to(device), torch.from_numpy(data.y).to(device)


def _number(edge: tuple[int, str] | None) -> int:
    """Return a number from 1 for an edge (its index, the name of its operation), or 0 if `edge` is None.

    None stands for parameters that every cell uses. The number is `1 + index * len(OPERATIONS) +
    OPERATIONS.index(name)`.
    """
    return 0 if edge is None else 1 + edge[0] * len(OPERATIONS) + OPERATIONS.index(edge[1])


def save(path: str | Path, epoch: int, weights: SharedWeights, reinforce: Reinforce, settings: Any) -> None:
    """Write the state of the search after `epoch` epochs, and a hash of `settings`, to the file `path`.

    The state is the shared weights with their velocities, the controller of `reinforce` with its optimiser and
    baseline, and the state of the `Rng`. The file holds unreleased values, so only its owner can read it.
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
    """Restore `weights` and `reinforce` in place from the file `path`, and return the number of finished epochs.

    Return 0 and change nothing if there is no file.

    Raise `WrongInput` if the file was saved with other settings or by another run.
    """
    if not Path(path).exists():
        return 0
    with np.load(path, allow_pickle=False) as file:
        facts = json.loads(str(file["facts"]))
        if facts["settings"] != _digest(path, settings):
            raise WrongInput(
                f"expected the settings with which {str(path)!r} was saved, got others or a file of another run; give "
                "the same settings or another file"
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
    """Set the state of Adam in `reinforce` to zeros; without this it exists only after the first step."""
    for parameter in reinforce.controller.parameters():
        moments = {key: torch.zeros_like(parameter.data) for key in ("exp_avg", "exp_avg_sq")}
        reinforce.optimizer.state[parameter] = {"step": torch.zeros(()), **moments}


def _digest(path: str | Path, settings: Any) -> str:
    """Return a hash of `settings` and of the name of the folder of `path`; a run names this folder after its charge."""
    return hashlib.sha256(repr((Path(path).parent.name, settings)).encode()).hexdigest()
