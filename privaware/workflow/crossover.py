"""The crossover epsilon: the budget up to which the simpler of two models, or of two sets of columns, is the better.

Both are trained at each epsilon as often as asked, and the last crossing of their curves is told with an interval from
paired repeats, by straight lines in log epsilon. It is 0 when the simple model never wins (the paper's definition, the
maximum of an empty set, says infinity there, which would always choose it), and "above X" when it still wins at X, the
largest epsilon tried.

Paper: Bao, Bauer and Bindschaedler, Definition 2 and section VI-C. They report one curve each; differences of a point
on fewer than five repeats mean nothing, hence the interval.
Privacy: this releases many models: all of them, composed, are charged before a row is read. On the user's own rows a
quarter is kept aside, and only scores on it come out, noised by as much as costs no more than the trainings. On
built-in data the test part is public and scored exactly: an evaluation.
Use when: you choose between a simple and a complex model, on public data like yours, before you spend anything.

>>> made = crossover("wisconsin", simple="majority", complex="linear:steps=20", epsilons=[0.01, 3.0], repeats=2, seed=1)
>>> made.crossover.estimate < 3, made.evaluation, sorted(made.curves)
(True, True, ['complex', 'simple'])
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from privaware import accounting
from privaware._version import __version__
from privaware.errors import WrongInput
from privaware.events import to_json
from privaware.ledger import Ledger
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.workflow._charged_run import Charged, Say, charged, command_key, first_open, ledger_of, tell
from privaware.workflow._comparison import Compared, Comparison, right
from privaware.workflow._contenders import Contender, contender
from privaware.workflow._crossing import Crossing, crossing
from privaware.workflow._curves import Point, Result, lines, point
from privaware.workflow._output import claimed, show, told
from privaware.workflow._plan import Plan
from privaware.workflow._pricing import EVALUATION, planned
from privaware.workflow._source import Confirm, Source, resolve
from privaware.workflow.fit import expect_device

__all__ = ["crossover", "Crossover", "Crossing", "crossing"]

FILE = "crossover.json"


@dataclass(frozen=True, kw_only=True)
class Crossover(Result):
    """The crossover, both curves and the price of all of it."""

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

    def json(self) -> dict[str, Any]:
        """The fields of `privaware crossover --json`."""
        curves = {
            name: [{"epsilon": p.x, **{k: v for k, v in vars(p).items() if k not in ("x", "curve")}} for p in own]
            for name, own in self.curves.items()
        }
        crossed = None if self.crossover is None else self.crossover.json()
        compared = {name: one.json() for name, one in self.models.items()}
        return {**vars(self), "crossover": crossed, "curves": curves, "models": compared}

    def chart(self) -> Any:
        """Both curves with their intervals."""
        return lines([point for own in self.curves.values() for point in own], y="score")


def crossover(
    data: Any,
    *,
    simple: str | Mapping[str, Any],
    complex: str | Mapping[str, Any],
    epsilons: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0),
    repeats: int = 5,
    target: str | None = None,
    delta: float = 1e-5,
    settings: Mapping[str, Any] | None = None,
    schema: Schema | str | Path | None = None,
    accept_schema: bool = False,
    private_schema: bool = False,
    unit: str | None = None,
    cap: int = 1,
    task: str | None = None,
    ledger: Ledger | str | Path | None = None,
    limit: float | None = None,
    device: str = "cpu",
    dry_run: bool = False,
    out: str | Path | None = None,
    seed: int | None = None,
    say: Say | None = None,
    confirm: Confirm | None = None,
) -> Crossover:
    """Where `complex` overtakes `simple`, each trained `repeats` times at each of `epsilons`.

    Both are given as `privaware crossover` takes them; `settings` go to both learners. Data, schema and ledger are as
    for `fit`. With `out` a folder is made with crossover.json and a plot.
    """
    say = say or (lambda words: None)
    rng, folder = Rng(seed), None if out is None else Path(out)
    expect_device(device)
    levels = _checked(epsilons, repeats)
    sides = {"simple": contender(simple, settings), "complex": contender(complex, settings)}
    source = resolve(
        data,
        target=target,
        task=task,
        unit=unit,
        cap=cap,
        schema=schema,
        accept=accept_schema,
        private=private_schema,
        confirm=confirm,
        dry=dry_run,
    )
    made = planned(source, sides, levels, repeats, delta, device)
    if dry_run:
        tell(made, say)
        return _result(made, source, sides, None, levels, seed, 0.0, None)
    key = command_key("crossover", source, made, made.epsilon, seed, folder)
    with claimed(folder), ledger_of(ledger, source, folder, limit, made.epsilon, delta) as book:
        run = f"{key}-{first_open(book, key)}"
        done = charged(source, made, book, run, f"crossover on {source.name}", rng, say)
        began = time.perf_counter()
        table = _scores(done, made)
        seconds = done.seconds + time.perf_counter() - began
        result = _result(made, source, sides, table, levels, seed, seconds, folder)
        if folder is not None:
            with told(folder, "the charge stays, and the same command resumes once there is room"):
                facts = _facts(made, result, seed, done.entry.hash)
                show(folder / FILE, facts, lambda: book.finish(run))
        else:
            book.finish(run)
    if folder is not None:
        result.plot(folder / "crossover.svg")
    return result


def _checked(epsilons: Sequence[float], repeats: int) -> list[float]:
    levels = [float(epsilon) for epsilon in epsilons]
    if not levels or sorted(set(levels)) != levels or not 0 < levels[0] <= levels[-1] < 1e6:
        raise WrongInput(f"expected epsilons in rising order above 0 and below a million, got {levels!r:.120}")
    if isinstance(repeats, bool) or not isinstance(repeats, int) or not 1 <= repeats <= 1000:
        raise WrongInput(f"expected repeats as a whole number from 1 to 1000, got {repeats!r}")
    return levels


def _scores(done: Charged, made: Plan) -> np.ndarray:
    """(sides, epsilons, repeats): as they were released, or on public test rows."""
    released: Compared = done.released
    if released.scores is not None:
        return released.scores
    test = done.scored
    assert test is not None
    assert isinstance(made.mechanism, Comparison)
    exact = [right(model, test) / len(test) for model in released.models]
    return np.array(exact).reshape(made.mechanism.shape)


def _result(
    made: Plan,
    source: Source,
    sides: Mapping[str, Contender],
    table: np.ndarray | None,
    epsilons: Sequence[float],
    seed: int | None,
    seconds: float,
    folder: Path | None,
) -> Crossover:
    curves: dict[str, list[Point]] = {name: [] for name in sides}
    if table is not None:
        for name, own in zip(sides, table, strict=True):
            curves[name] = [point(name, epsilon, scores.tolist(), share=True) for epsilon, scores in zip(epsilons, own)]
    return Crossover(
        crossover=None if table is None else crossing(epsilons, table[0].T, table[1].T),
        curves=curves,
        epsilon=made.epsilon,
        delta=made.delta,
        models=dict(sides),
        repeats=int(made.settings["repeats"]),
        evaluation=source.builtin,
        note=EVALUATION if source.builtin else "all trainings and noised scores are charged",
        plan=made.sentences,
        certified=seed is None,
        seconds=seconds,
        out=None if folder is None else str(folder),
    )


def _facts(made: Plan, result: Crossover, seed: int | None, entry: str) -> bytes:
    """What may be shown: scores that were paid for, or those on public rows."""
    shown = {name: value for name, value in result.json().items() if name not in ("seconds", "out")}
    facts = {
        "format": 1,
        "version": __version__,
        **shown,
        "unit": made.schema.unit,
        "relation": made.schema.relation,
        "seed": seed,
        "events": [
            {"what": what, "event": to_json(event), "epsilon": accounting.epsilon(event, made.delta)}
            for what, event in made.parts
        ],
        "ledger": entry,
    }
    return json.dumps(facts, indent=1, allow_nan=False).encode()
