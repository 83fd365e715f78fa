"""The findings of DPMLBench on membership inference, as functions of the means of cells; None without enough cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import mean

from privaware.papers._dpmlbench_means import ATTACKS, Means, Verdict

__all__ = ["LEAKAGE"]

LABEL = ("label_mst", "alibi")
NO_ACCESS = ("pate", "private_knn", "dpgen", "private_set")
"""Their released network never sees a private row."""
GRADIENT = ("dpsgd", "tanh", "quantile_clip", "noise_decay", "focal", "hand_dp", "rgp", "gep")
NEAR = 0.53
"""An area that is called no attack."""
LITTLE = 0.25
"""A share of the leakage of SGD that is called a strong defence."""


def defence(means: Means) -> Verdict | None:
    """Row-private models resist the attacks up to epsilon 4."""
    areas = [
        (area, key)
        for name in ATTACKS
        for key, area in means.having(name, GRADIENT + NO_ACCESS)
        if key[3] is not None and key[3] <= 4
    ]
    if not areas:
        return None
    largest, (learner, network, _, epsilon) = max(areas)
    words = (
        f"largest mean area of {len(areas)} attacks up to epsilon 4: {largest:.3f} ({learner}, {network}, {epsilon:g})"
    )
    return largest <= NEAR, words


def budget(means: Means) -> Verdict | None:
    """The defence hardly weakens as epsilon grows to 1000."""
    shares = _shares(means, GRADIENT + NO_ACCESS, lambda epsilon: epsilon == 1000)
    if not shares:
        return None
    return mean(shares) <= LITTLE, f"at epsilon 1000 {mean(shares):.0%} of the leakage of SGD remain on average"


def clipping(means: Means) -> Verdict | None:
    """Clipping alone, without noise, defends."""
    shares = [
        share
        for key, _ in means.having(ATTACKS[0], ("clipping",))
        for name in ATTACKS
        if (share := means.leakage(key, name)) is not None
    ]
    if not shares:
        return None
    return max(shares) <= LITTLE, f"with clipping alone at most {max(shares):.0%} of the leakage of SGD remain"


def clipping_as_noise(means: Means) -> Verdict | None:
    """On SimpleCNN clipping alone is about as good a defence as epsilon 8."""
    alone, noisy = (
        means.get(learner, "simple_cnn", "cifar10", epsilon, ATTACKS[0])
        for learner, epsilon in (("clipping", None), ("dpsgd", 8.0))
    )
    if alone is None or noisy is None:
        return None
    return abs(alone - noisy) <= 0.02, f"black-box area {alone:.3f} with clipping alone, {noisy:.3f} at epsilon 8"


def features(means: Means) -> Verdict | None:
    """FocalLoss and RGP, which change the posteriors, leak less than DP-SGD at the same epsilon."""
    pairs = [
        (area, other)
        for key, area in means.having(ATTACKS[0], ("focal", "rgp"))
        if key[3] is not None and key[3] >= 100
        if (other := means.get("dpsgd", *key[1:], ATTACKS[0])) is not None
    ]
    if not pairs:
        return None
    less = sum(area < other for area, other in pairs)
    averages = " against ".join(f"{mean(column):.3f}" for column in zip(*pairs, strict=True))
    return less == len(pairs), f"less in {less} of {len(pairs)} comparisons from epsilon 100 on; mean area {averages}"


def no_access(means: Means) -> Verdict | None:
    """Models that never see a private row leak next to nothing."""
    areas = [area for _, area in means.having(ATTACKS[0], NO_ACCESS)]
    return (max(areas) <= 0.52, f"largest mean black-box area {max(areas):.3f}") if areas else None


def networks(means: Means) -> Verdict | None:
    """Leakage has no strong relation to the network."""
    return _alike(means, place=1, least=3)


def data(means: Means) -> Verdict | None:
    """The harder the data, the smaller the share of SGD's leakage that remains."""
    order = ("fashion_mnist", "svhn", "cifar10")
    shares = [_shares(means, GRADIENT, lambda epsilon: True, data=name) for name in order]
    if not all(shares):
        return None
    averages = [mean(each) for each in shares]
    words = ", ".join(f"{name} {share:.0%}" for name, share in zip(order, averages, strict=True))
    return averages == sorted(averages, reverse=True), f"mean share of the leakage of SGD: {words}"


def labels(means: Means) -> Verdict | None:
    """Label-private models leak more than row-private ones."""
    private = _shares(means, LABEL, lambda epsilon: True)
    rows = _shares(means, GRADIENT, lambda epsilon: True)
    if not private or not rows:
        return None
    words = f"{mean(private):.0%} of the leakage of SGD remain with label privacy, {mean(rows):.0%} with row privacy"
    return mean(private) > mean(rows), words


def _shares(
    means: Means, learners: Iterable[str], wanted: Callable[[float], bool], data: str | None = None
) -> list[float]:
    """Shares of the leakage of SGD that remain, black-box."""
    return [
        share
        for key, _ in means.having(ATTACKS[0], learners)
        if key[3] is not None and wanted(key[3]) and data in (None, key[2])
        if (share := means.leakage(key)) is not None
    ]


def _alike(means: Means, *, place: int, least: int) -> Verdict | None:
    groups: dict[str | float | None, list[float]] = {}
    for key, _ in means.having(ATTACKS[0], GRADIENT):
        if (share := means.leakage(key)) is not None:
            groups.setdefault(key[place], []).append(share)
    if len(groups) < least:
        return None
    averages = {name: mean(shares) for name, shares in groups.items()}
    words = ", ".join(f"{name} {share:.0%}" for name, share in averages.items())
    return max(averages.values()) - min(averages.values()) <= 0.15, f"mean share of the leakage of SGD: {words}"


LEAKAGE: dict[str, Callable[[Means], Verdict | None]] = {
    "defence": defence,
    "budget": budget,
    "clipping": clipping,
    "clipping_as_noise": clipping_as_noise,
    "features": features,
    "no_access": no_access,
    "networks": networks,
    "data": data,
    "labels": labels,
}
