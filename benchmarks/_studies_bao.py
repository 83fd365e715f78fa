"""What the cells after Bao, Bauer and Bindschaedler share: their networks, epsilons and our schedules.

Epsilon is counted as they do (improved Renyi conversion, orders of TensorFlow Privacy 0.6.2) unless said otherwise.
Their schedules (batch 100; 500 epochs for FCNs, 300 for CNNs) are replaced by shorter ones of equal epsilon: FCNs see
40 epochs in Poisson samples of 1/60 of the rows, CNNs 20, with the noise that brings each to the epsilon told.
Weights are drawn as Keras draws them.
"""

from __future__ import annotations

from typing import Any

from benchmarks._studies import Bench, plain
from privaware.studies._trials import Setting
from privaware.studies.random_weights import layers

PARTS, FCN_EPOCHS, CNN_EPOCHS = 60, 40, 20
FCN_RATES, CNN_RATES = (1.0, 2.0, 4.0), (1.0, 2.0, 4.0)
PLAIN_RATES, PLAIN_CNN_RATES = (0.1, 0.2, 0.5), (0.1, 0.3)
COARSE, WIDE = (0.25, 1.0, 4.0), (0.25, 1.0, 3.0, 8.0)
"""Rates for epsilons, or networks, that are far apart."""
NETWORKS = {
    "mnist": ("bao.fcn.mnist.66762", "bao.fcn.mnist.9610"),
    "fashion_mnist": ("bao.fcn.fashion_mnist.38410", "bao.fcn.mnist.9610"),
    "svhn": ("bao.fcn.svhn.221066", "bao.fcn.svhn.39818"),
    "cifar10": ("bao.fcn.cifar10.636938", "bao.fcn.cifar10.19914"),
}
CONVOLUTIONS = {
    "mnist": ("bao.cnn.mnist.197130", "bao.cnn.mnist.56970"),
    "svhn": ("bao.cnn.svhn.1817930", "bao.cnn.svhn.600522"),
    "cifar10": ("bao.cnn.cifar10.1820330", "bao.cnn.cifar10.246554"),
}
INPUTS = {"mnist": "pca64", "fashion_mnist": "pca64", "svhn": "pca300", "cifar10": "pca300"}
FCN_EPSILON = {"mnist": 2.106, "fashion_mnist": 2.106, "svhn": 2.573, "cifar10": 2.33}
CNN_EPSILON = {"mnist": 4.387, "svhn": 5.382, "cifar10": 4.873}
PUBLISHED = {
    ("FCN", "mnist"): ("93.10 / 97.54", "94.94 / 96.34"),
    ("FCN", "fashion_mnist"): ("85.00 / 89.62", "86.74 / 87.70"),
    ("FCN", "svhn"): ("72.90 / 85.32", "76.10 / 84.12"),
    ("FCN", "cifar10"): ("40.12 / 57.14", "43.66 / 45.36"),
    ("CNN", "mnist"): ("96.88 / 99.42", "97.86 / 99.38"),
    ("CNN", "svhn"): ("82.72 / 91.68", "84.72 / 90.90"),
    ("CNN", "cifar10"): ("47.76 / 67.54", "50.22 / 61.46"),
}
ROWS = {"mnist": 60_000, "fashion_mnist": 60_000, "svhn": 42_000, "cifar10": 50_000}


def scheduled(
    bench: Bench, architecture: dict[str, Any], data: str, epsilon: float | None, epochs: int, parts: int = PARTS
) -> Setting:
    """`epochs` in samples of 1 / parts of the rows, with the noise for epsilon, or plainly."""
    steps, batch = epochs * parts, ROWS[data] // parts
    noise = 0.0 if epsilon is None else bench.noise(1 / parts, steps, epsilon)
    made = Setting(architecture=architecture, batch=batch, steps=steps, lr=1.0, noise=noise, initial="glorot")
    return made if noise else plain(made)


def shown(rates: dict[str, float]) -> str:
    return ", ".join(f"{rate:g} ({place})" for place, rate in rates.items())


def flags(architecture: dict[str, Any], *frozen: int) -> tuple[bool, ...]:
    return tuple(at not in frozen for at in range(len(layers(architecture))))


def last_two(architecture: dict[str, Any]) -> tuple[bool, ...]:
    count = len(layers(architecture))
    return tuple(at >= count - 2 for at in range(count))
