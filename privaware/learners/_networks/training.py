"""Base classes of learners that train a network with clipped noisy gradients."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from privaware import features, models
from privaware._validate import expect, expect_between, expect_fraction, expect_in, expect_one_of
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Event
from privaware.learners import Learner
from privaware.learners._fixed_features import row_features
from privaware.learners._networks.architecture import architecture, expect_tables, network_feature
from privaware.learners._networks.augmentation import shifted, shifted_mirrored
from privaware.learners._networks.journal import checkpoint_in
from privaware.model import Model, scaled
from privaware.noise import Rng
from privaware.schema import Schema

CLIPS = ("flat", "per_layer", "automatic", "quantile")
"""Names of the rules that clip a row's gradient, which are functions of `privaware.descent`."""

PRECISIONS = ("float32", "tf32", "bf16")
"""Number formats in which matrix products may be computed."""

COUNT_NOISE = 10
"""Standard deviation of the noise on the count that guides quantile clipping, as a multiple of the noise multiplier.

One row changes the count by 1/2, so the count takes the fraction `(1 / (2 * COUNT_NOISE))**2 = 1/400` of a step's cost.
"""

LEAST_NORM = 0.5
"""Lower bound on the clipping norm of quantile clipping, as a multiple of `norm`; a smaller one slows training down."""

MOST_NORM = 4.0
"""Upper bound on the clipping norm of quantile clipping, as a multiple of `norm`; `lr` is chosen for `norm`."""


@dataclass(frozen=True, kw_only=True)
class Network(Learner):
    """A network trained by clipped noisy gradient descent; each subclass sets `norm`, `lr` and the update rule.

    Parameters
    ----------
    architecture : dict or str, optional
        A description of `privaware.models` (inputs and outputs may be omitted) or its name, such as "lstm" for texts;
        by default it is chosen from the schema.
    steps : int, optional
        Number of batches; by default `epochs * rows / batch`, rounded up.
    epochs : float
        Expected number of passes over the rows if `steps` is not given.
    batch : int, optional
        Expected batch size; by default a fortieth of the declared rows, but at least 256, and at most all rows.
    norm : float
        Clipping norm.
    lr : float
        Learning rate.
    clip : str
        Clipping rule: "flat" clips a row's whole gradient to `norm`, "per_layer" each layer's part, "automatic" scales
        every gradient to about `norm`, and "quantile" moves the clipping norm between `norm / 2` and `4 * norm`.
    average : float or dict
        The fraction of the steps, the last ones, over which the released weights are averaged (0: no average), or a
        table such as {"name": "ema", "decay": 0.98}.
    loss : dict, optional
        The loss, such as {"name": "focal", "gamma": 5.0}.
    schedule : dict, optional
        Schedule of the learning rate, such as {"name": "cosine", "end": 0.1}; its lengths `every` and `over` count
        epochs.
    noise_schedule : dict, optional
        Schedule of the factor by which the noise multiplier is multiplied in each step; the cost includes it.
    copies : int
        Number of randomly shifted copies of each image, or 1 for the image itself; the mean gradient over a row's
        copies is clipped. More than 1 is for images without `features` only.
    mirror : bool
        Whether every second copy is mirrored; an odd number of copies then raises `WrongInput`. Do not mirror digits or
        letters, whose meaning would change.
    features : list of dict, optional
        Descriptions of `privaware.features` that are applied to a row first; by default they are chosen from the
        schema.
    trainable : list of bool, optional
        For each layer with parameters, whether it is trained; a layer that is not keeps the weights at which training
        starts.
    precision : str
        "float32", "tf32" or "bf16". In a lower precision products are rounded, and gradients are clipped slightly below
        `norm`.
    overflow : float
        Bound, charged to delta, on the probability that a Poisson sample does not fit into its batch. Above 0, a GPU
        draws samples into batches of fixed shape, which is faster.
    initial : Model, optional
        A model of the same architecture from whose weights training starts.
    device, progress, journal
        The device, a progress callback and a folder from which an interrupted training resumes. They do not change the
        released model.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    sums: ClassVar[str] = "bounded"
    on_ranks: ClassVar[bool] = True

    architecture: dict[str, Any] | None = None
    steps: int | None = None
    epochs: float = 18.0
    batch: int | None = None
    norm: float
    lr: float
    clip: str = "flat"
    average: float | dict[str, Any] = 0.25
    loss: dict[str, Any] | None = None
    schedule: dict[str, Any] | None = None
    noise_schedule: dict[str, Any] | None = None
    copies: int = 1
    mirror: bool = False
    features: list[dict[str, Any]] | None = None
    trainable: list[bool] | None = None
    precision: str = "float32"
    overflow: float = 0.0
    initial: Model | None = field(default=None, repr=False, compare=False)
    device: str = field(default="cpu", repr=False, compare=False)
    progress: Callable[[int, int, float], None] | None = field(default=None, repr=False, compare=False)
    journal: Path | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        name = self._name
        expect_between(name, 1, 1e9, optional=True, steps=self.steps, batch=self.batch)
        expect_between(name, 1, 1e9, copies=self.copies)
        expect_between(name, 1e-9, 1e9, epochs=self.epochs, norm=self.norm, lr=self.lr)
        expect_one_of(name, CLIPS, clip=self.clip)
        expect_one_of(name, PRECISIONS, precision=self.precision)
        expect_in(name, "[0, 1)", overflow=self.overflow)
        for setting in ("architecture", "loss", "schedule", "noise_schedule"):
            table = getattr(self, setting)
            if isinstance(table, str):
                table = {"name": table}
                object.__setattr__(self, setting, table)
            expect(table is None or isinstance(table, dict), name, f"{setting} as a table or a name", table)
        if self.mirror and self.copies % 2:
            raise WrongInput(
                f"{name}: expected an even number of copies with mirror, got {self.copies}; try copies = 2"
            )
        if not isinstance(self.average, dict):
            expect_fraction(name, average=self.average)
        expect_tables(name, features=self.features)
        listed = isinstance(self.trainable, list) and all(isinstance(each, bool) for each in self.trainable)
        expect(self.initial is None or isinstance(self.initial, Model), name, "initial as a model", self.initial)
        expect(self.trainable is None or listed, name, "trainable as a list of true or false", self.trainable)

    @property
    def _name(self) -> str:
        """The learner's name in messages, which is the name of its module."""
        return type(self).__module__.rsplit(".", 1)[-1]

    def cost(self, schema: Schema, noise: float) -> Event:
        described = self._architecture(schema)  # raises before any charge if the architecture does not fit
        if self.copies > 1 and (schema.form != "image" or self.features is not None):
            raise WrongInput(
                f"{self._name}: expected images without features if copies > 1, because copies are shifted images, "
                f"got {'features' if schema.form == 'image' else f'a {schema.form}'}; set copies = 1"
            )
        if self.trainable is not None:
            self._freeze(models.build(described, device="meta"))
        return self._descent(schema, noise).cost(noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        return self.run_population([self], data, noise, rng)[0]

    @staticmethod
    def run_population(
        learners: Sequence[Network],
        data: Data,
        noise: float | Sequence[float],
        rng: Rng,
        subsets: Sequence[np.ndarray] | None = None,
    ) -> list[Model]:
        """Train `learners` on the same rows and return their models in the same order.

        With `subsets`, learner i trains on the rows at positions `subsets[i]`. Learners whose settings allow it
        (`_recipes`) are trained as one stack. `noise` is one noise multiplier for all learners, or one for each. Each
        model is a separate release, so the cost is the composition of the costs of all models.
        """
        noises = [float(value) for value in (noise if isinstance(noise, Sequence) else [noise] * len(learners))]
        models: dict[int, Model] = {}
        for group in _recipes(learners, noises):
            parts = [None if subsets is None else subsets[at] for at in group]
            trained = _train([learners[at] for at in group], data, [noises[at] for at in group], rng, parts)
            models |= dict(zip(group, trained, strict=True))
        return [models[at] for at in range(len(learners))]

    def run_on_subsets(self, data: Data, subsets: Sequence[np.ndarray], noise: float, rng: Rng) -> list[Model]:
        """Train one model on each subset of the rows and return the models.

        Each array in `subsets` holds the positions of its rows. The schema of `data` declares the number of rows of one
        subset. `noise` is the noise multiplier of each model.
        """
        return self.run_population([self] * len(subsets), data, noise, rng, subsets)

    def truncated(self, schema: Schema, share: float, initial: Model | None = None) -> Self:
        """Return this learner with a fraction `share` of its steps, rounded up and at least one.

        Training starts from the weights of `initial`, or from new random weights if it is None.
        """
        steps = math.ceil(share * self._descent(schema, 1.0).steps)
        return replace(self, steps=max(1, steps), initial=initial)

    def _features(self, schema: Schema) -> tuple[Any, ...]:
        if self.features is None:
            return (network_feature(schema, self.architecture),)
        return tuple(features.build(description) for description in self.features)

    def _architecture(self, schema: Schema) -> dict[str, Any]:
        return architecture(self.architecture, schema, self._features(schema))

    def _module(self, schema: Schema, rng: Rng) -> Any:
        module = models.build(self._architecture(schema), rng.initial)
        if self.initial is not None:
            module.load_state_dict(self.initial.torch_tensors())
        self._freeze(module)
        return module

    def _freeze(self, module: Any) -> None:
        """Disable gradients of the layers of `module` that keep their weights; do nothing if `trainable` is None.

        Raise `WrongInput` unless `trainable` has one entry for each layer with parameters, at least one of them true.
        """
        if self.trainable is None:
            return
        layers = layers_with_parameters(module)
        if len(layers) != len(self.trainable) or not any(self.trainable):
            raise WrongInput(
                f"{self._name}: expected trainable as true or false for each of {len(layers)} layers, at least one "
                f"true, got {self.trainable!r:.120}"
            )
        for layer, trained in zip(layers, self.trainable, strict=True):
            if not trained:
                layer.requires_grad_(False)

    def _update(self) -> Any:
        raise TypeError(f"{type(self).__name__} has no update of its own")

    def _descent(self, schema: Schema, noise: float) -> Any:
        from privaware import descent

        batch = min(schema.rows, self.batch or max(256, schema.rows // 40))
        rate = batch / schema.rows
        epoch = math.ceil(1 / rate)
        schedules: dict[str, Any] = {
            name: descent.build_schedule(table, epoch)
            for name, table in {"lr_schedule": self.schedule, "noise_schedule": self.noise_schedule}.items()
            if table is not None
        }
        return descent.Descent(
            steps=self.steps or math.ceil(self.epochs / rate),
            sampler=descent.FullBatch() if rate == 1 else descent.Poisson(rate=rate),
            clip=self._clip(noise),
            update=self._update(),
            average=descent.build_average(self.average),
            loss=self._loss(schema, rate),
            copies=self.copies,
            precision=self.precision,
            overflow=self.overflow,
            augment=None if self.copies == 1 else shifted_mirrored if self.mirror else shifted,
            **schedules,
        )

    def _loss(self, schema: Schema, rate: float) -> Any:
        from privaware import descent

        if self.loss is None:
            return descent.cross_entropy if schema.classes else descent.squared
        loss = descent.build_loss(self.loss, epochs=self.epochs if self.steps is None else self.steps * rate)
        if (loss is descent.squared) == bool(schema.classes):
            task = "classification" if schema.classes else "regression"
            raise WrongInput(f"{self._name}: expected a loss for {task}, got {self.loss!r:.120}; leave loss out")
        return loss

    def _clip(self, noise: float) -> Any:
        from privaware import descent

        if self.clip == "quantile":
            low, high = LEAST_NORM * self.norm, MOST_NORM * self.norm
            return descent.quantile(norm=self.norm, count_noise=COUNT_NOISE * noise, low=low, high=high)
        return getattr(descent, self.clip)(self.norm)


@dataclass(frozen=True, kw_only=True)
class MomentumNetwork(Network):
    """A network trained by clipped noisy gradient descent with momentum: the base class of `dpsgd` and its variants.

    The other settings are those of `Network`.

    Parameters
    ----------
    momentum : float
        Momentum coefficient.
    """

    phase: ClassVar[str] = "model training"

    norm: float = 0.1
    lr: float = 4.0
    momentum: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_in(self._name, "[0, 1)", momentum=self.momentum)

    def _update(self) -> Any:
        from privaware import descent

        return descent.momentum(self.lr, self.momentum)


def layers_with_parameters(module: Any) -> list[Any]:
    """Return the submodules of a torch module that own parameters themselves, in the order of `module.modules()`."""
    return [part for part in module.modules() if any(True for _ in part.parameters(False))]


def _train(networks: list[Network], data: Data, noises: list[float], rng: Rng, subsets: Sequence[Any]) -> list[Model]:
    """Train `networks`, which `_recipes` put into one group, as one stack of models, and return their models in order.

    Network i has the noise multiplier `noises[i]` and the rows at positions `subsets[i]`, or all rows if it is None. A
    journal is used only for a single network on all rows.
    """
    import torch

    from privaware.descent import Callbacks, Member

    first, schema = networks[0], data.schema
    alone = len(networks) == 1 and subsets[0] is None  # a journal belongs to one release
    chain = first._features(schema)
    rows = _transformed(chain, data, first.device)
    trained = first._descent(schema, noises[0]).run_population(
        [
            Member(network._module(schema, rng), noise, network.lr, network.norm, subset)
            for network, noise, subset in zip(networks, noises, subsets, strict=True)
        ],
        torch.from_numpy(rows),
        targets_of(data),
        rows=schema.rows,
        rng=rng,
        device=first.device,
        callbacks=Callbacks(progress=first.progress, checkpoint=checkpoint_in(first.journal if alone else None)),
    )
    return [
        Model.of(module, schema, chain, network._architecture(schema))
        for module, network in zip(trained, networks, strict=True)
    ]


def _transformed(chain: tuple[Any, ...], data: Data, device: str) -> np.ndarray:
    """Return the rows of `data` after the features in `chain`, a tuple of features applied in order, as (rows, ...).

    The last result is cached, because a search asks for the same rows many times; do not change the array.
    """
    same = _last and _last[0]() is data.x and _last[1:3] == [chain, data.schema]
    if not same:
        rows = np.ascontiguousarray(row_features(chain, data, device))
        _last[:] = [weakref.ref(data.x, lambda gone: _last.clear()), chain, data.schema, rows]
    return np.asarray(_last[3])


_last: list[Any] = []
"""The last call of `_transformed`: a weak reference to its rows, the chain, the schema and the result."""


def _recipes(networks: Sequence[Network], noises: Sequence[float]) -> list[list[int]]:
    """Return groups of positions in `networks`; the networks of a group can be trained as one stack of models.

    `noises` holds the noise multiplier of each network. The networks of a group may differ only in architecture,
    learning rate, clipping norm, trained layers and noise multiplier. With quantile clipping, all networks of a group
    have the same noise multiplier and clipping norm. Either all or none of the noise multipliers of a group are 0.
    """
    alike = [replace(network, architecture=None, lr=1.0, norm=1.0, trainable=None) for network in networks]
    groups: list[list[int]] = []
    pairs = zip(networks, noises, strict=True)
    clips = [(replace(network._clip(noise), norm=1.0), noise == 0) for network, noise in pairs]
    for at, network in enumerate(alike):
        same = next((g for g in groups if alike[g[0]] == network and clips[g[0]] == clips[at]), None)
        groups.append([at]) if same is None else same.append(at)
    return groups


def targets_of(data: Data) -> Any:
    """Return the targets of `data` as a tensor on the CPU.

    They are class indices (rows,) or, in a regression, float32 targets scaled to [-1, 1] (rows, 1).
    """
    import torch

    if data.schema.classes:
        return torch.from_numpy(data.y)
    return torch.from_numpy(scaled(data.y, data.schema).astype(np.float32)[:, None])
