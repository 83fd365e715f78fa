"""What learners that train a network share: its architecture from public facts, its rows, and the way down."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from privaware import features, models
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Event
from privaware.features.hashed import Hashed
from privaware.features.onehot import OneHot
from privaware.features.standardise import Standardise
from privaware.learn._rows import feature_for
from privaware.model import Model, scaled
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Network"]

CLIPS = ("flat", "per_layer", "automatic", "quantile")
WIDTH = 32
"""Units of a hidden layer: narrow, because noise grows with the number of parameters."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network, how many samples of which size it sees, and how its gradients are clipped.

    `architecture` is a description of `privaware.models` (inputs and outputs may be left out); without one it is
    chosen from the schema. `batch` is the expected size of a sample (left out: from the declared rows), `steps` count
    samples (left out: `epochs` times rows / batch). `average` is the share of last steps whose mean is released.
    Each row may be seen as several shifted `copies`. `device` and `progress` change nothing that is released.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")

    architecture: dict[str, Any] | None = None
    steps: int | None = None
    epochs: float = 18.0
    batch: int | None = None
    norm: float = 0.1
    lr: float = 4.0
    clip: str = "flat"
    average: float = 0.25
    copies: int = 1
    device: str = field(default="cpu", repr=False, compare=False)
    progress: Callable[[int, int, float], None] | None = field(
        default=None, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        name = type(self).__module__.rsplit(".", 1)[-1]
        for what in ("steps", "batch", "copies"):
            value = getattr(self, what)
            if value is not None and value < 1:
                raise WrongInput(f"{name}: expected {what} >= 1, got {value!r}")
        for what in ("epochs", "norm", "lr"):
            value = getattr(self, what)
            if not 1e-9 <= value <= 1e9:
                raise WrongInput(f"{name}: expected {what} from 1e-9 to 1e9, got {value!r}")
        if self.clip not in CLIPS:
            raise WrongInput(f"{name}: expected clip among {', '.join(CLIPS)}, got {self.clip!r}")
        if not 0 <= self.average <= 1:
            raise WrongInput(f"{name}: expected average in [0, 1], got {self.average!r}")

    def cost(self, schema: Schema, noise: float) -> Event:
        architecture(self.architecture, schema)  # a wrong one is found before anything is charged
        if self.copies > 1 and schema.form != "image":
            raise WrongInput(f"expected copies = 1 for a {schema.form}: only images can be shifted")
        return self._descent(schema, noise).cost(noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        import torch

        schema = data.schema
        described = architecture(self.architecture, schema)
        feature = feature_of(schema)
        module = models.build(described, rng.initial)
        self._prepare(module)
        trained = self._descent(schema, noise).run(
            module,
            torch.from_numpy(np.ascontiguousarray(features.apply((feature,), data.x, schema))),
            targets_of(data),
            noise=noise,
            rows=schema.rows,
            rng=rng,
            device=self.device,
            progress=self.progress,
        )
        return Model.of(trained, schema, (feature,), described)

    def _prepare(self, module: Any) -> None:
        """Before training: nothing, or some layers are frozen."""

    def _update(self) -> Any:
        raise TypeError(f"{type(self).__name__} has no update of its own")

    def _descent(self, schema: Schema, noise: float) -> Any:
        from privaware import descent

        batch = min(schema.rows, self.batch or max(256, schema.rows // 40))
        rate = batch / schema.rows
        return descent.Descent(
            steps=self.steps or math.ceil(self.epochs / rate),
            sampler=descent.FullBatch() if rate == 1 else descent.Poisson(rate=rate),
            clip=self._clip(noise),
            update=self._update(),
            average=descent.tail(self.average) if self.average else None,
            loss=descent.cross_entropy if schema.classes else descent.squared,
            copies=self.copies,
            augment=shifted if self.copies > 1 else None,
        )

    def _clip(self, noise: float) -> Any:
        from privaware import descent

        if (
            self.clip == "quantile"
        ):  # a count ten times as noisy takes half a hundredth of the price
            return descent.quantile(norm=self.norm, count_noise=10 * noise)
        return getattr(descent, self.clip)(self.norm)


def feature_of(schema: Schema) -> Any:
    """Rows of numbers as a network likes them: entries of size about 1."""
    if schema.form == "image":
        each = schema.shape[0]
        return Standardise(mean=(0.5,) * each, deviation=(0.25,) * each)
    plain = feature_for(schema)
    if isinstance(plain, Hashed):
        return Hashed(slots=plain.slots, words=plain.words, letters=plain.letters, norm=8.0)
    return OneHot(norm=math.sqrt(max(len(schema.used), 1)))


def architecture(given: dict[str, Any] | None, schema: Schema) -> dict[str, Any]:
    """The given network, checked against the schema, or a small one that suits it."""
    shape = schema.shape if schema.form == "image" else (max(feature_of(schema).width(schema), 1),)
    outputs = max(len(schema.classes), 1)
    ends = {"inputs": list(shape) if len(shape) > 1 else shape[0], "outputs": outputs}
    described = chosen(shape) | ends if given is None else ends | given
    model = models.parse(described)
    if model.codes is not None or math.prod(model.shape) != math.prod(shape):
        raise WrongInput(
            f"expected an architecture for inputs of shape {list(shape)}, got {list(model.shape)}; "
            "leave its inputs out"
        )
    if described["outputs"] != outputs:
        raise WrongInput(f"expected an architecture of {outputs} outputs, leave its outputs out")
    return model.describe()


def chosen(shape: tuple[int, ...]) -> dict[str, Any]:
    """One hidden layer for rows; for images convolutions with group norm and tanh, halved while they are large."""
    if len(shape) == 1:
        return {"name": "fcn", "hidden": [WIDTH], "activation": "tanh", "dropout": 0.0}
    blocks = min(3, int(math.log2(min(shape[1:]))))
    if blocks < 1:
        return {"name": "linear"}
    blocks = max(1, blocks - 1) if blocks < 3 else 3
    return {
        "name": "simple_cnn",
        "filters": [16, 32, 32][:blocks],
        "hidden": [WIDTH],
        "activation": "tanh",
        "groups": 4,
    }


def targets_of(data: Data) -> Any:
    """Class codes, or numbers scaled to [-1, 1]."""
    import torch

    if data.schema.classes:
        return torch.from_numpy(data.y)
    return torch.from_numpy(scaled(data.y, data.schema).astype(np.float32)[:, None])


def shifted(images: Any, generator: Any) -> Any:
    """Each image moved by up to an eighth of its sides, on its own; the edge is repeated."""
    import torch

    rows, _, height, width = images.shape
    moved = []
    for size in (height, width):
        reach = max(1, size // 8)
        by = torch.randint(
            -reach, reach + 1, (rows, 1), generator=generator, device=generator.device
        )
        at = torch.arange(size, device=generator.device)[None] + by
        moved.append(at.clamp(0, size - 1).to(images.device))
    down, across = moved
    images = images.gather(2, down[:, None, :, None].expand_as(images))
    return images.gather(3, across[:, None, None, :].expand_as(images))
