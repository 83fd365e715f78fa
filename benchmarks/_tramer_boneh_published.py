"""What Tramer and Boneh printed of scattering features, and what other pages say: the numbers beside ours."""

from __future__ import annotations

PUBLISHED = {
    ("mnist", "linear"): "98.7 ± 0.0",
    ("fashion_mnist", "linear"): "89.7 ± 0.0",
    ("cifar10", "linear"): "67.0 ± 0.1",
    ("mnist", "cnn"): "98.7 ± 0.1",
    ("fashion_mnist", "cnn"): "89.0 ± 0.1",
    ("cifar10", "cnn"): "69.3 ± 0.2",
}
EARLIER = {
    ("mnist", "linear"): {1.2: 98.1, 2.0: 98.5, 2.32: 98.6, 2.5: 98.7, 2.93: 98.7},
    ("mnist", "cnn"): {1.2: 97.8, 2.0: 98.4, 2.32: 98.5, 2.5: 98.6, 2.93: 98.7},
    ("fashion_mnist", "linear"): {2.7: 89.5, 3.0: 89.7},
    ("fashion_mnist", "cnn"): {2.7: 88.7, 3.0: 89.0},
    ("cifar10", "linear"): {3.0: 67.0},
    ("cifar10", "cnn"): {3.0: 69.3},
}
TABLE2 = {
    "mnist": ("95.9 ± 0.0", "99.1 ± 0.0", "99.1 ± 0.0", "99.3 ± 0.0"),
    "fashion_mnist": ("82.6 ± 0.1", "90.9 ± 0.1", "91.0 ± 0.2", "91.5 ± 0.0"),
    "cifar10": ("58.0 ± 0.1", "67.8 ± 0.2", "70.7 ± 0.1", "71.1 ± 0.0"),
}
TABLE3 = {
    ("mnist", "linear"): (96.8, 98.8, 98.4, 0.2),
    ("fashion_mnist", "linear"): (85.3, 89.8, 88.7, 0.5),
    ("cifar10", "linear"): (59.5, 67.0, 65.4, 0.9),
    ("mnist", "cnn"): (95.6, 98.8, 98.1, 0.3),
    ("fashion_mnist", "cnn"): (77.8, 89.1, 87.2, 1.0),
    ("cifar10", "cnn"): (57.3, 69.5, 66.9, 1.6),
    ("mnist", "pixels"): (86.1, 98.2, 97.4, 0.5),
    ("fashion_mnist", "pixels"): (20.2, 86.2, 83.6, 1.8),
    ("cifar10", "pixels"): (39.4, 59.2, 52.5, 5.4),
}
TABLE19 = {
    ("mnist", "linear"): ("98.6 ± 0.1", "98.7 ± 0.0"),
    ("fashion_mnist", "linear"): ("89.6 ± 0.1", "89.7 ± 0.0"),
    ("cifar10", "linear"): ("66.8 ± 0.2", "67.0 ± 0.0"),
    ("mnist", "pixels"): ("98.0 ± 0.1", "98.1 ± 0.0"),
    ("fashion_mnist", "pixels"): ("86.1 ± 0.2", "86.0 ± 0.1"),
    ("cifar10", "pixels"): ("59.0 ± 0.4", "59.2 ± 0.1"),
}
POISSON_PIXELS = {"mnist": "97.95 ± 0.11", "fashion_mnist": "86.37 ± 0.28", "cifar10": "58.84 ± 0.56"}
"""From docs/results/tramer_boneh_cnn.md."""
LOWER = {"mnist": "2.38", "fashion_mnist": "2.29", "cifar10": "1.92"}
LOWER_PIXELS = {"mnist": "8.21", "fashion_mnist": "3.20", "cifar10": "5.29"}
"""What shuffling costs at least, at delta 1e-5 (computed in an earlier study, not here)."""
