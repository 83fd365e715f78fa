"""Label privacy by randomised response among the likeliest classes, in several stages.

Rows are divided at random over `stages`. In the first stage labels are randomised over all classes, and a network is
trained on them. In each later stage that network predicts the likely classes of each row, and the row's label is
randomised among the k likeliest, where k maximises the chance that the true label is kept (RRWithPrior). The last
network, trained on all randomised labels, is released.

Paper: Ghazi, Golowich, Kumar, Manurangsi, Zhang 2021, Deep Learning with Label Differential Privacy, arXiv:2102.06062;
algorithm LP-MST of DPMLBench (two stages, mixup 4; DPMLBench also sets epochs = 200 and lr = 0.01).
Privacy: epsilon-DP for the label of one row, with features taken as public and epsilon = 1 / noise. Each label is
randomised once, in the stage of its row. For any two labels and any response the probabilities differ by a factor of at
most e^epsilon, whatever the candidate classes are. The candidates of a row depend only on features and on randomised
labels of other rows.
Use when: only the labels are sensitive and there are enough rows for a network.

>>> from privaware.schema import Column, Schema
>>> schema = Schema(columns=(Column(name="a", low=0, high=1),), classes=("no", "yes"), rows=100, unit="label")
>>> LabelMst().cost(schema, noise=0.5)
Disjoint(events=(RandomisedResponse(epsilon=2.0, classes=2), Pure(epsilon=2.0)))
>>> candidates(np.array([[0.5, 0.3, 0.2], [0.98, 0.01, 0.01]]), epsilon=1.0).tolist()
[[True, True, False], [True, False, False]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from privaware._validate import expect, expect_positive
from privaware.data import Data
from privaware.events import Disjoint, Event, Pure, RandomisedResponse
from privaware.learners._fixed_features import softmax
from privaware.learners._networks.plain_descent import of_turn
from privaware.learners._networks.plain_network import PlainNetwork
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["LabelMst", "candidates"]


@dataclass(frozen=True, kw_only=True)
class LabelMst(PlainNetwork):
    """A network trained on labels that were randomised in several stages.

    Parameters
    ----------
    stages : sequence of float
        One positive number for each stage; a row is in stage i with probability `stages[i] / sum(stages)`.
    temperature : float
        Divisor of the logits before the softmax that predicts likely classes.
    mixup : float
        Parameter of the Beta distribution that mixes pairs of examples; 0 for no mixing.

    Notes
    -----
    `PlainNetwork` explains the other settings.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    unit: ClassVar[str] = "label"
    phase: ClassVar[str] = "label privacy"
    guarantee: ClassVar[str] = "epsilon"

    stages: Sequence[float] = (0.6, 0.4)
    temperature: float = 0.5
    mixup: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        listed = isinstance(self.stages, (list, tuple)) and len(self.stages) > 0
        expect(listed, "label_mst", "stages as a list with the share of rows of each", self.stages)
        for share in self.stages:
            expect_positive("label_mst", stages=share)
        expect_positive("label_mst", temperature=self.temperature)

    def cost(self, schema: Schema, noise: float) -> Event:
        self._architecture(schema)
        first = RandomisedResponse(epsilon=1 / noise, classes=len(schema.classes))
        later = (Pure(epsilon=1 / noise),) * (len(self.stages) - 1)
        return Disjoint(events=(first, *later)) if later else first

    def _run_all(self, data: Data, noises: Sequence[float], rng: Rng) -> list[Model]:
        rows, schema = self._rows(data), data.schema
        stages = [rng.shards(len(data), tuple(map(float, self.stages))) for _ in noises]
        labels = np.zeros((len(noises), len(data)), dtype=np.int64)
        models: list[Model] = []
        for at, share in enumerate(np.cumsum(self.stages) / sum(self.stages)):
            for number, noise in enumerate(noises):
                inside = stages[number] == at
                likely = None
                if models:
                    logits = models[number].network_outputs(rows[inside], self.device)
                    likely = candidates(softmax(logits / self.temperature), 1 / noise)
                labels[number, inside] = rng.respond(
                    data.y[inside], epsilon=1 / noise, classes=len(schema.classes), candidates=likely
                )
            parts = [np.flatnonzero(stage <= at) for stage in stages]
            progress = of_turn(self.progress, at, len(self.stages))
            descent = replace(self._descent(share * len(data)), progress=progress)
            modules = self._modules(schema, len(noises), rng)
            models = [
                self._model(schema, module)
                for module in descent.run_population(modules, rows, labels, rng, parts=parts)
            ]
        return models


def candidates(prior: np.ndarray, epsilon: float) -> np.ndarray:
    """Return a mask of the k likeliest classes of each row, for randomised response among them (RRWithPrior).

    For each row k maximises the probability that randomised response keeps the true label, which is
    `(1 - tail) / (1 + (k - 1) * exp(-epsilon))` with k candidates. Here `tail` is the probability of all classes that
    are no candidates. If several k are equally good, the largest is taken, so no true label is lost at a large epsilon.
    The logarithms of the probabilities are compared, which differ even where `1 - tail` is rounded to 1.

    Parameters
    ----------
    prior : numpy.ndarray
        Predicted class probabilities (rows, classes).
    epsilon : float
        The epsilon of randomised response.

    Returns
    -------
    numpy.ndarray
        A Boolean mask (rows, classes) of the candidates.
    """
    classes = prior.shape[1]
    order = np.argsort(-prior, axis=1, kind="stable")
    ranked = np.take_along_axis(prior, order, axis=1)
    tail = np.zeros_like(ranked)
    tail[:, :-1] = np.cumsum(ranked[:, :0:-1], axis=1)[:, ::-1]
    kept = np.log1p(-tail) - np.log1p(np.arange(classes) * np.exp(-epsilon))
    count = classes - kept[:, ::-1].argmax(axis=1)
    allowed = np.zeros(prior.shape, dtype=bool)
    np.put_along_axis(allowed, order, np.arange(classes) < count[:, None], axis=1)
    return allowed
