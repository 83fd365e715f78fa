"""Where every release is the same, the number of private rows changes nothing: no generator that they moved is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from privaware.learners.dpgen import DpGen
from privaware.learners.dpsgd import DpSgd
from privaware.learners.finetune import Finetune
from privaware.learners.gep import Gep
from privaware.learners.private_set import PrivateSet
from privaware.learners.rgp import Rgp
from privaware.mechanism import Mechanism
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for
from privaware.testing._release import released_numbers
from tests.learners.tiny_prior import tiny_prior

TABLE = Schema(columns=tuple(Column(name=name, low=-1, high=1) for name in "ab"), classes=("n", "y"), rows=24)
IMAGE = Schema(form="image", shape=(1, 3, 3), classes=("n", "y"), rows=24)
FCN = {"name": "fcn", "hidden": [8]}
PUBLIC = rows_for(TABLE, 40, seed=2)
DROPPING = {"name": "cnn", "filters": [2], "kernels": [3], "paddings": [1], "hidden": [4]}
SCORE = {"stages": 0, "levels": 2, "langevin": 1, "steps": 2, "batch": 24}
MATCHING: dict[str, Any] = {"per_class": 1, "networks": 1, "rounds": 2, "queries": 1, "inner": 1, "steps": 2}

LEARNERS: dict[str, tuple[Callable[[], Mechanism[Any]], Schema]] = {
    "dpsgd": (lambda: DpSgd(steps=3, batch=12, architecture=FCN), TABLE),
    "dpsgd, full batches": (lambda: DpSgd(steps=3, batch=24, architecture=FCN), TABLE),
    "dpsgd, copies": (lambda: DpSgd(steps=3, batch=12, copies=2, mirror=True, architecture=DROPPING), IMAGE),
    "gep": (lambda: Gep(public=PUBLIC, steps=3, batch=24, directions=4, blocks=1, refresh=1, architecture=FCN), TABLE),
    "rgp": (lambda: Rgp(steps=3, batch=12, rank=1, architecture=FCN), TABLE),
    "private_set": (lambda: PrivateSet(**MATCHING, private_batch=12, matching=FCN, architecture=FCN), TABLE),
    "dpgen": (lambda: DpGen(variant="corrected", score=SCORE, samples=4, draws=2, steps=1), IMAGE),
    "finetune": (lambda: Finetune(steps=2, head_steps=1, batch=12, frozen=2, copies=2, prior=tiny_prior()), IMAGE),
}


class Fixed(Rng):
    """Every release is the same whatever the rows are: what is left is said to be post-processing."""

    def gaussian(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        if isinstance(exact, torch.Tensor):
            return torch.full_like(exact, 0.01)
        return np.full_like(exact, 0.01) if isinstance(exact, np.ndarray) else 0.01


def released(mechanism: Mechanism[Any], schema: Schema, rows: int) -> np.ndarray:
    return released_numbers(mechanism.run(rows_for(schema, rows, seed=1), 1.0, Fixed(seed=7)))


@pytest.mark.parametrize("name", LEARNERS)
def test_fixed_releases_give_one_model_for_any_number_of_rows(name: str) -> None:
    build, schema = LEARNERS[name]
    expected = released(build(), schema, 24)
    for rows in (1, 23, 25, 49):
        assert np.array_equal(released(build(), schema, rows), expected)
