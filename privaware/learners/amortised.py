"""An additive model whose scores a pretrained network estimates from noisy counts.

Every column is coded by public levels (`features.codes`). The first release is the noisy number of rows of each class
at each level of each column, in one pass over the rows. For numbers it also holds four smooth harmonics over the
levels, which have less noise than sums of many levels. With more `rounds`, each further pass releases sums of residuals
of the model so far in the same way. After each release a small network turns the sums, the size of their noise, and the
numbers of rows, levels and columns into scores of the levels. The network was pretrained on 370,369 random tables from
random processes (no row of any data set) with noise of the same kind, so it shrinks scores as such tables suggest. The
model has the form of `additive`: one curve for each column.

Paper: ours, after Hollmann, Müller, Eggensperger, Hutter 2023, TabPFN, arXiv:2207.01848 (a network that has learnt from
random tables), and Nori et al. 2021, arXiv:2106.09680 (private additive models). See docs/results/amortised.md.
Privacy: (epsilon, delta) for one row added or removed: one Gaussian release for each round, together one Gaussian
release with the given noise multiplier. A row adds 1 to the count of its class. To the sums of each of c columns it
adds terms whose squares add up to at most 1 (1 at a category's level; public weights at a number's level and
harmonics). So it changes the first release by at most sqrt(c + 1) in L2 norm. In later rounds the terms are multiplied
by the row's residual, of norm at most G (1 for two classes, sqrt(2) for more), so it changes a release by at most
G sqrt(c + 1). Counts are integers and residuals are functions of one row on a public lattice, so sums are exact in any
order. The network only does post-processing; its weights depend on no private row.
Use when: the budget is small, and columns act on the class without interactions.

>>> from privaware.schema import Column, Schema
>>> schema = Schema(columns=(Column(name="age", low=0, high=99),), classes=("no", "yes"), rows=1000)
>>> Amortised(rounds=1).cost(schema, noise=2.0)
Gaussian(noise=2.0)
>>> Amortised(rounds=2).cost(schema, noise=2.0)  # doctest: +ELLIPSIS
Repeated(event=Gaussian(noise=2.828...), count=2)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privaware._validate import expect_between
from privaware.data import Rows
from privaware.errors import WrongInput
from privaware.events import Event, Gaussian
from privaware.features.codes import Codes
from privaware.learners import Learner
from privaware.learners._boosting.coded_rows import CodedLayout, CodedRows
from privaware.learners._boosting.gradient_sums import ClassCounts, GradientSums, as_outputs
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

if TYPE_CHECKING:
    from privaware.learners._table_network import TableNetwork

__all__ = ["Amortised"]

SHIPPED = Path(__file__).with_name("amortised.safetensors")
"""Path of the safetensors file with the network's weights that the package contains."""
COPIES = 8
"""Number of noisier copies of the releases from which the standard deviation of the scores is estimated."""


@dataclass(frozen=True, kw_only=True)
class Amortised(Learner):
    """A learner of an additive model by a pretrained network.

    Parameters
    ----------
    rounds : int
        Number of passes over the rows, from 1 to 3; each is one release, and they share the budget equally.
    cells : int
        Approximate number of levels of a number column without declared bins, from 4 to 4096.
    weights : str, optional
        Path of a file of network weights written by `privaware reproduce ours/tables_prior/weights`; by default the
        file in the package.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    in_parts: ClassVar[bool] = True

    rounds: int = 2
    cells: int = 32
    weights: str | None = None

    def __post_init__(self) -> None:
        expect_between("amortised", 1, 3, rounds=self.rounds)
        expect_between("amortised", 4, 4096, cells=self.cells)

    def cost(self, schema: Schema, noise: float) -> Event:
        if schema.form != "table" or not schema.used:
            raise WrongInput(
                f"amortised: expected a table with columns to learn from, got {schema.form} data with "
                f"{len(schema.used)} columns; choose another learner"
            )
        Codes(cells=self.cells).levels(schema)  # columns without bounds are refused before anything is charged
        _network(self._file)  # so are weights that cannot be read
        each = Gaussian(noise=noise * math.sqrt(self.rounds))
        return self.rounds * each if self.rounds > 1 else each

    def run(self, data: Rows, noise: float, rng: Rng) -> Model:
        from privaware.learners._table_scores import LevelSums, Rounds

        layout = CodedLayout(schema=data.schema, feature=Codes(cells=self.cells))
        rows = data.parts.held(partial(CodedRows, layout), CodedRows.joined)
        sums = LevelSums.of(data.schema, layout.levels)
        each = noise * math.sqrt(self.rounds)
        rounds = Rounds(_network(self._file), sums, rows=data.schema.rows, scale=each * sums.length, rounds=self.rounds)
        exact, length = rows.total(ClassCounts(layout=layout)), 1.0
        for number in range(self.rounds):
            noisy = rng.gaussian(sums.of_levels(exact), noise=each, sensitivity=length * sums.length)
            weights = rounds.after(noisy, length)
            if number + 1 < self.rounds:
                gradients = GradientSums(layout=layout, weights=weights, unit=1.0)
                exact, length = gradients.by_weight(rows.total(gradients)).T, layout.length
        return _model(layout, weights, rounds.deviations(COPIES, rng.initial))

    @property
    def _file(self) -> str:
        return str(SHIPPED) if self.weights is None else self.weights


@lru_cache(maxsize=2)
def _network(file: str) -> TableNetwork:
    from privaware.learners._table_network import load

    return load(file)


def _model(layout: CodedLayout, weights: np.ndarray, deviations: np.ndarray) -> Model:
    classes, depth = layout.classes, 1
    tensors = {"bias": weights[0], "scores": weights[1:], "slopes": weights[:0]}
    tensors = as_outputs(tensors | {"leaves": np.zeros((0, 2**depth, layout.outputs))}, classes)
    tensors |= {"columns": np.zeros((0, depth), np.int64), "right": np.zeros((0, depth, max(layout.levels)), bool)}
    architecture: dict[str, Any] = {"name": "trees", "levels": list(layout.levels), "outputs": len(tensors["bias"])}
    architecture |= {"numbers": 0, "trees": 0, "depth": depth}
    architecture["deviations"] = [float(value) for value in deviations / (2 if classes == 2 else 1)]
    return Model(schema=layout.schema, features=(layout.feature,), architecture=architecture, tensors=tensors)
