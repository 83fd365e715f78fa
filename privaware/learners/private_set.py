"""PrivSet: a few synthetic examples for each class, learnt by matching noisy gradients, and a network trained on them.

Random networks are drawn one after another. For each, noisy clipped gradients of Poisson batches of the rows are
released, and the synthetic examples are moved so that their own gradient points the same way. Between rounds of
queries the network learns from the synthetic examples. Every class has as many synthetic examples, however frequent it
is in the rows. The examples have the form of rows after `features`. `condense` returns them at the same privacy cost:
whoever releases the examples may also release any model trained on them.

Paper: Chen, Kerkouche, Fritz 2022, Private Set Generation with Discriminative Information, arXiv:2211.04446; algorithm
PrivSet of DPMLBench (ten examples a class, network: learning rate 0.01, batch 10, 300 epochs).
Privacy: (epsilon, delta) for one row added or removed. A row's clipped gradient changes the sum of a query by at most
`norm`. The release costs as much as `networks * rounds * queries` steps of DP-SGD, and no further gradient is released.
Everything else reads noisy gradients and public randomness only.
Use when: a small synthetic data set shall be shared, rather than one model. `dpsgd` is more accurate. The published
settings, which are the defaults from 50,000 rows on, take 100,000 noisy gradients: lower `networks` for a first look.

>>> from privaware.schema import Schema
>>> schema = Schema(form="image", shape=(1, 28, 28), classes=tuple("0123456789"), rows=60_000)
>>> PrivateSet().cost(schema, noise=1.0)
Repeated(event=Sampled(event=Gaussian(noise=1.0), rate=0.004266666666666667), count=100000)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privaware import models
from privaware._validate import expect, expect_between, expect_count, expect_in, expect_one_of
from privaware.data import Data
from privaware.events import Event
from privaware.learners._fixed_features import shape_after
from privaware.learners._networks.architecture import architecture
from privaware.learners._networks.plain_network import PlainNetwork
from privaware.learners._networks.training import PRECISIONS
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["PrivateSet"]

MOST_NETWORKS = 1000
"""Number of networks in the published settings, and the largest default."""

ROWS_PER_NETWORK = 50
"""By default there is one network for this many declared rows, because fewer rows allow fewer noisy gradients."""

FEWEST_NETWORKS = 10
"""Smallest default number of networks."""

EXAMPLE_LR = 0.1
"""Learning rate of the synthetic examples in the published settings, which use `MOST_NETWORKS` networks."""

SMALLEST_SIDE = 16
"""Shortest side of an image, in pixels, from which the default random networks are convolutional."""

INNER_EPOCHS = 500
"""By default a network learns for `INNER_EPOCHS // rounds` epochs, but at least one, between two rounds."""


@dataclass(frozen=True, kw_only=True)
class PrivateSet(PlainNetwork):
    """A learner that trains a network on a few synthetic examples for each class.

    The synthetic examples are moved until their gradients resemble noisy gradients of the private rows, for one random
    network after another. Each network is used in several rounds; between two rounds it learns from the synthetic
    examples.

    Parameters
    ----------
    per_class : int
        Number of synthetic examples for each class.
    networks : int, optional
        Number of random networks; by default one for every 50 declared rows, from 10 to 1000.
    rounds : int, optional
        Number of rounds for each network; by default `per_class`.
    queries : int
        Number of noisy gradients in a round.
    inner : int, optional
        Number of epochs for which a network learns between two rounds; by default `500 // rounds`, at least 1.
    private_batch : int
        Expected number of rows in a noisy gradient.
    norm : float
        Clipping norm.
    example_lr : float, optional
        Learning rate of the synthetic examples; by default `0.1 * sqrt(1000 / networks)`.
    example_momentum : float
        Momentum coefficient of the synthetic examples.
    network_lr : float
        Learning rate of the random networks.
    matching : mapping, optional
        Description of the random networks; by default the published convolutional network for images of at least 16
        pixels on each side, and one hidden layer for all other rows.
    precision : str
        "float32", "tf32" or "bf16", for the noisy gradients. In a lower precision products are rounded, and gradients
        are clipped slightly below `norm`. Unless it is "float32", the synthetic examples are learnt in TF32.

    Notes
    -----
    The other settings belong to the network that learns from the synthetic examples.
    """

    on_ranks: ClassVar[bool] = True
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    phase: ClassVar[str] = "data preparation"

    per_class: int = 10
    networks: int | None = None
    rounds: int | None = None
    queries: int = 10
    inner: int | None = None
    private_batch: int = 256
    norm: float = 0.1
    example_lr: float | None = None
    example_momentum: float = 0.5
    network_lr: float = 0.01
    matching: dict[str, Any] | None = None
    precision: str = "float32"
    epochs: float = 300.0
    batch: int = 10
    lr: float | None = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_count("private_set", per_class=self.per_class, queries=self.queries, private_batch=self.private_batch)
        expect_count("private_set", optional=True, networks=self.networks, rounds=self.rounds, inner=self.inner)
        expect_between("private_set", 1e-9, 1e9, norm=self.norm)
        expect_between("private_set", 1e-9, 1e6, network_lr=self.network_lr)
        expect_between("private_set", 1e-9, 1e6, optional=True, example_lr=self.example_lr)
        expect_in("private_set", "[0, 1)", example_momentum=self.example_momentum)
        expect_one_of("private_set", PRECISIONS, precision=self.precision)
        table = self.matching is None or isinstance(self.matching, dict)
        expect(table, "private_set", "matching as a table", self.matching)

    def cost(self, schema: Schema, noise: float) -> Event:
        self._architecture(schema)  # a wrong one is refused before anything is charged
        self._matching(schema)
        return self._recipe(schema).cost(noise)

    def _run_all(self, data: Data, noises: Sequence[float], rng: Rng) -> list[Model]:
        return [self._learned(data.schema, *self.condense(data, noise, rng), rng) for noise in noises]

    def condense(self, data: Data, noise: float, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
        """Return the synthetic examples and their class codes.

        There are `per_class` examples of each class, one class after another. The examples (examples, ...) have the
        form of rows after `features`, and the codes are (examples,). `noise` is the noise multiplier; the release costs
        `cost(data.schema, noise)`.
        """
        import torch

        from privaware.descent import gradient_queries
        from privaware.descent._precision import repeatable_convolutions

        schema = data.schema
        described, condensation = self._matching(schema), self._condensation(schema)
        labels = np.repeat(np.arange(len(schema.classes)), self.per_class)

        def build() -> Any:
            return models.build(described, rng.initial).to(self.device)

        rows = torch.from_numpy(self._rows(data)), torch.from_numpy(data.y)
        settings: dict[str, Any] = {"noise": noise, "rows": schema.rows, "rng": rng, "device": self.device}
        with repeatable_convolutions(), gradient_queries(self._recipe(schema), build(), *rows, **settings) as query:
            examples = condensation.run(
                query,
                build,
                torch.from_numpy(labels).to(self.device),
                shape_after(self._chain(schema), schema),
                rng.initial,
                self.progress,
                self._journal(schema, noise),
            )
        return examples.cpu().numpy(), labels

    def _condensation(self, schema: Schema) -> Any:
        """Return the settings by which the synthetic examples are learnt, from public facts: a `Condensation`.

        The default learning rate of the examples is `EXAMPLE_LR * sqrt(MOST_NETWORKS / networks)`. With fewer networks
        there are fewer noisy gradients, and each has less noise, so steps may be longer.
        """
        from privaware.learners._networks.condensation import Condensation

        rounds = self.rounds or self.per_class
        networks = self.networks or min(MOST_NETWORKS, max(FEWEST_NETWORKS, schema.rows // ROWS_PER_NETWORK))
        return Condensation(
            networks=networks,
            rounds=rounds,
            queries=self.queries,
            inner=self.inner or max(1, INNER_EPOCHS // rounds),
            lr=self.example_lr or EXAMPLE_LR * math.sqrt(MOST_NETWORKS / networks),
            momentum=self.example_momentum,
            network_lr=self.network_lr,
        )

    def _recipe(self, schema: Schema) -> Any:
        from privaware import descent

        rate = min(1.0, self.private_batch / schema.rows)
        return descent.Descent(
            steps=self._condensation(schema).steps,
            sampler=descent.FullBatch() if rate == 1 else descent.Poisson(rate=rate),
            clip=descent.flat(self.norm),
            update=descent.sgd(1.0),  # not used: gradients are matched
            precision=self.precision,
        )

    def _matching(self, schema: Schema) -> dict[str, Any]:
        chain = self._chain(schema)
        described = self.matching or _matching_network(shape_after(chain, schema))
        return architecture(described, schema, chain)


def _matching_network(shape: tuple[int, ...]) -> dict[str, Any]:
    """Return the default description of the random networks whose gradients are matched, for rows of this `shape`.

    For images (channels, height, width) it is the published network: three convolutions with instance norm and average
    pooling. Images with a side below `SMALLEST_SIDE` and rows of other shapes get one hidden layer, whose gradient has
    fewer entries and so less noise.
    """
    if len(shape) != 3 or min(shape[1:]) < SMALLEST_SIDE:
        return {"name": "fcn", "hidden": [128], "activation": "relu", "dropout": 0.0}
    return {"name": "simple_cnn", "filters": [128] * 3, "hidden": [], "groups": 128, "pooling": "average"}
