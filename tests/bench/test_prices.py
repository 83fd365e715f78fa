"""Stored noise multipliers of a bench have the delta of the grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privaware import accounting
from privaware.bench._cells import noise_of
from privaware.bench._prices import Prices
from privaware.events import Event, Gaussian


def release(noise: float) -> Event:
    return Gaussian(noise=noise)


@pytest.mark.parametrize("delta", [1e-5, 1e-7])
def test_noise_multiplier_is_computed_at_the_delta_of_the_grid(tmp_path: Path, delta: float) -> None:
    cell: dict[str, Any] = {"epsilon": 1.0, "delta": delta}
    noise = noise_of(cell, release, Prices(tmp_path / "prices.json"))
    assert noise == noise_of(cell, release, None)
    assert accounting.epsilon(release(noise), delta) == pytest.approx(1.0, rel=1e-3)
