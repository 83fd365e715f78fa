"""What the page of unseen images shows: the share of the plain gain that `auto` keeps, and that of all three pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean
from typing import Any

from privaware.bench._shown import markdown
from privaware.bench._store import Cell
from research.papers import _unseen_tables_page as tables
from research.papers import _unseen_texts_page as texts
from research.papers._page import Page

__all__ = ["functions"]

ITEM = "benchmarks/unseen_images"
PLAIN = ("logistic regression", "network")
EARLIER = "logistic regression on earlier features"
"""On the features that `auto` took before, where that was measured: the better of all of them is compared with."""
PUBLIC = ", public network"
"""What follows the name of a method whose cell names the public network that its features are of."""
WEIGHED = ", weighed"
"""What follows that where the small prior stands beside it and parts are weighed by what each tells apart."""
BELOW = 0.01
"""How far the mean over seeds may be below the private constant."""


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """One set at one epsilon: the mean score of `auto` over seeds, beside the constants and the methods without noise.

    `without` is the score of `auto` where the public network is not installed, `before` that with the network before
    its parts were weighed, `public` that of logistic regression on what the network gives, the better where there are
    two; without such cells `auto` takes none. `ceiling` is the best of the other methods without
    noise on the rows that are scored, which favours them, and `highest` the best of all of them.
    """

    name: str
    epsilon: float
    facts: dict[str, Any]
    seeds: int
    score: float
    floor: float
    constant: float
    plain: tuple[float, ...]
    without: float
    before: float
    earlier: float | None = None
    public: float | None = None

    @property
    def ceiling(self) -> float:
        return max(self.plain if self.earlier is None else (*self.plain, self.earlier))

    @property
    def gains(self) -> tuple[float, float]:
        """Over the constant: of `auto`, and without privacy and public network."""
        return self.score - self.constant, self.ceiling - self.constant

    @property
    def gains_without(self) -> tuple[float, float]:
        """The same where the public network is not installed."""
        return self.without - self.constant, self.ceiling - self.constant

    @property
    def gains_before(self) -> tuple[float, float]:
        """The same with the public network before its parts were weighed."""
        return self.before - self.constant, self.ceiling - self.constant

    @property
    def gains_of_all(self) -> tuple[float, float]:
        """Of `auto`, and without privacy, be it with the public network."""
        return self.score - self.constant, max(self.ceiling, self.public or 0.0) - self.constant


def unseen(cells: list[Cell], kind: str, methods: tuple[str, ...]) -> list[Unseen]:
    """The sets with all that a row needs, by epsilon; `kind` is what their settings call them."""
    scores: dict[tuple[str, str, float], list[Cell]] = {}
    for cell in cells:
        method = cell.settings["method"] + (PUBLIC if "network" in cell.settings else "")
        method += WEIGHED if "weighed" in cell.settings else ""
        key = (cell.settings[kind], method, cell.settings.get("epsilon", 0.0))
        scores.setdefault(key, []).append(cell)

    def score(*key: Any) -> float:
        return mean(cell.result["score"] for cell in scores[key])

    def known(*key: Any) -> float | None:
        return score(*key) if key in scores else None

    def one(name: str, epsilon: float, without: list[Cell]) -> Unseen:
        before = scores.get((name, f"auto{PUBLIC}", epsilon), without)
        ours = scores.get((name, f"auto{PUBLIC}{WEIGHED}", epsilon), before)
        logistic = [known(name, f"{PLAIN[0]}{PUBLIC}{of}", 0.0) for of in ("", WEIGHED)]
        return Unseen(
            name=name,
            epsilon=epsilon,
            facts=ours[0].result,
            seeds=len(ours),
            score=mean(cell.result["score"] for cell in ours),
            without=score(name, "auto", epsilon),
            before=mean(cell.result["score"] for cell in before),
            floor=score(name, "private constant", epsilon),
            constant=score(name, "constant", 0.0),
            plain=tuple(score(name, each, 0.0) for each in methods),
            earlier=known(name, EARLIER, 0.0),
            public=max((value for value in logistic if value is not None), default=None),
        )

    return [
        one(name, epsilon, ours)
        for (name, method, epsilon), ours in sorted(scores.items(), key=lambda item: (item[0][2], item[0][0]))
        if method == "auto"
        and (name, "private constant", epsilon) in scores
        and all((name, each, 0.0) in scores for each in ("constant", *methods))
    ]


def shares(sets: list[Unseen]) -> str:
    """For each epsilon the shares without the public network, with it and weighed, and of the best there is with it."""
    rows = []
    for epsilon in sorted({one.epsilon for one in sets}):
        group = [one for one in sets if one.epsilon == epsilon]
        low = [one.name for one in group if one.score < one.floor - BELOW]
        seeds = " or ".join(map(str, sorted({one.seeds for one in group})))
        gains = [
            [one.gains_without for one in group],
            [one.gains_before for one in group],
            [one.gains for one in group],
            [one.gains_of_all for one in group],
        ]
        rows.append([f"{epsilon:g}", len(group), seeds, *map(share, gains), ", ".join(low) or "none"])
    head = ["epsilon", "sets", "seeds", "share without the public network", "with it, not weighed", "share with it"]
    head += ["of the best with it"]
    return markdown([*head, f"more than {BELOW:g} below the private constant"], rows)


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    """By name, for the template."""
    cells = page.cells(ITEM)
    sets = unseen(cells, "images", PLAIN)

    def every() -> str:
        rows = [
            [one.name, one.facts["rows"], one.facts["classes"], "grey" if one.facts["shape"][0] == 1 else "colour"]
            + [f"{one.epsilon:g}", one.facts["learner"]]
            + [f"{value:.3f}" for value in (one.score, one.before, one.without, one.floor, one.constant, *one.plain)]
            + ["" if value is None else f"{value:.3f}" for value in (one.earlier, one.public)]
            for one in sets
        ]
        head = ["set", "rows", "classes", "images", "epsilon", "takes", "`auto`", "not weighed"]
        head += ["without the public network", "private constant", "constant"]
        head += ["logistic, no privacy", "network, no privacy"]
        return markdown([*head, "logistic on earlier features", "logistic on the public network"], rows)

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
        read = [one for one in unseen(stored, "text", ("plain",)) if one.epsilon == epsilon]
        of_texts, of_all_texts = [one.gains for one in read], [one.gains_of_all for one in read]
        images = [one for one in sets if one.epsilon == epsilon]
        of_images, of_all = [one.gains for one in images], [one.gains_of_all for one in images]
        groups = {"tables": of_tables, "texts": of_texts, "images": of_images}
        groups["all together"] = [*of_tables, *of_texts, *of_images]
        groups["texts, of the best with the public network"] = of_all_texts
        groups["images, of the best with the public network"] = of_all
        groups["all together, of the best with them"] = [*of_tables, *of_all_texts, *of_all]
        rows = [
            [name, len(gains), *(f"{sum(one[at] for one in gains):.3f}" for at in (0, 1)), share(gains)]
            for name, gains in groups.items()
        ]
        return markdown(["data", "sets", "gain of `auto`", "gain without privacy", "share"], rows)

    def commits() -> str:
        return ", ".join(sorted({cell.run["commit"] for cell in cells}))

    return {"shares": lambda: shares(sets), "every": every, "begun": begun, "joint": joint, "commits": commits}


def share(gains: list[tuple[float, float]]) -> str:
    """The first gains over the second, both summed."""
    plain = sum(second for _, second in gains)
    return f"{sum(first for first, _ in gains) / plain:.3f}" if plain else ""
