"""Check releases by the noise that they imply: objective perturbation, and iterations that release the last value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from privaware.noise import Perturbed

Map = Callable[[np.ndarray], np.ndarray]


class Certified:
    """A problem of objective perturbation that checks its own solutions; it wraps `problem` and is used in its place.

    A solution implies a noise vector, for which it is the exact minimiser. `worst` is the largest distance between the
    implied and the drawn noise vector in the last call of `solve`, divided by the declared tolerance.
    """

    def __init__(self, problem: Perturbed) -> None:
        self.problem, self.worst = problem, 0.0
        self.masks, self.tolerance, self.slack = problem.masks, problem.tolerance, problem.slack

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        solutions = self.problem.solve(vectors)
        distance = np.linalg.norm(self.implied(solutions)[0] - vectors, axis=1)
        self.worst = float(np.max(distance / self.tolerance, initial=0.0))
        return solutions

    def implied(self, released: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.problem.implied(released)


def perturbed_ratio(before: np.ndarray, now: np.ndarray, public: dict[str, Any]) -> float:
    """Return the largest ratio of what one row changes to what was declared in `public`, the settings of the call.

    `before` and `now` are the noise vectors that a release implies on the two data sets, with the log volume as last
    column. The compared quantities are:

    1. the distance of the vectors, with the declared sensitivity;
    2. the difference of the log volumes, with the declared volume;
    3. for the gamma distribution, the exact privacy loss at the release, with the epsilon of the stated event;
    4. for the Gaussian distribution, the noise multiplier of the stated event, with the noise multiplier in use (only
       if the noise multiplier of the stated event is larger).
    """
    tolerance = 1e-9 * (1 + np.abs(before).max(axis=1))
    distance = np.linalg.norm(now[:, :-1] - before[:, :-1], axis=1) - tolerance
    volume = before[:, -1] - now[:, -1]
    ratios = [distance / public["sensitivity"], (np.abs(volume) - tolerance) / public["volume"]]
    scale = public["noise"] * public["sensitivity"]
    longer = np.linalg.norm(now[:, :-1], axis=1) - np.linalg.norm(before[:, :-1], axis=1)
    loss = np.abs(longer / scale + volume) - tolerance / scale
    for at, event in enumerate(public["price"]):
        if public["distribution"] == "gamma":
            ratios.append(loss[[at]] / getattr(event, "epsilon", 1e-300))
        elif getattr(event, "noise", 0.0) > public["noise"][at]:
            ratios.append(np.array([event.noise / public["noise"][at]]))
    return float(max(np.max(ratio, initial=0.0) for ratio in ratios))


def recording(move: Map, records: list[np.ndarray]) -> Map:
    """Return a map that works like `move`, and also appends `np.stack([point, image])` to `records` at each call."""

    def watched(at: np.ndarray) -> np.ndarray:
        image = move(at)
        records.append(np.stack([at, image]))
        return image

    return watched


def chain_ratio(before: np.ndarray, now: np.ndarray, sensitivity: float) -> float:
    """Return how much one row changes a chain of maps, relative to the declared `sensitivity`.

    If more than one map changes, return the number of changed maps. If one map changes, return the distance of its two
    images divided by `sensitivity`. If none changes by more than rounding error, return 0. `before` and `now` are for
    the two data sets. In both, the first axis has the maps, and the second axis has the point and the image of a map.
    """
    distance = np.linalg.norm((now[:, 1] - before[:, 1]).reshape(len(now), -1), axis=1)
    tolerance = 1e-9 * (sensitivity + np.abs(before).max(initial=0.0))
    changed = int((distance > tolerance).sum())
    return float(changed) if changed > 1 else float(np.max(distance - tolerance, initial=0.0)) / sensitivity


def widest_stretch(maps: Sequence[Map], points: np.ndarray, images: np.ndarray) -> float:
    """Return the largest ratio of the distance of two images to the distance of their points.

    `points[i]` is the point that map i was applied to, and `images[i]` its image. Each map is tried on its own point
    and on the next map's point (the last map on the first map's point).
    """
    worst = 0.0
    for here, move in enumerate(maps):
        other = points[(here + 1) % len(maps)]
        distance = float(np.linalg.norm(other - points[here]))
        image = float(np.linalg.norm(move(other) - images[here]))
        worst = max(worst, (image - 1e-12) / max(distance, 1e-300))
    return worst
