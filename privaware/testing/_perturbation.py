"""The noise that a release implies: for objective perturbation, and for iterations that release only the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from privaware.noise import Perturbed

Map = Callable[[np.ndarray], np.ndarray]


class Certified:
    """A problem whose solutions are compared with the tolerance it declares; `worst` is the largest ratio."""

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
    """How far one row moved the noise vector that a release implies, over what was declared.

    `before` and `now` are implied vectors with the log volume as last column. Compared are the vectors'
    distance with the sensitivity, the volumes with theirs, and, for the gamma distribution, the exact privacy loss
    at the release with the epsilon of its price; a Gaussian price may not claim more noise than there is.
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
    """The same map, which records its arguments and results."""

    def watched(at: np.ndarray) -> np.ndarray:
        image = move(at)
        records.append(np.stack([at, image]))
        return image

    return watched


def chain_ratio(before: np.ndarray, now: np.ndarray, sensitivity: float) -> float:
    """How many maps the row moved, if more than the one it may, or how far, over the sensitivity."""
    distance = np.linalg.norm((now[:, 1] - before[:, 1]).reshape(len(now), -1), axis=1)
    tolerance = 1e-9 * (sensitivity + np.abs(before).max(initial=0.0))
    changed = int((distance > tolerance).sum())
    return float(changed) if changed > 1 else float(np.max(distance - tolerance, initial=0.0)) / sensitivity


def widest_stretch(maps: Sequence[Map], points: np.ndarray, images: np.ndarray) -> float:
    """The largest distance of two images over that of their points, each map tried on the next one's point."""
    worst = 0.0
    for here, move in enumerate(maps):
        other = points[(here + 1) % len(maps)]
        distance = float(np.linalg.norm(other - points[here]))
        image = float(np.linalg.norm(move(other) - images[here]))
        worst = max(worst, (image - 1e-12) / max(distance, 1e-300))
    return worst
