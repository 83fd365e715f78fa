"""Tables of a benchmark: mean and spread over seeds, as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from privaware._validate import expect_one_of
from privaware.bench._cells import NO_NETWORK
from privaware.bench._grid import BASELINE
from privaware.bench._shown import markdown, spread
from privaware.bench._store import Cell

__all__ = ["FORMATS", "SummaryRow", "bench_table", "summary"]

FORMATS = ("markdown", "csv", "latex")
SPECIAL = str.maketrans({char: rf"\{char}" for char in "&%$#_{}"})


@dataclass(frozen=True, kw_only=True)
class SummaryRow:
    """The seeds of one learner, network, data set and epsilon (None: without noise): means and standard deviations.

    `score` is accuracy, or R2; `utility_loss` is 1 - score / score of the baseline of the same network and data, and
    None without one; `leakage` the largest tailored AUC of the attacks, and None without attacks.
    """

    learner: str
    network: str
    data: str
    epsilon: float | None
    seeds: int
    score: float
    spread: float
    utility_loss: float | None
    leakage: float | None
    seconds: float
    scores: tuple[float, ...] = ()
    leakages: tuple[float, ...] = ()


def summary(cells: Sequence[Cell]) -> list[SummaryRow]:
    """One row for each learner, network, data set and epsilon, in the order of the cells; failed cells are left out."""
    finished = [cell for cell in cells if "failed" not in cell.result]
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in finished:
        places = ("learner", "network", "data", "epsilon")
        groups.setdefault(tuple(cell.settings[name] for name in places), []).append(cell)
    baselines = {key[1:3]: _mean(group) for key, group in groups.items() if key[0] == BASELINE}
    rows = []
    for (learner, network, data, epsilon), group in groups.items():
        scores = tuple(float(cell.result["score"]) for cell in group)
        base = baselines.get((network, data)) or baselines.get((NO_NETWORK, data))
        leakages = tuple(value for cell in group if (value := _largest(cell)) is not None)
        middle, deviation = spread(scores)
        rows.append(
            SummaryRow(
                learner=learner,
                network=network,
                data=data,
                epsilon=epsilon,
                seeds=len(group),
                score=middle,
                spread=deviation,
                utility_loss=1 - middle / base if base else None,
                leakage=spread(leakages)[0] if leakages else None,
                seconds=spread([float(cell.run.get("seconds", 0.0)) for cell in group])[0],
                scores=scores,
                leakages=leakages,
            )
        )
    return rows


def _mean(group: Sequence[Cell]) -> float:
    return spread([float(cell.result["score"]) for cell in group])[0]


def _largest(cell: Cell) -> float | None:
    """The largest tailored AUC among the attacks on a cell's model."""
    return max((float(value) for name, value in cell.result.items() if name.startswith("auc ")), default=None)


def bench_table(rows: Sequence[SummaryRow], format: str) -> str:
    """Learners, networks and data down, epsilons across; as CSV one line for each row of the summary.

    >>> row = SummaryRow(learner="linear", network="-", data="digits", epsilon=1.0, seeds=2, score=0.9, spread=0.01,
    ...     utility_loss=None, leakage=None, seconds=0.1)
    >>> print(bench_table([row], "markdown"))
    | data | network | learner | epsilon 1 |
    | --- | --- | --- | --- |
    | digits | - | linear | 90.00 ± 1.00 |
    """
    expect_one_of("bench table", FORMATS, format=format)
    if format == "csv":
        return _csv(rows)
    epsilons = sorted({row.epsilon for row in rows if row.epsilon is not None})
    columns: list[float | None] = [*epsilons, None] if any(row.epsilon is None for row in rows) else [*epsilons]
    head = ["data", "network", "learner", *("no noise" if e is None else f"epsilon {e:g}" for e in columns)]
    places = dict.fromkeys((row.data, row.network, row.learner) for row in rows)
    known = {(row.data, row.network, row.learner, row.epsilon): row for row in rows}
    pm = "±" if format == "markdown" else r"$\pm$"
    lines = [[*place, *(_entry(known.get((*place, e)), pm) for e in columns)] for place in sorted(places)]
    return markdown(head, lines) if format == "markdown" else _latex(head, lines)


def _entry(row: SummaryRow | None, pm: str) -> str:
    if row is None:
        return ""
    middle = f"{100 * row.score:.2f}"
    return middle if row.seeds == 1 else f"{middle} {pm} {100 * row.spread:.2f}"


def _csv(rows: Sequence[SummaryRow]) -> str:
    names = [name for name in SummaryRow.__dataclass_fields__ if name not in ("scores", "leakages")]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        values = asdict(row)
        writer.writerow(["" if values[name] is None else values[name] for name in names])
    return out.getvalue().rstrip("\n")


def _latex(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A tabular with the rules of the package booktabs."""

    def joined(values: Sequence[str]) -> str:
        return " & ".join(value if r"$\pm$" in value else value.translate(SPECIAL) for value in values) + r" \\"

    body = [r"\toprule", joined(head), r"\midrule", *map(joined, lines), r"\bottomrule"]
    return "\n".join([rf"\begin{{tabular}}{{lll{'r' * (len(head) - 3)}}}", *body, r"\end{tabular}"])
