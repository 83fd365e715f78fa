"""The student of PATE and Private-kNN: a network that learns from public rows that noisy votes have labelled.

Training the student is post-processing of the released labels and of public rows, so it has no privacy cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from privaware._validate import expect_in, expect_nonnegative
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.learners._networks.augmentation import jittered, shifted
from privaware.learners._networks.plain_descent import PlainDescent, shuffled_batches
from privaware.learners._networks.plain_network import PlainNetwork
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Student(PlainNetwork):
    """A network that learns from public rows, some of which noisy votes have labelled.

    The student learns from unlabelled rows as follows (UDA, arXiv:1904.12848). If the largest probability that the
    student predicts for a row exceeds `confidence`, it learns to predict the same probabilities for an augmented copy
    of the row. Without `shift` and `mirror`, an image is shifted, and other rows get a little noise.

    Parameters
    ----------
    epochs : float
        Number of passes over the labelled rows, which are about half of each batch; not used if `steps` is given.
    unlabelled : float
        Weight of unlabelled rows; 0 leaves them out.
    temperature : float
        Temperature that sharpens the predictions for unlabelled rows; 1 leaves them unchanged.
    confidence : float
        Largest predicted class probability of an unlabelled row above which the student learns from the row.
    public : Data
        The public rows to label; labels that they have already are not used. Training without public rows raises
        `WrongInput`.

    Notes
    -----
    `PlainNetwork` explains the other settings.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    needs_public: ClassVar[bool] = True
    phase: ClassVar[str] = "model ensemble"

    epochs: float = 300.0
    unlabelled: float = 1.0
    temperature: float = 0.4
    confidence: float = 0.6
    public: Data | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_nonnegative(self._name, unlabelled=self.unlabelled)
        expect_in(self._name, "(0, 1]", temperature=self.temperature)
        expect_in(self._name, "[0, 1)", confidence=self.confidence)

    def _run_all(self, data: Data, noises: Sequence[float], rng: Rng) -> list[Model]:
        """Return one model for each noise multiplier in `noises`, each trained on its own noisy votes."""
        return [self.run(data, noise, rng) for noise in noises]

    def _pool(self) -> Data:
        if self.public is None:
            raise WrongInput(f"{self._name}: expected public rows to label, got none; give them with --public FILE")
        return self.public

    def _expect_public(self, rows: int) -> None:
        """Raise `WrongInput` if `public` is given with fewer than `rows` rows."""
        if self.public is not None and len(self.public) < rows:
            raise WrongInput(
                f"{self._name}: expected at least {rows} public rows to label, got {len(self.public)}; "
                "give more or lower `queries`"
            )

    def _trained_student(self, schema: Schema, pool: np.ndarray, labels: np.ndarray, rng: Rng) -> Model:
        """Return the model of one student, trained on the public rows `pool` (rows after the features).

        `labels` (rows,) has the class code of each row, or a negative number for a row without a label.
        """
        return self._trained_students(schema, pool, [labels], rng)[0]

    def _trained_students(
        self, schema: Schema, pool: np.ndarray, labels: Sequence[np.ndarray], rng: Rng
    ) -> list[Model]:
        """Return one student's model for each array in `labels`, all trained on the public rows `pool`.

        `pool` holds rows after the features. An array has the class code of each row of `pool`, or a negative number
        for a row without a label. The networks are trained as one stack if all have the same number of steps and the
        same batch size, and otherwise one after another.
        """
        descents = [self._student_descent(pool, each) for each in labels]
        if any(descent != descents[0] for descent in descents):
            return [self._trained_student(schema, pool, each, rng) for each in labels]
        descent = descents[0]
        batches = [shuffled_batches(self._positions(each), descent.batch, rng.initial) for each in labels]
        targets = self._targets(np.stack(labels), len(schema.classes))
        modules = self._modules(schema, len(labels), rng)
        return [
            self._model(schema, module)
            for module in descent.run_population(modules, pool, targets, rng, batches=batches)
        ]

    def _positions(self, labels: np.ndarray) -> np.ndarray:
        return _balanced(labels, with_others=self.unlabelled > 0)

    def _student_descent(self, pool: np.ndarray, labels: np.ndarray) -> PlainDescent:
        count = len(self._positions(labels))
        descent = self._descent(count)
        if self.steps is None:
            epoch = min(2 * int((labels >= 0).sum()), count) / descent.batch
            descent = replace(descent, steps=math.ceil(self.epochs * epoch))
        return descent if descent.augment else replace(descent, augment=shifted if pool.ndim == 4 else jittered)

    def _targets(self, labels: np.ndarray, classes: int) -> Any:
        """Return the function that gives each network its targets in a batch, as `Targets` describes.

        `labels` (networks, rows) has the class codes that each network learns, negative for a row without a label. The
        function takes positions of rows (networks, batch) and the networks' predicted probabilities (networks, batch,
        classes). It returns targets (networks, batch, classes):
        1. For a labelled row, the one-hot vector of its class.
        2. For an unlabelled row whose largest probability exceeds `confidence`, `unlabelled` times its probabilities to
           the power `1 / temperature`, normalised.
        3. For any other row, zeros.
        """
        import torch

        known = torch.from_numpy(labels).to(self.device)
        one_hot = torch.eye(classes, device=self.device)

        def targets(at: Any, probabilities: Any) -> Any:
            sharp = probabilities ** (1 / self.temperature)
            sure = probabilities.amax(-1, keepdim=True) > self.confidence
            guess = self.unlabelled * sure * sharp / sharp.sum(-1, keepdim=True)
            own = known.gather(1, at)
            return torch.where((own >= 0)[..., None], one_hot[own.clamp(min=0)], guess)

        return targets


def _balanced(labels: np.ndarray, *, with_others: bool) -> np.ndarray:
    """Return positions of rows, with labelled rows repeated until they are about as many as unlabelled rows.

    A negative number in `labels` means no label. Labelled rows come first, each repeated
    `max(1, unlabelled // labelled)` times, then all unlabelled rows. Without `with_others`, or without unlabelled rows,
    the positions of labelled rows are returned, each once.

    >>> _balanced(np.array([1, -1, -1, -1, -1]), with_others=True).tolist()
    [0, 0, 0, 0, 1, 2, 3, 4]
    """
    labelled, others = np.flatnonzero(labels >= 0), np.flatnonzero(labels < 0)
    if not with_others or not len(others):
        return labelled
    return np.concatenate([np.tile(labelled, max(1, len(others) // max(len(labelled), 1))), others])
