"""Many objective perturbations on the same large table, side by side on a processor or a GPU.

The same problem and constants as `privaware.learn.objective.fit_many` with the published analysis and
one row replaced; written for tens of thousands of rows and a thousand repeats of one set of columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privaware.learn._prices import chaudhuri

ENTRIES = {"cpu": 2**24, "cuda": 2**30}
"""Numbers held at once: rows times problems."""

FEW = 32
"""Up to so many problems, one Hessian after another is quicker than products of all pairs of columns."""


class Newton:
    """`accuracies(mask, epsilon, repeats)` on the test rows of a table."""

    def __init__(self, table: Any, device: str) -> None:
        import torch

        self.torch, self.table, self.device = torch, table, device
        self.generator = np.random.default_rng(0)

    def accuracies(self, mask: np.ndarray, epsilon: float, repeats: int) -> np.ndarray:
        """One number for each of `repeats` draws of the noise."""
        rows, test = (self._rows(part, mask) for part in (self.table.x, self.table.x_test))
        step = max(1, ENTRIES[self.device] // len(rows))
        made = []
        for at in range(0, repeats, step):
            weights = self.weights(rows, mask, epsilon, min(step, repeats - at))
            goal = self._tensor(self.table.y_test).bool()
            made.append(
                (((test @ weights.T) > 0) == goal[:, None]).double().mean(dim=0).cpu().numpy()
            )
        return np.concatenate(made)

    def weights(self, rows: Any, mask: np.ndarray, epsilon: float, repeats: int) -> Any:
        """Exact minimisers (repeats, columns), by damped Newton steps."""
        torch, columns = self.torch, rows.shape[1]
        norm = float(self.table.norms(mask[None])[0])
        left, ridge = chaudhuri(epsilon, 1.0, norm)
        draw = self.generator.standard_normal((repeats, columns))
        draw /= np.linalg.norm(draw, axis=1, keepdims=True)
        size = self.generator.gamma(columns, 2 * norm / left, size=(repeats, 1))
        tilt, sign = self._tensor(draw * size), self._tensor(2.0 * self.table.y - 1)
        signed = rows * sign[:, None]
        w = torch.zeros(repeats, columns, dtype=torch.float64, device=self.device)
        for _ in range(60):
            wrong = torch.sigmoid(-(w @ signed.T))
            gradient = -(wrong @ signed) + ridge * w + tilt
            if float((gradient.norm(dim=1) / (tilt.norm(dim=1) + 1)).max()) < 1e-9:
                return w
            direction = -self._solved(rows, wrong * (1 - wrong), ridge, gradient)
            w = self._moved(signed, w, direction, ridge, tilt, (gradient * direction).sum(dim=1))
        raise RuntimeError("Newton steps did not reach the minimum")

    def _solved(self, rows: Any, bend: Any, ridge: float, gradient: Any) -> Any:
        torch, columns = self.torch, rows.shape[1]
        upper = torch.triu_indices(columns, columns, device=self.device)
        hessian = torch.empty(len(bend), columns, columns, dtype=torch.float64, device=self.device)
        if len(bend) <= FEW:
            for at, line in enumerate(bend):
                hessian[at] = rows.T @ (rows * line[:, None])
            hessian.diagonal(dim1=1, dim2=2).add_(ridge)
            return torch.linalg.solve(hessian, gradient)
        step = max(1, ENTRIES[self.device] // len(rows))
        for at in range(0, upper.shape[1], step):
            i, j = upper[0, at : at + step], upper[1, at : at + step]
            flat = bend @ (rows[:, i] * rows[:, j])
            hessian[:, i, j] = flat
            hessian[:, j, i] = flat
        hessian.diagonal(dim1=1, dim2=2).add_(ridge)
        return torch.linalg.solve(hessian, gradient)

    def _moved(
        self, signed: Any, w: Any, direction: Any, ridge: float, tilt: Any, fall: Any
    ) -> Any:
        """The whole step where the value falls, else a half of it, and so on."""
        torch = self.torch

        def value(at: Any) -> Any:
            margin = at @ signed.T
            return torch.nn.functional.softplus(-margin).sum(dim=1) + (
                (ridge / 2 * at + tilt) * at
            ).sum(dim=1)

        before, size = value(w), torch.ones(len(w), 1, dtype=torch.float64, device=self.device)
        for _ in range(30):
            bad = (
                value(w + size * direction)
                > before + 1e-4 * size[:, 0] * fall + 1e-11 * before.abs()
            )
            if not bool(bad.any()):
                break
            size[bad] /= 2
        return w + size * direction

    def _rows(self, x: np.ndarray, mask: np.ndarray) -> Any:
        return self._tensor(np.hstack([x[:, mask], np.ones((len(x), 1))]))

    def _tensor(self, values: np.ndarray) -> Any:
        return self.torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64)).to(self.device)
