"""Noise against input size."""

from __future__ import annotations

import pytest

from privaware.errors import WrongInput
from research.studies._trials import Setting
from research.studies.input_size import input_size


def test_redundant_inputs_increase_distance_and_lower_accuracy() -> None:
    study = input_size((10, 200), Setting(batch=100, steps=50, lr=0.5, noise=4.0), rows=1000, test_rows=500, repeats=12)
    [few, many] = [[p.mean for p in study.distances if p.curve == f"{n} inputs"][-1] for n in (10, 200)]
    assert few < many
    assert study.points[0].mean > study.points[1].mean
    with pytest.raises(WrongInput):
        input_size((15,))
