"""Many objective perturbations on the same large table, side by side on a processor or a GPU.

The same problem and constants as `privaware.learners.objective_perturbation.fit_many` with the published analysis and
one row replaced; written for tens of thousands of rows and thousands of draws of the noise on one set
of columns. Rows that are alike are taken once and counted; products of columns are made once a set;
every problem starts at the minimum without noise and leaves when it has reached its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privaware.learners._prices import chaudhuri

ENTRIES = {"cpu": 2**24, "cuda": 2**28}
"""Numbers held at once: rows times problems."""

CLOSE = 1e-9
"""Length of the gradient at which a problem is done, over that of its noise."""


class Newton:
    """`scores(mask, epsilons)` on the test rows of a table."""

    def __init__(self, table: Any, device: str) -> None:
        import torch

        self.torch, self.table, self.device = torch, table, device
        self.generator = np.random.default_rng(0)
        self.x, self.x_test = self._with_one(table.x), self._with_one(table.x_test)
        self.sign = self._tensor(2.0 * table.y - 1)
        self.goal = self._tensor(table.y_test).bool()
        self.spread = self._tensor(np.random.default_rng(1).random(self.x.shape[1]))

    def scores(self, mask: np.ndarray, epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Accuracy of each of `epsilons`, with a draw of its own; and how often each row is right.

        The second has one line for each different epsilon, in order of size.
        """
        torch = self.torch
        keep = torch.from_numpy(np.append(np.flatnonzero(mask), len(mask))).to(self.device)
        problem, test = self._problem(keep), self.x_test[:, keep]
        different, which = np.unique(epsilons, return_inverse=True)
        share = torch.zeros(len(different), len(test), dtype=torch.float64, device=self.device)
        start = self._solved(problem, *self._noise(mask, np.array([np.inf])), None)
        made, step = [], max(1, ENTRIES[self.device] // len(problem.rows))
        for at in range(0, len(epsilons), step):
            weights = self._solved(problem, *self._noise(mask, epsilons[at : at + step]), start)
            right = (((weights @ test.T) > 0) == self.goal).double()
            made.append(right.mean(dim=1).cpu().numpy())
            place = torch.from_numpy(which[at : at + step]).to(self.device)
            share.index_add_(0, place, right)
        return np.concatenate(made), share.cpu().numpy() / np.bincount(which)[:, None]

    def _noise(self, mask: np.ndarray, epsilons: np.ndarray) -> tuple[Any, Any]:
        """The linear term and the ridge of each problem; none of it at infinity."""
        norm, columns = float(self.table.norms(mask[None])[0]), int(mask.sum()) + 1
        known = [(np.inf, 1.0) if e == np.inf else chaudhuri(e, 1.0, norm) for e in epsilons]
        left, ridge = np.array(known).T
        draw = self.generator.standard_normal((len(epsilons), columns))
        draw /= np.linalg.norm(draw, axis=1, keepdims=True)
        size = self.generator.gamma(columns, 1.0, size=len(epsilons)) * 2 * norm / left
        return self._tensor(draw * size[:, None]), self._tensor(ridge[:, None])

    def _problem(self, keep: Any) -> _Problem:
        """Distinct signed rows with their counts: rows alike have the same random combination."""
        torch = self.torch
        signed = self.x[:, keep] * self.sign[:, None]
        mixed = signed @ self.spread[keep]
        _, place, count = torch.unique(mixed, return_inverse=True, return_counts=True)
        first = torch.empty(len(count), dtype=torch.long, device=self.device)
        first[place] = torch.arange(len(place), device=self.device)
        return _Problem(torch, signed[first], count.double())

    def _solved(self, problem: _Problem, tilt: Any, ridge: Any, start: Any) -> Any:
        """Exact minimisers (problems, columns), by damped Newton steps."""
        torch = self.torch
        w = torch.zeros_like(tilt) if start is None else start.repeat(len(tilt), 1)
        live = torch.arange(len(tilt), device=self.device)
        enough = CLOSE * (tilt.norm(dim=1) + 1)
        for _ in range(80):
            here, noise, own = w[live], tilt[live], ridge[live]
            margin = here @ problem.rows.T
            wrong = torch.sigmoid(-margin)
            gradient = -((wrong * problem.count) @ problem.rows) + own * here + noise
            far = gradient.norm(dim=1) > enough[live]
            if not bool(far.any()):
                return w
            if not bool(far.all()):
                live = live[far]
                here, noise, own, margin, wrong, gradient = (
                    part[far] for part in (here, noise, own, margin, wrong, gradient)
                )
            way = -problem.divided(wrong, own, gradient)
            w[live] = here + problem.length(margin, here, way, own, noise, gradient) * way
        raise RuntimeError("Newton steps did not reach the minimum")

    def _with_one(self, x: np.ndarray) -> Any:
        return self._tensor(np.hstack([x, np.ones((len(x), 1))]))

    def _tensor(self, values: np.ndarray) -> Any:
        return self.torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64)).to(self.device)


class _Problem:
    """Signed rows, how often each occurs, and the arithmetic of a Newton step on many weights at once."""

    def __init__(self, torch: Any, rows: Any, count: Any) -> None:
        self.torch, self.rows, self.count = torch, rows, count
        columns = rows.shape[1]
        self.upper = torch.triu_indices(columns, columns, device=rows.device)
        self.products = rows[:, self.upper[0]] * rows[:, self.upper[1]] * count[:, None]

    def divided(self, wrong: Any, ridge: Any, gradient: Any) -> Any:
        """The gradient over the Hessian."""
        torch, columns = self.torch, self.rows.shape[1]
        flat = (wrong * (1 - wrong)) @ self.products
        hessian = flat.new_zeros(len(flat), columns, columns)
        hessian[:, self.upper[1], self.upper[0]] = flat
        hessian.diagonal(dim1=1, dim2=2).add_(ridge)
        factor, _ = torch.linalg.cholesky_ex(hessian)
        return torch.cholesky_solve(gradient[:, :, None], factor)[:, :, 0]

    def length(self, margin: Any, w: Any, way: Any, ridge: Any, tilt: Any, gradient: Any) -> Any:
        """1 where the value falls by a whole step, else a half, and so on."""
        torch, soft = self.torch, self.torch.nn.functional.softplus
        along, fall = way @ self.rows.T, (gradient * way).sum(dim=1)

        def value(size: Any, at: Any) -> Any:
            moved = w[at] + size * way[at]
            rest = ((ridge[at] / 2 * moved + tilt[at]) * moved).sum(dim=1)
            return soft(-(margin[at] + size * along[at])) @ self.count + rest

        size = torch.ones_like(ridge)
        before = value(0 * size, slice(None))
        bad = torch.arange(len(w), device=w.device)
        for _ in range(40):
            short = 1e-4 * size[bad, 0] * fall[bad] + 1e-11 * before[bad].abs()
            bad = bad[value(size[bad], bad) > before[bad] + short]
            if not len(bad):
                break
            size[bad] /= 2
        return size
