"""A small part of MNIST for quick accuracies of learners."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from privaware import datasets
from privaware.data import Data


def mnist(rows: int, *, held_out: int = 1000, unit: str = "row") -> tuple[Data, Data]:
    """The first rows for training and for a test; without the files the calling test is skipped with a reason."""
    if datasets.source("mnist").folder() is None:
        pytest.skip("the files of mnist are not here: set PRIVAWARE_DATA to a folder that holds them")
    train, test = _subset(rows, held_out)
    return replace(train, schema=replace(train.schema, rows=rows, unit=unit)), test


@cache
def _subset(rows: int, held_out: int) -> tuple[Data, Data]:
    loaded = datasets.load("mnist")
    return loaded.train.take(np.arange(rows)), loaded.test.take(np.arange(held_out))
