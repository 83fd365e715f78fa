"""Networks, epsilons and schedules of Bao et al.

Epsilon is counted as they do (improved Renyi conversion, orders of TensorFlow Privacy 0.6.2) unless said otherwise.
Their schedules (batch 100; 500 epochs for FCNs, 300 for CNNs) are replaced by shorter ones of equal epsilon: FCNs see
40 epochs in Poisson samples of 1/60 of the rows, CNNs 20, with the noise multiplier for the stated epsilon. Initial
weights are those of Keras.
"""

from __future__ import annotations

from typing import Any

from research.papers._runner import Bench
from research.papers._training import plain, precision
from research.studies import Setting
from research.studies.random_weights import layers

PARTS = 60
RATES, PLAIN_RATES, PLAIN_CNN_RATES = (1.0, 2.0, 4.0), (0.1, 0.2, 0.5), (0.1, 0.3)
COARSE = (0.25, 1.0, 4.0)
"""Learning rates for epsilons, or networks, that are far apart."""
FCNS = {
    "mnist": ("bao.fcn.mnist.66762", "bao.fcn.mnist.9610"),
    "fashion_mnist": ("bao.fcn.fashion_mnist.38410", "bao.fcn.mnist.9610"),
    "svhn": ("bao.fcn.svhn.221066", "bao.fcn.svhn.39818"),
    "cifar10": ("bao.fcn.cifar10.636938", "bao.fcn.cifar10.19914"),
}
CNNS = {
    "mnist": ("bao.cnn.mnist.197130", "bao.cnn.mnist.56970"),
    "svhn": ("bao.cnn.svhn.1817930", "bao.cnn.svhn.600522"),
    "cifar10": ("bao.cnn.cifar10.1820330", "bao.cnn.cifar10.246554"),
}
INPUTS = {"mnist": "pca64", "fashion_mnist": "pca64", "svhn": "pca300", "cifar10": "pca300"}
FCN_EPSILON = {"mnist": 2.106, "fashion_mnist": 2.106, "svhn": 2.573, "cifar10": 2.33}
CNN_EPSILON = {"mnist": 4.387, "svhn": 5.382, "cifar10": 4.873}
ROWS = {"mnist": 60_000, "fashion_mnist": 60_000, "svhn": 42_000, "cifar10": 50_000}


def scheduled(
    bench: Bench, architecture: dict[str, Any], data: str, epsilon: float | None, epochs: int, parts: int = PARTS
) -> Setting:
    """`epochs` in samples of 1 / parts of the rows, with the noise multiplier for epsilon, or without noise."""
    steps, batch = epochs * parts, ROWS[data] // parts
    noise = 0.0 if epsilon is None else bench.prices.noise(1 / parts, steps, epsilon)
    setting = Setting(
        architecture=architecture,
        batch=batch,
        steps=steps,
        lr=1.0,
        noise=noise,
        initial="glorot",
        precision=precision(bench),
    )
    return setting if noise else plain(setting)


def shown(rates: dict[str, float]) -> str:
    return ", ".join(f"{rate:g} ({place})" for place, rate in rates.items())


def all_but(architecture: dict[str, Any], *frozen: int) -> tuple[bool, ...]:
    """Flags of the layers that are trained."""
    return tuple(at not in frozen for at in range(len(layers(architecture))))


def last_two(architecture: dict[str, Any]) -> tuple[bool, ...]:
    count = len(layers(architecture))
    return tuple(at >= count - 2 for at in range(count))
