"""Disjoint parts of a data set, as the papers split them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from privaware.data import Data
from privaware.datasets._dataset import Dataset, order
from privaware.errors import WrongInput


def parts(data: Data, *sizes: int, shuffled: bool = True) -> tuple[Data, ...]:
    """Disjoint parts of declared sizes, in the fixed public order or (not `shuffled`) in file order.

    Each part's schema declares its own number of rows; rows beyond the sum of `sizes` are in none.
    Bao et al. split Adult as `parts(adult.train, 22750, 9750)` and the test part of the image sets as
    `parts(mnist.test, 5000, 5000)` for validation and test; DPNAS trains on
    `parts(mnist.train, 36000, 24000)[0]` and validates on the other.
    """
    if min(sizes, default=0) < 1 or sum(sizes) > len(data):
        raise WrongInput(f"expected sizes of at least 1 that sum to at most {len(data)}, got {list(sizes)}")
    permutation = order("parts", len(data)) if shuffled else np.arange(len(data))
    ends = np.cumsum(sizes)
    return tuple(
        replace(data.take(permutation[end - size : end]), schema=replace(data.schema, rows=size))
        for size, end in zip(sizes, ends, strict=True)
    )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Halves:
    """Rows of a target model and of an attacker's shadow model: four disjoint parts."""

    train: Data
    test: Data
    shadow_train: Data
    shadow_test: Data


def halves(dataset: Dataset, *, shuffled: bool = True) -> Halves:
    """The split of DPMLBench: half of the training rows for the target, half for its shadow.

    At most the first 10,000 rows of the test part are halved in the same way. The paper splits in file
    order (`shuffled=False`); the default uses the fixed public order, because some files are sorted.
    """
    half, test_half = len(dataset.train) // 2, min(len(dataset.test), 10_000) // 2
    train, shadow_train = parts(dataset.train, half, half, shuffled=shuffled)
    test, shadow_test = parts(dataset.test, test_half, test_half, shuffled=shuffled)
    return Halves(train=train, test=test, shadow_train=shadow_train, shadow_test=shadow_test)
