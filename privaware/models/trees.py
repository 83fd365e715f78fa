"""An additive model with trees or random Fourier features: the model of `additive`, `boosted`, `fourier`, `amortised`.

Every column is an ordinal code (`features.codes`), and numbers may follow. Outputs are the sum of a bias, a score for
the level of each column, a slope times each number, the leaf of each tree, and an amplitude times each random Fourier
feature. A feature is the cosine of a random sum over the levels and numbers of a few columns. All nodes of a tree at
one depth have the same split, so the outcomes of the splits are the bits of a leaf's number.

Paper: Prokhorenkova et al. 2018, CatBoost (symmetric trees), arXiv:1706.09516.
Privacy: no cost of its own; no row is mixed with another.
Use when: a table has skewed columns or interactions.

>>> described = Trees(levels=[3], outputs=1, trees=9, depth=2).describe()
>>> {name: value for name, value in described.items() if value}
{'name': 'trees', 'levels': [3], 'outputs': 1, 'trees': 9, 'depth': 2}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privaware.errors import WrongInput
from privaware.models._description import Description

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Trees", "curves"]

MAX_DEPTH = 16
"""Largest depth of a tree."""


@dataclass(frozen=True, kw_only=True)
class Trees(Description):
    """The description of a sum of level scores, slopes, trees and random Fourier features.

    Parameters
    ----------
    levels : tuple of int
        Number of ordinal codes (levels) of each column.
    outputs : int
        Number of outputs.
    numbers : int
        Number of columns that also have a slope. Their numbers follow the codes in an input row.
    trees, depth : int
        Number and depth of the trees. Without trees and random Fourier features the model is additive in columns.
    waves : int
        Number of random Fourier features, under the name that stored models use.
    deviations : tuple of float
        Standard deviation that privacy noise alone gives the scores of each column, then the slope of each number;
        empty if it is not known.
    clipped : bool
        Whether the scores of two classes were learned from gradients that were clipped to 1/2. Such training learns
        q / (2 (1 - q)) instead of the probability q of the rarer class; outputs are then corrected to logits of q.
    bent : tuple of float
        Empty, or centre, spread, strength and shift of the skew correction of one output. It replaces an output by
        `centre + shift + spread / strength * (exp(strength * z) - 1)`, where `z = (output - centre) / spread`, clipped
        to [-8, 8].
    """

    name: ClassVar[str] = "trees"

    levels: tuple[int, ...]
    outputs: int
    numbers: int = 0
    trees: int = 0
    depth: int = 3
    waves: int = 0
    deviations: tuple[float, ...] = ()
    clipped: bool = False
    bent: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self._check_counts("levels")
        self._check_count("outputs")
        self._check_count("numbers", least=0)
        self._check_count("trees", least=0)
        self._check_count("waves", least=0)
        self._check_count("depth")
        if self.depth > MAX_DEPTH:
            raise self._error("depth", f"a whole number of at most {MAX_DEPTH}")
        if not isinstance(self.clipped, bool) or (self.clipped and self.outputs != 2):
            raise self._error("clipped", "false, or true for two outputs")
        sizes = (0, len(self.levels) + self.numbers)
        self._check_numbers("deviations", sizes, "a number for each column and each slope, or none")
        bent = "centre, spread > 0, strength > 0 and shift for a model with one output, or none"
        self._check_numbers("bent", (0, 4), bent)
        if self.bent and (self.outputs != 1 or not min(self.bent[1:3]) > 0):
            raise self._error("bent", bent)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.levels) + self.numbers,)

    @property
    def codes(self) -> int | None:
        return min(self.levels, default=1)

    def _module(self) -> nn.Module:
        from privaware.models import _layers

        shape = (self.trees, self.depth, self.waves)
        return _layers.Trees(self.levels, self.numbers, self.outputs, shape, self.clipped, self.bent)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """What one column adds to the outputs of an additive model, for each of its levels (ordinal codes).

    Outputs are corrected afterwards for clipped gradients (two classes) or for a skewed target (regression).

    `column` is the column's name, and `labels` has the name of each level. `scores` (levels, outputs) is what a level
    adds. `deviations` (levels) is the standard deviation that privacy noise alone gives each score of a level, the same
    for all outputs; NaN if the model does not store it.
    """

    column: str
    labels: tuple[str, ...]
    scores: np.ndarray
    deviations: np.ndarray


def curves(model: Any) -> list[Curve]:
    """Return the curves of a model of `additive`, `boosted`, `fourier` or `amortised` (architecture `trees`).

    The slope of a number is included at the middle of each level. The curves do not show trees and random Fourier
    features, which add interactions of columns. A model of another architecture raises `WrongInput`.

    Parameters
    ----------
    model : Model
        The model.

    Returns
    -------
    list of Curve
        One curve for each column that the model uses, in the order of the schema.
    """
    described = dict(model.architecture)
    if described.pop("name") != "trees":
        raise WrongInput(
            "expected a model of additive, boosted, fourier or amortised, which have curves; got another one"
        )
    trees, feature, schema = Trees(**described), model.features[0], model.schema
    count = len(trees.levels)
    deviations = np.array(trees.deviations or [np.nan] * (count + trees.numbers))
    numbers = [at for at, column in enumerate(schema.used) if column.kind == "number"][: trees.numbers]
    parts = np.split(model.tensors["scores"].astype(float), np.cumsum(trees.levels)[:-1])
    result = []
    for at, column in enumerate(schema.used):
        scores, variances = parts[at], np.full(trees.levels[at], deviations[at] ** 2)
        if at in numbers:
            slope, middles = numbers.index(at), feature.middles(column)
            scores = scores + middles[:, None] * model.tensors["slopes"][slope].astype(float)
            variances = variances + (middles * deviations[count + slope]) ** 2
        labels = feature.labels(column)
        result.append(Curve(column=column.name, labels=labels, scores=scores, deviations=np.sqrt(variances)))
    return result
