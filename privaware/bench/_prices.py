"""Noise multipliers that were computed before, in a file: a machine without dp-accounting only looks them up."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from privaware import accounting
from privaware.accounting import DEFAULT_DELTA
from privaware.errors import WrongInput
from privaware.events import Event


@dataclass
class Prices:
    """Noise multipliers by name (`known`), read from the JSON file `path` if it exists.

    A noise multiplier in `known` takes precedence over the noise multiplier of the same name in the file. With
    `record`, a noise multiplier that has to be computed is also written to the file.
    """

    path: Path
    record: bool = False
    known: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path.exists():
            self.known = {**json.loads(self.path.read_text()), **self.known}

    def calibrated(
        self, key: str, cost: Callable[[float], Event], epsilon: float, delta: float = DEFAULT_DELTA
    ) -> float:
        """Return the noise multiplier called `key`, at which `cost(noise)` is (epsilon, delta)-DP.

        `privaware.accounting` computes a noise multiplier that is not stored; with `record` it is written to the file.
        A `delta` other than `DEFAULT_DELTA` must be part of `key`.
        """
        return self.look_up(key, lambda: accounting.calibrate(cost, epsilon, delta))

    def look_up(self, key: str, compute: Callable[[], float]) -> float:
        """Return the stored number called `key`, or the result of `compute`, which is written to the file if `record`.

        Raise `WrongInput` if a package that `compute` needs is not installed.
        """
        if key not in self.known:
            try:
                self.known[key] = compute()
            except ImportError as problem:
                raise WrongInput(
                    f"expected the noise multiplier of {key!r} in {self.path.name}, got none, and it cannot be "
                    f"computed ({problem}); install dp-accounting and run "
                    f"`privaware reproduce {self.path.stem} --prices`"
                ) from None
            if self.record:
                self.path.write_text(json.dumps(dict(sorted(self.known.items())), indent=1) + "\n")
        return self.known[key]
