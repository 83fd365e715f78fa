"""Noise multiplier and accuracy by batch size."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from research.studies._trials import Outcome, Setting, Trial, synthetic_examples
from research.studies.batch_noise import batch_noise, by_setting, curves_by_batch
from tests.research.studies.examples import ONE


def test_learning_rate_proportional_to_batch_gives_equal_curves() -> None:
    study = curves_by_batch(
        synthetic_examples(600), replace(ONE, lr=0.3), {30: 0.5, 60: 0.7, 120: 1.0}, epochs=6, repeats=3
    )
    assert study.apart < 0.1
    assert len(study.points) == 3 * 6


def test_noise_grows_with_the_root_of_the_sampling_rate(tmp_path: Path) -> None:
    study = batch_noise(50_000, (2048, 4096, 8192), epochs=60, epsilon=3.0, delta=1e-5)
    assert 0.45 < study.slope < 0.5
    assert study.noise(8192 / 50_000) == pytest.approx(4.578 * 0.96, rel=0.05)  # less data norm
    assert json.loads(json.dumps(study.json()))["slope"] == study.slope
    assert study.plot(tmp_path / "noise.png").read_bytes().startswith(b"\x89PNG")


def test_median_and_maximum_over_the_other_settings() -> None:
    outcomes = [
        Outcome(
            trial=Trial(curve="", x=0, seed=0, setting=Setting(architecture={}, batch=b, steps=1, lr=r)),
            steps=(1,),
            scores=(score,),
        )
        for b, r, score in [(1, 1, 0.1), (1, 2, 0.5), (1, 3, 0.9), (2, 1, 0.3), (2, 2, 0.2)]
    ]
    study = by_setting(outcomes, {"batch": lambda s: s.batch})
    assert study["batch"][1] == {"median": 0.5, "maximum": 0.9}
    assert study["batch"][2] == {"median": 0.25, "maximum": 0.3}
