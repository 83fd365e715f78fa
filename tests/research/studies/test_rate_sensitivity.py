"""Sensitivity to the learning rate."""

from __future__ import annotations

from dataclasses import replace

from research.studies._trials import synthetic_examples
from research.studies.rate_sensitivity import rate_sensitivity
from tests.research.studies.examples import ONE


def test_best_rate_depends_on_clipping_norm() -> None:
    small, large = replace(ONE, norm=0.01), replace(ONE, norm=1.0)
    study = rate_sensitivity(synthetic_examples(), {"small": small, "large": large}, (0.001, 1.0, 300.0), repeats=3)
    assert study.best["small"] > study.best["large"]
    assert set(study.winners) == {0.001, 1.0, 300.0}
