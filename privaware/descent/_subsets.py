"""Train models of a population on different subsets of the examples, such as the shadow models of an attack.

`settings_digest` identifies the public settings of a training, so that a checkpoint is used with these settings only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privaware.descent._code_facts import code_facts
from privaware.descent._population import Population
from privaware.descent._recipe import DescentRecipe
from privaware.descent._stack import Stack
from privaware.errors import WrongInput
from privaware.noise import Rng


def settings_digest(
    recipe: DescentRecipe, population: Population, stack: Stack, rows: int, mask: Tensor | None, subsets: Subsets | None
) -> str:
    """Return a SHA-256 digest, as a hexadecimal text, of the public settings that the result of a training depends on.

    The digest covers the following facts:

    1. All fields of `recipe` except `microbatch`, which changes results by rounding only.
    2. The noise multipliers, learning rates and clipping norms of `population`, and `rows`, the declared number of
       rows.
    3. From `stack`: the names and shapes of trainable parameters, the number of models, whether examples have random
       draws (dropout or augmentation), and the fingerprint of the projection.
    4. `mask` (models, trainable parameters), which is 0 for parameters that a model does not train; None if each model
       trains all parameters.
    5. `subsets`, the positions of the examples of each model; None if each model has all examples.

    The device, the values of parameters and the examples are not covered.
    """
    fields = (recipe.steps, recipe.sampler, recipe.clip, recipe.update, recipe.average)
    more = (recipe.lr_schedule, recipe.noise_schedule, recipe.copies, recipe.precision, recipe.overflow)
    facts: list[Any] = ["exact sums", *(repr(item) for item in (*fields, *more))]
    functions = (recipe.loss, recipe.augment)
    facts += [code_facts(item) for item in functions]
    facts += [population.noise, population.lr, population.norm, rows, repr(stack.segments), stack.models]
    if stack.key is not None:
        facts += ["keyed draws"]
    if mask is not None:
        facts += [hashlib.sha256(mask.cpu().numpy().tobytes()).hexdigest()]
    if subsets is not None:
        facts += [subsets.digest()]
    if stack.projection is not None:
        facts += [stack.projection.fingerprint]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Subsets:
    """The examples that each model is trained on.

    Row m of `positions` (models, size of the largest subset) starts with the positions of the examples of model m, and
    `sizes[m]` is their number. The entries after them are padding.
    """

    positions: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, subsets: Sequence[Any], examples: int) -> Subsets | None:
        """Return the subsets of the members of a population, or None if every model is trained on all examples.

        A subset that is None means all examples. Raise `WrongInput` unless positions are distinct and exist.

        >>> Subsets.of([np.array([0, 2]), None], examples=3).positions.tolist()
        [[0, 2, 0], [0, 1, 2]]
        """
        if all(subset is None for subset in subsets):
            return None
        every = np.arange(examples)
        chosen = [every if subset is None else np.asarray(subset, dtype=np.int64) for subset in subsets]
        if any(len(set(subset.tolist())) < len(subset) or not np.isin(subset, every).all() for subset in chosen):
            raise WrongInput(f"expected subsets as distinct positions of {examples} examples, got others")
        sizes = np.array([len(subset) for subset in chosen])
        positions = np.zeros((len(chosen), max(1, int(sizes.max()))), dtype=np.int64)
        for row, subset in zip(positions, chosen, strict=True):
            row[: len(subset)] = subset
        return cls(positions, sizes)

    @property
    def longest(self) -> int:
        return int(self.sizes.max())

    def shuffle(self, rng: Rng) -> None:
        """Put the positions of each subset into random order, in place, for full batches."""
        for row, size in zip(self.positions, self.sizes, strict=True):
            rng.shuffle(row[:size])

    def within(self, index: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Turn indices into the models' subsets into positions among all examples; return positions and a mask.

        `index` (models, width) counts from 0 within the subset of each model, and `valid` of the same shape is nonzero
        for indices that count. Both results are (models, width). The mask is True where `valid` is nonzero and the
        index is below the size of the model's subset. Where the mask is False, the position is padding.
        """
        own = (valid != 0) & (index < self.sizes[:, None])
        return np.take_along_axis(self.positions, np.where(own, index, 0), 1), own

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return positions (models, largest size) and sizes (models, 1) as tensors on `device`."""
        return torch.from_numpy(self.positions).to(device), torch.from_numpy(self.sizes[:, None]).to(device)

    def digest(self) -> str:
        return hashlib.sha256(self.positions.tobytes() + self.sizes.tobytes()).hexdigest()
