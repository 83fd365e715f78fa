"""Every number that a release carries is compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privaware.testing import example, released_numbers


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"a": 1.0}, {"a": 2.0}),
        ((1, ("x",)), (1, ("y",))),
        (np.array(["p", "q"], dtype=object), np.array(["p", "r"], dtype=object)),
        (example(), replace(example(), rows=25)),
        ([np.zeros(2)], [np.zeros(3)]),
        ({"a", "b"}, {"a", "c"}),
        (b"one", b"two"),
        (True, False),
    ],
)
def test_any_difference_between_releases_is_detected(one: Any, two: Any) -> None:
    assert not np.array_equal(released_numbers(one), released_numbers(two))
    assert np.array_equal(released_numbers(one), released_numbers(one))


def test_released_numbers_include_models_and_data_frames() -> None:
    import pandas as pd
    import torch

    module = torch.nn.Linear(2, 1)
    before = released_numbers({"module": module})
    with torch.no_grad():
        module.weight[0, 1] += 1
    assert (released_numbers({"module": module}) != before).sum() == 1
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    changed = frame.assign(b=["x", "z"])
    assert (released_numbers(frame) != released_numbers(changed)).sum() == 1


def test_cyclic_release_is_visited_once() -> None:
    ring: list[Any] = [1.0]
    ring.append(ring)
    assert released_numbers(ring).tolist() == [1.0]


def test_every_closure_of_a_release_is_read() -> None:
    def returning(number: int) -> Callable[[], int]:
        return lambda: number

    assert {7.0, 8.0, 9.0} <= set(released_numbers([returning(number) for number in (7, 8, 9)]))
