"""Draw noise for releases, samples of rows and initial values.

An `Rng` holds three separate streams (sampling, noise, initialisation), each with a key of 256 bits from the operating
system's entropy, or from the seed if there is one.

1. Single numbers and choices are drawn by OpenDP, which handles floating point exactly; with a seed, by numpy.
2. Laplace noise for arrays is exact too (`_arrays`).
3. Gaussian noise for arrays and tensors is drawn by fast generators in float64, whatever the type of the exact value.
4. All arrays and tensors are released on a lattice, so that low-order bits carry nothing about the rows.

Why float64: float32 normal numbers are sparser than the lattice beyond 6.1 standard deviations, which a model of 2.7
million parameters draws once in 350 steps. There a release would show which sums it cannot come from. In float64 this
begins at 11 standard deviations on the CPU, whose largest draw has 13, and at 8 on a device, whose largest draw has
9.4. About one draw in 1e15 is so large.

A noisy release is one call that takes the exact value and its sensitivity. So neither can be forgotten, and
`privaware.testing.replay` can record every call and repeat it on neighbouring rows.

>>> rng = Rng(seed=7)
>>> float(rng.laplace(10.0, noise=0.001, sensitivity=1.0)) == 10.0
False
>>> rng.certified
False
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from privaware.errors import WrongInput
from privaware.noise._arrays import add_gaussian, add_laplace
from privaware.noise._opendp import noisy_max, noisy_number
from privaware.noise._positions import ExampleNumbers, PositionDraws
from privaware.noise._response import randomised_response, small_uniforms
from privaware.noise._streams import Streams

__all__ = ["LATTICE", "SMEAR", "Perturbed", "Rng", "lattice"]

LATTICE = 2.0**-12
"""Spacing of released values as a fraction of the noise scale; the spacing is rounded down to a power of two."""

SMEAR = 1000.0
"""Factor on the noise multiplier for the final noise of `Rng.perturb`, which hides the error of the minimiser."""


class Perturbed(Protocol):
    """The interface of a set of problems for `Rng.perturb`. Every array has one row for each problem.

    `solve(vectors)` maps random vectors one to one to the values to release. It stops at a gradient of norm at most
    `tolerance`, so its error has a norm of at most `slack`. `implied(released)` is the inverse map: it returns the
    vectors that lead to these values, and the log volume (the log determinant of the inverse map) there. `masks` names
    the columns that each problem uses.
    """

    @property
    def masks(self) -> np.ndarray: ...

    @property
    def tolerance(self) -> np.ndarray: ...

    @property
    def slack(self) -> np.ndarray: ...

    def solve(self, vectors: np.ndarray) -> np.ndarray: ...

    def implied(self, released: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


class Rng:
    """The random generator of one run.

    Without a seed its noise is fit for release. Then no copy of the generator draws the same numbers, in this process
    or in a forked or other process. With a seed a run can be repeated, and `certified` is False. No method charges
    anything: the caller charges a release before it draws the noise.

    Parameters
    ----------
    seed : int, optional
        The seed.
    """

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
            raise WrongInput(f"expected seed as a whole number >= 0, or none at all, got {seed!r}")
        self.seed = None if seed is None else int(seed)
        self._streams = Streams(self.seed)

    @property
    def certified(self) -> bool:
        """Whether values with noise of this generator may be released: True if it has no seed."""
        return self.seed is None

    @property
    def initial(self) -> np.random.Generator:
        """The stream for what needs no privacy noise: initial weights, candidate settings, training without noise.

        Private training draws its augmentation and dropout from the sampling stream (`by_example`).
        """
        return self._streams.cpu["initial"]

    # Methods that protect rows. Each takes the exact value and never returns it. `testing.Recorder` overrides them.

    def gaussian(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        """Return a value plus Gaussian noise of standard deviation `noise * sensitivity`.

        Parameters
        ----------
        exact : float, ndarray or Tensor
            The exact value.
        noise : float or array
            The noise multiplier.
        sensitivity : float or array
            The L2 sensitivity of `exact`.

        Returns
        -------
        float, ndarray or Tensor
            The noisy value, in the type of `exact`; arrays of integers become float64. Arrays and tensors are rounded
            to multiples of `lattice(noise * sensitivity)`.
        """
        if isinstance(exact, float):
            return self._scalar("gaussian", exact, noise * sensitivity)
        if isinstance(exact, np.ndarray):
            draw = np.asarray(self._streams.cpu["noise"].standard_normal(exact.shape))
            return _on_lattice(exact, draw, noise * sensitivity)
        return self._gaussian_tensor(exact, noise * sensitivity)

    def laplace(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        """Return a value plus Laplace noise of scale `noise * sensitivity`.

        Parameters
        ----------
        exact : float or ndarray
            The exact value.
        noise : float or array
            The noise multiplier.
        sensitivity : float or array
            The L1 sensitivity of `exact`.

        Returns
        -------
        float or ndarray
            The noisy value, in the type of `exact`; arrays of integers become float64. Arrays are rounded to multiples
            of `lattice(noise * sensitivity)`.
        """
        if isinstance(exact, float):
            return self._scalar("laplace", exact, noise * sensitivity)
        scale = np.asarray(noise * sensitivity, dtype=float)
        noisy = add_laplace(exact, scale, np.asarray(lattice(scale)), self._streams.cpu["noise"])
        return noisy.astype(exact.dtype if exact.dtype.kind == "f" else float)

    def choose(self, exact: np.ndarray, *, epsilon: float, sensitivity: float) -> int:
        """Return the index of the largest score after exponential noise, which is epsilon-DP.

        The noise has the scale `2 * sensitivity / epsilon`.

        Parameters
        ----------
        exact : ndarray
            The exact scores.
        epsilon : float
            The epsilon of the guarantee.
        sensitivity : float
            The most by which one row can change any score.

        Returns
        -------
        int
            The chosen index.
        """
        scale = 2 * sensitivity / epsilon
        if self.seed is not None:
            return int(np.argmax(exact + self._streams.cpu["noise"].exponential(scale, len(exact))))
        return int(noisy_max(scale)(np.ascontiguousarray(exact, dtype=float)))

    def respond(
        self, exact: np.ndarray, *, epsilon: float, classes: int, candidates: np.ndarray | None = None
    ) -> np.ndarray:
        """Return randomised responses to class codes.

        A code is kept with probability `e**epsilon / (e**epsilon + classes - 1)`, otherwise replaced by another class,
        each with the same probability.

        Parameters
        ----------
        exact : ndarray
            The exact class codes.
        epsilon : float
            The epsilon of the guarantee for each row.
        classes : int
            Number of classes.
        candidates : ndarray, optional
            A public mask (rows, classes). A row's response is one of its k candidates. Its code is kept with
            probability `e**epsilon / (e**epsilon + k - 1)` if it is a candidate; otherwise all k candidates have the
            same probability.

        Returns
        -------
        ndarray
            The responses.
        """
        stream = self._streams.cpu["noise"]
        if candidates is not None:
            return randomised_response(exact, candidates, epsilon, stream)
        odds = (classes - 1) * math.exp(-epsilon)
        other = (exact + stream.integers(1, classes, size=exact.shape)) % classes
        return np.where(small_uniforms(exact.shape, stream) < odds / (1 + odds), other, exact)

    def perturb(
        self,
        problem: Perturbed,
        *,
        distribution: str,
        noise: np.ndarray,
        sensitivity: np.ndarray,
        volume: np.ndarray,
        price: tuple[Any, ...],
    ) -> np.ndarray:
        """Release the solutions of problems that are perturbed by random vectors (objective perturbation).

        `solve` is not exact, so a second draw from the same distribution, with 1000 times the noise multiplier, hides
        its error.

        Parameters
        ----------
        problem : Perturbed
            The problems.
        distribution : str
            "gaussian", or "gamma" for a density proportional to `exp(-|vector| / scale)`.
        noise : ndarray
            The noise multiplier of each problem; random vectors have the scale `noise * sensitivity`.
        sensitivity : ndarray
            The most by which one row moves the vector that a release implies, for each problem.
        volume : ndarray
            The most by which one row changes the log volume, for each problem.
        price : tuple of Event
            The event that each problem costs, as the caller has proven. Drawing does not use it.

        Returns
        -------
        ndarray
            The released values, one row for each problem.
        """
        vectors = (noise * sensitivity)[:, None] * self._vectors(distribution, problem.masks)
        exact = problem.solve(vectors)
        smear = (2 * SMEAR * noise * problem.slack)[:, None]
        return _on_lattice(exact, self._vectors(distribution, problem.masks), smear)

    def iterate(
        self,
        initial: np.ndarray,
        maps: Sequence[Callable[[np.ndarray], np.ndarray]],
        *,
        noise: float,
        sensitivity: float,
        tail: int = 0,
    ) -> np.ndarray:
        """Apply maps in turn, each followed by Gaussian noise, and return the last value only, on the lattice.

        Nothing is charged here: the caller charges the event of these maps before.

        Parameters
        ----------
        initial : ndarray
            The public start.
        maps : sequence of callables
            The maps. None may increase the distance of two points. One row may change one map only, by at most
            `sensitivity` at any point.
        noise : float
            The noise multiplier; the noise after each map has the standard deviation `noise * sensitivity`.
        sensitivity : float
            The L2 sensitivity of a map.
        tail : int
            Number of further draws of noise after the last map.

        Returns
        -------
        ndarray
            The last value.
        """
        at, scale = initial, noise * sensitivity
        for move in maps:
            at = move(at) + scale * self._streams.cpu["noise"].standard_normal(initial.shape)
        draw = math.sqrt(tail) * self._streams.cpu["noise"].standard_normal(initial.shape)
        return _on_lattice(at, draw, scale)

    def runs(self, *, eta: float, gamma: float) -> int:
        """Draw a secret number of runs, at least one.

        Parameters
        ----------
        eta, gamma : float
            Parameters of the truncated negative binomial distribution; the logarithmic distribution if `eta` is 0.
            Raise `WrongInput` unless `eta` is at least 0 and `gamma` between 0 and 1.

        Returns
        -------
        int
            The number of runs.

        Examples
        --------
        >>> runs = [Rng(seed=seed).runs(eta=1.0, gamma=0.1) for seed in range(2000)]
        >>> min(runs), bool(abs(np.mean(runs) - 10) < 1)
        (1, True)
        """
        if eta < 0 or not 0 < gamma < 1:
            raise WrongInput(f"expected eta >= 0 and gamma in (0, 1), got {eta!r} and {gamma!r}")
        stream = self._streams.cpu["noise"]
        while True:
            runs = stream.negative_binomial(eta, gamma) if eta else stream.logseries(1 - gamma)
            if runs:
                return int(runs)

    def spawn(self) -> Rng:
        """Return a separate generator for a part of the work, possibly in another process.

        It has a seed, drawn from the stream `initial`, only if this generator has a seed.
        """
        return Rng(None if self.seed is None else int(self.initial.integers(2**63)))

    # Methods that choose rows.

    def poisson(self, rows: int, rate: float) -> np.ndarray:
        """Return a mask over `rows` rows; each entry is True independently with probability `rate` (at rate 1 all)."""
        return self.by_position().sample(0, rows, rate)

    def poisson_indices(self, rows: int, rate: float, samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw several Poisson samples at once; return row positions (samples, width) and a mask of the valid ones.

        `rate` must be above 0 and below 1. The gaps between sampled rows are independent and geometric. So a draw is
        needed for each sampled row only. `width` is the size of the largest sample. Valid positions of a sample ascend;
        the others, after them, are 0.
        """
        mean, scale = rate * rows, -1 / math.log1p(-rate)
        width = int(mean + 5 * math.sqrt(mean)) + 16
        last = np.full((samples, 1), -1.0)
        parts: list[np.ndarray] = []
        while not parts or (last < rows).any():
            gaps = self._streams.cpu["sampling"].standard_exponential((samples, width))
            gaps *= scale
            np.floor(gaps, out=gaps)
            gaps += 1.0
            gaps[:, :1] += last
            parts.append(np.cumsum(gaps, 1, out=gaps))
            last = gaps[:, -1:]
        positions = parts[0] if len(parts) == 1 else np.concatenate(parts, 1)
        inside = positions < rows
        most = int(inside.any(0).sum())
        return np.where(inside, positions, 0)[:, :most].astype(np.int64), inside[:, :most]

    def shuffle(self, rows: np.ndarray) -> None:
        """Put row positions into uniformly random order, in place, by the sampling stream."""
        self._streams.cpu["sampling"].shuffle(rows)

    def shuffle_each(self, samples: np.ndarray, inside: np.ndarray) -> None:
        """Put the valid row positions of each of several samples into uniformly random order, in place.

        The mask `inside` is True for valid positions, which come first in each row of `samples`. Their order is the one
        that a random permutation of the whole row gives them.
        """
        if len(samples) == 1:
            self.shuffle(samples[0, : int(inside.sum())])
        else:
            marked = np.where(inside, samples, -1)
            self._streams.cpu["sampling"].permuted(marked, axis=1, out=marked)
            samples[inside] = marked[marked >= 0]

    def shards(self, rows: int, shares: tuple[float, ...]) -> np.ndarray:
        """Return the number of each row's part, drawn independently: i with probability `shares[i] / sum(shares)`."""
        return self.by_position().shards(0, rows, shares)

    def by_position(self) -> PositionDraws:
        """Return draws for the rows of one sample or split, with a new key."""
        first, second = self._streams.cpu["sampling"].integers(2**64, size=2, dtype=np.uint64)
        return PositionDraws(key=(int(first), int(second)))

    def by_example(self, rows: int) -> ExampleNumbers:
        """Return a new key for what a training draws for each example (dropout, augmentation), and example numbers.

        The number of an example is its position. On a neighbour with one row less, `testing.Replayer` keeps the numbers
        of all other examples.
        """
        return ExampleNumbers(key=self.by_position().key, numbers=np.arange(rows))

    def uniforms(self, shape: tuple[int, ...], device: Any) -> Any:
        """Return a float64 tensor of uniform numbers in [0, 1) from the sampling stream, new at each graph replay."""
        return self._streams.on("sampling", device).uniform(shape)

    def counters(self, device: Any) -> list[Any]:
        """Return the tensors that drawing on `device`, not the CPU, changes; the capture of a graph restores them."""
        return [self._streams.on(stream, device).counter for stream in ("sampling", "noise")]

    def torch(self, stream: str, device: str = "cpu") -> Any:
        """Return a torch generator for `stream` ("sampling", "noise" or "initial") on a device.

        It must not protect rows: on CUDA its seed has 64 bits.
        """
        return self._streams.torch(stream, str(device))

    def state(self) -> dict[str, Any]:
        """Return the state from which a run resumes bit for bit. It is secret: for checkpoints, never for a release."""
        return self._streams.state()

    def state_without_noise(self) -> dict[str, Any]:
        """Return the state of the streams for sampling and initial values, for other ranks of the same training.

        The noise stream is not in it, so a generator that is restored from it draws noise of its own. It is secret.
        """
        state = self._streams.state()
        streams = {name: of for name, of in state["streams"].items() if name != "noise"}
        torch = {name: of for name, of in state["torch"].items() if name in ("sampling/cpu", "initial/cpu")}
        return {"seed": state["seed"], "streams": streams, "chacha20": {}, "torch": torch}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Rng:
        """Return the generator with this `state`; a stream that is not in it gets a new key, or starts from the seed.

        Raise `WrongInput` for a state of an older version that drew on a device.
        """
        rng = cls(state["seed"])
        rng._streams = Streams.restore(state)
        return rng

    def _vectors(self, distribution: str, masks: np.ndarray) -> np.ndarray:
        """Return a random vector of scale 1 for each row of `masks`; columns outside the mask are 0.

        `distribution` is "gaussian", or "gamma" for a density proportional to `exp(-|vector|)`.
        """
        stream = self._streams.cpu["noise"]
        draw = np.where(masks, stream.standard_normal(masks.shape), 0.0)
        if distribution == "gaussian":
            return draw
        length = np.maximum(np.linalg.norm(draw, axis=1), 1e-300)
        return draw * (stream.gamma(np.maximum(masks.sum(axis=1), 1)) / length)[:, None]

    def _scalar(self, kind: str, exact: float, scale: float) -> float:
        if self.seed is not None:
            stream = self._streams.cpu["noise"]
            draw = stream.laplace() if kind == "laplace" else stream.standard_normal()
            return exact + scale * float(draw)
        return float(noisy_number(kind, scale)(exact))

    def _gaussian_tensor(self, exact: Any, scale: Any) -> Any:
        import torch

        if exact.device.type == "cpu":
            normal, scales = self._streams.cpu["noise"], _row_scales(scale, exact)
            if scales is not None and exact.is_contiguous() and exact.dtype in (torch.float32, torch.float64):
                rows = exact.numpy().reshape(len(scales), -1)
                return torch.from_numpy(add_gaussian(rows, scales, lattice(scales), normal)).view(exact.shape)
            draw = torch.from_numpy(np.asarray(normal.standard_normal(tuple(exact.shape))))
        else:
            stream = self._streams.on("noise", exact.device)
            if stream.fits(exact, scale):
                return stream.noisy(exact, scale, LATTICE)
            draw = stream.normal(tuple(exact.shape))
        step = lattice(scale)
        draw.mul_(scale / step)
        draw = draw.add_(exact / step) if isinstance(step, torch.Tensor) else draw.add_(exact, alpha=1 / step)
        return draw.round_().to(exact.dtype).mul_(step)


def _on_lattice(exact: np.ndarray, draw: np.ndarray, scale: Any) -> np.ndarray:
    step = lattice(scale)
    noisy = np.round((exact + scale * draw) / step) * step
    return noisy.astype(exact.dtype if exact.dtype.kind == "f" else float)


def _row_scales(scale: Any, exact: Any) -> np.ndarray | None:
    """Return `scale` as (rows, 1) if each row of `exact` has one, as (1, 1) if it is one number, otherwise None."""
    shape = getattr(scale, "shape", ())
    if shape != () and (exact.ndim != 2 or shape != (len(exact), 1)):
        return None
    return np.asarray(scale, dtype=np.float64).reshape(-1, 1)


def lattice(scale: Any) -> Any:
    """Return the spacing of released values: the largest power of two that is at most `scale * LATTICE`.

    Parameters
    ----------
    scale : float, array or Tensor
        The noise scale.

    Returns
    -------
    float, array or Tensor
        The spacing. For a scale of 0 it is about 1e-300, in a tensor 0.

    Examples
    --------
    >>> float(lattice(1.0)) == 2.0**-12
    True
    """
    if hasattr(scale, "log2"):
        return (scale * LATTICE).log2().floor().exp2()
    return np.exp2(np.floor(np.log2(np.maximum(np.asarray(scale, dtype=float) * LATTICE, 1e-300))))[()]
