"""A search by any Optuna sampler, with noisy scores, charged at its full cost.

Paper: Akiba et al. 2019, Optuna, arXiv:1907.10902. Needs `pip install privaware[optuna]`.
Privacy: (epsilon, delta) for one row added or removed. A sampler may learn from every score, so every trial is charged
by tight composition. Pruning a trial early would save nothing.
Use when: a sampler is known to suit the space, and rows are public or trials few.

>>> from privaware.events import Gaussian
>>> from privaware.models.spaces import Space
>>> sum(each.count for each in Optuna(trials=20).rounds(Space.load("fcn"), Gaussian(noise=4.0)))
20
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from privaware._validate import expect, expect_count
from privaware.errors import WrongInput
from privaware.events import Event
from privaware.models.spaces import Point, Space
from privaware.strategies._strategy import Ask, Round, RoundStrategy, Trial, TrialHistory

__all__ = ["Optuna"]


@dataclass(frozen=True, kw_only=True)
class Optuna(RoundStrategy):
    """A search by a sampler of Optuna.

    Parameters
    ----------
    trials : int
        Number of trials.
    batch : int
        Number of trials (fewer in the last round) that are requested together and train as one population.
    sampler : str
        The name of a class of `optuna.samplers`.
    """

    adaptive: ClassVar[bool] = True

    trials: int = 40
    batch: int = 5
    sampler: str = "TPESampler"

    def __post_init__(self) -> None:
        expect_count("optuna", trials=self.trials, batch=self.batch)

    def rounds(self, space: Space, once: Event) -> tuple[Round, ...]:
        self._sampler(0)
        full, rest = divmod(self.trials, self.batch)
        return (Round(count=self.batch),) * full + ((Round(count=rest),) if rest else ())

    def start(self, space: Space, rng: np.random.Generator) -> Study:
        library = _library()
        library.logging.set_verbosity(library.logging.WARNING)
        study = library.create_study(direction="maximize", sampler=self._sampler(int(rng.integers(2**31))))
        return Study(space=space, rng=rng, study=study)

    def _sampler(self, seed: int) -> Any:
        samplers = _library().samplers
        make = vars(samplers).get(str(self.sampler))
        known = isinstance(make, type) and issubclass(make, samplers.BaseSampler)
        expect(known, "optuna", "a sampler of optuna.samplers such as TPESampler", self.sampler)
        try:
            return make(seed=seed)
        except TypeError:
            raise WrongInput(
                f"optuna: expected a sampler that needs no argument but a seed, such as TPESampler, got {self.sampler}"
            ) from None


@dataclass(kw_only=True)
class Study(TrialHistory):
    """A searcher that asks an Optuna `study`; a choice is a categorical parameter whose values are spelt as JSON.

    `pending` are Optuna's trials of the last `ask`; `tell` takes their scores in the same order.
    """

    study: Any
    pending: list[Any] = field(default_factory=list)

    def ask(self, count: int) -> list[Ask]:
        self.pending = [self.study.ask() for _ in range(count)]
        return [Ask(point=self._point(trial)) for trial in self.pending]

    def tell(self, trials: Sequence[Trial]) -> None:
        for pending, trial in zip(self.pending, trials, strict=True):
            self.study.tell(pending, trial.score)
        super().tell(trials)

    def _point(self, trial: Any) -> Point:
        point: Point = {}
        for name, values in self.space.choices.items():
            if self.space.active(name, point):
                words = [json.dumps(value) for value in values]
                point[name] = values[words.index(trial.suggest_categorical(name, words))]
        return point


def _library() -> Any:
    try:
        return importlib.import_module("optuna")
    except ImportError:
        raise WrongInput(
            "the strategy optuna needs the package optuna; install it with `pip install privaware[optuna]`"
        ) from None
