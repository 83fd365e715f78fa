"""Draw noise for releases, samples of rows and initial values.

An `Rng` holds three separate streams (sampling, noise, initialisation), each with a key of 256 bits from the operating
system's entropy, or from the seed if there is one.

1. Single numbers and choices are drawn by OpenDP, which handles floating point exactly; with a seed, by numpy.
2. Laplace noise for arrays is exact too (`_arrays`).
3. Gaussian noise for arrays and tensors is drawn by fast generators in float64, whatever the type of the exact value.
4. Released arrays and tensors are rounded to multiples of `lattice(scale)`, a power of two of at most 2^-12 times the
   noise scale, so that low-order bits carry nothing about the rows.

Why float64: beyond 6.1 standard deviations, neighbouring float32 normal numbers are farther apart than one multiple, so
a released value would rule out some exact values. A model of 2.7 million parameters draws such a number once in 350
steps. In float64 this begins at 11 standard deviations on the CPU, and at 8 on another device; about one draw in 1e15
is so large.

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
from privaware.noise._arrays import SMALLEST_STEP, add_gaussian, add_laplace
from privaware.noise._opendp import noisy_max, noisy_number
from privaware.noise._positions import ExampleNumbers, PositionDraws
from privaware.noise._response import randomised_response, small_uniforms
from privaware.noise._streams import Streams

LATTICE = 2.0**-12
"""Spacing of released values as a fraction of the noise scale; the spacing is rounded down to a power of two."""

SMEAR = 1000.0
"""Factor on the noise multiplier for the final noise of `Rng.perturb`, which hides the error of the minimiser."""


class Perturbed(Protocol):
    """The interface of a set of problems for `Rng.perturb`: minimisations, each perturbed by a random vector.

    Every array has one row, or one entry, for each problem. `masks` (problems, columns) is True for the columns that a
    problem uses. The exact solution of a problem is a one-to-one function of its random vector. `solve(vectors)` takes
    random vectors (problems, columns) and returns approximate solutions in the same shape. It stops where the norm of
    the gradient is at most `tolerance` (problems,), so the distance from the exact solution is at most `slack`
    (problems,). `implied(released)` is the inverse of the exact function: it returns the vectors whose exact solutions
    are `released`, and the log volume of each problem: the log of the absolute Jacobian determinant of the inverse
    function at `released`.
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
        The seed, at least 0; None takes keys from the operating system's entropy.
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
            The noise multiplier; an array is broadcast to `exact`.
        sensitivity : float or array
            The L2 sensitivity of `exact`; an array is broadcast to `exact`.

        Returns
        -------
        float, ndarray or Tensor
            The noisy value, in the type of `exact`; arrays of integers become float64. Arrays and tensors are rounded
            to multiples of `lattice(noise * sensitivity)`.
        """
        if isinstance(exact, float):
            return self._scalar("gaussian", exact, _noise_scale(exact, noise, sensitivity))
        if isinstance(exact, np.ndarray):
            draw = np.asarray(self._streams.cpu["noise"].standard_normal(exact.shape))
            return _on_lattice(exact, draw, _noise_scale(exact, noise, sensitivity))
        return self._gaussian_tensor(exact, _noise_scale(exact, noise, sensitivity))

    def laplace(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        """Return a value plus Laplace noise of scale `noise * sensitivity`.

        Parameters
        ----------
        exact : float or ndarray
            The exact value.
        noise : float or array
            The noise multiplier; an array is broadcast to `exact`.
        sensitivity : float or array
            The L1 sensitivity of `exact`; an array is broadcast to `exact`.

        Returns
        -------
        float or ndarray
            The noisy value, in the type of `exact`; arrays of integers become float64. Arrays are rounded to multiples
            of `lattice(noise * sensitivity)`.
        """
        if isinstance(exact, float):
            return self._scalar("laplace", exact, _noise_scale(exact, noise, sensitivity))
        scale = np.asarray(_noise_scale(exact, noise, sensitivity), dtype=float)
        noisy = add_laplace(exact, scale, np.asarray(lattice(scale)), self._streams.cpu["noise"])
        return noisy.astype(exact.dtype if exact.dtype.kind == "f" else float)

    def choose(self, exact: np.ndarray, *, epsilon: float, sensitivity: float) -> int:
        """Return the index of the largest score after noise; the choice is epsilon-DP.

        Independent exponential noise of scale `2 * sensitivity / epsilon` is added to each score.

        Parameters
        ----------
        exact : ndarray
            The exact scores, one-dimensional.
        epsilon : float
            The epsilon of the guarantee.
        sensitivity : float
            The most by which one row can change any score.

        Returns
        -------
        int
            The chosen index.
        """
        scale = _noise_scale(0.0, 2 / epsilon, sensitivity)
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
            A public mask (rows, classes); a row's response is one of its k candidates. A code that is a candidate is
            kept with probability `e**epsilon / (e**epsilon + k - 1)`, otherwise replaced by another candidate. For a
            code that is no candidate, all k have the same probability. A row without any raises `WrongInput`.

        Returns
        -------
        ndarray
            The responses, class codes in the shape of `exact`.
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

        `problem.solve` is not exact. So a second random vector of the same distribution is added to its result to hide
        the error; its scale is `2 * SMEAR * noise * problem.slack`, with `SMEAR` = 1000. The sum is rounded to
        multiples of `lattice` of this scale.

        Parameters
        ----------
        problem : Perturbed
            The problems, each perturbed by a random vector before it is solved.
        distribution : str
            "gaussian", or "gamma" for a density proportional to `exp(-|vector| / scale)`.
        noise : ndarray
            The noise multiplier of each problem (problems,); random vectors have the scale `noise * sensitivity`.
        sensitivity : ndarray
            The most by which one row moves the vector that a release implies, in L2 norm, for each problem.
        volume : ndarray
            The most by which one row changes the log volume of `problem.implied`, for each problem. It is for the
            proof and for tests only: the draws do not depend on it.
        price : tuple of Event
            The event that each problem costs, as the caller has proven. The draws do not depend on it.

        Returns
        -------
        ndarray
            The released values, one row for each problem.
        """
        vectors = _noise_scale(0.0, noise, sensitivity)[:, None] * self._vectors(distribution, problem.masks)
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
        """Apply maps one after the other, each followed by Gaussian noise, and return the last value only.

        Nothing is charged here: the caller charges the event of these maps before.

        Parameters
        ----------
        initial : ndarray
            The public value to which the first map is applied.
        maps : sequence of callables
            The maps. No map may increase the Euclidean distance of two points. One row may change one map only, by at
            most `sensitivity` at any point.
        noise : float
            The noise multiplier; the noise after each map has the standard deviation `noise * sensitivity`.
        sensitivity : float
            The L2 sensitivity of a map.
        tail : int
            Number of further draws of noise, of the same standard deviation, that are added after the last map.

        Returns
        -------
        ndarray
            The last value, in the shape of `initial`, rounded to multiples of `lattice(noise * sensitivity)`.
        """
        at, scale = initial, _noise_scale(initial, noise, sensitivity)
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
            Raise `WrongInput` unless `eta` is at least 0 and `gamma` is above 0 and below 1.

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
        """Return a new, separate generator for a part of the work, possibly in another process.

        If this generator has a seed, the new one gets a seed that is drawn from the stream `initial`. Otherwise it has
        no seed, and new keys from the operating system.
        """
        return Rng(None if self.seed is None else int(self.initial.integers(2**63)))

    # Methods that choose rows.

    def poisson(self, rows: int, rate: float) -> np.ndarray:
        """Return a mask over `rows` rows; each entry is True independently with probability `rate` (at rate 1 all)."""
        return self.by_position().sample(0, rows, rate)

    def poisson_indices(self, rows: int, rate: float, samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw several Poisson samples of rows at once, each row with probability `rate`, above 0 and below 1.

        Return an integer array (samples, width) of row positions from 0 to `rows - 1`, and a mask of the same shape
        that is True for valid positions. `width` is the size of the largest sample. The valid positions of a sample
        come first and ascend; all entries after them are 0. The gaps between sampled rows are drawn, which are
        independent and geometric, so the time grows with the number of sampled rows only.
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
        """Put the entries of `rows`, an array of row positions, into uniformly random order, in place.

        The order comes from the sampling stream.
        """
        self._streams.cpu["sampling"].shuffle(rows)

    def shuffle_each(self, samples: np.ndarray, inside: np.ndarray) -> None:
        """Put the valid row positions of each sample into uniformly random order, in place.

        `samples` (samples, width) has the positions of one sample in each row. The mask `inside`, of the same shape, is
        True for valid positions, which come first in each row and stay first. Their order is taken from a random
        permutation of the whole row.
        """
        if len(samples) == 1:
            self.shuffle(samples[0, : int(inside.sum())])
        else:
            marked = np.where(inside, samples, -1)
            self._streams.cpu["sampling"].permuted(marked, axis=1, out=marked)
            samples[inside] = marked[marked >= 0]

    def shards(self, rows: int, shares: tuple[float, ...]) -> np.ndarray:
        """Return a random part number, from 0, for each of `rows` rows, as an array.

        The number is i with probability `shares[i] / sum(shares)`, independently for each row.
        """
        return self.by_position().shards(0, rows, shares)

    def by_position(self) -> PositionDraws:
        """Return random draws for the rows of one sample or split, as a function of a row's position.

        The key of the draws is new in each call; it comes from the sampling stream.
        """
        first, second = self._streams.cpu["sampling"].integers(2**64, size=2, dtype=np.uint64)
        return PositionDraws(key=(int(first), int(second)))

    def by_example(self, rows: int) -> ExampleNumbers:
        """Return a new key and the numbers 0 to `rows - 1` for what a training draws for each example.

        Such draws are dropout and augmentation. They are a function of the key and of the example's number, which is
        its position. On a neighbour with one row less, `testing.Replayer` keeps the numbers of all other examples.
        """
        return ExampleNumbers(key=self.by_position().key, numbers=np.arange(rows))

    def uniforms(self, shape: tuple[int, ...], device: Any) -> Any:
        """Return a float64 tensor of this `shape` with uniform numbers in [0, 1), from the sampling stream.

        `device` is not the CPU. If the call was captured in a CUDA graph, each replay draws new numbers.
        """
        return self._streams.on("sampling", device).uniform(shape)

    def counters(self, device: Any) -> list[Any]:
        """Return the block counters of the sampling and the noise stream on `device`, which is not the CPU.

        They are the tensors that drawing on the device changes in place. The capture of a CUDA graph saves and restores
        them.
        """
        return [self._streams.on(stream, device).counter for stream in ("sampling", "noise")]

    def torch(self, stream: str, device: str = "cpu") -> Any:
        """Return a torch generator on `device` for `stream`: "sampling", "noise" or "initial".

        Every call with the same arguments returns the same generator. Do not draw privacy noise or samples of private
        rows from it: on CUDA its seed has 64 bits only.
        """
        return self._streams.torch(stream, str(device))

    def state(self) -> dict[str, Any]:
        """Return the state of all generators as nested dictionaries of plain numbers, for `restore`.

        A run resumes from it bit for bit. It is secret: for checkpoints, never for a release.
        """
        return self._streams.state()

    def state_without_noise(self) -> dict[str, Any]:
        """Return the CPU's streams for sampling and initial values as a state, for other ranks of the same training.

        Neither the noise stream nor generators of other devices are in it. A generator restored from it gets a new
        noise key if there is no seed; with a seed its noise stream starts again from the seed. The state is secret.
        """
        state = self._streams.state()
        streams = {name: of for name, of in state["streams"].items() if name != "noise"}
        torch = {name: of for name, of in state["torch"].items() if name in ("sampling/cpu", "initial/cpu")}
        return {"seed": state["seed"], "streams": streams, "chacha20": {}, "torch": torch}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Rng:
        """Return the generator with this `state`, which `state` or `state_without_noise` returned.

        A stream that is not in it gets a new key, or with a seed starts from the seed. Raise `WrongInput` for a state
        of an older version whose sampling or noise was drawn by a torch generator of a GPU.
        """
        rng = cls(state["seed"])
        rng._streams = Streams.restore(state)
        return rng

    def _vectors(self, distribution: str, masks: np.ndarray) -> np.ndarray:
        """Return a random vector of scale 1 for each row of the boolean mask `masks` (problems, columns), as float64.

        Columns outside the mask are 0. `distribution` is "gaussian" for standard normal entries, or "gamma" for a
        density proportional to `exp(-|vector|)`, with the L2 norm.
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
        draw = draw.add_(exact.double() / step) if isinstance(step, torch.Tensor) else draw.add_(exact, alpha=1 / step)
        return draw.round_().mul_(step).to(exact.dtype)


def _noise_scale(exact: Any, noise: Any, sensitivity: Any) -> Any:
    """Return `noise * sensitivity`; raise `WrongInput` if noise of this scale would be lost in the type of `exact`.

    The lattice must be at least `SMALLEST_STEP`, and for float32 at least 2^-126, the smallest normal number. The scale
    must be at most 2^1000, and for float32 2^120. It may be 0 where `noise` or `sensitivity` is 0. Only public numbers
    are compared, and none on a GPU, where a comparison would end the capture of a CUDA graph.
    """
    scale = noise * sensitivity
    if getattr(scale, "device", None) is not None and str(scale.device) != "cpu":
        return scale
    short = getattr(getattr(exact, "dtype", None), "itemsize", 8) < 8
    least, most = (2.0**-126 / LATTICE, 2.0**120) if short else (SMALLEST_STEP / LATTICE, 2.0**1000)
    values = np.asarray(scale, dtype=float)
    silent = (values == 0) & ((np.asarray(noise) == 0) | (np.asarray(sensitivity) == 0))
    if not (silent | ((values >= least) & (values <= most))).all():
        raise WrongInput(f"expected a noise scale (noise * sensitivity) from {least:.1e} to {most:.1e}, got {scale}")
    return scale


def _on_lattice(exact: np.ndarray, draw: np.ndarray, scale: Any) -> np.ndarray:
    step = lattice(scale)
    noisy = np.round((exact + scale * draw) / step) * step
    return noisy.astype(exact.dtype if exact.dtype.kind == "f" else float)


def _row_scales(scale: Any, exact: Any) -> np.ndarray | None:
    """Return `scale` as a float64 array with one number for each row of the tensor `exact`, or None.

    A number gives an array of shape (1, 1). A tensor of shape (rows, 1) gives this shape if `exact` is a matrix with
    the same number of rows. Any other `scale` gives None.
    """
    shape = getattr(scale, "shape", ())
    if shape != () and (exact.ndim != 2 or shape != (len(exact), 1)):
        return None
    return np.asarray(scale, dtype=np.float64).reshape(-1, 1)


def lattice(scale: Any) -> Any:
    """Return the spacing of released values: the largest power of two that is at most `scale * LATTICE` (2^-12).

    Parameters
    ----------
    scale : float, array or Tensor
        The noise scale.

    Returns
    -------
    float, array or Tensor
        The spacing, for each entry of `scale`; it is at least `SMALLEST_STEP`, also for a scale of 0. Of a tensor it is
        a tensor in float64.

    Examples
    --------
    >>> float(lattice(1.0)) == 2.0**-12
    True
    """
    if hasattr(scale, "log2"):
        return (scale.double() * LATTICE).log2().floor().exp2().clamp(min=SMALLEST_STEP)
    return np.exp2(np.floor(np.log2(np.maximum(np.asarray(scale, dtype=float) * LATTICE, SMALLEST_STEP))))[()]
