"""Find the crossover epsilon: the budget up to which the simpler of two models, or of two sets of columns, is better.

Both models are trained `repeats` times at each epsilon. The last crossing of their score curves is reported, with an
interval from paired repeats and linear interpolation in log epsilon. The crossover is 0 if the simple model is never
better. (The definition in the paper, the maximum of an empty set, gives infinity, which would always choose the simple
model.) The crossover is "above X" if the simple model is still better at X, the largest epsilon tried.

Paper: Bao, Bauer and Bindschaedler, Definition 2 and section VI-C. The paper reports one curve for each model.
Differences of one point on fewer than five repeats are not significant, so this module adds the interval.
Privacy: this trains many models. The composition of all trainings is charged before a mechanism sees a row. The number
of epsilons and of repeats is chosen so that this cost stays within a total. On private rows, a quarter of the rows is
held out, and only noisy scores on these rows are released; the scores cost no more than the trainings. On built-in data
the trainings are charged to a ledger of the run. The scores are computed exactly on public test rows, and are no
private release.
Use when: you choose between a simple and a complex model, on public data like yours, before you spend budget.

>>> models = {"simple": "majority", "complex": "linear:steps=20"}
>>> result = crossover("wisconsin", **models, epsilons=[0.01, 3.0], repeats=2, seed=1)
>>> result.crossover.estimate < 3, result.evaluation, sorted(result.curves)
(True, True, ['complex', 'simple'])
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from privaware import accounting
from privaware._summary import Summarised
from privaware._validate import expect, expect_positive, typed_arguments
from privaware.errors import BudgetExceeded, for_caller
from privaware.ledger import Ledger
from privaware.report._charts import save, svg
from privaware.workflow._comparison import ComparisonScores, correct
from privaware.workflow._comparison_plan import (
    EVALUATION,
    TOTAL,
    Design,
    advice,
    choose_design,
    comparison_planner,
    designs_sentence,
)
from privaware.workflow._contenders import Contender, contender
from privaware.workflow._crossing import Crossing, crossing
from privaware.workflow._curves import Point, lines, point
from privaware.workflow.run.charge import ChargedRun, charged_run
from privaware.workflow.run.options import RunArguments, RunOptions, shows_run_options
from privaware.workflow.run.plan import Plan

__all__ = ["crossover", "Crossover", "Crossing", "crossing"]

FILE = "crossover.json"
"""Name of the file with the results."""

PLOT = "crossover.svg"
"""Name of the file with the chart."""

CHARGED = "all training runs and noisy scores are charged"
"""The note of a result on private rows: what was charged."""

DRY = "this is a dry run, so nothing was charged"
"""The note of a dry run: what was charged."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Crossover(Summarised):
    """The crossover epsilon, both score curves, and the total cost; `models` are the two models by their names.

    In a dry run `crossover` is None, and the curves have no points. `repeats` is the number of trainings of each model
    at each epsilon. `note` says what was charged, or for built-in data what the scores are. `plan` are the sentences of
    the plan. `certified` is false if the run has a seed, the plan has a flaw, or the schema was not reviewed. `seconds`
    is the running time. `out` is the folder of the result, or None. `evaluation` says whether the scores are exact
    scores on the public test rows of a built-in data set; otherwise they are noisy scores on held-out private rows.
    """

    crossover: Crossing | None
    curves: dict[str, list[Point]]
    epsilon: float
    delta: float
    models: dict[str, Contender]
    repeats: int
    evaluation: bool
    note: str
    plan: list[str]
    certified: bool
    seconds: float
    out: str | None

    @classmethod
    def of(
        cls, run: ChargedRun, sides: Mapping[str, Contender], epsilons: Sequence[float], table: np.ndarray | None
    ) -> Crossover:
        """Build the result of a run from `table`, the scores of shape (sides, epsilons, repeats).

        `table` is None for a dry run.
        """
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
            note=DRY if table is None else EVALUATION if run.source.builtin else CHARGED,
            plan=[*map(for_caller, run.plan.sentences)],
            certified=run.certified,
            seconds=run.seconds,
            out=run.out,
        )

    def _facts(self) -> dict[str, Any]:
        ends = {} if self.crossover is None else {name: getattr(self.crossover, name) for name in ("low", "high")}
        guarantee = {"epsilon": self.epsilon, "delta": self.delta, "certified": self.certified}
        return {**ends, "models": [each.name for each in self.models.values()], **guarantee, "out": self.out}

    def _words(self) -> str:
        crossed = "" if self.crossover is None else f"{self.crossover.sentence} "
        return f"{crossed}{self.note[:1].upper()}{self.note[1:]}."

    def json(self) -> dict[str, Any]:
        """Return the fields of `privaware crossover --json`."""
        curves = {name: [_point_json(each) for each in points] for name, points in self.curves.items()}
        crossing = None if self.crossover is None else self.crossover.json()
        models = {name: each.json() for name, each in self.models.items()}
        return {**vars(self), "crossover": crossing, "curves": curves, "models": models}

    def chart(self) -> Any:
        """Return a chart of both curves with their intervals."""
        return lines([each for points in self.curves.values() for each in points], y="score")

    def plot(self, path: str | Path) -> Path:
        """Write the chart to `path` as PNG, SVG or PDF, by the suffix of `path`, and return the path."""
        return save(self.chart(), Path(path))


def _point_json(point: Point) -> dict[str, Any]:
    return {"epsilon": point.x, **{name: value for name, value in vars(point).items() if name not in ("x", "curve")}}


@shows_run_options
@typed_arguments
def crossover(
    data: Any,
    *,
    simple: str | Mapping[str, Any],
    complex: str | Mapping[str, Any],
    epsilons: Sequence[float] | None = None,
    repeats: int | None = None,
    total: float | None = None,
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
        The epsilons to try, in ascending order. Default: as many of 0.1, 0.3, 1, 3, 10 as the total allows.
    repeats
        The number of times that each model is trained at each epsilon. Default: as many as the total allows, up to 5.
    total
        The largest total epsilon of all trainings and scores. A given total is the limit of a new ledger unless `limit`
        is given. Default: 5, or `limit` if it is smaller; for built-in data, which are public, no bound. If no design
        with these `epsilons` and `repeats` fits, `BudgetExceeded` names a smaller design that fits, if any does.
    settings
        Hyper-parameters of both learners.
    device
        "cpu" or "cuda".
    **run_options
        The options that all charged functions share: `target`, `task`, `delta`, `schema`, `accept_schema`,
        `private_schema`, `kinds`, `unit`, `cap`, `not_persons`, `check_persons`, `header`, `sep`, `decimal`,
        `encoding`, `ledger`, `new_ledger`, `limit`, `dry_run`, `out`, `seed`, `sign`, `say` and `verbose`.
        `RunArguments` in `privaware.workflow.run.options` describes them.

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
    grid = _checked(epsilons, repeats, total)
    sides = {"simple": contender(simple, settings), "complex": contender(complex, settings)}
    options = RunOptions.of(run_options, device=device)
    with charged_run("crossover", data, options) as run:
        planned = comparison_planner(run.source, sides, options)
        bound = _bound(total, run)
        design = choose_design(lambda design: planned(design).epsilon, epsilons=grid, repeats=repeats, total=bound)
        plan = replace(planned(design), total=total)
        if not math.isinf(bound):
            prices = designs_sentence(lambda design: planned(design).epsilon, design, bound)
            plan = replace(plan, reasons=(*plan.reasons, prices))
        if _charged(run, plan, planned, design):
            shape = (len(sides), len(design.epsilons), design.repeats)
            result = Crossover.of(run, sides, design.epsilons, _score_table(run, shape))
            run.publish_result(FILE, result.json(), {} if options.folder is None else {PLOT: svg(result.chart())})
        else:
            curves = None if run.result is None else [run.result["curves"][name] for name in sides]
            table = None if curves is None else np.array([[each["scores"] for each in curve] for curve in curves])
            result = Crossover.of(run, sides, design.epsilons, table)
    if run.out is not None and not (Path(run.out) / PLOT).exists():
        result.plot(Path(run.out) / PLOT)
    return result


def _checked(epsilons: Sequence[float] | None, repeats: int | None, total: float | None) -> list[float] | None:
    """Return the epsilons as a list of floats, or None if they are None.

    Raise `WrongInput` unless they rise from above 0 to below a million, `repeats` is from 1 to 1000 and `total` is
    above 0; None is valid for each.
    """
    grid = None if epsilons is None else [float(epsilon) for epsilon in epsilons]
    if grid is not None:
        rising = bool(grid) and sorted(set(grid)) == grid and 0 < grid[0] <= grid[-1] < 1e6
        expect(rising, "", "epsilons in rising order above 0 and below a million", grid)
    if repeats is not None:
        valid = isinstance(repeats, int) and not isinstance(repeats, bool) and 1 <= repeats <= 1000
        expect(valid, "", "repeats as a whole number from 1 to 1000", repeats)
    if total is not None:
        expect_positive("", total=total)
    return grid


def _bound(total: float | None, run: ChargedRun) -> float:
    """Return the largest total epsilon of the design: `total`, or `TOTAL` by default, but at most `--limit`.

    For built-in data, which are public, there is no bound (infinity) unless `total` is given, even with `--limit`.
    """
    if total is None and run.source.builtin:
        return math.inf
    requested, limit = TOTAL if total is None else total, run.options.limit
    if limit is None:
        return requested
    expect_positive("", limit=limit)
    return min(requested, limit)


def _charged(run: ChargedRun, plan: Plan, planned: Callable[[Design], Plan], design: Design) -> bool:
    """Charge `plan`, and return True if its mechanism must now be executed.

    Return False after a dry run, and if the result of this command was published before. `planned` returns the plan of
    a design, and `design` is the design of `plan`. If the ledger has no room for the charge, raise `BudgetExceeded` and
    name a smaller design that fits into the ledger.
    """
    try:
        return run.charge(plan, what=f"crossover on {run.source.name}")
    except BudgetExceeded as refusal:
        if refusal.ledger is None:
            raise
        room = Ledger.open(refusal.ledger)

        def fits(smaller: Design) -> bool:
            return accounting.epsilon(room.total(planned(smaller).event), room.delta) <= room.limit

        ways = advice(lambda design: planned(design).epsilon, design, fits)
        raise BudgetExceeded(f"{refusal}; {ways}", ledger=refusal.ledger, needed=refusal.needed) from None


def _score_table(run: ChargedRun, shape: tuple[int, int, int]) -> np.ndarray:
    """Run the charged mechanism, and return its scores, of shape (sides, epsilons, repeats).

    They are noisy released scores, or exact scores on the public test rows of a built-in data set.
    """
    released: ComparisonScores = run.execute()
    if released.scores is not None:
        return released.scores
    test = run.test_rows
    assert test is not None
    began = time.perf_counter()
    scores = [correct(model, test) / len(test) for model in released.models]
    run.seconds += time.perf_counter() - began
    return np.array(scores).reshape(shape)
