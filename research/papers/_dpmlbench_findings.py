"""What DPMLBench found, examined again on stored cells: a finding holds, does not, or has not enough cells yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from privaware.bench import Result, Settings
from privaware.bench._store import Cell, Store
from research.papers import Item
from research.papers._dpmlbench_leakage import LEAKAGE
from research.papers._dpmlbench_means import Means, Verdict
from research.papers._runner import Bench

__all__ = ["FINDINGS", "Finding", "finding_items", "verdicts"]

NOT_YET = "not enough cells yet"
SMALL, LARGE = (0.2, 1.0, 4.0), (100.0, 1000.0)


def tanh(means: Means) -> Verdict | None:
    """Tanh lowers the error of DP-SGD on SimpleCNN from epsilon 1 on."""
    return _compared(means, ("tanh", "dpsgd"), "simple_cnn", (1.0, 4.0, *LARGE))


def reduction_large_models(means: Means) -> Verdict | None:
    """At small epsilons reducing dimensions (RGP) is what helps the largest network, VGG."""
    return _compared(means, ("rgp", "dpsgd"), "vgg", (1.0, 4.0))


def reduction_large_budget(means: Means) -> Verdict | None:
    """At large epsilons reducing dimensions (RGP) costs accuracy."""
    return _compared(means, ("dpsgd", "rgp"), "simple_cnn", LARGE)


def reduction_alone(means: Means) -> Verdict | None:
    """Without noise RGP is less accurate than SGD (Table 8)."""
    pairs = [
        (own, other)
        for (_, network, data, epsilon), own in means.having("accuracy", ("rgp",))
        if epsilon is None and (other := means.get("sgd", network, data, None)) is not None
    ]
    return _counted(pairs, lambda pair: pair[0] < pair[1]) if pairs else None


def group_norm(means: Means) -> Verdict | None:
    """Group norm improves ReLU at every epsilon, and tanh is better without it above epsilon 10 (Figure 4)."""
    relu = _pairs(means, ("relu with group norm", "relu"), SMALL + LARGE)
    both = _pairs(means, ("tanh", "tanh with group norm"), LARGE)
    if not relu or not both:
        return None
    return _counted(relu + both, lambda pair: pair[0] > pair[1])


def linear_model(means: Means) -> Verdict | None:
    """With Hand-DP a linear model is the most accurate at epsilon 0.2, and a network at 1000 (Table 7)."""
    first, last = (
        {
            network: value
            for (_, network, data, epsilon), value in means.having("accuracy", ("hand_dp",))
            if (data, epsilon) == ("cifar10", wanted)
        }
        for wanted in (0.2, 1000.0)
    )
    if "mlp" not in first or "mlp" not in last or len(first) < 2 or len(last) < 2:
        return None
    words = f"at 0.2 the best is {_best(first)}, at 1000 {_best(last)}"
    return max(first, key=first.__getitem__) == "mlp" != max(last, key=last.__getitem__), words


def labels_useful(means: Means) -> Verdict | None:
    """Label privacy costs less accuracy than row privacy (Figure 8)."""
    pairs = [
        (own, other)
        for key, own in means.having("accuracy", ("label_mst", "alibi"))
        if (other := means.get("dpsgd", *key[1:])) is not None
    ]
    return _counted(pairs, lambda pair: pair[0] > pair[1]) if pairs else None


def large_models(means: Means) -> Verdict | None:
    """By DP-SGD the largest network learns next to nothing up to epsilon 4."""
    return _highest(means, "dpsgd", "vgg", 20.0)


def public_rows(means: Means) -> Verdict | None:
    """With public rows (GEP) a ResNet20 is better at epsilon 1000 than SGD without privacy."""
    own, other = means.get("gep", "resnet20", "cifar10", 1000.0), means.get("sgd", "resnet20", "cifar10", None)
    return None if own is None or other is None else (own > other, f"{own:.2f} against {other:.2f}")


def _pairs(means: Means, networks: tuple[str, str], epsilons: Iterable[float]) -> list[tuple[float, float]]:
    values = [[means.get("dpsgd", network, "cifar10", epsilon) for network in networks] for epsilon in epsilons]
    return [(one, two) for one, two in values if one is not None and two is not None]


def _compared(means: Means, learners: tuple[str, str], network: str, epsilons: Iterable[float]) -> Verdict | None:
    """Whether the first learner is the more accurate one at all of these epsilons."""
    values = {
        epsilon: [means.get(learner, network, "cifar10", epsilon) for learner in learners] for epsilon in epsilons
    }
    known = {epsilon: pair for epsilon, pair in values.items() if None not in pair}
    if len(known) < len(values):
        return None
    words = "; ".join(f"epsilon {epsilon:g}: {pair[0]:.1f} against {pair[1]:.1f}" for epsilon, pair in known.items())
    return all((pair[0] or 0) > (pair[1] or 0) for pair in known.values()), words


def _counted(pairs: list[tuple[float, float]], holds: Callable[[tuple[float, float]], bool]) -> Verdict:
    count = sum(map(holds, pairs))
    return count == len(pairs), f"in {count} of {len(pairs)} comparisons"


def _best(accuracies: dict[str, float]) -> str:
    name = max(accuracies, key=accuracies.__getitem__)
    return f"{name} ({accuracies[name]:.1f})"


def _highest(means: Means, learner: str, network: str, limit: float) -> Verdict | None:
    values = [value for epsilon in SMALL if (value := means.get(learner, network, "cifar10", epsilon)) is not None]
    return (max(values) <= limit, f"highest accuracy {max(values):.1f}") if values else None


UTILITY: dict[str, Callable[[Means], Verdict | None]] = {
    "tanh": tanh,
    "reduction_large_models": reduction_large_models,
    "reduction_large_budget": reduction_large_budget,
    "reduction_alone": reduction_alone,
    "group_norm": group_norm,
    "linear_model": linear_model,
    "labels_useful": labels_useful,
    "large_models": large_models,
    "public_rows": public_rows,
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the paper says, and how our cells judge it."""

    name: str
    about: str
    judge: Callable[[Means], Verdict | None]

    @property
    def words(self) -> str:
        return (self.judge.__doc__ or "").splitlines()[0].rstrip(".")

    def verdict(self, means: Means) -> tuple[str, str]:
        """yes, no or a dash, and the numbers behind it."""
        judged = self.judge(means)
        return ("-", NOT_YET) if judged is None else ("yes" if judged[0] else "no", judged[1])


FINDINGS = [
    *(Finding(name=name, about="leakage", judge=judge) for name, judge in LEAKAGE.items()),
    *(Finding(name=name, about="utility", judge=judge) for name, judge in UTILITY.items()),
]


def verdicts(cells: Iterable[Cell], about: str) -> list[list[str]]:
    """Each finding about utility or leakage with our verdict: first those that do not hold, then those that do."""
    means = Means.of(cells)
    rows = [[finding.words, *finding.verdict(means)] for finding in FINDINGS if finding.about == about]
    return sorted(rows, key=lambda row: ("no", "yes", "-").index(row[1]))


def finding_items() -> list[Item]:
    """An item for each finding, judged on the finished cells of the folder that it is run in."""
    return [
        Item(
            id=f"dpmlbench/finding/{finding.about}/{finding.name}",
            title=f"Finding: {finding.words}",
            published={finding.name: 1.0},
            runs=[{"finding": finding.name}],
            quick=[{"finding": finding.name}],
            columns=("finding",),
            measured="holds",
            run=_judged,
            priced=False,
        )
        for finding in FINDINGS
    ]


def _judged(bench: Bench, settings: Settings) -> Result:
    cells = [] if bench.out is None else Store(bench.out / "cells.jsonl").read().values()
    [finding] = [each for each in FINDINGS if each.name == settings["finding"]]
    judged = finding.judge(Means.of(cells))
    return {"holds": None if judged is None else float(judged[0]), "words": [NOT_YET if judged is None else judged[1]]}
