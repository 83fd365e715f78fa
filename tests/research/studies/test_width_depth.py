"""Width against depth under noise."""

from __future__ import annotations

from pathlib import Path

from research.studies._trials import Setting, synthetic_examples
from research.studies.width_depth import width_depth


def test_noise_hurts_depth_more_than_width(tmp_path: Path) -> None:
    setting = Setting(batch=200, steps=40, lr=0.5, noise=2.0)
    study = width_depth(synthetic_examples(600), setting, widths=(16,), depths=(6,), units=16, plain_lr=0.5, repeats=3)
    last = {point.curve: point.mean for point in study.points}
    assert last["wider, DP-SGD"] > last["deeper, DP-SGD"]
    assert "evaluation" in study.note
    assert study.plot(tmp_path / "w.svg").read_text().startswith("<svg")
