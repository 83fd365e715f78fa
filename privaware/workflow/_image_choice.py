"""What `auto` takes for images: a representation without privacy cost, and a linear head on it.

>>> from privaware.schema import Schema
>>> digits = Schema(form="image", shape=(1, 28, 28), classes=tuple("0123456789"), rows=60_000)
>>> [feature["name"] for feature in image_choice(digits, epsilon=1.0).settings["features"]]
['scatter', 'group_norm']
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from privaware.schema import Schema
from privaware.workflow._choice import Choice

__all__ = ["image_choice", "scattering", "scattering_evidence"]

EVIDENCE = Path(__file__).with_name("image_evidence.json")
"""Scores of representations, written by `python -m privaware.papers._image_evidence`."""
SIDE = 32
"""Larger images are resized to this side: the columns of scattering grow with the area."""
LARGEST_SIDE = 40
SMALLEST_SIDE = 4
"""Scattering needs so many pixels a side."""
PATIENCE = 1200.0
"""Seconds that features and training may take where no time limit is given."""
LARGEST_BYTES = 5e9
"""Memory for the features of all rows."""
MULTIPLICATION = 2e-10
"""Seconds for a multiplication of the head's gradient on two cores."""
STEPS = 100
ENOUGH_GREY = 20_000
"""Rows x epsilon from which scattering beside the prior gains a point at most on grey images."""


@dataclass(frozen=True, kw_only=True)
class Representation:
    """Features of an image, how long one image takes on two cores and on a GPU, and how many columns it gives."""

    words: str
    features: tuple[dict[str, Any], ...]
    columns: int
    seconds: float
    gpu_seconds: float = 2e-4

    def minutes(self, schema: Schema, device: str) -> float:
        """About how long features and head take."""
        head = self.columns * max(len(schema.classes), 1) * STEPS * MULTIPLICATION
        each = self.gpu_seconds if device != "cpu" else self.seconds + head
        return schema.rows * each / 60


def image_choice(schema: Schema, epsilon: float, *, device: str = "cpu", time_limit: float | None = None) -> Choice:
    """The best representation that is fast enough, with a linear head."""
    limit = PATIENCE if time_limit is None else time_limit
    known = representations(schema, epsilon)
    fitting = [
        each
        for each in known
        if 60 * each.minutes(schema, device) <= limit and 4 * schema.rows * each.columns <= LARGEST_BYTES
    ]
    best = fitting[0] if fitting else min(known, key=lambda each: each.seconds)
    minutes = best.minutes(schema, device)
    took = f"about {math.ceil(60 * minutes)} s" if minutes < 2 else f"about {minutes:.0f} minutes"
    where = "two cores" if device == "cpu" else device
    reasons = [f"linear on {best.words}: the best we know that takes {took} on {where} at most"]
    if best is not known[0]:
        longer = known[0].minutes(schema, device)
        reasons.append(f"{known[0].words} would be better, and take about {longer:.0f} minutes: see --time-limit")
    if "wavelet scattering" in best.words:
        reasons.append(scattering_evidence(schema.rows * epsilon))
    return Choice(learner="linear", settings={"features": list(best.features)}, reasons=tuple(reasons))


def representations(schema: Schema, epsilon: float) -> list[Representation]:
    """What suits these images, the most accurate first; the small prior was measured on images in colour only."""
    channels, height, width = schema.shape
    if min(height, width) < SMALLEST_SIDE:
        return [_pixels(schema)]
    wavelets = scattering(schema)
    if channels not in (1, 3):
        return [wavelets]
    if channels == 1 and schema.rows * epsilon >= ENOUGH_GREY:
        return [wavelets]
    return [_prior("large"), wavelets] if channels == 1 else [_prior("large"), _prior("small"), wavelets]


@cache
def _evidence() -> list[dict[str, Any]]:
    return list(json.loads(EVIDENCE.read_text(encoding="utf-8")))


def scattering_evidence(signal: float) -> str:
    """What our own studies say of scattering against pixels, at the rows x epsilon nearest to `signal`."""
    sizes = {record["rows"] * record["epsilon"] for record in _evidence()}
    nearest = min(sizes, key=lambda size: abs(math.log(size / signal)))
    records = [record for record in _evidence() if record["rows"] * record["epsilon"] == nearest]
    gains = sorted(100 * (record["scores"]["scattering"] - record["scores"]["pixels"]) for record in records)
    better = sum(gain > 0 for gain in gains)
    rows, epsilon = records[0]["rows"], records[0]["epsilon"]
    return (
        f"at {rows:,} rows and epsilon {epsilon:g} scattering with a linear head gained {gains[0]:.0f} to "
        f"{gains[-1]:.0f} points over pixels, and was better on {better} of {len(gains)} image sets"
    )


def _prior(size: str) -> Representation:
    """The prior with scattering, over an image and its mirror image: one pass alone lost ten points of 67."""
    words = "features of a network pretrained on synthetic images, with scattering"
    if size == "small":
        feature = {"name": "prior", "size": "small", "scatter": 1.0}
        return Representation(words=f"{words} (the small one)", features=(feature,), columns=19_648, seconds=0.0035)
    return Representation(words=words, features=({"name": "prior", "scatter": 1.0},), columns=20_672, seconds=0.019)


def scattering(schema: Schema) -> Representation:
    """Wavelet scattering, each group of its maps normalised within the image."""
    channels, height, width = schema.shape
    resized = max(height, width) > LARGEST_SIDE
    side, other = (SIDE, SIDE) if resized else (height, width)
    features: list[dict[str, Any]] = [{"name": "resize", "side": SIDE}] if resized else []
    features += [{"name": "scatter"}, {"name": "group_norm", "groups": 27}]
    return Representation(
        words="wavelet scattering",
        features=tuple(features),
        columns=channels * 81 * (side // 4) * (other // 4),
        seconds=0.0006 * channels * (side * other / 784 + 0.2),
    )


def _pixels(schema: Schema) -> Representation:
    return Representation(words="pixels", features=({"name": "pixels"},), columns=math.prod(schema.shape), seconds=1e-5)
