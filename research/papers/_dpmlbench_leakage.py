"""The findings of DPMLBench on membership inference, as functions of the means of cells; None without enough cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean

from privaware.metrics import utility_loss
from research.papers._dpmlbench_means import ATTACKS, Key, Means, Verdict

__all__ = ["LEAKAGE"]

LABEL = ("label_mst", "alibi")
NO_ACCESS = ("pate", "private_knn", "dpgen", "private_set")
"""Their released network never sees a private row."""
GRADIENT = ("dpsgd", "tanh", "quantile_clip", "noise_decay", "focal", "hand_dp", "rgp", "gep")
HARDER = ("fashion_mnist", "svhn", "cifar10")
"""Data sets, the harder ones later; where SGD hardly leaks there is nothing to take a share of."""
SHIFTED = ("svhn",)
"""Data sets whose training and test files differ, so that members are told from others without any model: an area there
is not leakage alone (`research.comparisons.file_shift`)."""
NEAR = 0.53
"""An area that is called no attack."""
LITTLE = 0.25
"""A share of the leakage of SGD that is called a strong defence."""


def defence(means: Means) -> Verdict | None:
    """Row-private models resist the attacks up to epsilon 4."""
    areas = [
        (area, key)
        for name in ATTACKS
        for key, area in _attacked(means, name, GRADIENT + NO_ACCESS)
        if key[3] is not None and key[3] <= 4
    ]
    if not areas:
        return None
    largest, (learner, network, data, epsilon) = max(areas)
    where = f"{learner}, {network}, {data}, {epsilon:g}"
    return largest <= NEAR, f"largest mean area of {len(areas)} attacks up to epsilon 4: {largest:.3f} ({where})"


def budget(means: Means) -> Verdict | None:
    """The defence hardly weakens as epsilon grows to 1000."""
    shares = [
        share
        for key, _ in _attacked(means, ATTACKS[0], GRADIENT + NO_ACCESS)
        if key[3] == 1000 and (share := means.leakage(key)) is not None
    ]
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


def clipping_accuracy(means: Means) -> Verdict | None:
    """Clipping alone costs an acceptable part of the accuracy (here: at most a fifth)."""
    pairs = [
        (own, other)
        for (_, network, data, _), own in means.having("accuracy", ("clipping",))
        if (other := means.get("sgd", network, data, None)) is not None
    ]
    if not pairs:
        return None
    most = max(utility_loss(own, other) for own, other in pairs)
    return most <= 0.2, f"at most {most:.0%} of the accuracy of SGD is lost (networks: {len(pairs)})"


def clipping_larger(means: Means) -> Verdict | None:
    """On larger networks clipping alone defends less than noise at epsilon 1000."""
    pairs = [
        (area, other)
        for (_, network, data, _), area in means.having(ATTACKS[0], ("clipping",))
        if network != "simple_cnn" and (other := means.get("dpsgd", network, data, 1000.0, ATTACKS[0])) is not None
    ]
    if not pairs:
        return None
    words = ", ".join(f"{area:.3f} against {other:.3f}" for area, other in pairs)
    return all(area > other for area, other in pairs), f"black-box area {words}"


def features(means: Means) -> Verdict | None:
    """FocalLoss and RGP, which change the posteriors, leak less than DP-SGD at the same epsilon, by both attacks."""
    pairs = [
        (area, other)
        for name in ATTACKS
        for key, area in _attacked(means, name, ("focal", "rgp"))
        if key[3] is not None and key[3] >= 100
        if (other := means.get("dpsgd", *key[1:], name)) is not None
    ]
    if not pairs:
        return None
    less = sum(area < other for area, other in pairs)
    averages = " against ".join(f"{mean(column):.3f}" for column in zip(*pairs, strict=True))
    return less == len(pairs), f"less in {less} of {len(pairs)} comparisons from epsilon 100 on; mean area {averages}"


def no_access(means: Means) -> Verdict | None:
    """Models that never see a private row leak next to nothing."""
    areas = [area for _, area in _attacked(means, ATTACKS[0], NO_ACCESS)]
    return (max(areas) <= 0.52, f"largest mean black-box area {max(areas):.3f}") if areas else None


def networks(means: Means) -> Verdict | None:
    """Leakage has no strong relation to the network."""
    shares = _by_network(means)
    if len(shares) < 3:
        return None
    return max(shares.values()) - min(shares.values()) <= 0.15, _words(shares)


def vgg(means: Means) -> Verdict | None:
    """VGG leaks least, because many algorithms do not converge on it."""
    shares = _by_network(means)
    if "vgg" not in shares or len(shares) < 2:
        return None
    return min(shares, key=shares.__getitem__) == "vgg", _words(shares)


def data(means: Means) -> Verdict | None:
    """The harder the data, the smaller the share of SGD's leakage that remains."""
    known = _by_data(means)
    shares = {name: known[name] for name in HARDER if name in known}
    if len(shares) < 2:
        return None
    return list(shares.values()) == sorted(shares.values(), reverse=True), _words(shares)


def harder_data(means: Means) -> Verdict | None:
    """Without privacy the harder data are attacked better."""
    known = {name: means.get("sgd", "simple_cnn", name, None, ATTACKS[0]) for name in HARDER}
    areas = {name: area for name, area in known.items() if area is not None}
    if len(areas) < len(HARDER):
        return None
    words = ", ".join(f"{name} {area:.3f}" for name, area in areas.items())
    return list(areas.values()) == sorted(areas.values()), f"black-box area of SGD on SimpleCNN: {words}"


def mnist(means: Means) -> Verdict | None:
    """On MNIST even a model without privacy is hardly attacked."""
    areas = [area for name in ATTACKS for key, area in means.having(name, ("sgd",)) if key[2] == "mnist"]
    return (max(areas) <= NEAR, f"largest mean area of SGD {max(areas):.3f}") if areas else None


def labels(means: Means) -> Verdict | None:
    """Label-private models leak more than row-private ones."""
    places = {key[1:3] for key, _ in means.having(ATTACKS[0], LABEL)}
    private, rows = (
        [
            share
            for key, _ in means.having(ATTACKS[0], learners)
            if key[3] is not None and key[1:3] in places and (share := means.leakage(key)) is not None
        ]
        for learners in (LABEL, GRADIENT)
    )
    if not private or not rows:
        return None
    words = f"{mean(private):.0%} of the leakage of SGD remain with label privacy, {mean(rows):.0%} with row privacy"
    return mean(private) > mean(rows), words


def _attacked(means: Means, name: str, learners: Sequence[str]) -> list[tuple[Key, float]]:
    """The areas of an attack on models of these learners, without `SHIFTED` data sets."""
    return [(key, area) for key, area in means.having(name, learners) if key[2] not in SHIFTED]


def _by_network(means: Means) -> dict[str, float]:
    """The mean share of the leakage of SGD that remains on CIFAR-10, black-box."""
    return _mean_shares(means, lambda network, data: network if data == "cifar10" else None)


def _by_data(means: Means) -> dict[str, float]:
    """The mean share of the leakage of SGD that remains with SimpleCNN, black-box."""
    return _mean_shares(means, lambda network, data: data if network == "simple_cnn" else None)


def _mean_shares(means: Means, name_of: Callable[[str, str], str | None]) -> dict[str, float]:
    groups: dict[str, list[float]] = {}
    for key, _ in means.having(ATTACKS[0], GRADIENT):
        name = name_of(str(key[1]), str(key[2]))
        if name is not None and key[3] is not None and (share := means.leakage(key)) is not None:
            groups.setdefault(name, []).append(share)
    return {name: mean(shares) for name, shares in groups.items()}


def _words(shares: Mapping[str, float]) -> str:
    return "mean share of the leakage of SGD: " + ", ".join(f"{name} {share:.0%}" for name, share in shares.items())


LEAKAGE: dict[str, Callable[[Means], Verdict | None]] = {
    "defence": defence,
    "budget": budget,
    "clipping": clipping,
    "clipping_accuracy": clipping_accuracy,
    "clipping_as_noise": clipping_as_noise,
    "clipping_larger": clipping_larger,
    "features": features,
    "no_access": no_access,
    "networks": networks,
    "vgg": vgg,
    "data": data,
    "harder_data": harder_data,
    "mnist": mnist,
    "labels": labels,
}
