"""The parts of a sweep: rows, settings, trials and outcomes, and the privacy cost of all trials."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from privaware.errors import WrongInput
from privaware.events import NOTHING, Event, Gaussian, Unproven
from privaware.workflow._comparison_plan import EVALUATION

__all__ = ["Outcome", "Rows", "Setting", "Trial", "synthetic_examples", "note", "price"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Rows:
    """Training rows and test rows in the form that a network takes.

    `y` holds class codes, or numbers in [0, 1] for regression. `public` says that the rows need no protection.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    public: bool

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or len(self.x_test) != len(self.y_test) or not len(self.y_test):
            raise WrongInput(
                f"expected a target for every row and rows to score on, got {len(self.x)} rows with {len(self.y)} "
                f"targets and {len(self.x_test)} to score on with {len(self.y_test)}"
            )

    @property
    def classes(self) -> bool:
        """Whether the target is a class rather than a number."""
        return self.y.dtype.kind in "iu"

    @classmethod
    def builtin(cls, name: str) -> Rows:
        """Load a built-in data set for networks: standardised images, one-hot tables, regression targets in [0, 1].

        >>> Rows.builtin("wisconsin").x.shape
        (455, 30)
        """
        from privaware import datasets, features
        from privaware.learners._networks.architecture import network_feature
        from privaware.model import scaled

        loaded = datasets.load(name)
        feature = network_feature(loaded.train.schema)

        def prepared(data: Any) -> tuple[np.ndarray, np.ndarray]:
            schema = loaded.train.schema
            x = np.asarray(features.apply((feature,), data.x, schema), dtype=np.float32)
            return x, data.y if schema.classes else (scaled(data.y, schema) + 1) / 2

        (x, y), (x_test, y_test) = prepared(loaded.train), prepared(loaded.test)
        return cls(name=name, x=x, y=y, x_test=x_test, y_test=y_test, public=True)

    def resampled(self, rows: int, seed: int) -> Rows:
        """Draw `rows` of the training rows with replacement; one person is then in several rows."""
        at = np.random.default_rng([seed, rows]).integers(len(self.x), size=rows)
        name = f"{self.name}, {rows} rows resampled with seed {seed}"
        return replace(self, name=name, x=self.x[at], y=self.y[at])


def synthetic_examples(rows: int = 300, columns: int = 5) -> Rows:
    """Return rows for doctests: normal numbers; the class is the sign of the first number."""
    x = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    return Rows(name=f"{rows} synthetic rows", x=x, y=y, x_test=x, y_test=y, public=True)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How one model is trained. Without noise `norm` may be infinite, which is plain gradient descent.

    `trainable` has a flag for every layer with parameters; None trains all layers. `initial` names the initialisation
    of dense layers and convolutions: "torch" is the default of PyTorch, "glorot" the default of Keras with zero biases.
    In a lower `precision` ("tf32", "bf16") gradients are clipped slightly below the norm, because products are rounded.
    """

    batch: int
    steps: int
    lr: float
    architecture: dict[str, Any] = field(default_factory=dict)
    noise: float = 0.0
    norm: float = 1.0
    momentum: float = 0.0
    average: float = 0.0
    trainable: tuple[bool, ...] | None = None
    initial: str = "torch"
    precision: str = "float32"

    def __post_init__(self) -> None:
        if self.initial not in ("torch", "glorot"):
            raise WrongInput(f"expected initial as torch or glorot, got {self.initial!r}")

    def event(self, rows: int) -> Event:
        """Return the privacy event of one training on `rows` rows."""
        if self.noise <= 0:
            return Unproven(reason="a model trained without noise has no guarantee")
        return self.steps * Gaussian(noise=self.noise).sampled(rate=min(1.0, self.batch / rows))

    @property
    def recipe(self) -> tuple[Any, ...]:
        """The settings that all models of one population share."""
        plain = self.noise == 0
        return (self.batch, self.steps, self.momentum, self.average, self.precision, plain)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One training: its place in the study (`curve` and `x`), its setting and its seed."""

    curve: str
    x: float
    seed: int
    setting: Setting

    def key(self, rows: Rows, every: int | None) -> str:
        """Return the identifier of this training in a store."""
        facts = {"rows": rows.name, "every": every, "seed": self.seed, **asdict(self.setting)}
        facts["norm"] = str(self.setting.norm)
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The scores of one trial after each of `steps`: accuracy, or `1 - mean absolute error`."""

    trial: Trial
    steps: tuple[int, ...]
    scores: tuple[float, ...]

    @property
    def score(self) -> float:
        """The score after the last step."""
        return self.scores[-1]


def price(trials: Sequence[Trial], rows: int) -> Event:
    """Return the composed event of all trainings.

    >>> setting = Setting(batch=10, steps=5, lr=1.0, noise=2.0)
    >>> price([Trial(curve="a", x=0, seed=seed, setting=setting) for seed in range(3)], rows=100)
    Repeated(event=Repeated(event=Sampled(event=Gaussian(noise=2.0), rate=0.1), count=5), count=3)
    """
    counted: dict[Event, int] = {}
    for trial in trials:
        event = trial.setting.event(rows)
        counted[event] = counted.get(event, 0) + 1
    return sum((count * event for event, count in counted.items()), start=NOTHING)


def note(rows: Rows, trials: Sequence[Trial]) -> str:
    """Say what a sweep over `rows` released."""
    if rows.public:
        return f"{len(trials)} models; {EVALUATION}"
    return f"{len(trials)} models on private rows, all of them and their noised scores charged to the ledger"
