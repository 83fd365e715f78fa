"""What the template of docs/results/dpmlbench.md computes: our error rates and attacks beside the published ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from privaware.bench._shown import markdown
from privaware.bench._store import cell_key
from privaware.bench._summary import SummaryRow, summary
from research.papers import Item, find
from research.papers._dpmlbench_cells import DATA, NETWORKS
from research.papers._dpmlbench_figures import FIGURES, area_key
from research.papers._dpmlbench_findings import verdicts
from research.papers._dpmlbench_grid import ordered_cells
from research.papers._dpmlbench_leakage import NO_ACCESS
from research.papers._dpmlbench_means import ATTACKS, Key, Means
from research.papers._dpmlbench_plan import PLAN
from research.papers._page import Page
from research.papers.dpmlbench import ITEMS, PRINTED, STRONGEST

__all__ = ["functions"]

GRADIENT = ("hand_dp", "tanh", "focal", "dpsgd", "rgp", "gep", "noise_decay", "quantile_clip")
"""The algorithms whose published cells are to be met; ensembles, synthesis and label privacy have corrected budgets."""
HARDLY_LEARNT = 85.0
"""Error rate in per cent above which a network has learnt next to nothing of ten classes."""
TIE = "within two standard errors"
"""Why a cell that is less accurate than published counts as level with it."""
TEST_ROWS = 5_000
"""The rows that an error rate is measured on, here and in the paper."""
UNDEFINED = "undefined"
"""What stands for a share of the leakage of SGD where SGD hardly leaks."""
REASONS: Sequence[tuple[Mapping[str, Any], str]] = (
    ({"algorithm": "focal", "network": "resnet20"}, "another loss: Equation 3, not focal loss alone"),
    ({"algorithm": "quantile_clip", "data": "mnist", "epsilon": 1.0}, "hardly learnt, as published (± 11.05)"),
    ({"algorithm": "noise_decay", "data": "fashion_mnist", "epsilon": 0.2}, "seeds: from 56 to 90"),
    ({"algorithm": "hand_dp", "data": "svhn"}, "32 x 32 rather than 128 x 128 pixels"),
    ({"algorithm": "dpgen"}, "corrected variant: the published one has no guarantee"),
    ({"data": "fashion_mnist", "network": "simple_cnn", "epsilon": 1000.0}, "order of the rows, and averaged weights"),
    ({"data": "fashion_mnist", "network": "simple_cnn", "epsilon": 100.0}, "likely the same as at epsilon 1000"),
)
"""Why ours is less accurate in the cells with all of these facts; the first that fits counts."""


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    view = View(page)
    return {name: getattr(view, name) for name in dir(view) if not name.startswith("_")}


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One cell of Table 3 or 9: our error rate in per cent, its spread, and the published one if it can be read."""

    algorithm: str
    data: str
    network: str
    epsilon: float
    ours: float
    spread: float
    seeds: int
    published: float | None

    @property
    def hardly_learnt(self) -> bool:
        """Whether both errors are above `HARDLY_LEARNT`: neither of them wins then."""
        return self.published is not None and min(self.ours, self.published) > HARDLY_LEARNT

    @property
    def at_least_as_accurate(self) -> bool:
        return self.published is not None and self.ours <= self.published and not self.hardly_learnt

    @property
    def standard_error(self) -> float:
        """Of the difference: the seeds of ours, and the test rows of both."""
        of_tests = 2 * self.ours * (100 - self.ours) / TEST_ROWS
        return float((self.spread**2 / self.seeds + of_tests) ** 0.5)

    @property
    def why(self) -> str:
        """Why ours is less accurate, as far as it is known."""
        assert self.published is not None
        if self.ours - self.published <= 2 * self.standard_error:
            return TIE
        known = (words for facts, words in REASONS if facts.items() <= vars(self).items())
        return next(known, "not known")


PRINTED_AREAS: dict[str, float] = {
    key: area for name in ("areas5", "areas2") for key, area in find(f"dpmlbench/{name}").published.items()
}
"""Where both print one, that of Table 2."""


class View:
    """The cells of the page as its template takes them."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def _rows(self, item: Item) -> list[SummaryRow]:
        return summary(self._page.cells(item.id))

    def _compared(self) -> Iterator[Compared]:
        for item in ITEMS:
            if item.id.split("/")[1] not in ("table3", "table9", "labels"):
                continue
            for row in self._rows(item):
                assert row.epsilon is not None
                yield Compared(
                    algorithm=row.learner,
                    data=row.data,
                    network=row.network,
                    epsilon=row.epsilon,
                    ours=100 * (1 - row.score),
                    spread=100 * row.spread,
                    seeds=row.seeds,
                    published=item.published.get(f"{row.network} {row.epsilon:g}"),
                )

    def measured(self) -> int:
        """How many cells (of all seeds) are stored."""
        return sum(len(self._page.cells(id)) for id in self._page.items())

    def planned(self) -> int:
        return sum(len(item.runs) for item in ITEMS if item.run_population is not None)

    def missing(self) -> str:
        """What the plan wants before its last choice, which is everything else, and is not stored: counts of cells."""
        known = {cell.key for id in self._page.items() for cell in self._page.cells(id)}
        wanted = {cell_key(*pair): pair for choice in PLAN[:-1] for pair in ordered_cells(choice)}
        counts: dict[tuple[str, str, str], list[int]] = {}
        for key, (_, cell) in wanted.items():
            kind = "attacked" if cell["attacks"] else "further seeds" if cell["seed"] else "one seed"
            count = counts.setdefault((kind, cell["network"], cell["learner"]), [0, 0])
            count[key not in known] += 1
        rows = [[*place, str(lacking), str(there + lacking)] for place, (there, lacking) in counts.items() if lacking]
        return markdown(["cells", "network", "algorithm", "missing", "of"], rows) if rows else "Nothing."

    def met(self) -> str:
        """How many readable cells of the gradient algorithms are met, in words; those hardly learnt are apart."""
        readable = [one for one in self._compared() if one.published is not None and one.algorithm in GRADIENT]
        learnt = [one for one in readable if not one.hardly_learnt]
        if not learnt:
            return "No readable cell was measured yet."
        ahead = sum(one.at_least_as_accurate for one in learnt)
        ties = sum(one.why == TIE for one in learnt if not one.at_least_as_accurate)
        return (
            f"Of the {len(readable)} readable cells of the eight algorithms that train by gradients, both errors are "
            f"above {HARDLY_LEARNT:g}% in {len(readable) - len(learnt)}: these count neither as wins nor as losses. Of "
            f"the other {len(learnt)}, ours are at least as accurate in {ahead} ({ahead / len(learnt):.0%}), and level "
            f"in {ties} more"
        )

    def error_rates(self) -> str:
        """For each data set and network: algorithms down, epsilons across; published values in brackets."""
        known = list(self._compared())
        out = []
        for data in DATA:
            for network in NETWORKS:
                here = [one for one in known if (one.data, one.network) == (data, network)]
                if here:
                    out += [f"### {data}, {network}", _table(here)]
        return "\n\n".join(out) or "None yet."

    def misses(self, *, gradient: bool = True, above: float = 0.0) -> str:
        """Readable cells with an error more than `above` points over the published one, the largest difference first.

        Of the algorithms that train by gradients, or of the others.
        """
        behind = [
            (one.ours - one.published, one)
            for one in self._compared()
            if one.published is not None and (one.algorithm in GRADIENT) == gradient
            if one.ours - one.published > above and not one.hardly_learnt
        ]
        rows = [
            [
                one.algorithm,
                one.data,
                one.network,
                f"{one.epsilon:g}",
                _percent(one),
                f"{one.published:.2f}",
                f"{by:.2f}",
                one.why,
            ]
            for by, one in sorted(behind, key=lambda pair: -pair[0])
        ]
        head = ["algorithm", "data", "network", "epsilon", "ours", "published", "difference", "why"]
        return markdown(head, rows) if rows else "None."

    def accuracies(self, table: str) -> str:
        """Items whose accuracy is compared, such as Table 5: label, ours and published."""
        rows = []
        for item in ITEMS:
            if item.id.split("/")[1] != table:
                continue
            rank = {row: (row.data, row.network, row.epsilon is None, row.epsilon) for row in self._rows(item)}
            for row in sorted(rank, key=rank.__getitem__):
                values = {"network": row.network, "learner": row.learner, "epsilon": _word(row.epsilon)}
                key = " ".join(values[name] for name in item.columns)
                shown = f"{100 * row.score:.2f}" + (f" ± {100 * row.spread:.2f}" if row.seeds > 1 else "")
                areas = [self._beside((row.learner, row.network, row.data, row.epsilon), name) for name in ATTACKS]
                rows.append([row.data, *values.values(), shown, item.published.get(key, ""), *areas])
        head = ["data", "network", "learner", "epsilon", "accuracy", "published", "black box", "white box"]
        return markdown(head, rows) if rows else "Not run yet."

    @cached_property
    def _means(self) -> Means:
        return Means.of(cell for id in self._page.items() for cell in self._page.cells(id))

    def _area(self, key: Key, name: str) -> str:
        area = self._means.get(*key, name)
        return "" if area is None else f"{area:.3f}"

    def _beside(self, key: Key, name: str) -> str:
        """An area, with that of Table 2 or 5 in brackets."""
        area, printed = self._area(key, name), PRINTED_AREAS.get(area_key(key, name.removeprefix("auc ")))
        return area if printed is None or not area else f"{area} ({printed:.2f})"

    def figure(self, name: str) -> str:
        """A figure of the paper, drawn from our cells: its table and its plot."""
        from privaware.workflow._curves import Point, lines

        drawn = FIGURES[name].drawing(name, self._means)
        out = [f"### {FIGURES[name].title}"]
        for shown in drawn["tables"]:
            out.append(markdown(shown["head"], shown["rows"]))
        for stored in drawn["charts"]:
            points = [Point(**point) for point in stored["points"]]
            out.append(self._page.plot(name, FIGURES[name].title, lines(points, x=stored["x"], y=stored["y"])))
        return "\n\n".join(out if len(out) > 1 else [*out, "No cell yet."])

    def areas(self, attack: str) -> str:
        """Tables 4 and 10: the mean area of an attack, algorithms down, epsilons across; published black-box ones in
        brackets."""
        items = [item for item in ITEMS if item.id.split("/")[1] in ("table4", "table10")]
        rows = []
        for item in items:
            for learner, network, data in dict.fromkeys((r.learner, r.network, r.data) for r in self._rows(item)):
                entries = []
                for epsilon in PRINTED:
                    printed = item.published.get(f"{network} {epsilon:g}") if attack == "black_box" else None
                    area = self._area((learner, network, data, epsilon), f"auc {attack}")
                    entries.append(area if printed is None or not area else f"{area} ({printed:.2f})")
                if any(entries):
                    rows.append([data, network, learner, *entries])
        head = ["data", "network", "algorithm", *(f"epsilon {epsilon:g}" for epsilon in PRINTED)]
        return markdown(head, rows) if rows else "Not run yet."

    def strongest(self) -> str:
        """The name of the black box that reads log odds."""
        [attack] = STRONGEST
        return " ".join([attack["name"], *(f"{key}={value}" for key, value in attack.items() if key != "name")])

    def batch_difference(self) -> str:
        """The largest difference between attacks in batches of 8 and of 64."""
        differences = [
            abs(area - other)
            for name in ATTACKS
            for key, area in self._means.having(name)
            if (other := self._means.get(*key, f"{name} batch=8")) is not None
        ]
        return f"{max(differences):.3f}" if differences else "(none was run yet)"

    def leakage_of_all_data(self, epsilon: float) -> str:
        """The mean share of the leakage of SGD that remains at an epsilon, SVHN included, as a percentage."""
        keys = [key for key, _ in self._means.having(ATTACKS[0], (*GRADIENT, *NO_ACCESS)) if key[3] == epsilon]
        shares = [share for key in keys if (share := self._means.leakage(key)) is not None]
        return f"{fmean(shares):.0%}" if shares else "(not measured yet)"

    def leakages(self) -> str:
        """Figures 5 to 8: the share of the leakage of SGD that remains, by algorithm, network and data.

        A network and data set on which SGD hardly leaks has no line.
        """
        learners = [key[:3] for key, _ in self._means.having(ATTACKS[0]) if key[3] is not None]
        rows = [
            [data, network, learner, *(self._share((learner, network, data, epsilon)) for epsilon in PRINTED)]
            for learner, network, data in dict.fromkeys(learners)
        ]
        rows = [row for row in rows if not set(row[3:]) <= {"", UNDEFINED}]
        head = ["data", "network", "algorithm", *(f"epsilon {epsilon:g}" for epsilon in PRINTED)]
        return markdown(head, rows) if rows else "Not run yet."

    def _share(self, key: Key) -> str:
        if self._means.get(*key, ATTACKS[0]) is None:
            return ""
        if self._means.get("sgd", key[1], key[2], None, ATTACKS[0]) is None:
            return "no baseline yet"
        share = self._means.leakage(key)
        return UNDEFINED if share is None else f"{share:.0%}"

    def findings(self, about: str) -> str:
        """What the paper found about utility or leakage, and what our cells say."""
        cells = [cell for id in self._page.items() for cell in self._page.cells(id)]
        return markdown(["finding", "holds here", "our numbers"], verdicts(cells, about))


def _word(epsilon: float | None) -> str:
    return "None" if epsilon is None else f"{epsilon:g}"


def _percent(one: Compared) -> str:
    return f"{one.ours:.2f}" if one.seeds == 1 else f"{one.ours:.2f} ± {one.spread:.2f}"


def _table(here: Sequence[Compared]) -> str:
    places = {(one.algorithm, one.epsilon): one for one in here}

    def entry(one: Compared | None) -> str:
        if one is None:
            return ""
        published = "" if one.published is None else f" ({one.published:.2f})"
        shown = f"{_percent(one)}{published}"
        return f"**{shown}**" if one.at_least_as_accurate else shown

    names = list(dict.fromkeys(one.algorithm for one in here))
    rows = [[name, *(entry(places.get((name, epsilon))) for epsilon in PRINTED)] for name in names]
    return markdown(["algorithm", *(f"epsilon {epsilon:g}" for epsilon in PRINTED)], rows)
