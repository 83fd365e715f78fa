"""What the page of unseen images shows: the share of the plain gain that `auto` keeps, and that of all three pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean
from typing import Any

from privaware.papers import _unseen_tables_page as tables
from privaware.papers import _unseen_texts_page as texts
from privaware.papers._page import Page, markdown
from privaware.papers._results import Cell

__all__ = ["functions"]

ITEM = "benchmarks/unseen_images"
PLAIN = ("logistic regression", "network")
EARLIER = "logistic regression on earlier features"
"""On the features that `auto` took before, where that was measured: the better of all of them is compared with."""
BELOW = 0.01
"""How far the mean over seeds may be below the private constant."""


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """One set at one epsilon: the mean score of `auto` over seeds, beside the constants and the methods without noise.

    `ceiling` is the better of those methods on the rows that are scored, which favours them.
    """

    name: str
    epsilon: float
    facts: dict[str, Any]
    seeds: int
    score: float
    floor: float
    constant: float
    plain: tuple[float, ...]
    earlier: float | None = None

    @property
    def ceiling(self) -> float:
        return max(self.plain if self.earlier is None else (*self.plain, self.earlier))

    @property
    def gains(self) -> tuple[float, float]:
        """Over the constant: of `auto`, and without privacy."""
        return self.score - self.constant, self.ceiling - self.constant


def unseen(cells: list[Cell], kind: str, methods: tuple[str, ...]) -> list[Unseen]:
    """The sets with all that a row needs, by epsilon; `kind` is what their settings call them."""
    scores: dict[tuple[str, str, float], list[Cell]] = {}
    for cell in cells:
        key = (cell.settings[kind], cell.settings["method"], cell.settings.get("epsilon", 0.0))
        scores.setdefault(key, []).append(cell)

    def score(*key: Any) -> float:
        return mean(cell.result["score"] for cell in scores[key])

    return [
        Unseen(
            name=name,
            epsilon=epsilon,
            facts=ours[0].result,
            seeds=len(ours),
            score=score(name, "auto", epsilon),
            floor=score(name, "private constant", epsilon),
            constant=score(name, "constant", 0.0),
            plain=tuple(score(name, each, 0.0) for each in methods),
            earlier=score(name, EARLIER, 0.0) if (name, EARLIER, 0.0) in scores else None,
        )
        for (name, method, epsilon), ours in sorted(scores.items(), key=lambda item: (item[0][2], item[0][0]))
        if method == "auto"
        and (name, "private constant", epsilon) in scores
        and all((name, each, 0.0) in scores for each in ("constant", *methods))
    ]


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    """By name, for the template."""
    cells = page.cells(ITEM)
    sets = unseen(cells, "images", PLAIN)

    def shares() -> str:
        rows = []
        for epsilon in sorted({one.epsilon for one in sets}):
            group = [one for one in sets if one.epsilon == epsilon]
            low = [one.name for one in group if one.score < one.floor - BELOW]
            seeds = " or ".join(map(str, sorted({one.seeds for one in group})))
            rows.append([f"{epsilon:g}", len(group), seeds, share([one.gains for one in group])])
            rows[-1].append(", ".join(low) or "none")
        head = ["epsilon", "sets", "seeds", "share of the plain gain"]
        return markdown([*head, f"more than {BELOW:g} below the private constant"], rows)

    def every() -> str:
        rows = [
            [one.name, one.facts["rows"], one.facts["classes"], "grey" if one.facts["shape"][0] == 1 else "colour"]
            + [f"{one.epsilon:g}", one.facts["learner"]]
            + [f"{value:.3f}" for value in (one.score, one.floor, one.constant, *one.plain)]
            + ["" if one.earlier is None else f"{one.earlier:.3f}"]
            for one in sets
        ]
        head = ["set", "rows", "classes", "images", "epsilon", "takes", "`auto`", "private constant", "constant"]
        return markdown([*head, "logistic, no privacy", "network, no privacy", "logistic on earlier features"], rows)

    def begun() -> str:
        """Sets whose methods without privacy are not measured yet."""
        known = {(one.name, one.epsilon) for one in sets}
        runs: dict[tuple[float, str], dict[str, list[Cell]]] = {}
        for cell in cells:
            key = (cell.settings.get("epsilon", 0.0), cell.settings["images"])
            runs.setdefault(key, {}).setdefault(cell.settings["method"], []).append(cell)
        rows = [
            [name, ours["auto"][0].result["rows"], f"{epsilon:g}", len(ours["auto"])]
            + [f"{mean(cell.result['score'] for cell in ours[method]):.3f}" for method in ("auto", "private constant")]
            for (epsilon, name), ours in sorted(runs.items())
            if "auto" in ours and "private constant" in ours and (name, epsilon) not in known
        ]
        return markdown(["set", "rows", "epsilon", "seeds", "`auto`", "private constant"], rows) if rows else "None."

    def joint(epsilon: float) -> str:
        """Tables, texts and images together, from the cells of their pages."""
        of_tables = tables.unseen_gains(Page("unseen_tables", results=page.results), epsilon)
        stored = Page("unseen_texts", results=page.results).cells(texts.ITEM)
        of_texts = [one.gains for one in unseen(stored, "text", ("plain",)) if one.epsilon == epsilon]
        of_images = [one.gains for one in sets if one.epsilon == epsilon]
        groups = {"tables": of_tables, "texts": of_texts, "images": of_images}
        groups["all together"] = [*of_tables, *of_texts, *of_images]
        rows = [
            [name, len(gains), *(f"{sum(one[at] for one in gains):.3f}" for at in (0, 1)), share(gains)]
            for name, gains in groups.items()
        ]
        return markdown(["data", "sets", "gain of `auto`", "gain without privacy", "share"], rows)

    def commits() -> str:
        return ", ".join(sorted({cell.run["commit"] for cell in cells}))

    return {"shares": shares, "every": every, "begun": begun, "joint": joint, "commits": commits}


def share(gains: list[tuple[float, float]]) -> str:
    """The first gains over the second, both summed."""
    plain = sum(second for _, second in gains)
    return f"{sum(first for first, _ in gains) / plain:.3f}" if plain else ""
