"""Small settings that the tests of studies share."""

from __future__ import annotations

from dataclasses import replace

from research.studies._trials import Setting, Trial

LINEAR = {"name": "linear", "inputs": 5, "outputs": 2}
FCN = {"name": "fcn", "inputs": 5, "hidden": [16, 8], "outputs": 2, "dropout": 0.5}
ONE = Setting(architecture=LINEAR, batch=30, steps=20, lr=1.0, noise=1.0)
NETWORK = Setting(architecture=FCN, batch=60, steps=12, lr=1.0, noise=0.5)


def trials(count: int, setting: Setting = ONE, **changed: object) -> list[Trial]:
    changed_setting = replace(setting, **changed)  # type: ignore[arg-type]
    return [Trial(curve="one", x=1.0, seed=seed, setting=changed_setting) for seed in range(count)]
