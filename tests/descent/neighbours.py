"""A step on neighbouring data, its examples put into slots by the coupling that `_rounding.py` argues with."""

from __future__ import annotations

import numpy as np
import torch

from privaware.descent import members
from privaware.descent._exact_sum import ExactSum
from privaware.descent._training import Training, prepare
from tests.descent.small_training import RecordingRng


class CoupledRng(RecordingRng):
    """Random orders of which the smaller data's follows from the larger's: its last example fills the removed slot."""

    def __init__(self, seed=0, *, removed=None, **settings):
        super().__init__(seed, **settings)
        self.removed = removed

    def poisson(self, rows, rate):
        larger = np.random.default_rng(1).random(rows + (self.removed is not None)) < rate
        larger[-1] = True
        return larger[:rows]

    def shuffle(self, rows):
        larger = rows if self.removed is None else np.append(rows, self.removed)
        order = np.random.default_rng(2).permutation(larger)
        if self.removed is not None:
            order[order == self.removed] = order[-1]
        rows[:] = order[: len(rows)]


def step_without_last(descent, modules, x, y, monkeypatch, *, rng=CoupledRng):
    """How far a step's exact sums move without the last row, over the sensitivity, and how many group sums differ."""
    exact, groups = [], []
    add = ExactSum.add

    def recorded(self, sums):
        groups[-1].append(sums.transpose(0, 1).clone())
        add(self, sums)

    monkeypatch.setattr(ExactSum, "add", recorded)
    for count in (len(x), len(x) - 1):
        generator = rng(removed=None if count == len(x) else count)
        groups.append([])
        prepared = prepare(modules, descent.loss, x[:count], y[:count], "cpu")
        noise = [1.0] * len(modules)
        Training(descent, members(modules, noise), prepared, rows=len(x), rng=generator).one_step()
        value, _, sensitivity = generator.calls[0]
        exact.append((value.double(), sensitivity))
    (one, sensitivity), (two, _) = exact
    with_row, without = ([group for sums in of_data for group in sums] for of_data in groups)
    without += [0 * group for group in with_row[len(without) :]]
    differing = sum(bool((a != b).any()) for a, b in zip(with_row, without, strict=True))
    return float(((one - two).norm(dim=1) / torch.as_tensor(sensitivity).flatten()).max()), differing, len(with_row)
