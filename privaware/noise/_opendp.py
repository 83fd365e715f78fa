"""Add noise to single numbers and make noisy choices with OpenDP, which handles floating point exactly."""

from __future__ import annotations

from typing import Any


def noisy_number(kind: str, scale: float) -> Any:
    """Return a function of OpenDP that takes a float and returns it plus noise, as a float.

    `kind` is "gaussian" or "laplace". `scale` is the standard deviation of Gaussian noise, or the scale of Laplace
    noise. The randomness is the operating system's.
    """
    from opendp.domains import atom_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import absolute_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    make = make_laplace if kind == "laplace" else make_gaussian
    return make(atom_domain(T=float, nan=False), absolute_distance(T=float), scale=float(scale))


def noisy_max(scale: float) -> Any:
    """Return a function of OpenDP that picks the index of the largest score after noise.

    It takes a one-dimensional float64 array of scores, adds independent exponential noise of scale `scale` to each, and
    returns the index of the largest sum.
    """
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_max
    from opendp.measures import max_divergence
    from opendp.metrics import linf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    domain = vector_domain(atom_domain(T=float, nan=False))
    return make_noisy_max(domain, linf_distance(T=float, monotonic=False), max_divergence(), scale=float(scale))
