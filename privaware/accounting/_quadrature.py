"""Compute moments of losses under Gaussian noise: integrals of phi(x) exp(a(x) + z l(x)), with phi = N(0, noise^2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Profile = Callable[[Array], Array]
"""delta as a function of an array of epsilons."""
Curves = Callable[[Array], tuple[Array, Array]]
"""A function x -> (a(x), l(x)): the loss is l(x), and P has the density phi(x) exp(a(x))."""


def abscissae(curves: Curves, noise: float, shift: int, z: Array) -> tuple[Array, float]:
    """Return the ascending points x at which `log_mgf` samples its integrand, and the distance between two neighbours.

    `log_mgf` takes the same arguments. All entries of `z` must have the same real part.
    """
    return _abscissae(curves, noise, shift, float(np.real(z.flat[0])), float(np.abs(np.imag(z)).max()))


@lru_cache(maxsize=8)
def _abscissae(curves: Curves, noise: float, shift: int, real: float, far: float) -> tuple[Array, float]:
    """Return what `abscissae` returns for `z` with the real part `real` and absolute imaginary parts of up to `far`.

    phi is the density of the normal distribution with mean 0 and standard deviation `noise`. `curves(x)` returns
    (a(x), l(x)): the distribution P has the density phi(x) exp(a(x)), and l(x) is the privacy loss at x. P and the
    neighbouring distribution Q are mixtures of Gaussians; `shift` is the largest absolute mean of one of these
    Gaussians.
    """
    s = noise
    reach = (abs(real) + 2) * shift + 12 * s
    low, high = -reach, reach
    for _ in range(2):
        coarse = np.linspace(low, high, 1001)
        a, loss = curves(coarse)
        level = -(coarse**2) / (2 * s * s) + a + real * loss
        level -= level.max()
        inside = np.flatnonzero(level > -42)
        low, high = coarse[max(inside[0] - 1, 0)], coarse[min(inside[-1] + 1, 1000)]
    # Far out on the contour the integrand is divided by z^2, so less precision is needed there.
    need = max(8.0, 27 - 2 * math.log(max(far / max(abs(real), 1e-3), 1.0)))
    speed = float(np.abs(np.gradient(loss, coarse))[level > -need].max()) * far
    step = 2 * math.pi / (18 / s + 1.2 * speed)
    step = min(step, max(s * s, s / 40), (high - low) / 40)
    step = max(step, (high - low) / 200_000)
    return low + step * np.arange(int((high - low) / step) + 2), step


def log_mgf(curves: Curves, noise: float, shift: int, z: Array) -> Array:
    """Return ln of the integral of phi(x) exp(a(x) + z l(x)) over x, by the trapezoid rule, for each z of an array.

    `phi` is the density of the normal distribution with mean 0 and standard deviation `noise`. `curves(x)` returns
    (a(x), l(x)): the distribution P has the density phi(x) exp(a(x)), and l(x) is the privacy loss at x. P is a mixture
    of Gaussians, and `shift` is their largest absolute mean. All entries of `z` must have the same real part. The
    integrand is analytic and decays like a Gaussian, so the rule converges exponentially fast. The step only has to
    resolve the Gaussian, and the fastest oscillation exp(i Im(z) l(x)) where there is mass. The range covers all x at
    which the integrand at Re(z) is at least exp(-42) times its maximum.
    """
    s, real = noise, float(np.real(z.flat[0]))
    x, step = abscissae(curves, noise, shift, z)
    a, loss = curves(x)
    log_weight = -(x**2) / (2 * s * s) + math.log(step / (s * math.sqrt(2 * math.pi)))
    near_one = float(np.max(np.abs(a + real * loss))) < 30
    base = float(np.max(log_weight + a + real * loss))
    weight = np.exp(log_weight)
    out = np.empty(z.shape, dtype=z.dtype)
    for start in range(0, z.size, 256):  # in pieces, which need little memory
        some = z[start : start + 256, None]
        if near_one:  # keeps the digits of a tiny K
            out[start : start + 256] = np.log1p(np.expm1(a + some * loss) @ weight)
        else:
            inner = np.exp(log_weight + a + some * loss - base)
            out[start : start + 256] = base + np.log(inner.sum(axis=1))
    return out
