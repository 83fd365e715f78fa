"""Base class of learners that train a network without noise, on targets that were made private before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from privaware import features, models
from privaware._validate import expect, expect_between, expect_count, expect_in, expect_nonnegative
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.learners import Learner
from privaware.learners._fixed_features import row_features
from privaware.learners._networks.architecture import architecture, expect_tables, network_feature
from privaware.learners._networks.augmentation import mirrored, shifted, shifted_mirrored
from privaware.learners._networks.journal import ReleaseJournal, row_digest
from privaware.learners._networks.plain_descent import LR, PlainDescent, Progress
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema


@dataclass(frozen=True, kw_only=True)
class PlainNetwork(Learner):
    """A network trained without noise on targets that were made private before.

    Parameters
    ----------
    architecture, features
        A description of the network (its inputs and outputs may be left out), and a list of descriptions of
        `privaware.features` that are applied to a row first. By default both are chosen from the schema.
    steps : int, optional
        Number of batches; by default `epochs * rows / batch`, rounded up.
    epochs : float
        Number of passes over the rows if `steps` is not given.
    batch : int
        Batch size; the number of rows if there are fewer.
    lr : float, optional
        Initial learning rate of a cosine schedule; by default 0.05.
    momentum : float
        Momentum coefficient.
    decay : float
        Weight decay.
    mixup : float
        Parameter of the Beta distribution that mixes pairs of examples; 0 for no mixing.
    shift : bool
        Whether each image is shifted at random in every step, along a side by at most `max(1, side // 8)` pixels.
    mirror : bool
        Whether every second image of a batch is mirrored left to right.
    device, progress, journal
        The device, a progress callback (`Progress`) and a folder of intermediate releases from which an interrupted run
        resumes. They do not change the released model.
    """

    architecture: dict[str, Any] | None = None
    features: list[dict[str, Any]] | None = None
    steps: int | None = None
    epochs: float = 30.0
    batch: int = 256
    lr: float | None = None
    momentum: float = 0.9
    decay: float = 1e-4
    mixup: float = 0.0
    shift: bool = False
    mirror: bool = False
    device: str = field(default="cpu", repr=False, compare=False)
    progress: Progress | None = field(default=None, repr=False, compare=False)
    journal: Path | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        name = self._name
        table = self.architecture is None or isinstance(self.architecture, dict)
        expect(table, name, "architecture as a table", self.architecture)
        expect_tables(name, features=self.features)
        expect_count(name, batch=self.batch)
        expect_count(name, optional=True, steps=self.steps)
        expect_between(name, 1e-9, 1e6, epochs=self.epochs)
        expect_between(name, 1e-9, 1e6, optional=True, lr=self.lr)
        expect_in(name, "[0, 1)", momentum=self.momentum, decay=self.decay)
        expect_nonnegative(name, mixup=self.mixup)

    @property
    def _name(self) -> str:
        """The learner's name in messages, which is the name of its module."""
        return type(self).__module__.rsplit(".", 1)[-1]

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        return self.run_population([self], data, noise, rng)[0]

    @staticmethod
    def run_population(
        learners: Sequence[PlainNetwork], data: Data, noise: float | Sequence[float], rng: Rng
    ) -> list[Model]:
        """Train `learners` on the same rows and return their models in the same order.

        Learners of equal settings are trained together. `noise` is one noise multiplier for all learners, or one for
        each. Each model is a separate release, with its own noise. If there are several learners, their setting
        `journal` is ignored.
        """
        noises = [float(value) for value in (noise if isinstance(noise, Sequence) else [noise] * len(learners))]
        trained: dict[int, Model] = {}
        if len(learners) > 1:
            learners = [replace(learner, journal=None) for learner in learners]  # a journal belongs to one release
        for first in learners:
            group = [at for at, learner in enumerate(learners) if at not in trained and learner == first]
            if group:
                trained |= dict(zip(group, first._run_all(data, [noises[at] for at in group], rng), strict=True))
        return [trained[at] for at in range(len(learners))]

    def _run_all(self, data: Data, noises: Sequence[float], rng: Rng) -> list[Model]:
        """Return one model for each noise multiplier in `noises`, in their order. Subclasses implement this."""
        raise TypeError(f"{type(self).__name__} has no training of its own")

    def _chain(self, schema: Schema) -> tuple[Any, ...]:
        if self.features is None:
            return (network_feature(schema),)
        return tuple(features.build(description) for description in self.features)

    def _architecture(self, schema: Schema) -> dict[str, Any]:
        """Return the description of the network; raise `WrongInput` if it does not fit `schema`.

        `WrongInput` is also raised for `shift` or `mirror` unless the rows are images without `features`.
        """
        if (self.shift or self.mirror) and (schema.form != "image" or self.features is not None):
            raise WrongInput(
                f"{self._name}: expected neither shift nor mirror, which are for images without features, got "
                f"{'features' if schema.form == 'image' else f'a {schema.form}'}; leave shift and mirror out"
            )
        return architecture(self.architecture, schema, self._chain(schema))

    def _rows(self, data: Data) -> np.ndarray:
        """Return the rows of `data` after the features, as one contiguous array (rows, ...).

        Entries that are not finite become 0.
        """
        rows = np.ascontiguousarray(row_features(self._chain(data.schema), data, self.device))
        return np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)

    def _journal(self, schema: Schema, noise: float) -> ReleaseJournal:
        """Return the journal of a run with noise multiplier `noise`, in which intermediate releases are saved.

        Its settings are this learner, `noise`, the schema and, if there are public rows, their digest.
        """
        public: Data | None = getattr(self, "public", None)
        rows = () if public is None or self.journal is None else (row_digest(public.x),)
        return ReleaseJournal(self.journal, (self, noise, schema.json(), *rows))

    def _descent(self, rows: float) -> PlainDescent:
        """Return the settings of a training on `rows` rows, a public number; with 0 rows it has no steps."""
        batch = max(1, min(self.batch, math.ceil(rows)))
        steps = math.ceil(self.epochs * rows / batch) if self.steps is None or not rows else self.steps
        augment = {(True, False): shifted, (False, True): mirrored, (True, True): shifted_mirrored}
        return PlainDescent(
            steps=steps,
            batch=batch,
            lr=LR if self.lr is None else self.lr,
            momentum=self.momentum,
            decay=self.decay,
            mixup=self.mixup,
            augment=augment.get((self.shift, self.mirror)),
            device=self.device,
            progress=self.progress,
        )

    def _learned(self, schema: Schema, rows: np.ndarray, labels: np.ndarray, rng: Rng) -> Model:
        """Return the model of one network, trained without noise.

        `rows` (rows, ...) are the rows after the features, and `labels` (rows,) their class codes.
        """
        module = self._descent(len(rows)).run(self._modules(schema, 1, rng)[0], rows, labels, rng)
        return self._model(schema, module)

    def _modules(self, schema: Schema, count: int, rng: Rng) -> list[Any]:
        return [models.build(self._architecture(schema), rng.initial) for _ in range(count)]

    def _model(self, schema: Schema, module: Any) -> Model:
        return Model.of(module, schema, self._chain(schema), self._architecture(schema))
