"""The crossover epsilon: the budget up to which the simpler of two models, or of two sets of columns, is the better.

Both are trained at each epsilon as often as asked, and the last crossing of their curves is reported with an interval
from paired repeats, by straight lines in log epsilon. It is 0 when the simple model never wins (the paper's definition,
the maximum of an empty set, says infinity there, which would always choose it), and "above X" when it still wins at X,
the largest epsilon tried.

Paper: Bao, Bauer and Bindschaedler, Definition 2 and section VI-C. They report one curve each; differences of a point
on fewer than five repeats mean nothing, hence the interval.
Privacy: this releases many models: all of them, composed, are charged before a row is read. On the user's own rows a
quarter is held out, and only noisy scores on it are released, which cost no more than the trainings. On built-in data
the test part is public and scored exactly: an evaluation.
Use when: you choose between a simple and a complex model, on public data like yours, before you spend anything.

>>> models = {"simple": "majority", "complex": "linear:steps=20"}
>>> result = crossover("wisconsin", **models, epsilons=[0.01, 3.0], repeats=2, seed=1)
>>> result.crossover.estimate < 3, result.evaluation, sorted(result.curves)
(True, True, ['complex', 'simple'])
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from privaware._validate import expect
from privaware.workflow._comparison import ComparisonScores, correct
from privaware.workflow._comparison_plan import EVALUATION, comparison_plan
from privaware.workflow._contenders import Contender, contender
from privaware.workflow._crossing import Crossing, crossing
from privaware.workflow._curves import Point, Result, lines, point
from privaware.workflow.run.charge import ChargedRun, charged_run
from privaware.workflow.run.options import RunArguments, RunOptions, shows_run_options

__all__ = ["crossover", "Crossover", "Crossing", "crossing"]

FILE = "crossover.json"
"""Name of the file of results."""

PLOT = "crossover.svg"
"""Name of the file of the chart."""


@dataclass(frozen=True, kw_only=True)
class Crossover(Result):
    """The crossover, both curves and their total cost."""

    crossover: Crossing | None
    curves: dict[str, list[Point]]
    epsilon: float
    delta: float
    models: dict[str, Contender]
    repeats: int
    evaluation: bool
    note: str
    plan: list[str] = field(repr=False)
    certified: bool
    seconds: float
    out: str | None

    @classmethod
    def of(
        cls, run: ChargedRun, sides: Mapping[str, Contender], epsilons: Sequence[float], table: np.ndarray | None
    ) -> Crossover:
        """The result of a run from its scores (sides, epsilons, repeats); a dry one has none."""
        curves: dict[str, list[Point]] = {name: [] for name in sides}
        if table is not None:
            for name, rows in zip(sides, table, strict=True):
                curves[name] = [
                    point(name, epsilon, scores.tolist(), share=True) for epsilon, scores in zip(epsilons, rows)
                ]
        return cls(
            crossover=None if table is None else crossing(epsilons, table[0].T, table[1].T),
            curves=curves,
            epsilon=run.plan.epsilon,
            delta=run.plan.delta,
            models=dict(sides),
            repeats=int(run.plan.settings["repeats"]),
            evaluation=run.source.builtin,
            note=EVALUATION if run.source.builtin else "all training runs and noisy scores are charged",
            plan=run.plan.sentences,
            certified=run.certified,
            seconds=run.seconds,
            out=run.out,
        )

    def json(self) -> dict[str, Any]:
        """The fields of `privaware crossover --json`."""
        curves = {name: [_point_json(each) for each in points] for name, points in self.curves.items()}
        crossing = None if self.crossover is None else self.crossover.json()
        models = {name: each.json() for name, each in self.models.items()}
        return {**vars(self), "crossover": crossing, "curves": curves, "models": models}

    def chart(self) -> Any:
        """Both curves with their intervals."""
        return lines([each for points in self.curves.values() for each in points], y="score")


def _point_json(point: Point) -> dict[str, Any]:
    return {"epsilon": point.x, **{name: value for name, value in vars(point).items() if name not in ("x", "curve")}}


@shows_run_options
def crossover(
    data: Any,
    *,
    simple: str | Mapping[str, Any],
    complex: str | Mapping[str, Any],
    epsilons: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0),
    repeats: int = 5,
    settings: Mapping[str, Any] | None = None,
    device: str = "cpu",
    **run_options: Unpack[RunArguments],
) -> Crossover:
    """Find the epsilon up to which the simpler of two models is better. Every training run is charged.

    Parameters
    ----------
    data
        A path, a DataFrame or the name of a built-in data set.
    simple, complex
        The two models: a learner such as "linear" or "linear:columns=age+town,steps=50", a published model, or a
        mapping.
    epsilons
        The epsilons to try, in ascending order.
    repeats
        The number of times that each model is trained at each epsilon.
    settings
        Hyper-parameters of both learners.
    device
        "cpu" or "cuda".
    **run_options
        The options that all charged functions share: `target`, `task`, `delta`, `schema`, `accept_schema`,
        `private_schema`, `unit`, `cap`, `header`, `sep`, `decimal`, `encoding`, `ledger`, `new_ledger`, `limit`,
        `dry_run`, `out`, `seed`, `sign` and `say`. `RunArguments` in `privaware.workflow.run.options` describes them.

    Returns
    -------
    Crossover
        The crossover epsilon and both curves of scores. With `out`, crossover.json and a plot are written to that
        folder.

    Examples
    --------
    >>> plan = crossover("wisconsin", simple="majority", complex="linear", epsilons=[0.1, 1.0], repeats=2, dry_run=True)
    >>> plan.epsilon > 1.0  # every training is charged
    True
    """
    grid = _grid(epsilons, repeats)
    sides = {"simple": contender(simple, settings), "complex": contender(complex, settings)}
    options = RunOptions.of(run_options, device=device)
    with charged_run("crossover", data, options) as run:
        plan = comparison_plan(run.source, sides, grid, repeats, options)
        if run.charge(plan, what=f"crossover on {run.source.name}"):
            result = Crossover.of(run, sides, grid, _score_table(run, (len(sides), len(grid), repeats)))
            run.publish_result(FILE, result.json())
        else:
            result = Crossover.of(run, sides, grid, None if run.result is None else _published_table(run.result, sides))
    if run.out is not None and not (Path(run.out) / PLOT).exists():
        result.plot(Path(run.out) / PLOT)
    return result


def _grid(epsilons: Sequence[float], repeats: int) -> list[float]:
    grid = [float(epsilon) for epsilon in epsilons]
    rising = bool(grid) and sorted(set(grid)) == grid and 0 < grid[0] <= grid[-1] < 1e6
    expect(rising, "", "epsilons in rising order above 0 and below a million", grid)
    valid = isinstance(repeats, int) and not isinstance(repeats, bool) and 1 <= repeats <= 1000
    expect(valid, "", "repeats as a whole number from 1 to 1000", repeats)
    return grid


def _published_table(record: Mapping[str, Any], sides: Mapping[str, Contender]) -> np.ndarray:
    """(sides, epsilons, repeats): the scores of a run that has ended before."""
    return np.array([[each["scores"] for each in record["curves"][name]] for name in sides])


def _score_table(run: ChargedRun, shape: tuple[int, int, int]) -> np.ndarray:
    """(sides, epsilons, repeats): noisy scores as they were released, or exact ones on public test rows."""
    released: ComparisonScores = run.execute()
    if released.scores is not None:
        return released.scores
    test = run.test_rows
    assert test is not None
    began = time.perf_counter()
    scores = [correct(model, test) / len(test) for model in released.models]
    run.seconds += time.perf_counter() - began
    return np.array(scores).reshape(shape)
