"""What the page of tables shows: `auto` beside the best other library in every cell, losses first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import Any

from privaware.bench._shown import markdown, spread
from privaware.bench._store import Cell
from privaware.workflow.auto import evidence
from research.papers import _declared_bounds as bounds
from research.papers._page import Page, measured_at
from research.papers._table_selection import measured_selection, selection_table

__all__ = ["functions"]

ITEM = "benchmarks/tables"
OURS = "auto"
SEEDS = (0, 1, 2)
"""Those that every method has; regressions with little to learn have more, for how far they are below the mean."""
REFERENCES = ("constant", "plain_trees")
RARE = 0.8
"""Where the larger class holds more than this share, AUC is compared and not accuracy."""
FAR_BEHIND = 0.03
"""Lead below minus this number is listed by table and epsilon."""
WORST = -1.0
"""R2 below this counts as this in averages: one diverged cell would outweigh all others."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One table at one epsilon: the score of each method by seed, and the references without privacy."""

    table: str
    epsilon: float
    metric: str
    scores: Mapping[str, Mapping[int, float]]
    constant: float
    ceiling: float
    learner: str

    @property
    def best_peer(self) -> str:
        return min((name for name in self.scores if name != OURS), key=self.lead_over)

    @property
    def lead(self) -> float:
        return self.lead_over(self.best_peer)

    def lead_over(self, peer: str) -> float:
        """The mean score of `auto` minus the mean score of a peer, over the seeds that both have."""
        seeds = set(self.scores[OURS]) & set(self.scores[peer])
        ours, other = (max(_mean([self.scores[name][seed] for seed in seeds]), WORST) for name in (OURS, peer))
        return ours - other

    @property
    def spread(self) -> float:
        """The larger standard deviation over seeds, of `auto` or the best peer."""
        return max(spread([*self.scores[name].values()])[1] for name in (OURS, self.best_peer))

    @property
    def at_least_equal(self) -> bool:
        return self.lead >= -self.spread


def many_classes() -> str:
    """Scores of candidates on the tables of five classes or more, from the study behind the rule."""
    names = ("constant", "linear with bins", "boosted", "waves")
    rows = []
    for cell in sorted(evidence("table"), key=lambda each: (each["epsilon"], each["classes"])):
        scores = cell["scores"]
        if "waves" in scores:
            facts = [cell["table"], cell["rows"], cell["columns"], cell["classes"], f"{cell['epsilon']:g}"]
            gain = f"{scores['waves'] - scores['boosted']:+.3f}"
            rows.append([*facts, *(f"{scores[name]:.3f}" for name in names), gain])
    head = ["table", "rows", "columns", "classes", "epsilon", "constant", "`linear` with bins", "`boosted`"]
    return markdown([*head, "random features", "gain"], rows)


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    """By name, for the template."""
    compared = _compared([cell for cell in page.cells(ITEM) if cell.settings["seed"] in SEEDS])

    def cells() -> str:
        head = ["table", "epsilon", "score", "`auto`", "takes", "best other", "which", "lead", "constant", "no privacy"]
        rows = [_row(one) for one in sorted(compared, key=lambda one: one.lead)]
        return markdown(head, rows)

    def summary() -> dict[str, Any]:
        by_epsilon = {
            epsilon: [one for one in compared if one.epsilon == epsilon]
            for epsilon in sorted({one.epsilon for one in compared})
        }
        return {
            "cells": len(compared),
            "equal": sum(one.at_least_equal for one in compared),
            "lead": _mean([one.lead for one in compared]),
            "far_behind": [f"{one.table} at {one.epsilon:g}" for one in compared if one.lead < -FAR_BEHIND],
            "by_epsilon": {
                key: (sum(one.at_least_equal for one in group), len(group), mean(one.lead for one in group))
                for key, group in by_epsilon.items()
            },
        }

    def seeds() -> str:
        counts = Counter(len(one.scores[OURS]) for one in compared)
        return ", ".join(f"0 to {n - 1} in {counts[n]} cells" if n > 1 else f"0 in {counts[n]} cells" for n in counts)

    def peers() -> str:
        names = sorted({name for one in compared for name in one.scores if name != OURS})
        rows = []
        for name in names:
            faced = [one for one in compared if name in one.scores]
            leads = [one.lead_over(name) for one in faced]
            won = sum(lead >= 0 for lead in leads)
            rows.append([name, len(faced), won, f"{mean(leads):+.3f}", sum(one.best_peer == name for one in faced)])
        return markdown(["peer", "cells", "`auto` at least equal", "mean lead", "best peer in"], rows)

    declared = Page("declared_bounds", results=page.results).cells(bounds.ITEM)
    return {
        "declared_bounds": lambda: bounds.declared_bounds(declared),
        "declared_gain": partial(bounds.declared_gain, declared),
        "cells": cells,
        "summary": summary,
        "peers": peers,
        "seeds": seeds,
        "count": lambda method: sum(len(one.scores.get(method, {})) for one in compared),
        "selection": selection_table,
        "many_classes": many_classes,
        "measured_selection": lambda: measured_selection(page.cells("benchmarks/table_selection")),
        "floors": lambda: _floors(page.cells(ITEM)),
        "commits": lambda: measured_at([cell for cell in page.cells(ITEM) if cell.settings["method"] == OURS]),
    }


def _compared(cells: Sequence[Cell]) -> list[Compared]:
    kept = [cell for cell in cells if "failed" not in cell.result]
    tables = dict.fromkeys(cell.settings["table"] for cell in kept)
    compared = []
    for table in tables:
        of_table = [cell for cell in kept if cell.settings["table"] == table]
        metric = _metric(of_table)
        reference = {
            name: _mean([c.result[metric] for c in of_table if c.settings["method"] == name]) for name in REFERENCES
        }
        for epsilon in sorted({cell.settings["epsilon"] for cell in of_table} - {0.0}):
            scores: dict[str, dict[int, float]] = {}
            here = [cell for cell in of_table if cell.settings["epsilon"] == epsilon]
            for cell in here:
                scores.setdefault(cell.settings["method"], {})[cell.settings["seed"]] = cell.result[metric]
            if OURS in scores and len(scores) > 1:
                learner = next(cell.result["learner"] for cell in here if cell.settings["method"] == OURS)
                compared.append(
                    Compared(
                        table=table,
                        epsilon=epsilon,
                        metric=metric,
                        scores=scores,
                        constant=reference["constant"],
                        ceiling=reference["plain_trees"],
                        learner=learner,
                    )
                )
    return compared


def _floors(cells: Sequence[Cell]) -> str:
    """Regressions with more seeds than the others: `auto` beside the exact mean of the training rows, seed by seed."""
    exact = {
        (cell.settings["table"], cell.settings["seed"]): cell.result["r2"]
        for cell in cells
        if cell.settings["method"] == "constant" and "r2" in cell.result
    }
    ours: dict[tuple[str, float], list[Cell]] = {}
    for cell in cells:
        if cell.settings["method"] == OURS and "r2" in cell.result:
            ours.setdefault((cell.settings["table"], cell.settings["epsilon"]), []).append(cell)
    rows = []
    for (table, epsilon), found in ours.items():
        if len(found) > len(SEEDS):
            scores = [cell.result["r2"] for cell in found]
            first = mean(cell.result["r2"] for cell in found if cell.settings["seed"] in SEEDS)
            constant = mean(exact[table, cell.settings["seed"]] for cell in found)
            learner = found[0].result["learner"]
            rows.append(
                [table, f"{epsilon:g}", learner, len(found), *(f"{x:.4f}" for x in (mean(scores), constant, first))]
            )
    head = ["table", "epsilon", "takes", "seeds", "`auto`", "exact mean", "`auto`, first three seeds"]
    return markdown(head, sorted(rows, key=lambda row: float(row[4])))


def _metric(cells: Sequence[Cell]) -> str:
    constant = next(cell.result for cell in cells if cell.settings["method"] == "constant")
    if "r2" in constant:
        return "r2"
    return "auc" if constant["accuracy"] > RARE and "auc" in constant else "accuracy"


def _mean(values: Sequence[float]) -> float:
    return mean(values) if values else float("nan")


def _row(one: Compared) -> list[str]:
    def shown(name: str) -> str:
        middle, deviation = spread([*one.scores[name].values()])
        return f"{middle:.3f} ± {deviation:.3f}"

    mark = "" if one.at_least_equal else " **behind**"
    lead = f"{one.lead:+.3f}{mark}"
    references = [f"{one.constant:.3f}", f"{one.ceiling:.3f}"]
    metric = {"r2": "R2", "auc": "AUC"}.get(one.metric, one.metric)
    peer = one.best_peer
    return [one.table, f"{one.epsilon:g}", metric, shown(OURS), one.learner, shown(peer), peer, lead, *references]
